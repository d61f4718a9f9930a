"""Reading configs as published: raw forms, by hand and against transformers' own reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnscope.errors import ConfigError
from attnscope.plan import from_config, read
from attnscope.plan.find import built_in_names, parse_json

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def kinds(config: dict[str, Any]) -> list[str]:
    return [layer.kind for layer in from_config(config).layers]


def with_(**changes: Any) -> dict[str, Any]:
    return {**LLAMA, **changes}


RAW: dict[str, tuple[dict[str, Any], str]] = {
    "interval": (
        with_(model_type="qwen3_next", num_hidden_layers=8, full_attention_interval=4, head_dim=16),
        "LLLFLLLF",
    ),
    "pattern number": (
        with_(model_type="gemma3_text", num_hidden_layers=7, sliding_window=8,
              sliding_window_pattern=3),
        "SSFSSFS",
    ),
    "pattern letters": (
        with_(model_type="exaone4", sliding_window=8, sliding_window_pattern="LLLG"),
        "SSSF",
    ),
    "no window, no pattern": (
        with_(model_type="exaone4", sliding_window=None, sliding_window_pattern=4),
        "FFFF",
    ),
    "upper layers": (
        with_(model_type="qwen2", use_sliding_window=True, sliding_window=8, max_window_layers=3),
        "FFFS",
    ),
    "windows switched off": (
        with_(model_type="qwen2", use_sliding_window=False, sliding_window=8, max_window_layers=1),
        "FFFF",
    ),
    "null window": (with_(model_type="mistral", sliding_window=None), "FFFF"),
    "window on all": (with_(model_type="mistral", sliding_window=8), "SSSS"),
    "attention types 0 and 1": (
        with_(model_type="minimax_m1", attn_type_list=[0, 0, 0, 1]), "lllF",
    ),
    "period and offset": (
        with_(model_type="jamba", num_hidden_layers=6, attn_layer_period=3, attn_layer_offset=1),
        "mFmmFm",
    ),
    "attention indices": (
        with_(model_type="bamba", attn_layer_indices=[2], mamba_n_heads=4, mamba_d_head=32,
              mamba_n_groups=1, mamba_d_state=8, mamba_d_conv=4),
        "MMFM",
    ),
    "letters of a hybrid": (
        with_(model_type="nemotron_h", num_hidden_layers=5, hybrid_override_pattern="M-M*E"),
        "M-MF-",
    ),
    "block types": (
        with_(model_type="recurrent_gemma", num_hidden_layers=5, attention_window_size=8,
              block_types=["recurrent", "recurrent", "attention"], conv1d_width=4),
        "rrSrr",
    ),
    "rotary layers": (
        with_(model_type="llama4_text", no_rope_layers=[1, 1, 1, 0], attention_chunk_size=8),
        "CCCF",
    ),
    "hybrid pattern of numbers": (
        with_(model_type="mimo_v2_flash", hybrid_layer_pattern=[0, 1, 1, 0], sliding_window=8,
              v_head_dim=8),
        "FSSF",
    ),
    "Kimi counts from one": (
        with_(model_type="kimi_linear", head_dim=72, kv_lora_rank=16, qk_rope_head_dim=4,
              qk_nope_head_dim=8, v_head_dim=8,
              linear_attn_config={"kda_layers": [1, 2, 3], "full_attn_layers": [4], "num_heads": 4,
                                  "head_dim": 16, "short_conv_kernel_size": 4}),
        "kkkA",
    ),
    "convolution indices": (
        with_(model_type="lfm2", full_attn_idxs=[1, 3], conv_L_cache=3), "cFcF",
    ),
    "mamba names": (
        with_(model_type="granitemoehybrid", layer_types=["mamba", "mamba", "attention", "mamba"],
              mamba_n_heads=4, mamba_d_head=32, mamba_n_groups=1, mamba_d_state=8),
        "MMFM",
    ),
    "groups of layers": (
        with_(model_type="bailing_hybrid", layer_group_size=2, head_dim=16, kv_lora_rank=16,
              qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=8),
        "kAkA",
    ),
    "ratios": (
        with_(model_type="deepseek_v4", num_key_value_heads=1, head_dim=16,
              compress_ratios=[0, 4, 128, 4], index_n_heads=2, index_head_dim=8, index_topk=4),
        "SxXx",
    ),
}  # fmt: skip
LETTER = {
    "full": "F", "sliding": "S", "chunked": "C", "gated-deltanet": "L", "linear": "l", "mamba": "m",
    "mamba2": "M", "mlp": "-", "recurrent": "r", "kda": "k", "mla": "A", "conv": "c",
    "compressed": "x", "heavily-compressed": "X",
}  # fmt: skip


@pytest.mark.parametrize("name", RAW)
def test_raw_forms(name: str) -> None:
    config, wanted = RAW[name]
    assert "".join(LETTER[kind] for kind in kinds(config)) == wanted


SAME_TYPE = {
    "full": "full_attention", "sliding": "sliding_attention", "chunked": "chunked_attention",
    "gated-deltanet": "linear_attention", "kda": "linear_attention", "mamba2": "linear_attention",
    "mamba": "linear_attention", "linear": "linear_attention", "mla": "full_attention",
    "conv": "conv", "compressed": "compressed_sparse_attention",
    "heavily-compressed": "heavily_compressed_attention",
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["interval", "pattern number", "upper layers", "windows switched off", "rotary layers",
     "Kimi counts from one", "convolution indices", "mamba names", "groups of layers", "ratios"],
)  # fmt: skip
def test_raw_forms_as_transformers_reads_them(name: str) -> None:
    auto = pytest.importorskip("transformers").AutoConfig
    config = dict(RAW[name][0])
    kind = config.pop("model_type")
    theirs = list(auto.for_model(kind, **config).layer_types)
    ours = [SAME_TYPE[one] for one in kinds(RAW[name][0])]
    assert ours == theirs
    assert ours != theirs[::-1] or theirs == theirs[::-1]


def test_multi_query_flags() -> None:
    base = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    falcon = from_config({**base, "model_type": "falcon", "multi_query": True, "num_kv_heads": 4})
    assert falcon.layers[0].heads is not None
    assert falcon.layers[0].heads.kv == 1
    new = {**base, "model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 2}
    assert from_config(new).layers[0].heads.kv == 2  # type: ignore[union-attr]
    code = {"model_type": "gpt_bigcode", "n_embd": 64, "n_layer": 2, "n_head": 4}
    assert from_config({**code, "multi_query": True}).layers[0].heads.kv == 1  # type: ignore[union-attr]
    assert from_config({**code, "multi_query": False}).layers[0].heads.kv == 4  # type: ignore[union-attr]


def test_shared_layers_keep_nothing_and_name_their_owner() -> None:
    config = with_(
        model_type="gemma3n_text", num_hidden_layers=10, sliding_window=8, num_kv_shared_layers=4
    )
    layers = from_config(config).layers
    assert [layer.kind for layer in layers[6:]] == ["shared"] * 4
    assert [layer.shares for layer in layers[6:]] == [5, 5, 5, 4]
    assert all(not layer.stores for layer in layers[6:])


def test_indexers_shared_by_list_by_schedule_and_by_letters() -> None:
    base = with_(
        model_type="glm_moe_dsa", kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=8,
        v_head_dim=8, index_n_heads=2, index_head_dim=8, index_topk=4, num_hidden_layers=8,
    )  # fmt: skip
    wanted = [0, 1, 2, 6]
    types = ["full" if i in wanted else "shared" for i in range(8)]
    schedule = {"index_topk_freq": 4, "index_skip_topk_offset": 3}
    for extra in ({"indexer_types": types}, schedule, {"index_topk_pattern": "FFFSSSFS"}):
        layers = from_config({**base, **extra}).layers
        assert [i for i, one in enumerate(layers) if one.kind == "mla-indexer"] == wanted
        assert {one.kind for one in layers} == {"mla-indexer", "mla-shared-indexer"}


def test_nested_text_config_and_flat_are_one() -> None:
    nested = {"model_type": "gemma3", "torch_dtype": "bfloat16",
              "text_config": with_(model_type="gemma3_text", sliding_window=8)}  # fmt: skip
    assert from_config(nested).layers == from_config(nested["text_config"]).layers  # type: ignore[arg-type]
    assert from_config({"model_type": "llava", "text_config": {**LLAMA, "model_type": None}}).layers


def test_head_width_is_a_field_and_not_a_quotient() -> None:
    assert from_config(with_(head_dim=128)).layers[0].heads.qk == 128  # type: ignore[union-attr]
    assert from_config(LLAMA).layers[0].heads.qk == 16  # type: ignore[union-attr]


def test_defaults_of_a_library_are_said() -> None:
    model = from_config(with_(model_type="qwen3"))
    assert model.layers[0].heads.qk == 128  # type: ignore[union-attr]
    assert any("head_dim is absent" in note for note in model.notes)


def test_published_configs_that_leave_much_out() -> None:
    """Gemma 3 4B states neither heads nor head width; DeepSeek-VL2-Tiny switches MLA off."""
    text = {"hidden_size": 2560, "intermediate_size": 10_240, "model_type": "gemma3_text",
            "num_hidden_layers": 34, "sliding_window": 1024}  # fmt: skip
    gemma = from_config({"model_type": "gemma3", "text_config": text})
    assert [layer.kind for layer in gemma.layers].count("full") == 5
    assert gemma.kv(context=1).per_token_bytes_within_window == 34 * 2 * 4 * 256 * 2
    assert any("num_attention_heads is absent" in note for note in gemma.notes)
    tiny = {**LLAMA, "model_type": "deepseek_v2", "use_mla": False, "kv_lora_rank": None}
    assert kinds({"model_type": "deepseek_vl_v2", "language_config": tiny}) == ["full"] * 4


def test_gpt_neos_local_layers() -> None:
    from attnscope.plan.engines.transformers import held_bytes

    neo = from_config(
        {"model_type": "gpt_neo", "hidden_size": 64, "num_layers": 4, "num_heads": 4,
         "window_size": 8, "attention_types": [[["global", "local"], 2]]}
    )  # fmt: skip
    assert [layer.kind for layer in neo.layers] == ["full", "sliding"] * 2
    assert neo.bytes_at(100) == 2 * (100 + 8) * 2 * 64 * 2
    assert held_bytes(neo, 100) == 4 * 100 * 2 * 64 * 2


def test_other_names_for_the_same_sizes() -> None:
    base = {"n_layer": 2, "n_head": 4, "n_embd": 64}
    assert (
        from_config({**base, "model_type": "gpt2"}).kv(context=1).per_token_bytes == 2 * 2 * 64 * 2
    )
    glm = {"model_type": "chatglm", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
           "multi_query_group_num": 2, "kv_channels": 16}  # fmt: skip
    assert from_config(glm).layers[0].heads.kv == 2  # type: ignore[union-attr]
    dbrx = {"model_type": "dbrx", "d_model": 64, "n_heads": 4, "n_layers": 2,
            "attn_config": {"kv_n_heads": 2}}  # fmt: skip
    assert from_config(dbrx).layers[0].heads.kv == 2  # type: ignore[union-attr]
    elm = {"model_type": "openelm", "model_dim": 64, "num_transformer_layers": 2, "head_dim": 16,
           "num_query_heads": [4, 8], "num_kv_heads": [1, 2]}  # fmt: skip
    assert [layer.heads.kv for layer in from_config(elm).layers] == [1, 2]  # type: ignore[union-attr]


def test_blocks_without_attention_and_shared_across_layers() -> None:
    blocks: list[dict[str, Any]] = [
        {"attention": {"n_heads_in_group": 2}}, {"attention": {"no_op": True}},
        {"attention": {"n_heads_in_group": 4}}, {"attention": {"replace_with_linear": True}},
    ]  # fmt: skip
    nas = from_config(with_(model_type="nemotron-nas", block_configs=blocks))
    assert [layer.kind for layer in nas.layers] == ["full", "mlp", "full", "mlp"]
    assert [layer.heads.kv for layer in nas.layers if layer.heads] == [2, 1]
    cla = from_config(with_(model_type="hunyuan", use_cla=True, cla_share_factor=2))
    assert [layer.kind for layer in cla.layers] == ["full", "shared"] * 2
    assert [layer.shares for layer in cla.layers] == [None, 0, None, 2]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (with_(model_type="no_such_thing"), ["no_such_thing", "--assume-full"]),
        (with_(num_key_value_heads=3), ["num_key_value_heads", "4", "contradict"]),
        (with_(hidden_size=66), ["hidden_size", "num_attention_heads", "contradict"]),
        (with_(sliding_window=8), ["sliding_window", "llama", "contradict"]),
        (with_(num_hidden_layers=-3), ["num_hidden_layers", "-3"]),
        (with_(num_hidden_layers=10**9), ["num_hidden_layers", "1,000,000,000"]),
        (with_(num_hidden_layers="4"), ["num_hidden_layers", "'4'"]),
        (with_(num_attention_heads=0), ["num_attention_heads"]),
        (with_(head_dim=10**12), ["head_dim"]),
        (with_(head_dim=True), ["head_dim"]),
        (with_(layer_types=["full_attention"] * 3), ["layer_types", "3", "num_hidden_layers"]),
        (with_(layer_types=["full_attention"] * 3 + ["odd"]), ["layer_types[3]", "odd"]),
        (with_(layer_types=["linear_attention"] * 4), ["linear_attention", "llama"]),
        (with_(layer_types="full"), ["layer_types", "list"]),
        (with_(model_type="gemma3_text", layer_types=["sliding_attention"] * 4,
               sliding_window=None), ["sliding_window", "missing"]),
        (with_(model_type="qwen3_next", layer_types=["full_attention"] * 4, head_dim=16,
               full_attention_interval=4), ["layer_types", "full_attention_interval"]),
        (with_(model_type="deepseek_v3", kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=8,
               v_head_dim=8, qk_head_dim=13), ["qk_head_dim", "12", "contradict"]),
        (with_(model_type="gemma3n_text", sliding_window=8, num_kv_shared_layers=9),
         ["num_kv_shared_layers", "contradict"]),
        (with_(model_type="bert"), ["bert", "encoder", "is_decoder"]),
        (with_(model_type="bart"), ["bart", "encoder-decoder"]),
        (with_(model_type="t5", is_encoder_decoder=True), ["t5", "encoder-decoder"]),
        ({"model_type": "vit", "image_size": 224, "patch_size": 16}, ["vit", "image model"]),
        ({"image_size": 224, "patch_size": 16}, ["image model"]),
        ({"hello": 1}, ["model_type", "missing"]),
        ({"model_type": "llama"}, ["num_hidden_layers", "missing"]),
        ({"model_type": 5}, ["model_type"]),
        (with_(model_type="kimi_linear", linear_attn_config={"kda_layers": [0]}), ["kda_layers"]),
        (with_(model_type="nemotron_h", hybrid_override_pattern="MM"), ["hybrid_override_pattern"]),
        (with_(num_layers=5), ["num_hidden_layers", "num_layers", "contradict"]),
    ],
)  # fmt: skip
def test_refused_by_name(config: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        from_config(config, name="it")
    said = str(caught.value)
    assert said.startswith("it: ")
    assert all(word in said for word in words), said
    assert len(said) < 300
    assert said.endswith(".")


def test_assuming_is_asked_for_and_marked() -> None:
    config = with_(model_type="no_such_thing")
    model = from_config(config, assume_full=True)
    assert [layer.kind for layer in model.layers] == ["full"] * 4
    assert "no_such_thing" in model.assumed[0]
    assert from_config(LLAMA, assume_full=True).assumed == ()
    with pytest.raises(ConfigError, match="contradict"):
        from_config({**config, "num_key_value_heads": 3}, assume_full=True)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", ["not JSON", "line 1"]),
        (b"", ["not JSON"]),
        (b"[1, 2]", ["a list"]),
        (b'"llama"', ["a string"]),
        (b"\xff\xfe\x00{", ["UTF-8"]),
        (b"[" * 200_000, ["nested"]),
        (b'{"a": ' + b"9" * 10_000 + b"}", ["number"]),
        (b'{"model_type": "llama", "num_hidden_layers": 1e400}', ["num_hidden_layers"]),
        (b'{"model_type": "llama", "num_hidden_layers": NaN}', ["num_hidden_layers"]),
    ],
)
def test_broken_files_are_a_sentence(tmp_path: Path, content: bytes, words: list[str]) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("value", "deep"),
    [
        ("[" * 99 + "]" * 99, False),
        ("[" * 100 + "]" * 100, True),
        ("[" * 99 + "{" + "}" + "]" * 99, True),
        ("[" + "[], " * 300 + "[]]", False),
        ('"' + "[" * 300 + '"', False),
        ('"' + '\\"' + "{" * 300 + '"', False),
        ('["a\\\\", ' + "[" * 100 + "]" * 101, True),
    ],
)
def test_depth_is_of_brackets_outside_of_strings(value: str, deep: bool) -> None:
    text = f'{{"note": {value}}}'
    if deep:
        with pytest.raises(ConfigError, match="nested too deeply"):
            parse_json(text, "c")
    else:
        assert parse_json(text, "c") == json.loads(text)


def test_five_gigabytes_are_not_read(tmp_path: Path) -> None:
    import time

    for name in ("config.json", "model.gguf"):
        path = tmp_path / name
        with path.open("wb") as file:
            file.truncate(5 << 30)  # sparse: it takes no room on the disk
        began = time.monotonic()
        with pytest.raises(ConfigError):
            read(path)
        assert time.monotonic() - began < 2


def test_places_a_config_is_found_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert read(tmp_path).layers == read(tmp_path / "config.json").layers
    assert read(str(tmp_path)).name == tmp_path.name
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigError, match="neither a config"):
        read(empty)
    with pytest.raises(ConfigError, match="llama-3-8b is one"):
        read("llama-3-8")
    with pytest.raises(ConfigError, match="no built-in model"):
        read("\0" * 10)
    with pytest.raises(ConfigError, match="no built-in model"):
        read("x" * 100_000)
    with pytest.raises(TypeError, match="int"):
        read(5)  # type: ignore[arg-type]
    # A hub id is looked up where the hub's client keeps its files.
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(ConfigError, match="hub cache"):
        read("some/model")
    snapshot = tmp_path / "hub" / "models--some--model" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(LLAMA))
    assert read("some/model").layers == read(LLAMA).layers


def test_every_built_in_name_reads() -> None:
    assert len(built_in_names()) >= 21
    for name in built_in_names():
        model = read(name)
        assert model.layers
        assert model.source == "built-in"
        assert not model.assumed
        assert read(name.upper()).layers == model.layers
