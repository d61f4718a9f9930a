"""What papers report and nobody here can compute.

Not here: reported numbers that stand beside a computed one (keeping.py, states.py).
"""

from __future__ import annotations

from functools import partial

from attnscope.lessons.figures.registry import reported

TABLE = "Ainslie et al. 2023, arXiv 2305.13245, table 1, T5-XXL"
quality = partial(
    reported, show="{:.1f}", unit="mean score", source=f"{TABLE}: mean over seven tasks"
)
seconds = partial(reported, show="{:.2f} s", unit="s", source=f"{TABLE}: inference time per sample")

for _scheme, _name, _score, _time in (
    ("mha", "MHA", 47.2, 1.51),
    ("mqa", "MQA", 46.6, 0.24),
    ("gqa8", "GQA-8", 47.1, 0.28),
):
    quality(
        f"gqa.paper.{_scheme}", _score, en=f"T5-XXL with {_name}: quality",
        zh=f"T5-XXL，{_name}：平均分",
    )  # fmt: skip
    seconds(
        f"gqa.paper.{_scheme}.seconds", _time, en=f"T5-XXL with {_name}: inference",
        zh=f"T5-XXL，{_name}：推理时间",
    )  # fmt: skip
reported(
    "gqa.paper.tasks", 7, unit="tasks", source=TABLE,
    en="T5-XXL: tasks in the mean", zh="T5-XXL：平均所含的任务数",
)  # fmt: skip
reported(
    "clip.paper.tau", 100, source="Kimi Team 2025 (Kimi K2), arXiv 2507.20534",
    en="Kimi K2: the largest score that QK-Clip lets stand", zh="Kimi K2：QK-Clip 的阈值 τ",
)  # fmt: skip
