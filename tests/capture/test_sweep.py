"""The table of families is of the installed transformers, and a sample of it is tried again."""

from __future__ import annotations

import datetime
import json
import random
from importlib import resources
from pathlib import Path

import pytest
import transformers

from attnscope.capture import sweep
from attnscope.capture.shrink import families

TABLE = json.loads((resources.files("attnscope.capture") / "families.json").read_text("utf-8"))
PAGE = Path(__file__).parents[2] / "docs" / "models.md"
SAMPLE = random.Random(datetime.date.today().toordinal()).sample(sorted(TABLE["families"]), 4)


def test_the_table_is_of_this_version_and_whole() -> None:
    assert TABLE["transformers"] == transformers.__version__
    assert set(TABLE["families"]) == set(families())


def test_no_family_is_captured_wrongly() -> None:
    for name, found in TABLE["families"].items():
        assert found["status"] in ("supported", "refused", "not built"), name
        assert found["reason"] or found["status"] == "supported", name


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text("utf-8") == sweep.as_page(TABLE["families"], TABLE["transformers"])


@pytest.mark.slow
@pytest.mark.parametrize("family", SAMPLE)
def test_a_sample_that_changes_with_the_date(family: str) -> None:
    assert sweep.in_process(family)["status"] == TABLE["families"][family]["status"]
