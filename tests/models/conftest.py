"""A cache of its own for every test that does not name a real model."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnscope.capture.store import models_folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """The folder of models: an empty one, or the user's for tests of real models."""
    if request.node.get_closest_marker("real_model") is None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return models_folder()
