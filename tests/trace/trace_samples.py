"""Small traces made by the reference attention, and the same weights by a formula of our own.

The oracle is the dense float64 softmax written below in numpy; it shares no code with the package.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnscope.core.attend import attend
from attnscope.core.masks import as_spans, spans
from attnscope.core.request import Request
from attnscope.trace import Trace

WORDS = "the cat saw the dog and the dog saw the cat "


@dataclass
class Case:
    """What one layer is like."""

    H: int = 4
    G: int = 2
    T: int = 24
    S: int = 24
    D: int = 8
    E: int = 6
    dtype: torch.dtype = torch.float32
    causal: bool = True
    window: int | None = None
    softcap: float | None = None
    scale: float = 0.6
    sinks: bool = False
    bias: str | None = None
    mask: torch.Tensor | None = None
    documents: list[int] | None = None
    cross: bool = False
    seed: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


def tokens(count: int) -> tuple[str, list[dict[str, Any]]]:
    """A text in which words come again, and one token per word."""
    words = (WORDS * (count // 11 + 1)).split()[:count]
    ids = {word: n for n, word in enumerate(sorted(set(words)))}
    entries, at = [], 0
    for index, word in enumerate(words):
        end = at + len(word) + 1
        entries.append(
            {"index": index, "id": ids[word], "text": word + " ", "start": at, "end": end}
        )
        at = end
    return "".join(word + " " for word in words), entries


def bits(tensor: torch.Tensor) -> np.ndarray:
    """A tensor as numpy; bfloat16 as its bits."""
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(np.uint16)
    return tensor.contiguous().numpy()


def oracle(case: Case, q: torch.Tensor, k: torch.Tensor, rest: dict[str, Any]) -> np.ndarray:
    """Dense float64 weights [H, T, S] by the formula."""
    q64, k64 = q[0].double().numpy(), k[0].double().numpy().repeat(case.H // case.G, 0)
    scores = case.scale * np.einsum("htd,hsd->hts", q64, k64)
    if case.softcap:
        scores = case.softcap * np.tanh(scores / case.softcap)
    if rest["bias"] is not None:
        scores = scores + rest["bias"][0].double().numpy()
    i = np.arange(case.S - case.T, case.S)[:, None]
    j = np.arange(case.S)[None]
    seen = np.ones((case.T, case.S), bool)
    if case.causal:
        seen &= j <= i
    if case.window:
        seen &= i - j < case.window
        if not case.causal:
            seen &= j - i < case.window
    if case.documents is not None:
        ids = np.array(case.documents)
        seen &= (ids[i] == ids[j]) & (ids[i] >= 0)
    if case.mask is not None:
        seen &= case.mask.numpy()
    scores = np.where(seen, scores, -np.inf)
    top = np.maximum(scores.max(-1, keepdims=True), -1e300)
    if case.sinks:
        top = np.maximum(top, rest["sinks"].double().numpy()[:, None, None])
    raised = np.exp(scores - top)
    total = raised.sum(-1, keepdims=True)
    if case.sinks:
        total = total + np.exp(rest["sinks"].double().numpy()[:, None, None] - top)
    return np.divide(raised, total, out=np.zeros_like(raised), where=total > 0)


def layer(case: Case) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A layer's arrays as a capture would give them, and the oracle's weights."""
    make = torch.Generator().manual_seed(case.seed)
    q = torch.randn(1, case.H, case.T, case.D, generator=make, dtype=torch.float64)
    k = torch.randn(1, case.G, case.S, case.D, generator=make, dtype=torch.float64)
    v = torch.randn(1, case.G, case.S, case.E, generator=make, dtype=torch.float64)
    q, k, v = q.to(case.dtype), k.to(case.dtype), v.to(case.dtype)
    rest: dict[str, Any] = {"sinks": None, "bias": None}
    arrays: dict[str, np.ndarray] = {}
    if case.sinks:
        rest["sinks"] = torch.randn(case.H, generator=make)
        arrays["sinks"] = rest["sinks"].numpy()
    if case.bias == "offset":
        line = torch.randn(case.H, case.T + case.S - 1, generator=make)
        place = torch.arange(case.S) - torch.arange(case.T)[:, None] + case.T - 1
        rest["bias"] = line[:, place][None]
        arrays["bias_by_offset"] = line.numpy()
    elif case.bias == "full":
        rest["bias"] = torch.randn(1, case.H, case.T, case.S, generator=make)
        arrays["bias"] = rest["bias"][0].numpy()
    documents = None if case.documents is None else torch.tensor(case.documents)
    _, entries = tokens(case.S)
    found = attend(
        q, k, v,
        scale=case.scale, causal=case.causal, window=case.window, softcap=case.softcap,
        sinks=rest["sinks"], bias=rest["bias"], mask=case.mask, documents=documents,
        statistics=Request.of(
            "all", pool=True, tokens=torch.tensor([entry["id"] for entry in entries])
        ),
        impl="reference",
    )  # fmt: skip
    seen = spans(case.T, case.S, causal=case.causal, window=case.window, documents=documents)
    if case.mask is not None:
        assert as_spans(case.mask, case.T, case.S, batch=1) is None, "a mask that spans can say"
        arrays["mask"] = np.packbits(case.mask.numpy(), axis=1)
    for name, tensor in found.statistics.items():
        arrays[name] = tensor[0].numpy()
    assert found.map is not None
    norms = v[0].float().norm(dim=-1).repeat_interleave(case.H // case.G, dim=0)
    arrays |= {
        "q": bits(q[0]),
        "k": bits(k[0]),
        "first": seen.first[0].numpy(),
        "end": seen.end[0].numpy(),
        "origin": seen.origin[0].numpy(),
        "value_norms": norms.numpy(),
        "map_mean": found.map.mean[0].numpy(),
        "map_max": found.map.max[0].numpy(),
        "map_argmax": found.map.argmax[0].numpy(),
        "map_cell": np.array([found.map.cell], np.int32),
        "rope_frequencies": (10.0 ** -np.arange(case.D // 2)).astype(np.float32),
        "rope_pairs": np.arange(case.D // 2 * 2, dtype=np.int32).reshape(2, -1).T.copy(),
    }
    return arrays, oracle(case, q, k, rest)


def header(*cases: Case) -> dict[str, Any]:
    """trace.json's fields for layers 0, 1, …, and a last layer without a map."""
    text, entries = tokens(cases[0].S)
    last = {"index": len(cases), "kind": "none", "reason": "a recurrent layer"}
    return {
        "model": {
            "name": "tiny",
            "architecture": "TinyForCausalLM",
            "layers": len(cases) + 1,
            "query_heads": cases[0].H,
            "kv_heads": cases[0].G,
            "head_width": cases[0].D,
            "width": 32,
            "vocabulary": 100,
        },
        "mode": "replace",
        "tokens": entries,
        "text": text,
        "prompt_tokens": len(entries),
        "statistics": statistic_names(),
        "layers": [
            {
                "index": index,
                "kind": "sliding" if case.window else "full",
                "window": case.window if case.causal else None,
                "value_width": case.E,
                "scale": case.scale,
                "softcap": case.softcap,
                "causal": case.causal,
                "cross": case.cross,
            }
            for index, case in enumerate(cases)
        ]
        + [last],
    }


def statistic_names() -> list[str]:
    """Every statistic that the core knows."""
    from attnscope.core.request import STATISTICS

    return list(STATISTICS)


def trace(*cases: Case) -> Trace:
    """A trace in memory with one layer per case."""
    cases = cases or (Case(),)
    return Trace.from_arrays(
        header(*cases), {index: layer(case)[0] for index, case in enumerate(cases)},
        embeddings=embeddings(header(*cases)["tokens"]),
    )  # fmt: skip


def embeddings(entries: list[dict[str, Any]], width: int = 5) -> dict[str, np.ndarray]:
    """A row of random numbers for each different token."""
    ids = np.array(sorted({entry["id"] for entry in entries}), np.int32)
    vectors = np.random.default_rng(7).standard_normal((len(ids), width)).astype(np.float32)
    return {"ids": ids, "vectors": vectors}


def sign(value: dict[str, Any]) -> bytes:
    """trace.json with a checksum that fits, computed here as docs/trace.md says.

    A hostile writer can do the same, so every test of a hostile header starts from this.
    """
    text = json.dumps({**value, "sha256": "0" * 64}, ensure_ascii=False).encode()
    digits = hashlib.sha256(text).hexdigest().encode()
    return re.sub(rb'"sha256": "0{64}"', b'"sha256": "' + digits + b'"', text, count=1)


def sign_text(text: str) -> bytes:
    """The same for a header that is text already."""
    blank = re.sub(r'"sha256": "[0-9a-f]{64}"', '"sha256": "' + "0" * 64 + '"', text, count=1)
    digits = hashlib.sha256(blank.encode()).hexdigest()
    return blank.replace("0" * 64, digits, 1).encode()


def rewrite(folder: Path, **fields: Any) -> None:
    """Change top-level fields of a saved trace and sign it again."""
    path = folder / "trace.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    path.write_bytes(sign({**value, **fields}))


def rewrite_layer(folder: Path, place: int, /, **fields: Any) -> None:
    """Change fields of one layer's entry and sign again."""
    value = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
    value["layers"][place].update(fields)
    rewrite(folder, layers=value["layers"])


def replace_file(folder: Path, data: bytes, index: int = 0) -> None:
    """Put other bytes in a layer's file, with length and checksums that fit."""
    import zlib

    name = f"layers/{index:03d}.safetensors"
    (folder / name).write_bytes(data)
    step = 1 << 18
    sums = [zlib.crc32(data[at : at + step]) for at in range(0, len(data), step)]
    rewrite_layer(folder, index, bytes=len(data), crc32="".join(f"{s:08x}" for s in sums))
