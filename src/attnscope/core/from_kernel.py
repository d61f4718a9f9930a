"""Statistics of attention from any kernel that returns its log-sum-exp, its inside untouched.

The idea: a fused kernel never shows its weights P, but it will multiply them with whatever stands
in place of the values. Scores, positions and indicators there give sums over P; a second
log-sum-exp at twice the scale gives the sum of P^2; the gradient gives the sums over columns.

Formula (s the scaled scores, lse_i = log sum_j exp s_ij, P_ij = exp(s_ij - lse_i))
    entropy_i       = lse_i - scale q_i . (P K)_i
    mean_distance_i = i - (P [0 .. S-1])_i
    mass of a block = P [1 where the key is in the block, else 0]
    participation_i = 1 / sum_j P_ij^2 = exp(2 lse_i(scale) - lse_i(2 scale))
    received_j      = sum_i P_ij = (P^T 1)_j, the gradient of the output in V for a gradient of ones

Shapes
    q [B, H, T, D]    k [B, G, S, D]    v [B, G, S, E]    out [B, H, T, E]    lse [B, H, T]

Dtypes: the kernel sees the dtype of q alone; what comes out is combined in float32 (float64 for
float64). Keys and positions are centred first, since differences of large numbers lose digits.

Accuracy (absolute; eps of q's dtype: 1.2e-7 float32, 9.8e-4 float16, 7.8e-3 bfloat16; each line is
a bound that tests/core/test_from_kernel.py checks on PyTorch's CPU kernel)
    logsumexp       8 eps32 x max |s| in float32; 2e-4 in half precision: the kernel's own
    entropy         4 eps x max |s - mean of its row|, plus twice the error of logsumexp
    masses          4 eps + 8 eps32 x max |s|
    mean_distance   the error of masses x max(S, 256): the kernel rounds the mean position too
    participation   relative, three times the error of logsumexp
    received        relative, the error of masses

Not here: masks other than causal, soft-cap and sinks (the kernel may have them, as long as its
log-sum-exp and its output agree; then `entropy` holds only without them).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import torch

KERNEL_STATISTICS: Final[tuple[str, ...]] = (
    "logsumexp",
    "entropy",
    "effective_keys",
    "participation",
    "sink_mass",
    "mean_distance",
    "received",
)
"""What `from_kernel` can compute; the other statistics need the weights themselves."""

DIGIT: Final = 256
"""Positions are split into digits of this base: integers up to it are exact in bfloat16."""


class Kernel(Protocol):
    """Any exact attention: `(q, k, v, scale=, causal=)` to output [B, H, T, E] and lse [B, H, T].

    Under `causal` its T queries stand at the end of the S keys. `lse` is in nats. For `received`
    its output must be differentiable in v.
    """

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, /, *, scale: float, causal: bool
    ) -> tuple[torch.Tensor, torch.Tensor]: ...


@dataclass(frozen=True)
class KernelAttention:
    """What `from_kernel` returns.

    Attributes:
        output: the kernel's own, [B, H, T, E].
        statistics: by name, [B, H, T], or [B, H, S] for `received`.
        blocks: weight on each block of keys, [B, H, T, number of blocks], if asked for.
    """

    output: torch.Tensor
    statistics: dict[str, torch.Tensor]
    blocks: torch.Tensor | None = None

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.statistics[name]


def from_kernel(
    kernel: Kernel,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    causal: bool = True,
    statistics: Iterable[str] = ("logsumexp", "entropy"),
    blocks: int | None = None,
    sink_keys: int = 1,
) -> KernelAttention:
    """Run a kernel, and a few more times for the statistics asked for.

    Args:
        kernel: see `Kernel`; `torch_flash` is one.
        q, k, v: [B, H, T, D], [B, G, S, D], [B, G, S, E], as the kernel wants them.
        scale: 1 / sqrt(D) if not given.
        statistics: of KERNEL_STATISTICS.
        blocks: keys per block whose weight is wanted, or None.
        sink_keys: how many of the first keys count in `sink_mass`.

    Returns:
        The output and the statistics. Rows whose log-sum-exp is -inf saw nothing and give 0.

    Raises:
        ValueError: a statistic that a kernel cannot give, or a size below 1.

    Cost: one run for the output; ceil(D / E) more for `entropy`; one for `participation`;
    ceil(columns / E) for positions (2), sink (1) and blocks (S / blocks) together; a forward and a
    backward per E query heads of a group for `received`. Memory O(T + S) for a kernel's own O(T).
    """
    names = tuple(statistics)
    unknown = [name for name in names if name not in KERNEL_STATISTICS]
    if unknown:
        raise ValueError(
            f"statistics: a kernel cannot give {unknown[0]!r}; it can give "
            f"{', '.join(KERNEL_STATISTICS)}"
        )
    for name, count in (("blocks", blocks), ("sink_keys", sink_keys)):
        if count is not None and count < 1:
            raise ValueError(f"{name}: expected at least 1 key, got {count}")
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    q, k, v = q.detach(), k.detach(), v.detach()
    run = _Run(kernel, q, k, v, scale, causal)
    with torch.no_grad():
        output, lse = kernel(q, k, v, scale=scale, causal=causal)
        lse = lse.to(run.kept)
        found = {"logsumexp": lse}
        found |= _from_scores(run, lse, frozenset(names))
        placed, masses = _from_columns(run, frozenset(names), blocks, sink_keys)
        found |= placed
    if "received" in names:
        found["received"] = _received(run)
    nothing = lse == -torch.inf
    for name, value in found.items():
        if name not in ("logsumexp", "received"):
            found[name] = value.masked_fill(nothing, 0.0)
    if masses is not None:
        masses = masses.masked_fill(nothing[..., None], 0.0)
    return KernelAttention(output, {name: found[name] for name in names}, masses)


@dataclass(frozen=True)
class _Run:
    """A kernel with its problem."""

    kernel: Kernel
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float
    causal: bool

    @property
    def kept(self) -> torch.dtype:
        """The dtype of statistics."""
        return torch.float64 if self.q.dtype == torch.float64 else torch.float32

    def times(self, columns: torch.Tensor) -> torch.Tensor:
        """P times columns [B, G, S, N] in place of the values, [B, H, T, N].

        Some kernels take one width only, so the columns go in pieces as wide as the values.
        """
        width = self.v.shape[-1]
        pieces = []
        for piece in columns.split(width, dim=-1):
            padded = torch.nn.functional.pad(piece, (0, width - piece.shape[-1]))
            values = padded.to(self.v.dtype).contiguous()
            out, _ = self.kernel(self.q, self.k, values, scale=self.scale, causal=self.causal)
            pieces.append(out[..., : piece.shape[-1]].to(self.kept))
        return torch.cat(pieces, dim=-1)


def _from_scores(run: _Run, lse: torch.Tensor, names: frozenset[str]) -> dict[str, torch.Tensor]:
    """Entropy and participation, from what the scores themselves are multiplied with."""
    found = {}
    if names & {"entropy", "effective_keys"}:
        found["entropy"] = _entropy(run, lse)
        found["effective_keys"] = found["entropy"].exp()
    if "participation" in names:
        _, twice = run.kernel(run.q, run.k, run.v, scale=2 * run.scale, causal=run.causal)
        found["participation"] = (2 * lse - twice.to(run.kept)).exp()
    return found


def _entropy(run: _Run, lse: torch.Tensor) -> torch.Tensor:
    """lse - scale q . (P K), with the mean key taken off both terms, where it cancels exactly."""
    G, S = run.k.shape[1:3]
    if S == 0:
        return torch.zeros_like(lse)
    keys = run.k.to(run.kept)
    middle = keys.mean(dim=2, keepdim=True)
    # In half precision the centred keys are rounded once more; centring keeps that error small.
    mean_key = run.times((keys - middle).to(run.v.dtype))
    queries = run.q.to(run.kept).unflatten(1, (G, -1))
    offset = torch.einsum("bgntd,bgsd->bgnt", queries, middle).flatten(1, 2)
    tilt = torch.einsum("bhtd,bhtd->bht", run.q.to(run.kept), mean_key)
    return (lse - run.scale * offset - run.scale * tilt).clamp(min=0.0)


def _from_columns(
    run: _Run, names: frozenset[str], blocks: int | None, sink_keys: int
) -> tuple[dict[str, torch.Tensor], torch.Tensor | None]:
    """Mean distance, sink mass and block masses, by columns that say where a key stands."""
    T, (B, G, S) = run.q.shape[2], run.k.shape[:3]
    device = run.q.device
    j = torch.arange(S, device=device)
    columns: list[torch.Tensor] = []
    at: dict[str, int] = {}
    middle = S // 2
    if "mean_distance" in names:
        at["mean_distance"] = len(columns)
        digits = torch.div(j - middle, DIGIT, rounding_mode="floor")
        columns += [digits, (j - middle) - digits * DIGIT - DIGIT // 2]
    if "sink_mass" in names:
        at["sink_mass"] = len(columns)
        columns.append(j < sink_keys)
    first_block = len(columns)
    if blocks is not None:
        columns += [j // blocks == number for number in range(-(-S // blocks))]
    if not columns:
        empty = None if blocks is None else run.q.new_zeros(*run.q.shape[:3], 0, dtype=run.kept)
        return {}, empty
    stacked = torch.stack([column.to(run.kept) for column in columns], dim=-1)
    sums = run.times(stacked.expand(B, G, S, -1))
    found = {}
    if "mean_distance" in at:
        high, low = sums[..., at["mean_distance"]], sums[..., at["mean_distance"] + 1]
        i = torch.arange(S - T, S, device=device)
        found["mean_distance"] = (i - middle - DIGIT // 2) - (high * DIGIT + low)
    if "sink_mass" in at:
        found["sink_mass"] = sums[..., at["sink_mass"]]
    return found, None if blocks is None else sums[..., first_block:]


def _received(run: _Run) -> torch.Tensor:
    """Column sums of P for every query head, [B, H, S].

    The gradient in V adds up over the query heads of a group. Each of them gets its ones in a
    column of its own, and they come out side by side.
    """
    (B, H, T), (G, S, E) = run.q.shape[:3], run.v.shape[1:]
    n = H // G
    values = torch.zeros_like(run.v).requires_grad_()
    with torch.enable_grad():
        out, _ = run.kernel(run.q, run.k, values, scale=run.scale, causal=run.causal)
    if not out.requires_grad:
        raise ValueError(
            "received: it is the gradient of the output in v, and this kernel's output has none; "
            "leave it out, or give a differentiable kernel"
        )
    sums = []
    for start in range(0, n, E):
        count = min(E, n - start)
        ones = torch.zeros(B, G, n, T, E, dtype=out.dtype, device=out.device)
        for column in range(count):
            ones[:, :, start + column, :, column] = 1.0
        (gradient,) = torch.autograd.grad(
            out, values, ones.flatten(1, 2), retain_graph=start + E < n
        )
        sums.append(gradient[..., :count].to(run.kept).transpose(-1, -2))
    return torch.cat(sums, dim=2).reshape(B, H, S)


def torch_flash(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, /, *, scale: float, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """PyTorch's own flash kernel, on the CPU or on CUDA, as a `Kernel`.

    Its causal mask is top-left aligned, so under `causal` there must be as many queries as keys,
    or one; and its values are as wide as its keys.

    Raises:
        ValueError: what the kernel cannot do.

    >>> x = torch.eye(4).view(1, 1, 4, 4)
    >>> torch_flash(x, x, x, scale=1.0, causal=True)[1][0, 0, 0].item()
    1.0
    """
    T, S = q.shape[2], k.shape[2]
    if q.shape[-1] != v.shape[-1]:
        raise ValueError(
            f"v: this kernel wants values as wide as keys, {q.shape[-1]}, got {v.shape[-1]}"
        )
    if causal and T not in (1, S):
        raise ValueError(
            f"causal: this kernel cannot stand {T} queries at the end of {S} keys; "
            "give all queries, or one"
        )
    causal = causal and T > 1
    if q.device.type == "cpu":
        run = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    else:
        run = torch.ops.aten._scaled_dot_product_flash_attention
        repeats = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(repeats, dim=1) if repeats > 1 else x for x in (k, v))
    found = run(q, k, v, 0.0, causal, scale=scale)
    return found[0], found[1]
