"""A hub id: taken from the cache, fetched, or a sentence within seconds; and no call unasked."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from attnscope.cli import plan_fetch
from attnscope.cli.main import run
from attnscope.errors import ConfigError
from attnscope.plan.find import is_hub_id

CONFIG = json.dumps(
    {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
).encode()
CODE = "from attnscope.cli.main import main; main()"
SOON = 10.0
"""Seconds for a whole process on a loaded machine; the client alone waits for 25."""


class Hub(BaseHTTPRequestHandler):
    """A hub with one answer for every request, and a list of what it was asked."""

    code: ClassVar[int] = 200
    extra: ClassVar[dict[str, str]] = {}
    asked: ClassVar[list[str]] = []

    def answer(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        self.send_response(self.code)
        body = CONFIG if self.code == 200 else b""
        headers = {
            "Content-Length": str(len(body)), "ETag": '"abc"', "X-Repo-Commit": "1" * 40,
            **self.extra,
        }  # fmt: skip
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET = answer  # noqa: N815 (the names http.server calls)

    def log_message(self, *_: Any) -> None:
        """Nothing on the tests' stderr."""


@contextmanager
def hub(code: int = 200, **extra: str) -> Iterator[tuple[str, list[str]]]:
    """A hub on a port of its own, and what it is asked."""
    headers = {name.replace("_", "-"): value for name, value in extra.items()}
    kind = type("One", (Hub,), {"code": code, "extra": headers, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", kind.asked  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def silent() -> Iterator[str]:
    """A port that takes connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def refusing() -> str:
    """A port that nobody listens on."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def plan(
    endpoint: str, folder: Path, *arguments: str, **more: str
) -> tuple[subprocess.CompletedProcess[str], float]:
    """The command in a process of its own, since the client reads its settings once."""
    env = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(folder), **more}
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN"):
        env.pop(name, None)
    if "HF_HUB_OFFLINE" not in more:
        env.pop("HF_HUB_OFFLINE", None)
        env.pop("TRANSFORMERS_OFFLINE", None)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", CODE, "plan", *arguments], capture_output=True, text=True,
        timeout=60, env={**env, "NO_PROXY": "127.0.0.1"},
    )  # fmt: skip
    return done, time.monotonic() - began


def test_a_config_is_fetched_once_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    with hub() as (endpoint, asked):
        done, _ = plan(endpoint, tmp_path, "some/model", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["model"]["name"] == "some/model"
        assert len(json.loads(done.stdout)["layers"]) == 3
        # Of the model; the client asks the hub about itself too.
        of_model = {one.split()[1] for one in asked if "some/model" in one}
        assert of_model == {"/some/model/resolve/main/config.json"}
        assert asked[0].startswith("HEAD")
        seen = len(asked)
        again, _ = plan(endpoint, tmp_path, "some/model", "--json")
        assert again.stdout == done.stdout
        assert len(asked) == seen  # the second time from the cache


@pytest.mark.parametrize("where", ["refusing", "silent"])
def test_a_hub_that_is_not_there_is_a_sentence_within_seconds(tmp_path: Path, where: str) -> None:
    if where == "refusing":
        done, took = plan(refusing(), tmp_path, "some/model")
        assert "cannot be reached (Connection refused)" in done.stderr
    else:
        with silent() as endpoint:
            done, took = plan(endpoint, tmp_path, "some/model")
        assert "did not answer within 4 seconds" in done.stderr or "timed out" in done.stderr
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Error: There is no file 'some/model'")
    assert "Traceback" not in done.stderr
    assert "Retrying" not in done.stderr
    assert took < SOON


@pytest.mark.parametrize(
    ("code", "extra", "words"),
    [
        (503, {}, "answers 503"),
        (429, {}, "answers 429"),
        (404, {"X_Error_Code": "EntryNotFound"}, "has no config.json"),
        (404, {"X_Error_Code": "RepoNotFound"}, "no model some/model"),
        (401, {"X_Error_Code": "GatedRepo"}, "accepted its terms"),
    ],
)
def test_what_the_hub_answers_is_said(
    tmp_path: Path, code: int, extra: dict[str, str], words: str
) -> None:
    pytest.importorskip("huggingface_hub")
    with hub(code, **extra) as (endpoint, _):
        done, took = plan(endpoint, tmp_path, "some/model")
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert took < SOON


def test_the_question_carries_no_token_and_follows_no_pointer() -> None:
    with hub(302, Location="http://example.invalid/elsewhere") as (endpoint, asked):
        assert plan_fetch._trouble("some/model", endpoint) is None
        assert asked == ["HEAD /some/model/resolve/main/config.json"]


def test_offline_means_no_question(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    with hub() as (endpoint, asked):
        done, _ = plan(endpoint, tmp_path, "some/model", HF_HUB_OFFLINE="1")
    assert done.returncode == 1
    assert "Error: There is no file 'some/model'" in done.stderr
    assert asked == []


@pytest.mark.parametrize(
    "endpoint", ["not an address", "http://", "ftp://127.0.0.1:1", "http://[::"]
)
def test_an_endpoint_that_is_none_is_a_sentence(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="cannot be reached") as caught:
        plan_fetch._ask("some/model", endpoint)
    assert str(caught.value).endswith("give the path of a file.")


IDS = ["a/b", "Org-1/Name_2.5-it", "x" * 96 + "/" + "y" * 96]
NO_IDS = [
    "a", "a/b/c", "-a/b", "a/-b", "a./b", "a/b.", "a--b/c", "a/b..c", "a b/c", "\u00fcn/x", "a/",
    "/b", "x" * 97 + "/y", "a/b.git", "a/b.json", "https://x.y/a", "../b", "a/b\n",
]  # fmt: skip


def test_ids_are_what_the_hubs_client_takes_for_ids() -> None:
    check = pytest.importorskip("huggingface_hub.utils").validate_repo_id
    refused = pytest.importorskip("huggingface_hub.errors").HFValidationError
    for one in IDS:
        assert is_hub_id(one)
        check(one)
    for one in NO_IDS:
        assert not is_hub_id(one)
        if "/" in one and not one.endswith(".json"):
            with pytest.raises(refused):
                check(one)


@pytest.mark.parametrize("name", [one for one in NO_IDS if not one.startswith("-")])
def test_what_cannot_be_an_id_asks_nobody(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def called(*_: Any, **__: Any) -> None:
        raise AssertionError("a call out")

    monkeypatch.setattr(socket, "getaddrinfo", called)
    monkeypatch.setattr(plan_fetch, "fetch", called)
    assert run(["plan", name]) == 1
    assert "There is no file" in capsys.readouterr().err


def test_a_model_that_is_here_asks_nobody(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def called(*_: Any, **__: Any) -> None:
        raise AssertionError("a call out")

    monkeypatch.setattr(socket, "getaddrinfo", called)
    monkeypatch.setattr(plan_fetch, "fetch", called)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--some--model" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_bytes(CONFIG)
    for name in ("llama-3-8b", "some/model", str(snapshot)):
        assert run(["plan", name]) == 0
    assert capsys.readouterr().err == ""


def test_a_name_that_resolves_for_ever_keeps_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can end that thread, so the process must not wait for it."""
    done = threading.Event()
    monkeypatch.setattr(plan_fetch, "_trouble", lambda *_: done.wait())
    monkeypatch.setattr(plan_fetch, "SECONDS", 0.05)
    before = set(threading.enumerate())
    try:
        with pytest.raises(ConfigError, match="did not answer within 0 seconds"):
            plan_fetch._ask("some/model", "https://example.invalid")
        (asking,) = set(threading.enumerate()) - before
        assert asking.daemon
    finally:
        done.set()
