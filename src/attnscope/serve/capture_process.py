"""The process that runs one capture for the server; see captures.py for what it hears and says.

The idea: stdout is for events alone, so whatever libraries print is sent to stderr; the end of
stdin means that the server has gone, and then this process stops too, leaving nothing half-written.

What it tells of its work
    progress what: "loading" | "reading" (layers) | "generating" (tokens) | "saving"

Not here: capturing (attnscope.capture).
"""

from __future__ import annotations

import _thread
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from attnscope.errors import AttnscopeError

SECONDS_TO_STOP: Final = 5.0
"""After this a process whose server has gone ends, whatever it is doing."""

Tell = Callable[[dict[str, Any]], None]


def main() -> int:
    """Read what to capture from stdin, capture it, tell of it on stdout."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)

    def tell(event: dict[str, Any]) -> None:
        out.write(json.dumps(event) + "\n")
        out.flush()

    asked = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_watch, daemon=True).start()
    try:
        run(tell, **asked)
    except (AttnscopeError, ValueError) as error:
        tell({"kind": "failed", "message": str(error)})
    except MemoryError:
        tell({"kind": "failed", "message": "There is not enough memory for this text."})
    except ModuleNotFoundError as error:
        said = f"Capturing needs the package {error.name}: pip install 'attnscope[look]'."
        tell({"kind": "failed", "message": said})
    except KeyboardInterrupt:
        return 130
    return 0


def _watch() -> None:
    """Stop when the server has gone."""
    while os.read(0, 4096):  # unbuffered: a lock held here would be in the way of a normal end
        pass
    _thread.interrupt_main()
    threading.Event().wait(SECONDS_TO_STOP)
    os._exit(130)


def run(tell: Tell, *, text: str, model: str, generate: int, path: str) -> None:
    """Capture one text and save it.

    Args:
        tell: hears every event.
        path: the new folder.

    Raises:
        AttnscopeError, ValueError: as `attnscope.capture`.
    """
    tell({"kind": "progress", "done": 0, "total": 0, "what": "loading"})
    from attnscope.capture.models import load
    from attnscope.capture.session import capture

    loaded = load(model)
    tell({"kind": "progress", "done": 0, "total": 0, "what": "reading"})
    name = Path(model).name if os.path.isabs(model) else model
    capture(
        loaded.model, text, tokenizer=loaded.tokenizer, name=name, save=path, generate=generate,
        progress=_Telling(tell, loaded.tokenizer, saving=generate > 0),
    )  # fmt: skip
    tell({"kind": "saved"})


class _Telling:
    """Turns the progress of a capture into events.

    Args:
        saving: whether layers are only told of when they are written, after a generation.
    """

    def __init__(self, tell: Tell, tokenizer: Any, *, saving: bool) -> None:
        self._tell, self._tokenizer, self._saving = tell, tokenizer, saving
        self._ids: list[int] = []
        self._told = ""

    def layer(self, done: int, total: int) -> None:
        """One more layer."""
        what = "saving" if self._saving else "reading"
        self._tell({"kind": "progress", "done": done, "total": total, "what": what})

    def token(self, done: int, total: int, token: int) -> None:
        """One more token; its text is what has become certain with it, "" inside a character."""
        self._ids.append(token)
        whole = self._tokenizer.decode(self._ids).rstrip("\ufffd")
        new = whole.removeprefix(self._told) if whole.startswith(self._told) else ""
        self._told += new
        self._tell({"kind": "token", "index": done - 1, "text": new})
        self._tell({"kind": "progress", "done": done, "total": total, "what": "generating"})


if __name__ == "__main__":
    sys.exit(main())
