"""FLOPs and bytes read: against torch's counter on the meta device, and by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from attnscope.plan import from_config, read
from attnscope.plan.devices import DEVICES, find_device
from attnscope.plan.flops import causal_pairs, chunked_pairs, cost, decode_bytes, entry_pairs

DENSE = {
    "llama-3-8b": 2_199_023_255_552,
    "qwen3-0.6b": 962_072_674_304,
    "deepseek-v3": 20_959_440_404_480,
    "gemma-3-27b": 4_260_607_557_632,
}
DECODE = {
    "llama-3-8b": 1_074_266_112,
    "qwen3-0.6b": 469_991_424,
    "gemma-3-27b": 1_208_123_392,
}


@pytest.mark.parametrize("name", DENSE)
def test_dense_prefill(name: str) -> None:
    assert cost(read(name), context=2048).prefill_dense == DENSE[name]


@pytest.mark.parametrize("name", DECODE)
def test_decode_step(name: str) -> None:
    assert cost(read(name), context=2049).decode_step == DECODE[name]


def test_mla_both_ways() -> None:
    found = cost(read("deepseek-v3"), context=2049)
    assert found.variant == "absorbed"
    assert found.decode_step == 61 * 2 * 128 * 2049 * (576 + 512)
    assert found.decode_expanded == 10_239_098_880
    assert found.decode_reexpansion == 4_193_934_901_248


def test_exact_prefill_of_windows_by_hand() -> None:
    assert cost(read("gemma-3-27b"), context=2048).prefill == 1_684_231_159_808
    half = cost(read("llama-3-8b"), context=2048)
    assert half.prefill == 4 * 32 * 32 * 128 * 2048 * 2049 // 2


def test_pairs_by_counting() -> None:
    for tokens, most in product(range(1, 30), (1, 2, 5, 17)):
        rows = range(1, tokens + 1)
        assert causal_pairs(tokens, most) == sum(min(i, most) for i in rows)
        assert chunked_pairs(tokens, most) == sum((i - 1) % most + 1 for i in rows)
        for ratio in (1, 2, 4):
            assert entry_pairs(tokens, ratio) == sum(i // ratio for i in rows)
            assert entry_pairs(tokens, ratio, most) == sum(min(i // ratio, most) for i in rows)


SHRUNK = ("llama-3-8b", "qwen3-0.6b", "gemma-3-27b", "deepseek-v3")


@pytest.mark.slow
@pytest.mark.parametrize("name", SHRUNK)
def test_against_torchs_counter(name: str) -> None:
    """Four layers of the real model on the meta device: bmm's FLOPs are attention's, no others."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from torch.utils.flop_counter import FlopCounterMode

    fields: dict[str, Any] = {k: v for k, v in read(name).fields.items() if v is not None}
    fields |= {"num_hidden_layers": 4, "vocab_size": 128}
    fields.pop("layer_types", None)
    fields.pop("sliding_window_pattern", None)
    if "first_k_dense_replace" in fields:
        fields |= {"first_k_dense_replace": 4}  # experts are no attention
    plan = from_config(fields)
    kind = fields.pop("model_type")
    drop = ("architectures", "torch_dtype", "dtype")
    config = transformers.AutoConfig.for_model(
        kind, **{k: v for k, v in fields.items() if k not in drop}
    )
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation="eager", dtype=torch.bfloat16
        )
    ids = torch.zeros(1, 512, dtype=torch.long, device="meta")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        # With a mask given, nobody looks at values, of which the meta device has none.
        model(ids, attention_mask=torch.ones_like(ids), use_cache=False)
    counts = counter.get_flop_counts()["Global"]
    counted = counts[torch.ops.aten.bmm]
    assert counted == cost(plan, context=512).prefill_dense
    assert counted != cost(plan, context=511).prefill_dense


def test_indexer_is_apart() -> None:
    dense, sparse = (
        cost(read("deepseek-v3"), context=50_000),
        cost(read("deepseek-v3.2"), context=50_000),
    )
    assert sparse.indexer_decode == 61 * 2 * 64 * 128 * 50_000
    assert sparse.indexer_prefill == 61 * 2 * 64 * 128 * causal_pairs(50_000)
    assert sparse.decode_step == 61 * 2 * 128 * 2048 * (576 + 512)
    assert dense.indexer_prefill == 0
    # Below the top-k, the selection selects everything.
    short = cost(read("deepseek-v3.2"), context=2000)
    assert short.prefill == cost(read("deepseek-v3"), context=2000).prefill


def test_shared_indexers_scan_once() -> None:
    found = cost(read("glm-5.3"), context=10_000)
    assert found.indexer_decode == 21 * 2 * 32 * 128 * 10_000


def test_bytes_read_and_intensity() -> None:
    model = read("llama-3-8b")
    assert decode_bytes(model, 1000) == model.bytes_at(1000)
    # H query heads share each of G keys and values: 2 H/G multiply-adds for 2 bytes each.
    assert cost(model, context=1000).intensity == pytest.approx(32 / 8)
    sparse = read("deepseek-v3.2")
    assert decode_bytes(sparse, 50_000) == 61 * (2048 * 1152 + 50_000 * 256)
    assert decode_bytes(read("gemma-3-270m"), 10_000) == read("gemma-3-270m").bytes_at(10_000)


def test_a_shared_layer_reads_its_owner() -> None:
    base = {
        "model_type": "gemma3n_text", "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8, "num_hidden_layers": 10,
    }  # fmt: skip
    own, shared = (
        from_config({**base, "num_kv_shared_layers": 0}),
        from_config({**base, "num_kv_shared_layers": 5}),
    )
    assert shared.bytes_at(100) < own.bytes_at(100)
    assert decode_bytes(shared, 100) == decode_bytes(own, 100)


def test_recurrences_grow_with_the_length_only_in_prefill() -> None:
    one, two = (cost(read("qwen3.8-27b"), context=n) for n in (1000, 2000))
    assert two.recurrence_prefill == 2 * one.recurrence_prefill
    assert two.recurrence_decode == one.recurrence_decode > 0


def test_devices() -> None:
    assert find_device("H100").ridge == pytest.approx(989e12 / 3.35e12)
    with pytest.raises(ValueError, match="h100"):
        find_device("abacus")
    assert all(one.ridge > 1 for one in DEVICES.values())


def test_absurd_lengths() -> None:
    with pytest.raises(ValueError, match="context"):
        cost(read("llama-3-8b"), context=0)
