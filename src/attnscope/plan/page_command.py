"""The line of the command that asks what the planner's page asks.

The idea: the page and `attnscope plan` answer alike, so a reader may take the question along: into
a script, onto a machine with the GGUF file, for its `--json`. What is as the command has it anyway
is left out.

Not here: the options (cli/plan.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attnscope.plan.report import Asked, default_context

if TYPE_CHECKING:
    from attnscope.plan.model import Model
    from attnscope.plan.page import Question

PLAIN: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,"
"""Letters that a shell leaves alone."""


def command(
    first: Model, second: Model | None, asked: Asked, question: Question, *, weighs: bool
) -> str:
    """The line; a pasted config is the file of that name.

    Args:
        first, second: the models.
        asked: what is asked of the first.
        question: the same in the words of the page.
        weighs: the first model's weights are known; what fits is not asked else.
    """
    words = ["attnscope", "plan", _word(first.name)]
    if asked.context != default_context(first):
        words += ["--context", str(asked.context)]
    if asked.batch != 1:
        words += ["--batch", str(asked.batch)]
    given = (
        ("--dtype", asked.dtype), ("--kv-dtype", asked.kv_dtype),
        ("--fit", question.room if weighs else None),
        ("--weights", question.weights if asked.weights is not None else None),
        ("--device", asked.device and asked.device.name),
        ("--heads", ",".join(map(str, asked.groups)) if asked.groups != Asked.groups else None),
        ("--window", asked.window and str(asked.window)),
        ("--share", asked.share and "{}/{}".format(*asked.share)),
        ("--versus", second and second.name),
    )  # fmt: skip
    for option, value in given:
        if value and value.strip():
            words += [option, _word(value.strip())]
    if question.assume_full:
        words.append("--assume-full")
    return " ".join(words)


def _word(text: str) -> str:
    """A word as a shell takes it; one that begins with a dash is no option.

    >>> _word("llama-3-8b"), _word("it's mine.json"), _word("-x.json")
    ('llama-3-8b', "'it'\\''s mine.json'", './-x.json')
    """
    text = f"./{text}" if text.startswith("-") else text
    plain = text and all(letter in PLAIN for letter in text)
    return text if plain else "'" + text.replace("'", "'\\''") + "'"
