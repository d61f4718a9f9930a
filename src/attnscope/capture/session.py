"""Runs a model over a text and keeps its attention: `capture`.

The idea: prepare a batch, open a watch, run one forward or a generation, and hand each layer to
the trace as soon as it is done, so that a long text never has more than one layer in memory.

Not here: how calls are seen (watch.py) and how they come (interface.py); the format (trace/).
"""

from __future__ import annotations

import contextlib
import inspect
import os
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import torch

from attnscope.capture.calls import Sequence
from attnscope.capture.interface import MODES, not_routed, require_routed, watching
from attnscope.capture.prompt import Prompt, check_length, context_of, read_prompt, show
from attnscope.capture.record import LayerRecord
from attnscope.capture.vocabulary import check_ids, embeddings_of
from attnscope.capture.watch import Wanted, Watch
from attnscope.core.request import STATISTICS, Request
from attnscope.errors import UnsupportedModelError
from attnscope.trace import Trace, TraceWriter, open_trace


def capture(
    model: Any,
    text: Any,
    *,
    tokenizer: Any = None,
    statistics: str | Iterable[str] = "all",
    mode: str = "replace",
    save: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    layers: Iterable[int] | None = None,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.Tensor | None = None,
    generate: int = 0,
    pool: bool = True,
    local: int = 8,
    sink_keys: int = 1,
    name: str | None = None,
    progress: Progress | None = None,
) -> Trace | list[Trace]:
    """Run a model and keep its attention.

    Args:
        model: a name, a folder or a .gguf file (see `attnscope models`), or a causal language model
            of transformers that is loaded already.
        text: a text, several texts, or token ids [T] or [B, T].
        tokenizer: for a model object; a named model brings its own.
        statistics: names, or "all" (see attnscope.core.STATISTICS).
        mode: "replace": the output comes from here, in one pass with the statistics. "beside": the
            model's own kernel runs untouched, so the logits are bit-identical to an unobserved run.
        save: a folder to write to, layer by layer, while the model runs.
        overwrite: whether a trace that stands there is replaced.
        layers: which layers to keep; all if not given.
        attention_mask: 0 for padding at the ends; only together with ids.
        position_ids: positions that begin anew mark packed sequences; only together with ids.
        generate: how many tokens to generate (greedily) and to observe as further query rows.
        pool: whether the pooled map is kept, which the zooming picture starts from.
        local, sink_keys: the parameters of `local_mass` and `sink_mass`.
        name: what the trace calls the model.
        progress: told of each layer, or of each token's id when a single text is generated from.

    Returns:
        The trace; a list of them where the batch holds several sequences (saved as save/000,
        save/001…). `about` holds the times, and the token that the model says comes next.

    Raises:
        UnsupportedModelError: the model's attention cannot be observed exactly, with the reason.
        ModelError: it cannot be found or read, or the text is longer than its context.
        TraceError: the trace cannot be written; nothing is left behind then.
        ValueError, TypeError: naming the argument, what was expected and what came.

    Cost: time of the model's own forward, about; memory of the forward and, without `save`, of all
    queries, keys and statistics: some 4 (D (H + G) + 20 H) bytes per token and layer.
    """
    if mode not in MODES:
        raise ValueError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
    if generate < 0:
        raise ValueError(f"generate: expected 0 or more tokens, got {generate}")
    started = time.perf_counter()
    about: dict[str, Any] = {}
    if isinstance(model, str | os.PathLike):
        from attnscope.capture.models import load

        loaded = load(os.fspath(model))
        name = name or os.fspath(model)
        model, tokenizer = loaded.model, tokenizer or loaded.tokenizer
        about["load_s"] = time.perf_counter() - started
    _check_model(model)
    context = context_of(model.config.get_text_config())
    prompt = read_prompt(
        text, tokenizer, context=context,
        attention_mask=attention_mask, position_ids=position_ids, device=_device(model),
    )  # fmt: skip
    check_length(context, prompt.ids.shape[1] + generate)
    check_ids(model, prompt.ids)
    wanted = Wanted(
        _names(statistics, local=local, sink_keys=sink_keys), pool=pool, local=local,
        sink_keys=sink_keys, layers=None if layers is None else frozenset(layers),
    )  # fmt: skip
    run = _Run(model, tokenizer, prompt, wanted, mode, generate, name or _name(model), about)
    run.progress = progress
    return run.traces(None if save is None else Path(save), overwrite=overwrite)


class Progress(Protocol):
    """Hears how far a capture is."""

    def layer(self, done: int, total: int) -> None:
        """So many of the model's layers are watched (and written, where the trace is saved)."""

    def token(self, done: int, total: int, token: int) -> None:
        """So many tokens are generated; the last has this id."""


class _Tokens:
    """What `generate` hands its tokens to as they come: the prompt first, then one at a time."""

    def __init__(self, progress: Progress, total: int) -> None:
        self.progress, self.total, self.done = progress, total, -1

    def put(self, value: torch.Tensor) -> None:
        """One step; the token after the last is only foretold, and is not told."""
        self.done += 1
        if 0 < self.done <= self.total:
            self.progress.token(self.done, self.total, int(value.reshape(-1)[-1]))

    def end(self) -> None:
        """Nothing more comes."""


class _Run:
    """One capture: what goes in, and how the traces come out."""

    progress: Progress | None = None

    def __init__(
        self, model: Any, tokenizer: Any, prompt: Prompt, wanted: Wanted, mode: str,
        generate: int, name: str, about: dict[str, Any],
    ) -> None:  # fmt: skip
        self.model, self.tokenizer, self.prompt, self.wanted = model, tokenizer, prompt, wanted
        self.mode, self.generate, self.name, self.about = mode, generate, name, about

    def traces(self, save: Path | None, *, overwrite: bool) -> Trace | list[Trace]:
        """Run, and give a trace per sequence."""
        count = len(self.prompt.sequences)
        paths: list[Path | None] = [None] * count
        if save is not None:
            paths = [save] if count == 1 else [save / f"{n:03d}" for n in range(count)]
        total = layer_count(self.model.config.get_text_config())
        with contextlib.ExitStack() as stack:
            outs = [_Out(self._header(), path, overwrite=overwrite) for path in paths]
            for out in outs:
                stack.enter_context(out)

            def add(index: int, records: list[LayerRecord]) -> None:
                for out, record in zip(outs, records, strict=True):
                    out.add(record, pool=self.wanted.pool)
                if self.progress is not None:
                    self.progress.layer(len(outs[0].seen), total)

            watch = Watch(
                self.model, self.wanted, mode=self.mode, sequences=self.prompt.sequences,
                on_layer=None if self.generate else add,
            )  # fmt: skip
            begun = time.perf_counter()
            with watching(watch), torch.no_grad():
                ids, following = self._forward()
            self.about["forward_s"] = time.perf_counter() - begun
            lengths = [self._length(s, ids) for s in self.prompt.sequences]
            if self.generate:
                for records in watch.records().values():
                    add(0, [r.cut(n) for r, n in zip(records, lengths, strict=True)])
            if not any(out.seen for out in outs):
                raise not_routed(self.model, "none of its layers called an attention function")
            found = []
            for n, out in enumerate(outs):
                self._add_layers_without_map(out)
                told = self._told(n, ids, lengths[n], following)
                rows = embeddings_of(self.model, (token.id for token in told["tokens"]))
                found.append(out.finish(rows, **told))
        return found[0] if count == 1 else found

    def _forward(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Run; returns all ids that went in [B, total], and the id that would come next [B]."""
        prompt = self.prompt
        if self.generate:
            return self._generate()
        accepted = inspect.signature(self.model.forward).parameters
        options: dict[str, Any] = {"use_cache": False, "logits_to_keep": 1}
        given = {name: value for name, value in options.items() if name in accepted}
        if prompt.mask is not None:
            given["attention_mask"] = prompt.mask
        if prompt.positions is not None:
            if "position_ids" not in accepted and bool((prompt.positions.diff(dim=1) != 1).any()):
                raise UnsupportedModelError(
                    f"{type(self.model).__name__} takes no position_ids, so padded or packed "
                    "sequences would get wrong positions; give them one by one."
                )
            if "position_ids" in accepted:
                given["position_ids"] = prompt.positions
        logits = self.model(input_ids=prompt.ids, **given).logits
        return prompt.ids, logits[:, -1].argmax(-1)

    def _generate(self) -> tuple[torch.Tensor, torch.Tensor]:
        prompt = self.prompt
        if any(s.stop is not None for s in prompt.sequences):
            raise ValueError(
                "generate: packed or right-padded sequences cannot grow; pad at the left"
            )
        mask = prompt.mask if prompt.mask is not None else torch.ones_like(prompt.ids)
        single = self.progress is not None and len(prompt.ids) == 1
        streamer = _Tokens(self.progress, self.generate) if single and self.progress else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unset options of generation, which we set here
            ids = self.model.generate(
                prompt.ids, attention_mask=mask, max_new_tokens=self.generate + 1,
                do_sample=False, num_beams=1, streamer=streamer,
                pad_token_id=_ends(self.model, self.tokenizer)[0],
            )  # fmt: skip
        return ids[:, :-1], ids[:, -1]

    def _length(self, place: Sequence, ids: torch.Tensor) -> int:
        """How many tokens of a sequence were seen: up to its end, if it ended before others."""
        stop = ids.shape[1] if place.stop is None else place.stop
        if self.generate:
            ends = _ends(self.model, self.tokenizer)
            for at in range(self.prompt.ids.shape[1], stop):
                if int(ids[place.batch, at]) in ends:
                    stop = at + 1
                    break
        return stop - place.start

    def _told(
        self, n: int, ids: torch.Tensor, length: int, following: torch.Tensor
    ) -> dict[str, Any]:
        """The fields of the header that are known at the end."""
        place = self.prompt.sequences[n]
        own = ids[place.batch, place.start : place.start + length].tolist()
        tokens, text = show(self.tokenizer, self.prompt.texts[n], own)
        given = self.prompt.ids.shape[1] if place.stop is None else place.stop
        about = dict(self.about)
        if place.stop is None and place.start + length == ids.shape[1]:
            about["next_token_id"] = int(following[place.batch])
            if self.tokenizer is not None:
                about["next_token"] = self.tokenizer.decode([about["next_token_id"]])
        return {
            "tokens": tokens,
            "text": text,
            "prompt_tokens": min(given - place.start, length),
            "about": about,
        }

    def _header(self) -> dict[str, Any]:
        config = self.model.config.get_text_config()
        return {
            "model": {
                "name": self.name,
                "architecture": type(self.model).__name__,
                "layers": layer_count(config),
                "query_heads": 1,
                "kv_heads": 1,
                "head_width": 1,
                "width": int(config.hidden_size),
                "vocabulary": int(config.vocab_size) or None,
            },
            "mode": self.mode,
            "statistics": list(self.wanted.names),
            "sink_keys": self.wanted.sink_keys,
            "local": self.wanted.local,
        }

    def _add_layers_without_map(self, out: _Out) -> None:
        config = self.model.config.get_text_config()
        for index in range(layer_count(config)):
            chosen = self.wanted.layers is None or index in self.wanted.layers
            if index not in out.seen and chosen:
                out.add_none(index, _why_none(config, index))


class _Out:
    """One trace in the making, in memory or on the disk."""

    def __init__(self, header: dict[str, Any], path: Path | None, *, overwrite: bool) -> None:
        self.header, self.path = header, path
        self.seen: dict[int, dict[str, Any]] = {}
        self.arrays: dict[int, dict[str, Any]] = {}
        self.writer = None if path is None else TraceWriter(path, header, overwrite=overwrite)

    def __enter__(self) -> _Out:
        return self

    def __exit__(self, *_: object) -> None:
        if self.writer is not None:
            self.writer.abort()

    def add(self, record: LayerRecord, *, pool: bool) -> None:
        """Take one layer."""
        arrays = record.arrays(pool=pool)
        self.seen[record.index] = record.about
        if self.writer is not None:
            self.writer.add_layer(record.index, arrays, **record.about)
        else:
            self.arrays[record.index] = arrays

    def add_none(self, index: int, reason: str) -> None:
        """Say that a layer has no map."""
        self.seen[index] = {"kind": "none", "reason": reason}
        if self.writer is not None:
            self.writer.add_layer(index, None, kind="none", reason=reason)

    def finish(self, embeddings: dict[str, Any] | None, **told: Any) -> Trace:
        """The whole trace."""
        first = next(about for _, about in sorted(self.seen.items()) if about["kind"] != "none")
        names = ("query_heads", "kv_heads", "head_width")
        told["model"] = self.header["model"] | {name: first[name] for name in names}
        if self.writer is not None:
            if embeddings is not None:
                self.writer.add_embeddings(embeddings)
            self.writer.update(**told)
            return open_trace(self.writer.finish())
        known = [{"index": index, **about} for index, about in sorted(self.seen.items())]
        header = {**self.header, **told, "layers": known}
        return Trace.from_arrays(header, self.arrays, embeddings=embeddings)


def layer_count(config: Any) -> int:
    """How many layers a decoder has."""
    counts = [getattr(config, name, None) for name in ("decoder_layers", "num_hidden_layers")]
    return next(int(count) for count in counts if count)


def _why_none(config: Any, index: int) -> str:
    kinds = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None)
    if kinds and index < len(kinds) and "full" not in kinds[index] and kinds[index] != "attention":
        kind = str(kinds[index]).replace("_", " ")
        return f"a layer of kind {kind!r} keeps a state and weighs no tokens"
    return "this layer made no call of an attention function"


def _check_model(model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"model: expected a name, a path or a model of transformers, got {type(model).__name__}"
        )
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModelError(
            f"{type(model).__name__} has an encoder and a decoder, and a trace holds one sequence; "
            "attnscope.observe(model) records its calls one by one."
        )
    require_routed(model)


def _names(statistics: str | Iterable[str], *, local: int, sink_keys: int) -> tuple[str, ...]:
    names = STATISTICS if statistics == "all" else statistics
    names = (names,) if isinstance(names, str) else tuple(names)
    if "logsumexp" not in names:
        names = ("logsumexp", *names)
    # Request knows the names and the ranges, and says what is wrong with them.
    return Request(names, local=local, sink_keys=sink_keys, tokens=torch.zeros(0)).names


def _device(model: Any) -> torch.device:
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def _name(model: Any) -> str:
    """The model's own name; of a folder its last part, for a trace says nothing of a machine."""
    name = str(model.config._name_or_path or model.config.model_type)
    return Path(name).name if Path(name).is_absolute() else name


def _ends(model: Any, tokenizer: Any) -> list[int]:
    """The ids that end a text; the first also serves as padding after it."""
    for source in (getattr(model, "generation_config", None), model.config, tokenizer):
        ids = getattr(source, "eos_token_id", None)
        if ids is not None:
            return [ids] if isinstance(ids, int) else list(ids)
    return [0]
