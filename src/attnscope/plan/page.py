"""The planner's page: a question in JSON, the whole answer in JSON, every number with its formula.

The idea: the page in the browser computes nothing. It sends what its fields hold and draws what
comes back, so it cannot differ from `attnscope plan`: the answer is made here, from the same
functions. The server of the course calls `ask`; a page from disk runs this very file in the
browser. Whatever is wrong comes back as the planner's own sentence with the field that it is about.

Contract: `ask(question) -> answer`, both JSON text. A whole number above 2^53 is a string of its
digits, because a browser would round it.

    question  model, versus {name, config?}; context, batch, dtype, kv_dtype, heads, room, weights,
              device, window, share, assume_full
    answer    error {field, sentence}, or models [...], picture {...} and command; see `answer`

Every option of the command is a field here, and `command` is the line that asks the same there.

Not here: each number (page_numbers.py), the picture (page_picture.py), what is asked of whom
(serve/course.py), the page itself (serve/static/js/planner).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from attnscope.errors import ConfigError
from attnscope.plan.bytes import whole
from attnscope.plan.devices import Device, find_device
from attnscope.plan.find import MOST_BYTES, built_in, built_in_names, parse_json
from attnscope.plan.fit import find_room, parse_bytes
from attnscope.plan.model import Model
from attnscope.plan.numbers import find_format, model_format
from attnscope.plan.page_command import command
from attnscope.plan.page_numbers import Numbers
from attnscope.plan.page_picture import picture
from attnscope.plan.read import from_config
from attnscope.plan.report import Asked, default_context, report, weights_unknown
from attnscope.plan.what_if import changed, parse_share

SCHEMA: Final = "attnscope.plan.page/1"
SAFE: Final = 2**53 - 1
"""The largest whole number that JavaScript's numbers hold exactly."""
MOST_TEXT: Final = 1 << 18
"""Characters of a config that is pasted; the largest published one has some ten thousand."""


class QuestionError(ValueError):
    """A field of the page holds what it may not."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


@dataclass(frozen=True)
class Question:
    """What the page's fields hold.

    Args:
        model, versus: a built-in name, or a name and the text of a config.
        context: tokens; None for the first model's default.
        room: a device's name, a number of bytes such as 80GiB, or nothing.
        weights: "auto", or a number of bytes.
        device: whose ridge point is asked for; nothing for that of `room`, if it is a device.
        window, share: what if; "" for no other share.
    """

    model: Mapping[str, Any]
    versus: Mapping[str, Any] | None = None
    context: int | None = None
    batch: int = 1
    dtype: str | None = None
    kv_dtype: str | None = None
    heads: str = "8"
    room: str = ""
    weights: str = "auto"
    device: str = ""
    window: int | None = None
    share: str = ""
    assume_full: bool = False


def ask(question: str) -> str:
    """Answer a question.

    Args:
        question: a JSON object; see `Question`.

    Returns:
        JSON: the answer, or the error as a sentence.

    >>> json.loads(ask('{"model": {"name": "nothing"}}'))["error"]["field"]
    'model'
    """
    try:
        said = answer(_question(question))
    except QuestionError as error:
        said = {"error": {"field": error.field, "sentence": str(error)}}
    return json.dumps(_safe({"schema": SCHEMA, "error": None, **said}), ensure_ascii=False)


def _question(text: str) -> Question:
    """The question, each field of its own kind.

    Raises:
        QuestionError: it is none.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise QuestionError("model", "The question is not JSON.") from None
    if not isinstance(given, dict) or not isinstance(given.get("model"), dict):
        raise QuestionError("model", "The question names no model.")
    given = {key: value for key, value in given.items() if value is not None}
    unknown = set(given) - set(Question.__dataclass_fields__)
    if unknown:
        raise QuestionError("model", f"The question has an unknown field {min(unknown)!r}.")
    for field in ("dtype", "kv_dtype", "heads", "room", "weights", "device", "share"):
        if not isinstance(given.get(field, ""), str):
            raise QuestionError(field, f"{field} must be text, got {given[field]!r}.")
    if not isinstance(given.get("versus", {}), dict):
        raise QuestionError("versus", "versus must name a model.")
    return Question(**given)


def answer(question: Question) -> dict[str, Any]:
    """Everything that the page shows.

    Returns:
        asked: the question with what was left open filled in.
        models: one or two, each as `_model_part`.
        picture: what the plot draws.
        command: the line that asks `attnscope plan` the same.

    Raises:
        QuestionError: a field holds what it may not.
    """
    first = _read("model", question.model, question.assume_full)
    second = None
    if question.versus is not None:
        second = _read("versus", question.versus, question.assume_full)
    asked = _asked(question, first)
    models = [(first, asked), *([(second, _asked_of_second(asked))] if second else [])]
    every = [_numbers(one, its) for one, its in models]
    parts = [_model_part(one) for one in every]
    return {
        "asked": {
            "context": asked.context,
            "batch": asked.batch,
            "dtype": asked.dtype,
            "kv_dtype": asked.kv_dtype,
            "heads": ",".join(map(str, asked.groups)),
            "room": question.room.strip(),
            "weights": question.weights.strip(),
            "device": None if asked.device is None else asked.device.name,
            "window": asked.window,
            "share": None if asked.share is None else "{}/{}".format(*asked.share),
        },
        "models": parts,
        "picture": picture(every),
        "command": command(first, second, asked, question, weighs=every[0].known is not None),
    }


def _read(field: str, given: Mapping[str, Any], assume_full: bool) -> Model:
    """A built-in model, or the one of a config's text."""
    name, text = given.get("name"), given.get("config")
    if not isinstance(name, str) or not name.strip():
        raise QuestionError(field, "The model has no name.")
    try:
        if text is None:
            if name not in built_in_names():
                raise QuestionError(field, f"There is no built-in model {name[:80]!r}.")
            return replace(from_config(built_in(name).config, name=name), source="built-in")
        if not isinstance(text, str) or len(text) > MOST_TEXT:
            raise QuestionError(
                field, f"A config has at most {MOST_TEXT:,} characters here; `attnscope plan` "
                f"reads files of up to {MOST_BYTES:,} bytes.",
            )  # fmt: skip
        if not text.strip():
            raise QuestionError(field, f"{name[:80]} is empty: paste the text of a config.json.")
        return from_config(parse_json(text, name[:80]), name=name[:80], assume_full=assume_full)
    except ConfigError as error:
        raise QuestionError(field, str(error)) from None


def _asked(question: Question, first: Model) -> Asked:
    """What is asked of the first model, each field checked."""

    def checked(field: str, check: Any, *given: Any) -> Any:
        try:
            return check(*given)
        except ValueError as error:
            raise QuestionError(field, str(error)) from None

    context = default_context(first) if question.context is None else question.context
    checked("context", whole, context, "context")
    checked("batch", whole, question.batch, "batch")
    if question.dtype is not None:
        checked("dtype", model_format, question.dtype)
    if question.kv_dtype is not None:
        checked("kv_dtype", find_format, question.kv_dtype)
    room: int | None = None
    device: Device | None = None
    if question.room.strip():
        room, device = checked("room", find_room, question.room, "room")
    if question.device.strip():
        device = checked("device", find_device, question.device)
    share = None
    if question.share.strip():
        share = checked("share", parse_share, question.share)
    if question.window is not None:
        checked("window", whole, question.window, "window")
    what_if: dict[str, Any] = {"window": question.window, "share": share}
    checked("window" if share is None else "share", partial(changed, first, **what_if))
    weights = None
    if question.weights.strip() not in ("", "auto"):
        weights = checked("weights", parse_bytes, question.weights)
    return Asked(
        context=context, batch=question.batch, dtype=question.dtype, kv_dtype=question.kv_dtype,
        budget=room, weights=weights, device=device,
        groups=checked("heads", _groups, question.heads), explain=True, **what_if,
    )  # fmt: skip


def _groups(text: str) -> tuple[int, ...]:
    """The numbers of KV heads to try."""
    found = [one.strip() for one in text.split(",")]
    if not all(one.isdecimal() and 1 <= len(one) < 9 and int(one) for one in found):
        raise ValueError(f"heads must be numbers such as 4,8, got {text!r}.")
    return tuple(int(one) for one in found)


def _asked_of_second(asked: Asked) -> Asked:
    """The second model's weights are its own, unless none are counted at all; it stays as it is."""
    return replace(asked, weights=0 if asked.weights == 0 else None, window=None, share=None)


def _numbers(model: Model, asked: Asked) -> Numbers:
    """A model's numbers; where its weights are not known, what fits is not asked."""
    known = weights_unknown(model, asked) is None
    said = report(model, asked if known else replace(asked, budget=None))
    return Numbers(model, asked, said)


def _model_part(numbers: Numbers) -> dict[str, Any]:
    """One model: who it is, and its numbers by the parts of the page."""
    model = numbers.model
    said = numbers.said
    return {
        "name": model.name,
        "architecture": model.architecture,
        "layers": len(model.layers),
        "width": model.width,
        "vocabulary": model.vocabulary,
        "context_limit": model.context_limit,
        "source": model.source,
        "dtype": said["dtype"],
        "kv_dtype": said["kv_dtype"],
        "cache": numbers.cache(),
        "weights": numbers.weights(),
        "weights_unknown": weights_unknown(model, numbers.asked),
        "fit": numbers.fit(),
        "schemes": numbers.schemes(),
        "groups": numbers.groups(),
        "formats": numbers.formats(),
        "engines": numbers.engines(),
        "flops": numbers.flops(),
        "devices": numbers.devices(),
        "device": numbers.device(),
        "weighed": numbers.weighed(),
        "notes": said["notes"],
        "assumed": said["assumed"],
    }


def _safe(value: Any) -> Any:
    """The same with every whole number that a browser would round as text."""
    if isinstance(value, dict):
        return {key: _safe(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_safe(one) for one in value]
    large = isinstance(value, int) and not isinstance(value, bool) and abs(value) > SAFE
    return str(value) if large else value
