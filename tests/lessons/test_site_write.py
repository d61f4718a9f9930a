"""An export is whole or not there, and touches nothing that is not its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnscope.cli.main import run
from attnscope.lessons.site import export, write

SITE = {"index.html": b"front", "en/index.html": b"list", "assets/course.js": b"script"}


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the pages were made; small ones, at once."""
    times: list[int] = []

    def build(course: object = None) -> dict[str, bytes]:
        times.append(1)
        return dict(SITE)

    monkeypatch.setattr(write, "build", build)
    return times


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but the marker."""
    return {
        one.relative_to(folder).as_posix(): one.read_bytes()
        for one in folder.rglob("*")
        if one.is_file() and one.name != write.MARKER
    }


def test_an_export_holds_the_site(built: list[int], tmp_path: Path) -> None:
    there = tmp_path / "above" / "course"
    written = export(there)
    assert [one.relative_to(there).as_posix() for one in written] == sorted(SITE)
    assert content(there) == SITE
    assert json.loads((there / write.MARKER).read_text())["files"] == sorted(SITE)
    assert [one.name for one in there.parent.iterdir()] == ["course"]  # nothing is left beside it
    umask_like = tmp_path / "plain"
    umask_like.mkdir()
    assert there.stat().st_mode == umask_like.stat().st_mode


def test_an_earlier_export_is_replaced_as_a_whole(built: list[int], tmp_path: Path) -> None:
    there = tmp_path / "course"
    there.mkdir()  # an empty folder will do
    export(there)
    (there / "index.html").write_text("damaged")
    marker = json.loads((there / write.MARKER).read_text())
    marker["files"].append("en/gone.html")  # a page of an earlier version
    (there / "en" / "gone.html").write_text("gone")
    (there / write.MARKER).write_text(json.dumps(marker))
    export(there)
    assert content(there) == SITE
    assert [one.name for one in tmp_path.iterdir()] == ["course"]


@pytest.mark.parametrize("name", ["index.html", "en/index.html", "letter.txt", "assets/mine/x"])
def test_what_is_not_its_own_is_spared(built: list[int], tmp_path: Path, name: str) -> None:
    """A page by the same name too, and before any page is made."""
    there = tmp_path / "other"
    (there / name).parent.mkdir(parents=True)
    (there / name).write_text("mine")
    first = name.split("/")[0]
    with pytest.raises(ValueError, match=rf"other holds other files: {first}. Give a new folder"):
        export(there)
    assert content(there) == {name: b"mine"}
    assert not built


def test_a_link_to_a_folder_elsewhere_is_spared(built: list[int], tmp_path: Path) -> None:
    there, elsewhere = tmp_path / "course", tmp_path / "elsewhere"
    elsewhere.mkdir()
    export(there)
    (there / "mine").symlink_to(elsewhere)
    with pytest.raises(ValueError, match=r"course holds other files: mine\. Give a new folder"):
        export(there)
    assert (there / "mine").is_symlink()
    assert len(built) == 1


def test_a_file_added_to_an_export_is_spared(built: list[int], tmp_path: Path) -> None:
    there = tmp_path / "course"
    export(there)
    (there / "en" / "notes.md").write_text("mine")
    with pytest.raises(ValueError, match=r"holds other files: en/notes.md"):
        export(there)
    assert (there / "en" / "notes.md").read_text() == "mine"
    assert len(built) == 1


@pytest.mark.parametrize(
    "marker", ["{", "[]", '{"format": "attnscope.course/1", "files": 3}', "{}"]
)
def test_a_marker_that_is_none_makes_no_export(
    built: list[int], tmp_path: Path, marker: str
) -> None:
    (tmp_path / "index.html").write_text("mine")
    (tmp_path / write.MARKER).write_text(marker)
    with pytest.raises(ValueError, match="holds other files"):
        export(tmp_path)
    assert not built


def test_places_that_cannot_be_replaced(
    built: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ValueError, match=r"file is a file. Give a new folder"):
        export(file)
    with pytest.raises(OSError, match="Not a directory") as raised:
        export(file / "course")
    assert raised.value.filename == str(file / "course")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    with pytest.raises(ValueError, match="cannot be replaced as a whole; give a folder in it"):
        export(Path())
    disk = tmp_path / "disk"
    disk.mkdir()
    monkeypatch.setattr("os.path.ismount", lambda place: Path(place) == disk)
    with pytest.raises(ValueError, match="disk cannot be replaced as a whole; give a folder in it"):
        export(disk)
    assert not built


def test_a_failure_leaves_the_folder_as_it_was(
    tmp_path: Path, built: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "course"
    export(there)
    (there / "index.html").write_text("the old one")

    def fails(course: object = None) -> dict[str, bytes]:
        return {"index.html": b"new", "index.html/x": b"no file can lie in a file"}

    monkeypatch.setattr(write, "build", fails)
    with pytest.raises(OSError, match=r"exists|Not a directory"):
        export(there)
    assert content(there) == {**SITE, "index.html": b"the old one"}
    assert [one.name for one in tmp_path.iterdir()] == ["course"]
    with pytest.raises(OSError, match=r"exists|Not a directory"):
        export(tmp_path / "new")
    assert [one.name for one in tmp_path.iterdir()] == ["course"]


def test_a_file_put_there_meanwhile_is_spared(
    tmp_path: Path, built: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "course"

    def put() -> None:
        there.mkdir()
        (there / "index.html").write_text("mine")

    with pytest.raises(ValueError, match=r"holds other files: index.html"):
        export(there, begin=put)
    assert content(there) == {"index.html": b"mine"}


def test_the_command_says_what_it_does(
    built: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "course"
    assert run(["lessons", "--export", str(there)]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"3 files; open {there / 'index.html'}\n"
    assert shown.err.startswith("Computing the course's numbers")
    (there / "letter.txt").write_text("mine")
    assert run(["lessons", "--export", str(there)]) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert "holds other files: letter.txt" in shown.err
