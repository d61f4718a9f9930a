"""The files of the page: listed once when the server starts, so that a request only picks a name.

Not here: what is in them (static/).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).with_name("static")
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


class Files:
    """The files below a folder that have a known type, by their path within it.

    >>> files = Files(STATIC)
    >>> files.read("js/types.js")[1]
    'text/javascript; charset=utf-8'
    >>> files.read("../app.py") is None
    True
    """

    def __init__(self, folder: Path) -> None:
        self._places = {
            place.relative_to(folder).as_posix(): place
            for place in sorted(folder.rglob("*"))
            if place.suffix in TYPES and place.is_file() and not place.is_symlink()
        }

    def names(self) -> list[str]:
        """All paths."""
        return list(self._places)

    def read(self, name: str) -> tuple[bytes, str] | None:
        """The bytes and the type of a file; None for a name that was not listed."""
        place = self._places.get(name)
        return None if place is None else (place.read_bytes(), TYPES[place.suffix])
