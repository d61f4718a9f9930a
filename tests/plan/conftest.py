"""The planner makes no arrays, and its referees build whole models on the meta device.

`with torch.device("meta")` knows its functions by identity, through a cache: one that was filled
while `torch.empty` was replaced by the poisoned one no longer knows the real one, and tensors land
on the CPU. So no poison here, and a fresh cache.
"""

import sys

import pytest


@pytest.fixture(autouse=True)
def _poisoned() -> None:
    if "torch" in sys.modules:
        from torch.utils import _device

        _device._device_constructors.cache_clear()
