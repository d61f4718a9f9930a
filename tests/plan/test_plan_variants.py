"""What-if, fits and engines where one factor or one exception could be forgotten, by hand.

The engines' rules are those of their sources: vllm/v1/kv_cache_interface.py and
vllm/v1/core/kv_cache_utils.py (commit 001cabc1be16), SGLang 0.5.23's pool_configurator.py and
memory_pool.py, llama.cpp's llama-kv-cache.cpp, -iswa.cpp and -dsa.cpp.
"""

from __future__ import annotations

from typing import Any

import pytest

from attnscope.plan import from_config, kinds, read
from attnscope.plan.engines import llamacpp, sglang, vllm
from attnscope.plan.engines import transformers as hf
from attnscope.plan.fit import largest_context, parse_bytes
from attnscope.plan.model import Heads, Indexer, Latent, Layer, Model
from attnscope.plan.numbers import FORMATS
from attnscope.plan.what_if import schemes, with_heads, with_latent, with_share, with_window

SIZES: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16,
}  # fmt: skip
HYBRID = {
    **SIZES, "model_type": "falcon_h1", "mamba_n_heads": 6, "mamba_d_head": 8, "mamba_d_state": 5,
    "mamba_n_groups": 3, "mamba_d_conv": 4, "mamba_d_ssm": 48,
}  # fmt: skip
SHARING = {**SIZES, "model_type": "gemma3n_text", "num_hidden_layers": 10, "sliding_window": 8,
           "num_kv_shared_layers": 5}  # fmt: skip
CHUNKED = {**SIZES, "model_type": "llama4_text", "attention_chunk_size": 8192,
           "no_rope_layers": [1, 1, 1, 0, 1, 1]}  # fmt: skip
MLA = Latent(rank=11, rope=3, nope=4, v=5)


def of(*layers: Layer, architecture: str = "none") -> Model:
    return Model(name="one", architecture=architecture, width=8, layers=layers)


def test_a_scheme_leaves_alone_what_it_does_not_describe() -> None:
    """Windows of K = V, compressed layers, mixers side by side, and layers that read another's."""
    for model in (read("deepseek-v4-flash"), from_config(HYBRID)):
        assert with_heads(model, 1).layers == model.layers
        assert with_latent(model).layers == model.layers
    shared = [one for one in with_heads(from_config(SHARING), 1).layers if one.kind == "shared"]
    assert len(shared) == 5
    assert not any(one.stores for one in shared)


def test_a_scheme_keeps_chunks_and_windows() -> None:
    changed = with_heads(from_config(CHUNKED), 1)
    assert [one.kind for one in changed.layers] == ["chunked"] * 3 + ["full"] + ["chunked"] * 2
    gemma = read("gemma-3-27b")
    # 52 of 62 layers keep 1,024 tokens, as one latent and one rotary key in 2 bytes each.
    assert with_latent(gemma).kv(context=10**5).capped_bytes == 52 * 1024 * 576 * 2
    sliding = of(kinds.latent(0, 4, MLA, window=5))
    assert sliding.bytes_at(100) == 5 * (11 + 3) * 2
    assert with_latent(sliding, expanded=True).bytes_at(100) == 5 * 4 * (4 + 3 + 5) * 2
    assert with_share(of(kinds.latent(0, 4, MLA)), 0, 1, window=5).bytes_at(100) == 5 * 14 * 2


def test_a_share_of_full_layers_is_spread() -> None:
    model = with_share(of(*[kinds.attention(i, Heads(4, 2, 7, 5)) for i in range(10)]), 2, 5,
                       window=6)  # fmt: skip
    assert [one.index for one in model.layers if one.kind == "full"] == [2, 4, 7, 9]
    assert {one.window for one in model.layers} == {6, None}
    gemma = with_share(read("gemma-3-27b"), 1, 2, window=64)
    assert {one.window for one in gemma.layers} == {64, None}


def test_rows_of_schemes_say_what_a_token_adds_past_the_windows() -> None:
    rows = {one.scheme: one for one in schemes(read("gemma-3-27b"), context=10**5)}
    assert rows["as published"].per_token_bytes == 10 * 2 * 16 * 128 * 2
    assert rows["MHA"].per_token_bytes == 10 * 2 * 32 * 128 * 2


def test_what_fits_is_counted_for_the_whole_batch() -> None:
    found = largest_context(read("llama-3-8b"), 10**10, batch=4)
    assert found.tokens == 10**10 // 4 // 131_072
    assert found.bytes_used == 4 * 131_072 * found.tokens


def test_what_fits_where_windows_and_groups_do_not_meet() -> None:
    """Every budget up to a length past all corners: what fits does, and a token more does not."""
    sizes: dict[str, Any] = {"query_heads": 4, "width": 3}
    model = of(
        kinds.compressed(0, window=5, ratio=4, indexer=Indexer(2, 1, 3), **sizes),
        kinds.compressed(1, window=9, ratio=6, indexer=None, **sizes),
        kinds.attention(2, Heads(2, 1, 1, 1), window=7),
    )
    for budget in range(model.bytes_at(1), model.bytes_at(40)):
        tokens = largest_context(model, budget).tokens
        assert tokens is not None
        assert model.bytes_at(tokens) <= budget < model.bytes_at(tokens + 1)


def test_the_units_of_bytes() -> None:
    decimal = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
    binary = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "K": 2**10, "M": 2**20,
              "G": 2**30}  # fmt: skip
    for unit, size in {**decimal, **binary}.items():
        assert parse_bytes(f"3{unit}") == 3 * size, unit


def test_transformers_storage_is_of_every_sequence() -> None:
    one, three = (hf.allocate(read("gemma-3-27b"), context=5000, batch=n) for n in (1, 3))
    assert one.size is not None
    assert three.size == 3 * one.size
    assert dict(three.parts)["after prefill"] == 3 * dict(one.parts)["after prefill"]
    # After one prefill, a sliding layer's 1,023 tokens are a view of all 5,000.
    assert dict(one.parts)["after prefill"] == 62 * 5000 * 2 * 16 * 128 * 2


@pytest.mark.parametrize("window", [1, 2, 5])
def test_a_window_is_what_the_librarys_own_layer_holds(window: int) -> None:
    """Of a window of 1 it cuts "from -0 on", and so keeps every token."""
    torch = pytest.importorskip("torch")
    cache_utils = pytest.importorskip("transformers.cache_utils")
    layer = cache_utils.DynamicSlidingWindowLayer(sliding_window=window)
    model = of(kinds.attention(0, Heads(4, 2, 7, 7), window=window))
    for more, tokens in ((3, 3), (1, 4), (1, 5), (8, 13)):
        new = torch.zeros(1, 2, more, 7, dtype=torch.bfloat16)
        layer.update(new, new)
        held = sum(one.numel() * one.element_size() for one in (layer.keys, layer.values))
        assert hf.held_bytes(model, tokens) == held


def test_vllms_groups_when_sorts_are_uneven() -> None:
    """The larger count makes the group only where it is less than 1.5 times the smaller."""
    full, sliding = vllm.Spec("full", token=32), vllm.Spec("sliding", token=32, window=64)

    def pages(fulls: int, slidings: int, tokens: int = 160) -> float:
        layers = [full] * fulls + [sliding] * slidings
        return vllm.request_bytes(layers, tokens, vllm.Options())[0] / (16 * 32)

    # 160 tokens are 10 blocks; a window of 64 with 8,192 batched tokens keeps all of them, and one.
    assert pages(4, 5) == 5 * (10 + 11)
    assert pages(4, 6) == 4 * (10 + 2 * 11)
    assert pages(4, 9) == 4 * (10 + 3 * 11)
    assert pages(4, 4) == 4 * (10 + 11)


def test_vllms_windows_keep_one_less_and_its_chunks_all() -> None:
    """ceil(min(W - 1 + batched, T) / block) + 1 blocks, and ceil(min(C + batched, T) / block)."""
    options = vllm.Options(batched=16)
    for window, blocks in ((17, 3), (18, 4)):
        one = vllm.Spec("sliding", token=32, window=window)
        assert vllm.blocks_of(one, 10**6, 16, options) == blocks
    for chunk, blocks in ((16, 2), (17, 3)):
        assert vllm.blocks_of(vllm.Spec("chunked", window=chunk), 10**6, 16, options) == blocks


def test_vllms_pages_of_two_widths() -> None:
    """The narrow layer's block is as many times longer as its token is smaller."""
    layers = [vllm.Spec("full", token=64), vllm.Spec("sliding", token=32, window=8)]
    size, _ = vllm.request_bytes(layers, 320, vllm.Options())
    # Pages of 16 x 64 bytes: 20 blocks of 16 tokens, and 10 of 32 with one to spare.
    assert size == 16 * 64 * (20 + 11)


def test_vllms_states_without_attention_and_beside_it() -> None:
    states = [vllm.Spec("state", state=100), vllm.Spec("state", state=60)]
    assert vllm.request_bytes([*states, states[0]], 999, vllm.Options())[0] == 260
    # A state smaller than a page of 16 tokens leaves the block as it is.
    beside = [vllm.Spec("full", token=32), vllm.Spec("state", state=100)]
    for block, page in ((16, 512), (64, 2048)):
        size, _ = vllm.request_bytes(beside, block, vllm.Options(block=block))
        assert size == page * (1 + 1)
    off = vllm.Options(hybrid=False)
    assert vllm.request_bytes(beside, 16, off) == vllm.request_bytes(beside, 16, vllm.Options())


def test_vllms_states_stay_in_the_activations_format() -> None:
    (one,) = vllm.specs(read("qwen3.8-27b").layers[0], FORMATS["fp8"], FORMATS["bf16"])
    assert one == vllm.Spec("state", state=3_207_168)
    (two,) = vllm.specs(kinds.latent(0, 4, MLA, window=5), FORMATS["bf16"], FORMATS["bf16"])
    assert two == vllm.Spec("sliding", token=2 * (11 + 3), window=5)


def test_sglangs_pools_of_chunks_windows_and_pages() -> None:
    page = sglang.Options(page=64)
    mixed = dict(sglang.allocate(from_config(CHUNKED), context=100, batch=3, options=page).parts)
    # Each request has whole pages: 3 x 128 tokens; 0.8 of that is 4 pages and a bit.
    assert mixed == {"full": (384 + 64) * 128, "sliding": (4 * 64 + 64) * 5 * 128}
    mistral = sglang.allocate(read("mistral-7b-v0.1"), context=1000)
    assert mistral.size == 1001 * 131_072
    indexed = sglang.allocate(read("deepseek-v3.2"), context=1000)
    assert indexed.size == (1024 + 64) * 61 * (576 * 2 + 132)


def test_llamacpps_chunks_indexers_and_widest_values() -> None:
    """8,192 tokens a chunk, whatever the file says; f16; the indexer's cells for every slot."""
    short = {**CHUNKED, "attention_chunk_size": 64}
    found = dict(llamacpp.allocate(from_config(short), context=20_000).parts)
    assert found == {"full": 20_224 * 128, "sliding": 5 * (8192 + 512) * 128}
    indexed = dict(llamacpp.allocate(read("deepseek-v3.2"), context=256, batch=3).parts)
    assert indexed["indexer"] == 3 * 256 * 61 * 128 * 2
    two = of(kinds.attention(0, Heads(4, 2, 16, 16)), kinds.attention(1, Heads(4, 4, 16, 16)))
    off = llamacpp.Options(flash_attention=False)
    assert llamacpp.allocate(two, context=256).size == 256 * 2 * (32 + 32 + 64 + 64)
    assert llamacpp.allocate(two, context=256, options=off).size == 256 * 2 * (32 + 64 + 64 + 64)


def test_llamacpp_reads_the_windows_of_some_architectures_alone() -> None:
    layer = kinds.attention(0, Heads(4, 2, 16, 16), window=8)
    sizes = [llamacpp.allocate(of(layer, architecture=name), context=9000).size
             for name in ("gemma2", "mistral", "none")]  # fmt: skip
    assert sizes == [768 * 128, 9216 * 128, None]


@pytest.mark.parametrize("name", ["gemma-3-27b", "gpt-oss-20b", "deepseek-v4-flash"])
def test_another_window_is_the_config_with_another_window(name: str) -> None:
    model = read(name)
    changed = with_window(model, 64)
    said = from_config({**model.fields, "sliding_window": 64})
    assert changed.layers == said.layers
    assert hf.held_bytes(changed, 1001) == hf.held_bytes(said, 1001)
    with pytest.raises(ValueError, match="window"):
        with_window(model, 0)
