"""The widgets that a page may name, and the data that each is given when the page is made.

The idea: a widget is a module in serve/static/js/widgets whose formulas are twins of Python's; what
it cannot compute itself (the teaching world, an experiment) is put beside it as JSON. The names
here and the names that the script knows are the same (a test compares).

Not here: what a widget draws (serve/static/js/widgets).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attnscope.lessons import world
from attnscope.lessons.figures.configs import model
from attnscope.lessons.site import values
from attnscope.lessons.site.keepers import forms, kept
from attnscope.plan.devices import DEVICES

Data = Callable[[str], dict[str, Any]]


FEATURES: Final = {
    "人": "person", "物": "thing", "动作": "action", "虚词": "particle", "名字": "name",
    "角色": "role",
}  # fmt: skip
"""What the teaching world's features are called in English."""


SHOWN: Final = {"h100": "H100", "a100": "A100", "b200": "B200", "rtx4090": "RTX 4090"}
"""Devices that widgets offer, and what they are called."""


def nothing(language: str) -> dict[str, Any]:
    """No data: the widget computes all that it shows."""
    return {}


def teaching(language: str) -> dict[str, Any]:
    """The teaching world with its tokens in the reader's language."""
    found = world.load()
    names = found.tokens if language == "zh" else [world.ENGLISH[one] for one in found.tokens]
    return {
        "tokens": list(names),
        "features": [one if language == "zh" else FEATURES[one] for one in found.features],
        "heads": found.heads,
        "E": found.embeddings.tolist(),
        "W_Q": found.w_q.tolist(),
        "W_K": found.w_k.tolist(),
        "W_V": found.w_v.tolist(),
    }


def spread(language: str) -> dict[str, Any]:
    """What the variance experiment measured in Python, to compare with what the page draws."""
    found = values.experiment("variance")
    kept = ("widths", "pairs", "rows", "keys", "seed", "std", "std_error")
    return {name: found[name] for name in kept}


def costs(language: str) -> dict[str, Any]:
    """The anchor model's shape and some devices, for FLOPs, bytes and roofs."""
    found = model("qwen3.8-27b")
    full = [one.heads for one in found.layers if one.heads is not None]
    return {
        "shape": {
            "heads": full[0].query, "kv_heads": full[0].kv, "width": full[0].qk,
            "layers": len(full),
        },
        "devices": [
            {"name": name, "title": title, "peak": DEVICES[name].peak,
             "bandwidth": DEVICES[name].bandwidth, "memory": DEVICES[name].memory}
            for name, title in SHOWN.items()
        ],
    }  # fmt: skip


def census(language: str) -> dict[str, Any]:
    """Every head of the real model: what names it, and what its silence costs."""
    found = values.experiment("reading")
    return {name: found[name] for name in ("layers", "per_layer", "heads")}


def real_maps(language: str) -> dict[str, Any]:
    """All weights of a few heads of the real model."""
    found = values.experiment("reading")
    return {name: found[name] for name in ("tokens", "maps")}


def runs(language: str) -> dict[str, Any]:
    """The training runs that are kept, in windows of steps (lessons/runs.py)."""
    return values.experiment("training")


def jobs(language: str) -> dict[str, Any]:
    """The teaching world, and how near one row of weights can come to two values."""
    return {**teaching(language), "nearest": values.experiment("convex")["nearest_distance"]}


WIDGETS: Final[dict[str, Data]] = {
    "angle": nothing,
    "cosine": teaching,
    "grid": teaching,
    "pairs": teaching,
    "bytes": nothing,
    "rules": nothing,
    "properties": nothing,
    "spread": spread,
    "jacobian": nothing,
    "temperature": nothing,
    "growth": nothing,
    "weights": teaching,
    "hide": nothing,
    "mixture": teaching,
    "mix": nothing,
    "squeeze": teaching,
    "merge": nothing,
    "forms": forms,
    "kept": kept,
    "order": teaching,
    "turn": nothing,
    "far": nothing,
    "clocks": nothing,
    "moved": nothing,
    "feeding": nothing,
    "still": teaching,
    "exact": nothing,
    "roof": costs,
    "runs": runs,
    "lid": nothing,
    "lookup": nothing,
    "clipping": nothing,
    "groups": costs,
    "share": teaching,
    "jobs": jobs,
    "widths": nothing,
    "nothing": teaching,
    "regroup": nothing,
    "memory": nothing,
    "sight": nothing,
    "census": census,
    "circuit": nothing,
    "reading": real_maps,
}
"""Every widget, with how its data is come by."""
