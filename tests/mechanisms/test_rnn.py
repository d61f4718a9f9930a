"""RNN, GRU and LSTM against torch.nn, and what one fixed state costs."""

from __future__ import annotations

import copy
import doctest

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.flop_counter import FlopCounterMode

from attnscope.caches import StateCache
from attnscope.core.mechanism import parameters_of
from attnscope.core.recurrence import CELLS, IMPLS
from attnscope.mechanisms import rnn
from attnscope.mechanisms.rnn import (
    ABOUT,
    GRU,
    LSTM,
    RNN,
    EncoderDecoder,
    Recurrent,
    picture,
    walk,
)
from attnscope.testing import budget

KINDS: dict[type[Recurrent], type[nn.RNNBase]] = {RNN: nn.RNN, GRU: nn.GRU, LSTM: nn.LSTM}
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def theirs(kind: type[Recurrent], width: int = 5, hidden: int = 7, **options) -> nn.RNNBase:  # type: ignore[no-untyped-def]
    torch.manual_seed(1)
    return KINDS[kind](width, hidden, batch_first=True, **options)


def inputs(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def gradients(output: torch.Tensor, x: torch.Tensor, module: nn.Module) -> dict[str, torch.Tensor]:
    """Of a sum with fixed random signs, by x and by every parameter."""
    pull = inputs(*output.shape, seed=9).to(output.dtype)
    named = {"x": x} | dict(module.named_parameters())
    found = torch.autograd.grad(output, list(named.values()), pull)
    return dict(zip(named, found, strict=True))


def judge(ours: nn.Module, peer: nn.RNNBase, x: torch.Tensor, run_ours, run_theirs) -> None:  # type: ignore[no-untyped-def]
    """Outputs and gradients of two modules, by the same in float64."""
    exact = copy.deepcopy(peer).double()
    results = []
    for module, run, dtype in (
        (ours, run_ours, x.dtype),
        (peer, run_theirs, x.dtype),
        (exact, run_theirs, torch.float64),
    ):
        own = x.detach().to(dtype).requires_grad_()
        y = run(module, own)
        results.append({"y": y.detach()} | gradients(y, own, module))
    mine, others, oracle = results
    assert mine.keys() == oracle.keys()
    for name, value in mine.items():
        budget(value, peer=others[name], oracle=oracle[name], what=name)


@each_kind
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3, 11, 5), (1, 1, 5), (2, 37, 5)])
def test_output_and_gradients_are_torchs(
    kind: type[Recurrent], bias: bool, shape: tuple[int, ...]
) -> None:
    peer = theirs(kind, bias=bias)
    ours = kind.from_torch(peer)
    judge(ours, peer, inputs(*shape), lambda m, x: m(x), lambda m, x: m(x)[0])


@each_kind
def test_packed_sequences_of_odd_lengths_are_torchs(kind: type[Recurrent]) -> None:
    lengths = torch.tensor([3, 11, 1, 7])
    x = inputs(4, 11, 5)
    for i, n in enumerate(lengths.tolist()):
        x[i, n:] = 1e6  # padding that would be noticed
    peer = theirs(kind)
    ours = kind.from_torch(peer)

    def packed(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        rows = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(m(rows)[0], batch_first=True, total_length=11)[0]

    judge(ours, peer, x, lambda m, x: m(x, lengths=lengths), packed)
    y, state = ours.read(x, lengths=lengths)
    last = torch.stack([y[i, n - 1] for i, n in enumerate(lengths.tolist())])
    assert torch.equal(ours.cell.output(state), last)


@each_kind
def test_new_weights_are_drawn_as_torch_draws_them(kind: type[Recurrent]) -> None:
    peer = theirs(kind, 5, 7)
    torch.manual_seed(1)
    for name, weight in kind(5, 7).named_parameters():
        assert torch.equal(weight, peer.get_parameter(name)), name


@each_kind
def test_a_new_cache_is_as_wide_as_it_is_asked_to_be(kind: type[Recurrent]) -> None:
    layer = kind(5, 7)
    for asked, held in (
        (None, torch.float32), (torch.bfloat16, torch.float32), (torch.float64, torch.float64),
    ):  # fmt: skip
        assert layer.new_cache(2, dtype=asked).state.dtype == held  # type: ignore[union-attr]
    assert layer.double().new_cache().state.dtype == torch.float64  # type: ignore[union-attr]


@each_kind
def test_the_last_state_is_torchs(kind: type[Recurrent]) -> None:
    peer = theirs(kind)
    x = inputs(2, 9, 5)
    start = inputs(2, 2, 7, seed=3)  # B, (h, c), N
    given = tuple(start[:, i][None] for i in range(2)) if kind is LSTM else start[:, 0][None]
    exact = copy.deepcopy(peer).double()
    wide = tuple(g.double() for g in given) if kind is LSTM else given.double()
    _, end = peer(x, given)
    _, oracle = exact(x.double(), wide)
    ours = kind.from_torch(peer)
    _, state = ours.read(x, start if kind is LSTM else start[:, 0])
    for i in range(ours.cell.states):
        mine = state[:, i] if kind is LSTM else state
        a, b = (end[i][0], oracle[i][0]) if kind is LSTM else (end[0], oracle[0])
        budget(mine.detach(), peer=a.detach(), oracle=b.detach(), what=f"state {i}")


@each_kind
def test_narrow_dtypes_are_no_worse_than_torchs(kind: type[Recurrent]) -> None:
    peer = theirs(kind).to(torch.bfloat16)
    ours = kind.from_torch(peer)
    x = inputs(2, 33, 5).to(torch.bfloat16)
    exact = copy.deepcopy(peer).double()
    with torch.no_grad():
        y = ours(x)
        budget(y, peer=peer(x)[0], oracle=exact(x.double())[0])
    assert y.dtype == torch.bfloat16
    assert ours.read(x)[1].dtype == torch.float32


@each_kind
def test_swapped_gates_and_a_bias_in_the_wrong_place_are_caught(kind: type[Recurrent]) -> None:
    peer = theirs(kind)
    x = inputs(2, 9, 5)
    run = (lambda m, x: m(x), lambda m, x: m(x)[0])
    N, gates = 7, CELLS[kind.__name__.lower()].gates
    damaged = kind.from_torch(peer)
    with torch.no_grad():
        if gates > 1:
            first, second = (
                damaged.weight_ih_l0[:N].clone(),
                damaged.weight_ih_l0[N : 2 * N].clone(),
            )
            damaged.weight_ih_l0[:N], damaged.weight_ih_l0[N : 2 * N] = second, first
        else:
            damaged.bias_hh_l0[0] += 1e-4
    with pytest.raises(AssertionError, match="off"):
        judge(damaged, peer, x, *run)
    if kind is GRU:
        # b_hh of n stands inside r * (...): moved to b_ih it is another layer.
        moved = kind.from_torch(peer)
        with torch.no_grad():
            moved.bias_ih_l0[2 * N :] += moved.bias_hh_l0[2 * N :]
            moved.bias_hh_l0[2 * N :] = 0
        with pytest.raises(AssertionError, match="off"):
            judge(moved, peer, x, *run)


@each_kind
def test_both_implementations_agree(kind: type[Recurrent]) -> None:
    torch.manual_seed(2)
    ours = kind(5, 7)
    exact = copy.deepcopy(ours).double()
    x = inputs(3, 17, 5)
    with torch.no_grad():
        plain, fast = (ours.read(x, impl=impl)[0] for impl in IMPLS)
        budget(fast, peer=plain, oracle=exact.read(x.double(), impl="reference")[0])


@each_kind
def test_prefill_chunks_and_steps_agree(kind: type[Recurrent]) -> None:
    torch.manual_seed(4)
    ours = kind(5, 7).double()
    x = inputs(2, 23, 5).double()
    with torch.no_grad():
        whole = ours(x)
        for sizes in ([23], [1] * 23, [7, 1, 13, 2], [5, 18]):
            cache = ours.new_cache(batch=2)
            parts = [ours(part, cache=cache) for part in x.split(sizes, dim=1)]
            assert cache.length == 23
            # In float64; the products may be summed in another order for another height.
            torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-14, rtol=1e-13)
        empty = ours.new_cache(batch=2)
        ours(x[:, :0], cache=empty)
        assert empty.length == 0
        torch.testing.assert_close(ours(x, cache=empty), whole, atol=0, rtol=0)


@each_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_counts_are_those_of_real_tensors(kind: type[Recurrent], dtype: torch.dtype) -> None:
    ours = kind(5, 7).to(dtype)
    cache = ours.new_cache(batch=1)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        ours(inputs(1, 9, 5).to(dtype), cache=cache)
    counts = ours.counts(9, dtype=dtype)
    assert counter.get_total_flops() == counts.flops_dense + counts.projection_flops
    assert counts.parameters == parameters_of(ours) == parameters_of(KINDS[kind](5, 7))
    assert counts.kept_bytes == counts.fixed_bytes == cache.nbytes
    before = cache.nbytes
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        ours(inputs(1, 1, 5).to(dtype), cache=cache)
    step = ours.counts(1, 9, dtype=dtype)
    assert counter.get_total_flops() == step.projection_flops
    assert cache.nbytes == before + step.bytes_per_token == before


@pytest.mark.parametrize("cell", CELLS)
def test_4096_tokens_are_4096_steps_and_4095_updates(cell: str) -> None:
    count = walk(4096, cell=CELLS[cell])
    assert (count.steps, count.updates) == (4096, 4095)
    assert (walk(1).steps, walk(1).updates, walk(0).steps) == (1, 0, 0)


def test_the_counted_updates_are_those_of_autograds_graph() -> None:
    """Every tanh between the last state and the first token is a node of PyTorch's own graph."""
    layer = RNN(3, 4)
    _, state = layer.read(inputs(1, 37, 3))
    seen, todo = set(), [state.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [parent for parent, _ in node.next_functions]
    tanhs = sum(type(node).__name__ == "TanhBackward0" for node in seen)
    assert tanhs == walk(37).steps == walk(37).updates + 1


@given(st.integers(1, 12), st.integers(0, 11))
@settings(max_examples=20, deadline=None)
def test_a_later_token_cannot_matter(tokens: int, at: int) -> None:
    at = min(at, tokens - 1)
    torch.manual_seed(5)
    layer = GRU(3, 4)
    x = inputs(1, tokens, 3)
    other = x.clone()
    other[:, at] += 1
    a, b = layer(x), layer(other)
    assert torch.equal(a[:, :at], b[:, :at])
    assert not torch.equal(a[:, at:], b[:, at:])


@each_kind
def test_the_translators_source_passes_through_one_state(kind: type[Recurrent]) -> None:
    torch.manual_seed(6)
    C, N, S, T = 5, 3, 11, 8
    model = EncoderDecoder(C, C, N, kind=kind).double()
    source, target = inputs(1, S, C).double(), inputs(1, T, C, seed=1).double()
    jacobian = torch.autograd.functional.jacobian(lambda s: model(s, target), source)
    rank = int(torch.linalg.matrix_rank(jacobian.reshape(T * N, S * C)))
    assert rank == N * model.encoder.cell.states
    assert min(T * N, S * C) > rank, "the bound could not fail"
    # The same decoder allowed to look at the source has more directions.
    free = torch.autograd.functional.jacobian(
        lambda s: model(s, target) + (target @ s.transpose(1, 2)) @ s[..., :N], source
    )
    assert int(torch.linalg.matrix_rank(free.reshape(T * N, S * C))) > rank


@each_kind
def test_the_translator_decodes_step_by_step_and_with_lengths(kind: type[Recurrent]) -> None:
    torch.manual_seed(7)
    model = EncoderDecoder(5, 4, 6, kind=kind).double()
    source, target = inputs(2, 9, 5).double(), inputs(2, 7, 4, seed=1).double()
    lengths = torch.tensor([9, 4])
    with torch.no_grad():
        whole = model(source, target, lengths=lengths)
        cache = model.start(model.encode(source, lengths=lengths))
        steps = [model.decoder(target[:, t : t + 1], cache=cache) for t in range(7)]
        torch.testing.assert_close(torch.cat(steps, 1), whole, atol=1e-14, rtol=1e-13)
        alone = model(source[1:, :4], target[1:])
        torch.testing.assert_close(whole[1:], alone, atol=1e-14, rtol=1e-13)
    sizes = {model.encode(inputs(1, n, 5).double()).numel() for n in (1, 9, 200)}
    assert sizes == {6 * model.encoder.cell.states}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: GRU(0, 4), ValueError, "width: expected at least 1, got 0"),
        (lambda: GRU(4, -1), ValueError, "hidden: expected at least 1, got -1"),
        (lambda: GRU(3, 4)(torch.zeros(2, 3)), ValueError, r"x: .*\[B, T, 3\], got \[2, 3\]"),
        (lambda: GRU(3, 4)(torch.zeros(1, 2, 5)), ValueError, r"x: .*got \[1, 2, 5\]"),
        (
            lambda: GRU(3, 4).read(torch.zeros(1, 2, 3), torch.zeros(1, 2, 4)),
            ValueError,
            r"state: expected \[1, 4\], got \[1, 2, 4\]",
        ),
        (
            lambda: GRU(3, 4).read(torch.zeros(1, 2, 3), impl="cuda"),
            ValueError,
            "impl: unknown 'cuda'; there are reference, hoisted",
        ),
        (
            lambda: GRU(3, 4)(torch.zeros(2, 3, 3), lengths=torch.tensor([1, 4])),
            ValueError,
            r"lengths: expected 0 to 3, .*got \[1, 4\]",
        ),
        (
            lambda: GRU(3, 4)(torch.zeros(2, 3, 3), lengths=torch.tensor([1.0, 2.0])),
            ValueError,
            r"lengths: expected integers \[2\].*float32",
        ),
        (
            lambda: GRU(3, 4)(torch.zeros(1, 3, 3), lengths=torch.tensor([1]), cache=StateCache()),
            ValueError,
            "lengths: a cache has one length .*read",
        ),
        (lambda: GRU.from_torch(nn.LSTM(3, 4)), TypeError, "expected torch.nn.GRU, got LSTM"),
        (
            lambda: GRU.from_torch(nn.GRU(3, 4, num_layers=2)),
            ValueError,
            "num_layers=1, got 2; GRU is one plain layer",
        ),
        (
            lambda: LSTM.from_torch(nn.LSTM(3, 4, proj_size=2)),
            ValueError,
            "proj_size=0, got 2",
        ),
        (
            lambda: RNN.from_torch(nn.RNN(3, 4, nonlinearity="relu")),
            ValueError,
            "nonlinearity='tanh', got 'relu'",
        ),
        (
            lambda: RNN.from_torch(nn.RNN(3, 4, bidirectional=True)),
            ValueError,
            "bidirectional=False, got True",
        ),
    ],
)
def test_bad_input_is_named(call, error, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        call()


def test_picture_and_about() -> None:
    assert doctest.testmod(rnn).failed == 0
    before = torch.get_rng_state()
    drawn = picture()
    assert torch.equal(torch.get_rng_state(), before), "the caller's random numbers are its own"
    assert len(drawn.splitlines()) <= 30
    assert "4,096 steps, 4,095 updates" in drawn
    assert "in 4 <= 4 directions" in drawn
    assert ABOUT.name == "rnn"
