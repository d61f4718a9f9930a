"""Fetch the config of a hub id, and nothing else of it; know within seconds when that cannot be.

The idea: the hub's own client does the fetching (it has the user's token, and keeps the file where
`read` finds it), but before a hub that does not answer it waits and tries again for half a minute.
So one question without a token is asked first, with a deadline: whether anything answers there.

Not here: where a fetched config lies (attnscope.plan.find), how the client is called
(attnscope.capture.hub).
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

from attnscope.errors import AttnscopeError, ConfigError

HUB: Final = "https://huggingface.co"
SECONDS: Final = 4.0
"""How long the hub may take to answer: names, connection and answer together."""
BUSY: Final = frozenset((429, *range(500, 600)))
"""Answers after which the client would wait and ask again, five times."""


def fetch(hub_id: str) -> Path:
    """Fetch a model's config.json into the hub client's cache.

    Returns:
        Where it lies.

    Raises:
        ConfigError: no client, no answer in time, no such model, or a model without a config.
    """
    if not _offline():
        _ask(hub_id, os.environ.get("HF_ENDPOINT") or HUB)
    try:
        from attnscope.capture.hub import fetch_config

        return fetch_config(hub_id)
    except ModuleNotFoundError:
        raise ConfigError(
            f"There is no file {hub_id!r}, and fetching a config from the hub needs the package "
            "huggingface_hub: pip install 'attnscope[look]'."
        ) from None
    except AttnscopeError as error:
        raise ConfigError(
            f"There is no file {hub_id!r}, and its config is not to be had from the hub: {error}"
        ) from None


def _offline() -> bool:
    """Whether the user told the hub's client to stay off the network; then it says so itself."""
    said = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return said.upper() in ("1", "ON", "YES", "TRUE")


def _ask(hub_id: str, endpoint: str) -> None:
    """Raise where the hub does not answer, or says that there is no config."""
    found: list[str | None] = []
    # A name that resolves slowly knows no timeout, so the question is asked in a thread that the
    # end of the process does not wait for.
    asking = threading.Thread(target=lambda: found.append(_trouble(hub_id, endpoint)), daemon=True)
    asking.start()
    asking.join(SECONDS)
    trouble = found[0] if found else f"{endpoint} did not answer within {SECONDS:.0f} seconds"
    if trouble is not None:
        raise ConfigError(
            f"There is no file {hub_id!r}, and its config is not to be had from the hub: {trouble}."
        )


def _trouble(hub_id: str, endpoint: str) -> str | None:
    """What the hub's answer says is wrong; None where its client may go on."""
    import ssl
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Stay(HTTPRedirectHandler):
        """An answer that points elsewhere is an answer."""

        def redirect_request(self, *_: object) -> None:
            return None

    url = f"{endpoint.rstrip('/')}/{hub_id}/resolve/main/config.json"
    try:
        build_opener(Stay).open(Request(url, method="HEAD"), timeout=SECONDS).close()
    except HTTPError as answer:
        answer.close()
        if answer.code in BUSY:
            return f"{endpoint} answers {answer.code} {answer.reason}; try again later"
        if answer.headers.get("X-Error-Code") == "EntryNotFound":
            return f"{hub_id} has no config.json; of GGUF files, fetch one and give its path"
    except URLError as error:
        # Whose certificate is not known here may be known to the client, which brings its own.
        if not isinstance(error.reason, ssl.SSLError):
            return f"{endpoint} cannot be reached ({_plain(error.reason)}); give the path of a file"
    except (OSError, HTTPException, ValueError) as error:
        return f"{endpoint} cannot be reached ({_plain(error)}); give the path of a file"
    return None


def _plain(error: object) -> str:
    """An error of the network in its own words, without its number."""
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(words).rstrip(".")
