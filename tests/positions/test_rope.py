"""The tables of a Rope, and what makes it a value: it compares, copies and travels."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from rope_referees import by_hand

from attnscope.positions import Rope, rotate
from attnscope.positions.rope import picture
from attnscope.testing import budget

LONG = {
    "model_type": "phi3", "hidden_size": 64, "num_attention_heads": 8, "rope_theta": 10000.0,
    "max_position_embeddings": 64, "original_max_position_embeddings": 16,
    "rope_scaling": {
        "type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 2, 4, 8],
    },
}  # fmt: skip


def exact(width: int, theta: float, positions: torch.Tensor) -> torch.Tensor:
    """The angles of the paper, in Python's float64."""
    return torch.tensor(
        [[int(p) * theta ** (-2 * m / width) for m in range(width // 2)] for p in positions],
        dtype=torch.float64,
    )


@pytest.mark.parametrize("theta", [10000.0, 1e6])
@pytest.mark.parametrize("start", [0, 4093])
def test_tables_are_the_paper_s(theta: float, start: int) -> None:
    positions = torch.arange(start, start + 9)
    angles = exact(128, theta, positions)
    # The peer is the same in float32 by the order of most codebases.
    turns = 1.0 / theta ** (torch.arange(0, 128, 2).float() / 128)
    peer = torch.outer(positions.float(), turns)
    rope = Rope.plain(128, theta=theta)
    for ours, f in zip(rope.tables(positions), (torch.cos, torch.sin), strict=True):
        budget(ours, peer=f(peer), oracle=f(angles))
    # In float64 what is left is that a model's frequencies are float32 numbers.
    for ours, f in zip(
        rope.tables(positions, dtype=torch.float64), (torch.cos, torch.sin), strict=True
    ):
        assert ours.dtype == torch.float64
        kept = torch.tensor(rope.frequencies, dtype=torch.float64)
        assert torch.equal(ours, f(positions.double()[:, None] * kept))
        assert (ours - f(angles)).abs().max() < (start + 9) * 2 * torch.finfo(torch.float32).eps


def test_what_was_asked_before_does_not_matter() -> None:
    """Frequencies are kept per dtype: float64 tables do not make the next float32 ones exacter."""
    positions = torch.arange(4000, 4100)
    fresh, used = Rope.plain(64), Rope.plain(64)
    used.tables(positions, dtype=torch.float64)
    assert torch.equal(used.tables(positions)[0], fresh.tables(positions)[0])
    assert used.tables(positions)[0].dtype == torch.float32


@pytest.mark.parametrize("rotary", [0, 2, 64, 256])
@pytest.mark.parametrize("interleaved", [False, True])
def test_a_part_of_the_width_is_turned(rotary: int, interleaved: bool) -> None:
    """Qwen3.8 turns 64 of 256; the frequencies are those of a width of 64."""
    x = torch.randn(1, 2, 3, 256, generator=torch.Generator().manual_seed(0))
    rope = Rope.plain(256, theta=1e7, rotary=rotary, interleaved=interleaved)
    assert rope.rotary == rotary
    positions = torch.arange(5, 8)
    oracle = by_hand(x, exact(rotary, 1e7, positions), interleaved=interleaved)
    y = rope(x, positions)
    # Angles below 8 in float32, times numbers below 5.
    assert (y - oracle).abs().max() < 8 * 5 * torch.finfo(torch.float32).eps
    assert torch.equal(y[..., rotary:], x[..., rotary:])
    assert torch.equal(rope(x[:, 0], positions), y[:, 0])


def test_positions_of_each_sequence_and_of_every_integer_kind() -> None:
    rope = Rope.plain(8)
    positions = torch.tensor([[0, 1, 2], [7, 8, 9]])
    cos, sin = rope.tables(positions)
    assert cos.shape == sin.shape == (2, 3, 4)
    for row in range(2):
        for kind in (torch.int64, torch.int32, torch.uint8):
            alone = rope.tables(positions[row].to(kind))
            assert torch.equal(cos[row], alone[0])
            assert torch.equal(sin[row], alone[1])
    none = rope.tables(torch.arange(0))
    assert none[0].shape == (0, 4)
    assert rope(torch.zeros(1, 2, 0, 8), torch.arange(0)).shape == (1, 2, 0, 8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_tables_are_rounded_once(dtype: torch.dtype) -> None:
    rope, positions = Rope.plain(8), torch.arange(5)
    for narrow, wide in zip(
        rope.tables(positions, dtype=dtype), rope.tables(positions), strict=True
    ):
        assert narrow.dtype == dtype
        assert torch.equal(narrow, wide.to(dtype))


def test_the_factor_is_on_cosine_and_sine() -> None:
    plain = Rope.plain(8)
    rope = Rope(plain.frequencies, factor=1.25)
    positions = torch.arange(4)
    for ours, one in zip(rope.tables(positions), plain.tables(positions), strict=True):
        assert torch.equal(ours, one * 1.25)
    x = torch.randn(1, 1, 4, 8)
    assert torch.allclose(rope.back(rope(x, positions), positions), x, atol=1e-6)  # two turns


@pytest.mark.parametrize("trailing", [False, True])
@pytest.mark.parametrize("interleaved", [False, True])
def test_call_back_and_turn_pass_on_what_they_are_told(trailing: bool, interleaved: bool) -> None:
    x = torch.randn(2, 3, 5, 12, generator=torch.Generator().manual_seed(1))
    rope = Rope.plain(12, rotary=8, interleaved=interleaved)
    positions = torch.arange(20, 25)
    cos, sin = rope.tables(positions)
    y = rotate(x, cos, sin, interleaved=interleaved, trailing=trailing)
    assert torch.equal(rope(x, positions, trailing=trailing), y)
    assert torch.equal(rope.turn(positions)(x, trailing=trailing), y)
    returned = rotate(y, cos, -sin, interleaved=interleaved, trailing=trailing)
    assert torch.equal(rope.back(y, positions, trailing=trailing), returned)
    assert (returned - x).abs().max() < 8 * torch.finfo(torch.float32).eps * x.abs().max()


def test_longrope_goes_by_the_length() -> None:
    rope = Rope.from_config(LONG)
    short, long = (torch.tensor(factors) for factors in ([1.0, 1.1, 1.2, 1.3], [1.0, 2, 4, 8]))
    base = 1e4 ** (torch.arange(0, 8, 2).float() / 8)
    scale = math.sqrt(1 + math.log(4) / math.log(16))
    positions = torch.arange(3)
    for length, factors in ((None, short), (16, short), (17, long), (10**6, long)):
        cos, _ = rope.tables(positions, length=length)
        expected = (positions.float()[:, None] * (1.0 / (factors * base))).cos() * scale
        assert torch.equal(cos, expected), length
    x = torch.randn(1, 1, 3, 8)
    for length in (16, 17):
        y = rope(x, positions, length=length)
        assert torch.equal(y, rotate(x, *rope.tables(positions, length=length)))
        assert torch.equal(y, rope.turn(positions, length=length)(x))
        assert torch.allclose(rope.back(y, positions, length=length), x, atol=1e-6)  # two turns
    # The largest position decides if no length is given, for all of the batch.
    by_last = rope.tables(torch.tensor([[3], [16]]))[0]
    assert torch.equal(by_last[0], rope.tables(torch.tensor([3]), length=17)[0])


def test_dynamic_needs_no_more_than_positions() -> None:
    rope = Rope.from_config({
        "model_type": "llama", "hidden_size": 64, "num_attention_heads": 8, "rope_theta": 10000.0,
        "max_position_embeddings": 16, "rope_scaling": {"type": "dynamic", "factor": 2.0},
    })  # fmt: skip
    plain, positions = Rope.plain(8), torch.arange(3)
    for length in (None, 3, 16):
        assert torch.equal(rope.tables(positions, length=length)[0], plain.tables(positions)[0])
    # theta (2 * 32 / 16 - 1)^(8 / 6) for 32 tokens
    slower = Rope.plain(8, theta=10000.0 * 3.0 ** (8 / 6))
    ours, expected = (r.tables(positions, length=32)[0] for r in (rope, slower))
    assert torch.allclose(ours, expected, atol=2e-7)  # the base is a float32 number
    assert torch.equal(
        rope.tables(torch.tensor([31]))[0], rope.tables(torch.tensor([31]), length=32)[0]
    )
    assert rope.tables(torch.arange(0))[0].shape == (0, 4)


def test_it_is_a_value() -> None:
    one, other = Rope.plain(8), Rope.plain(8)
    one.tables(torch.arange(3))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Rope.plain(8, interleaved=True)
    long = Rope.from_config(LONG)
    for rope in (one, long):
        for twin in (copy.deepcopy(rope), pickle.loads(pickle.dumps(rope))):
            assert twin == rope
            assert torch.equal(twin.tables(torch.arange(3))[0], rope.tables(torch.arange(3))[0])
    with pytest.raises(AttributeError):
        one.factor = 2.0  # type: ignore[misc]
    assert "tensor" not in repr(one)


def test_tables_made_in_inference_mode_serve_training_too() -> None:
    rope, positions = Rope.plain(8), torch.arange(3)
    with torch.inference_mode():
        rope.tables(positions)
    x = torch.randn(1, 2, 3, 8, requires_grad=True)
    rope(x, positions).sum().backward()
    assert x.grad is not None


def test_tables_are_made_where_the_positions_are() -> None:
    cos, _ = Rope.plain(8).tables(torch.arange(3, device="meta"))
    assert cos.device.type == "meta"


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Rope.plain(8, rotary=3), ValueError, "rotary: expected an even .* 0 to 8, got 3"),
        (lambda: Rope.plain(8, rotary=10), ValueError, "rotary: expected .* from 0 to 8, got 10"),
        (lambda: Rope.plain(7), ValueError, "rotary: expected an even number .* got 7"),
        (lambda: Rope.plain(8, theta=0.0), ValueError, "theta: expected a positive number"),
        (lambda: Rope.plain(8, theta=math.inf), ValueError, "theta: expected a positive number"),
        (lambda: Rope((1.0,), factor=0.0), ValueError, "factor: expected a positive number, got 0"),
        (lambda: Rope((1.0,), factor=math.nan), ValueError, "factor: expected a positive number"),
        (lambda: Rope((math.nan,)), ValueError, "frequencies: expected finite numbers"),
        (lambda: Rope.plain(8).tables(torch.arange(3.0)), TypeError, "positions: expected integ"),
        (lambda: Rope.plain(8).tables(torch.ones(3, dtype=torch.bool)), TypeError, "positions"),
        (lambda: Rope.plain(8).tables(torch.tensor(3)), ValueError, r"expected \[T\] or \[B, T\]"),
        (
            lambda: Rope.plain(8)(torch.zeros(1, 1, 4, 4), torch.arange(4)),
            ValueError,
            "4 angles turn 8 numbers, but x has 4",
        ),
    ],
)
def test_errors_name_what_is_wrong(make, kind: type[Exception], message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(kind, match=message):
        make()


def test_the_picture_is_made_of_the_law() -> None:
    drawn = picture()
    assert len(drawn.splitlines()) <= 30
    rows = [line for line in drawn.splitlines() if line.startswith("i - j")]
    assert len(rows) == 3
    for row in rows:
        scores = [part.split()[-1] for part in row.split(":")[1].split("   ")]
        assert len(scores) == 3
        assert len(set(scores)) == 1
