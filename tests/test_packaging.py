"""The wheel and the sdist hold what they need, and the wheel works with the base packages alone."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
BASE = ("numpy", "typer", "rich", "safetensors")

pytestmark = pytest.mark.slow


def call(*command: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command that must end with `code`."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was made from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def bare(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts' folder of an empty environment with the wheel and what it requires itself."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=True)
    scripts = folder / ("Scripts" if sys.platform == "win32" else "bin")
    [wheel] = built.glob("*.whl")
    call(
        scripts / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet",
        "--no-compile", "-c", ROOT / "constraints.txt", wheel,
    )  # fmt: skip
    return scripts


def wheel_names(built: Path) -> set[str]:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_holds_the_whole_package_and_nothing_else(built: Path) -> None:
    names = wheel_names(built)
    wanted = {
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / "attnscope").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted - names == set()
    others = {name for name in names - wanted if ".dist-info/" not in name}
    assert others == set()
    assert "attnscope/py.typed" in names


def test_wheel_says_its_licence(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = archive.read(name).decode()
        licence = [name for name in archive.namelist() if name.endswith("/licenses/LICENSE")]
    assert "License-Expression: Apache-2.0" in metadata
    assert len(licence) == 1
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
    plain = {line.split()[1].split(">")[0] for line in required if "extra ==" not in line}
    assert plain == set(BASE)


def test_sdist_holds_what_a_developer_needs(built: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for wanted in (
        "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile",
        "constraints.txt", ".ci/run", "tests/test_packaging.py", "src/attnscope/py.typed",
        "docs/cli.md",
    ):  # fmt: skip
        assert wanted in names
    assert not [name for name in names if "__pycache__" in name or name.startswith(".venv")]


def test_installed_wheel_shows_its_help(bare: Path) -> None:
    shown = call(bare / "attnscope", "-h")
    assert "Usage: attnscope" in shown.stdout
    for command in ("look", "plan", "models", "bench"):
        assert command in shown.stdout
        assert f"Usage: attnscope {command}" in call(bare / "attnscope", command, "-h").stdout


def test_installed_wheel_plans(bare: Path) -> None:
    """The planner needs the standard library alone, its data files included."""
    shown = call(bare / "attnscope", "plan", "smollm2", "--json")
    assert '"attnscope.plan/1"' in shown.stdout


def test_without_the_extra_look_says_which(bare: Path) -> None:
    shown = call(bare / "attnscope", "look", "hello", code=1)
    assert "attnscope[look]" in shown.stderr
    assert "Traceback" not in shown.stderr
