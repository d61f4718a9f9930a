"""Figures against others' arithmetic: fractions and decimals from the raw files, and PyTorch."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from figure_referees import GIB, MIB, WORLD, Exact, close, cosine, dot, softmax, value

from attnscope.lessons import figures
from attnscope.lessons.figures import loops
from attnscope.lessons.world import load

EXACT = Exact()
GAVE = "给了"
PENCIL = {"gave": GAVE, "ba": "把", "apple": "苹果", "giver": "小明", "answer": "小王"}


def test_softmax_to_fifty_digits() -> None:
    close(value("softmax.8_7_9"), softmax([8, 7, 9]))
    close(value("softmax.8_7_9.largest"), max(softmax([8, 7, 9])))
    e = [Decimal(n).exp() for n in (8, 7, 9)]
    close(value("softmax.8_7_9.exponentials"), e)
    close(value("softmax.8_7_9.sum"), sum(e))
    close(value("softmax.gap.1"), Decimal(1).exp())
    close(value("softmax.gap.20"), Decimal(20).exp())
    close(value("softmax.base_2"), Decimal(2).ln())


def test_a_change_of_base_is_a_change_of_temperature() -> None:
    """2^s / sum 2^s is the softmax of the scores times the figure."""
    powers = [Fraction(2) ** s for s in (8, 7, 9)]
    theirs = torch.softmax(
        value("softmax.base_2") * torch.tensor([8.0, 7.0, 9.0], dtype=torch.float64), dim=0
    )
    close(theirs.tolist(), [p / sum(powers) for p in powers])


def test_proportional_weights_as_fractions() -> None:
    exact = [Fraction(100 * s, 10 + 3 - 4) for s in (10, 3, -4)]
    close(value("proportional.10_3_-4"), exact)
    close(value("proportional.10_3_-4.car"), Fraction(-400, 9))


def test_a_large_negative_is_nothing_in_float32() -> None:
    assert value("mask.exp_-1e9") == 0.0
    assert torch.tensor(-1e9).exp().item() == 0.0
    assert torch.tensor(-1e9).half().isinf()  # what the note says of float16
    assert torch.tensor(-10.0).exp().item() > 0


def test_sizes_of_all_pairs_are_those_of_tensors() -> None:
    pairs = torch.empty(4096, 4096, 256, dtype=torch.bfloat16, device="meta")
    assert value("additive.bytes") == pairs.nbytes == 8 * GIB
    assert value("dot_product.bytes") == pairs[..., 0].nelement() * 2 == 32 * MIB


def test_recurrence_does_what_torch_rnn_does() -> None:
    """The loop that was counted is an RNN: the same numbers as torch.nn.RNN gives."""
    run = loops.recurrence(9, width=3, seed=5)
    random = np.random.default_rng(5)
    u, w = random.standard_normal((2, 3, 3)) / np.sqrt(3)
    x = random.standard_normal((9, 3))
    judge = torch.nn.RNN(3, 3, bias=False, batch_first=True).double()
    with torch.no_grad():
        judge.weight_ih_l0.copy_(torch.from_numpy(w))
        judge.weight_hh_l0.copy_(torch.from_numpy(u))
    inputs = torch.from_numpy(x).requires_grad_()
    _, state = judge(inputs[None])
    np.testing.assert_allclose(run.state, state[0, 0].detach(), rtol=1e-12)
    assert (run.steps, run.updates_of_first) == (9, 8)
    [gradient] = torch.autograd.grad(state.sum(), inputs)
    assert bool((gradient[0] != 0).any())  # the first token is in the last state
    assert (value("rnn.steps"), value("rnn.updates")) == (4096, 4095)


@pytest.mark.parametrize("d", [4, 64, 256])
def test_drawn_dot_products_obey_the_law(d: int) -> None:
    """Within five standard errors; the excess kurtosis of q.k for normal entries is 6 / d."""
    n = figures.get(f"variance.std.{d}").inputs["n"].value
    error = math.sqrt((2 + 6 / d) / n)
    assert value(f"variance.law.{d}") == math.sqrt(d)
    assert value(f"variance.var.{d}") == pytest.approx(d, rel=5 * error)
    assert value(f"variance.std.{d}") == pytest.approx(math.sqrt(d), rel=5 * error / 2)
    assert value(f"variance.scaled.{d}") == pytest.approx(1, rel=5 * error / 2)
    assert 5 * error < 0.12  # so a law with d doubled or halved would not pass
    # A gap is normal of variance 2 |q|^2, given q; its mean is sqrt(2 / pi) times that.
    chi = math.sqrt(2) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))
    assert value(f"variance.gap.{d}") == pytest.approx(2 * chi / math.sqrt(math.pi), rel=0.04)


def test_drawing_again_gives_the_same() -> None:
    from attnscope.lessons.figures import variance

    before = value("variance.std.64")
    variance.drawn.cache_clear()
    assert variance.raw(64, 20_000, 7) == before
    assert variance.raw(64, 20_000, 8) != before


def test_world_by_fractions() -> None:
    gave = EXACT.at(GAVE)
    cosines = [cosine(EXACT.e[gave], x) for x in EXACT.e]
    close(value("world.embedding.cosines"), cosines)
    assert value("world.embedding.self") == pytest.approx(1, abs=1e-15)
    close(value("world.qk.scores"), EXACT.scores(GAVE))
    names = EXACT.at("小明"), EXACT.at("小王")
    close(value("world.names.keys"), cosine(*(EXACT.k[i] for i in names)))
    close(value("world.names.values"), cosine(*(EXACT.v[i] for i in names)))
    order = sorted(EXACT.tokens, key=lambda t: -EXACT.scores(GAVE)[EXACT.at(t)])
    assert list(value("world.qk.order")) == order == ["苹果", "小王", "小明", "把", "给了"]
    order = sorted(EXACT.tokens, key=lambda t: -cosines[EXACT.at(t)])
    assert list(value("world.embedding.order")) == order == ["给了", "把", "小明", "苹果", "小王"]


def test_the_pencils_lines_by_fractions() -> None:
    raw = json.loads(WORLD.read_text("utf-8"), parse_float=Fraction)
    column = [Fraction(row[1]) for row in raw["W_Q"]]
    x = {id: EXACT.e[EXACT.at(token)] for id, token in PENCIL.items()}
    for id, row in x.items():
        close(value(f"pencil.x.{id}"), row)
    products = [a * b for a, b in zip(x["gave"], x["ba"], strict=True)]
    close(value("pencil.dot.products"), products)
    close(value("pencil.dot"), sum(products))
    close(value("pencil.dot.apple"), dot(x["gave"], x["apple"]))
    for id in ("gave", "ba"):
        close(value(f"pencil.length.{id}") ** 2, dot(x[id], x[id]))
    close(value("pencil.cosine"), cosine(x["gave"], x["ba"]))
    close(value("pencil.cosine.names"), cosine(x["giver"], x["answer"]))
    close(value("pencil.column"), column)
    close(value("pencil.q.products"), [a * b for a, b in zip(x["gave"], column, strict=True)])
    for id in ("gave", "apple"):
        close(value(f"pencil.q.second.{id}"), EXACT.q[EXACT.at(PENCIL[id])][1])
    q, k = EXACT.q[EXACT.at(GAVE)], EXACT.k[EXACT.at("苹果")]
    close(value("pencil.q"), q)
    close(value("pencil.k"), k)
    close(value("pencil.score.products"), [a * b for a, b in zip(q, k, strict=True)])
    close(value("pencil.score"), dot(q, k))
    for id in ("giver", "apple"):
        close(value(f"pencil.v.{id}"), EXACT.v[EXACT.at(PENCIL[id])])
    weights = [Fraction(one) / 100 for one in EXACT.weights(GAVE)]
    firsts = [row[0] for row in EXACT.v[: len(weights)]]
    close(value("pencil.fetched.products"), [a * b for a, b in zip(weights, firsts, strict=True)])
    close(value("pencil.fetched"), dot(weights, firsts))
    assert value("pencil.learned") == sum(
        len(raw[w]) * len(raw[w][0]) for w in ("W_Q", "W_K", "W_V")
    )


def test_world_weights_to_fifty_digits() -> None:
    unmasked = EXACT.weights(GAVE, causal=False)
    close(value("world.unmasked.row"), unmasked)
    close(value("world.unmasked.answer"), unmasked[EXACT.at("小王")])
    causal = EXACT.weights(GAVE)
    close(value("world.causal.row"), causal)
    close(value("world.causal.apple"), causal[EXACT.at("苹果")])
    close(value("world.causal.giver"), causal[EXACT.at("小明")])
    for letter, columns, name in (("a", slice(0, 2), "小明"), ("b", slice(2, 4), "苹果")):
        weights = EXACT.weights(GAVE, columns=columns)
        close(value(f"world.heads.{letter}.row"), weights)
        close(value(f"world.heads.{letter}"), weights[EXACT.at(name)])
        assert max(weights) == weights[EXACT.at(name)]
    close(value("world.sink.row"), EXACT.weights("苹果"))
    scores = [s / 2 for s in EXACT.scores("苹果")[:3]]
    close(value("world.sink.scores"), scores)
    assert value("world.sink.keys") == len(scores)


def test_a_shared_key_is_the_mean_of_both_heads() -> None:
    for letter, columns, name in (("a", slice(0, 2), "小明"), ("b", slice(2, 4), "苹果")):
        q = EXACT.q[EXACT.at(GAVE)][columns]
        scores = [
            sum((x * (k[i] + k[i + 2]) / 2 for i, x in enumerate(q)), Fraction(0))
            for k in EXACT.k[: EXACT.at(GAVE) + 1]
        ]
        close(value(f"world.shared.{letter}"),
              softmax(scores, Decimal(2).sqrt())[EXACT.at(name)])  # fmt: skip


def test_a_referee_with_another_world_disagrees() -> None:
    other = Exact()
    other.k[0] = [x + Fraction(1, 1000) for x in other.k[0]]
    with pytest.raises(AssertionError):
        close(value("world.causal.row"), other.weights(GAVE))


def test_counts_by_listing_what_is_computed() -> None:
    lengths = [2, 3, 4]  # what the three steps of the example read
    computed = [(step, position) for step, n in enumerate(lengths) for position in range(n)]
    assert value("cache.without") == len(computed) == 9
    assert value("cache.with") == len({position for _, position in computed}) == 4
    assert value("cache.recomputed") == 9 - 4
    lengths = [200 + step for step in range(200)]
    assert value("cache.long.without") == sum(lengths)
    assert value("cache.long.with") == max(lengths)
    assert value("prefix.positions") == sum(len(EXACT.tokens[: n + 1]) for n in range(5)) == 15
    assert value("prefix.forwards") == 5
    assert value("prefix.questions") == value("prefix.questions.forwards") == 4
    assert value("prefix.questions.positions") == 1 + 2 + 3 + 4
    assert (value("prefix.masked.forwards"), value("prefix.masked.positions")) == (1, 5)


def test_loops_that_were_counted_did_the_work() -> None:
    """Row by row, with a cache, without one, and masked at once: the same outputs."""
    world = load()
    masked = loops.at_once(world)
    prefixes = loops.one_by_one(world, range(1, 6))
    # float64 products in another order.
    np.testing.assert_allclose(prefixes.rows, masked.rows, rtol=1e-13)
    one, other = (
        loops.decode(world, prompt=2, generated=3, cached=cached) for cached in (True, False)
    )
    np.testing.assert_array_equal(one.outputs, other.outputs)
    np.testing.assert_allclose(one.outputs, masked.rows[1:4], rtol=1e-13)
    assert one.again == 0
    assert other.computed == {0: 3, 1: 3, 2: 2, 3: 1}
    assert value("cache.bits.rows") == 0


@pytest.mark.parametrize(("prompt", "generated"), [(0, 3), (2, 0), (3, 4), (6, 1)])
def test_more_tokens_than_there_are_is_refused(prompt: int, generated: int) -> None:
    with pytest.raises(ValueError, match=f"at most 5 tokens, got {prompt} and {generated}"):
        loops.decode(load(), prompt=prompt, generated=generated, cached=True)


def test_last_bits() -> None:
    """2^-24 is the spacing of float32 below 1; the two ways differ by few bits of such numbers."""
    one = torch.tensor(1.0)
    assert value("cache.bits.last") == (one - torch.nextafter(one, torch.tensor(0.0))).item()
    assert 0 < value("cache.bits.product") < 64 * value("cache.bits.last")


PRINTED = {
    "softmax.8_7_9": "24.5% / 9.0% / 66.5%",
    "softmax.8_7_9.exponentials": "2981 / 1097 / 8103",
    "softmax.8_7_9.sum": "12181",
    "proportional.10_3_-4": "111.1% / 33.3% / -44.4%",
    "additive.bytes": "8.0 GiB",
    "dot_product.bytes": "32 MiB",
    "world.sink.scores": "0.04 / 0.36 / 0.00",
    "world.sink.row": "30% / 41% / 29%",
    "world.names.keys": "0.995",
    "world.names.values": "0.005",
    "kv.ds67b.gqa.total": "380 GiB",
    "kv.ds67b.gqa.total.million": "362.4 GiB",
    "kv.dsv2.saving": "-82.2%",
    "kv.dsv2.saving.reported": "-93.3%",
    "kv.dsv2.saving.quantised": "-93.34%",
    "kv.glm53.total": "87.75 GiB",
    "kv.glm53.indexer.total": "5.25 GiB",
    "kv.dsv41flash.per_token": "890 B",
    "state.qwen38.conv.bytes": "3.75 MiB",
    "flops.qwen306b.prefill": "8192 T²",
    "cache.bits.last": "6e-8",
    "variance.std.4": "2",
    "variance.std.64": "8",
    "variance.std.256": "16",
    "variance.scaled.256": "1",
}


@pytest.mark.parametrize(("id", "text"), PRINTED.items())
def test_text_is_what_the_facts_say(id: str, text: str) -> None:
    assert figures.get(id).text == {"zh": text, "en": text}


def test_text_differs_where_the_languages_do() -> None:
    assert figures.get("stable.vit.trained").text == {"zh": "220 亿", "en": "22 billion"}
    assert figures.get("softmax.gap.20").text == {"zh": "4.9 亿", "en": "485 million"}
    order = figures.get("world.qk.order").text
    assert order["zh"] == "苹果、小王、小明、把、给了"
    assert order["en"] == "the apple, Xiao Wang, Xiao Ming, ba, gave"


def test_notes_say_what_sources_leave_out() -> None:
    said = {
        "kv.glm53.per_token": ("5,376 B", "95,232 B"),
        "kv.glm53.total": ("5.25 GiB", "93.00 GiB"),
        "state.qwen38.bytes": ("3.75 MiB",),
        "kv.ds67b.gqa.total": ("362.4 GiB",),
        "kv.ds67b.gqa.total.million": ("380 GiB",),
        "prefix.forwards": ("4",),
        "kv.dsv2.saving.reported": ("-93.34%", "6"),
        "kv.dsv41flash.per_token": ("5 MiB",),
    }
    for id, words in said.items():
        for language in figures.LANGUAGES:
            for word in words:
                assert word in figures.get(id).note[language], (id, language)
