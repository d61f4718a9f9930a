"""A real model's attention on one text, as the last lesson reads it: captured, measured, kept.

The idea: smollm2 reads a text of two sentences that repeat each other but for the day. Kept of it
are, for every head, what the rules of trace/kinds.py compare and how much its silence costs; and
for a few heads all weights, with the norm of what each token carries there. Whoever changes the
text runs this file; a test captures again and compares.

    python -m attnscope.lessons.reading      captures and writes data/reading.json (some minutes)

Formula
    arrived_ij = w_ij |W_O v_j|
    cost of a head's silence = log p(next) - log p(next | its output is 0), in nats

Shapes: weights of a head, a row for each query, the keys up to it.

Not here: capturing (capture/), the rules (trace/kinds.py), widgets (serve/static/js/widgets).
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from attnscope.trace import Trace
from attnscope.trace.kinds import KINDS, decide, layer_shares

PATH: Final = Path(__file__).parent / "data" / "reading.json"
MODEL: Final = "smollm2"
TEXT: Final = (
    "On Monday, Ming gave the red apple to Wang, and Li gave the old book to Zhao. "
    "On Tuesday, Ming gave the red apple to Wang, and Li gave the old book to"
)
ASKED: Final = ("previous-token", "induction", "sink", "local", "uniform")
"""The rules, in the order in which they are asked."""
FIRST_ROW: Final = 4
"""Rows before it see so few keys that a share of the first says little."""
DECIMALS: Final = 5
WHOLE: Final = 2
"""Heads of the largest cost whose weights are kept, beside the clearest of each kind."""


def record() -> dict[str, Any]:
    """Capture, measure, and gather what the lesson needs.

    Raises:
        ModelError: the model is not there; `attnscope models pull smollm2` fetches it.

    Cost: a forward, and one for each layer with as many copies as it has heads.
    """
    from attnscope.capture.models import load
    from attnscope.capture.session import capture

    loaded = load(MODEL)
    trace = capture(loaded.model, TEXT, tokenizer=loaded.tokenizer, name=MODEL)
    assert isinstance(trace, Trace)
    ids = [token.id for token in trace.tokens]
    next_id, probability, costs = silences(loaded.model, ids)
    heads, arrays = [], {}
    for info in trace.layers:
        layer = trace.layer(info.index)
        for head, shares in enumerate(layer_shares(layer, trace.header)):
            weights = layer.weights(head, dtype=np.float64)
            norms = layer.norms(head)
            assert norms is not None
            arrays[info.index, head] = weights, norms
            heads.append({
                "layer": info.index,
                "head": head,
                "shares": [_number(shares[kind]) for kind in ASKED],
                "entropy": _number(layer.statistic("entropy")[head].mean()),
                "first": _first(weights),
                "first_arrived": _first(weights * norms),
                "cost": _number(costs[info.index][head]),
            })  # fmt: skip
    by_kind = {(one["layer"], one["head"]): kind_of(one) for one in heads}
    maps = [_map(*arrays[at], at=at, kind=by_kind[at]) for at in _chosen(heads, by_kind)]
    return {
        "model": MODEL,
        "text": TEXT,
        "tokens": [token.text for token in trace.tokens],
        "layers": trace.model.layers,
        "per_layer": trace.model.query_heads,
        "next": {"token": loaded.tokenizer.decode([next_id]), "probability": probability},
        "heads": heads,
        "maps": maps,
        "summary": summary(heads, maps),
    }  # fmt: skip


def kind_of(head: dict[str, Any], *, half: float = 0.5) -> str:
    """A head's kind from its kept shares."""
    shares = {
        kind: -np.inf if share is None else share
        for kind, share in zip(ASKED, head["shares"], strict=True)
    }
    return decide(shares, half=half)[0]


def silences(model: Any, ids: list[int]) -> tuple[int, float, list[list[float]]]:
    """The likeliest next token, its probability, and what each head's silence costs it, [L][H].

    A head is silenced by a zero in the place of its output, before the output projection. Every
    head of a layer has a copy of the text, so that a layer is one forward.
    """
    import torch

    heads = model.config.num_attention_heads
    text = torch.tensor([ids])
    costs = []
    with torch.no_grad():
        whole = model(text).logits[0, -1].double().log_softmax(-1)
        best = int(whole.argmax())
        for layer in model.model.layers:

            def silence(_: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
                x = given[0].clone()
                parts = x.view(len(x), x.shape[1], heads, -1)
                parts[range(heads), :, range(heads)] = 0
                return (x, *given[1:])

            hook = layer.self_attn.o_proj.register_forward_pre_hook(silence)
            try:
                found = model(text.expand(heads, -1)).logits[:, -1].double().log_softmax(-1)
            finally:
                hook.remove()
            costs.append((whole[best] - found[:, best]).tolist())
    return best, float(whole[best].exp()), costs


def summary(heads: list[dict[str, Any]], maps: list[dict[str, Any]]) -> dict[str, Any]:
    """The numbers that the lesson's prose names."""
    kinds = [kind_of(one) for one in heads]
    counts = Counter(kinds)
    order = sorted(range(len(heads)), key=lambda at: -heads[at]["cost"])
    sinks = [one for one, kind in zip(heads, kinds, strict=True) if kind == "sink"]
    return {
        "heads": len(heads),
        "counts": {kind: counts[kind] for kind in KINDS},
        "sink_weight": float(np.mean([one["first"] for one in sinks])),
        "sink_arrived": float(np.mean([one["first_arrived"] for one in sinks])),
        "mean_weight": float(np.mean([one["first"] for one in heads])),
        "cost": {
            kind: float(
                np.mean([o["cost"] for o, k in zip(heads, kinds, strict=True) if k == kind])
            )
            for kind in KINDS
            if counts[kind]
        },
        "example": _example(heads, maps),
        "largest": [_ranked(heads[at], kinds[at]) for at in order[:10]],
        "better_without": sum(one["cost"] < 0 for one in heads),
        "mixed_of_ten": sum(kinds[at] == "mixed" for at in order[:10]),
    }


def _example(heads: list[dict[str, Any]], maps: list[dict[str, Any]]) -> dict[str, Any]:
    """The last row of the second clearest induction head; what the clearest one's silence costs."""
    clearest, second = (one for one in maps if one["kind"] == "induction")
    weights = np.array(second["weights"][-1])
    arrived = weights * np.array(second["norms"])
    best = int(arrived.argmax())
    [cost] = [
        one["cost"]
        for one in heads
        if (one["layer"], one["head"]) == (clearest["layer"], clearest["head"])
    ]
    return {
        "layer": second["layer"],
        "head": second["head"],
        "best": best,
        "best_weight": float(weights[best]),
        "best_arrived": float((arrived / arrived.sum())[best]),
        "first_weight": float(weights[0]),
        "first_arrived": float((arrived / arrived.sum())[0]),
        "clearest_cost": cost,
    }


def _ranked(head: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"layer": head["layer"], "head": head["head"], "kind": kind, "cost": head["cost"]}


def _chosen(
    heads: list[dict[str, Any]], kinds: dict[tuple[int, int], str]
) -> list[tuple[int, int]]:
    """The clearest head of each kind (two of induction), then those whose silence costs most."""
    found: list[tuple[int, int]] = []
    for at, kind in enumerate(ASKED):
        of_kind = [one for one in heads if kinds[one["layer"], one["head"]] == kind]
        of_kind.sort(key=lambda one: -(one["shares"][at] or 0))
        found += [(one["layer"], one["head"]) for one in of_kind[: 1 + (kind == "induction")]]
    costly = sorted(heads, key=lambda one: -one["cost"])
    rest = [(one["layer"], one["head"]) for one in costly]
    return found + [at for at in rest if at not in found][:WHOLE]


def _map(weights: np.ndarray, norms: np.ndarray, *, at: tuple[int, int], kind: str) -> Any:
    return {
        "layer": at[0],
        "head": at[1],
        "kind": kind,
        "weights": [[_number(w) for w in row[: i + 1]] for i, row in enumerate(weights)],
        "norms": [_number(one) for one in norms],
    }


def _first(part: np.ndarray) -> Any:
    """The first key's share of each row's sum, the mean over rows from FIRST_ROW on."""
    rows = part[FIRST_ROW:]
    return _number((rows[:, 0] / rows.sum(1)).mean())


def _number(value: float) -> Any:
    return round(float(value), DECIMALS) if np.isfinite(value) else None


@cache
def kept() -> dict[str, Any]:
    """What is in the file."""
    found: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def write() -> None:
    """Capture and write the file."""
    text = json.dumps(record(), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    PATH.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
