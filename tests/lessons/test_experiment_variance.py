"""The variance of the dot product, judged by closed forms and by errors that are derived."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from attnscope.lessons.experiments import variance
from attnscope.lessons.experiments.variance import Variance, run

SURE = 4.5
"""Standard errors that are allowed: a right mean passes them once in 150,000 times."""


@pytest.fixture(scope="module")
def found() -> Variance:
    return run()


def judge(found: Variance) -> None:
    """Both standard deviations within their own error of the closed form."""
    off = np.abs(found.std - found.std_predicted) / found.std_error
    assert (off < SURE).all(), f"standard errors off: {off}"


def test_the_standard_deviation_is_sqrt_d_sigma_squared(found: Variance) -> None:
    assert found.std_predicted[0].tolist() == [2.0, 8.0, 16.0]
    assert found.std_predicted[1].tolist() == [1.0, 1.0, 1.0]
    judge(found)


@pytest.mark.parametrize("sigma", [0.3, 1.7])
def test_any_sigma_and_any_width(sigma: float) -> None:
    found = run(widths=(1, 3, 100), sigma=sigma, pairs=20_000, rows=2, seed=5)
    assert np.allclose(found.std_predicted[0], np.sqrt([1, 3, 100]) * sigma**2)
    judge(found)


def test_a_wrong_standard_deviation_is_caught(found: Variance) -> None:
    wrong = found.std * np.array([[1.0], [1.05]])
    with pytest.raises(AssertionError, match="standard errors off"):
        judge(dataclasses.replace(found, std=wrong))


def test_the_stated_error_is_how_far_repetitions_scatter() -> None:
    """Of 200 measured variances: their own variance over the stated one is chi^2 / 199, nearly."""
    d, pairs, times = 4, 4000, 200
    measured = [run(widths=(d,), pairs=pairs, rows=2, seed=s).std[0, 0] ** 2 for s in range(times)]
    stated = (2 * d * d + 6 * d) / pairs
    ratio = np.mean((np.array(measured) - d) ** 2) / stated
    # The ratio has standard error sqrt(2 / times), as the mean over 4,000 pairs is nearly normal.
    assert abs(ratio - 1) < SURE * math.sqrt(2 / times)


def test_doubling_sigma_quadruples_every_score_exactly() -> None:
    one, two = (run(widths=(8,), sigma=s, pairs=100, rows=2) for s in (1.0, 2.0))
    assert np.array_equal(two.std, 4 * one.std)


def test_a_further_width_changes_no_other() -> None:
    one, more = (run(widths=w, pairs=100, rows=20) for w in ((16,), (4, 16, 32)))
    for name in ("std", "max_weight", "gradient_scores"):
        assert getattr(one, name)[:, 0].tolist() == getattr(more, name)[:, 1].tolist()


def test_pieces_do_not_change_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The means over pieces are means over all rows: the stream differs, the law does not."""
    monkeypatch.setattr(variance, "PIECE", 1 << 10)
    found = run(widths=(16,), pairs=20_000, rows=300)
    assert found.share.sum(-1) == pytest.approx(np.ones((2, 1)))
    judge(found)


def test_raw_scores_saturate_and_scaled_ones_do_not(found: Variance) -> None:
    """At d = 256, each by far more than the errors of both means."""
    for name, sign in (("max_weight", 1), ("entropy", -1), ("jacobian_norm", -1),
                       ("gradient_scores", -1)):  # fmt: skip
        raw, scaled = getattr(found, name)[:, 2]
        error = math.hypot(*found.error[name][:, 2])
        assert sign * (raw - scaled) > 10 * error, name
    assert found.decided[0, 2] > 0.5
    assert found.decided[1, 2] == 0
    assert found.gradient_scores_median[0, 2] < 0.1 * found.gradient_scores_median[1, 2]


def test_what_reaches_q_depends_on_mean_or_median(found: Variance) -> None:
    """The scale divides what reaches q: raw, a few rows get much and half of them almost none."""
    raw, scaled = found.gradient_query[:, 2]
    assert raw > scaled
    raw, scaled = found.gradient_query_median[:, 2]
    assert raw < scaled


def test_divided_by_sqrt_d_the_width_no_longer_matters(found: Variance) -> None:
    for name in ("max_weight", "entropy", "jacobian_norm"):
        one, two = getattr(found, name)[1, 1:]
        error = math.hypot(*found.error[name][1, 1:])
        # d = 64 and 256 differ by O(1 / d) in truth, of which 0.01 is enough.
        assert abs(one - two) < SURE * error + 0.01, name
        raw = getattr(found, name)[0, 1:]
        assert abs(raw[0] - raw[1]) > SURE * math.hypot(*found.error[name][0, 1:]), name


def test_rows_agree_with_numpy_and_a_jacobian_by_autograd() -> None:
    random = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(s, generator=random, dtype=torch.float64)
               for s in ((3, 6), (3, 5, 6), (3, 5, 8)))  # fmt: skip
    right = torch.tensor([0, 4, 2])
    ours = variance._row_statistics(q, k, v, right, scale=0.7)
    for row in range(3):
        s = (k[row] @ q[row] * 0.7).numpy()
        p = np.exp(s) / np.exp(s).sum()
        J = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), torch.from_numpy(s)).numpy()
        upstream = v[row].numpy() @ (p @ v[row].numpy() - v[row, right[row]].numpy()) / 8
        gradient = J @ upstream
        wanted = {
            "max_weight": p.max(), "entropy": -(p * np.log(p)).sum(),
            "jacobian_norm": np.linalg.norm(J), "gradient_scores": np.linalg.norm(gradient),
            "gradient_query": np.linalg.norm(0.7 * k[row].numpy().T @ gradient),
        }  # fmt: skip
        for name, value in wanted.items():
            # Two float64 computations of at most 50 additions each.
            assert ours[name][row] == pytest.approx(value, rel=1e-13, abs=1e-15), name


def test_histograms_share_one_axis_and_hold_every_pair(found: Variance) -> None:
    assert found.share.shape == (2, 3, 128)
    assert len(found.edges) == 129
    assert found.share.sum(-1) == pytest.approx(np.ones((2, 3)))
    assert found.edges[-1] == 4 * 16.0
    middle = (found.edges[1:] + found.edges[:-1]) / 2
    spread = np.sqrt((found.share[0] * middle**2).sum(-1))
    # A bin moves a number by half its width; its variance is width^2 / 12.
    width = np.diff(found.edges)[0]
    assert np.all(np.abs(spread**2 - found.std[0] ** 2) < width**2 / 12 + 0.02 * found.std[0] ** 2)


def test_the_drawn_histograms_are_densities_with_the_stated_spread(
    found: Variance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is drawn, read as a density: it holds (nearly) every pair, is centred, and as wide."""
    drawn: list[variance.Panel] = []
    monkeypatch.setattr(variance, "chart", lambda panels, **_: drawn.extend(panels) or "")
    found.svg()
    assert len(drawn) == 9
    for number, panel in enumerate(drawn):
        kind, place = int(number >= 3), number % 3
        steps, normal = panel.lines
        width = np.diff(steps.x)
        share = steps.y[:-1] * width
        assert steps.steps
        assert share.sum() == pytest.approx(1, abs=2e-4)
        middle = steps.x[:-1] + width / 2
        mean = float((share * middle).sum())
        assert abs(mean) < SURE * found.std[kind, place] / found.pairs**0.5 + 0.01 * width[0]
        # Within a bin everything counts as its middle: that adds a twelfth of its square.
        spread = float((share * (middle - mean) ** 2).sum()) - width[0] ** 2 / 12
        assert spread**0.5 == pytest.approx(found.std[kind, place], rel=0.02)
        assert normal.y.max() == pytest.approx(
            1 / (found.std_predicted[kind, place] * math.sqrt(2 * math.pi)), rel=1e-6
        )
        assert f"d = {found.widths[place]}" in panel.title
        assert f"{found.std[kind, place]:.2f}" in panel.title
        assert panel.y_range is not None
        assert steps.y.max() <= panel.y_range[1]


def test_bad_input_is_named() -> None:
    for wrong, message in (
        ({"widths": ()}, r"widths: expected at least one, got none"),
        ({"widths": (0,)}, r"widths: expected at least 1, got 0"),
        ({"sigma": 0.0}, r"sigma: expected a finite number above 0, got 0.0"),
        ({"pairs": 1}, r"pairs: expected at least 2, got 1"),
        ({"keys": 1}, r"keys: expected at least 2, got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            run(**wrong)
    with pytest.raises(TypeError, match=r"rows: expected a whole number, got float"):
        run(rows=2.5)  # type: ignore[arg-type]
