"""Holding scores that grow in training: a clip's factor, a soft cap, a norm's parameters and bound.

Formula (m the largest score of a head, tau the threshold)
    gamma = min(1, tau / m)        W_Q and W_K of a head with a key of its own: times sqrt(gamma)
    behind a norm with weights of 1, q and k are sqrt(d) long: q . k / sqrt(d) <= d / sqrt(d)

Not here: the mechanisms (mechanisms/qk_norm.py, qk_clip.py); the runs that were trained (runs.py),
whose kept summary is read here, so that a figure needs no torch.
"""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any, Final

from attnscope.lessons.figures.configs import config
from attnscope.lessons.figures.registry import figure, given, reported

TAU: Final = given(100, "Kimi Team 2025 (Kimi K2), arXiv 2507.20534")
LARGEST: Final = given(400, "the lesson's example: the largest score of a head in one step")
CHOSEN: Final = "chosen for the lesson"
CLIP: Final = "the rule of attnscope.mechanisms.qk_clip.clip_factors"
RUNS: Final = Path(__file__).parents[1] / "data" / "training.json"


@figure(
    "stable.clip.gamma", inputs={"tau": TAU, "largest": LARGEST}, show="{:g}",
    formula="tau / largest", source=CLIP,
    en="What QK-Clip multiplies every score of a head by whose largest is 400",
    zh="最大分数为 400 的头，QK-Clip 给它的每个分数乘上多少",
)  # fmt: skip
def gamma(tau: float, largest: float) -> float:
    return min(1.0, tau / largest)


@figure(
    "stable.clip.root", inputs={"tau": TAU, "largest": LARGEST}, show="{:g}",
    formula="sqrt(tau / largest)", source=CLIP,
    en="What QK-Clip multiplies W_Q and W_K of that head by, if its key is its own",
    zh="那个头若有自己的 key，QK-Clip 给它的 W_Q、W_K 各乘上多少",
)  # fmt: skip
def root(tau: float, largest: float) -> float:
    return math.sqrt(gamma(tau, largest))


@figure(
    "stable.softcap.gemma2", show="{:g}", formula="cap",
    inputs={"cap": config("gemma-2-9b", "attn_logit_softcapping")}, source="the published config",
    en="Gemma 2 9B: the soft cap on attention scores", zh="Gemma 2 9B：注意力分数的软上限",
)  # fmt: skip
def softcap(cap: float) -> float:
    return cap


@figure(
    "stable.norm.parameters", inputs={"width": config("qwen3.8-27b", "head_dim")},
    formula="2 × width", source="one weight for each number of q, one for each number of k",
    en="Qwen3.8-27B: parameters of QK-norm in a layer", zh="Qwen3.8-27B：一层里 QK-Norm 的参数个数",
)  # fmt: skip
def norm_parameters(width: int) -> int:
    return 2 * width


recorded = partial(
    figure,
    kind="measured",
    source="recorded in a training that ran: docs/experiments/training.json",
)


def _training() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RUNS.read_text(encoding="utf-8"))
    return found


@recorded(
    "stable.run.tau", show="{:g}", formula="tau", inputs={"tau": given(30, CHOSEN)},
    en="The threshold of QK-Clip in the recorded training", zh="记录的那次训练里，QK-Clip 的门槛",
)  # fmt: skip
def run_tau(tau: float) -> float:
    kept = float(_training()["tau"])
    assert kept == tau, f"the record has {kept}"
    return kept


@recorded(
    "stable.run.most", show="{:.1f}", formula="largest score of all steps and seeds",
    inputs={"tau": given(30, CHOSEN), "rate": given(0.03, CHOSEN),
            "steps": given(400, CHOSEN), "seeds": given(3, CHOSEN)},
    en="The largest score in the recorded training with QK-Clip",
    zh="记录的那次训练里，有 QK-Clip 时出现过的最大分数",
)  # fmt: skip
def run_most(tau: float, rate: float, steps: int, seeds: int) -> float:
    return float(_training()["variants"]["clip"]["most"])


def _bound(d: int) -> float:
    return d / math.sqrt(d)


for _d in (64, 256):
    figure(
        f"stable.norm.bound.{_d}", inputs={"d": given(_d, "head width")}, show="{:g}",
        formula="d / sqrt(d)", source="no cosine is above 1; q and k are sqrt(d) long",
        en=f"The largest score a head {_d} wide can have behind QK-norm with weights of 1",
        zh=f"宽 {_d} 的头，QK-Norm 的系数为 1 时，分数最大能到多少",
    )(_bound)  # fmt: skip


for _name, _billions, _en, _zh in (
    (
        "diverged",
        8,
        "diverged, with huge scores and entropy near 0",
        "训练发散、分数极大、熵接近 0",
    ),
    ("trained", 22, "trained with QK-norm", "带 QK-Norm 训成"),
):
    reported(
        f"stable.vit.{_name}", _billions, unit="billion parameters", show="{} billion",
        show_zh=lambda value: f"{10 * value:g} 亿",
        source="Dehghani et al. 2023, arXiv 2302.05442, section 2",
        en=f"Vision Transformer, parameters: {_en}", zh=f"视觉 Transformer 的参数量：{_zh}",
    )  # fmt: skip
