"""Folders of small models, each written once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from decoder_samples import write


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a variant; tests leave it as it is."""
    made: dict[str, Path] = {}

    def find(variant: str) -> Path:
        if variant not in made:
            made[variant] = write(tmp_path_factory.mktemp("models") / variant, variant)
        return made[variant]

    return find


@pytest.fixture
def copy_of(folder_of: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy that a test may damage."""

    def copied(variant: str) -> Path:
        return Path(shutil.copytree(folder_of(variant), tmp_path / variant))

    return copied
