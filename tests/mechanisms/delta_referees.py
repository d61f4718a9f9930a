"""Other people's gated delta rule and layers, and one written out token by token in float64."""

from __future__ import annotations

import copy
from typing import Any

import torch
from head_referees import InFloat64
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5GatedDeltaNet
from transformers.models.qwen3_next.configuration_qwen3_next import Qwen3NextConfig
from transformers.models.qwen3_next.modeling_qwen3_next import (
    Qwen3NextGatedDeltaNet,
    torch_chunk_gated_delta_rule,
    torch_recurrent_gated_delta_rule,
)

with torch.device("meta"):
    torch.empty(0)  # PyTorch lists its constructors at first use: let that be before the poison

LAYERS = {
    "qwen3_next": (Qwen3NextGatedDeltaNet, Qwen3NextConfig),
    "qwen3_5": (Qwen3_5GatedDeltaNet, Qwen3_5TextConfig),
}

SMALL = {
    "hidden_size": 24, "linear_num_key_heads": 2, "linear_num_value_heads": 6,
    "linear_key_head_dim": 8, "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4,
    "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
}  # fmt: skip


def rule_inputs(
    *, batch: int = 2, groups: int = 2, heads: int = 4, tokens: int = 9, width: int = 8,
    value_width: int = 16, dtype: torch.dtype = torch.float32, fade: float = 0.2, seed: int = 0,
) -> dict[str, torch.Tensor]:  # fmt: skip
    """q, k, v, g, beta and a state, the same on every machine."""
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=random, dtype=torch.float64)

    rates = torch.rand(2, batch, heads, tokens, generator=random, dtype=torch.float64)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return {
        "q": normal(batch, groups, tokens, width).to(dtype),
        "k": normal(batch, groups, tokens, width).to(dtype),
        "v": normal(batch, heads, tokens, value_width).to(dtype),
        "g": (rates[0].log() * fade).to(wide),
        "beta": rates[1].to(dtype),
        "state": normal(batch, heads, width, value_width).to(wide),
    }


def oracle(
    q, k, v, g, beta, state=None, *, unit: bool = True, late_fade: bool = False, epsilon=1e-6
):  # type: ignore[no-untyped-def]
    """The rule, number by number, in float64; `late_fade` takes the error before fading (wrong)."""
    q, k, v, g, beta = (x.double() for x in (q, k, v, g, beta))
    B, H, T, E = v.shape
    G, D = q.shape[1], q.shape[3]
    if unit:
        q = q / (q.square().sum(-1, keepdim=True) + epsilon).sqrt()
        k = k / (k.square().sum(-1, keepdim=True) + epsilon).sqrt()
    outputs, states = [], []
    for b in range(B):
        for h in range(H):
            own = torch.zeros(D, E, dtype=torch.float64) if state is None else state[b, h].double()
            for t in range(T):
                key, query = k[b, h * G // H, t], q[b, h * G // H, t]
                faded = own * g[b, h, t].exp()
                error = v[b, h, t] - (own if late_fade else faded).T @ key
                own = faded + torch.outer(key, beta[b, h, t] * error)
                outputs.append(own.T @ query / D**0.5)
            states.append(own)
    empty = v.new_zeros(B, H, 0, E)
    o = torch.stack(outputs).view(B, H, T, E) if outputs else empty
    return o, torch.stack(states).view(B, H, D, E)


def peer_rule(q, k, v, g, beta, state=None, *, unit: bool = True, chunked: bool = True):  # type: ignore[no-untyped-def]
    """transformers' rule on our layout."""
    rule = torch_chunk_gated_delta_rule if chunked else torch_recurrent_gated_delta_rule
    o, after = rule(
        *(x.transpose(1, 2) for x in (q, k, v, g, beta)), initial_state=state,
        output_final_state=True, use_qk_l2norm_in_kernel=unit,
    )  # fmt: skip
    return o.transpose(1, 2), after


class PeerLayer:
    """One layer of transformers with random weights.

    Args:
        kind: of `LAYERS`.
        sizes: fields of its config beside `SMALL`.
    """

    def __init__(self, kind: str, *, dtype: torch.dtype = torch.float32, **sizes: Any) -> None:
        layer, config = LAYERS[kind]
        self.config, self.dtype = config(**{**SMALL, **sizes}), dtype
        random = torch.random.get_rng_state()
        torch.manual_seed(3)
        self.module = layer(self.config, 0)
        for name, weight in self.module.named_parameters():
            if "proj" in name:
                weight.data = torch.randn(weight.shape) * 1.5 / weight.shape[1] ** 0.5
            elif name in ("norm.weight", "dt_bias"):
                weight.data = 1 + 0.3 * torch.randn(weight.shape)
        torch.random.set_rng_state(random)
        self.module = self.module.to(dtype).eval()

    def inputs(self, tokens: int, *, batch: int = 2, seed: int = 0) -> torch.Tensor:
        """x [B, T, C]."""
        random = torch.Generator().manual_seed(seed)
        x = torch.randn(batch, tokens, self.config.hidden_size, generator=random)
        return x.to(self.dtype)

    def exact(self, x: torch.Tensor) -> torch.Tensor:
        """Its output in float64."""
        with InFloat64(), torch.no_grad():
            return self.wide()(x.double())

    def wide(self) -> torch.nn.Module:
        return copy.deepcopy(self.module).double()


def gradients(run, inputs, gradient):  # type: ignore[no-untyped-def]
    """Of sum(run(*inputs) * gradient) by every input."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    return torch.autograd.grad(run(*leaves), leaves, gradient)
