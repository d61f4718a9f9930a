"""Turning pairs against transformers' own functions and against a sum done by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from rope_referees import by_hand
from transformers.models.deepseek_v2.modeling_deepseek_v2 import apply_rotary_emb as complex_apply
from transformers.models.deepseek_v3.modeling_deepseek_v3 import apply_rotary_pos_emb_interleave
from transformers.models.deepseek_v4.modeling_deepseek_v4 import apply_rotary_pos_emb as v4_apply
from transformers.models.glm.modeling_glm import apply_rotary_pos_emb as glm_apply
from transformers.models.glm4_moe.modeling_glm4_moe import apply_rotary_pos_emb as partial_apply
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as llama_apply

from attnscope.positions import Rope, Turn, rotate
from attnscope.positions import turn as turn_module
from attnscope.positions.turn import FEW, _formula, _written
from attnscope.testing import budget

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
Theirs = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def tensor(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def angles_of(tokens: int, pairs: int) -> torch.Tensor:
    return torch.arange(tokens).double()[:, None] * 3.0 ** -torch.arange(pairs).double() + 0.3


def twice(table: torch.Tensor) -> torch.Tensor:
    """[1, T, r], as transformers lays out a table [T, r / 2]."""
    return torch.cat([table, table], dim=-1)[None]


# What each does to one tensor, given half tables; the second argument is k, of no interest here.
THEIRS: dict[str, tuple[Theirs, dict[str, bool], int]] = {
    "llama": (lambda x, c, s: llama_apply(x, x, twice(c), twice(s))[0], {}, 16),
    "glm4_moe, half of the width": (
        lambda x, c, s: partial_apply(x, x, twice(c), twice(s))[0], {}, 8,
    ),
    "glm, interleaved": (
        lambda x, c, s: glm_apply(x, x, twice(c), twice(s))[0], {"interleaved": True}, 16,
    ),
    "glm, interleaved, half": (
        lambda x, c, s: glm_apply(x, x, twice(c), twice(s))[0], {"interleaved": True}, 8,
    ),
    "deepseek_v4, trailing": (
        lambda x, c, s: v4_apply(x, c[None], s[None]),
        {"interleaved": True, "trailing": True},
        8,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("tokens", [1, 7, 300])
def test_turns_as_transformers_does(name: str, dtype: torch.dtype, tokens: int) -> None:
    theirs, options, rotary = THEIRS[name]
    x = tensor(2, 3, tokens, 16, dtype=dtype)
    angles = angles_of(tokens, rotary // 2)
    cos, sin = angles.cos(), angles.sin()
    mine = [table.to(torch.promote_types(dtype, torch.float32)) for table in (cos, sin)]
    ours = rotate(x, *mine, **options)
    assert ours.dtype == dtype
    # transformers hands its model tables in the model's dtype; the oracle has the exact ones.
    peer = theirs(x, cos.to(dtype), sin.to(dtype)).to(dtype)
    oracle = theirs(x.double(), cos, sin).double()
    if dtype == torch.float64:
        assert torch.equal(ours, oracle) or name.startswith("deepseek_v4")
        peer = oracle + torch.finfo(dtype).eps * x.abs().max()
    if name.startswith("deepseek_v4"):  # which rotates in float32, its oracle too
        oracle = by_hand(x, angles, **options)
    budget(ours, peer=peer, oracle=oracle, what=name)
    if dtype == torch.float32:
        assert torch.equal(ours, peer)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_complex_numbers_turn_as_neighbours(dtype: torch.dtype) -> None:
    """DeepSeek-V2 takes a pair of neighbours for one complex number."""
    x, angles = tensor(1, 4, 9, 12, dtype=dtype), angles_of(9, 6)
    cis = torch.polar(torch.ones_like(angles), angles)[None]
    peer = complex_apply(x, x, cis.to(torch.complex64))[0]
    ours = rotate(x, angles.cos(), angles.sin(), interleaved=True)
    if dtype == torch.float64:  # they rotate in float32
        peer = by_hand(x, angles, interleaved=True) + torch.finfo(dtype).eps * x.abs().max()
    budget(ours, peer=peer, oracle=by_hand(x, angles, interleaved=True))


def test_deepseek_v3_has_the_same_numbers_in_another_order() -> None:
    """It hands out first numbers, then second ones; a product of two such does not care."""
    q, k, angles = tensor(1, 4, 9, 12), tensor(1, 4, 9, 12, seed=1), angles_of(9, 6).float()
    cos, sin = angles.cos(), angles.sin()
    theirs = apply_rotary_pos_emb_interleave(q, k, twice(cos), twice(sin))
    ours = [rotate(x, cos, sin, interleaved=True) for x in (q, k)]
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(torch.cat([one[..., 0::2], one[..., 1::2]], dim=-1), other)


@pytest.mark.parametrize("rotary", [0, 2, 6, 10])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("trailing", [False, True])
def test_by_hand(rotary: int, interleaved: bool, trailing: bool) -> None:
    x, angles = tensor(2, 3, 5, 10, dtype=torch.float64), angles_of(5, rotary // 2)
    options = {"interleaved": interleaved, "trailing": trailing}
    expected = by_hand(x, angles, **options)
    ours = rotate(x, angles.cos(), angles.sin(), **options)
    # Two roundings of a product and one of their sum, of numbers below |x|.
    assert (ours - expected).abs().max() <= 4 * torch.finfo(x.dtype).eps * x.abs().max()
    begin = 10 - rotary if trailing else 0
    rest = [i for i in range(10) if not begin <= i < begin + rotary]
    assert torch.equal(ours[..., rest], x[..., rest])
    if rotary:
        assert not torch.equal(ours, x)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("trailing", [False, True])
@pytest.mark.parametrize("rotary", [4, 16])
def test_every_way_gives_the_same_bits(interleaved: bool, trailing: bool, rotary: int) -> None:
    """The formula, the version that writes in place and `Turn`, on few tokens and on many."""
    for tokens in (1, 5, 400):
        x, angles = tensor(2, 3, tokens, 16), angles_of(tokens, rotary // 2).float()
        cos, sin = angles.cos(), angles.sin()
        options = {"interleaved": interleaved, "begin": 16 - rotary if trailing else 0}
        formula = _formula(x, cos, sin, **options)  # type: ignore[arg-type]
        assert torch.equal(formula, _written(x, cos, sin, **options))  # type: ignore[arg-type]
        ours = rotate(x, cos, sin, interleaved=interleaved, trailing=trailing)
        assert torch.equal(formula, ours)
        turn = Turn(cos, sin, interleaved=interleaved)
        assert torch.equal(formula, turn(x, trailing=trailing))
    assert x.numel() > FEW  # so both ways of `rotate` were taken


@pytest.mark.parametrize("strip", [1, 500, 5000])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_strips_meet(monkeypatch: pytest.MonkeyPatch, strip: int, dtype: torch.dtype) -> None:
    """A long text is turned in strips of tokens; where they meet cannot be told."""
    x, angles = tensor(2, 1, 77, 12, dtype=dtype), torch.stack([angles_of(77, 4)] * 2).float()
    angles[1] += 1
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    for interleaved in (False, True):
        expected = _formula(x, cos, sin, interleaved=interleaved, begin=3)
        monkeypatch.setattr(turn_module, "STRIP", strip)
        ours = _written(x, cos, sin, interleaved=interleaved, begin=3)
        assert torch.equal(ours, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("tables", DTYPES, ids=str)
def test_turn_widens_as_rotate_does(dtype: torch.dtype, tables: torch.dtype) -> None:
    x, angles = tensor(1, 3, 2, 8, dtype=dtype), angles_of(2, 4)
    cos, sin = angles.cos().to(tables), angles.sin().to(tables)
    for interleaved in (False, True):
        ours = Turn(cos, sin, interleaved=interleaved)(x)
        assert ours.dtype == dtype
        assert torch.equal(ours, rotate(x, cos, sin, interleaved=interleaved))


@pytest.mark.parametrize("interleaved", [False, True])
def test_a_token_is_turned_to_the_same_bits_in_any_company(interleaved: bool) -> None:
    """So a cache filled step by step holds the very keys of a prefill."""
    x, rope = tensor(1, 8, 531, 64), Rope.plain(64, interleaved=interleaved)
    whole = rope(x, torch.arange(531))
    for begin, end in ((0, 1), (17, 18), (100, 257), (530, 531)):
        positions = torch.arange(begin, end)
        part = rope(x[:, :, begin:end], positions)
        assert torch.equal(part, whole[:, :, begin:end])
        assert torch.equal(rope.turn(positions)(x[:, :, begin:end]), part)


def test_one_angle_per_sequence_and_no_heads() -> None:
    x = tensor(2, 3, 5, 8)
    angles = torch.stack([angles_of(5, 4), angles_of(5, 4) + 2]).float()
    cos, sin = angles.cos(), angles.sin()
    whole = rotate(x, cos, sin)
    for b in range(2):
        assert torch.equal(whole[b], rotate(x[b : b + 1], cos[b], sin[b])[0])
        assert torch.equal(whole[:, 1], rotate(x[:, 1], cos, sin))
    assert torch.equal(Turn(cos, sin)(x), whole)
    assert torch.equal(Turn(cos, sin)(x[:, 1]), whole[:, 1])
    one = rotate(x, cos[:1], sin[:1])
    assert torch.equal(one[0], whole[0])
    assert not torch.equal(one[1], whole[1])


@pytest.mark.parametrize("tokens", [3, 600])
def test_views_are_turned_and_left_untouched(tokens: int) -> None:
    """Models hand over [B, T, H, D] seen as [B, H, T, D], and a head shared by all is expanded."""
    cos, sin = (f(angles_of(tokens, 4).float()) for f in (torch.cos, torch.sin))
    wide = tensor(2, tokens, 5, 20)
    for x in (
        wide.transpose(1, 2)[..., 3:19:2],
        wide[:, :, :1, :8].transpose(1, 2).expand(2, 6, tokens, 8),
    ):
        before = x.clone()
        assert not x.is_contiguous()
        assert torch.equal(rotate(x, cos, sin), rotate(before, cos, sin))
        assert torch.equal(x, before)


@pytest.mark.parametrize("name", THEIRS)
def test_gradients_are_those_of_transformers(name: str) -> None:
    theirs, options, rotary = THEIRS[name]
    angles = angles_of(6, rotary // 2).float()
    cos, sin = angles.cos(), angles.sin()
    ours, peer = (tensor(2, 3, 6, 16).requires_grad_() for _ in range(2))
    for x, y in ((ours, rotate(ours, cos, sin, **options)), (peer, theirs(peer, cos, sin))):
        y.backward(tensor(2, 3, 6, 16, seed=5))
        assert x.grad is not None
    assert torch.equal(ours.grad, peer.grad)  # type: ignore[arg-type]


@pytest.mark.parametrize("interleaved", [False, True])
def test_gradients_by_differences(interleaved: bool) -> None:
    angles = angles_of(3, 2)

    def turned(x: torch.Tensor) -> torch.Tensor:
        return rotate(x, angles.cos(), angles.sin(), interleaved=interleaved, trailing=True)

    x = tensor(1, 2, 3, 6, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(turned, (x,))


@pytest.mark.parametrize("tokens", [3, 2000])
def test_inside_torch_func(tokens: int) -> None:
    angles = angles_of(tokens, 2)

    def turned(x: torch.Tensor) -> torch.Tensor:
        return rotate(x, angles.cos(), angles.sin())

    many = tensor(2, 1, 2, tokens, 6, dtype=torch.float64)
    alone = torch.stack([turned(one) for one in many])
    assert torch.equal(torch.func.vmap(turned)(many), alone)
    slope = torch.func.grad(lambda x: (turned(x) * many[1]).sum())(many[0])
    back = rotate(many[1], angles.cos(), -angles.sin())
    assert torch.equal(slope, back)  # it is linear, and its transpose turns back


def test_a_wrong_way_is_caught() -> None:
    """Pairs, side and sign are all seen by the comparison above."""
    x, angles = tensor(1, 2, 7, 16), angles_of(7, 8).float()
    cos, sin = angles.cos(), angles.sin()
    right = llama_apply(x, x, twice(cos), twice(sin))[0]
    oracle = by_hand(x, angles)
    budget(rotate(x, cos, sin), peer=right, oracle=oracle)
    for wrong in (rotate(x, cos, sin, interleaved=True), rotate(x, cos, -sin), rotate(x, sin, cos)):
        with pytest.raises(AssertionError, match="off"):
            budget(wrong, peer=right, oracle=oracle)


@pytest.mark.parametrize(
    ("shape", "cos", "sin", "message"),
    [
        ((4, 8), (4, 2), (4, 2), r"x: expected \[B, H, T, D\] or \[B, T, D\], got shape \[4, 8\]"),
        ((1, 2, 4, 8), (4, 2), (4, 3), r"cos, sin: expected the same .* got \[4, 2\] and \[4, 3\]"),
        ((1, 2, 4, 8), (2,), (2,), r"cos, sin: expected the same \[T, r/2\] or \[B, T, r/2\]"),
        ((1, 2, 4, 8), (4, 5), (4, 5), "5 angles turn 10 numbers, but x has 8"),
        ((1, 2, 4, 8), (3, 2), (3, 2), "T and B must be the same"),
        ((3, 2, 4, 8), (2, 4, 2), (2, 4, 2), "T and B must be the same"),
    ],
)
def test_shapes_that_do_not_go_together(
    shape: tuple[int, ...], cos: tuple[int, ...], sin: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        rotate(torch.zeros(shape), torch.zeros(cos), torch.zeros(sin))


def test_whole_numbers_are_not_turned() -> None:
    table = torch.zeros(4, 2)
    with pytest.raises(TypeError, match=r"expected floating point, got torch.int64"):
        rotate(torch.zeros(1, 1, 4, 4, dtype=torch.int64), table, table)
    with pytest.raises(TypeError, match=r"expected floating point"):
        Turn(table, table)(torch.zeros(1, 1, 4, 4, dtype=torch.int64))
