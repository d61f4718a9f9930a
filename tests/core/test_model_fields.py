"""Reading a config: what is nested, what a family leaves out, which kind a layer is, and errors."""

from __future__ import annotations

import pytest

from attnscope.core.model_fields import FULL, LINEAR, SLIDING, ModelFields
from attnscope.errors import ConfigError

FAMILIES = {
    "toy": {"bias": False, "rope_theta": 10.0},
    "striped": {"sliding_window_pattern": 3, "sliding_window": 8},
}


def fields(layer: int = 0, **values) -> ModelFields:  # type: ignore[no-untyped-def]
    return ModelFields({"model_type": "toy"} | values, families=FAMILIES, layer=layer, reader="Toy")


def kinds(count: int, **values) -> list[str]:  # type: ignore[no-untyped-def]
    return [fields(i, **values).layer_type for i in range(count)]


def test_the_config_says_it_first_then_the_family() -> None:
    assert fields()["bias"] is False
    assert fields(bias=True)["bias"] is True
    assert fields(bias=None)["bias"] is None
    assert fields().get("other", 3) == 3


def test_a_nested_text_config_is_the_part_that_is_read() -> None:
    inner = {"model_type": "toy", "width": 5}
    outer = {"model_type": "seeing_toy", "width": 9, "text_config": inner}
    assert ModelFields(outer, families=FAMILIES)["width"] == 5


def test_the_kind_of_a_layer_is_found_by_every_way_of_saying_it() -> None:
    S, F = SLIDING, FULL
    assert kinds(2) == [F, F]
    assert kinds(3, layer_types=[F, S, "chunked"]) == [F, S, "chunked"]
    assert kinds(4, sliding_window_pattern=2) == [S, F, S, F]
    assert kinds(4, _sliding_window_pattern=3) == [S, S, F, S]
    assert kinds(5, full_attention_interval=4) == [LINEAR, LINEAR, LINEAR, F, LINEAR]
    upper = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
    assert kinds(3, **upper) == [F, S, S]
    assert kinds(3, **(upper | {"use_sliding_window": False})) == [F, F, F]
    assert kinds(3, **(upper | {"sliding_window": None})) == [F, F, F]
    assert kinds(2, model_type="striped") == [S, S]
    assert kinds(3, model_type="striped", layer_types=[F, F, S]) == [F, F, S]


def test_the_window_is_that_of_sliding_layers_alone() -> None:
    assert fields(0, model_type="striped").window == 8
    assert fields(2, model_type="striped").window is None
    assert fields(0, model_type="striped", sliding_window=5).window == 5


def test_the_rotation_gets_what_the_family_leaves_out() -> None:
    assert fields(width=3).rope() == {"model_type": "toy", "width": 3, "rope_theta": 10.0}
    assert fields(rope_theta=7.0).rope()["rope_theta"] == 7.0


@pytest.mark.parametrize(
    ("config", "layer", "message"),
    [
        ({}, 0, "the config has no field 'model_type'; Toy reads toy, striped"),
        ({"model_type": "dog"}, 0, "model_type 'dog': Toy reads toy, striped; if this model's"),
        ({"model_type": "toy", "num_hidden_layers": 2}, 2, "layer 2 is not among its 2 layers"),
        ({"model_type": "toy", "num_hidden_layers": 2}, -1, "layer -1 is not among its 2 layers"),
    ],
)
def test_a_config_that_cannot_be_read_is_refused(config: dict, layer: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ModelFields(config, families=FAMILIES, layer=layer, reader="Toy")


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "4", None])
def test_a_count_is_a_positive_whole_number(value: object) -> None:
    with pytest.raises(ConfigError, match="width: expected a positive whole number, got"):
        fields(width=value).count("width")


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="model_type 'toy': the config has no field 'width'"):
        fields()["width"]
    with pytest.raises(ConfigError, match="layer_types has 1 entries, none for 1"):
        _ = fields(1, layer_types=[FULL]).layer_type
    with pytest.raises(TypeError, match=r"config: expected a mapping, as json\.load gives it"):
        ModelFields("config.json", families=FAMILIES)  # type: ignore[arg-type]
