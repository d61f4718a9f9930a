"""The looks in which every screen is tested."""

import pytest

LOOKS = [("en", "light"), ("en", "dark"), ("zh", "light"), ("zh", "dark")]
every_look = pytest.mark.parametrize(("language", "theme"), LOOKS, ids=["-".join(x) for x in LOOKS])
"""Runs a test that uses `page` in both languages, light and dark."""
