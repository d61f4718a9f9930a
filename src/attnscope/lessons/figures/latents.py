"""MLA in real models: what its latents stand for, and what its two forms cost.

Formula (a layer; H heads, N and E numbers of a head's key and value, D rotary, R of the latent)
    expanded     H (N + D + E) numbers a token, were every head's key and value kept
    FLOPs        t new tokens, S keys in sight, projections that both forms need left out
      expanded   2 S R H (N + E) + 2 t S H (N + D + E)
      absorbed   2 t R H (N + E) + 2 t S H (2 R + D)
    even         t = R (N + E) / (2 R - N - E), for S far above t

Not here: bytes (keeping.py), how many numbers are kept (shapes.py).
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, Final

from attnscope.lessons.figures.configs import HUB, config, model
from attnscope.lessons.figures.registry import Ask, figure, given, reported
from attnscope.plan.model import Latent

V2, V3 = "deepseek-v2", "deepseek-v3"
Inputs = dict[str, Ask]
KEYS: Final = given(8192, "tokens in sight, the new one among them: chosen for the example")
reported(
    "mla.v3.keys", 8192, unit="tokens", formula="as chosen", source="the lesson on latents",
    en="Tokens in sight in the example of both forms", zh="两种形式的例子里看得见的 token 数",
)  # fmt: skip


def sizes(name: str) -> Latent:
    """The latent that the planner reads of a model, the same in every layer."""
    [found] = {one.latent for one in model(name).layers}
    assert found is not None
    return found


def heads(name: str) -> int:
    [found] = {one.heads for one in model(name).layers}
    assert found is not None
    return found.query


def _asks(name: str) -> Inputs:
    return {
        "heads": config(name, "num_attention_heads"), "nope": config(name, "qk_nope_head_dim"),
        "rope": config(name, "qk_rope_head_dim"), "value": config(name, "v_head_dim"),
        "rank": config(name, "kv_lora_rank"),
    }  # fmt: skip


_V2: Final = _asks(V2)
_V3: Final = _asks(V3)
second = partial(figure, source=f"attnscope.plan, config of {HUB[V2]}")


@second(
    "mla.v2.heads", inputs={"heads": _V2["heads"]}, formula="heads",
    en="DeepSeek-V2: query heads", zh="DeepSeek-V2：Q 头数",
)  # fmt: skip
def v2_heads(**_: int) -> int:
    return heads(V2)


@second(
    "mla.v2.content", inputs={"nope": _V2["nope"]}, formula="nope",
    en="DeepSeek-V2: numbers of a head's key without positions",
    zh="DeepSeek-V2：每头 key 里不带位置的数",
)  # fmt: skip
def v2_content(**_: int) -> int:
    return sizes(V2).nope


_EXPANDED: Final = "heads × (nope + rope + value)"
_WHOLE: Final[Inputs] = {name: ask for name, ask in _V2.items() if name != "rank"}


@second(
    "mla.v2.expanded", inputs=_WHOLE, formula=_EXPANDED,
    en="DeepSeek-V2: numbers of all heads' keys and values, per token and layer",
    zh="DeepSeek-V2：所有头的 key 和 value，每 token 每层的数",
)  # fmt: skip
def v2_expanded(**_: int) -> int:
    found = sizes(V2)
    return heads(V2) * (found.nope + found.rope + found.v)


@second(
    "mla.v2.ratio", inputs=_V2, formula=f"{_EXPANDED} / (rank + rope)", show="{:.1f}",
    en="DeepSeek-V2: how many times fewer numbers it keeps than its heads have",
    zh="DeepSeek-V2：存下的数比各头展开的少多少倍",
)  # fmt: skip
def v2_ratio(**_: int) -> float:
    return v2_expanded() / (sizes(V2).rank + sizes(V2).rope)


@second(
    "mla.v2.groups", inputs={n: _V2[n] for n in ("rank", "rope", "nope", "value")},
    formula="(rank + rope) / (nope + value)", show="{:g}",
    en="DeepSeek-V2: what it keeps, in key/value heads of GQA of the same width",
    zh="DeepSeek-V2：它存的数，折合成同样宽的 GQA 的 KV 头数",
)  # fmt: skip
def v2_groups(**_: int) -> float:
    found = sizes(V2)
    return (found.rank + found.rope) / (found.nope + found.v)


_UP: Final = "rank × heads × (nope + value)"
_FORMS: Final = {
    "expanded": f"2 × keys × {_UP} + 2 × keys × heads × (nope + rope + value)",
    "absorbed": f"2 × {_UP} + 2 × keys × heads × (2 × rank + rope)",
}


@cache
def step(form: str, keys: int) -> int:
    """FLOPs of one new token's attention in a layer of DeepSeek-V3, projections aside."""
    found = model(V3).cost(context=keys)
    up = found.decode_reexpansion  # of every latent in sight
    whole = {
        "expanded": found.decode_expanded + up,
        "absorbed": found.decode_step + up // keys,  # the query's way costs as much as one latent's
    }[form]
    return whole // len(model(V3).layers)


for _form, _en, _zh in (
    ("expanded", "keys and values expanded", "先展开 key 和 value"),
    ("absorbed", "the query brought to the latents", "把 query 搬到潜向量那边"),
):
    figure(
        f"mla.v3.step.{_form}", unit="FLOPs", inputs={**_V3, "keys": KEYS},
        formula=_FORMS[_form], show="{million:,.0f} million", show_zh="{yi:,.1f} 亿",
        source=f"attnscope.plan.flops, config of {HUB[V3]}",
        en=f"DeepSeek-V3: attention of one new token in a layer, {_en}",
        zh=f"DeepSeek-V3：一层里一个新 token 的注意力，{_zh}",
    )(lambda keys, form=_form, **_: step(form, keys))  # fmt: skip


@figure(
    "mla.v3.step.ratio", inputs={**_V3, "keys": KEYS}, show="{:.0f}",
    formula=f"({_FORMS['expanded']}) / ({_FORMS['absorbed']})",
    source=f"attnscope.plan.flops, config of {HUB[V3]}",
    en="DeepSeek-V3: how many times more work one new token is when keys and values are expanded",
    zh="DeepSeek-V3：一个新 token，先展开的计算量是另一种的多少倍",
)  # fmt: skip
def step_ratio(keys: int, **_: int) -> float:
    return step("expanded", keys) / step("absorbed", keys)


@figure(
    "mla.v3.even", inputs={n: _V3[n] for n in ("rank", "nope", "value")}, show="{:.0f}",
    unit="tokens", formula="rank × (nope + value) / (2 × rank - nope - value)",
    source=f"attnscope.plan, config of {HUB[V3]}",
    en="DeepSeek-V3: new tokens at which both forms are the same work, far more being cached",
    zh="DeepSeek-V3：两种形式计算量相等时的新 token 数（已缓存的远多于它）",
)  # fmt: skip
def even(**_: Any) -> float:
    s = sizes(V3)
    return s.rank * (s.nope + s.v) / (2 * s.rank - s.nope - s.v)
