"""The file that `attnscope look --handout` writes, for the course's pages.

The idea: it never takes the place of another file, and where the disk refuses nothing is left.

Not here: what is in it (attnscope.tiles.handout).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.errors import TraceError

if TYPE_CHECKING:
    from attnscope.trace import Trace


def refuse(place: Path) -> None:
    """Say before the model runs what would be in the way.

    Raises:
        TraceError: something stands there, or the folder around it is not there.
    """
    if os.path.lexists(place):
        raise TraceError(f"{place}: stands there already. Name a new file for --handout.")
    if not place.absolute().parent.is_dir():
        raise TraceError(f"{place}: there is no such folder for it. Make it first.")


def write(place: Path, trace: Trace, head: tuple[int, int], query: int) -> None:
    """Write one head and the clearest of each kind, on the tokens up to a query.

    Args:
        place: the new file.
        head: layer and head; the first of the file.
        query: the last token of the part, where the text is longer than it.

    Raises:
        TraceError: the file cannot be written; nothing is left behind.
        ValueError: a layer whose keys belong to another sequence.
    """
    from attnscope.tiles.handouts import MOST_HEADS, MOST_TOKENS, clearest, handout

    heads = [head, *(one for one in clearest(trace) if one != head)][:MOST_HEADS]
    start = max(0, query + 1 - MOST_TOKENS)
    text = json.dumps(handout(trace, heads, start=start), ensure_ascii=False, allow_nan=False)
    try:
        file = place.open("x", encoding="utf-8", errors="replace")
        try:
            with file:
                file.write(text + "\n")
        except OSError:  # the last of it is written when the file is closed
            place.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise TraceError(f"{place}: cannot be written ({error.strerror}).") from None
