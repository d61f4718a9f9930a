"""How a layer's queries and keys were turned: read from the config, believed where keys agree.

The idea: a trace holds queries and keys behind positions. Who knows the angles can turn them back,
or see what a token would score somewhere else. The angles follow from the config (positions/), but
a config does not say whether pairs are halves or neighbours, whether this layer turns at all, or
whether a norm comes after. So what the layer's projection (or the norm behind it) gave is turned
here, in a few rows, and only angles that make the model's own keys of it are kept.

Shapes
    k [B, G, S, D]; what a projection gives [B, T, G D], or with queries and values beside it; what
    a norm gives [B, T, G, D] or [B, G, T, D].

Not here: the angles (positions/rope.py), how they are kept (trace/format.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from attnscope.errors import ConfigError
from attnscope.positions import Rope

NORMS: Final = ("k_norm", "k_layernorm", "key_layernorm", "k_ln", "norm_k")
"""What attention modules call a norm of keys."""
PROJECTIONS: Final = (
    "k_proj", "key", "key_proj", "wk", "qkv_proj", "query_key_value", "c_attn", "Wqkv", "qkv",
)  # fmt: skip
"""What they call the projection that makes keys, alone or with queries and values."""
ROOM: Final = {torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""How far a key may be off, of its own length: a few roundings of products of two rounded numbers.
A wrong angle is off by as much as the key is long."""
EXACT: Final = 1e-5


@dataclass(frozen=True)
class Turning:
    """Angles per position of a layer's pairs.

    Attributes:
        frequencies: float32 [R], in radians.
        pairs: int32 [R, 2], places within a head.
        longest: the longest text for which they hold, or None for any.
    """

    frequencies: np.ndarray
    pairs: np.ndarray
    longest: int | None = None

    @classmethod
    def of(cls, rope: Rope, tokens: int) -> Turning:
        """What a rope does to a text of so many tokens."""
        beyond, frequencies = rope.beyond, rope.frequencies
        places = np.arange(rope.rotary, dtype=np.int32)
        shape = (len(frequencies), 2)
        pairs = places.reshape(shape) if rope.interleaved else places.reshape(shape[::-1]).T.copy()
        longest = None
        if beyond is not None:
            longest = beyond.length
            if tokens > beyond.length:
                frequencies, longest = beyond.at(tokens, rope.rotary), tokens
        return cls(np.array(frequencies, np.float32), pairs, longest)

    def arrays(self, keys: int) -> dict[str, np.ndarray]:
        """As trace.format.ARRAYS names them; none where the text grew beyond `longest`."""
        if self.longest is not None and keys > self.longest:
            return {}
        return {"rope_frequencies": self.frequencies, "rope_pairs": self.pairs}


class Turnings:
    """Looks at what makes keys, and finds for each layer how they were turned.

    Args:
        config: the model's; a text model's inside it is found.
    """

    def __init__(self, config: Any) -> None:
        self.config = config.get_text_config()
        self._given: tuple[int, dict[str, torch.Tensor]] = (0, {})

    def follow(self, model: torch.nn.Module) -> list[Any]:
        """Hooks on everything that may make keys; of one module at a time something is kept."""
        return [
            child.register_forward_hook(partial(self._keep, id(parent), name))
            for parent in model.modules()
            for name, child in parent.named_children()
            if name in NORMS or name in PROJECTIONS
        ]

    def found(
        self,
        index: int,
        module: torch.nn.Module,
        qk: tuple[torch.Tensor, torch.Tensor],
        place: tuple[int, int, int],
    ) -> Turning | None:
        """How a layer turned the keys of a whole text, or None where it cannot be told.

        Args:
            index: the layer's number.
            qk: [B, H, T, D] and [B, G, T, D], as the attention got them.
            place: a sequence's batch row, first token, and one past its last.

        Cost: a few rows are turned.
        """
        owner, given = self._given
        self._given = (0, {})
        q, k = qk
        batch, start, stop = place
        if owner != id(module) or k.shape[2] != q.shape[2] or stop - start < 2:
            return None
        positions = torch.tensor(sorted({1, (stop - start) // 2, stop - start - 1}))
        keys = k[batch, :, positions + start].detach()
        ropes = list(self._ropes(index, keys.shape[-1]))
        for name in (*NORMS, *PROJECTIONS):
            if name not in given:
                continue
            for raw in _keys(given[name], q.shape, k.shape[1]):
                rows = raw[batch, :, positions + start]
                for rope in ropes:
                    turned = rope(rows[None].float(), positions, length=stop - start)[0]
                    if _same(turned, keys):
                        return Turning.of(rope, stop - start)
                # A norm that follows the turning gives what attention gets, too: only what a
                # projection gives can say that nothing was turned.
                if ropes and name in PROJECTIONS and _same(rows.float(), keys):
                    return Turning.of(Rope(()), stop - start)
        return None

    def _ropes(self, index: int, width: int) -> Iterator[Rope]:
        """What the config allows: pairs as halves, and as neighbours."""
        kinds = getattr(self.config, "layer_types", None)
        kind = kinds[index] if kinds and index < len(kinds) else None
        for interleaved in (False, True):
            try:
                yield Rope.from_config(
                    self.config.to_dict(), layer_type=kind, width=width, interleaved=interleaved
                )
            except ConfigError:  # positions of another kind, or none
                return

    def _keep(
        self, owner: int, name: str, _module: torch.nn.Module, _inputs: Any, output: Any
    ) -> None:
        if self._given[0] != owner:
            self._given = (owner, {})
        if isinstance(output, torch.Tensor):
            self._given[1][name] = output.detach()


def _keys(given: torch.Tensor, shape: torch.Size, groups: int) -> Iterator[torch.Tensor]:
    """The ways in which a module's output may hold keys, [B, G, T, D] each."""
    B, H, T, D = shape
    if given.shape in ((B, T, groups, D), (B, groups, T, D)):
        yield given.transpose(1, 2) if given.shape[1] == T else given
        if groups == T:
            yield given
    elif given.shape == (B, T, groups * D):
        yield given.unflatten(2, (groups, D)).transpose(1, 2)
    elif given.shape == (B, T, (H + 2 * groups) * D):
        part = given[..., H * D : (H + groups) * D]
        yield part.unflatten(2, (groups, D)).transpose(1, 2)
        if groups == H:  # GPT-NeoX: a head's query, key and value beside each other
            yield given.unflatten(2, (H, 3, D))[:, :, :, 1].transpose(1, 2)


def _same(made: torch.Tensor, keys: torch.Tensor) -> bool:
    """Whether vectors are those that the attention got, but for rounding."""
    wanted = keys.float()
    room = ROOM.get(keys.dtype, EXACT) * torch.linalg.vector_norm(wanted, dim=-1)
    return bool((torch.linalg.vector_norm(made - wanted, dim=-1) <= room).all())
