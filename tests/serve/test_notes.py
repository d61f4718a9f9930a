"""Notes in files: what cannot be read, written or replaced is said, and nothing is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from attnscope.cli.main import run
from attnscope.serve import notes
from attnscope.serve.app import explain
from attnscope.serve.notes import ChangedNoteError, NotesError, NotTextError


def test_a_note_is_empty_until_it_is_written(tmp_path: Path) -> None:
    place = tmp_path / "new" / "a.md"
    empty = notes.read(place)
    assert empty.text == b""
    one = notes.write(place, "为什么？".encode(), known=empty.mark)
    assert notes.read(place) == one
    assert one.mark != empty.mark
    assert [found.name for found in place.parent.iterdir()] == ["a.md"]


def test_what_has_changed_elsewhere_is_not_replaced(tmp_path: Path) -> None:
    place = tmp_path / "a.md"
    read = notes.write(place, b"one")
    place.write_text("edited elsewhere")
    with pytest.raises(ChangedNoteError, match="has changed since this page read it"):
        notes.write(place, b"two", known=read.mark)
    assert place.read_text() == "edited elsewhere"
    assert notes.write(place, b"two", known=notes.read(place).mark).text == b"two"


def test_what_is_no_text_is_left_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "a.md"
    place.write_bytes(b"\xff\xfe\x00")
    for act in (lambda: notes.read(place), lambda: notes.write(place, b"x")):
        with pytest.raises(NotTextError, match=r"a\.md is no text in UTF-8 and is left as it is"):
            act()
    assert place.read_bytes() == b"\xff\xfe\x00"
    folder = tmp_path / "b.md"
    folder.mkdir()
    with pytest.raises(NotTextError):
        notes.write(folder, b"x")
    with pytest.raises(NotTextError, match="A note is text"):
        notes.write(tmp_path / "c.md", b"\xff")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.md", "b.md"]


def test_a_folder_that_cannot_be_had_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends before it draws a page."""
    file = tmp_path / "file"
    file.write_text("x")
    for folder in (file, file / "below"):
        assert run(["lessons", "--no-open", "--notes", str(folder)]) == 1
        said = capsys.readouterr().err
        assert f"Notes cannot be kept in {folder}: a file stands where a folder" in said
        assert "--notes" in said
        assert "Computing" not in said
    assert file.read_text() == "x"


def fails(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_a_folder_that_may_not_be_written_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(Path, "write_bytes", fails)
        with pytest.raises(NotesError, match=r"cannot be kept in .*: permission denied"):
            notes.prepare(tmp_path)
    notes.prepare(tmp_path)
    assert list(tmp_path.iterdir()) == []
    place = tmp_path / "a.md"
    place.write_bytes(b"old")
    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(NotesError, match=r"a\.md cannot be written: permission denied"):
        notes.write(place, b"new")
    assert place.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["a.md"]


def test_each_refusal_has_a_status_that_the_page_knows() -> None:
    texts = Path(notes.__file__).parent / "static/js/widgets/notes.js"
    for error, status in ((ChangedNoteError("a"), 412), (NotTextError("b"), 415),
                          (NotesError("c"), 409)):  # fmt: skip
        assert explain(error) == (status, str(error))
        assert f"{status}: " in texts.read_text("utf-8")
