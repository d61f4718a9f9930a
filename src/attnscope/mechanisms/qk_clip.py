"""QK-Clip: after a step that let a head's scores grow too far, shrink that head's projections.

The idea: a norm on q and k holds scores down at every token, but needs the whole key, which MLA
never makes. So leave the forward pass alone, watch the largest score of every head, and when it
passes tau multiply the weights that make it, so that the same inputs would now give tau. A score is
a product of q and k; each side takes the square root of the factor where both belong to the head
alone, and what heads share is left alone.

Formula (m_h the largest scaled score of head h since the last clip)
    gamma_h = min(1, tau / m_h)
    every head its own key (G = H)    W_q,h *= sqrt(gamma_h)         W_k,h *= sqrt(gamma_h)
    query heads share a key (G < H)   W_q,h *= gamma_h               W_k untouched
    MLA                               nope: U_q,h, U_k,h *= sqrt(gamma_h)
                                      rope: W_q,h *= gamma_h         the shared rope key untouched

Shared key heads are not in the paper, whose models have none outside the rope key. The rule is the
paper's for that key: a factor on a shared key would change heads that never passed tau, and two
heads of a group may ask for two factors. So the whole factor goes to the query, which is one
head's own.

Shapes: max_logits and gamma [H]; weights [H D, C] (or biases [H D]), head by head.

Dtypes: the factor in float64; a weight is rounded once. So the law (the same inputs' largest score
is at most tau) holds up to the rounding of weights: about 1e-2 of tau in bfloat16, 1e-6 in float32.

Paper: Kimi Team 2025 (Kimi K2), arXiv 2507.20534 (there with tau 100).

Keeps: nothing per token; one number per head while training.

Not here: the optimizer (Muon), noticing other troubles of training (the monitor).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import nn

from attnscope.core.mechanism import About, Seen, Watch
from attnscope.core.picture import bars

ABOUT = About(
    name="qk_clip",
    title_en="QK-Clip",
    title_zh="QK-Clip：把过大的头按回去",
    year=2025,
    paper="Kimi Team 2025 (Kimi K2), arXiv 2507.20534",
    solved=(
        "Scores that stay below tau = 100 in training, without a norm: so also in MLA, which never "
        "makes the whole key that QK-norm needs."
    ),
    stuck=(
        "It acts after the step: a score passes 100 once before it is pulled back. And a key head "
        "that query heads share cannot take its half."
    ),
    keeps="nothing per token; one number per head while training",
    figures=("clip.paper.tau",),
)

NORMS: Final = ("q_norm", "k_norm", "q_layernorm", "k_layernorm")
"""Names of norms between projection and score, which undo any factor on the projection."""


def clip_factors(max_logits: torch.Tensor | Sequence[float], tau: float = 100.0) -> torch.Tensor:
    """gamma = min(1, tau / max logit) for every head, float64 [H].

    Args:
        max_logits: [H], the largest scaled score of each head; -inf for one that saw nothing.
        tau: the largest score allowed, above 0.

    Raises:
        ValueError: tau is not above 0, or a logit is NaN or +inf: nothing can be pulled back then.

    >>> clip_factors([50.0, 100.0, 400.0, -3.0]).tolist()
    [1.0, 1.0, 0.25, 1.0]
    """
    if not 0 < tau < math.inf:
        raise ValueError(f"tau: expected a number above 0, got {tau}")
    m = torch.as_tensor(max_logits, dtype=torch.float64)
    if m.ndim != 1 or not len(m):
        raise ValueError(f"max_logits: expected [H], one per head, got {list(m.shape)}")
    lost = m.isnan() | (m == math.inf)
    if bool(lost.any()):
        head = int(lost.nonzero()[0])
        raise ValueError(
            f"max_logits: head {head} has {float(m[head])}; clipping cannot bring it back, go back "
            "to a checkpoint"
        )
    # Not tau / m clamped: a negative largest score would give a negative factor.
    return torch.where(m > tau, tau / m, 1.0)


def clip_heads(
    q_weight: torch.Tensor, k_weight: torch.Tensor, gamma: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The projections of ordinary heads, every score of head h times gamma_h.

    Args:
        q_weight: [H D, ...], of `q_proj`: its weight or its bias.
        k_weight: [G D, ...], of `k_proj`.
        gamma: [H].

    Returns:
        Both, clipped; rows whose factor is 1 are the same bits.

    Raises:
        ValueError: the rows are no H heads, or no groups of them.

    >>> q, k = clip_heads(torch.ones(2, 1), torch.ones(2, 1), torch.tensor([1.0, 0.25]))
    >>> q.tolist(), k.tolist()
    ([[1.0], [0.5]], [[1.0], [0.5]])
    >>> q, k = clip_heads(torch.ones(2, 1), torch.ones(1, 1), torch.tensor([1.0, 0.25]))
    >>> q.tolist(), k.tolist()
    ([[1.0], [0.25]], [[1.0]])
    """
    q_rows, k_rows = head_rows(len(q_weight), len(k_weight), gamma)
    return _scaled(q_weight, q_rows), _scaled(k_weight, k_rows)


def clip_latent(
    q_weight: torch.Tensor, kv_weight: torch.Tensor, gamma: torch.Tensor, *, nope: int, rope: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same for MLA; the shared rope key's projection stays as it is.

    Args:
        q_weight: [H (N + D), ...], of `q_b_proj` (or `q_proj`), each head [nope, rope].
        kv_weight: [H (N + E), ...], of `kv_b_proj`, each head [key, value].
        gamma: [H].
        nope, rope: N and D.

    Returns:
        Both, clipped; values and rows whose factor is 1 are the same bits.

    Raises:
        ValueError: the rows are no H heads of these widths.
    """
    q_rows, kv_rows = latent_rows(len(q_weight), len(kv_weight), gamma, nope=nope, rope=rope)
    return _scaled(q_weight, q_rows), _scaled(kv_weight, kv_rows)


def head_rows(q_rows: int, k_rows: int, gamma: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The factor of every row of q_proj and of k_proj; see `clip_heads`."""
    H = len(gamma)
    if not q_rows or q_rows % H:
        raise ValueError(f"q_weight: expected rows for {H} heads, got {q_rows}")
    D = q_rows // H
    if not k_rows or k_rows % D or H % (k_rows // D):
        raise ValueError(
            f"k_weight: expected rows for key heads of {D} that divide {H} query heads, "
            f"got {k_rows}"
        )
    own = k_rows == q_rows
    k_factor = gamma.sqrt() if own else torch.ones(k_rows // D, dtype=gamma.dtype)
    q_factor = gamma.sqrt() if own else gamma
    return q_factor.repeat_interleave(D), k_factor.repeat_interleave(D)


def latent_rows(
    q_rows: int, kv_rows: int, gamma: torch.Tensor, *, nope: int, rope: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The factor of every row of q_b_proj and of kv_b_proj; see `clip_latent`."""
    H = len(gamma)
    if q_rows != H * (nope + rope):
        raise ValueError(
            f"q_weight: expected {H} heads of {nope} + {rope} rows, {H * (nope + rope)}, "
            f"got {q_rows}"
        )
    value = kv_rows // H - nope
    if kv_rows % H or value < 1:
        raise ValueError(
            f"kv_weight: expected {H} heads of {nope} key rows and some value rows, got {kv_rows}"
        )
    root, whole = gamma.sqrt()[:, None], gamma[:, None]
    q = torch.cat([root.expand(H, nope), whole.expand(H, rope)], 1)
    kv = torch.cat([root.expand(H, nope), torch.ones(H, value, dtype=gamma.dtype)], 1)
    return q.flatten(), kv.flatten()


def _scaled(weight: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """The rows times their factors, rounded once; a row whose factor is 1 is not touched."""
    result = weight.detach().clone()
    rows = (factor != 1).nonzero().squeeze(-1).to(weight.device)
    column = factor.to(weight.device)[rows].view(-1, *[1] * (weight.ndim - 1))
    result[rows] = (weight.detach()[rows].double() * column).to(weight.dtype)
    return result


@dataclass(frozen=True)
class Clip:
    """What was done to one module.

    Attributes:
        module: which.
        max_logits: float64 [H], what was seen since the last clip.
        gamma: float64 [H], what every score of the head is multiplied by from now on.
    """

    module: nn.Module
    max_logits: torch.Tensor
    gamma: torch.Tensor


class QKClip:
    """Watches the largest score of every head of some modules, and clips after the step.

    Any module will do that has `q_proj` and `k_proj`, or MLA's `kv_b_proj` with `q_b_proj` (or
    `q_proj`), ours and Hugging Face's alike; their biases are clipped with them.

        clip = QKClip(tau=100.0)
        y = layer(x, watch=clip.watch(layer))   # or clip.note(layer, max_logits)
        loss.backward(); optimizer.step()
        clip.step()

    Args:
        tau: the largest score allowed.
    """

    def __init__(self, tau: float = 100.0) -> None:
        clip_factors([0.0], tau)
        self.tau = tau
        self._seen: dict[nn.Module, torch.Tensor] = {}

    def watch(self, module: nn.Module) -> Watch:
        """A watch that notes the largest scores of this module, before any soft cap.

        Cost: the scores once more, in the memory of `attend`.
        """
        _makers(module)  # refuses what cannot be clipped before a step is spent on it

        def note(seen: Seen) -> None:
            with torch.no_grad():
                plain = replace(
                    seen, q=seen.q.detach(), k=seen.k.detach(), v=seen.v.detach(), softcap=None,
                    sinks=None,
                )  # fmt: skip
                self.note(module, plain.attend("max_logit")["max_logit"].amax((0, 2)))

        return note

    def note(self, module: nn.Module, max_logits: torch.Tensor | Sequence[float]) -> None:
        """Take the largest scores [H] of a module from elsewhere; the largest of several counts.

        Raises:
            ValueError: another number of heads than before.
        """
        new = torch.as_tensor(max_logits, dtype=torch.float64).detach().cpu()
        old = self._seen.get(module)
        if old is not None and old.shape != new.shape:
            raise ValueError(
                f"max_logits: expected [{len(old)}] as before for this "
                f"{type(module).__name__}, got {list(new.shape)}"
            )
        self._seen[module] = new if old is None else torch.maximum(old, new)

    @torch.no_grad()
    def step(self) -> list[Clip]:
        """Clip what passed tau, in place, and forget what was seen.

        Returns:
            A `Clip` for every module that was seen, clipped or not.

        Raises:
            ValueError, TypeError: a module cannot be clipped, or its scores are lost; then nothing
                is changed.
        """
        done = []
        planned: list[tuple[nn.Parameter, torch.Tensor]] = []
        for module, seen in self._seen.items():
            gamma = clip_factors(seen, self.tau)
            done.append(Clip(module, seen, gamma))
            planned += _plan(module, gamma)
        for parameter, factor in planned:
            if bool((factor != 1).any()):
                parameter.copy_(_scaled(parameter, factor))
        self._seen.clear()
        return done


@dataclass(frozen=True)
class _Makers:
    """What makes a module's scores.

    Attributes:
        q, k: the two projections.
        latent: N and D, if k is MLA's kv_b_proj.
        width: of a head, if the module says it.
    """

    q: nn.Module
    k: nn.Module
    latent: tuple[int, int] | None = None
    width: int | None = None


def _makers(module: nn.Module) -> _Makers:
    """Find the two projections, by the names that ours and Hugging Face's modules share."""
    kind = type(module).__name__
    for name in NORMS:
        if getattr(module, name, None) is not None:
            raise ValueError(
                f"module: {kind} has {name}, which undoes any factor on the projection; QK-norm "
                "bounds the scores already, by its own weights"
            )
    latent = getattr(module, "kv_b_proj", None)
    q = getattr(module, "q_b_proj", None) or getattr(module, "q_proj", None)
    k = latent or getattr(module, "k_proj", None)
    if not isinstance(q, nn.Module) or not isinstance(k, nn.Module):
        raise TypeError(
            f"module: expected q_proj and k_proj, or q_b_proj and kv_b_proj, in {kind}; clip other "
            "weights with clip_heads"
        )
    if latent is not None:
        return _Makers(q, k, latent=_latent_widths(module))
    shape = getattr(module, "shape", None)
    return _Makers(q, k, width=getattr(module, "head_dim", getattr(shape, "width", None)))


def _latent_widths(module: nn.Module) -> tuple[int, int]:
    """N and D: `sizes` in ours, `qk_nope_head_dim` and `qk_rope_head_dim` in Hugging Face's."""
    sizes = getattr(module, "sizes", None)
    nope = getattr(sizes, "nope", getattr(module, "qk_nope_head_dim", None))
    rope = getattr(sizes, "rope", getattr(module, "qk_rope_head_dim", None))
    if nope is None or rope is None:
        raise TypeError(
            f"module: {type(module).__name__} does not say the widths of its heads "
            "(qk_nope_head_dim, qk_rope_head_dim); clip its weights with clip_latent"
        )
    return int(nope), int(rope)


def _plan(module: nn.Module, gamma: torch.Tensor) -> list[tuple[nn.Parameter, torch.Tensor]]:
    """Each parameter that makes scores, with the factor of each of its rows."""
    found = _makers(module)
    q_rows, k_rows = (len(layer.get_parameter("weight")) for layer in (found.q, found.k))
    if found.width is not None and q_rows != len(gamma) * found.width:
        raise ValueError(
            f"max_logits: expected {q_rows // found.width} heads of {found.width} for this "
            f"{type(module).__name__}, got {len(gamma)}"
        )
    if found.latent is None:
        factors = head_rows(q_rows, k_rows, gamma)
    else:
        nope, rope = found.latent
        factors = latent_rows(q_rows, k_rows, gamma, nope=nope, rope=rope)
    return [
        (parameter, factor)
        for layer, factor in zip((found.q, found.k), factors, strict=True)
        for parameter in layer.parameters()
    ]


def picture() -> str:
    """Four heads before and after a clip, and what was not touched."""
    random = torch.Generator().manual_seed(0)
    T, H, D, C, tau = 12, 4, 8, 16, 100.0
    x = torch.randn(T, C, generator=random, dtype=torch.float64)
    grown = torch.tensor([1.0, 2.0, 4.0, 6.0], dtype=torch.float64).repeat_interleave(D)[:, None]
    w_q, w_k = grown * torch.randn(2, H * D, C, generator=random, dtype=torch.float64) * 0.5

    def largest(q_weight: torch.Tensor, k_weight: torch.Tensor) -> torch.Tensor:
        q, k = ((x @ w.T).view(T, H, D).transpose(0, 1) for w in (q_weight, k_weight))
        return (q @ k.mT * D**-0.5).amax((1, 2))

    before = largest(w_q, w_k)
    gamma = clip_factors(before, tau)
    clipped = clip_heads(w_q, w_k, gamma)
    after = largest(*clipped)
    same = [bool((new == old)[h * D : h * D + D].all()) for h in range(H)
            for new, old in [(clipped[0], w_q)]]  # fmt: skip
    names = [f"head {h}" for h in range(H)]
    return "\n".join(
        [
            "largest score of each head after a step",
            bars(dict(zip(names, before.tolist(), strict=True))),
            f"the same inputs after clipping to tau = {tau:g}",
            bars(dict(zip(names, after.tolist(), strict=True)), most=float(before.max())),
            "gamma: " + "  ".join(f"{g:.3g}" for g in gamma.tolist()),
            f"law: the largest score is at most tau: {float(after.max()):.6f} <= {tau:g}",
            "law: a head below tau keeps its bits: "
            + ", ".join(n for n, kept in zip(names, same, strict=True) if kept),
        ]
    )


if __name__ == "__main__":
    print(picture())
