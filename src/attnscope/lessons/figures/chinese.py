"""What stands behind a figure, in Chinese: its formula, its unit, and where its numbers come from.

The idea: these texts are put together from few pieces ("config of X", "section 2"), so the pieces
are translated, not the sums of them. A text is cut where a sentence pauses, outside brackets, and
each piece is looked up, as a whole or by its pattern. Symbols, fields, modules and names of papers
have no entry and stay as they are; of a field there is said what it means.

    attnscope.plan.flops, config of Qwen/Qwen3-0.6B; projections are not counted
    attnscope.plan.flops，Qwen/Qwen3-0.6B 的 config；不计投影

Not here: titles and notes, which are declared in both languages (registry.py).
"""

from __future__ import annotations

import re
from typing import Final

UNITS: Final[dict[str, str]] = {
    "tokens": "个 token",
    "steps": "步",
    "updates": "次更新",
    "degrees": "度",
    "forwards": "次前向",
    "positions": "个位置",
    "questions": "道题",
    "keys and values": "份 K/V",
    "numbers": "个数",
    "layers": "层",
    "FLOPs": "FLOP",
    "FLOPs per T^2 and layer": "FLOP（每层，每 T^2）",
    "FLOPs per T (T + 1) and layer": "FLOP（每层，每 T (T + 1)）",
    "FLOPs per T and layer": "FLOP（每层，每 T）",
    "bits": "bit",
    "entries": "个条目",
    "entries/token": "个条目/token",
    "billion parameters": "十亿参数",
    "mean score": "分（平均）",
    "tasks": "项任务",
}
"""Units of words; the others are symbols."""

FIELDS: Final[dict[str, str]] = {
    "_sliding_window_pattern": "每几层有一个全注意力层",
    "attn_logit_softcapping": "注意力分数的软上限",
    "compress_ratio_at_source": "各来源层的压缩比",
    "compress_ratios": "各层的压缩比",
    "d_k": "q、k 的维数",
    "d_model": "向量的维数",
    "head_dim": "每头维数",
    "hidden_size": "模型宽度",
    "index_head_dim": "索引键的维数",
    "index_n_heads": "索引的头数",
    "index_topk": "最多挑几个",
    "kv_lora_rank": "潜向量维数",
    "linear_conv_kernel_dim": "线性层卷积的抽头数",
    "linear_key_head_dim": "线性层 key 头的维数",
    "linear_num_key_heads": "线性层的 key 头数",
    "linear_num_value_heads": "线性层的 value 头数",
    "linear_value_head_dim": "线性层 value 头的维数",
    "max_position_embeddings": "原生上下文",
    "n_heads": "头数",
    "num_attention_heads": "Q 头数",
    "num_key_value_heads": "KV 头数",
    "partial_rotary_factor": "每头转动的比例",
    "qk_nope_head_dim": "每头 key 里不带位置的数",
    "qk_rope_head_dim": "带位置的 key 的维数",
    "rope_theta": "旋转的底数",
    "sliding_window": "滑动窗口的长度",
    "tokens": "句中的 token",
    "v_head_dim": "每头 value 的维数",
}
"""What a field of a config, or of the teaching world, means."""

PIECES: Final[dict[str, str]] = {
    # Formulas in words.
    "as reported": "照报告所写",
    "as chosen": "例子里选定",
    "cos(x_row, x_j) for each token j": "对每个 token j 算 cos(x_row, x_j)",
    "number of keys up to row": "row 及它之前的 key 的个数",
    "keys up to row": "只看 row 及它之前的 key",
    "columns of the head": "只取这个头的列",
    "q of the head": "q 取这个头的",
    "k the mean of the heads": "k 取各头的平均",
    "at key": "取落在 key 上的那一个",
    "number of outputs with a cache that differ from those without one":
        "有缓存与没有缓存的输出中，不相等的数的个数",
    "max(abs(row by row - one masked product))": "max(abs(逐行算 - 一次带掩码的乘积))",
    # Whose number it is.
    "an example length of the lesson": "课程举例的长度",
    "an example width of the lesson": "课程举例的宽度",
    "the lesson's example": "课程里的例子",
    "the lesson's example of three scores": "课程里三个分数的例子",
    "the lesson's example with a negative score": "课程里带负分的例子",
    "of 汽车 (the car)": "负的是「汽车」的分数",
    "the lesson on latents": "讲潜向量的那一课",
    "the dialogue that the lesson corrects": "课程所纠正的那段对话",
    "chosen for the lesson": "课程选定",
    "chosen for the example": "为例子选定",
    "the published config": "官方公布的 config",
    "example.additive_width": "example.additive_width（加性打分的宽度）",
    "device.h100.peak": "device.h100.peak（每秒最多多少 FLOP）",
    "device.h100.bandwidth": "device.h100.bandwidth（每秒最多从显存读多少字节）",
    # What an input is.
    "tokens of the prompt": "提示的 token 数",
    "tokens generated": "生成的 token 数",
    "the largest score of a head in one step": "某一步里，一个头的最大分数",
    "length of one arrow": "一支箭的长度",
    "length of the other": "另一支箭的长度",
    "degrees a token": "每个 token 转的度数",
    "tokens apart": "相距的 token 数",
    "a difference of two scores": "两个分数之差",
    "a difference that is common at d = 256": "d = 256 时常见的分数之差",
    "a number that stands for minus infinity": "用来顶替负无穷的数",
    "head width": "每头维数",
    "W_Q, W_K and W_V": "W_Q、W_K、W_V",
    "standard deviation of each entry": "每个分量的标准差",
    "as near initialisation": "与刚初始化时相近",
    "pairs of vectors drawn": "抽出的向量对数",
    "seed of numpy.random.default_rng": "numpy.random.default_rng 的种子",
    "a full circle in radians": "一整圈的弧度",
    "2 pi": "2π",
    "binary digits of a float32 number": "float32 数的二进制位数",
    "tokens drawn": "抽出的 token 数",
    "any length gives the same coefficient": "长度取多少，系数都一样",
    "one head for all": "所有头共用一个",
    "bits a byte": "一个字节的位数",
    "tokens in sight": "看得见的 token 数",
    "the new one among them": "连新的那个在内",
    "FP4 numbers": "FP4 数",
    # How it is come by.
    "each score divided by the sum of all": "每个分数除以总和",
    "independent terms": "各项相互独立",
    "numpy.exp in float32": "float32 下的 numpy.exp",
    "drawn with a seed": "按固定种子抽样",
    "last bits depend on the processor": "最后几位因处理器而异",
    "counted in a recurrence that runs": "让循环网络真的跑一遍，数出来的",
    "counted in a loop that runs": "让循环真的跑一遍，数出来的",
    "counted in a loop that runs over the teaching world": "让循环在教学世界上真的跑一遍，数出来的",
    "made by hand": "手工写成",
    "not learned by a model": "不是模型学出来的",
    "projections are not counted": "不计投影",
    "bits as reported": "bit 数照报告所写",
    "one weight for each number of q": "q 的每个数一个权重",
    "one for each number of k": "k 的每个数一个",
    "no cosine is above 1": "余弦不超过 1",
    "recorded in a training that ran": "让训练真的跑一遍，记录下来的",
    "largest score of all steps and seeds": "所有步、所有种子里最大的分数",
    "q and k are sqrt(d) long": "q 和 k 的长度都是 sqrt(d)",
    "one head": "一个头",
    "one score of every pair": "每一对一个分数",
    "the first pair turns by 1 radian a token": "第一对每个 token 转 1 弧度",
    # Papers and sheets.
    "NVIDIA H100 data sheet": "NVIDIA H100 数据表",
    "dense BF16": "稠密 BF16",
    "DeepSeek-V2 report": "DeepSeek-V2 报告",
    "DeepSeek-V4 technical report": "DeepSeek-V4 技术报告",
    "abstract": "摘要",
    "on the efficiency of inference": "讲推理效率处",
    "on average": "平均值",
    "mean over seven tasks": "七项任务的平均分",
    "inference time per sample": "每个样本的推理时间",
    "standard practice": "通行做法",
    "autoregressive decoding": "自回归解码",
    "its cost": "代价",
}  # fmt: skip

PATTERNS: Final[tuple[tuple[str, str], ...]] = (
    (r"(\S+) config\.json: layers", "{0} 的 config.json：层数"),
    (r"(\S+) config\.json: layers that (\S+) reads as full",
     "{0} 的 config.json：{1} 读作 full（全注意力）的层数"),
    (r"(\S+) config\.json: layers that (\S+) reads as (\S+)",
     "{0} 的 config.json：{1} 读作 {2} 的层数"),
    (r"(\S+\.json): d_k / n_heads", "{0}：d_k / n_heads（每头的维数）"),
    (r"(\S+\.json): (tokens\[\d+\])", "{0}：{1}（句中的一个 token）"),
    (r"columns (\d+) and (\d+)", "第 {0}、{1} 列"),
    (r"column (\d+)", "第 {0} 列"),
    (r"the causal weights of (\S+)", "{0} 一行加掩码的权重"),
    (r"config of (\S+)", "{0} 的 config"),
    (r"config of (\S+) and of (\S+)", "{0} 和 {1} 的 config"),
    (r"model card of (\S+)", "{0} 的模型卡"),
    (r"the rule of (\S+)", "{0} 的规则"),
    (r"(attnscope\S+) on (\S+)", "{0}，用 {1}"),
    (r"bytes of an? (\S+) number", "一个 {0} 数的字节数"),
    (r"numbers per (\S+) scale of one byte", "每个 {0} 缩放因子（一个字节）管几个数"),
    (r"an (\S+) scale per (\d+)", "每 {1} 个数一个 {0} 缩放因子"),
    (r"(\w+) as (\S+) tokens", "{0} 按 {1} 个 token 算"),
    (r"(tanh\(.+\)) of every pair", "每一对都算 {0}"),
    (r"tokens j by falling (.+)", "按 {0} 从大到小排列的 token j"),
    (r"(.+) over the keys up to row", "{0}，只看 row 及它之前的 key"),
    (r"(\w+), (\w+) and (\w+) (\d{4}) \((arXiv \S+)\), (.+)", "{0}、{1}、{2} {3}（{4}），{5}"),
    (r"([^;:,]+) et al\. (\d{4})", "{0} 等 {1}"),
    (r"section (\S+)", "第 {0} 节"),
    (r"table (\S+)", "表 {0}"),
    (r"(?:eq\.|equation) (\S+)", "式 {0}"),
    (r"([^;:,]+) \((\w[\w./-]*(?: [\w.]+)?)\)", "{0}（{1}）"),
)  # fmt: skip
"""Pieces with a name or a number in them, and what becomes of them; the names are pieces too."""

PAUSES: Final = {"; ": "；", ": ": "：", ", ": "，"}
"""Where a text is cut, the longest pause first, and what stands there in Chinese."""


def chinese(text: str) -> str:
    """A formula or a source in Chinese.

    >>> chinese("Dehghani et al. 2023, arXiv 2302.05442, section 2")
    'Dehghani 等 2023，arXiv 2302.05442，第 2 节'
    >>> chinese("Qwen/Qwen3-0.6B config.json: head_dim")
    'Qwen/Qwen3-0.6B 的 config.json：head_dim（每头维数）'
    >>> chinese("layers × (latent + rope) × bytes")
    'layers × (latent + rope) × bytes'
    """
    if text in PIECES:
        return PIECES[text]
    field = re.fullmatch(r"(\S+?)( config)?\.json: (\w+)", text)
    if field and field[3] in FIELDS:
        of = f"{field[1]} 的 config" if field[2] else field[1]
        return f"{of}.json：{field[3]}（{FIELDS[field[3]]}）"
    for pattern, words in PATTERNS:
        if found := re.fullmatch(pattern, text):
            return words.format(*map(chinese, found.groups()))
    for pause, comma in PAUSES.items():
        parts = _cut(text, pause)
        if len(parts) > 1:
            return comma.join(map(chinese, parts))
    return text


def unit(text: str) -> str:
    """A unit in Chinese.

    >>> unit("tokens"), unit("B/token"), unit("")
    ('个 token', 'B/token', '')
    """
    return UNITS.get(text, text)


def _cut(text: str, pause: str) -> list[str]:
    """The text between the pauses that stand outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth and text.startswith(pause, at):
            parts.append(text[start:at])
            start = at + len(pause)
    return [*parts, text[start:]]
