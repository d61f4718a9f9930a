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


def by_hand(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two heads of width 2 over five tokens, number by number."""
    weights, out = np.zeros((2, 5, 5)), np.zeros((5, 4))
    for head in range(2):
        for i in range(5):
            part = slice(2 * head, 2 * head + 2)
            scores = [float(q[i, part] @ k[j, part]) / 2**0.5 for j in range(i + 1)]
            powers = np.exp(scores)
            weights[head, i, : i + 1] = powers / powers.sum()
            for j in range(i + 1):
                out[i, part] += weights[head, i, j] * v[j, part]
    return weights, out


def test_what_the_squeezed_sentence_says_is_recomputed_by_hand() -> None:
    world, found = load(), run(pairs=1)
    row, giver, given = (world.tokens.index(one) for one in ("给了", "小明", "苹果"))
    exact, out = by_hand(world.q, world.k, world.v)
    np.testing.assert_allclose(found.exact, [exact[0, row, giver], exact[1, row, given]])
    left, sizes, right = np.linalg.svd(np.concatenate([world.k, world.v], axis=1))
    assert found.numbers.tolist() == [1, 2, 3, 4, 5]
    for r in found.numbers:
        near = left[:, :r] * sizes[:r] @ right[:r]
        weights, fetched = by_hand(world.q, near[:, :4], near[:, 4:])
        assert found.giver[r - 1] == pytest.approx(weights[0, row, giver], rel=1e-9)
        assert found.given[r - 1] == pytest.approx(weights[1, row, given], rel=1e-9)
        assert found.error[r - 1] == pytest.approx(np.abs(fetched - out).max(), abs=1e-12)
    both = [(x[:, :2] + x[:, 2:]) / 2 for x in (world.k, world.v)]
    weights, fetched = by_hand(world.q, *(np.hstack([one, one]) for one in both))
    wanted = [weights[0, row, giver], weights[1, row, given]]
    np.testing.assert_allclose(found.shared_weights, wanted, rtol=1e-12)
    assert found.shared_error == pytest.approx(np.abs(fetched - out).max(), rel=1e-12)


def test_the_picture_says_what_was_found() -> None:
    found = run()
    lines = found.picture().splitlines()
    assert lines[1].split()[-5:] == ["89.5", "%", "77.0", "%", "0.000"]
    shared = [f"{100 * one:.1f}" for one in found.shared_weights]
    assert lines[2].startswith("4: one head for both")
    assert lines[2].split()[-5:] == [shared[0], "%", shared[1], "%", f"{found.shared_error:.3f}"]
    for r, line in zip(found.numbers, lines[3:8], strict=True):
        off = found.error[r - 1]
        said = [f"{100 * one[r - 1]:.1f}" for one in (found.giver, found.given)]
        assert line.startswith(f"{r}: a latent")
        assert line.split()[-5:-1] == [said[0], "%", said[1], "%"]
        # What is exact but for rounding is not shown as 0.000.
        assert line.split()[-1] == (f"{off:.1e}" if r == 5 else f"{off:.3f}")
    assert lines[8].endswith(f"{found.forms_difference:.1e}")
    assert [int(one) for one in lines[10].split()[-6:]] == found.distances.tolist()
    assert [float(one) for one in lines[11].split()[-12::2]] == pytest.approx(
        100 * found.merged_error, abs=0.051
    )
    assert [float(one) for one in lines[12].split()[-6:]] == pytest.approx(
        found.beside_error, rel=0.5, abs=1e-300
    )


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
