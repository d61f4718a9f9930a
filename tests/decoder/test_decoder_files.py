"""What a folder may hold, and what is refused with the name of the tensor or the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from decoder_samples import build, change_config, sample_ids, small_config
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from attnscope.decoder import Decoder, load
from attnscope.decoder_files import TensorFiles
from attnscope.errors import ConfigError, ModelError, UnsupportedModelError

Folders = Callable[[str], Path]


def rewrite(folder: Path, **changed: Any) -> None:
    """Other tensors in the one file; None takes one out. `__` stands for the dot of a name."""
    tensors = load_file(folder / "model.safetensors")
    tensors |= {name.replace("__", "."): value for name, value in changed.items()}
    kept = {name: value for name, value in tensors.items() if value is not None}
    save_file(kept, folder / "model.safetensors")


Q = "model__layers__1__self_attn__q_proj__weight"


@pytest.mark.parametrize(
    ("variant", "changed", "said"),
    [
        ("llama", {Q: None}, r"no tensor model.layers.1.self_attn.q_proj.weight, which the config"),
        ("llama", {"lm_head__weight": None}, r"no tensor lm_head.weight"),
        ("qwen3", {"model__layers__0__self_attn__q_norm__weight": None}, r"q_norm.weight"),
        ("llama", {Q: torch.zeros(48, 96)}, r"q_proj.weight is \[48, 96\].*asks for \[96, 48\]"),
        ("llama", {"model__norm__weight": torch.zeros(48, 1)}, r"model.norm.weight is \[48, 1\]"),
        ("llama", {"model__layers__3__mlp__up_proj__weight": torch.zeros(80, 48)},
         r"has the tensor model.layers.3.mlp.up_proj.weight, for which a llama model"),
        ("llama", {"model__layers__0__self_attn__q_norm__weight": torch.ones(16)},
         r"has the tensor model.layers.0.self_attn.q_norm.weight"),
        ("llama", {"model__layers__0__self_attn__q_proj__bias": torch.ones(96)}, r"q_proj.bias"),
        ("llama-tied", {"lm_head__weight": torch.ones(97, 48)}, r"ties the head.*another matrix"),
        ("llama", {Q: torch.zeros(96, 48, dtype=torch.int8)}, r"stored as torch.int8. Quantised"),
    ],
)  # fmt: skip
def test_tensors_that_do_not_fit_are_named(
    copy_of: Folders, variant: str, changed: dict[str, Any], said: str
) -> None:
    folder = copy_of(variant)
    rewrite(folder, **changed)
    with pytest.raises(ModelError, match=said):
        load(folder)


def test_what_old_files_hold_twice_is_no_surplus(copy_of: Folders, folder_of: Folders) -> None:
    folder = copy_of("llama-tied")
    same = load_file(folder / "model.safetensors")["model.embed_tokens.weight"].clone()
    rewrite(
        folder, lm_head__weight=same,
        model__layers__0__self_attn__rotary_emb__inv_freq=torch.ones(4),
    )  # fmt: skip
    ids = sample_ids(5)
    assert torch.equal(load(folder)(ids), load(folder_of("llama-tied"))(ids))


def shards(folder: Path) -> dict[str, Any]:
    """Cut the one file into shards, as transformers writes larger models."""
    build("gemma3").save_pretrained(folder, max_shard_size="60KB")
    assert not (folder / "model.safetensors").exists()
    assert len(list(folder.glob("*.safetensors"))) > 2
    return json.loads((folder / "model.safetensors.index.json").read_text("utf-8"))


def test_shards_are_one_model(folder_of: Folders, tmp_path: Path) -> None:
    shards(tmp_path)
    ids = sample_ids(9)
    assert torch.equal(load(tmp_path)(ids), load(folder_of("gemma3"))(ids))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("../model.safetensors", "not a safetensors file beside it"),
        ("/etc/passwd", "not a safetensors file beside it"),
        ("weights.bin", "not a safetensors file beside it"),
        ("absent.safetensors", "absent.safetensors is missing"),
        (None, "has no tensor model.norm.weight, which model.safetensors.index.json places there"),
    ],
)
def test_an_index_that_points_elsewhere(tmp_path: Path, place: str | None, said: str) -> None:
    index = shards(tmp_path)
    name = "model.norm.weight"
    others = set(index["weight_map"].values()) - {index["weight_map"][name]}
    index["weight_map"][name] = place or min(others)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    with pytest.raises(ModelError, match=said):
        load(tmp_path)


def test_a_tensor_in_two_shards(tmp_path: Path) -> None:
    index = shards(tmp_path)
    places = index["weight_map"]
    twice = next(name for name in sorted(places) if places[name] != max(places.values()))
    last = tmp_path / max(places.values())
    save_file(load_file(last) | {twice: torch.zeros(2)}, last)
    with pytest.raises(ModelError, match=f"{twice} a second time"):
        load(tmp_path)


def test_an_index_without_tensors(tmp_path: Path) -> None:
    shards(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {}}', "utf-8")
    with pytest.raises(ModelError, match="names no tensors"):
        load(tmp_path)


def test_a_file_that_is_cut_off(copy_of: Folders) -> None:
    file = copy_of("llama") / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ModelError, match=r"damaged or cut off.*Fetch it again"):
        load(file.parent)


def test_a_pickle_is_never_opened(copy_of: Folders) -> None:
    folder = copy_of("llama")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"only as a pickle \(pytorch_model.bin\)"):
        load(folder)


def test_folders_that_are_no_models(tmp_path: Path, copy_of: Folders) -> None:
    with pytest.raises(ModelError, match="is not a folder"):
        load(tmp_path / "absent")
    with pytest.raises(ModelError, match=r"has no config.json"):
        load(tmp_path)
    folder = copy_of("llama")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="there are no weights to load"):
        load(folder)
    (folder / "config.json").write_text("{", "utf-8")
    with pytest.raises(ConfigError, match="is not JSON"):
        load(folder)


def test_float32_weights_are_mapped_and_not_copied(folder_of: Folders) -> None:
    """Tensors of the file lie behind one another in memory as they do in the file."""
    folder = folder_of("llama")
    file = folder / "model.safetensors"
    with safe_open(str(file), framework="pt") as opened:
        names = list(opened.offset_keys())
    size = int.from_bytes(file.read_bytes()[:8], "little")
    header = json.loads(file.read_bytes()[8 : 8 + size])
    decoder = load(folder)
    first, last = names[0], names[-1]
    at = {
        name: decoder.get_parameter(name.removeprefix("model.")).data_ptr()
        for name in (first, last)
    }
    apart = header[last]["data_offsets"][0] - header[first]["data_offsets"][0]
    assert at[last] - at[first] == apart
    assert not any(p.requires_grad for p in decoder.parameters())


def test_weights_are_converted_where_another_dtype_is_asked_for(folder_of: Folders) -> None:
    half = load(folder_of("llama"), dtype=torch.bfloat16)
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in load(folder_of("llama"), dtype=None).parameters()} == {torch.float32}


def test_every_weight_comes_from_the_file(folder_of: Folders) -> None:
    """Nothing is left as it was made: memory that nobody wrote to is NaN here."""
    decoder = load(folder_of("gemma3-untied"))
    assert all(bool(p.isfinite().all()) for p in decoder.parameters())
    files = TensorFiles(folder_of("gemma3-untied"))
    assert len(list(decoder.parameters())) == len(files.names())
    assert files.left_over() == files.names()
    assert "lm_head.weight" in files


# -- the config -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "fields", "error", "said"),
    [
        ("llama", {"model_type": "mamba"}, UnsupportedModelError,
         r"type 'mamba'; it runs llama, qwen3 and gemma3"),
        ("llama", {"model_type": ...}, UnsupportedModelError, r"type None"),
        ("llama", {"hidden_act": "relu2"}, UnsupportedModelError,
         r"no activation 'relu2'; it has silu, gelu"),
        ("llama", {"quantization_config": {"bits": 4}}, UnsupportedModelError,
         r"with a quantization_config"),
        ("gemma3", {"use_bidirectional_attention": True}, UnsupportedModelError,
         r"use_bidirectional_attention"),
        ("gemma3", {"attn_logit_softcapping": 50.0}, UnsupportedModelError,
         r"attn_logit_softcapping"),
        ("llama", {"hidden_size": ...}, ConfigError, r"'llama': the config has no field 'hidden_s"),
        ("qwen3", {"num_hidden_layers": ...}, ConfigError, r"no field 'num_hidden_layers'"),
        ("gemma3", {"intermediate_size": "wide"}, ConfigError,
         r"intermediate_size: expected a positive whole number, got 'wide'"),
        ("llama", {"rms_norm_eps": -1}, ConfigError, r"rms_norm_eps: expected a positive number"),
        ("llama", {"num_key_value_heads": 4}, ConfigError, r"heads: expected a multiple of the 4"),
        ("llama", {"rope_parameters": {"rope_type": "spiral", "rope_theta": 1e4}}, ConfigError,
         r"spiral"),
        ("llama", {"eos_token_id": "end"}, ConfigError, r"eos_token_id: expected an id or a list"),
    ],
)  # fmt: skip
def test_configs_that_the_decoder_cannot_run(
    copy_of: Folders, variant: str, fields: dict[str, Any], error: type[Exception], said: str
) -> None:
    folder = copy_of(variant)
    (folder / "generation_config.json").unlink()
    change_config(folder, **fields)
    with pytest.raises(error, match=said):
        load(folder)


@pytest.mark.parametrize("old", [False, True])
def test_the_text_part_of_a_model_that_reads_pictures(tmp_path: Path, old: bool) -> None:
    """Gemma 3 from 4B on; the names on the hub are older than those transformers writes now."""
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    text = small_config("gemma3")
    vision = {
        "model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 16,
        "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 16, "patch_size": 8,
    }  # fmt: skip
    config = Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    torch.manual_seed(0)
    model = Gemma3ForConditionalGeneration(config).eval()
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    begin = ("model.language_model.", "language_model.model.")
    renamed = {name.replace(*(begin if old else begin[::-1])): t for name, t in tensors.items()}
    assert any(name.startswith(begin[old]) for name in renamed)
    assert any("vision_tower" in name for name in renamed)
    save_file(renamed, tmp_path / "model.safetensors")
    decoder, ids = load(tmp_path), sample_ids(11)
    assert decoder.config.architecture == "Gemma3ForConditionalGeneration"
    with torch.no_grad():
        theirs = model(input_ids=ids).logits
        # the same operations in the same order; logits below 1
        torch.testing.assert_close(decoder(ids), theirs, rtol=1e-5, atol=1e-6)


def test_ends_come_from_the_generation_config_first(copy_of: Folders) -> None:
    folder = copy_of("llama")
    assert load(folder).config.ends == (2,)
    (folder / "generation_config.json").write_text('{"eos_token_id": [5, 7]}', "utf-8")
    assert load(folder).config.ends == (5, 7)
    (folder / "generation_config.json").unlink()
    change_config(folder, eos_token_id=...)
    assert load(folder).config.ends == ()


def test_what_a_config_leaves_out_is_what_its_family_says(copy_of: Folders) -> None:
    folder = copy_of("llama")
    change_config(folder, tie_word_embeddings=..., mlp_bias=..., hidden_act=...)
    assert isinstance(load(folder), Decoder)  # untied: its lm_head.weight has a place
    tied = copy_of("gemma3")
    change_config(tied, tie_word_embeddings=...)
    assert load(tied).config.tied
