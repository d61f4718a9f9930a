"""Engines: the sizes measured or computed by people who ran them, exactly."""

from __future__ import annotations

import pytest

from attnscope.plan import from_config, read
from attnscope.plan.engines import allocations, llamacpp, sglang, vllm
from attnscope.plan.engines import transformers as hf
from attnscope.plan.find import built_in_names
from attnscope.plan.numbers import FORMATS

MIB = 2**20


@pytest.mark.parametrize(
    ("name", "context", "options", "size"),
    [
        ("gemma-3-27b", 32_768, vllm.Options(), 7_222_067_200),
        ("gemma-3-27b", 32_768, vllm.Options(batched=2048), 4_202_168_320),
        ("gemma-3-27b", 32_768, vllm.Options(hybrid=False), 16_642_998_272),
        ("mistral-7b-v0.1", 32_768, vllm.Options(), 1_612_709_888),
        ("mistral-7b-v0.1", 32_768, vllm.Options(hybrid=False), 1_612_709_888),
        ("mistral-7b-v0.1", 32_768, vllm.Options(batched=2048), 807_403_520),
        ("llama-3-8b", 1_000, vllm.Options(), 63 * 16 * 131_072),
        ("llama-3-8b", 1_000, vllm.Options(block=64), 16 * 64 * 131_072),
        ("deepseek-v3", 1_000, vllm.Options(), 63 * 16 * 61 * 576 * 2),
        ("deepseek-v3.2", 1_000, vllm.Options(), 63 * 16 * 61 * (576 * 2 + 132)),
        ("qwen3.8-27b", 262_144, vllm.Options(), 17_366_515_712),
        ("qwen3.8-27b", 16, vllm.Options(), 205_520_896),
        ("qwen3.8-27b", 16, vllm.Options(mamba_mode="align"), 359_661_568),
    ],
)
def test_vllm_to_the_byte(name: str, context: int, options: vllm.Options, size: int) -> None:
    assert vllm.allocate(read(name), context=context, options=options).size == size


@pytest.mark.parametrize(
    ("name", "options", "times"),
    [
        ("mistral-7b-v0.1", vllm.Options(), 3.00),
        ("gpt-oss-20b", vllm.Options(), 1.25),
        ("gemma-2-9b", vllm.Options(), 1.22),
        ("gemma-3-27b", vllm.Options(), 2.31),
        ("gemma-3-27b", vllm.Options(batched=2048), 1.35),
        ("gemma-3-27b", vllm.Options(hybrid=False), 5.33),
    ],
)
def test_vllm_against_the_logical_size(name: str, options: vllm.Options, times: float) -> None:
    model = read(name)
    size = vllm.allocate(model, context=32_768, options=options).size
    assert size is not None
    # The factors are known to two digits after the point.
    assert size / model.bytes_at(32_768) == pytest.approx(times, abs=0.005)


JAMBA = {
    "model_type": "jamba", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_state": 16,
    "mamba_d_conv": 4, "mamba_expand": 2,
}  # fmt: skip
NEMOTRON_H = {
    "model_type": "nemotron_h", "hidden_size": 4096, "num_hidden_layers": 4,
    "hybrid_override_pattern": "M-M*", "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128,
    "n_groups": 8, "conv_kernel": 4,
}  # fmt: skip
KIMI = {
    "model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 4, "kv_lora_rank": 512,
    "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 72, "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128, "v_head_dim": 128,
    "linear_attn_config": {"kda_layers": [1, 2, 3], "full_attn_layers": [4], "num_heads": 32,
                           "head_dim": 128, "short_conv_kernel_size": 4},
}  # fmt: skip
MINIMAX = {
    "model_type": "minimax_text_01", "hidden_size": 6144, "num_hidden_layers": 8, "head_dim": 128,
    "num_attention_heads": 64, "num_key_value_heads": 8, "attn_type_list": [0] * 7 + [1],
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "block"),
    [(JAMBA, 144), (NEMOTRON_H, 1040), (KIMI, 1888), (MINIMAX, 512), (None, 1056)],
)
def test_vllms_blocks_of_hybrids(config: dict[str, object] | None, block: int) -> None:
    model = read("qwen3-next-80b-a3b") if config is None else from_config(config)
    found = vllm.allocate(model, context=10_000)
    assert f"(block {block})" in found.formula


def test_vllms_page_of_a_hybrid_is_padded_to_its_state() -> None:
    """3,207,168 B of state in a page of 784 tokens; with `all` a state per block."""
    model = read("qwen3.8-27b")
    found = vllm.allocate(model, context=262_144)
    assert "16 layers a group, page 3,211,264 B (block 784)" in found.formula
    state = next(one for one in vllm.specs(model.layers[0], FORMATS["bf16"], FORMATS["bf16"]))
    assert state.state == 3_207_168
    every = vllm.allocate(model, context=784 * 10, options=vllm.Options(mamba_mode="all"))
    assert every.size == 16 * 3_211_264 * 4 * 10


def test_vllms_chunks_have_no_block_more() -> None:
    """ceil(min(chunk + batched, T) / block): a window's W - 1 and spare block are not there."""
    chunked = from_config(
        {"model_type": "llama4_text", "hidden_size": 64, "num_hidden_layers": 4, "head_dim": 16,
         "num_attention_heads": 4, "num_key_value_heads": 2, "attention_chunk_size": 8192,
         "no_rope_layers": [1, 1, 1, 1]}
    )  # fmt: skip
    page = 4 * 16 * 2 * 2 * 16 * 2
    for tokens, blocks in ((1_000, 63), (100_000, 1024)):
        assert vllm.allocate(chunked, context=tokens).size == blocks * page


@pytest.mark.parametrize("name", ["gemma-3-27b", "qwen3.8-27b", "deepseek-v3.2", "llama-3-8b"])
def test_the_longest_request_in_vllms_pool(name: str) -> None:
    """It fits, and one token more does not; a whole block later at the latest."""
    model = read(name)
    for available in (5 * 10**9, 30 * 10**9 + 7):
        found = vllm.longest(model, available)
        assert found is not None
        sizes = [vllm.allocate(model, context=found + more).size or 0 for more in (0, 1)]
        assert sizes[0] <= available < sizes[1]
    assert vllm.longest(read("mistral-7b-v0.1"), 2 * 10**9) is None
    assert vllm.longest(model, 100) == 0
    with pytest.raises(NotImplementedError, match="compressed"):
        vllm.longest(read("deepseek-v4-flash"), 10**9)


def test_sglang_divides_what_there_is() -> None:
    """Full and sliding tokens share by the ratio; states take 0.9 of 1.9 parts, less a slot."""
    full, sliding = 81_920, 52 * 8192
    tokens, part = sglang.mixed_tokens(10**10, full, sliding, page=64)
    assert tokens == int(10**10 / (full + 0.8 * sliding)) // 64 * 64
    assert part == int(tokens * 0.8) // 64 * 64
    assert tokens * full + part * sliding <= 10**10
    assert tokens % 64 == part % 64 == 0
    slot = 150_994_944 + 2_949_120
    assert sglang.state_slots(19 * slot, slot) == 8
    assert sglang.state_slots(slot, slot) == 0


def test_what_vllm_does_not_keep_is_a_reason_and_no_number() -> None:
    for name, kv_dtype in (("llama-3-8b", "int4"), ("deepseek-v4-flash", None)):
        found = vllm.allocate(read(name), context=1000, kv_dtype=kv_dtype)
        assert found.size is None
        assert found.formula
    two = {
        "model_type": "gemma4_text", "hidden_size": 64, "num_hidden_layers": 6, "head_dim": 16,
        "num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": 8,
        "global_head_dim": 24,
    }  # fmt: skip
    assert vllm.allocate(from_config(two), context=100).size is None


def test_int8_has_a_scale_for_each_token_and_head() -> None:
    found = vllm.allocate(read("llama-3-8b"), context=1600, kv_dtype="int8")
    assert found.size == 1600 * 32 * (8 * 256 + 2 * 8 * 4)
    assert vllm.allocate(read("deepseek-v3"), context=16, kv_dtype="int8").size is None


def test_fp8_of_models_with_an_indexer() -> None:
    model = read("deepseek-v3.2")
    tokens = 64 * 100
    assert vllm.allocate(model, context=tokens, kv_dtype="fp8").size == tokens * 61 * (656 + 132)
    assert sglang.allocate(model, context=tokens, kv_dtype="fp8").size == (
        (tokens + 64) * 61 * (656 + 132)
    )


def test_sglang_pools() -> None:
    assert sglang.pool_tokens(10**9, 131_072, 64) == 10**9 // 131_072 // 64 * 64
    llama = sglang.allocate(read("llama-3-8b"), context=1000, options=sglang.Options(page=64))
    assert llama.size == (1024 + 64) * 131_072
    mixed = dict(sglang.allocate(read("gemma-3-27b"), context=1000, batch=2).parts)
    assert mixed["full"] == 2001 * 81_920
    assert mixed["sliding"] == 1601 * 52 * 8192
    hybrid = dict(sglang.allocate(read("qwen3.8-27b"), context=100, batch=3).parts)
    assert hybrid["states"] == 4 * (150_994_944 + 2_949_120)


@pytest.mark.parametrize(
    ("name", "tokens", "sequences", "options", "kind", "mib"),
    [
        ("llama-3-8b", 1000, 1, {}, "fp16", {"full": 128}),
        ("llama-3-8b", 333, 3, {}, "fp16", {"full": 192}),
        ("llama-3-8b", 333, 3, {"unified": True}, "fp16", {"full": 128}),
        ("llama-3-8b", 32_768, 1, {}, "int8", {"full": 2176}),
        ("llama-3-8b", 32_768, 1, {}, "int4", {"full": 1152}),
        ("gemma-3-270m", 32_768, 1, {}, "fp16", {"full": 96, "sliding": 15}),
        ("gemma-3-27b", 32_768, 1, {}, "fp16", {"full": 2560, "sliding": 624}),
        ("gemma-3-27b", 8192, 4, {}, "fp16", {"full": 2560, "sliding": 2496}),
        ("gemma-3-27b", 8192, 4, {"unified": True}, "fp16", {"full": 2560, "sliding": 1872}),
        ("gemma-3-27b", 8192, 1, {"swa_full": True}, "fp16", {"full": 640, "sliding": 3328}),
        ("deepseek-v2", 32_768, 1, {}, "fp16", {"full": 2160}),
        ("qwen3.8-27b", 32_768, 1, {}, "fp16", {"full": 2048, "state": 144, "convolution": 5.625}),
        ("qwen3.8-27b", 16_384, 2, {}, "fp16", {"full": 2048, "state": 288, "convolution": 11.25}),
    ],
)  # fmt: skip
def test_llamacpp_as_measured(
    name: str, tokens: int, sequences: int, options: dict[str, bool], kind: str,
    mib: dict[str, float],
) -> None:  # fmt: skip
    found = llamacpp.buffers(
        read(name), context=tokens, batch=sequences, name=kind, options=llamacpp.Options(**options)
    )
    assert {key: size / MIB for key, size in found.items()} == mib


def test_an_independent_log_of_llamacpp() -> None:
    """16,384 MiB at 262,144 cells, and 598.50 MiB for 4 slots, as a stranger's log has it."""
    parts = llamacpp.buffers(
        read("qwen3.8-27b"), context=65_536, batch=4, name="fp16", options=llamacpp.Options()
    )
    assert parts["full"] == 16_384 * MIB
    assert parts["state"] + parts["convolution"] == 598.5 * MIB


def test_transformers_views_and_storage() -> None:
    """A prefill of 1,000 tokens leaves a view of 127 tokens on the storage of all of them."""
    model = read("gpt-oss-20b")
    sliding = next(layer for layer in model.layers if layer.kind == "sliding")
    one = type(model)(name="one", architecture="gpt_oss", width=2880, layers=(sliding,))
    assert hf.held_bytes(one, 1000) == 2 * 130_048
    assert hf.prefill_storage(one, 1000) == 2 * 1_024_000
    assert hf.held_bytes(one, 1001) == 2 * 130_048


FOREIGN = ("deepseek-v4.1-flash", "kimi-k2")
"""Of a type that the library has not."""


@pytest.mark.parametrize("name", sorted(set(built_in_names()) - set(FOREIGN)))
def test_quantised_caches_are_those_that_the_library_makes(name: str) -> None:
    """Its QuantizedCache refuses models whose layers are not all full; so there is no number."""
    transformers = pytest.importorskip("transformers")
    model = read(name)
    drop = ("architectures", "torch_dtype", "dtype", "model_type")
    fields = {k: v for k, v in model.fields.items() if v is not None and k not in drop}
    config = transformers.AutoConfig.for_model(model.architecture, **fields)
    found = hf.allocate(model, context=10, kv_dtype="fp8")
    try:
        transformers.QuantizedCache("fp8", config)
    except ValueError:
        assert found.size is None
        assert "full layers alone" in found.formula
    else:
        assert found.size == model.bytes_at(10, kv_dtype="fp8")


def test_an_fp8_cache_weighs_what_is_said() -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "head_dim": 16}  # fmt: skip
    cache = transformers.QuantizedCache("fp8", transformers.LlamaConfig(**sizes))
    for tokens in (30, 1, 1):
        states = torch.ones(3, 2, tokens, 16, dtype=torch.bfloat16)
        for layer in range(2):
            cache.update(states, states, layer)
    held = sum(
        one[0].untyped_storage().nbytes()
        for layer in cache.layers
        for one in (layer._quantized_keys, layer._quantized_values)
    )
    found = hf.allocate(
        from_config({"model_type": "llama", **sizes}), context=32, batch=3, kv_dtype="fp8"
    )
    assert found.size == held


def test_transformers_caches_are_in_the_activations_format() -> None:
    model = read("llama-3-8b")
    assert hf.allocate(model, context=10, kv_dtype="fp32").size is None
    assert hf.allocate(model, context=10, dtype="fp32").size == 2 * model.bytes_at(10)
    assert "127 more wait" in hf.allocate(model, context=10, kv_dtype="int4").formula


def test_transformers_answers_for_its_own_families_alone() -> None:
    for name in FOREIGN:
        found = hf.allocate(read(name), context=100)
        assert found.size is None
        assert "no model type" in found.formula
    for name in ("deepseek-v4-flash", "gemma-3-27b", "qwen3.8-27b"):
        assert hf.allocate(read(name), context=100).size


def test_every_engine_answers_or_says_why() -> None:
    for name in ("llama-3-8b", "deepseek-v4.1-flash", "qwen3-next-80b-a3b", "glm-5.3"):
        for kv_dtype in (None, "fp8", "int4"):
            for found in allocations(read(name), context=5000, batch=2, kv_dtype=kv_dtype):
                assert found.formula
                assert found.version
                assert found.size is None or found.size > 0
                if found.size is not None and found.parts and found.engine != "transformers":
                    batch = 2 if found.engine == "vllm" else 1
                    assert sum(size for _, size in found.parts) * batch == found.size
