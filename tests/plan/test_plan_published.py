"""Configs as published, whose fields say in their own words what a layer keeps.

The sizes by hand are those of the model's card or of its own code; none of these is what the class
of transformers, or a division, would give.
"""

from __future__ import annotations

from typing import Any

import pytest

from attnscope.errors import ConfigError
from attnscope.plan import from_config


def kv_heads(**config: Any) -> int:
    model = from_config({"hidden_size": 64, "num_hidden_layers": 1, **config})
    assert model.layers[0].heads is not None
    return model.layers[0].heads.kv


def test_fields_that_say_how_heads_are_shared() -> None:
    """Fields of published configs that the library's own classes do not read."""
    # SantaCoder: a GPT-2 with one KV head.
    gpt2 = {"model_type": "gpt2", "num_attention_heads": 8}
    assert kv_heads(**gpt2) == 8
    assert kv_heads(**gpt2, attention_head_type="multiquery") == 1
    assert kv_heads(**gpt2, attention_head_type="multihead") == 8
    # replit-code v1.5: an MPT with groups.
    mpt = {"model_type": "mpt", "num_attention_heads": 8}
    grouped = {"attn_type": "grouped_query_attention", "kv_n_heads": 2}
    assert kv_heads(**mpt, attn_config=grouped) == 2
    assert kv_heads(**mpt, attn_config={"attn_type": "multiquery_attention"}) == 1
    assert kv_heads(**mpt, attn_config={"attn_type": "multihead_attention"}) == 8
    # ChatGLM's number of groups counts where its flag is on.
    glm = {"model_type": "chatglm", "num_attention_heads": 8, "multi_query_group_num": 2}
    assert kv_heads(**glm, multi_query_attention=True) == 2
    assert kv_heads(**glm, multi_query_attention=False) == 8
    # Falcon 40B's first config has no flag at all, and 7B's no number.
    falcon = {"model_type": "RefinedWeb", "n_head": 8}
    assert kv_heads(**falcon, n_head_kv=2) == 2
    assert kv_heads(**falcon, n_head_kv=2, multi_query=True) == 1
    assert kv_heads(**falcon, n_head_kv=2, new_decoder_architecture=False) == 1
    assert kv_heads(**falcon) == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model_type": "gpt2", "attention_head_type": "some"}, "attention_head_type is 'some'"),
        ({"model_type": "mpt", "attn_config": {"attn_type": 7}}, "attn_config.attn_type is 7"),
        ({"model_type": "mpt", "attn_config": {"kv_n_heads": 3}},
         "num_attention_heads = 8 is not a multiple of attn_config.kv_n_heads = 3"),
        ({"model_type": "dbrx", "attn_config": {"kv_n_heads": 3}}, "attn_config.kv_n_heads = 3"),
        ({"model_type": "llama", "multi_query": True}, "multi_query is true, but no field says"),
        ({"model_type": "chatglm", "multi_query_attention": True},
         "multi_query_attention is true, but no field says"),
        ({"model_type": "llama", "num_key_value_heads": 4, "n_head_kv": 2},
         "num_key_value_heads = 4, n_head_kv = 2 contradict each other"),
    ],
)  # fmt: skip
def test_what_is_said_of_shared_heads_and_cannot_be(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        kv_heads(num_attention_heads=8, **fields)


def test_sizes_that_published_configs_call_otherwise_or_leave_out() -> None:
    bloom = from_config({"model_type": "bloom", "n_embed": 4096, "n_layer": 30,
                         "num_attention_heads": 32})  # fmt: skip
    assert bloom.kv(context=1).per_token_bytes == 30 * 2 * 4096 * 2
    minicpm3 = from_config({
        "model_type": "minicpm3", "hidden_size": 2560, "num_hidden_layers": 62,
        "num_attention_heads": 40, "kv_lora_rank": 256, "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 32, "head_dim": 32,
    })  # fmt: skip
    assert minicpm3.kv(context=1).per_token_bytes == 62 * (256 + 32) * 2
    latent = minicpm3.layers[0].latent
    assert latent is not None
    assert latent.v == 2560 // 40


LLAMA_2_7B = 32 * 2 * 32 * 128 * 2


def test_a_config_inside_another_may_leave_its_sizes_to_the_library() -> None:
    """LLaVA 1.5 says no more of its language model than that it is a Llama."""
    inner = {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064}
    model = from_config({"model_type": "llava", "text_config": inner, "vision_config": {}})
    assert model.kv(context=1).per_token_bytes == LLAMA_2_7B
    assert any("num_hidden_layers is absent; 32 is the default" in note for note in model.notes)
    with pytest.raises(ConfigError, match="num_hidden_layers is missing"):
        from_config(inner)
    # Pixtral 12B leaves out its heads alone.
    inner = {"model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40, "head_dim": 128,
             "num_key_value_heads": 8, "sliding_window": None}  # fmt: skip
    pixtral = from_config({"model_type": "llava", "text_config": inner})
    assert pixtral.layers[0].heads is not None
    assert pixtral.layers[0].heads.query == 32
    assert pixtral.kv(context=1).per_token_bytes == 40 * 2 * 8 * 128 * 2


def test_a_model_that_cannot_be_planned_is_refused_before_its_parts_are_read() -> None:
    config = {"model_type": "blt", "decoder_config": {"model_type": "blt_local_decoder"}}
    with pytest.raises(ConfigError, match="'blt' cannot be planned: its cache grows with patches"):
        from_config(config)


STEP: dict[str, Any] = {
    "model_type": "step3p5", "hidden_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 64,
    "num_attention_groups": 8, "head_dim": 128, "sliding_window": 512,
    "num_nextn_predict_layers": 1,
    "layer_types": ["full_attention", *["sliding_attention"] * 3, "sliding_attention"],
    "attention_other_setting": {
        "attention_type": "sliding_attention", "num_attention_heads": 96,
        "num_attention_groups": 4, "head_dim": 64,
    },
}  # fmt: skip


def test_steps_sliding_layers_have_heads_of_their_own() -> None:
    heads = [(one.kind, one.heads) for one in from_config(STEP).layers]
    assert [(kind, h.query, h.kv, h.qk) for kind, h in heads if h is not None] == [
        ("full", 64, 8, 128), *[("sliding", 96, 4, 64)] * 3,
    ]  # fmt: skip
    too_long = {**STEP, "layer_types": [*STEP["layer_types"], "sliding_attention"]}
    with pytest.raises(ConfigError, match="layer_types has 6 items but num_hidden_layers is 4"):
        from_config(too_long)


def test_step3_and_decilm_say_how_many_heads_there_are() -> None:
    text = {"hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 64,
            "num_attention_groups": 1, "head_dim": 256}  # fmt: skip
    step = from_config({"model_type": "step3_vl", "text_config": text})
    assert step.kv(context=1).per_token_bytes == 61 * 2 * 256 * 2
    with pytest.raises(ConfigError, match="num_attention_groups is missing"):
        from_config({"model_type": "step3_text", **text, "num_attention_groups": None})
    deci = {"model_type": "deci", "hidden_size": 4096, "num_hidden_layers": 3,
            "num_attention_heads": 32}  # fmt: skip
    per_layer = from_config({**deci, "num_key_value_heads_per_layer": [4, 2, 1]})
    assert [one.heads.kv for one in per_layer.layers if one.heads] == [4, 2, 1]
    with pytest.raises(ConfigError, match="num_key_value_heads_per_layer is missing"):
        from_config(deci)
    with pytest.raises(ConfigError, match="num_key_value_heads_per_layer has 2 items"):
        from_config({**deci, "num_key_value_heads_per_layer": [4, 2]})
