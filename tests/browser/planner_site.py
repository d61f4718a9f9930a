"""The planner's page alone, as an export has it: the rest of the course takes its time to make.

Not here: the tests (test_planner_page.py).
"""

from __future__ import annotations

import importlib
from pathlib import Path

from attnscope.lessons.site import load

build = importlib.import_module("attnscope.lessons.site.build")


def written(folder: Path) -> Path:
    """The page in both languages below a folder, with its assets."""
    files = {f"assets/{name}": text for name, text in build.assets().items()}
    files[f"assets/{build.SCRIPT}"] = build.planner_script()
    course = load()
    for language in ("en", "zh"):
        frame = build._planner_frame(course, language)
        files[f"{language}/planner.html"] = build.planner_page(language, frame, served=False)
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder
