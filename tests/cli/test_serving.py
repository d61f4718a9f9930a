"""What `attnscope serve` and `attnscope lessons` share: the port, the address, the texts."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest
import typer

from attnscope.cli.serving import announce, check_port, open_texts
from attnscope.errors import TraceError
from attnscope.serve.store import Store


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_is_none_is_named(port: int) -> None:
    with pytest.raises(typer.BadParameter, match=f"expected 0 to 65535, got {port}"):
        check_port(port)
    check_port(0)
    check_port(65535)


@pytest.mark.parametrize(
    ("browse", "display", "opened"), [(True, ":0", True), (False, ":0", False), (True, "", False)]
)
def test_the_address_is_printed_and_opened_where_there_is_a_screen(
    browse: bool,
    display: str,
    opened: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", asked.append)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    announce(browse=browse)("http://127.0.0.1:1/secret/")
    assert asked == ["http://127.0.0.1:1/secret/"] * opened
    said = capsys.readouterr()
    assert said.out == "http://127.0.0.1:1/secret/\n"
    assert said.err == "Ctrl-C ends it.\n"


def test_a_named_trace_must_be_one_and_a_saved_one_is_left_out_with_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "header.json").write_text("{", encoding="utf-8")
    store = Store()
    with pytest.raises(TraceError):
        open_texts(store, [broken], tmp_path)
    open_texts(store, [], tmp_path)
    assert store.entries() == []
    assert "Left out: " in capsys.readouterr().err
