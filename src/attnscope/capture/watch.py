"""Sees every attention call of a model's forward and keeps what was asked for, per sequence.

The idea: a call comes as a batch, padded or packed, perhaps one step of a generation whose cache
has dropped keys. Here it is cut into sequences, each with its own positions, and `attend` is asked
for output and statistics of exactly the rows and keys that belong to one.

Shapes
    q [B, H, T, D]; k [B, G, S, D]; v [B, G, S, E]; output [B, H, T, E].
    The call's query r is token `total - T + r` of its batch row, its key j token `total - S + j`.

Not here: how the calls come here (interface.py), how a record becomes a trace (session.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from attnscope.capture import check
from attnscope.capture.calls import (
    Call,
    Cut,
    Sequence,
    about_call,
    attend_call,
    check_contained,
    check_counts,
    cut_of,
    shifted,
    sight_of,
    unshifted,
)
from attnscope.capture.keywords import read_keywords
from attnscope.capture.project import Projection, Projections
from attnscope.capture.record import LayerRecord, Piece
from attnscope.capture.rotation import Turning, Turnings
from attnscope.capture.sight import Masks
from attnscope.capture.tidy import Tidy
from attnscope.core.problem import Attention, PooledMap
from attnscope.core.request import ROW_STATISTICS, Request
from attnscope.errors import UnsupportedModelError


@dataclass(frozen=True)
class Wanted:
    """What is kept of each layer.

    Attributes:
        names: statistics; "induction_mass" is left out where token ids are not known.
        keep: whether queries and keys are kept, without which there is no trace.
        norms: whether the norms of projected values are computed.
        layers: layer numbers, or None for all.
    """

    names: tuple[str, ...]
    pool: bool = True
    local: int = 8
    sink_keys: int = 1
    keep: bool = True
    norms: bool = True
    layers: frozenset[int] | None = None


@dataclass
class _Layer:
    """A layer's records, one per sequence, and the last forward that it was seen in."""

    records: list[LayerRecord]
    step: int = -1


class Watch:
    """Everything that one observation keeps.

    Args:
        model: a model of transformers.
        wanted: what is kept.
        sequences: by default one per batch row, from its first token.
        mode: "replace" or "beside".
        on_layer: called with the records of a layer, one per sequence, when the layer is done;
            they are then forgotten. Without it they stay in `layers`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        wanted: Wanted,
        *,
        sequences: Iterable[Sequence] | None = None,
        mode: str = "replace",
        on_layer: Callable[[int, list[LayerRecord]], None] | None = None,
    ) -> None:
        self.model, self.wanted, self.mode, self.on_layer = model, wanted, mode, on_layer
        self.name = type(model).__name__
        self.names = {id(module): name for name, module in model.named_modules()}
        self.masks = Masks()
        self.layers: dict[int, _Layer] = {}
        self.tokens: torch.Tensor | None = None
        self._slices: dict[tuple[int, int, int, int], torch.Tensor] = {}
        self.total, self.step, self.new = 0, 0, 0
        self._sequences = list(sequences) if sequences is not None else None
        self.projections = Projections()
        self.turnings = Turnings(model.config)
        self._hooks: list[Any] = []
        self._checked = False
        self._tidy = Tidy()
        self._done: set[int] = set()

    def owns(self, module: torch.nn.Module) -> bool:
        """Whether a module belongs to the model that is watched."""
        return id(module) in self.names

    def __enter__(self) -> Watch:
        before = self.model.register_forward_pre_hook(self._begin, with_kwargs=True)
        after = self.model.register_forward_hook(self._end)
        self._hooks = [before, after, *self._tidy.follow(self.model)]
        if self.wanted.keep:
            self._hooks += self.turnings.follow(self.model)
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self.projections.close()
        self.masks.forget()

    def records(self) -> dict[int, list[LayerRecord]]:
        """The records of each layer, one per sequence."""
        return {index: layer.records for index, layer in sorted(self.layers.items())}

    def see(
        self,
        module: torch.nn.Module,
        qkv: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        mask: torch.Tensor | None,
        keywords: dict[str, Any],
        *,
        own: check.Own | None = None,
        none_is_causal: bool = True,
    ) -> torch.Tensor:
        """Record one call.

        Args:
            qkv: [B, H, T, D], [B, G, S, D], [B, G, S, E].
            own: what the model's own function returned; None where the output is wanted from here.

        Returns:
            [B, T, H, E]: the output given, or the one computed here.
        """
        q, k, v = qkv
        meaning = read_keywords(module, self.name, keywords)
        try:
            sight = self.masks.sight(q, k, mask, meaning, none_is_causal=none_is_causal)
        except UnsupportedModelError as error:
            raise UnsupportedModelError(f"{self.name}: {error}") from None
        k, v = k[:, :, : sight.keys], v[:, :, : sight.keys]
        index = self.number(module)
        if self.wanted.layers is not None and index not in self.wanted.layers:
            if own is not None:
                return own[0]
            plain = attend_call((q, k, v), sight, meaning, Request())
            return plain.output.transpose(1, 2).contiguous()
        check_counts(self.name, q, k, new=self.new, total=self.total)
        call = Call(module, q, k, v, mask, sight, meaning, keywords, self.total)
        layer = self._layer(index, call)
        projection = self._projection(module, q.shape[1], v.shape[-1])
        computed = self._sequence_by_sequence(call, layer, projection, own)
        result = computed if own is None else own[0]
        self._tidy.attended(q)
        if projection is not None:
            self.projections.expect(index, projection, result)
        return result

    # -- one call, sequence by sequence ---------------------------------------------------------

    def _sequence_by_sequence(
        self,
        call: Call,
        layer: _Layer,
        projection: Projection | None,
        own: check.Own | None,
    ) -> torch.Tensor:
        """Attend to every sequence of a call; returns the output [B, T, H, E], if it is wanted."""
        B, _, T, _ = call.q.shape
        sequences = self.sequences(B)
        if sequences == [Sequence(b) for b in range(B)]:
            cut = Cut(slice(0, B), 0, (0, T), (0, call.sight.keys))
            result = self._attend(call, cut, own)
            self._check(call, cut, result, own)
            for b, record in enumerate(layer.records):
                record.pieces.append(self._piece(call, cut, result, b, projection))
            return result.output.transpose(1, 2).contiguous()
        made = call.v.new_zeros(B, T, call.q.shape[1], call.v.shape[-1])
        for place, record in zip(sequences, layer.records, strict=True):
            cut = cut_of(call, place)
            if cut.size[0] <= 0:
                continue
            check_contained(call, cut, self.name)
            result = self._attend(call, cut, own)
            self._check(call, cut, result, own)
            if own is None:
                made[cut.batch, cut.rows[0] : cut.rows[1]] = result.output.transpose(1, 2)
            record.pieces.append(self._piece(call, cut, result, 0, projection))
        return made

    def sequences(self, batch: int) -> list[Sequence]:
        """The sequences of this observation."""
        if self._sequences is None:
            self._sequences = [Sequence(b) for b in range(batch)]
        return self._sequences

    def _attend(self, call: Call, cut: Cut, own: check.Own | None) -> Attention:
        """Output and statistics of some batch rows, query rows and keys."""
        rows, keys = slice(*cut.rows), slice(*cut.keys)
        q = call.q[cut.batch, :, rows]
        k, v = call.k[cut.batch, :, keys], call.v[cut.batch, :, keys]
        if own is not None and self._checked:
            v = v[..., :1]  # nobody reads our output any more, and the statistics need no values
        sight = sight_of(call, cut)
        names = self._names()
        tokens = None
        at, count = call.total - call.sight.keys + cut.keys[0], cut.size[1]
        if "induction_mass" in names and self.tokens is not None:
            tokens = self._tokens(cut.batch, at, at + count)
            if at > cut.start:
                # The key before the first one here tells what the first one follows; it is added
                # out of sight, for a cache that has dropped it.
                tokens = self._tokens(cut.batch, at - 1, at + count)
                k, v = (torch.cat([x[:, :, :1], x], dim=2) for x in (k, v))
                sight = shifted(sight)
        request = Request(
            names,
            pool=self.wanted.pool and self.wanted.keep and call.total == call.q.shape[2],
            rows=tuple(row - cut.rows[0] for row in self._sample(call, cut)),
            local=self.wanted.local,
            sink_keys=self.wanted.sink_keys,
            tokens=tokens,
        )
        result = attend_call((q, k, v), sight, call.meaning, request)
        shift = k.shape[2] - count
        return unshifted(result, shift) if shift else result

    def _tokens(self, batch: slice, low: int, high: int) -> torch.Tensor:
        """Token ids of some keys; one tensor for all layers, so that repeats are found once."""
        made = self.tokens[batch, low:high]  # type: ignore[index]
        return self._slices.setdefault((batch.start, batch.stop, low, high), made)

    def _sample(self, call: Call, cut: Cut) -> list[int]:
        """The rows of the call that are compared with the model's own attention."""
        if self._checked:
            return []
        rows = check.sampled_rows(call.q.shape[2]).tolist()
        return [row for row in rows if cut.rows[0] <= row < cut.rows[1]]

    def _check(self, call: Call, cut: Cut, result: Attention, own: check.Own | None) -> None:
        """Before anything is kept: is it what the model itself would do?"""
        rows = self._sample(call, cut)
        if rows:
            check.compare_call(call, cut, result, rows, own=own, model=self.name)
            self._checked = True

    def _names(self) -> tuple[str, ...]:
        known = self.tokens is not None
        return tuple(n for n in self.wanted.names if known or n != "induction_mass")

    def _piece(
        self, call: Call, cut: Cut, result: Attention, row: int, projection: Projection | None
    ) -> Piece:
        """What is kept of one sequence: batch row `row` of the cut and of the result."""
        b, count = cut.batch.start + row, cut.size[0]
        at = call.total - call.sight.keys + cut.keys[0] - cut.start
        one = Cut(slice(b, b + 1), cut.start, cut.rows, cut.keys)
        sight = sight_of(call, one)
        fresh = slice(cut.keys[1] - count, cut.keys[1])
        statistics = {n: result[n][row] for n in self._names() if n in ROW_STATISTICS}
        if "argmax" in statistics:
            where = statistics["argmax"]
            statistics["argmax"] = torch.where(where < 0, where, where + at) if at else where
        keep = self.wanted.keep
        pooled = result.map
        if pooled is not None:
            pooled = PooledMap(
                pooled.cell, *(x[row] for x in (pooled.mean, pooled.max, pooled.argmax))
            )
        spans = sight.spans
        first, end, origin = (
            x[0] + at if at else x[0] for x in (spans.first, spans.end, spans.origin)
        )
        return Piece(
            start=call.total - call.q.shape[2] + cut.rows[0] - cut.start,
            rows=count,
            at=at,
            q=call.q[b, :, slice(*cut.rows)].detach() if keep else None,
            k=call.k[b, :, fresh].detach() if keep else None,
            norms=None if projection is None else projection.norms(call.v[b, :, fresh]),
            first=first,
            end=end,
            origin=origin,
            statistics=statistics,
            received=result["received"][row] if "received" in result.statistics else None,
            map=pooled,
            mask=None if sight.mask is None else sight.mask[0],
            bias=None if sight.bias is None else sight.bias[0],
        )

    # -- layers ---------------------------------------------------------------------------------

    def number(self, module: torch.nn.Module) -> int:
        """The layer that a module belongs to, in the model's own numbers."""
        index = getattr(module, "layer_idx", None)
        if index is None:
            found = re.findall(r"\.(\d+)(?=\.|$)", "." + self.names[id(module)])
            if not found:
                raise UnsupportedModelError(
                    f"{self.name}: {self.names[id(module)]} does not say which layer it is."
                )
            index = found[0]
        return int(index)

    def _layer(self, index: int, call: Call) -> _Layer:
        self._flush(but=index)
        if index in self._done:
            raise self._twice(index)
        if index not in self.layers:
            about = about_call(call, self.names[id(call.module)])
            turning = self._turning(index, call)
            records = [
                LayerRecord(index, about, call.meaning.sinks, turning)
                for _ in self.sequences(call.q.shape[0])
            ]
            self.layers[index] = _Layer(records)
        layer = self.layers[index]
        if layer.step == self.step:
            raise self._twice(index)
        layer.step = self.step
        return layer

    def _turning(self, index: int, call: Call) -> Turning | None:
        """How the layer turns keys, told from the first sequence."""
        place = self.sequences(call.q.shape[0])[0]
        stop = call.total if place.stop is None else min(place.stop, call.total)
        where = (place.batch, place.start, stop)
        return self.turnings.found(index, call.module, (call.q, call.k), where)

    def _twice(self, index: int) -> UnsupportedModelError:
        return UnsupportedModelError(
            f"{self.name}: layer {index} attends twice in one forward; a trace has one map per "
            "layer. attnscope.observe records such calls one by one, where they go through SDPA."
        )

    def _projection(self, module: torch.nn.Module, heads: int, width: int) -> Projection | None:
        if not (self.wanted.keep and self.wanted.norms):
            return None
        return self.projections.of(module, heads, width)

    # -- the forward -------------------------------------------------------------------------------

    def _begin(self, _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        embeds = kwargs.get("inputs_embeds")
        self.masks.forget()
        self._slices.clear()
        if isinstance(ids, torch.Tensor) and ids.ndim == 2:
            fresh = ids.detach()
            whole = self.total == 0 or self.tokens is not None
            self.new = fresh.shape[1]
            if whole:
                before = [] if self.tokens is None else [self.tokens]
                with torch.inference_mode(False):  # it then counts changes, which caches go by
                    self.tokens = torch.cat([*before, fresh], dim=1)
        elif isinstance(embeds, torch.Tensor):
            self.new, self.tokens = embeds.shape[1], None
        else:
            raise UnsupportedModelError(
                f"{self.name}: expected token ids [B, T] as input, so that queries can be counted."
            )
        self.total += self.new
        self.step += 1

    def _end(self, *_: Any) -> None:
        self._flush()
        self.masks.forget()

    def _flush(self, but: int | None = None) -> None:
        """Close the layers of this forward: drop unconfirmed norms, hand them on."""
        for index in [i for i in self.layers if i != but]:
            layer = self.layers[index]
            if not self.projections.confirmed.get(index, False):
                for record in layer.records:
                    for piece in record.pieces:
                        piece.norms = None
            if self.on_layer is not None:
                self._done.add(index)
                self.on_layer(index, self.layers.pop(index).records)
