"""What axe-core finds wrong with a page, as sentences; only what is serious or critical."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"


def faults(page: Any) -> list[str]:
    """The rules broken on a page, each with the first element that breaks it.

    Raises:
        FileNotFoundError: `npm ci` has not been run.
    """
    if not page.evaluate("typeof window.axe !== 'undefined'"):
        page.evaluate(SCRIPT.read_text("utf-8"))
    found = page.evaluate("window.axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']} ({one['impact']}): {one['nodes'][0]['html'][:200]} "
        f"{one['nodes'][0].get('failureSummary', '')}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
