"""Devices: memory, bandwidth and peak, and the ridge point between them.

The idea: a step that does fewer FLOPs per byte than the device's peak divided by its bandwidth (its
ridge point) waits for memory; one that does more waits for arithmetic.

Units: bytes, bytes per second, FLOP/s (dense bf16).

Source: the vendors' data sheets of each product.

Not here: measured speeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Device:
    """One device by its data sheet.

    Args:
        sheet: where memory, bandwidth and peak are printed.
    """

    name: str
    memory: int
    bandwidth: int
    peak: int
    sheet: str

    @property
    def ridge(self) -> float:
        """FLOPs for each byte at which arithmetic and memory take the same time.

        >>> round(DEVICES["h100"].ridge)
        295
        """
        return self.peak / self.bandwidth


_G, _T = 10**9, 10**12
DEVICES: Final[dict[str, Device]] = {
    one.name: one
    for one in (
        Device("a100", 80 * _G, 2_039 * _G, 312 * _T, "NVIDIA A100 80GB data sheet, SXM"),
        Device("h100", 80 * _G, 3_350 * _G, 989 * _T, "NVIDIA H100 data sheet, SXM"),
        Device("h200", 141 * _G, 4_800 * _G, 989 * _T, "NVIDIA H200 data sheet, SXM"),
        Device("b200", 192 * _G, 8_000 * _G, 2_250 * _T, "NVIDIA Blackwell data sheet, B200"),
        Device("l40s", 48 * _G, 864 * _G, 362 * _T, "NVIDIA L40S data sheet"),
        Device("rtx4090", 24 * _G, 1_008 * _G, 165 * _T, "NVIDIA Ada architecture white paper"),
        Device("mi300x", 192 * _G, 5_300 * _G, 1_307 * _T, "AMD Instinct MI300X data sheet"),
    )
}
"""SXM forms where there are several; L40S and RTX 4090 without sparsity."""


def find_device(name: str) -> Device:
    """The device called `name`.

    Raises:
        ValueError: for a name that is not there.
    """
    found = DEVICES.get(name.lower().replace("-", "").replace(" ", ""))
    if found is None:
        raise ValueError(f"device must be one of {', '.join(DEVICES)}, got {name!r}.")
    return found
