"""Statistics from PyTorch's own flash kernel on the CPU, against the weights it hides."""

from __future__ import annotations

import pytest
import torch

from attnscope.core import Request, from_kernel, torch_flash
from attnscope.core.from_kernel import KERNEL_STATISTICS
from attnscope.testing import oracle, qkv

SHAPES = {
    "prefill": (4, 2, 150, 150, 16, True),
    "one_key_head": (12, 1, 7, 7, 8, True),
    "more_heads_than_columns": (10, 1, 9, 9, 4, True),
    "cross": (6, 3, 50, 70, 16, False),
    "decode": (4, 2, 1, 900, 16, True),
}
KINDS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def rowwise(x: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    return (x.double() - exact).abs()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_the_documented_accuracy(shape: str, dtype: torch.dtype) -> None:
    H, G, T, S, D, causal = SHAPES[shape]
    q, k, v = qkv(heads=H, groups=G, queries=T, keys=S, width=D, dtype=dtype)
    k = k + 2  # a common offset of the keys: centring must take it away
    ours = from_kernel(
        torch_flash, q, k, v, causal=causal, statistics=KERNEL_STATISTICS, blocks=16, sink_keys=3
    )
    exact = oracle(
        q, k, v, causal=causal,
        statistics=Request(KERNEL_STATISTICS, sink_keys=3, rows=tuple(range(T))),
    )  # fmt: skip
    eps, eps32 = torch.finfo(dtype).eps, torch.finfo(torch.float32).eps
    s = q.double() @ k.double().repeat_interleave(H // G, 1).transpose(-1, -2) * D**-0.5
    spread = (s - s.mean(-1, keepdim=True)).abs().max()
    half = dtype.itemsize == 2
    # The dtype in which a kernel keeps scores, and the error of a score, relative for exp of it.
    inner = eps if dtype == torch.float64 else eps32
    score = 8 * inner * s.abs().max().clamp(min=1)
    lse = 2e-4 if half else score
    entropy = 4 * eps * spread.clamp(min=1) + 2 * lse
    allowed = {
        "logsumexp": lse,
        "entropy": entropy,
        "effective_keys": exact["effective_keys"] * entropy * 1.1,
        "participation": exact["participation"] * 3 * lse,
        "sink_mass": 4 * eps + score,
        "mean_distance": (4 * eps + score) * max(S, 256),
        "received": (4 * eps + score) * exact["received"],
    }
    for name in KERNEL_STATISTICS:
        wrong = rowwise(ours[name], exact[name])
        assert (wrong <= allowed[name]).all(), (name, float(wrong.max()))
    assert exact.rows is not None
    masses = torch.stack([part.sum(-1) for part in exact.rows.split(16, dim=-1)], dim=-1)
    assert ours.blocks is not None
    assert (rowwise(ours.blocks, masses) <= 4 * eps + score).all()
    kept = torch.float64 if dtype == torch.float64 else torch.float32
    assert all(value.dtype == kept for value in ours.statistics.values())


def test_the_check_can_fail() -> None:
    """A kernel whose log-sum-exp is off by 1e-3 gives an entropy that is off by as much."""

    def liar(q, k, v, /, *, scale, causal):  # type: ignore[no-untyped-def]
        out, lse = torch_flash(q, k, v, scale=scale, causal=causal)
        return out, lse + 1e-3

    q, k, v = qkv(queries=20)
    good = from_kernel(torch_flash, q, k, v)["entropy"]
    bad = from_kernel(liar, q, k, v)["entropy"]
    # Rows of entropy 0 are clamped; nothing else moves by anything but the lie.
    torch.testing.assert_close(bad, good + 1e-3, rtol=0, atol=2e-6)


def test_the_kernel_is_run_no_more_than_asked() -> None:
    calls = []

    def counted(q, k, v, /, *, scale, causal):  # type: ignore[no-untyped-def]
        calls.append(v.shape)
        return torch_flash(q, k, v, scale=scale, causal=causal)

    q, k, v = qkv(queries=20)
    for names, count in (((), 1), (("logsumexp",), 1), (("entropy", "effective_keys"), 2),
                         (("participation",), 2), (("mean_distance", "sink_mass"), 2),
                         (("received",), 2), (KERNEL_STATISTICS, 5)):  # fmt: skip
        calls.clear()
        result = from_kernel(counted, q, k, v, statistics=names)
        assert len(calls) == count, names
        assert set(result.statistics) == set(names)


def test_blocks_are_there_if_asked_for_and_only_then() -> None:
    q, k, v = qkv(queries=5, keys=5)
    for names in (["entropy"], ["sink_mass"], []):
        assert from_kernel(torch_flash, q, k, v, statistics=names).blocks is None
        blocks = from_kernel(torch_flash, q, k, v, statistics=names, blocks=2).blocks
        assert blocks is not None
        assert blocks.shape == (*q.shape[:3], 3)

    def nothing(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **_: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(*q.shape[:3], v.shape[-1]), torch.full(q.shape[:3], -torch.inf)

    none = from_kernel(
        nothing, q, k[:, :, :0], v[:, :, :0], causal=False, statistics=["entropy"], blocks=2
    )
    assert none.blocks is not None
    assert none.blocks.shape == (*q.shape[:3], 0)
    assert not none["entropy"].any()


def test_any_kernel_will_do() -> None:
    """One written here in four lines, with values of another width than keys."""

    def plain(q, k, v, /, *, scale, causal):  # type: ignore[no-untyped-def]
        repeats = q.shape[1] // k.shape[1]
        s = q @ k.repeat_interleave(repeats, 1).transpose(-1, -2) * scale
        hidden = torch.ones(s.shape[-2:]).tril(s.shape[-1] - s.shape[-2]) == 0
        s = s.masked_fill(hidden, -torch.inf) if causal else s
        return s.softmax(-1) @ v.repeat_interleave(repeats, 1), s.logsumexp(-1)

    q, k, v = qkv(queries=6, keys=20, width=7, value_width=3)
    ours = from_kernel(plain, q, k, v, statistics=KERNEL_STATISTICS, blocks=7)
    exact = oracle(q, k, v, statistics=KERNEL_STATISTICS)
    for name in KERNEL_STATISTICS:
        torch.testing.assert_close(ours[name].double(), exact[name], rtol=1e-4, atol=1e-4)
    assert ours.blocks is not None
    assert ours.blocks.shape == (2, 4, 6, 3)


def test_what_a_kernel_cannot_give_is_said() -> None:
    q, k, v = qkv()
    with pytest.raises(ValueError, match="cannot give 'argmax'"):
        from_kernel(torch_flash, q, k, v, statistics=["argmax"])
    with pytest.raises(ValueError, match="blocks: expected at least 1"):
        from_kernel(torch_flash, q, k, v, blocks=0)
    with pytest.raises(ValueError, match="cannot stand 3 queries"):
        from_kernel(torch_flash, q[:, :, :3], k, v)
    with pytest.raises(ValueError, match="as wide as keys"):
        from_kernel(torch_flash, q, k, v[..., :2])

    def blind(q, k, v, /, *, scale, causal):  # type: ignore[no-untyped-def]
        return torch_flash(q.detach(), k.detach(), v.detach(), scale=scale, causal=causal)

    with pytest.raises(ValueError, match="differentiable kernel"):
        from_kernel(blind, q, k, v, statistics=["received"])
