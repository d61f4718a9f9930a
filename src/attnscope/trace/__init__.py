"""The file format of a captured run, and what can be asked of one; numpy only.

    open_trace(path)             a saved trace
    Trace.from_arrays(…)         one in memory
    TraceWriter(path, header)    one that is written layer by layer
    trace.statistics             a table: a row per layer, head and query
    trace.weights(layer, head, queries)      exact weights of some rows
    trace.attended(layer, head, query)       where a token takes its information from
    trace.kinds()                what each head mostly does

The format itself is described in docs/trace.md.
"""

from attnscope.trace.folder import leftovers
from attnscope.trace.format import VERSION
from attnscope.trace.header import Header, LayerInfo, ModelInfo, Token
from attnscope.trace.kinds import KINDS, HeadKind
from attnscope.trace.layer import LayerRecord, MapPlanes
from attnscope.trace.opening import open_trace
from attnscope.trace.table import Means, Statistics
from attnscope.trace.trace import Attended, Trace
from attnscope.trace.writer import TraceWriter

__all__ = [
    "KINDS",
    "VERSION",
    "Attended",
    "HeadKind",
    "Header",
    "LayerInfo",
    "LayerRecord",
    "MapPlanes",
    "Means",
    "ModelInfo",
    "Statistics",
    "Token",
    "Trace",
    "TraceWriter",
    "leftovers",
    "open_trace",
]
