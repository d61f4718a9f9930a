"""`attnscope lessons`: the course behind the local gate, notes in files, and its refusals."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnscope.cli.main import run

PAGE = "zh/03-softmax.html"


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notes") / "mine"


@pytest.fixture(scope="module")
def address(notes: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "attnscope", "lessons", "--no-open", "--notes", str(notes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = process.stdout.readline().strip()
        assert found.startswith("http://127.0.0.1:"), "the server did not start"
        yield found
        process.terminate()
        assert process.wait(30) == 0


def ask(url: str, *, method: str = "GET", body: bytes | None = None) -> tuple[int, bytes, str]:
    """Status, body and policy of an answer."""
    request = urllib.request.Request(url, data=body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read(), answer.headers["content-security-policy"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers.get("content-security-policy", "")


def test_pages_come_with_a_policy_and_say_where_notes_go(address: str) -> None:
    status, body, policy = ask(address + PAGE)
    assert status == 200
    assert b'"notes":"../notes/zh/03-softmax"' in body
    assert "这台机器上的一个 Markdown 文件".encode() in body
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert ask(address)[0] == 200
    assert ask(address + "zh/")[:2] == ask(address + "zh/index.html")[:2]
    assert ask(address + "zh/")[0] == 200
    assert ask(address + "assets/course.js")[0] == 200


@pytest.mark.parametrize(
    "path",
    ["none.html", "../README.md", "zh/%2e%2e/%2e%2e/x", "notes/zh/none", "notes/fr/03-softmax"],
)
def test_what_is_not_there_is_refused(address: str, path: str) -> None:
    assert ask(address + path)[0] == 404


def test_without_the_secret_nothing_is_told(address: str) -> None:
    other = address.rsplit("/", 2)[0] + "/" + "0" * 32 + "/"
    assert ask(other + PAGE)[0] == 404


def test_notes_are_kept_in_a_file_of_the_lessons_own(address: str, notes: Path) -> None:
    url = address + "notes/zh/03-softmax"
    assert ask(url)[:2] == (200, b"")
    text = "为什么是 e？\n".encode()
    assert ask(url, method="PUT", body=text)[0] == 204
    assert (notes / "03-softmax.zh.md").read_bytes() == text
    assert ask(url)[:2] == (200, text)
    assert ask(address + "notes/zh/..%2fx", method="PUT", body=text)[0] in (404, 405)
    assert [one.name for one in notes.iterdir()] == ["03-softmax.zh.md"]
    with contextlib.suppress(OSError):  # refused, and the connection closed, while it still sends
        assert ask(url, method="PUT", body=b"x" * (1 << 21))[0] == 413
    assert (notes / "03-softmax.zh.md").read_bytes() == text


def test_wrong_usage_is_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["lessons", "--port", "70000"]) == 2
    assert "--port: expected 0 to 65535, got 70000" in capsys.readouterr().err
    assert run(["lessons", "--export", str(tmp_path), "--notes", "x"]) == 2
    assert "--notes: an exported page keeps notes in the browser" in capsys.readouterr().err
    (tmp_path / "mine.txt").write_text("x")
    assert run(["lessons", "--export", str(tmp_path)]) == 1
    assert "holds other files: mine.txt. Give a new folder" in capsys.readouterr().err


def test_the_planner_answers_questions_and_refuses_the_rest(address: str) -> None:
    from attnscope.plan.page import ask as planned

    url = address + "api/plan"
    question = b'{"model": {"name": "smollm2"}, "room": "h100"}'
    status, body, policy = post(url, question)
    assert status == 200
    assert body.decode() == planned(question.decode())
    assert "default-src 'none'" in policy
    status, body, _ = post(url, b'{"model": {"name": "nothing"}}')
    assert (status, b"There is no built-in model" in body) == (200, True)
    assert post(url, b"{")[0] == 200
    assert post(url, b"\xff")[0] == 400
    assert post(url, question, kind="text/plain")[0] == 400
    assert ask(url)[0] in (404, 405)
    with contextlib.suppress(OSError):  # refused, and the connection closed, while it still sends
        assert post(url, b" " * (1 << 21))[0] == 413
    other = address.rsplit("/", 2)[0] + "/" + "0" * 32 + "/api/plan"
    assert post(other, question)[0] == 404
    assert post(url, question, origin="https://example.org")[0] == 403
    assert ask(address + "zh/planner.html")[0] == 200
    # A page behind the server needs no Python of its own.
    assert ask(address + "assets/planner-python.js")[0] == 404


def post(
    url: str, body: bytes, *, kind: str = "application/json", origin: str | None = None
) -> tuple[int, bytes, str]:
    headers = {"content-type": kind, **({"origin": origin} if origin else {})}
    request = urllib.request.Request(url, data=body, method="POST", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read(), answer.headers["content-security-policy"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers.get("content-security-policy", "")
