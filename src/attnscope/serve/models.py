"""Which models a page may capture with: those with a short name, and those the user named.

The idea: the page picks a name from this list, and no other name reaches a loader; so a request can
neither read a folder nor start a download.

Not here: where models lie and how they are loaded (attnscope.capture.models).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def models(named: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The list as a page is given it (types.js: DataSource.models).

    Args:
        named: further names, folders or hub ids, from whoever started the server.

    Cost: a look at the disk; neither torch nor transformers is imported.
    """
    from attnscope.capture.models import listing

    known = [
        {"name": one["name"], "installed": bool(one["here"]), "licence": str(one["licence"])}
        for one in listing()
    ]
    names = {one["name"] for one in known}
    return known + [
        {"name": name, "installed": True, "licence": ""}
        for name in dict.fromkeys(named)
        if name not in names
    ]
