"""One generation: load, go on with the text, record it if asked, and tell all of it.

The idea: the text is given out while it is made, as whole characters; everything else is gathered
in one report at the end.

Not here: the options (generate.py), the model (attnscope.decoder), the record (recorder.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attnscope.cli.console import step
from attnscope.errors import ModelError

if TYPE_CHECKING:
    from attnscope.decoder import Decoder, Sampling

TOKENS: Final = 100
MOST_SEED: Final = 2**63
TIMES: Final = ("load_s", "prefill_s", "decode_s", "tokens_per_s")


@dataclass(frozen=True)
class Wanted:
    """What was asked for beside the text and the model.

    Attributes:
        sampling: temperature, top_k and top_p, or None.
    """

    tokens: int = TOKENS
    sampling: dict[str, Any] | None = None
    seed: int | None = None
    stops: tuple[str, ...] = ()
    chat: bool = False
    trace: Path | None = None


@dataclass
class Generated:
    """Everything that `attnscope generate --json` says.

    Attributes:
        model: the facts of `attnscope look --json`.
        prompt, generated: a text and its tokens (index, id, text and byte span in prompt and text).
        ended: "length", "end" (the model ended it) or "stop".
        sampling: temperature, top_k, top_p and seed; None for the likeliest tokens.
        timing: seconds to load, to read the prompt, and for the steps; tokens per second.
        trace: the folder, or None.
    """

    model: dict[str, Any]
    prompt: dict[str, Any]
    generated: dict[str, Any]
    ended: str
    sampling: dict[str, Any] | None
    timing: dict[str, float | None]
    peak: int | None
    trace: str | None = None


@dataclass
class _Opened:
    """A model, and the prompt in its words."""

    decoder: Decoder
    tokenizer: Any
    text: str
    ids: list[int]
    name: str


@dataclass
class _Course:
    """How a generation went."""

    ids: list[int] = field(default_factory=list)
    text: str = ""
    ended: str = "length"
    prefill_s: float = 0.0
    decode_s: float = 0.0


def run(text: str, *, model: str, wanted: Wanted, write: Callable[[str], None]) -> Generated:
    """Load, generate, and tell.

    Args:
        write: gets the text in pieces of whole characters, as soon as each is certain.

    Raises:
        AttnscopeError: the model cannot be found or run, or the trace cannot be written.
        ValueError: the text, or what was asked for, does not fit the model.
    """
    from attnscope.core.memory import resident_peak

    started = time.perf_counter()
    with step(f"Loading {model}"):
        opened = _open(text, model, chat=wanted.chat)
    sampling, seed, generator = _drawer(wanted)
    load_s = time.perf_counter() - started
    if wanted.trace is None:
        course = _follow(opened, wanted, sampling, generator, write=write)
    else:
        course = _record(opened, wanted, sampling, generator, write=write, load_s=load_s)
    steps = len(course.ids) - 1
    per_s = steps / course.decode_s if steps and course.decode_s > 0 else None
    return Generated(
        model=_facts(opened),
        prompt={"text": opened.text, "tokens": _tokens(opened, opened.ids)},
        generated={
            "text": course.text,
            "tokens": _tokens(opened, opened.ids + course.ids)[len(opened.ids) :],
        },
        ended=course.ended,
        sampling=None if wanted.sampling is None else {**wanted.sampling, "seed": seed},
        timing=dict(zip(TIMES, (load_s, course.prefill_s, course.decode_s, per_s), strict=True)),
        peak=resident_peak(),
        trace=None if wanted.trace is None else str(wanted.trace),
    )


def _open(text: str, model: str, *, chat: bool) -> _Opened:
    """The decoder, its tokenizer, and the ids of the prompt."""
    from attnscope.capture.convert import quiet_transformers
    from attnscope.capture.models import load_tokenizer, resolve
    from attnscope.capture.text import token_ids
    from attnscope.decoder import load

    folder = resolve(model).folder
    decoder = load(folder)
    with quiet_transformers():
        tokenizer = load_tokenizer(folder)
        if not chat:
            ids = token_ids(tokenizer, text, context=decoder.config.context, name=model)
            return _Opened(decoder, tokenizer, text, ids, model)
        asked = in_template(tokenizer, text, name=model)
        return _Opened(decoder, tokenizer, asked, _bare_ids(tokenizer, asked), model)


def in_template(tokenizer: Any, text: str, *, name: str) -> str:
    """A question as the model's chat template writes it, up to where the answer begins.

    Raises:
        ModelError: the model has no template.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise ModelError(f"{name} has no chat template: it goes on with texts. Leave --chat out.")
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
    )
    return str(asked)


def _bare_ids(tokenizer: Any, text: str) -> list[int]:
    """The ids of a text in which the special tokens are written out."""
    found = tokenizer(text, add_special_tokens=False, return_attention_mask=False)
    return [int(one) for one in found["input_ids"]]


def _drawer(wanted: Wanted) -> tuple[Sampling | None, int | None, Any]:
    """The sampling, the seed (a new one if none was given, to be told) and the generator."""
    import torch

    from attnscope.decoder import Sampling

    if wanted.sampling is None:
        return None, None, None
    generator = torch.Generator()
    seed = generator.seed() % MOST_SEED if wanted.seed is None else wanted.seed
    return Sampling(**wanted.sampling), seed, generator.manual_seed(seed)


def _follow(
    opened: _Opened,
    wanted: Wanted,
    sampling: Sampling | None,
    generator: Any,
    *,
    write: Callable[[str], None],
    **given: Any,
) -> _Course:
    """Generate, and give out the text on the way.

    Args:
        given: caches, watch, and `seen`, which is called with every token.
    """
    from attnscope.cli.stream import TextStream, bytes_of_tokens

    bytes_of, stream, course = (
        bytes_of_tokens(opened.tokenizer),
        TextStream(wanted.stops),
        _Course(),
    )
    seen = given.pop("seen", None)
    steps = opened.decoder.generate(
        opened.ids, tokens=wanted.tokens, sampling=sampling, generator=generator, **given
    )
    begun = time.perf_counter()
    for token in steps:
        if not course.ids:
            course.prefill_s = time.perf_counter() - begun
        course.ids.append(token)
        if seen is not None:
            seen(token)
        write(stream.add(bytes_of(token)))
        if stream.stopped:
            break
    course.decode_s = time.perf_counter() - begun - course.prefill_s
    write(stream.end())
    course.text = stream.text
    if stream.stopped:
        course.ended = "stop"
    elif course.ids[-1] in opened.decoder.config.ends:
        course.ended = "end"
    return course


def _record(
    opened: _Opened,
    wanted: Wanted,
    sampling: Sampling | None,
    generator: Any,
    *,
    write: Callable[[str], None],
    load_s: float,
) -> _Course:
    """The same with a trace, in which every token is a row, the last one too."""
    import torch

    from attnscope.cli.recorder import Recorder

    assert wanted.trace is not None
    caches = opened.decoder.new_caches()
    with Recorder(opened.decoder, wanted.trace, name=opened.name) as recorder:
        recorder.ids += opened.ids
        course = _follow(
            opened, wanted, sampling, generator, write=write, caches=caches,
            watch=recorder.watch, seen=recorder.ids.append,
        )  # fmt: skip
        with torch.no_grad():
            logits = opened.decoder([course.ids[-1]], caches, watch=recorder.watch)[0, -1]
        following = int(logits.argmax())
        about = {
            "load_s": load_s,
            "forward_s": course.prefill_s + course.decode_s,
            "next_token_id": following,
            "next_token": opened.tokenizer.decode([following]),
        }
        with step("Writing the trace"):
            recorder.finish(opened.tokenizer, opened.text, prompt=len(opened.ids), about=about)
    return course


def _tokens(opened: _Opened, ids: list[int]) -> list[dict[str, Any]]:
    from attnscope.capture.prompt import show

    return [asdict(token) for token in show(opened.tokenizer, opened.text, ids)[0]]


def _facts(opened: _Opened) -> dict[str, Any]:
    config, shape = opened.decoder.config, opened.decoder.attention(0).shape
    return {
        "name": opened.name,
        "architecture": config.architecture,
        "layers": config.layers,
        "query_heads": shape.heads,
        "kv_heads": shape.groups,
        "head_width": shape.width,
    }
