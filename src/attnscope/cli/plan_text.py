"""The planner's report as text: tables that read without colour.

Not here: the numbers (attnscope.plan.report), the command (plan.py).
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from attnscope.plan.explain import grouped, ranges
from attnscope.plan.fit import size_text, three_digits
from attnscope.plan.texts import amount, bytes_cells, flops_cells
from attnscope.plan.weights import unknown

if TYPE_CHECKING:
    from attnscope.plan.model import Model

WIDTH = 100


def table(head: list[str], rows: list[list[str]], *, left: int = 1) -> list[str]:
    """Columns side by side; the first `left` are set to the left, numbers to the right.

    >>> table(["a", "b"], [["x", "10"], ["yy", "9"]])
    ['  a    b', '  x   10', '  yy   9']
    """
    sizes = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    out = []
    for row in [head, *rows]:
        cells = [
            cell.ljust(size) if i < left else cell.rjust(size)
            for i, (cell, size) in enumerate(zip(row, sizes, strict=True))
        ]
        out.append("  " + "  ".join(cells).rstrip())
    return out


def wrap(text: str, indent: str = "  ") -> list[str]:
    """A sentence over as many lines as it needs."""
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")


def lines(said: dict[str, Any], model: Model) -> list[str]:
    """The whole report."""
    out = _head(said, model)
    out += _kv(said)
    out += _layers(said, model)
    out += _explain(said)
    out += _formats(said)
    out += _what_if(said)
    out += _versus(said)
    out += _engines(said)
    out += _flops(said)
    out += _fit(said)
    if said["notes"]:
        out += ["", "Notes"]
        for one in said["notes"]:
            out += wrap(one)
    return out


def _head(said: dict[str, Any], read: Model) -> list[str]:
    model = said["model"]
    limit = f", up to {model['context_limit']:,} tokens" if model["context_limit"] else ""
    out = [
        f"{model['name']}: {model['architecture']}, {model['layers']} layers, width "
        f"{model['width']:,}{limit} ({model['source']})"
    ]
    if model["context_limit"] and said["context"] > model["context_limit"]:
        out += wrap(f"BEYOND THE MODEL: {said['notes'][0]}.", "")
    for one in said["assumed"]:
        out.append(f"ASSUMED, not known: {one}.")
    weights = said["weights"]
    if weights is None:
        out += wrap(f"Weights: not known ({unknown(read)})", "")
    else:
        out.append(f"Weights: {amount(weights['size'])}, {weights['source']}")
    return out


def _kv(said: dict[str, Any]) -> list[str]:
    kv = said["kv"]
    rows = [
        ["per token, past every window", *bytes_cells(kv["per_token_bytes"])],
        ["per token, within the windows", *bytes_cells(kv["per_token_bytes_within_window"])],
        ["capped (windows, when full)", *bytes_cells(kv["capped_bytes"])],
        ["fixed (states, convolutions)", *bytes_cells(kv["fixed_bytes"])],
        [f"after {said['context']:,} tokens", *bytes_cells(kv["sequence_bytes"])],
    ]
    title = (
        f"Cache at {said['context']:,} tokens x {said['batch']} in {said['kv_dtype']}: "
        f"{amount(kv['total_bytes'])}"
    )
    return ["", title, *table(["one sequence", "", ""], rows)]


def _layers(said: dict[str, Any], model: Model) -> list[str]:
    rows = []
    for layer, numbers in grouped(model.layers):
        one = said["layers"][numbers[0]]
        rows.append(
            [
                ranges(numbers),
                layer.kind,
                f"{layer.window:,}" if layer.window else "-",
                f"{one['per_token_bytes']:,}",
                f"{one['capped_bytes']:,}",
                f"{one['fixed_bytes']:,}",
            ]
        )
    head = ["layers", "kind", "window", "B per token", "capped B", "fixed B"]
    return ["", "Each layer", *table(head, rows, left=2)]


def _explain(said: dict[str, Any]) -> list[str]:
    if "explain" not in said:
        return []
    out = ["", "Where the numbers come from"]
    for one in said["explain"]:
        out.append(f"  layers {one['layers']}: {one['kind']}, {one['store']}")
        out += wrap(one["formula"], "      ")
        if one["source"] and one["source"] != one["formula"]:
            out += wrap(f"from {one['source']}", "      ")
    kv = said["kv"]
    out += wrap(
        f"one sequence past every window: {kv['per_token_bytes']:,} x T + {kv['capped_bytes']:,} + "
        f"{kv['fixed_bytes']:,}; total = batch x sequence = {said['batch']} x "
        f"{kv['sequence_bytes']:,}"
    )
    return out


def _formats(said: dict[str, Any]) -> list[str]:
    rows = [
        [one["format"], f"{one['per_token_bytes']:,}", size_text(one["total_bytes"]), one["note"]]
        for one in said["formats"]
    ]
    sized = table(["format", "B per token", "total"], [row[:3] for row in rows])
    notes = ["", *(row[3] for row in rows)]
    return ["", "Other formats of the cache", *(
        f"{line}   {note}".rstrip() for line, note in zip(sized, notes, strict=True)
    )]  # fmt: skip


def _what_if(said: dict[str, Any]) -> list[str]:
    if len(said["what_if"]) < 2:
        return []
    base = said["what_if"][0]["total_bytes"] or 1
    rows = [
        [
            one["scheme"],
            f"{one['per_token_bytes']:,}",
            size_text(one["total_bytes"]),
            f"{three_digits(one['total_bytes'], base)}x",
        ]
        for one in said["what_if"]
    ]
    return ["", "What if", *table(["scheme", "B per token", "total", ""], rows)]


def _versus(said: dict[str, Any]) -> list[str]:
    """Two models side by side."""
    other = said.get("versus")
    if other is None:
        return []

    def column(one: dict[str, Any]) -> list[str]:
        counts: dict[str, int] = {}
        for layer in one["layers"]:
            counts[layer["kind"]] = counts.get(layer["kind"], 0) + 1
        weights, fit, kv = one["weights"], one.get("fit"), one["kv"]
        fits = "-"
        if fit is not None:
            fits = "every length" if fit["tokens"] is None else f"{fit['tokens']:,}"
        return [
            one["model"]["name"],
            ", ".join(f"{count} {kind}" for kind, count in counts.items()),
            f"{kv['per_token_bytes']:,}",
            f"{kv['per_token_bytes_within_window']:,}",
            f"{kv['capped_bytes']:,}",
            f"{kv['fixed_bytes']:,}",
            size_text(kv["total_bytes"]),
            size_text(weights["size"]) if weights else "not known",
            f"{one['flops']['prefill']:.3g}",
            f"{one['flops']['decode_step']:.3g}",
            f"{one['flops']['intensity']:.3g}",
            fits,
            f"{one['model']['context_limit']:,}" if one["model"]["context_limit"] else "-",
        ]

    names = [
        "", "layers", "B per token", "within windows", "capped B", "fixed B", "total", "weights",
        "prefill FLOPs", "decode FLOPs", "FLOPs per byte", "tokens that fit", "its own limit",
    ]  # fmt: skip
    rows = [list(row) for row in zip(names, column(said), column(other), strict=True)]
    return ["", "Side by side", *table(rows[0], rows[1:])]


def _engines(said: dict[str, Any]) -> list[str]:
    out = ["", "What engines allocate (their defaults)"]
    logical = said["kv"]["total_bytes"] or 1
    known = [one for one in said["engine_details"] if one["size"] is not None]
    rows = []
    for one in said["engine_details"]:
        sizes = ["-", "-"]
        if one["size"] is not None:
            sizes = [size_text(one["size"]), f"{one['size'] / logical:.2f}x"]
        rows.append([one["engine"], *sizes])
    named = ["describes"] + [
        one["version"] if one["size"] is not None else "no number: see the notes"
        for one in said["engine_details"]
    ]
    sized = table(["engine", "bytes", ""], rows)
    width = max(len(line) for line in sized) + 3
    out += [f"{line:<{width}}{what}" for line, what in zip(sized, named, strict=True)]
    if "explain" in said:
        for one in known:
            out += wrap(f"{one['engine']}: {one['formula']}", "    ")
    return out


def _flops(said: dict[str, Any]) -> list[str]:
    spent = said["flops"]
    rows = [
        ["prefill, exact (causal, windows, top-k)", *flops_cells(spent["prefill"])],
        ["prefill, dense (every pair)", *flops_cells(spent["prefill_dense"])],
    ]
    if spent["decode_expanded"]:
        rows += [
            ["one decode step, MLA absorbed", *flops_cells(spent["decode_step"])],
            ["one decode step, MLA expanded", *flops_cells(spent["decode_expanded"])],
            ["  and expanding every latent anew", *flops_cells(spent["decode_reexpansion"])],
        ]
    else:
        rows.append(["one decode step", *flops_cells(spent["decode_step"])])
    if spent["indexer_prefill"]:
        rows += [
            ["indexer's scan, prefill (apart)", *flops_cells(spent["indexer_prefill"])],
            ["indexer's scan, decode step (apart)", *flops_cells(spent["indexer_decode"])],
        ]
    if spent["recurrence_prefill"]:
        rows += [
            ["recurrences, prefill", *flops_cells(spent["recurrence_prefill"])],
            ["recurrences, decode step", *flops_cells(spent["recurrence_decode"])],
        ]
    rows += [
        ["cache read by a decode step", *bytes_cells(spent["decode_bytes"])],
        ["FLOPs for each of those bytes", f"{spent['intensity']:.3g}", ""],
    ]
    out = ["", f"Attention's FLOPs, one sequence of {said['context']:,} tokens"]
    out += table(["", "", ""], rows)[1:]
    for one in said.get("explain_flops", ()):
        out.append(f"    layers {one['layers']}: {one['kind']}, {one['what']}")
        out += wrap(f"{one['formula']} = {one['flops']:,}", "        ")
    device = said.get("device")
    if device is not None:
        out += wrap(
            f"{device['name']}: ridge point {device['ridge']:.0f} FLOPs a byte, so attention's "
            f"decode step waits for {device['decode_bound']}; reading the cache takes "
            f"{device['decode_cache_read_s'] * 1e3:.3g} ms."
        )
    return out


def _fit(said: dict[str, Any]) -> list[str]:
    fit = said.get("fit")
    if fit is None:
        return []
    room = f"{amount(fit['budget'])} less weights of {amount(fit['weights'])}"
    if fit["tokens"] is None:
        text = "every length fits: this cache stops growing"
    elif fit["weights"] > fit["budget"]:
        text = "the weights alone do not fit"
    elif fit["tokens"] == 0:
        text = "not one token fits"
    else:
        text = f"{fit['tokens']:,} tokens fit"
        if fit["limit"] and fit["tokens"] > fit["limit"]:
            text += f", more than the model's own limit of {fit['limit']:,}"
    if fit["batch"] > 1:
        text += f" in each of {fit['batch']} sequences"
    return ["", f"In {room}:", f"  {text}"]
