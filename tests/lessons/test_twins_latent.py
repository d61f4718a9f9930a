"""What the widgets on latents compute is what Python computes, on the same inputs."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
import torch
from test_twins import _world, node, same

from attnscope.core import latent_parts as parts
from attnscope.core.latent_parts import LatentSizes
from attnscope.lessons import twins, world
from attnscope.lessons.experiments import latent
from attnscope.lessons.figures.configs import model
from attnscope.lessons.site import keepers
from attnscope.mechanisms.latent import LatentAttention
from attnscope.plan.find import CONFIGS
from attnscope.positions import Rope

NEAR = 1e-10
"""Eigenvectors by rotations against LAPACK's: squares of singular values lose half the digits that
lie below the largest, here 4 of 16, and each product adds a few roundings."""


@pytest.mark.parametrize("numbers", [1, 2, 3, 4, 5, 8])
def test_squeezed_keys_and_values_are_those_of_the_experiment(numbers: int) -> None:
    found = world.load()
    [made] = node("latent.js", [("squeezed", [_world(), numbers])])
    down, up = latent.low_rank(found, numbers)
    k, v = np.split(found.embeddings @ down @ up, 2, axis=1)
    assert same(made["K"], k, tolerance=NEAR)
    assert same(made["V"], v, tolerance=NEAR)
    assert np.shape(made["latents"]) == (5, numbers)
    if numbers >= 5:
        assert same(made["K"], found.k, tolerance=NEAR)


def test_what_heads_read_is_that_of_the_experiment() -> None:
    found, given = world.load(), _world()
    [shared] = node("latent.js", [("sharedHead", [given])])
    k, v = latent.one_head(found, found.k), latent.one_head(found, found.v)
    assert same(shared["K"], k)
    assert same(shared["V"], v)
    cases = [(k, v), (found.k, found.v), (k, found.v)]
    read = node("latent.js", [("readBy", [given, a.tolist(), b.tolist()]) for a, b in cases])
    for (a, b), one in zip(cases, read, strict=True):
        weights, outputs = latent.read(found, a, b)
        assert same(one["weights"], weights)
        assert same(one["outputs"], outputs)
    exact = np.concatenate([found.output(head) for head in range(2)], axis=1)
    assert same(read[1]["outputs"], exact)


def _drawn(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """q [nope, rope], latent, rotated key before its rotation, up: in the page's order."""
    drawn = torch.from_numpy(twins.normals(seed, 4 + 4 + 6 + 4 + 24))
    q, c, r, up = drawn.split([8, 6, 4, 24])
    return q.view(1, 1, 1, 8), c.view(1, 1, 6), r.view(1, 1, 4), up.view(4, 6)


@pytest.mark.parametrize("distance", [0, 1, 7, 40])
@pytest.mark.parametrize("seed", [1, 42])
def test_both_forms_are_those_of_the_mechanism(seed: int, distance: int) -> None:
    q, c, r, rows = _drawn(seed)
    up = torch.cat([rows, torch.zeros(1, 6, dtype=torch.float64)])  # a value that nobody reads
    place = torch.tensor([distance])
    rope = Rope.plain(4, theta=100, interleaved=True)
    turned = rope(q[..., 4:], place)
    beside = torch.cat([q[..., :4], turned], -1)
    silent = torch.cat([q[..., :4], torch.zeros_like(turned)], -1)
    wanted = {
        where: {
            "expanded": (query * parts.keys_and_values(query, c, r, up)[0]).sum(),
            "absorbed": (parts.latent_queries(query, c, r, up) * torch.cat([c, r], -1)).sum(),
        }
        for where, query in (("none", silent), ("beside", beside))
    }
    inside = rope(q[..., :4], place)
    key = parts.keys_and_values(silent, c, r, up)[0][..., :4]
    wanted["key"] = {"expanded": (inside * key).sum(), "absorbed": wanted["none"]["absorbed"]}
    found = node("latent.js", [("bothForms", [seed, distance, where]) for where in wanted])
    for one, (where, both) in zip(found, wanted.items(), strict=True):
        for form, value in both.items():
            assert same(one[form], float(value), tolerance=1e-12), (where, form)
    off = abs(found[2]["expanded"] - found[2]["absorbed"])
    assert (off < 1e-12) is (distance == 0)
    assert all(abs(one["expanded"] - one["absorbed"]) < 1e-12 for one in found[:2])


@pytest.mark.parametrize(("fresh", "cached"), [(1, 0), (1, 8191), (170, 65536), (4096, 0)])
def test_flops_are_those_of_the_mechanism(fresh: int, cached: int) -> None:
    sizes = keepers.forms("en")
    s = LatentSizes(
        7168, sizes["heads"], sizes["nope"], sizes["rope"], sizes["value"], sizes["rank"]
    )
    layer = LatentAttention(s, rope=Rope.plain(s.rope, interleaved=True), device="meta")
    [found] = node("latent.js", [("formFlops", [fresh, cached, sizes])])
    for form in parts.IMPLS:
        counted = layer.counts(fresh, cached, impl=form)
        wanted = counted.flops_dense + counted.projection_flops - fresh * layer.token_flops()
        assert found[form] == wanted, form
    least = min(found, key=lambda form: found[form])
    assert least == LatentAttention.form(layer, fresh, cached)


LENGTHS = [1, 2, 127, 128, 129, 511, 513, 4096, 131_071, 2**20]


@pytest.mark.parametrize("id", list(keepers.NAMES))
def test_bytes_are_the_planners(id: str) -> None:
    source = keepers._models()[id]
    stores = keepers.stores(source)
    found = node("kept.js", [("keptBytes", [stores, length]) for length in LENGTHS])
    assert found == [source.bytes_at(length, dtype="bf16") for length in LENGTHS]


def test_a_page_carries_every_model_by_its_name() -> None:
    for language in ("en", "zh"):
        models = keepers.kept(language)["models"]
        assert [one["id"] for one in models] == list(keepers.NAMES) == list(keepers._models())
        # Some names are the same in both, but in English none has a Chinese character.
        chinese = [bool(re.search("[\u3400-\u9fff]", one["name"])) for one in models]
        assert any(chinese) is (language == "zh")
        assert all(store["growth"] in ("token", "window", "fixed", "compressed")
                   for one in models for store in one["stores"])  # fmt: skip
    whole = keepers._models()["qwen38-full"]
    assert (
        whole.bytes_at(1, dtype="bf16")
        == 4 * model("qwen3.8-27b").kv(context=1, dtype="bf16").per_token_bytes
    )


def test_a_page_carries_the_sizes_that_a_config_has() -> None:
    fields = json.loads((CONFIGS / "deepseek-v3.json").read_text("utf-8"))
    names = {
        "heads": "num_attention_heads", "nope": "qk_nope_head_dim", "rope": "qk_rope_head_dim",
        "value": "v_head_dim", "rank": "kv_lora_rank",
    }  # fmt: skip
    for language in ("en", "zh"):
        assert keepers.forms(language) == {name: fields[key] for name, key in names.items()}


def test_a_twin_that_went_astray_is_noticed() -> None:
    found: Any = world.load()
    [made] = node("latent.js", [("squeezed", [_world(), 4])])
    assert not same(made["K"], found.k, tolerance=NEAR)
    [one] = node("kept.js", [("keptBytes", [[{"growth": "window", "span": 8, "bytes": 3}], 9])])
    assert one == 24
