"""Blocks that ask: predictions before the answer is shown, and exercises whose answer is checked.

The idea: the answer of an exercise is named (`answer=fig:softmax.8_7_9/2`), never typed; the page
carries its number and how near is near enough.

Not here: checking on the page (serve/static/js/widgets/asking.js).
"""

from __future__ import annotations

import re
from html import escape
from typing import Final

from attnscope.lessons.site import values
from attnscope.lessons.site.blocks import block, options, text_of, titled, word
from attnscope.lessons.site.page import Page
from attnscope.lessons.site.source import Block, Place, Text

CHOICE: Final = re.compile(r"- \[(?P<right>[ x])\] (?P<text>.+)$")


def _split(text: Text, block: Block) -> tuple[Text, Text]:
    """What stands before and after the line `---`."""
    lines = text.source.split("\n")
    if lines.count("---") != 1:
        raise block.place.error(f"{block.name}: expected one line --- between its two parts.")
    at = lines.index("---")
    return (
        Text(text.place, "\n".join(lines[:at])),
        Text(text.place.below(at + 1), "\n".join(lines[at + 1 :])),
    )


def _choices(asked: Text, block: Block) -> tuple[Text, list[tuple[bool, str, Place]]]:
    question, choices = [], []
    for at, line in enumerate(asked.source.split("\n")):
        found = CHOICE.match(line)
        if found:
            choices.append((found["right"] == "x", found["text"], asked.place.below(at)))
        elif choices and line.strip():
            raise asked.place.below(at).error("predict: expected the choices last, one a line.")
        else:
            question.append(line)
    if len(choices) < 2 or sum(right for right, _, _ in choices) != 1:
        raise block.place.error("predict: expected two or more choices, one of them marked [x].")
    return Text(asked.place, "\n".join(question)), choices


@block("predict")
def predict(block: Block, page: Page) -> str:
    """A question with choices; what happens is shown once one of them is settled on."""
    options(block)
    id = page.id(f"predict-{word(block, 'an id')}", block.place)
    asked, told = _split(text_of(block, "a question, choices, --- and what happens"), block)
    question, choices = _choices(asked, block)
    items = "".join(
        f'<label><input type="radio" name="{id}" value="{at}"'
        f"{' data-right' if right else ''}> <span>{page.title(text, place)}</span></label>"
        for at, (right, text, place) in enumerate(choices)
    )
    return (
        f'<section class="predict" id="{id}"><h3>{page.say("predict")}</h3>'
        f'<div class="prose">{page.render(question)}</div>'
        f'<div class="choices-list" role="radiogroup" aria-labelledby="{id}">{items}</div>'
        f'<button type="button" class="settle" disabled>{page.say("predict.check")}</button>'
        f'<div class="reveal" hidden tabindex="-1"><h4>{page.say("predict.reveal")}</h4>'
        f'<div class="prose">{page.render(told)}</div></div></section>'
    )


@block("exercise")
def exercise(block: Block, page: Page) -> str:
    """A number to find; `answer` names it, `within` is how near, `scale` multiplies it first."""
    options(block, "unit", "scale", needed=("answer", "within"))
    id = page.id(f"exercise-{word(block, 'an id')}", block.place)
    asked, told = _split(text_of(block, "a question, --- and the way to the answer"), block)
    try:
        answer = values.number(block.options["answer"]) * float(block.options.get("scale", "1"))
        within = float(block.options["within"])
    except ValueError as error:
        raise block.place.error(f"exercise: {error}") from None
    unit = block.options.get("unit", "")
    shown = f'<span class="unit">{escape(unit)}</span>' if unit else ""
    return (
        f'<section class="exercise" id="{id}" data-answer="{answer!r}" data-within="{within!r}">'
        f"<h3>{page.say('exercise')}: {titled(block, page)}</h3>"
        f'<div class="prose">{page.render(asked)}</div>'
        f'<form><label>{page.say("exercise.answer")} <input type="text" inputmode="decimal" '
        f'autocomplete="off"> {shown}</label> '
        f'<button type="submit">{page.say("exercise.check")}</button> '
        f'<output class="verdict" aria-live="polite"></output></form>'
        f"<details><summary>{page.say('exercise.solution')}</summary>"
        f'<div class="prose">{page.render(told)}</div></details></section>'
    )
