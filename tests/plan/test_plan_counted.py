"""FLOPs of each kind of layer by counting: pairs one by one, and a recurrence run on numbers that
count what is done with them."""

from __future__ import annotations

from typing import Any

import pytest

from attnscope.plan import from_config, kinds
from attnscope.plan.flops import cost
from attnscope.plan.model import Heads, Indexer, Latent, Layer, Model

HEADS, MLA = Heads(4, 2, 7, 5), Latent(rank=11, rope=3, nope=4, v=5)
PICKS, READS = Indexer(3, 13, 6), Indexer(3, 13, 6, own=False)
SPARSE: dict[str, Any] = {"query_heads": 4, "width": 9, "window": 5, "ratio": 2}

LAYERS = {
    "full": kinds.attention(0, HEADS),
    "sliding": kinds.attention(0, HEADS, window=5),
    "chunked": kinds.attention(0, HEADS, window=5, chunked=True),
    "full, indexer": kinds.with_indexer(kinds.attention(0, HEADS), PICKS),
    "narrow sliding, indexer": kinds.with_indexer(kinds.attention(0, HEADS, window=5), PICKS),
    "wide sliding, indexer": kinds.with_indexer(kinds.attention(0, HEADS, window=8), PICKS),
    "latent": kinds.latent(0, 4, MLA),
    "latent, sliding": kinds.latent(0, 4, MLA, window=5),
    "latent, expanded": kinds.latent(0, 4, MLA, expanded=True),
    "latent, indexer": kinds.with_indexer(kinds.latent(0, 4, MLA), PICKS),
    "latent, another's indexer": kinds.with_indexer(kinds.latent(0, 4, MLA), READS),
    "compressed": kinds.compressed(0, indexer=PICKS, **SPARSE),
    "heavily compressed": kinds.compressed(0, indexer=None, **SPARSE),
}


def of(*layers: Layer) -> Model:
    return Model(name="one", architecture="none", width=8, layers=layers)


def seen(layer: Layer, row: int) -> tuple[int, int]:
    """What row `row` (from 1) attends to, and what an indexer of its own looks through."""
    tokens = [key for key in range(1, row + 1) if layer.window is None or key > row - layer.window]
    if layer.kind == "chunked" and layer.window:
        first = (row - 1) // layer.window * layer.window
        tokens = list(range(first + 1, row + 1))
    whole = [end for end in range(1, row + 1) if end % layer.every == 0]
    entries = whole if layer.every > 1 else []
    looked = len(whole) if layer.indexer is not None and layer.indexer.own else 0
    if layer.indexer is None:
        return len(tokens) + len(entries), looked
    most = layer.indexer.topk
    if layer.every > 1:  # the window is always there; entries are picked
        return len(tokens) + min(len(entries), most), looked
    return min(len(tokens), most), looked


@pytest.mark.parametrize("tokens", [1, 4, 5, 6, 7, 11, 12, 13, 14, 30])
@pytest.mark.parametrize("name", LAYERS)
def test_pairs_counted_one_by_one(name: str, tokens: int) -> None:
    layer = LAYERS[name]
    assert layer.heads is not None
    found = cost(of(layer), context=tokens)
    rows = [seen(layer, row) for row in range(1, tokens + 1)]
    pair = 2 * layer.heads.query * (layer.heads.qk + layer.heads.v)
    assert found.prefill == pair * sum(one for one, _ in rows)
    scan = 2 * PICKS.heads * PICKS.width
    assert found.indexer_prefill == scan * sum(looked for _, looked in rows)
    assert found.indexer_decode == scan * rows[-1][1]
    kept = layer.latent is not None and layer.kind != "mla-expanded"
    assert found.variant == ("absorbed" if kept else "expanded")
    if kept:
        # The latent is key and value of every head: R + rope numbers of a key, R of a value.
        assert found.decode_step == 2 * 4 * (11 + 3 + 11) * rows[-1][0]
        assert found.decode_expanded == pair * rows[-1][0]
        held = tokens if layer.window is None else min(tokens, layer.window)
        assert found.decode_reexpansion == 2 * 11 * 4 * (4 + 5) * held
    else:
        assert found.decode_step == pair * rows[-1][0]
        assert found.decode_reexpansion == 0


def test_bytes_that_a_step_reads_by_hand() -> None:
    """Every index key; of entries and of tokens no more than are picked; a window whole (2 B)."""

    def read(name: str, tokens: int) -> int:
        return cost(of(LAYERS[name]), context=tokens).decode_bytes

    assert read("full, indexer", 30) == 2 * (6 * 2 * (7 + 5) + 30 * 13)
    assert read("latent, indexer", 30) == 2 * (6 * (11 + 3) + 30 * 13)
    assert read("latent, another's indexer", 30) == 2 * 6 * (11 + 3)
    assert read("latent, another's indexer", 4) == 2 * 4 * (11 + 3)
    assert read("compressed", 30) == 2 * (5 * 9 + 6 * 9 + 15 * 13)
    assert read("compressed", 7) == 2 * (5 * 9 + 3 * 9 + 3 * 13)
    assert read("heavily compressed", 30) == 2 * (5 * 9 + 15 * 9)


@pytest.mark.parametrize(("indexer", "index_keys"), [(PICKS, 15), (READS, 0)])
def test_a_reader_of_entries_reads_its_own_window(indexer: Indexer, index_keys: int) -> None:
    """And of its owner the entries alone, with the index keys only where it picks anew."""
    owner = LAYERS["compressed"]
    reader = kinds.compressed(1, indexer=indexer, owner=0, **SPARSE)
    both, alone = (cost(of(*layers), context=30) for layers in ((owner, reader), (owner,)))
    assert both.decode_bytes - alone.decode_bytes == 2 * (5 * 9 + 6 * 9 + index_keys * 13)


def test_intensity_counts_all_that_a_step_does() -> None:
    found = cost(of(LAYERS["full, indexer"], kinds.mamba2(
        1, heads=2, head_width=3, states=5, groups=1, taps=4)), context=30)  # fmt: skip
    done = found.decode_step + found.indexer_decode + found.recurrence_decode
    assert min(found.decode_step, found.indexer_decode, found.recurrence_decode) > 0
    assert found.intensity == done / found.decode_bytes


class Tally:
    """A number that counts what is done with it: every product and every sum is one FLOP."""

    done = 0

    def __mul__(self, other: Tally) -> Tally:
        Tally.done += 1
        return Tally()

    __add__ = __sub__ = __mul__


def numbers(*shape: int) -> Any:
    return [numbers(*shape[1:]) for _ in range(shape[0])] if shape else Tally()


def decayed(state: Any, decay: Tally) -> Any:
    return [[one * decay for one in row] for row in state]


def read_with(state: Any, vector: Any) -> Any:
    """One multiply-add for each number of the state, each 2 FLOPs."""
    out = numbers(len(state[0]))
    for row, factor in zip(state, vector, strict=True):
        out = [total + one * factor for total, one in zip(out, row, strict=True)]
    return out


def with_outer(state: Any, left: Any, right: Any) -> Any:
    return [
        [one + a * b for one, b in zip(row, right, strict=True)]
        for row, a in zip(state, left, strict=True)
    ]


def convolved(channels: int, taps: int) -> None:
    for _ in range(channels):
        total = Tally()
        for _ in range(taps):
            total = total + Tally() * Tally()


def one_token(name: str, heads: int, keys: int, values: int) -> int:
    """FLOPs of one token through `heads` states of keys x values, done one by one."""
    Tally.done = 0
    for _ in range(heads):
        state = decayed(numbers(keys, values), Tally())
        value = numbers(values)
        if name == "delta":
            # The error against what the state says; its few subtractions are not counted.
            read_with(state, numbers(keys))
        read_with(with_outer(state, numbers(keys), value), numbers(keys))
    return Tally.done


def test_recurrences_done_one_by_one() -> None:
    delta = kinds.delta(0, "kda", key_heads=2, value_heads=6, key_width=5, value_width=7, taps=4)
    linear = kinds.linear(0, heads=6, key_width=5, value_width=7)
    mamba2 = kinds.mamba2(0, heads=6, head_width=7, states=5, groups=3, taps=4)
    short = kinds.convolution(0, channels=11, taps=4)
    channels = {"delta": 2 * 2 * 5 + 6 * 7, "linear": 0, "mamba2": 6 * 7 + 2 * 3 * 5, "short": 11}
    for layer, name in ((delta, "delta"), (linear, "linear"), (mamba2, "mamba2"), (short, "short")):
        done = one_token(name, 0 if name == "short" else 6, 5, 7)
        Tally.done = 0
        convolved(channels[name], 4)
        assert layer.state_flops == done + Tally.done, name
        assert cost(of(layer), context=9).recurrence_prefill == 9 * layer.state_flops


def test_a_mixer_beside_attention_costs_what_it_costs_alone() -> None:
    sizes = {
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "mamba_n_heads": 6, "mamba_d_head": 8, "mamba_d_state": 5,
        "mamba_n_groups": 3, "mamba_d_conv": 4, "mamba_d_ssm": 48,
    }  # fmt: skip
    model = from_config({**sizes, "model_type": "falcon_h1"})
    alone = kinds.mamba2(0, heads=6, head_width=8, states=5, groups=3, taps=4)
    assert cost(model, context=1).recurrence_decode == 2 * alone.state_flops > 0
