"""Poisoned memory: whoever reads what nobody wrote gets NaN."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from attnscope.core import Request, attend
from attnscope.testing import poison, qkv


def _arrays() -> list:  # type: ignore[type-arg]
    x = torch.zeros(3)
    return [
        torch.empty(4),
        torch.empty_like(x),
        torch.empty_strided((2, 2), (2, 1)),
        x.new_empty(5),
        x.new_empty_strided((2,), (1,)),
        np.empty(4),
        np.empty_like(np.zeros(3, np.float32)),
    ]


def test_every_way_to_get_unwritten_memory() -> None:
    with poison(package=__name__):
        for array in _arrays():
            assert np.isnan(np.asarray(array)).all()
        assert (torch.empty(3, dtype=torch.int64) == torch.iinfo(torch.int64).max).all()
        assert (np.empty(3, np.int32) == np.iinfo(np.int32).max).all()
        assert torch.empty(3, dtype=torch.bool).all()
        assert torch.empty(3, device="meta").shape == (3,)


def test_others_are_left_alone_and_everything_is_put_back() -> None:
    names = [(torch, "empty"), (torch.Tensor, "new_empty"), (np, "empty")]
    before = [getattr(place, name) for place, name in names]

    def fail() -> None:
        with poison(package="somebody.else"):
            assert torch.empty is not before[0]
            # Memory just given back, full of ones, is what comes next, or zeros: not all NaN.
            assert not torch.empty(4).isnan().all()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [getattr(place, name) for place, name in names] == before


def test_the_package_is_poisoned_in_every_test() -> None:
    """The autouse fixture of tests/conftest.py is in force, for the package and not for tests."""
    made = eval("torch.empty(7)", {"__name__": "attnscope.core.anything", "torch": torch})
    assert made.isnan().all()


def test_a_forgotten_write_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the writing of outputs of the last band, and the answer is NaN."""
    from attnscope.core import strip

    original = strip._strip

    def forgetful(part, band, results, buffers):  # type: ignore[no-untyped-def]
        if band.stop < part.q.shape[3]:
            original(part, band, results, buffers)

    monkeypatch.setattr(strip, "_strip", forgetful)
    q, k, v = qkv(queries=300)
    result = attend(q, k, v, statistics=Request.of(["entropy"]), impl="strip")
    assert result.output.isnan().any()
    assert result["entropy"].isnan().any()


FIRST_USE = """
import torch
from attnscope.testing import poison
with poison(), torch.device("meta"):
    assert torch.empty(2).device.type == "meta"
with torch.device("meta"):
    assert torch.empty(2).device.type == "meta"
    assert torch.zeros(2).device.type == "meta"
"""


def test_a_device_context_first_used_under_poison_still_works_after_it() -> None:
    """In a process of its own: PyTorch looks its constructors up once in a lifetime."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
