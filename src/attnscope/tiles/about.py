"""What a trace holds, as JSON-ready dictionaries: the layers, the heads, the names.

The idea: a program that draws asks this once, and knows from it every tile and track there is.

Not here: tokens (tokens.py), numbers of single cells (tiling.py).
"""

from __future__ import annotations

import math
from typing import Any, Final

from attnscope.tiles.grid import MEASURES, TILE, Grid
from attnscope.trace import LayerInfo, LayerRecord, Trace
from attnscope.trace.table import NO_MEAN

SCHEMA: Final = "attnscope.tiles/1"
TRACKS: Final = ("received", "entropy", "sink_mass")
"""One-dimensional companions of the map; "received" runs along keys, the others along queries."""

UNKNOWN: Final = "unknown"
"""The kind of every head where the trace lacks the statistics that the rules need."""


def info(trace: Trace) -> dict[str, Any]:
    """What there is to see.

    Returns:
        `TraceInfo` of the browser side: model, tile size, measures and tracks that some layer has,
        names of the per-row statistics that have a mean, and each layer with the size of its map.

    Cost: none; no array is read.
    """
    records = {r.info.index: r for r in (trace.layer(i.index) for i in trace.layers if i.has_map)}
    arrived = any(record.has("value_norms") for record in records.values())
    model = trace.model
    return {
        "schema": SCHEMA,
        "model": {
            "name": model.name,
            "architecture": model.architecture,
            "layers": model.layers,
            "query_heads": model.query_heads,
            "kv_heads": model.kv_heads,
            "head_width": model.head_width,
        },
        "tile": TILE,
        "measures": [name for name in MEASURES if arrived or not name.startswith("arrived")],
        "tracks": list(tracks_of(trace)),
        "statistics": list(_row_statistics(trace)),
        "prompt_tokens": trace.prompt_tokens,
        "sink_keys": trace.header.sink_keys,
        "layers": [_layer(entry, records.get(entry.index)) for entry in trace.layers],
    }


def tracks_of(trace: Trace) -> tuple[str, ...]:
    """The tracks that this trace has, in the order that a track's name index counts."""
    return tuple(name for name in TRACKS if name in trace.header.statistics)


def heads(trace: Trace) -> list[dict[str, Any]]:
    """Every head with its kind and the mean of each statistic over its rows.

    Returns:
        `HeadRow` of the browser side. A mean that is no number (a head that sees nothing) is left
        out. Without the statistics that the rules need, the kind is "unknown" and its score 0.

    Raises:
        TraceError: the trace is damaged.

    Cost: one pass over the statistics of all layers.
    """
    try:
        kinds = {(kind.layer, kind.head): kind for kind in trace.kinds()}
    except ValueError:  # the statistics that the rules need were not captured
        kinds = {}
    means = trace.statistics.mean()
    names = [name for name in means.names if name not in ("layer", "head")]
    columns = {name: means[name].tolist() for name in means.names}
    rows = []
    for place, (layer, head) in enumerate(zip(columns["layer"], columns["head"], strict=True)):
        kind = kinds.get((layer, head))
        values = {name: columns[name][place] for name in names}
        rows.append(
            {
                "layer": layer,
                "head": head,
                "kind": UNKNOWN if kind is None else kind.kind,
                "score": float(kind.share) if kind and math.isfinite(kind.share) else 0.0,
                "statistics": {n: v for n, v in values.items() if math.isfinite(v)},
            }
        )
    return rows


def _row_statistics(trace: Trace) -> tuple[str, ...]:
    left_out = ("received", *NO_MEAN)
    return tuple(name for name in trace.header.statistics if name not in left_out)


def _layer(entry: LayerInfo, record: LayerRecord | None) -> dict[str, Any]:
    """`LayerInfo` of the browser side."""
    grid = Grid(record.queries, record.keys) if record else None
    return {
        "index": entry.index,
        "kind": entry.kind,
        "reason": entry.reason,
        "window": entry.window,
        "query_heads": entry.query_heads,
        "kv_heads": entry.kv_heads,
        "queries": grid.queries if grid else 0,
        "keys": grid.keys if grid else 0,
        "levels": grid.levels if grid else 0,
        "causal": entry.causal,
        "cross": entry.cross,
        "arrived": bool(record and record.has("value_norms")),
        "sink_logit": bool(record and record.has("sinks")),
    }
