"""The numbers of the two texts that the course grew from: each quoted, with the figure it became.

A line is (where, quotation, what each of its numbers is, in order). What a number is: the id of a
figure that prints it; "= id.input" where it is an input of that figure; or why it is no figure:

    definition   1 and 100% of weights, keys and values being 2, 2 FLOPs a multiply-add
    part         of a larger expression that is a figure as a whole, such as 10 and 9 of -10^9

Left out are lesson and section numbers, years, digits in names (Qwen3-0.6B, GQA-8, BF16), and the
0, 1 and 100% that weights, means and masks have by definition.
"""

from __future__ import annotations

from typing import Final

DEFINITION, PART = "definition", "part"

CHAPTER: Final = [
    (11, "\\(\\sigma^2=1\\)", [PART, "= variance.law.256.sigma"]),
    (11, "标准差回到 1", ["variance.scaled.256"]),
    (15, "\\(-10^9\\)", [PART, PART]),
    (15, "\\(e^{-10^9}\\) 在 float32 里是 0", [PART, PART, "mask.exp_-1e9"]),
    (20, "把 128 维切成 16 个头", ["shape.qwen306b.head_width", "shape.qwen306b.heads"]),
    (
        21,
        "q_proj 输出 2048 维,分成 \\(H=16\\) 个头,每头 \\(d=128\\) 维",
        ["shape.qwen306b.q_width", "shape.qwen306b.heads", "shape.qwen306b.head_width"],
    ),
    (
        21,
        "得到 16 个 128 维输出,拼成 2048 维,再过一个 \\(2048\\times1024\\) 的 o_proj 回到 1024 维",
        [
            "shape.qwen306b.heads",
            "shape.qwen306b.head_width",
            "shape.qwen306b.q_width",
            "shape.qwen306b.o_proj",
            "shape.qwen306b.o_proj",
            "shape.qwen306b.hidden",
        ],
    ),
    (
        22,
        "\\(H\\cdot d=2048\\ne h=1024\\)",
        ["shape.qwen306b.q_width", "shape.qwen306b.hidden"],
    ),
    (
        22,
        "显式配置的 128,不是 \\(h/H=64\\)。所以 o_proj 的输入维度是 2048,而不是 1024",
        [
            "shape.qwen306b.head_width",
            "shape.qwen306b.quotient",
            "shape.qwen306b.q_width",
            "shape.qwen306b.hidden",
        ],
    ),
    (25, "约 \\(2T^2d\\) FLOP;\\(H\\) 个头 \\(2HT^2d\\)", [DEFINITION, PART, DEFINITION, PART]),
    (
        27,
        "约 \\(4HT^2d\\)。代入 \\(H=16,d=128\\):\\(8192T^2\\)",
        [
            PART,
            PART,
            "shape.qwen306b.heads",
            "shape.qwen306b.head_width",
            "flops.qwen306b.prefill",
            PART,
        ],
    ),
    (26, "同样 \\(2HT^2d\\)", [DEFINITION, PART]),
    (28, "每层约 \\(4HTd\\)", [PART]),
]

LESSON: Final = [
    (7, "head_dim 256 时点积的标准差约 16", ["shape.qwen38.head_width", "variance.std.256"]),
    (19, "对 5 个 token", ["world.tokens"]),
    (
        42,
        "给了分数 8、7、9,写的权重是 40% / 30% / 30%",
        [
            "= softmax.8_7_9.scores",
            "= softmax.8_7_9.scores",
            "= softmax.8_7_9.scores",
            "softmax.8_7_9.claimed",
            "softmax.8_7_9.claimed",
            "softmax.8_7_9.claimed",
        ],
    ),
    (
        42,
        "e⁸ ≈ 2981,e⁷ ≈ 1097,e⁹ ≈ 8103,合计 12181,权重是 24.5% / 9.0% / 66.5%",
        [
            "softmax.8_7_9.exponentials",
            "softmax.8_7_9.exponentials",
            "softmax.8_7_9.exponentials",
            "softmax.8_7_9.sum",
            "softmax.8_7_9",
            "softmax.8_7_9",
            "softmax.8_7_9",
        ],
    ),
    (42, "分差只有 1,权重却差 e ≈ 2.72 倍", ["= softmax.gap.1.gap", "softmax.gap.1"]),
    (
        42,
        "切到「8 / 7 / 9」核对",
        ["= softmax.8_7_9.scores", "= softmax.8_7_9.scores", "= softmax.8_7_9.scores"],
    ),
    (56, "均值 0、方差 1", [DEFINITION, "= variance.law.256.sigma"]),
    (
        60,
        "锚点模型每头 256 维,点积的标准差就是 √256 = 16",
        ["shape.qwen38.head_width", "shape.qwen38.head_width", "variance.law.256"],
    ),
    (60, "≈ 4.9 亿", ["softmax.gap.20"]),
    (
        64,
        "方差回到 1,不管 d 是 4 还是 256",
        ["variance.scaled.4", "= variance.law.4.d", "= variance.law.256.d"],
    ),
    (
        66,
        "d = 4 / 64 / 256",
        ["= variance.std.4.d", "= variance.std.64.d", "= variance.std.256.d"],
    ),
    (70, "表里 d = 256 那一行", ["= variance.std.256.d"]),
    (
        80,
        "66.5% 表示模型有 66.5% 的把握",
        ["softmax.8_7_9.largest", "softmax.8_7_9.largest"],
    ),
    (
        92,
        "T = 4,096 时每层 4,096 步不能并行",
        ["example.tokens", "rnn.steps"],
    ),
    (92, "要经过 4,095 次更新", ["rnn.updates"]),
    (
        99,
        "T = 4,096、d_a = 256 时单头单层 8.0 GiB",
        ["example.tokens", "example.additive_width", "additive.bytes"],
    ),
    (99, "T×T 个分数,32 MiB", ["dot_product.bytes"]),
    (104, "最像的是它自己(余弦 1.000)", ["world.embedding.self"]),
    (104, "两个人名的 K 余弦 0.995", ["world.names.keys"]),
    (
        106,
        "锚点每头 256 维,点积标准差 √256 = 16",
        ["shape.qwen38.head_width", "shape.qwen38.head_width", "variance.law.256"],
    ),
    (106, "≈ 4.9 亿", ["softmax.gap.20"]),
    (
        111,
        "对话样本的 10、3、−4 会给「汽车」−44.4%",
        [
            "= proportional.10_3_-4.scores",
            "= proportional.10_3_-4.scores",
            "= proportional.10_3_-4.scores",
            "proportional.10_3_-4.car",
        ],
    ),
    (
        111,
        "除以 √d_k = 16,点积方差回到 1",
        ["shape.qwen38.scale", "variance.scaled.256"],
    ),
    (113, "有 32.5% 的注意力", ["world.unmasked.answer"]),
    (
        118,
        "一次前向做完 4 道「只看前缀」的题(逐个前缀喂要 5 次前向、15 个位置)",
        ["prefix.questions", "prefix.forwards", "prefix.positions"],
    ),
    (
        120,
        "在苹果 56.5% 与小明 39.4% 之间",
        ["world.causal.apple", "world.causal.giver"],
    ),
    (
        125,
        "锚点每头 256 维里只转 64 维",
        ["shape.qwen38.head_width", "shape.qwen38.rotated"],
    ),
    (127, "单独拆出 64 维另存", ["shape.dsv2.rope"]),
    (
        132,
        "头 A 把 89.5% 给「小明」、头 B 把 77.0% 给「苹果」;锚点 24 个头 × 256 维",
        ["world.heads.a", "world.heads.b", "shape.qwen38.heads", "shape.qwen38.head_width"],
    ),
    (
        134,
        "提示 2 个、再生成 3 个就要算 9 份 K/V,其中 5 份是上一步刚算过的",
        ["cache.prompt", "cache.generated", "cache.without", "cache.recomputed"],
    ),
    (139, "每行分完 100%", [DEFINITION]),
    (
        139,
        "一行 3 个分数只差零点几(0.04、0.36、0.00),照样分成 30% / 41% / 29%",
        [
            "world.sink.keys",
            "world.sink.scores",
            "world.sink.scores",
            "world.sink.scores",
            "world.sink.row",
            "world.sink.row",
            "world.sink.row",
        ],
    ),
    (149, "同一个例子只算 4 份", ["cache.with"]),
    (
        151,
        "若 24 个 Q 头各存一份(MHA),锚点形状下每 token 16 层 × 2 × 24 × 256 × 2 B = 384 KiB",
        [
            "shape.qwen38.heads",
            "shape.qwen38.full_layers",
            DEFINITION,
            "shape.qwen38.heads",
            "shape.qwen38.head_width",
            "shape.bf16",
            "kv.qwen38.mha.per_token",
        ],
    ),
    (
        151,
        "原生 262,144 上下文 96 GiB",
        ["shape.qwen38.context", "kv.qwen38.mha.total"],
    ),
    (
        156,
        "每 token 16 KiB,262,144 上下文 4 GiB",
        ["kv.qwen38.mqa.per_token", "shape.qwen38.context", "kv.qwen38.mqa.total"],
    ),
    (158, "MHA 47.2 → MQA 46.6", ["gqa.paper.mha", "gqa.paper.mqa"]),
    (161, "锚点 4 组", ["shape.qwen38.kv_heads"]),
    (
        163,
        "24 个 Q 头分 4 组、每组 6 个共用 1 个 KV 头",
        ["shape.qwen38.heads", "shape.qwen38.kv_heads", "shape.qwen38.group", DEFINITION],
    ),
    (
        163,
        "每 token 64 KiB、262,144 上下文 16 GiB",
        ["kv.qwen38.gqa.per_token", "shape.qwen38.context", "kv.qwen38.gqa.total"],
    ),
    (
        163,
        "平均 47.1、推理 0.28 s,质量接近 MHA(47.2、1.51 s),速度接近 MQA(0.24 s)",
        [
            "gqa.paper.gqa8",
            "gqa.paper.gqa8.seconds",
            "gqa.paper.mha",
            "gqa.paper.mha.seconds",
            "gqa.paper.mqa.seconds",
        ],
    ),
    (
        165,
        "每 token 仍要 389,120 B(每头一份的 MHA 是 3,112,960 B)",
        ["kv.ds67b.gqa.per_token", "kv.ds67b.mha.per_token"],
    ),
    (165, "token 单条请求 380 GiB", ["kv.ds67b.gqa.total"]),
    (
        170,
        "只存 512 维潜向量 + 64 维 RoPE = 576 个数",
        ["shape.dsv2.latent", "shape.dsv2.rope", "shape.dsv2.entry"],
    ),
    (
        170,
        "(60 层)每 token 69,120 B、",
        ["shape.dsv2.layers", "kv.dsv2.per_token"],
    ),
    (170, "(61 层)70,272 B", ["shape.dsv3.layers", "kv.dsv3.per_token"]),
    (170, "降 82.2%,官方「−93.3%」", ["kv.dsv2.saving", "kv.dsv2.saving.reported"]),
    (170, "约 6 bit", ["kv.dsv2.bits"]),
    (
        172,
        "同是 576 个数、78 层,每 token 89,856 B,原生 1,048,576 上下文",
        [
            "shape.dsv2.entry",
            "shape.glm53.layers",
            "kv.glm53.per_token",
            "shape.glm53.context",
        ],
    ),
    (172, "要 87.75 GiB", ["kv.glm53.total"]),
    (175, "锚点另外 48 层", ["shape.qwen38.linear_layers"]),
    (
        177,
        "锚点 64 层里 48 层不存 KV",
        ["shape.qwen38.layers", "shape.qwen38.linear_layers"],
    ),
    (177, "共 144 MiB", ["state.qwen38.bytes"]),
    (177, "全局 KV 890 B/token", ["kv.dsv41flash.reported"]),
    (179, "锚点仍留 16 层全注意力", ["shape.qwen38.full_layers"]),
    (183, "每元素 2 字节", ["shape.bf16"]),
    (183, "T = 4,096 是", ["example.tokens"]),
    (183, "「−93.3%」出自", ["kv.dsv2.saving.reported"]),
    (183, "890 B 出自", ["kv.dsv41flash.reported"]),
    (197, "对 5 个 token", ["world.tokens"]),
    (203, "用 2 行不行", ["= softmax.base_2.base"]),
    (205, "常数 ln2 ≈ 0.693", ["softmax.base_2"]),
    (213, "方差为 1", ["= variance.law.256.sigma"]),
]
