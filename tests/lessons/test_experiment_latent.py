"""Latents: what few numbers lose, both forms, and the rotation between; referees of their own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.lessons.experiments.latent import low_rank, one_head, read, run
from attnscope.lessons.world import load


def test_no_table_of_the_same_width_comes_closer() -> None:
    """Eckart and Young: the error of the best is the root of the squares that are left out."""
    world = load()
    made = np.concatenate([world.k, world.v], axis=1)
    left = np.linalg.svd(made, compute_uv=False)
    random = np.random.default_rng(0)
    for numbers in range(1, 6):
        down, up = low_rank(world, numbers)
        off = np.linalg.norm(world.embeddings @ down @ up - made)
        assert off == pytest.approx(np.sqrt((left[numbers:] ** 2).sum()), abs=1e-12)
        for _ in range(50):
            other = random.standard_normal((numbers, 8))
            best = made @ np.linalg.pinv(other) @ other
            assert np.linalg.norm(best - made) >= off - 1e-12


def test_as_many_numbers_as_tokens_are_exact_and_one_fewer_is_not() -> None:
    found = run()
    assert (found.rank, found.whole, found.shared) == (5, 8, 4)
    assert found.error[4] < 1e-12 < 0.1 < found.error[3]
    assert found.giver[4] == pytest.approx(found.exact[0], abs=1e-12)
    assert [round(100 * x, 1) for x in found.exact] == [89.5, 77.0]


def test_a_latent_of_four_numbers_is_closer_than_one_head_for_both() -> None:
    found = run()
    assert found.error[3] < 0.5 * found.shared_error
    assert abs(found.given[3] - found.exact[1]) < 0.1 * abs(
        found.shared_weights[1] - found.exact[1]
    )


def test_reading_is_the_worlds_own_attention() -> None:
    world = load()
    weights, outputs = read(world, world.k, world.v)
    for head in range(2):
        np.testing.assert_allclose(weights[head], world.weights(head), rtol=1e-14)
        np.testing.assert_allclose(
            outputs[:, world.columns(head)], world.output(head), rtol=0, atol=1e-15
        )
    mean = one_head(world, world.k)
    np.testing.assert_array_equal(mean[:, :2], mean[:, 2:])
    np.testing.assert_allclose(mean[:, :2], (world.k[:, :2] + world.k[:, 2:]) / 2)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_forms_agree_and_a_rotation_between_them_parts_them(seed: int) -> None:
    found = run(distances=(0, 3, 50), pairs=30, seed=seed)
    assert found.forms_difference < 1e-12  # a few thousand roundings of numbers near 10
    assert found.merged_error[0] < 1e-12
    assert (found.merged_error[1:] > 0.05).all()
    assert (found.beside_error < 1e-12).all()


def test_a_rotation_is_off_by_what_its_angles_say() -> None:
    """Of independent q and k, E |q.k - R q.k|^2 / E |R q.k|^2 is the mean of 2 - 2 cos d f."""
    found = run(pairs=20_000)
    angles = 10_000.0 ** (-np.arange(0, 64, 2) / 64)
    law = [np.sqrt(np.mean(2 - 2 * np.cos(d * angles))) for d in found.distances]
    # q is drawn, the key is a fixed image of a latent: pairs of unlike size weigh unlike.
    np.testing.assert_allclose(found.merged_error, law, rtol=0.15, atol=1e-12)


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match=r"distances: expected at least one, got none"):
        run(distances=())
    with pytest.raises(ValueError, match=r"distances: expected at least 0, got -1"):
        run(distances=(1, -1))
    with pytest.raises(ValueError, match=r"pairs: expected at least 1, got 0"):
        run(pairs=0)
