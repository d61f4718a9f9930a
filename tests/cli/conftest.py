"""A small trace whose heads do known things, and a way to run the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from attnscope.cli import main
from attnscope.core import attend
from attnscope.core.request import ROW_STATISTICS, Request
from attnscope.trace import Trace

TEXT = "the cat 国 sat, the cat 😀!"
WIDTH, GROUPS = 8, 2


def pieces(text: str) -> list[dict[str, Any]]:
    """One token per word, but one per byte inside 国: what a byte-level tokenizer does."""
    tokens: list[dict[str, Any]] = [{"id": 1, "text": "<s>", "start": 0, "end": 0}]
    at = 0
    for word in ("the", " cat", " ", "国", " sat", ",", " the", " cat", " 😀", "!"):
        raw = word.encode()
        spans = [(at + i, at + i + 1) for i in range(3)] if word == "国" else [(at, at + len(raw))]
        for start, end in spans:
            shown = word if word == "国" else text.encode()[start:end].decode()
            number = 100 + sum(text.encode()[start:end]) % 97
            tokens.append({"id": number, "text": shown, "start": start, "end": end})
        at += len(raw)
    return [{"index": index, **token} for index, token in enumerate(tokens)]


def layer_arrays(tokens: int, *, heads: int, toward: list[Any]) -> dict[str, np.ndarray]:
    """Queries and keys of which head h looks where `toward[h]` says (None: anywhere)."""
    generator = torch.Generator().manual_seed(heads)
    k = torch.randn(1, GROUPS, tokens, WIDTH, generator=generator)
    q = torch.randn(1, heads, tokens, WIDTH, generator=generator) * 0.1
    for head, target in enumerate(toward):
        group = head * GROUPS // heads
        for row in range(tokens):
            if target is not None and (key := target(row)) is not None:
                chosen = k[0, group, key]
                q[0, head, row] = 40 * chosen / chosen.norm() ** 2 * WIDTH**0.5
    v = torch.randn(1, GROUPS, tokens, WIDTH, generator=generator)
    ids = torch.tensor([token["id"] for token in pieces(TEXT)])
    found = attend(
        q, k, v, impl="reference", statistics=Request.of("all", tokens=ids[None], pool=True)
    )
    arrays = {
        name: found[name][0].numpy().astype(np.int32 if name == "argmax" else np.float32)
        for name in (*ROW_STATISTICS, "received")
    }
    norms = v.norm(dim=-1)[0].repeat_interleave(heads // GROUPS, dim=0).numpy().copy()
    norms[:, 0] = 0.01  # the first token's value carries next to nothing, as in real models
    rows = np.arange(tokens, dtype=np.int32)
    return {
        **arrays,
        "q": q[0].numpy(),
        "k": k[0].numpy(),
        "value_norms": norms,
        "first": np.zeros(tokens, np.int32),
        "end": rows + 1,
        "origin": np.zeros(tokens, np.int32),
    }


def fake_trace() -> Trace:
    """Four layers: heads that rest, copy and spread; one layer has no map."""
    tokens = pieces(TEXT)
    count = len(tokens)
    toward = [lambda row: 0, lambda row: max(row - 1, 0), None, lambda row: max(row - 3, 0)]
    layers: dict[int, dict[str, np.ndarray]] = {
        index: layer_arrays(count, heads=4, toward=toward[index:] + toward[:index])
        for index in (0, 1, 3)
    }
    scale = WIDTH**-0.5
    entries: list[dict[str, Any]] = [
        {"index": index, "kind": "full", "query_heads": 4, "kv_heads": GROUPS, "scale": scale,
         "head_width": WIDTH, "value_width": WIDTH, "window": None, "softcap": None}
        for index in layers
    ]  # fmt: skip
    entries[1] |= {"kind": "sliding", "window": count}
    entries.insert(2, {"index": 2, "kind": "none", "reason": "a recurrent layer"})
    header = {
        "model": {"name": "fake", "architecture": "FakeForCausalLM", "layers": 4,
                  "query_heads": 4, "kv_heads": GROUPS, "head_width": WIDTH, "width": 32},
        "mode": "replace", "tokens": tokens, "text": TEXT, "prompt_tokens": count,
        "statistics": [*ROW_STATISTICS, "received"], "layers": entries,
    }  # fmt: skip
    return Trace.from_arrays(header, layers)


@pytest.fixture(scope="session")
def trace() -> Trace:
    return fake_trace()


@dataclass(frozen=True)
class Ran:
    """What a command line left: its exit code, stdout and stderr."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Ran]:
    """Run one command line in this process, as the script would."""

    def call(*arguments: str) -> Ran:
        code = main.run(arguments)
        out, err = capfdbinary.readouterr()
        return Ran(code, out.decode("utf-8"), err.decode("utf-8"))

    return call
