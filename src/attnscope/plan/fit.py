"""The largest context that fits: the inverse of the cache's piecewise function.

The idea: between two corners (the windows, the groups of a compression) the cache is a straight
line in the length, so the segment that holds the budget is found by its ends, and the length inside
it by a division. Entries that stand for several tokens make small steps of the line; the answer is
then corrected within one group.

Formula
    batch * (slope * T + constant) <= bytes - weights - reserved

Units: bytes, tokens.

Not here: what an engine reserves (engines/).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from attnscope.plan.bytes import LARGEST, as_asked, bytes_by_length, formats, whole
from attnscope.plan.devices import DEVICES, Device, find_device
from attnscope.plan.model import Model

UNITS: Final = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "k": 2**10, "m": 2**20, "g": 2**30,
}  # fmt: skip

LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_LETTERS: Final = 80
"""A number of bytes is written with fewer."""


def parse_bytes(text: str) -> int:
    """Bytes from `141GB` (decimal), `80GiB` (binary) or a plain number.

    Raises:
        ValueError: for anything else.

    >>> parse_bytes("141GB"), parse_bytes("1.5GiB")
    (141000000000, 1610612736)
    """
    plain = str(text).strip()
    digits = plain.rstrip(LETTERS).rstrip()
    unit = plain[len(digits) :].strip().lower()
    whole_part, point, part = digits.partition(".")
    numbers = [whole_part, part] if point else [whole_part]
    right = all(one.isascii() and one.isdecimal() for one in numbers)
    if not right or unit not in UNITS or len(plain) > MOST_LETTERS:
        raise ValueError(f"bytes must look like 141GB, 80GiB or 1000000, got {text!r}.")
    size = Fraction(int(whole_part + part), 10 ** len(part)) * UNITS[unit]
    if size > 10**18:
        raise ValueError(f"bytes must be at most 10^18, got {text!r}.")
    return int(size)


def find_room(text: str, argument: str = "bytes") -> tuple[int, Device | None]:
    """Bytes by a number of them, or by the name of a device; and the device.

    Raises:
        ValueError: it is neither.

    >>> find_room("80GB")[0] == find_room("h100")[0]
    True
    """
    try:
        device = find_device(text)
    except ValueError:
        pass
    else:
        return device.memory, device
    try:
        return parse_bytes(text), None
    except ValueError:
        raise ValueError(
            f"{argument} must be bytes such as 141GB or 80GiB (up to 10^18), or a device "
            f"({', '.join(DEVICES)}), got {text!r}."
        ) from None


def three_digits(value: float, below: int = 1) -> str:
    """`value / below` to three significant digits, or to a whole number where it has more.

    It is rounded exactly, half to even, so that it is the same wherever it is computed.

    >>> three_digits(5, 2), three_digits(2125, 1000), three_digits(12345), three_digits(1, 3)
    ('2.5', '2.12', '12,345', '0.333')
    """
    top, under = value.as_integer_ratio()
    under *= below
    if top <= 0:
        return "0" if top == 0 else f"-{three_digits(-value, below)}"
    places = 2
    while places > 0 and top >= under * 10 ** (3 - places):
        places -= 1
    while top * 10**places < under * 100 and places < 12:
        places += 1
    digits, rest = divmod(top * 10**places, under)
    digits += 2 * rest > under or (2 * rest == under and digits % 2 == 1)
    whole, part = divmod(digits, 10**places)
    behind = f"{part:0{places}d}".rstrip("0") if places else ""
    return f"{whole:,}.{behind}" if behind else f"{whole:,}"


def size_text(size: float) -> str:
    """Bytes in the largest binary unit that leaves a number of at least 1.

    >>> size_text(4 * 2**30), size_text(70272), size_text(1)
    ('4 GiB', '68.6 KiB', '1 B')
    """
    for unit, scale in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= scale:
            return f"{three_digits(size, scale)} {unit}"
    return f"{three_digits(round(size))} B"


@dataclass(frozen=True)
class Fit:
    """What fits.

    Args:
        tokens: the largest context, 0 where not one token fits, None where every length fits
            (a cache that stops growing).
        bytes_used: what the cache takes at that context, for the whole batch.
        limit: the model's own limit of positions, where its config has one.
    """

    budget: int
    weights: int
    batch: int
    tokens: int | None
    bytes_used: int
    limit: int | None

    @property
    def usable(self) -> int | None:
        """The largest context that fits and that the model can hold."""
        if self.tokens is None:
            return self.limit
        return self.tokens if self.limit is None else min(self.tokens, self.limit)


def corners(model: Model) -> list[int]:
    """The lengths at which the slope of the cache changes."""
    spans = {
        store.span for layer in model.layers for store in layer.stores if store.growth == "window"
    }
    return sorted(spans)


def largest_context(
    model: Model,
    budget: int,
    *,
    weights: int = 0,
    batch: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
) -> Fit:
    """The largest context whose cache fits beside the weights.

    Args:
        budget: bytes of the device.
        weights: bytes that are taken already.
        batch: sequences of that length.

    Raises:
        ValueError: a negative number, a batch below 1, or an unknown format.

    >>> from attnscope.plan import read
    >>> largest_context(read("llama-3-8b"), 131072 * 1000 + 5).tokens
    1000
    """
    whole(batch, "batch")
    if budget < 0 or weights < 0:
        raise ValueError(f"budget and weights must not be negative, got {budget} and {weights}.")
    room = (budget - weights) // batch

    size = bytes_by_length(model, dtype=dtype, kv_dtype=kv_dtype)

    def answer(tokens: int | None, used: int) -> Fit:
        return Fit(budget, weights, batch, tokens, used * batch, model.context_limit)

    if room < 0 or size(1) > room:
        return answer(0, 0)
    ends = corners(model)
    segment = next((i for i, end in enumerate(ends) if size(end) > room), len(ends))
    start = ends[segment - 1] if segment else 0
    slope = _slope(model, start, dtype, kv_dtype)
    if slope == 0:
        if segment == len(ends):
            return answer(None, size(start))
        return answer(start, size(start))
    # A straight line from the segment's start; steps of compressed entries only lower it.
    step = math.lcm(*(_ratios(model) or [1]))
    tokens = start + int(Fraction(room - size(start), 1) / slope)
    tokens = min(max(tokens, start, 1), LARGEST)
    tokens = _settle(tokens, size, start=start, step=step, room=room)
    return answer(tokens, size(tokens))


def _settle(tokens: int, size: Callable[[int], int], *, start: int, step: int, room: int) -> int:
    """The largest length within one group of `tokens` that fits."""
    low, high = max(tokens - step, start, 1), tokens + step
    while low < high:
        middle = (low + high + 1) // 2
        if size(middle) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _ratios(model: Model) -> list[int]:
    return sorted(
        {s.span for layer in model.layers for s in layer.stores if s.growth == "compressed"}
    )


def _slope(model: Model, after: int, dtype: str | None, kv_dtype: str | None) -> Fraction:
    """Bytes per token just past `after` tokens."""
    cache, plain = formats(model, dtype, kv_dtype)
    slope = Fraction(0)
    for layer in as_asked(model, kv_dtype):
        for store in layer.stores:
            size = store.entry_bytes(cache, plain)
            if store.growth == "token" or (store.growth == "window" and store.span > after):
                slope += size
            elif store.growth == "compressed":
                slope += Fraction(size, store.span)
    return slope
