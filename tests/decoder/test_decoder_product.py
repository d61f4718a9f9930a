"""One row times a matrix: against PyTorch's product and float64, and when it is not taken."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attnscope import decoder_product
from attnscope.decoder_product import RowLinear, is_single_row, quicken, row_product
from attnscope.testing import budget


def check(x: torch.Tensor, matrix: torch.Tensor) -> None:
    """Ours, PyTorch's, and float64."""
    peer = nn.functional.linear(x, matrix)
    exact = nn.functional.linear(x.double(), matrix.double())
    # Both sum the same products in orders of their own, so on one row either may be the luckier:
    # no order is further off than C roundings of half an epsilon of the sum of magnitudes.
    magnitudes = nn.functional.linear(x.abs().double(), matrix.abs().double())
    room = matrix.shape[1] * torch.finfo(torch.float32).eps / 2 * magnitudes
    assert bool(((row_product(x, matrix).double() - exact).abs() <= room).all())
    assert bool(((peer.double() - exact).abs() <= room).all())


@given(
    rows=st.integers(1, 600), columns=st.integers(1, 300), seed=st.integers(0, 99),
    lead=st.sampled_from([(), (1,), (1, 1)]),
)  # fmt: skip
def test_any_size_is_the_product(rows: int, columns: int, seed: int, lead: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(*lead, columns, generator=generator)
    check(x, torch.randn(rows, columns, generator=generator))


@pytest.mark.parametrize(("rows", "columns"), [(1536, 576), (49152, 64), (5001, 640)])
def test_large_matrices_are_shared_out_and_as_exact_as_pytorch(rows: int, columns: int) -> None:
    """Over thousands of rows luck evens out, and the usual budget holds."""
    assert rows * columns > decoder_product.SHARED or rows == 1536
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 1, columns, generator=generator)
    matrix = torch.randn(rows, columns, generator=generator)
    exact = nn.functional.linear(x.double(), matrix.double())
    budget(row_product(x, matrix), peer=nn.functional.linear(x, matrix), oracle=exact)


def test_numbers_that_are_not_finite_stay_so() -> None:
    matrix = torch.ones(3, 40)
    matrix[0, 7], matrix[1, 8] = float("nan"), float("inf")
    found = row_product(torch.ones(1, 40), matrix)
    assert found.isnan().tolist() == [[True, False, False]]
    assert found.isinf().tolist() == [[False, True, False]]


def test_no_thread_number_changes_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    x, matrix = torch.randn(1, 96, generator=generator), torch.randn(4000, 96, generator=generator)
    alone = row_product(x, matrix)
    monkeypatch.setattr(decoder_product, "SHARED", 1)
    assert torch.equal(row_product(x, matrix), alone)


ONE, MATRIX = torch.ones(1, 1, 8), torch.ones(4, 8)


@pytest.mark.parametrize(
    ("x", "matrix"),
    [
        (torch.ones(1, 2, 8), MATRIX),
        (ONE.double(), MATRIX.double()),
        (ONE.bfloat16(), MATRIX.bfloat16()),
        (ONE.to("meta"), MATRIX.to("meta")),
        (ONE, torch.ones(8, 4).T),
        (ONE.clone().requires_grad_(), MATRIX),
        (ONE, MATRIX.clone().requires_grad_()),
    ],
    ids=["rows", "float64", "bfloat16", "meta", "transposed", "grad", "weight-grad"],
)
def test_everything_else_goes_to_pytorch(x: torch.Tensor, matrix: torch.Tensor) -> None:
    assert is_single_row(ONE, MATRIX)
    assert not is_single_row(x, matrix)


def test_a_quickened_module_is_the_same_function_with_its_gradient() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(24, 40), nn.SiLU(), nn.Linear(40, 8, bias=False))
    x = torch.randn(1, 24)
    before = module(x)
    before.sum().backward()
    slopes = [p.grad.clone() for p in module.parameters()]
    names = [name for name, _ in module.named_parameters()]
    quicken(module)
    assert all(isinstance(part, RowLinear) for part in module if isinstance(part, nn.Linear))
    assert [name for name, _ in module.named_parameters()] == names
    with torch.no_grad():
        # two orders of summing 40 numbers of about 1
        torch.testing.assert_close(module(x), before.detach(), rtol=1e-5, atol=1e-6)
    module.zero_grad()
    module(x).sum().backward()
    assert all(torch.equal(p.grad, s) for p, s in zip(module.parameters(), slopes, strict=True))
