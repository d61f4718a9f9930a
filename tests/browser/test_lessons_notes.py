"""The reader's notes in Chromium: in the browser, and in a file by the server; nothing is lost.

Not here: what the server does with the file (tests/serve/test_notes.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lessons_site import opened
from served_course import served_course

FIELD = ".notes textarea"
SAID = ".notes [role=status]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mine") / "notes"


@pytest.fixture(scope="module")
def course(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the course with notes in files."""
    captures = str(tmp_path_factory.mktemp("captures"))
    with served_course("--notes", str(folder), "--traces", captures) as address:
        yield address


def served(page: Any, course: str, language: str, slug: str) -> Any:
    """The field of a served lesson's notes."""
    page.goto(f"{course}{language}/{slug}.html")
    page.wait_for_selector(".course.live")
    return page.locator(FIELD)


def test_notes_are_kept_and_downloaded(page: Any, site: Path) -> None:
    opened(page, site, "zh", "03-softmax")
    page.locator(FIELD).fill("为什么是 e？")
    with page.expect_download() as waiting:
        page.locator(".notes .download").click()
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    assert waiting.value.suggested_filename == "attnscope-softmax.md"
    assert text.startswith("# 从分数到权重")
    assert "为什么是 e？" in text
    page.reload()
    assert page.locator(FIELD).input_value() == "为什么是 e？"
    opened(page, site, "en", "03-softmax")  # each page has its own
    assert page.locator(FIELD).input_value() == ""


def test_a_note_with_script_in_it_is_text(page: Any, site: Path) -> None:
    note = "</textarea><script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"
    opened(page, site, "en", "03-softmax")
    page.locator(FIELD).fill(note)
    page.locator(FIELD).blur()
    with page.expect_download() as waiting:
        page.locator(".notes .download").click()
    assert note in Path(waiting.value.path()).read_text(encoding="utf-8")
    page.reload()
    page.wait_for_timeout(300)
    assert page.locator(FIELD).input_value() == note
    assert page.evaluate("window.broken") is None
    assert page.locator("img[src='x']").count() == 0


@pytest.mark.parametrize(
    ("language", "said"), [("en", "download the notes before you leave"), ("zh", "请先下载")]
)
def test_a_browser_that_keeps_nothing_says_so(
    page: Any, site: Path, language: str, said: str
) -> None:
    page.add_init_script("Storage.prototype.setItem = () => { throw new Error('full'); };")
    opened(page, site, language, "01-embeddings")
    page.locator(FIELD).fill("a")
    assert said in page.locator(SAID).inner_text()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_notes_are_written_to_a_file_and_read_again(
    page: Any, course: str, folder: Path, language: str
) -> None:
    field = served(page, course, language, "04-masking")
    file = folder / f"04-masking.{language}.md"
    field.fill("## 为什么\n\nwhy 负无穷?")
    page.locator(SAID, has_text=re.compile(r".")).wait_for()
    assert file.read_text("utf-8") == "## 为什么\n\nwhy 负无穷?"
    field.press("End")
    field.press_sequentially(" !", delay=5)
    field.blur()  # at once, without waiting for the pause
    page.wait_for_timeout(200)
    assert file.read_text("utf-8") == "## 为什么\n\nwhy 负无穷? !"
    assert served(page, course, language, "04-masking").input_value() == file.read_text("utf-8")


@pytest.mark.parametrize(
    ("language", "changed", "broken"),
    [("en", "has changed since", "is no text"), ("zh", "又被改过", "不是文本")],
)
def test_a_file_that_was_changed_or_broken_elsewhere_is_left(
    page: Any, course: str, folder: Path, language: str, changed: str, broken: str
) -> None:
    file = folder / f"05-whole.{language}.md"
    field = served(page, course, language, "05-whole")
    field.fill("mine")
    page.locator(SAID, has_text=re.compile(r".")).wait_for()
    file.write_text("edited in another program")
    field.fill("mine, and more")
    page.locator(SAID, has_text=changed).wait_for()
    assert file.read_text() == "edited in another program"
    assert field.input_value() == "mine, and more"
    assert served(page, course, language, "05-whole").input_value() == "edited in another program"
    file.write_bytes(b"\xff\x00")
    field = served(page, course, language, "05-whole")
    page.locator(SAID, has_text=broken).wait_for()
    assert field.input_value() == ""
    assert not field.is_editable()
    assert file.read_bytes() == b"\xff\x00"
    page.expected_errors()  # the answers 412 and 415


@pytest.mark.parametrize(("language", "said"), [("en", "could not be read"), ("zh", "没能读到")])
def test_without_an_answer_nothing_is_typed_over(
    page: Any, course: str, folder: Path, language: str, said: str
) -> None:
    page.route("**/notes/**", lambda route: route.abort())
    field = served(page, course, language, "06-rope")
    page.locator(SAID, has_text=said).wait_for()
    assert not field.is_editable()
    page.expected_errors()
    page.unroute("**/notes/**")
    field = served(page, course, language, "06-rope")
    page.wait_for_function("!document.querySelector('.notes textarea').readOnly")
    page.route("**/notes/**", lambda route: route.abort())
    field.fill("a")
    refused = {"en": "Could not be written", "zh": "没能写入"}[language]
    page.locator(SAID, has_text=refused).wait_for()
    page.expected_errors()
    page.unroute("**/notes/**")
    field.fill("ab")  # and once it answers again, all is written
    page.locator(SAID, has_text={"en": "Written to the file", "zh": "已写入"}[language]).wait_for()
    assert (folder / f"06-rope.{language}.md").read_text() == "ab"
