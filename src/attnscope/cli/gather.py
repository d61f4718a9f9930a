"""From a trace to what `attnscope look` says: the heads, and the row that is worth showing.

The idea: everything is asked of the trace, whether it was saved or is fresh.

Not here: running a model (look.py), printing (picture.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from attnscope.cli.console import label
from attnscope.cli.report import (
    HEAD_VALUES,
    MODEL_FACTS,
    Attended,
    Chosen,
    HeadLine,
    LayerLine,
    TokenLine,
    finite,
)
from attnscope.trace.kinds import LEAST_ROWS, LEAST_SIGHT

if TYPE_CHECKING:
    from attnscope.trace import LayerInfo, Token, Trace


_CHARACTER_BYTES: Final = 4


def model_line(trace: Trace) -> dict[str, Any]:
    """The model's facts, as the JSON contract names them."""
    facts = asdict(trace.model)
    return {name: facts[name] for name in MODEL_FACTS}


def token_lines(trace: Trace) -> list[TokenLine]:
    """The tokens with their byte spans."""
    names = TokenLine.__dataclass_fields__
    return [TokenLine(*(getattr(token, name) for name in names)) for token in trace.tokens]


def layer_lines(trace: Trace) -> list[LayerLine]:
    """Every layer, those without a map too."""
    return [_layer_line(layer) for layer in trace.layers]


def _layer_line(layer: LayerInfo) -> LayerLine:
    if not layer.has_map:
        return LayerLine(layer.index, layer.kind, 0, 1, reason=layer.reason)
    groups = layer.query_heads // layer.kv_heads
    return LayerLine(layer.index, layer.kind, layer.query_heads, groups, layer.window)


def head_lines(trace: Trace) -> list[HeadLine]:
    """Kind and mean statistics of every head, in the order of layers and heads."""
    means = trace.statistics.mean()
    columns = {name: means[name] for name in HEAD_VALUES}
    return [
        HeadLine(
            kind.layer,
            kind.head,
            kind.kind,
            {name: finite(column[row]) for name, column in columns.items()},
        )
        for row, kind in enumerate(trace.kinds())
    ]


def row(trace: Trace, layer: int, head: int, query: int) -> list[Attended]:
    """All keys in sight of one query, the largest weight first."""
    return [
        Attended(query, key, weight, arrived)
        for key, weight, arrived in trace.attended(layer, head, query, mass=1.0)
    ]


def choose(
    trace: Trace, *, layer: int | None, head: int | None, query: int | None
) -> tuple[Chosen, list[Attended]]:
    """The row to show: as named, or else the head that brings most to the query from elsewhere.

    "Most": the norms that arrive from all keys but the query itself and the first `sink_keys`
    (where weight rests without carrying much), as a share of what all heads of the layer bring
    from everywhere, so that a late layer with large values does not win by its size. A model whose
    output projection is unknown is judged by weight alone.

    Args:
        layer, head, query: what the user named; the query is the last token if not.

    Raises:
        ValueError: a layer, head or query that is not there.
    """
    query = _query(trace, query)
    layers = [entry for entry in trace.layers if entry.has_map]
    if not layers:
        raise ValueError("this model has no layer with an attention map")
    if layer is not None:
        trace.layer(layer)
        layers = [entry for entry in layers if entry.index == layer]
    if head is not None:
        layers = [entry for entry in layers if head < entry.query_heads and head >= 0]
        if not layers:
            raise ValueError(f"head: there is no head {head}; heads are counted from 0")
    best: tuple[float, int, int, list[Attended]] | None = None
    for entry in layers:
        rows = [row(trace, entry.index, at, query) for at in range(entry.query_heads)]
        whole = sum(_carried(part) for found in rows for part in found) or 1.0
        for at, found in enumerate(rows):
            if head is not None and at != head:
                continue
            brought = sum(
                _carried(part)
                for part in found
                if part.key != query and part.key >= trace.header.sink_keys
            )
            if best is None or brought / whole > best[0]:
                best = (brought / whole, entry.index, at, found)
    assert best is not None  # layers is not empty, and each has a head
    share, chosen_layer, chosen_head, found = best
    why = None if layer is not None and head is not None else _why(share, layer, head)
    if share == 0 and why is not None:
        why = "no head brings anything from a token that is neither the first nor this one"
    return (
        Chosen(chosen_layer, chosen_head, query, why, _sink(trace, chosen_layer, found)),
        found,
    )


def notes(trace: Trace) -> list[str]:
    """What a reader must know before the rest is believed: that the text is short."""
    tokens, needed = len(trace.tokens), LEAST_ROWS + LEAST_SIGHT - 1
    if tokens >= needed:
        return []
    return [
        f"Kinds of heads need more text: {tokens} token{'s' * (tokens > 1)} here, at least "
        f"{needed} to tell them all apart. What cannot be told is mixed."
    ]


def _carried(part: Attended) -> float:
    return part.weight if part.arrived is None else part.arrived


def _why(share: float, layer: int | None, head: int | None) -> str:
    among = "all heads"
    if layer is not None:
        among = "the heads of this layer"
    elif head is not None:
        among = "the heads of this number"
    return (
        f"of {among} the one that brings most from other tokens than the first and itself, "
        f"{share:.0%} of what its layer brings here"
    )


def _sink(trace: Trace, layer: int, found: list[Attended]) -> float:
    if trace.layer(layer).sinks is None:
        return 0.0
    return max(0.0, 1.0 - sum(part.weight for part in found))


def _query(trace: Trace, query: int | None) -> int:
    count = len(trace.tokens)
    wanted = -1 if query is None else query
    if not -count <= wanted < count:
        raise ValueError(f"query: {wanted} is not one of the {count} tokens, 0 to {count - 1}")
    return wanted % count


def labels(trace: Trace) -> list[str]:
    """How each token is printed: quoted; a part of a character as the character and its bytes.

    Three tokens that are one byte each of 国 read '国' e5, '国' 9b and '国' bd.
    """
    text = trace.text.encode("utf-8", "surrogatepass")
    return [_label(token, text) for token in trace.tokens]


def next_label(tokenizer: Any, before: Sequence[int], token: int) -> str:
    """How a token that would come next is printed; the ids before it may begin its character."""
    from attnscope.capture.tokens import spans_of_ids

    tokens, text = spans_of_ids(tokenizer, [*before[-_CHARACTER_BYTES:], token])
    return _label(tokens[-1], text.encode("utf-8", "surrogatepass"))


def _label(token: Token, text: bytes) -> str:
    start, end = token.start, token.end
    if start == end:  # a special token stands for no text
        return label(token.text)
    while start > 0 and _continues(text[start]):
        start -= 1
    while end < len(text) and _continues(text[end]):
        end += 1
    whole = label(text[start:end].decode("utf-8", "backslashreplace"))
    if (start, end) == (token.start, token.end):
        return whole
    return f"{whole} {text[token.start : token.end].hex(' ')}"


def _continues(byte: int) -> bool:
    """Whether a byte is inside a UTF-8 character rather than its first."""
    return byte & 0xC0 == 0x80
