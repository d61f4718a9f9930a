"""The bytes of trace.json: strict JSON in, signed JSON out, with bounded memory either way.

The idea: the file carries the SHA-256 of itself, taken with the digest's own 64 digits set to
zero. Any program can compute that on the raw bytes, and a flipped bit anywhere in the header
(a scale, a window, a token) is an error and not another answer. It protects from damage, not from
malice, so whatever passes is still checked field by field in header.py.

Not here: what the fields mean.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final

from attnscope.errors import TraceError
from attnscope.trace.format import FORMAT, HEADER, MAX_HEADER, MAX_MARKS, VERSION

_ZEROS: Final = b"0" * 64
_DIGEST: Final = re.compile(rb'"sha256": ?"([0-9a-f]{64})"')


def encode(value: dict[str, Any]) -> bytes:
    """The signed bytes of a header.

    Args:
        value: the fields, without `format`, `version` and `sha256`.

    Raises:
        TraceError: more than MAX_HEADER bytes.
    """
    marks = {"format": FORMAT, "version": VERSION, "sha256": _ZEROS.decode()}
    text = json.dumps({**marks, **value}, ensure_ascii=False, allow_nan=False, indent=None)
    data = text.encode("utf-8")
    _check_size(data)
    return data.replace(_ZEROS, digest(data), 1)


def digest(data: bytes) -> bytes:
    """SHA-256 of the bytes with the first digest field's digits set to zero, as hex digits."""
    found = _DIGEST.search(data)
    if found:
        data = data[: found.start(1)] + _ZEROS + data[found.end(1) :]
    return hashlib.sha256(data).hexdigest().encode()


def decode(data: bytes) -> dict[str, Any]:
    """Parse and verify the bytes of trace.json.

    Raises:
        TraceError: not JSON, not of this format, of a newer version, damaged, or too large.

    Cost: at most MAX_MARKS values are ever made, whatever the bytes say.
    """
    _check_size(data)
    value = parse_json(data, HEADER)
    if value.get("format") != FORMAT:
        raise TraceError(f'{HEADER}: not an attnscope trace (no "format": "{FORMAT}").')
    version = value.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise TraceError(f"{HEADER}: version: expected a whole number from 1, got another value.")
    if version > VERSION:
        raise TraceError(
            f"{HEADER}: the trace has format version {min(version, 10**9)}, and this attnscope "
            f"reads up to {VERSION}; update attnscope to open it."
        )
    found = _DIGEST.search(data)
    if (
        not found
        or found.group(1) != digest(data)
        or value.get("sha256") != found.group(1).decode()
    ):
        raise TraceError(f"{HEADER}: its checksum does not fit its content; the file is damaged.")
    return value


def parse_json(data: bytes, where: str) -> dict[str, Any]:
    """Strict JSON: one object, UTF-8, no name twice, no NaN, no endless nesting.

    Raises:
        TraceError: anything else.
    """
    try:
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_constant
        )
    except RecursionError:
        raise TraceError(f"{where}: nested too deeply.") from None
    except ValueError as error:
        said = (
            str(error)[:80]
            if isinstance(error, json.JSONDecodeError | _StrictError)
            else "not UTF-8"
        )
        raise TraceError(f"{where}: not valid JSON ({said}).") from None
    if not isinstance(value, dict):
        raise TraceError(f"{where}: expected a JSON object.")
    return value


class _StrictError(ValueError):
    """JSON that Python would take and the format does not."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _StrictError("a name stands twice in one object")
    return value


def _no_constant(name: str) -> Any:
    raise _StrictError(f"{name} is not a JSON number")


def _check_size(data: bytes) -> None:
    if len(data) > MAX_HEADER:
        raise TraceError(
            f"{HEADER}: larger than {MAX_HEADER >> 20} MiB, the most a trace may have."
        )
    marks = sum(data.count(mark) for mark in (b",", b"[", b"{"))
    if marks > MAX_MARKS:
        raise TraceError(
            f"{HEADER}: holds more than {MAX_MARKS} values, the most a trace may have."
        )
