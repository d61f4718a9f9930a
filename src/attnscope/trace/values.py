"""What the numbers in a trace may be; one rule per array, used by writer and reader alike.

The idea: a NaN or a key out of range must be an error with a name before it becomes a picture.
Rules that need one array only are here; rules that tie arrays together are in layer.py.

Dtypes
    bfloat16 comes as its bits (uint16) and is widened to float32 exactly.

Not here: shapes (arrays.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from attnscope.errors import TraceError
from attnscope.trace.header import LayerInfo

_INF_BF16: Final = np.uint16(0x7F80)
ROUNDING: Final = 1e-3
"""Room above 1 for a weight pooled in float32: 1024 cells of a sum rounded at 6e-8 stay below."""


def widen(array: np.ndarray, dtype: np.dtype | type = np.float32) -> np.ndarray:
    """Floats of any stored dtype as float32 or float64, exactly; a view where nothing changes.

    >>> widen(np.array([0x3F80], np.uint16))
    array([1.], dtype=float32)
    """
    if array.dtype == np.uint16:
        array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array.astype(np.promote_types(array.dtype, dtype), copy=False)


def finite(array: np.ndarray) -> bool:
    """Whether no element is NaN or infinite."""
    if array.dtype == np.uint16:
        return not bool(np.any((array & _INF_BF16) == _INF_BF16))
    return bool(np.isfinite(array).all())


def check(name: str, array: np.ndarray, layer: LayerInfo, where: str) -> None:
    """Apply the rule of one array (or of a part of it).

    Raises:
        TraceError: naming the file, the array and what was found.
    """
    rule, expected = _RULES.get(name, (finite, "finite numbers"))
    if not rule(array):
        raise TraceError(f"{where}: {name}: expected {expected}; the trace cannot be trusted.")


def check_spans(
    first: np.ndarray,
    end: np.ndarray,
    origin: np.ndarray,
    *,
    keys: int,
    layer: LayerInfo,
    where: str,
) -> None:
    """Every row's keys are keys, none later than the query under a causal mask, none too many."""
    for name, array in (("first", first), ("end", end), ("origin", origin)):
        if array.size and (array.min() < 0 or array.max() > keys):
            raise TraceError(f"{where}: {name}: expected keys from 0 to {keys}.")
    count = end.astype(np.int64) - first
    seen = count > 0
    if layer.causal and not layer.cross:
        position = keys - len(first) + np.arange(len(first))
        if np.any(seen & (end > position + 1)):
            raise TraceError(f"{where}: end: a query sees a later key, and the layer is causal.")
    if layer.window is not None and layer.causal and np.any(count > layer.window):
        raise TraceError(f"{where}: a query sees more keys than the window of {layer.window}.")


def check_map(planes: dict[str, np.ndarray], *, cell: int, where: str) -> None:
    """Weights between 0 and 1, and the three planes masked in the same cells."""
    mean, largest, place = planes["map_mean"], planes["map_max"], planes["map_argmax"]
    masked = np.isnan(mean)
    if not np.array_equal(masked, np.isnan(largest)) or not np.array_equal(masked, place < 0):
        raise TraceError(f"{where}: the planes of the map are masked in different cells.")
    for name, plane in (("map_mean", mean), ("map_max", largest)):
        if np.any(plane < 0) or np.any(plane > 1 + ROUNDING):
            raise TraceError(f"{where}: {name}: expected weights from 0 to 1.")
    if np.any(place < -1) or np.any(place >= cell * cell):
        raise TraceError(f"{where}: map_argmax: expected places inside a cell of {cell} by {cell}.")


def _not_above(array: np.ndarray) -> bool:
    return not bool(np.any(np.isnan(array)) or np.any(array == np.inf))


def _finite_not_negative(array: np.ndarray) -> bool:
    return finite(array) and not bool(np.any(array < 0))


def _anything(array: np.ndarray) -> bool:
    return True


_RULES: Final[dict[str, tuple[Callable[[np.ndarray], bool], str]]] = {
    "value_norms": (_finite_not_negative, "finite numbers from 0"),
    "received": (_finite_not_negative, "finite numbers from 0"),
    "logsumexp": (_not_above, "numbers, or -inf for a row that sees nothing"),
    "max_logit": (_not_above, "numbers, or -inf for a row that sees nothing"),
    "sinks": (_not_above, "numbers, or -inf"),
    "bias": (_not_above, "numbers, or -inf"),
    "bias_by_offset": (_not_above, "numbers, or -inf"),
    # checked together elsewhere: check_spans, check_map, and the ranges of whole layers
    "map_mean": (_anything, ""),
    "map_max": (_anything, ""),
}
