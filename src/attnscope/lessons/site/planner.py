"""The planner's page: what it carries, and where its answers come from.

The idea: the page carries the answer to its first question, so it is whole when it opens. Further
questions go to the course's server where there is one; a page from disk runs the planner itself
(browser_python.py).

Not here: the answers (attnscope.plan.page), what the page does (serve/static/js/planner).
"""

from __future__ import annotations

import json
from functools import cache
from html import escape
from typing import Any, Final

from attnscope.lessons.site.browser_python import SCRIPT
from attnscope.lessons.site.page import Frame, html
from attnscope.lessons.site.words import say
from attnscope.plan.devices import DEVICES
from attnscope.plan.find import built_in_names
from attnscope.plan.numbers import FORMATS, MODEL_FORMATS
from attnscope.plan.page import ask

COMMAND: Final = "attnscope plan"
ADDRESS: Final = "api/plan"
"""Where a server takes questions, from the top of the site."""
FIRST: Final[dict[str, Any]] = {
    "model": {"name": "qwen3.8-27b"},
    "versus": None,
    "context": 32768,
    "batch": 1,
    "dtype": None,
    "kv_dtype": None,
    "heads": "8",
    "room": "h100",
    "weights": "auto",
    "device": "",
    "window": None,
    "share": "",
    "assume_full": False,
}
"""The question that the page opens with: js/planner/view.js has it too."""


@cache
def first_answer() -> dict[str, Any]:
    """The answer to the first question."""
    found: dict[str, Any] = json.loads(ask(json.dumps(FIRST)))
    return found


def planner_page(language: str, frame: Frame, *, served: bool) -> str:
    """The page in one language.

    Args:
        frame: its surroundings.
        served: whether a server answers questions.
    """

    def word(key: str) -> str:
        return escape(say(language, key, command="{command}"))

    about = word("planner.about").replace("{command}", f"<code>{COMMAND}</code>")

    content = (
        '<main id="content" class="planner-page" tabindex="-1">'
        f'<h1>{word("planner")}</h1><p class="summary">{about}</p>'
        '<div class="planner"></div></main>'
    )
    data: dict[str, Any] = {
        "language": language,
        "page": "planner",
        "widgets": [],
        "known": {
            "builtIn": built_in_names(),
            "devices": list(DEVICES),
            "formats": list(FORMATS),
            "dtypes": list(MODEL_FORMATS),
        },
        "first": {"question": FIRST, "answer": first_answer()},
        **({"api": f"../{ADDRESS}"} if served else {"script": f"../assets/{SCRIPT}"}),
    }
    return html(frame, content, data, script="planner")
