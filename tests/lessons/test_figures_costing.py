"""Costs of a prefill and a decode step against tensors, PyTorch's FLOP counter and raw configs.

Nothing here goes through attnscope.plan.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from figure_referees import GIB, MIB, close, config, value
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

T = 4096
RAW = config("qwen3.8-27b")
H, G, D = (RAW[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim"))
LAYERS = RAW["layer_types"].count("full_attention")
SHEET = {"peak": 989e12, "bandwidth": 3.35e12}
"""NVIDIA's data sheet of the H100 SXM: dense BF16, HBM3."""


def tensors(rows: int) -> tuple[torch.Tensor, ...]:
    """Queries, keys and values of one layer that hold no memory."""
    made: Any = {"dtype": torch.bfloat16, "device": "meta"}
    q = torch.empty(1, H, rows, D, **made)
    return q, *(torch.empty(1, G, T, D, **made) for _ in range(2))


def counted(rows: int) -> int:
    """FLOPs that PyTorch counts: every pair, masked or not."""
    q, k, v = tensors(rows)
    with FlopCounterMode(display=False) as counter:
        scaled_dot_product_attention(q, k.repeat_interleave(H // G, 1),
                                     v.repeat_interleave(H // G, 1))  # fmt: skip
    return LAYERS * int(counter.get_total_flops())


def test_flops_are_those_that_pytorch_counts() -> None:
    assert value("cost.qwen38.step.flops") == counted(1)
    # A causal row sees i of the T keys: of the square's T^2 pairs, those up to the diagonal.
    seen = sum(range(1, T + 1))
    assert value("cost.qwen38.prefill.flops") * T**2 == counted(T) * seen


def test_bytes_are_those_of_tensors() -> None:
    q, k, v = tensors(T)
    assert value("cost.qwen38.step.bytes") == LAYERS * (k.nbytes + v.nbytes) == 256 * MIB
    # The output is as large as q.
    assert value("cost.qwen38.prefill.bytes") == LAYERS * (2 * q.nbytes + k.nbytes + v.nbytes)
    assert value("cost.qwen38.prefill.bytes") == 1.75 * GIB


def test_intensities_are_flops_by_bytes() -> None:
    close(value("cost.qwen38.gqa.intensity"),
          value("cost.qwen38.step.flops") / value("cost.qwen38.step.bytes"))  # fmt: skip
    assert value("cost.qwen38.gqa.intensity") == H / G
    assert value("cost.qwen38.mha.intensity") == 1
    assert value("cost.qwen38.mqa.intensity") == H
    close(value("cost.qwen38.prefill.intensity"),
          value("cost.qwen38.prefill.flops") / value("cost.qwen38.prefill.bytes"))  # fmt: skip


@pytest.mark.parametrize(("scheme", "heads"), [("mha", H), ("gqa", G), ("mqa", 1)])
def test_times_follow_from_the_data_sheet(scheme: str, heads: int) -> None:
    context = RAW["max_position_embeddings"]
    read = LAYERS * 2 * heads * D * 2 * context
    close(value(f"cost.qwen38.{scheme}.reading"), 1e3 * read / SHEET["bandwidth"])
    close(value("cost.qwen38.step.working"), 1e3 * LAYERS * 4 * H * D * context / SHEET["peak"])


def test_the_device_is_the_one_of_the_sheet() -> None:
    assert value("device.h100.peak") == SHEET["peak"]
    assert value("device.h100.bandwidth") == SHEET["bandwidth"]
    close(value("device.h100.ridge"), SHEET["peak"] / SHEET["bandwidth"])


def test_a_step_of_another_shape_would_be_noticed() -> None:
    assert value("cost.qwen38.step.flops") != LAYERS * 4 * G * D * T
    assert value("cost.qwen38.prefill.flops") != counted(T)
