"""A small trace made of plain numpy, and ways to run the real server and to ask it."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from attnscope.trace import Trace

TOKENS, HEADS, GROUPS, WIDTH = 300, 4, 2, 8
SECONDS = 60


def make_trace(*, tokens: int = TOKENS, model: str = "plain", words: Any = None) -> Trace:
    """Two layers with maps and one without; weights follow from the definition, in float64.

    Args:
        words: gives the text of a token by its number.
    """
    texts = [words(n) if words else f"w{n} " for n in range(tokens)]
    table, at = [], 0
    for index, text in enumerate(texts):
        size = len(text.encode())
        table.append({"index": index, "id": index, "text": text, "start": at, "end": at + size})
        at += size
    layers = {0: _arrays(tokens, seed=0), 2: _arrays(tokens, seed=2)}
    about = {
        "kind": "full", "query_heads": HEADS, "kv_heads": GROUPS, "head_width": WIDTH,
        "value_width": WIDTH, "scale": WIDTH**-0.5, "window": None, "softcap": None,
    }  # fmt: skip
    header = {
        "model": {"name": model, "architecture": "Plain", "layers": 3, "query_heads": HEADS,
                  "kv_heads": GROUPS, "head_width": WIDTH, "width": 32},
        "mode": "replace", "tokens": table, "text": "".join(texts), "prompt_tokens": tokens,
        "statistics": ["logsumexp", "entropy", "sink_mass", "received"],
        "layers": [
            {"index": 0, **about},
            {"index": 1, "kind": "none", "reason": "a recurrent layer"},
            {"index": 2, **about},
        ],
    }  # fmt: skip
    return Trace.from_arrays(header, layers)


def _arrays(tokens: int, *, seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    q = (2 * generator.standard_normal((HEADS, tokens, WIDTH))).astype(np.float32)
    k = generator.standard_normal((GROUPS, tokens, WIDTH)).astype(np.float32)
    lse, weights = softmax(q, k)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(weights > 0, np.log(weights), 0)
    rows = np.arange(tokens, dtype=np.int32)
    return {
        "q": q, "k": k, "logsumexp": lse.astype(np.float32),
        "entropy": -(weights * logs).sum(-1).astype(np.float32),
        "sink_mass": weights[:, :, 0].astype(np.float32),
        "received": weights.sum(1).astype(np.float32),
        "value_norms": generator.uniform(0.5, 2, (HEADS, tokens)).astype(np.float32),
        "first": np.zeros(tokens, np.int32), "end": rows + 1, "origin": np.zeros(tokens, np.int32),
    }  # fmt: skip


def softmax(q: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-sum-exps [H, T] and causal weights [H, T, S], by the definition, in float64."""
    keys = np.repeat(k.astype(np.float64), len(q) // len(k), axis=0)
    scores = np.einsum("htd,hsd->hts", q.astype(np.float64), keys) * q.shape[-1] ** -0.5
    scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
    top = scores.max(-1, keepdims=True)
    total = np.exp(scores - top).sum(-1, keepdims=True)
    return (top + np.log(total))[..., 0], np.exp(scores - top) / total


class Client:
    """Asks one server, a connection for each question."""

    def __init__(self, address: str) -> None:
        self.address = address
        parts = urlsplit(address)
        assert parts.hostname is not None
        self.host, self.port, self.prefix = parts.hostname, parts.port, parts.path

    def ask(
        self, path: str = "", *, method: str = "GET", body: Any = None, headers: Any = None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Status, headers and body; `path` stands below the secret unless it begins with /."""
        whole = path if path.startswith("/") else self.prefix + path
        connection = http.client.HTTPConnection(self.host, self.port, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request(method, whole, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def json(self, path: str, **options: Any) -> Any:
        """The JSON of a good answer."""
        status, _, body = self.ask(path, **options)
        assert 200 <= status < 300, (status, body)
        return json.loads(body)

    def refused(self, path: str, **options: Any) -> tuple[int, str]:
        """The status and the sentence of a refusal."""
        status, headers, body = self.ask(path, **options)
        assert status >= 400, body[:200]
        assert headers["content-type"] == "application/json"
        said = json.loads(body)
        assert list(said) == ["error"]
        return status, said["error"]


@contextlib.contextmanager
def running(*arguments: str | Path, env: dict[str, str] | None = None) -> Iterator[Any]:
    """`attnscope serve` in a process of its own; gives the process and a client."""
    process = subprocess.Popen(
        [sys.executable, "-m", "attnscope", "serve", "--no-open", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise RuntimeError(process.communicate(timeout=SECONDS)[1])
        yield process, Client(address)
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)
