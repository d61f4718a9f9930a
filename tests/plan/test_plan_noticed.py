"""Places where damage to the planner once went unnoticed, each by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf_files
import pytest

from attnscope.errors import ConfigError
from attnscope.plan import from_config, read
from attnscope.plan.devices import find_device
from attnscope.plan.engines import llamacpp, sglang, transformers, vllm
from attnscope.plan.explain import explain, explain_cost, grouped
from attnscope.plan.find import cached_config
from attnscope.plan.fit import size_text
from attnscope.plan.gguf_header import Header
from attnscope.plan.gguf_model import PERIODS, from_header
from attnscope.plan.numbers import find_format
from attnscope.plan.read import WRAPPERS
from attnscope.plan.report import Asked, default_context, report
from attnscope.plan.texts import flops_cells, lengths
from attnscope.plan.what_if import with_latent

BASE: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip
MAMBA2: dict[str, Any] = {
    **BASE, "model_type": "bamba", "attn_layer_indices": [], "mamba_n_heads": 4, "mamba_d_state": 8,
    "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_expand": 3,
}  # fmt: skip


def kinds(**fields: Any) -> list[str]:
    return [layer.kind for layer in from_config({**BASE, **fields}).layers]


def test_a_list_of_ones_says_which_layers_have_an_indexer() -> None:
    sparse = {
        "sparse_attention_freq": [0, 1, 1, 0], "sparse_num_index_heads": 2, "sparse_index_dim": 16,
        "sparse_topk_blocks": 4, "sparse_block_size": 8,
    }  # fmt: skip
    found = kinds(model_type="minimax_m3_vl_text", head_dim=16, sparse_attention_config=sparse)
    assert found == ["full", "full-indexer", "full-indexer", "full"]


def test_an_interval_that_the_list_contradicts_under_its_other_name() -> None:
    fields = {**BASE, "model_type": "gemma3_text", "sliding_window": 8,
              "layer_types": ["sliding_attention", "full_attention"] * 2}  # fmt: skip
    assert from_config({**fields, "_sliding_window_pattern": 2}).layers
    with pytest.raises(ConfigError, match="_sliding_window_pattern = 4 puts them at"):
        from_config({**fields, "_sliding_window_pattern": 4})


def test_an_error_has_the_name_that_the_config_uses() -> None:
    with pytest.raises(ConfigError, match="padded_vocab_size must be a whole number"):
        from_config({**BASE, "model_type": "llama", "padded_vocab_size": "many"})


def test_attention_types_of_another_form_are_refused() -> None:
    neo = {"model_type": "gpt_neo", "hidden_size": 64, "num_heads": 4, "num_layers": 2}
    for types in ([["global", 2]], [[["global"], 1, 1]], ["global"]):
        with pytest.raises(ConfigError, match="attention_types must hold"):
            from_config({**neo, "attention_types": types})


def test_a_v4_layer_with_a_window_alone_is_held_as_key_and_as_value() -> None:
    config = {**BASE, "model_type": "deepseek_v4", "num_key_value_heads": 1, "head_dim": 16,
              "compress_ratios": [0] * 4, "sliding_window": 8}  # fmt: skip
    model = from_config(config)
    assert model.bytes_at(5) == 4 * 5 * 16 * 2
    assert transformers.held_bytes(model, 5) == 2 * model.bytes_at(5)
    source = read("deepseek-v4.1-flash").layers[0]  # whose library is not transformers
    assert source.kind == "sliding"
    assert source.held is None


def test_the_layers_that_pick_are_those_that_the_config_lists() -> None:
    model = read("deepseek-v4.1-flash")
    own = [layer.index for layer in model.layers if layer.indexer and layer.indexer.own]
    assert own == model.fields.get("index_source_layer_ids", model.fields["kv_source_layer_ids"])


def test_a_width_of_mamba_that_is_a_word_or_absent_is_the_quotient() -> None:
    """A `head_dim` beside it is that of the attention."""
    for width in ({"mamba_d_head": "auto"}, {}):
        layer = from_config({**MAMBA2, **width, "head_dim": 16}).layers[0]
        assert layer.stores[0].vectors * layer.stores[0].width == 3 * 64 * 8
    with pytest.raises(ConfigError, match=r"mamba_expand \* hidden_size = 192 is not a multiple"):
        from_config({**MAMBA2, "mamba_d_head": "auto", "mamba_n_heads": 5})


def test_explanations_name_fields_and_keys(tmp_path: Path) -> None:
    jamba = from_config({**BASE, "model_type": "jamba", "attn_layer_period": 4,
                         "attn_layer_offset": 3, "mamba_d_state": 8, "mamba_d_conv": 4,
                         "mamba_expand": 2})  # fmt: skip
    said = explain(jamba)[0].source
    assert said == "hidden_size = 64, mamba_expand = 2, mamba_d_state = 8, mamba_d_conv = 4"
    path = gguf_files.write(tmp_path / "small.gguf", gguf_files.llama(2, 32, 8, 128))
    assert "llama.attention.head_count_kv = 8" in explain(read(path))[0].source


def test_only_latents_are_absorbed() -> None:
    def steps(model: Any) -> set[str]:
        return {one.what for one in explain_cost(model, context=9) if "decode" in one.what}

    assert steps(read("llama-3-8b")) == {"decode step"}
    assert steps(read("deepseek-v3")) == {"decode step, absorbed"}
    assert steps(with_latent(read("deepseek-v3"), expanded=True)) == {"decode step"}


def test_shared_layers_with_and_without_a_window_are_two_rows() -> None:
    """They keep nothing, so nothing but the window tells them apart."""
    config = {**BASE, "model_type": "gemma3n_text", "num_hidden_layers": 20, "sliding_window": 8,
              "num_kv_shared_layers": 10, "head_dim": 16}  # fmt: skip
    rows = [(one.kind, one.window, len(n)) for one, n in grouped(from_config(config).layers)]
    assert rows == [("sliding", 8, 8), ("full", None, 2), ("shared", 8, 8), ("shared", None, 2)]


def test_the_type_of_activations_is_the_configs() -> None:
    for said, plain in (("float16", "fp16"), ("torch.float32", "fp32"), ("float8", "bf16")):
        assert from_config({**BASE, "model_type": "llama", "torch_dtype": said}).dtype == plain


@pytest.mark.parametrize(("outer", "inner"), sorted(WRAPPERS.items()))
def test_what_a_wrappers_text_model_is(outer: str, inner: str) -> None:
    """Where it does not say it itself."""
    sizes = {"head_dim": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
             "v_head_dim": 8, "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8,
             "indexer_budget": 4}  # fmt: skip
    text = {**BASE, **sizes}
    assert from_config({"model_type": outer, "text_config": text}).architecture == inner
    said = from_config({"model_type": outer, "text_config": {**text, "model_type": "llama"}})
    assert said.architecture == "llama"


def test_a_context_that_nobody_asks_for() -> None:
    assert default_context(read("qwen3.8-27b")) == 32_768
    assert default_context(read("llama-3-8b")) == 8192


def test_a_step_reads_the_cache_of_every_sequence() -> None:
    one, three = (
        report(read("llama-3-8b"), Asked(context=100, batch=batch, device=find_device("h100")))
        for batch in (1, 3)
    )
    single = one["device"]["decode_cache_read_s"]
    assert single == 100 * 131_072 / 3_350e9
    assert three["device"]["decode_cache_read_s"] == pytest.approx(3 * single, rel=1e-15)


def test_engines_say_which_formats_they_have_not() -> None:
    model = read("llama-3-8b")
    for engine, name, formats in (
        (vllm, "vllm", ("int4", "fp32")), (sglang, "sglang", ("int8", "int4", "fp32")),
    ):  # fmt: skip
        for one in formats:
            found = engine.allocate(model, context=10, kv_dtype=one)
            assert (found.engine, found.size) == (name, None)
            assert f"keeps no cache in {one}" in found.formula
    narrow = from_config({**BASE, "model_type": "llama", "head_dim": 20})
    found = llamacpp.allocate(narrow, context=10, kv_dtype="int8")
    assert found.size is None
    assert "a row of 40 numbers is no multiple of 32" in found.formula
    assert transformers.allocate(model, context=10).formula.endswith("states once")
    long = transformers.allocate(read("gemma-3-27b"), context=5000).formula
    assert long.endswith("B of storage right after one prefill of all tokens")


def test_names_and_units() -> None:
    assert [find_format(one).name for one in ("q4_0", "q8_0", "half")] == ["int4", "int8", "fp16"]
    assert size_text(3 * 2**40) == "3 TiB"
    units = [flops_cells(2 * 10**power)[1] for power in (18, 15, 12, 9, 6, 3)]
    assert units == ["2 EFLOP", "2 PFLOP", "2 TFLOP", "2 GFLOP", "2 MFLOP", ""]
    assert lengths(131_072)[-1] == 131_072


def test_where_the_hubs_client_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    made = []
    for place in ("home/.cache/huggingface/hub", "own/hub", "cache"):
        made.append(tmp_path / place / "models--a--b/snapshots/1/config.json")
        made[-1].parent.mkdir(parents=True)
        made[-1].write_text("{}")
    assert cached_config("a/b") == made[0]
    monkeypatch.setenv("HF_HOME", str(tmp_path / "own"))
    assert cached_config("a/b") == made[1]
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    assert cached_config("a/b") == made[2]


FULL_LAYERS = {
    "afmoe": [3, 7], "cohere2": [3, 7], "cohere2moe": [0, 4], "exaone4": [3, 7],
    "exaone-moe": [3, 7], "gemma2": [1, 3, 5, 7], "gemma3": [5], "gemma3n": [4],
    "gpt-oss": [1, 3, 5, 7], "laguna": [0, 4], "llama4": [3, 7], "mellum": [3, 7],
    "olmo2": [3, 7], "smallthinker": [0, 4],
}  # fmt: skip
"""Of eight layers of a file without a pattern, those that llama.cpp does not let slide."""


@pytest.mark.parametrize("arch", PERIODS)
def test_full_layers_of_a_file_without_a_pattern(arch: str) -> None:
    keys = {"general.architecture": arch} | {
        f"{arch}.{key}": value
        for key, value in {
            "block_count": 8, "embedding_length": 64, "attention.head_count": 4,
            "attention.head_count_kv": 2, "attention.sliding_window": 8,
        }.items()
    }  # fmt: skip
    layers = from_header(Header(3, keys, (), 0), name="it").layers
    assert [layer.index for layer in layers if layer.window is None] == FULL_LAYERS[arch]
