"""Records what the decoder attends to, from the prompt to the last step, as one trace.

The idea: a layer tells a watch what it is about to attend to; the same attention is computed once
more with every statistic, and kept as a piece of the layer's record. A step is one more query row
with the key that came with it, whatever a sliding cache has dropped.

Shapes: of one call, q [1, H, T, D], k [1, G, S, D], v [1, G, S, E], the T queries at the end of the
S keys, which begin at position `start + T - S`.

Not here: the record and its arrays (capture/record.py), the format (trace/).
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from attnscope.capture.project import Projection
    from attnscope.capture.record import LayerRecord
    from attnscope.core.mechanism import Seen
    from attnscope.core.problem import Attention
    from attnscope.decoder import Decoder

LOCAL, SINK_KEYS = 8, 1
"""The parameters of `local_mass` and `sink_mass`, as captures have them."""


class Recorder:
    """A trace in the making; use it in a `with` block, which discards it on an error.

    Args:
        decoder: the model.
        path: the new folder.
        name: what the trace calls the model.

    Raises:
        TraceError: something stands at `path`, or it cannot be written.
    """

    def __init__(self, decoder: Decoder, path: Path, *, name: str) -> None:
        from attnscope.core.request import STATISTICS
        from attnscope.trace import TraceWriter

        self.decoder = decoder
        self.ids: list[int] = []
        self.records: dict[int, LayerRecord] = {}
        self._projections: dict[int, Projection] = {}
        config, shape = decoder.config, decoder.attention(0).shape
        header = {
            "model": {
                "name": name,
                "architecture": config.architecture,
                "layers": config.layers,
                "query_heads": shape.heads,
                "kv_heads": shape.groups,
                "head_width": shape.width,
                "width": config.width,
                "vocabulary": config.vocabulary,
            },
            "mode": "beside",
            "statistics": list(STATISTICS),
            "sink_keys": SINK_KEYS,
            "local": LOCAL,
        }
        self._writer = TraceWriter(path, header)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._writer.abort()

    def watch(self, layer: int, seen: Seen) -> None:
        """Keep one call of a layer; `ids` must hold the tokens of all its keys."""
        from attnscope.capture.record import LayerRecord
        from attnscope.capture.rotation import Turning

        if layer not in self.records:
            turning = Turning.of(self.decoder.attention(layer).rope.rope, 1)
            self.records[layer] = LayerRecord(layer, self._about(layer, seen), turning=turning)
        self.records[layer].pieces.append(self._piece(layer, seen))

    def _about(self, layer: int, seen: Seen) -> dict[str, Any]:
        return {
            "kind": "full" if seen.window is None else "sliding",
            "name": f"model.layers.{layer}.self_attn",
            "window": seen.window,
            "query_heads": seen.q.shape[1],
            "kv_heads": seen.k.shape[1],
            "head_width": seen.q.shape[3],
            "value_width": seen.v.shape[3],
            "scale": float(seen.scale),
            "softcap": seen.softcap,
            "causal": seen.causal,
        }

    def _piece(self, layer: int, seen: Seen) -> Any:
        import torch

        from attnscope.capture.record import Piece
        from attnscope.core.request import ROW_STATISTICS

        T, S = seen.q.shape[2], seen.k.shape[2]
        at = seen.start + T - S
        position = torch.arange(seen.start, seen.start + T, dtype=torch.int32)
        first = torch.zeros_like(position)
        if seen.window is not None:
            first = (position - seen.window + 1).clamp(min=0)
        result = self._attended(seen, at, first, position + 1)
        statistics = {name: result[name][0] for name in ROW_STATISTICS}
        statistics["argmax"] = statistics["argmax"] + at
        fresh = slice(S - T, S)
        # Copies: what a cache gives out is a view that keeps its whole buffer alive.
        return Piece(
            start=seen.start, rows=T, at=at,
            q=seen.q[0].detach().clone(), k=seen.k[0, :, fresh].detach().clone(),
            norms=self._projection(layer, seen).norms(seen.v[0, :, fresh]),
            first=first, end=position + 1, origin=torch.zeros_like(position),
            statistics=statistics, received=result["received"][0],
        )  # fmt: skip

    def _attended(self, seen: Seen, at: int, first: torch.Tensor, end: torch.Tensor) -> Attention:
        """The call once more with every statistic; rows and keys count from `at`."""
        import torch

        from attnscope.capture.calls import unshifted
        from attnscope.core.attend import attend
        from attnscope.core.masks import Spans
        from attnscope.core.request import Request

        S = seen.k.shape[2]
        # The key before the first one tells what the first one follows (`induction_mass`); where a
        # cache has dropped it, another stands in its place, out of sight.
        hidden = 1 if at > 0 else 0
        k, v = (torch.cat([x[:, :, :hidden], x], dim=2) for x in (seen.k, seen.v))
        begin = at - hidden
        spans = Spans(
            (first - begin)[None], (end - begin)[None], torch.full_like(first, -begin)[None],
            S + hidden,
        )  # fmt: skip
        tokens = torch.tensor([self.ids[begin : at + S]])
        result = attend(
            seen.q, k, v, scale=seen.scale, causal=False, mask=spans, softcap=seen.softcap,
            sinks=seen.sinks,
            statistics=Request.of("all", tokens=tokens, local=LOCAL, sink_keys=SINK_KEYS),
        )  # fmt: skip
        return unshifted(result, hidden) if hidden else result

    def _projection(self, layer: int, seen: Seen) -> Projection:
        from attnscope.capture.project import Projection

        if layer not in self._projections:
            linear = self.decoder.attention(layer).o_proj
            self._projections[layer] = Projection(linear, linear.weight, seen.q.shape[1])
        return self._projections[layer]

    def finish(self, tokenizer: Any, text: str, *, prompt: int, about: dict[str, Any]) -> None:
        """Write the trace.

        Args:
            tokenizer: of transformers.
            text: the prompt.
            prompt: how many of the ids are the prompt's.
            about: more to say, such as times.

        Raises:
            TraceError: it cannot be written; nothing is left behind then.
        """
        from attnscope.capture.prompt import show
        from attnscope.capture.vocabulary import rows_of

        for layer, record in sorted(self.records.items()):
            self._writer.add_layer(layer, record.arrays(pool=True), **record.about)
        tokens, whole = show(tokenizer, text, self.ids)
        rows = rows_of(self.decoder.embed_tokens, (token.id for token in tokens))
        if rows is not None:
            self._writer.add_embeddings(rows)
        self._writer.update(tokens=tokens, text=whole, prompt_tokens=prompt, about=about)
        self._writer.finish()
