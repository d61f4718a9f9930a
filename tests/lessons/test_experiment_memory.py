"""A table as a memory: laws that no code of ours states, and transformers' own rule."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.lessons.experiments.memory import RULES, run, table


def test_added_pairs_are_off_by_the_law() -> None:
    """E |sum over others of (k.k_j) v_j|^2 / |v|^2 = (n - 1) / D for random directions."""
    found = run(trials=2000, counts=(1, 2, 8, 32), width=8)
    law = [np.sqrt((n - 1) / 8) for n in (1, 2, 8, 32)]
    np.testing.assert_allclose(found.law, law)
    np.testing.assert_allclose(found.errors[0], law, rtol=0.03, atol=1e-12)


def test_the_delta_rule_is_that_of_transformers() -> None:
    from transformers.models.qwen3_5.modeling_qwen3_5 import torch_recurrent_gated_delta_rule

    torch.manual_seed(0)
    k = torch.nn.functional.normalize(torch.randn(3, 20, 16), dim=-1)
    v = torch.randn(3, 20, 16)
    for rule, decay in (("delta", 1.0), ("gated", 0.85)):
        fade = torch.full((3, 20, 1), decay).log()
        _, wanted = torch_recurrent_gated_delta_rule(
            k[:, :, None], k[:, :, None], v[:, :, None], g=fade, beta=torch.ones(3, 20, 1),
            initial_state=None, output_final_state=True,
        )  # fmt: skip
        ours = table(rule, k.double(), v.double(), decay=decay)
        # float32 there, over 20 corrections of numbers near 1
        torch.testing.assert_close(ours, wanted[:, 0].double(), rtol=0, atol=2e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(1, 30))
def test_the_newest_pair_is_right_whatever_came_before(seed: int, width: int, count: int) -> None:
    random = torch.Generator().manual_seed(seed)
    k, v = torch.randn(2, 1, count, width, generator=random, dtype=torch.float64)
    k = k / k.norm(dim=-1, keepdim=True)
    for rule in ("delta", "gated"):
        read = k[:, -1] @ table(rule, k, v, decay=0.9)[0]
        assert torch.allclose(read, v[:, -1], atol=1e-10)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12))
def test_as_many_keys_at_right_angles_as_they_are_wide_are_exact(seed: int, width: int) -> None:
    random = torch.Generator().manual_seed(seed)
    k = torch.linalg.qr(torch.randn(width, width, generator=random, dtype=torch.float64))[0]
    v = torch.randn(1, width, 3, generator=random, dtype=torch.float64)
    for rule in ("add", "delta"):
        assert torch.allclose(k @ table(rule, k[None], v)[0], v[0], atol=1e-10)
    # One more key than they are wide cannot be at right angles to all: something is lost.
    more, extra = torch.cat([k, k[:1] + k[1:2]]), torch.cat([v[0], v[0, :1] + v[0, 1:2] + 1])
    more = more / more.norm(dim=-1, keepdim=True)
    for rule in ("add", "delta"):
        assert not torch.allclose(more @ table(rule, more[None], extra[None])[0], extra, atol=1e-3)


def test_the_numbers_of_the_lesson() -> None:
    found = run()
    assert found.twice.tolist() == pytest.approx([3.0, 2.0, 2.0], abs=1e-12)
    assert (found.newest[1:] < 1e-12).all()
    assert (found.errors[1, 1:] < found.errors[0, 1:]).all()
    # Fading gives up the oldest for those of middle age.
    assert found.errors[2, -1] < found.errors[1, -1]
    assert (found.kept < 1e-6).all()
    assert found.right_angles[:2].max() == 0 < found.right_angles[2]
    assert len(found.errors) == len(RULES)
    # Errors grow with age where nothing fades: each later pair disturbs what is there.
    assert found.by_age[1, 0] < 1e-12
    assert (np.diff(found.by_age[1, [0, 1, 4, 8, 16, 31]]) > 0.1).all()


def test_arguments_are_checked() -> None:
    for wrong, said in (
        ({"width": 1}, "width: expected at least 2, got 1"),
        ({"counts": ()}, "counts: expected at least one, got none"),
        ({"counts": (0,)}, "counts: expected at least 1, got 0"),
        ({"decay": 1.5}, "decay: expected at most 1, got 1.5"),
        ({"decay": 0.0}, "decay: expected a finite number above 0"),
        ({"trials": 0}, "trials: expected at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=said):
            run(**wrong)  # type: ignore[arg-type]
