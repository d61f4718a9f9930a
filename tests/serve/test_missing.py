"""What needs a package that is not installed says which extra brings it, in one sentence."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from serve_samples import make_trace

from attnscope._callable import EXTRAS

ROOT = Path(__file__).parents[2]
TRY = """
import sys
for name in sys.argv[1].split():
    sys.modules[name] = None  # as if it were not installed
import attnscope
try:
    exec(sys.argv[2])
except ModuleNotFoundError as error:
    print(type(error).__name__, error.name.split('.')[0], error, error.__suppress_context__)
"""


def tried(missing: str, code: str) -> str:
    """What a fresh process prints in which some packages cannot be imported."""
    done = subprocess.run(
        [sys.executable, "-c", TRY, missing, code],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("missing", "code", "extra"),
    [
        ("anywidget", "attnscope.show(None)", "notebook"),
        ("traitlets", "attnscope.show(None)", "notebook"),
        ("torch", "attnscope.observe(None)", "look"),
        ("torch", "attnscope.attend(None, None, None)", "look"),
        ("torch", "attnscope.capture('smollm2', 'a')", "look"),
        ("transformers", "attnscope.capture('smollm2', 'a')", "look"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(missing: str, code: str, extra: str) -> None:
    said = f"This needs the package {missing}: pip install 'attnscope[{extra}]'."
    assert tried(missing, code) == f"ModuleNotFoundError {missing} {said} True\n"


def test_a_page_needs_no_extra(tmp_path: Path) -> None:
    """`to_html` works with the package's own dependencies alone."""
    make_trace(tokens=8).save(tmp_path / "t")
    page = tmp_path / "t.html"
    code = f"attnscope.open({str(tmp_path / 't')!r}).to_html({str(page)!r}); print('written')"
    assert tried(" ".join(EXTRAS), code) == "written\n"
    assert page.stat().st_size > 0


def test_another_missing_module_keeps_its_message() -> None:
    code = "attnscope._HOMES['show'] = 'attnscope.nowhere:show'; attnscope.show"
    assert "No module named 'attnscope.nowhere'" in tried("anywidget", code)


def test_every_extra_that_is_named_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = {
        extra: " ".join(needs).replace("-", "_")
        for extra, needs in project["optional-dependencies"].items()
    }
    assert set(EXTRAS.values()) <= set(listed)
    brought = {"traitlets": "anywidget"}  # not listed: it comes with the other
    for package, extra in EXTRAS.items():
        assert brought.get(package, package) in listed[extra]
