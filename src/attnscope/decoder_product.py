"""One row times a matrix, which is most of what a decoding step does.

The idea: a step reads every weight once and computes next to nothing with it, so all that counts is
how fast memory is read. Reading one row of the matrix after the other, to its end, is what a
processor foresees best: one thread reads 20 to 30 GB/s where PyTorch's product of a single row
reads 12 (two cores of an AMD EPYC), and large matrices are shared among the threads.

Formula: y_r = sum_c W_rc x_c + b_r

Shapes: x [..., C] with one row in all; W [R, C]; y [..., R].

Dtypes: float32 on the CPU; everything else goes to PyTorch.

Not here: products of several rows, where PyTorch's own are as good as any.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from attnscope.core.jit import compiled
from attnscope.core.microkernel import take_number
from attnscope.core.workspace import cpu_threads, crew

SHARED: Final = 1 << 21
"""From so many numbers on (8 MiB) a matrix is worth waking the other threads for."""
BLOCK: Final = 256
"""Rows that a thread takes at once."""


@compiled
def _rows(matrix, x, y, counter):  # type: ignore[no-untyped-def]
    """Take blocks of rows until none is left; counter is int64 [1], zeroed."""
    rows, columns = matrix.shape
    block = take_number(counter, 0)
    while block * BLOCK < rows:
        for row in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            total = np.float32(0.0)
            for column in range(columns):
                total += matrix[row, column] * x[column]
            y[row] = total
        block = take_number(counter, 0)


def row_product(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """matrix @ x for one row x.

    Args:
        x: float32, C numbers in any shape [..., C].
        matrix: float32 [R, C], contiguous, on the CPU.

    Returns:
        [..., R].

    Cost: 2 R C FLOPs; reads the matrix once.

    >>> row_product(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    tensor([[11., 17.]])
    """
    y = x.new_empty(*x.shape[:-1], matrix.shape[0])
    parts = matrix.detach().numpy(), x.detach().reshape(-1).numpy(), y.view(-1).numpy()
    counter = np.zeros(1, np.int64)
    threads = cpu_threads() if matrix.numel() >= SHARED else 1
    crew(lambda _: _rows(*parts, counter), threads)
    return y


class RowLinear(nn.Linear):
    """`nn.Linear` that multiplies a single row by `row_product` where that is possible."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., C]."""
        if not is_single_row(x, self.weight):
            return functional.linear(x, self.weight, self.bias)
        y = row_product(x, self.weight)
        return y if self.bias is None else y.add_(self.bias)


def is_single_row(x: torch.Tensor, matrix: torch.Tensor) -> bool:
    """Whether `row_product` can do this: one row, float32, on the CPU, no gradient wanted."""
    return (
        x.numel() == matrix.shape[1]
        and x.dtype == matrix.dtype == torch.float32
        and x.device.type == matrix.device.type == "cpu"
        and matrix.is_contiguous()
        and not (torch.is_grad_enabled() and (x.requires_grad or matrix.requires_grad))
    )


def quicken(module: nn.Module) -> None:
    """Make every plain `nn.Linear` of a module a `RowLinear`; names and weights stay."""
    for part in module.modules():
        if type(part) is nn.Linear:
            part.__class__ = RowLinear
