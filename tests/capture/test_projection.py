"""Which module is an output projection, and which only looks like one; norms by numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers.pytorch_utils import Conv1D

from attnscope.capture.project import find_projection

H, E, C = 4, 6, 10


class Adapted(torch.nn.Linear):
    """Adds to what its matrix gives, as an adapter does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1


class Quantised(torch.nn.Module):
    """Keeps whole numbers where the matrix is looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.ones(H * E, C, dtype=torch.int8)


def attention(**children: torch.nn.Module) -> torch.nn.Module:
    module = torch.nn.Module()
    for name, child in children.items():
        module.add_module(name, child)
    return module


def matrix(child: torch.nn.Module) -> np.ndarray:
    """What a value is multiplied by, [H E, C], found out by what the module does."""
    with torch.no_grad():
        return (child(torch.eye(H * E)) - child(torch.zeros(H * E))).numpy()


@pytest.mark.parametrize("child", [torch.nn.Linear(H * E, C), Conv1D(C, H * E)])
@pytest.mark.parametrize("name", ["o_proj", "c_proj", "dense"])
def test_norms_are_those_of_what_the_module_does(name: str, child: torch.nn.Module) -> None:
    found = find_projection(attention(q_proj=torch.nn.Linear(3, 3), **{name: child}), H, E)
    assert found is not None
    assert found.linear is child
    v = torch.randn(2, 5, E, generator=torch.Generator().manual_seed(1))
    norms = found.norms(v)
    for head in range(H):
        value = v[head // 2].numpy() @ matrix(child)[head * E : (head + 1) * E]
        # float32: sums of 6 products, and a triangle of as many rows
        np.testing.assert_allclose(norms[head], np.linalg.norm(value, axis=-1), rtol=1e-5)


@pytest.mark.parametrize(
    "child",
    [
        torch.nn.Linear(C, H * E),  # as wide, the other way round
        Conv1D(H * E, C),
        torch.nn.Linear(H * E + 1, C),
        Adapted(H * E, C),
        Quantised(),
        torch.nn.Linear(H * E, C, device="meta"),
        torch.nn.Sequential(torch.nn.Linear(H * E, C)),
    ],
)
def test_what_cannot_be_trusted_is_no_projection(child: torch.nn.Module) -> None:
    assert find_projection(attention(o_proj=child), H, E) is None
    other = torch.nn.Linear(H * E, C)
    found = find_projection(attention(o_proj=child, dense=other), H, E)
    assert found is not None
    assert found.linear is other


def test_whole_numbers_in_a_plain_layer_are_not_trusted() -> None:
    layer = torch.nn.Linear(H * E, C)
    layer.weight = torch.nn.Parameter(torch.ones(C, H * E, dtype=torch.int8), requires_grad=False)
    assert find_projection(attention(o_proj=layer), H, E) is None
