"""Memory that nobody has written to holds NaN, so that reading it cannot go unnoticed.

The idea: `torch.empty` often gives zeros, and a forgotten write looks right. While poisoned, every
array that code of the package asks for without a value is filled with NaN (integers with their
largest value, booleans with True).

Not here: arrays made inside compiled code (Numba), and other packages' arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

TORCH = ("empty", "empty_like", "empty_strided")
METHODS = ("new_empty", "new_empty_strided")
NUMPY = ("empty", "empty_like")


@contextmanager
def poison(*, package: str = "attnscope") -> Iterator[None]:
    """Within it, uninitialised arrays made by `package` hold NaN.

    Use it as an automatic fixture: `with poison(): yield`. It may stand inside another one.

    Args:
        package: the name of a package or module; its parts are meant too.
    """
    places: list[tuple[Any, str]] = [(torch, name) for name in TORCH]
    places += [(torch.Tensor, name) for name in METHODS]
    places += [(np, name) for name in NUMPY]
    before = [(place, name, getattr(place, name)) for place, name in places]
    # `with torch.device(...)` knows its functions by identity and looks them up once: now, before
    # any of them is replaced, or it would miss the real ones from then on.
    from torch.utils import _device

    _device._device_constructors()
    try:
        for place, name, original in before:
            setattr(place, name, _poisoned(original, package))
        yield
    finally:
        for place, name, original in before:
            setattr(place, name, original)


def _poisoned(original: Callable[..., Any], package: str) -> Callable[..., Any]:
    def made(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        name = sys._getframe(1).f_globals.get("__name__", "")
        if name == __name__:  # an outer poison asks on behalf of its own caller
            return result
        if name == package or name.startswith(package + "."):
            _fill(result)
        return result

    return made


def _fill(array: Any) -> None:
    if isinstance(array, np.ndarray):
        if array.dtype.kind in "fc":
            array.fill(np.nan)
        elif array.dtype.kind in "iu":
            array.fill(np.iinfo(array.dtype).max)
        elif array.dtype.kind == "b":
            array.fill(True)
    elif array.device.type != "meta":
        with torch.no_grad():
            if array.dtype.is_floating_point or array.dtype.is_complex:
                array.fill_(torch.nan)
            elif array.dtype == torch.bool:
                array.fill_(True)
            else:
                array.fill_(torch.iinfo(array.dtype).max)
