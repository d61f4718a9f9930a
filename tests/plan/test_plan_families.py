"""The truth rebuilt from scratch: families of the installed transformers, weighed and planned.

CI weighs a sample that changes with the date; the whole sweep is `python tests/plan/sweep.py`: its
table is committed, and the table's version is checked here.
"""

from __future__ import annotations

import copy
import datetime
import json
import random
import re
from importlib import metadata

import pytest

pytest.importorskip("transformers")

import sweep
import weigh

from attnscope.errors import ConfigError
from attnscope.plan.engines.transformers import held_bytes
from attnscope.plan.fields import library_defaults
from attnscope.plan.read import from_config

SLOW = {"recurrent_gemma", "rwkv", "zamba", "deepseek_v4", "jamba", "hrm_text", "gemma3n"}
"""Families that take tens of seconds: in the whole sweep, not in the sample."""
ALWAYS = ("deepseek_v32", "qwen3_next")
SAMPLE = 4


def todays_families() -> list[str]:
    """A few families, others each day; two kinds that are never left out."""
    rng = random.Random(datetime.datetime.now(datetime.UTC).date().toordinal())
    names = sorted(set(weigh.families()) - SLOW - set(ALWAYS))
    return [*ALWAYS, *rng.sample(names, SAMPLE)]


@pytest.mark.slow
@pytest.mark.parametrize("family", todays_families())
def test_plan_equals_the_weighed_cache(family: str) -> None:
    verdict = sweep.judge(family, weigh.weigh(family))
    assert verdict.outcome in (sweep.AGREES, sweep.REFUSED), verdict


def test_llama_agrees_and_a_damaged_weight_is_caught() -> None:
    weighed = weigh.weigh("llama")
    assert sweep.judge("llama", weighed).outcome == sweep.AGREES
    for change in ("bytes", "config"):
        damaged = copy.deepcopy(weighed)
        if change == "bytes":
            next(iter(damaged["bytes"].values()))[3] += 2
        else:
            damaged["config"]["num_key_value_heads"] //= 2
        assert sweep.judge("llama", damaged).outcome == sweep.DISAGREES


def test_a_family_that_dies_is_a_line_and_not_the_end() -> None:
    dead = weigh.weigh("no_such_family")
    assert "error" in dead
    assert sweep.judge("no_such_family", dead).outcome == sweep.UNWEIGHED


def test_the_table_is_of_the_installed_version_and_has_no_disagreement() -> None:
    text = sweep.TABLE.read_text("utf-8")
    said = re.search(r"transformers (\S+): (\d+) causal-LM families", text)
    assert said is not None
    assert said[1] == metadata.version("transformers"), "run python tests/plan/sweep.py"
    assert int(said[2]) == len(weigh.families())
    verdicts = sweep.rows(text)
    assert [one.family for one in verdicts] == list(weigh.families())
    assert not [one for one in verdicts if one.outcome == sweep.DISAGREES]
    assert sweep.table(verdicts, said[1]) == text


def planned_again(family: str) -> sweep.Verdict:
    """What the table would say of a family if its cache still weighed what the table says."""
    before = next(one for one in sweep.rows(sweep.TABLE.read_text("utf-8")) if one.family == family)
    config = {"model_type": family}
    if family not in sweep.REFUSED_BY_NAME:
        config = json.loads(json.dumps(weigh.configure(family).to_dict(), default=str))
    try:
        model = from_config(config, name=family)
    except ConfigError as error:
        said = str(error).removeprefix(f"{family}: ")
        return sweep.Verdict(family, sweep.REFUSED, sweep._cell(said))
    kinds = ", ".join(sorted({layer.kind for layer in model.layers}))
    lengths = [int(one) for one in re.findall(r"B at (\d+)", before.detail)]
    sizes = [f"{held_bytes(model, one, dtype='bf16'):,} B at {one}" for one in lengths]
    return sweep.Verdict(family, sweep.AGREES, f"{kinds}: {', '.join(sizes)}")


def test_every_family_still_weighs_what_the_table_says() -> None:
    """The sweep's measured bytes, against today's plan of the same configs; no model is built."""
    verdicts = sweep.rows(sweep.TABLE.read_text("utf-8"))
    changed = [one for one in verdicts if planned_again(one.family) != one]
    assert changed == []
    assert sum(one.outcome == sweep.AGREES for one in verdicts) > 150


def test_the_librarys_defaults_are_those_of_the_installed_version() -> None:
    import make_defaults

    found = library_defaults()
    assert found["transformers"] == metadata.version("transformers")
    assert found == make_defaults.read_library(), "run python tests/plan/make_defaults.py"
