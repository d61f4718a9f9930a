"""The norm of what a value becomes when the layer's output projection has done its work.

The idea: the projection is one matrix; the columns of one head are a matrix W of their own, and
|W v| = |R v| with R the small triangle of W = Q R. So the norms cost S x E^2 and not S x E x C.

Formula
    arrived from key j through head h = p_ij |W_O^h v_j|

Shapes
    weight [C, H E]; R [H, E, E]; v [G, S, E]; norms [H, S].

Dtypes: float32.

A model may put a gate or a norm between attention and projection; then the norms would be wrong.
So the projection's input is compared with the attention's output, and only an equal one counts.

Not here: where the norms are kept (record.py).
"""

from __future__ import annotations

from typing import Any, Final

import torch

NAMES: Final = (
    "o_proj", "out_proj", "dense", "c_proj", "wo", "o", "proj", "out", "output_proj", "linear_out",
)  # fmt: skip
"""What attention modules call their output projection."""


class Projection:
    """The output projection of one attention module.

    Args:
        linear: the module itself; its first input is what is to be compared.
        weight: [C, H E].
    """

    def __init__(self, linear: torch.nn.Module, weight: torch.Tensor, heads: int) -> None:
        self.linear = linear
        with torch.no_grad():
            parts = weight.detach().float().unflatten(1, (heads, -1)).permute(1, 0, 2)
            self.triangles = torch.linalg.qr(parts, mode="r").R

    def norms(self, v: torch.Tensor) -> torch.Tensor:
        """|W_O^h v_j| for the values of one sequence.

        Args:
            v: [G, S, E].

        Returns:
            float32 [H, S].

        Cost: 2 H S E^2 FLOPs.
        """
        H, G = len(self.triangles), len(v)
        grouped = self.triangles.unflatten(0, (G, H // G))
        wide = v.detach().float()[:, None] @ grouped.transpose(-1, -2)
        return torch.linalg.vector_norm(wide, dim=-1).flatten(0, 1)


def find_projection(module: Any, heads: int, value_width: int) -> Projection | None:
    """The output projection among a module's own children, or None where none fits.

    Only plain linear layers (and GPT-2's transposed ones) are read; a quantised or adapted layer
    has no matrix that could be trusted.
    """
    from transformers.pytorch_utils import Conv1D

    for name in NAMES:
        child: Any = getattr(module, name, None)
        if type(child) is torch.nn.Linear:
            weight = child.weight
        elif type(child) is Conv1D:
            weight = child.weight.T
        else:
            continue
        usable = weight.is_floating_point() and not weight.is_meta
        if usable and weight.shape[1] == heads * value_width:
            return Projection(child, weight, heads)
    return None


class Projections:
    """The projections of the modules seen so far, and which layers they were confirmed for.

    Attributes:
        confirmed: by layer number, whether the projection got what the attention gave.
    """

    def __init__(self) -> None:
        self.confirmed: dict[int, bool] = {}
        self._found: dict[int, Projection | None] = {}
        self._expected: dict[int, tuple[int, torch.Tensor, torch.Tensor]] = {}
        self._hooks: list[Any] = []

    def of(self, module: torch.nn.Module, heads: int, width: int) -> Projection | None:
        """The projection of a module, whose input is looked at from now on."""
        if id(module) not in self._found:
            found = self._found[id(module)] = find_projection(module, heads, width)
            if found is not None:
                self._hooks.append(found.linear.register_forward_pre_hook(self._look))
        return self._found[id(module)]

    def expect(self, layer: int, projection: Projection, output: torch.Tensor) -> None:
        """The next input of a projection should be this output [B, T, H, E]."""
        T = output.shape[1]
        rows = torch.tensor(sorted({0, T // 2, T - 1}), device=output.device)
        flat = output[:, rows].detach().flatten(2).clone()
        self._expected[id(projection.linear)] = (layer, rows, flat)
        self._tokens = T

    def close(self) -> None:
        """Look no more."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._expected.clear()

    def _look(self, linear: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        expected = self._expected.pop(id(linear), None)
        if expected is None or not inputs:
            return
        layer, rows, flat = expected
        given, (B, _, width) = inputs[0], flat.shape
        same = given.numel() == B * self._tokens * width
        if same:
            found = given.detach().reshape(B, self._tokens, width)[:, rows]
            same = torch.equal(found.to(flat.dtype), flat)
        self.confirmed[layer] = same and self.confirmed.get(layer, True)
