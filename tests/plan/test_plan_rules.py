"""Rules and counts at their edges, by hand: where a comparison or a factor could be one off."""

from __future__ import annotations

from typing import Any

import pytest

from attnscope.errors import ConfigError
from attnscope.plan import from_config, read
from attnscope.plan.flops import cost, decode_keys, dense_pairs
from attnscope.plan.what_if import with_latent

BASE: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip

GROUPED = {**BASE, "model_type": "llama"}


def kinds(**fields: Any) -> str:
    return "".join(layer.kind[0] for layer in from_config({**BASE, **fields}).layers)


def test_the_layers_from_which_windows_begin_and_below_which_they_end() -> None:
    window = {"sliding_window": 8, "max_window_layers": 4}
    assert kinds(model_type="dots1", **window) == "ffffss"
    assert kinds(model_type="qwen2", use_sliding_window=True, **window) == "ffffss"
    assert kinds(model_type="qwen2_moe", use_sliding_window=True, **window) == "sfsfff"
    assert kinds(model_type="qwen2_moe", use_sliding_window=False, **window) == "ffffff"


def test_layers_without_rotary_positions_slide() -> None:
    on = {"model_type": "smollm3", "use_sliding_window": True, "sliding_window": 8}
    assert kinds(**on, no_rope_layers=[1, 1, 0, 1, 0, 1]) == "ffsfsf"
    assert kinds(**on, no_rope_layer_interval=3) == "ffsffs"


def test_layers_by_number_are_layers_of_the_model() -> None:
    bamba = {**BASE, "model_type": "bamba", "mamba_n_heads": 4, "mamba_d_head": 32,
             "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_d_conv": 4}  # fmt: skip
    assert kinds(**bamba, attn_layer_indices=[0, 5]) == "fmmmmf"
    with pytest.raises(ConfigError, match="attn_layer_indices must be from 0 to 5, got 6"):
        from_config({**bamba, "attn_layer_indices": [6]})


def test_groups_of_layers_share_with_their_first() -> None:
    model = from_config({**BASE, "model_type": "hunyuan", "use_cla": True, "cla_share_factor": 3})
    assert [layer.shares for layer in model.layers] == [None, 0, 0, None, 3, 3]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("hidden_size", "n_embd"),
        ("num_attention_heads", "n_head"),
        ("num_hidden_layers", "n_layer"),
    ],
)
def test_two_names_of_one_size_contradict_each_other(one: str, other: str) -> None:
    config = {**BASE, "model_type": "llama", other: BASE[one]}
    assert from_config(config).layers
    with pytest.raises(ConfigError, match=f"{one} = .*{other} = .*contradict"):
        from_config({**config, other: 2 * BASE[one]})


def test_a_whole_number_written_with_a_point_is_one() -> None:
    plain = from_config({**BASE, "model_type": "llama"})
    assert from_config({**BASE, "model_type": "llama", "hidden_size": 64.0}).layers == plain.layers
    with pytest.raises(ConfigError, match="hidden_size must be a whole number"):
        from_config({**BASE, "model_type": "llama", "hidden_size": 64.5})


def test_the_keys_of_a_chunk() -> None:
    chunked = from_config(
        {**BASE, "model_type": "llama4_text", "attention_chunk_size": 8, "head_dim": 16,
         "no_rope_layers": [1] * 6}
    ).layers[0]  # fmt: skip
    assert [decode_keys(chunked, n) for n in (1, 7, 8, 9, 16, 17)] == [1, 7, 8, 1, 8, 1]


def test_recurrences_by_hand() -> None:
    """Per token: 6 a state and 2 a tap of Mamba; 4 a channel and 2 a tap of RG-LRU; 10 of RWKV."""
    mamba = {"model_type": "mamba", "hidden_size": 8, "num_hidden_layers": 1, "state_size": 4,
             "conv_kernel": 3, "expand": 2}  # fmt: skip
    assert cost(from_config(mamba), context=1).recurrence_decode == 16 * (6 * 4 + 2 * 3)
    lru = {**BASE, "model_type": "recurrent_gemma", "num_hidden_layers": 1, "lru_width": 32,
           "conv1d_width": 4, "block_types": ["recurrent"], "attention_window_size": 8}  # fmt: skip
    assert cost(from_config(lru), context=1).recurrence_decode == 32 * (4 + 2 * 4)
    rwkv = {"model_type": "rwkv", "hidden_size": 16, "num_hidden_layers": 1,
            "attention_hidden_size": 16}  # fmt: skip
    assert cost(from_config(rwkv), context=1).recurrence_decode == 160
    deltas = cost(read("qwen3.8-27b"), context=1).recurrence_decode
    assert deltas == 48 * (7 * 48 * 128 * 128 + 2 * (2 * 16 * 128 + 48 * 128) * 4)


def test_compressed_layers_by_hand() -> None:
    """Every pair of tokens and of entries; index keys are scanned, and read where a layer picks."""
    model = read("deepseek-v4.1-flash")
    source = model.layers[2]
    assert dense_pairs(source, 1000) == 1000 * (1000 + 500)
    found = cost(model, context=1000)
    picks = [layer for layer in model.layers if layer.indexer is not None and layer.indexer.own]
    scanned = sum(sum(i // layer.every for i in range(1, 1001)) for layer in picks)
    one = picks[0].indexer
    assert one is not None
    assert found.indexer_prefill == 2 * one.heads * one.width * scanned
    # Each source's entries are those of the last source before a layer.
    owners = {layer.shares for layer in model.layers if layer.shares is not None}
    assert owners == {2, 8, 14, 20}


def test_a_latent_keeps_the_heads_of_the_scores() -> None:
    latent = with_latent(read("llama-3-8b"), 512, 64).layers[0].latent
    assert latent is not None
    assert (latent.nope, latent.rope, latent.v) == (64, 64, 128)
    assert with_latent(read("llama-3-8b"), 512, 200).layers[0].latent.nope == 0  # type: ignore[union-attr]


def test_the_first_and_the_last_layers_of_a_pattern() -> None:
    assert kinds(model_type="flint", num_hidden_layers=8, sliding_window=8) == "ffsssfsf"
    zamba = {"model_type": "zamba", "num_hidden_layers": 7, "attn_layer_period": 3,
             "attn_layer_offset": 1}  # fmt: skip
    assert kinds(**zamba) == "mmfmfmm"


def test_sizes_that_nobody_states_are_said() -> None:
    """As many KV heads as query heads, and a width that is a quotient, are said in the notes."""
    no_kv = {name: value for name, value in GROUPED.items() if name != "num_key_value_heads"}
    for config, words in (
        (no_kv, "num_key_value_heads is absent; there are as many as query heads"),
        (dict(GROUPED, num_key_value_heads=None), "num_key_value_heads is null; there are as many"),
        (dict(GROUPED, model_type="qwen3", head_dim=None), "head_dim is null; hidden_size / "
         "num_attention_heads = 16 is taken"),
    ):  # fmt: skip
        model = from_config(config)
        assert any(words in note for note in model.notes), model.notes
        assert model.layers[0].heads is not None
        assert model.layers[0].heads.qk == 16
    assert not [one for one in from_config(GROUPED).notes if "head" in one]
    assert not [one for one in read("deepseek-v3").notes if "head" in one]


def test_zamba2_without_its_list_of_layers_is_refused() -> None:
    """The library would fill in the list of one published model, whatever the number of layers."""
    config = {
        "model_type": "zamba2", "num_hidden_layers": 54, "hidden_size": 64, "mamba_d_state": 16,
        "mamba_d_conv": 4, "mamba_expand": 2, "mamba_ngroups": 1, "n_mamba_heads": 8,
        "num_attention_heads": 4, "num_key_value_heads": 4, "attention_head_dim": 32,
    }  # fmt: skip
    with pytest.raises(ConfigError, match="layers_block_type is not there"):
        read(config)


def test_a_width_of_mamba_that_contradicts_the_expansion_is_refused() -> None:
    config = {
        "model_type": "falcon_mamba", "num_hidden_layers": 2, "hidden_size": 64, "expand": 2,
        "state_size": 16, "conv_kernel": 4, "intermediate_size": 128,
    }  # fmt: skip
    assert read(config).kv(context=8, batch=1).fixed_bytes > 0
    with pytest.raises(ConfigError, match=r"intermediate_size 96 contradicts expand x hidden_size"):
        read({**config, "intermediate_size": 96})
