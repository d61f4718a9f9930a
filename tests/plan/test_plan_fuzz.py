"""Damaged configs: whatever stands in a field, the answer is a model or a sentence."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from attnscope.errors import ConfigError
from attnscope.plan import from_config, read
from attnscope.plan.families import FAMILIES
from attnscope.plan.find import built_in_names
from attnscope.plan.report import Asked, report

JUNK: list[Any] = [
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, 10**30, -(2**40), 0.5, float("nan"),
    float("inf"), "", "auto", "x" * 1000, "MM*-", [], [0], [None] * 3, ["full_attention"] * 2,
    [[1], {}], {}, {"0": {}}, {"a": {"b": []}}, [1, 2, 3, 4], ["sliding_attention", 5],
]  # fmt: skip


def configs() -> dict[str, dict[str, Any]]:
    found = {name: dict(read(name).fields) for name in built_in_names()}
    from test_plan_read import RAW

    found |= {f"raw {name}": config for name, (config, _) in RAW.items()}
    return found


CONFIGS = configs()


def answers_or_says(config: dict[str, Any]) -> bool:
    """True for a model whose every question is answered, False for a sentence."""
    try:
        model = from_config(config, name="it")
        model.kv(context=5000)
        if len(model.layers) <= 8:  # the whole report of a large model takes its time
            json.dumps(report(model, Asked(context=5000, explain=True)))
    except ConfigError as error:
        said = str(error)
        assert said.startswith("it: ")
        assert len(said) < 1000
        return False
    return True


@pytest.mark.parametrize("name", CONFIGS)
def test_one_field_of_junk(name: str) -> None:
    config = CONFIGS[name]
    rng = random.Random(name)
    for field in config:
        for junk in rng.sample(JUNK, 4):
            answers_or_says({**config, field: junk})
        answers_or_says({k: v for k, v in config.items() if k != field})


@pytest.mark.parametrize("seed", range(10))
def test_several_fields_of_junk(seed: int) -> None:
    rng = random.Random(seed)
    fields = sorted({field for config in CONFIGS.values() for field in config})
    for _ in range(40):
        config = dict(rng.choice(list(CONFIGS.values())))
        config["model_type"] = rng.choice([config.get("model_type"), *FAMILIES])
        for field in rng.sample(fields, 3):
            config[field] = rng.choice(JUNK)
        answers_or_says(config)


def test_the_checks_above_see_both_answers() -> None:
    assert answers_or_says(CONFIGS["llama-3-8b"])
    assert not answers_or_says({**CONFIGS["llama-3-8b"], "hidden_size": -1})
