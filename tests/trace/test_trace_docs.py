"""docs/trace.md says what the code does: every field has a row, and its formulas read a trace.

The reader below is written from the page alone, with the safetensors library; it shares nothing
with the package.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from trace_samples import Case, trace

from attnscope.trace import format as layout
from attnscope.trace.header import Header, LayerInfo

PAGE = (Path(__file__).parents[2] / "docs" / "trace.md").read_text(encoding="utf-8")


def rows(section: str) -> dict[str, list[str]]:
    """The tables of one section: by each name in the first column, the other columns."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            first, *rest = [cell.strip() for cell in line.strip("|").split("|")]
            found |= {name: rest for name in re.findall(r"`([a-z0-9_]+)`", first)}
    return found


def test_every_field_of_the_header_is_on_the_page() -> None:
    fields = set(Header.__dataclass_fields__) | {"format", "version", "sha256"}
    entry = set(LayerInfo.__dataclass_fields__) - {"reason"}
    assert set(rows("trace.json")) == fields | entry
    assert "`reason`" in PAGE


def test_every_array_is_on_the_page_with_its_dtypes() -> None:
    page = rows("A layer's file")
    assert set(page) == set(layout.ARRAYS)
    for name, (shape, dtypes, *_) in page.items():
        spec = layout.ARRAYS[name]
        if name != "k":  # "the same as q"
            named = re.findall(r"F16|BF16|F32|F64|I32|U8", dtypes) or ["I32"]
            assert set(named) <= set(spec.dtypes)
        if shape != "the same":
            axes = len(re.sub(r"\(.*?\)", "", shape).split(","))
            assert axes == len(spec.axes)


def test_the_numbers_on_the_page_are_the_codes() -> None:
    assert f"at most {layout.MAX_HEADER >> 20} MiB" in PAGE
    assert f"each {layout.BLOCK >> 10} KiB of that file" in PAGE
    assert f"| `version` | {layout.VERSION} |" in PAGE


@pytest.mark.parametrize(
    "case",
    [
        Case(),
        Case(sinks=True, window=5),
        Case(softcap=2.0, T=9),
        Case(bias="offset", T=9),
        Case(bias="full"),
        Case(dtype=torch.bfloat16),
        Case(mask=torch.rand(24, 24, generator=torch.Generator().manual_seed(1)) < 0.5),
    ],
)
def test_a_reader_written_from_the_page_gets_the_same(case: Case, tmp_path: Path) -> None:
    made = trace(case)
    folder = made.save(tmp_path / "run")
    raw = (folder / "trace.json").read_bytes()
    value = json.loads(raw)
    blank = raw.replace(value["sha256"].encode(), b"0" * 64)
    assert hashlib.sha256(blank).hexdigest() == value["sha256"]

    entry = value["layers"][0]
    data = (folder / entry["file"]).read_bytes()
    assert len(data) == entry["bytes"]
    blocks = [data[at : at + 262144] for at in range(0, len(data), 262144)]
    assert "".join(f"{zlib.crc32(block):08x}" for block in blocks) == entry["crc32"]

    arrays = {k: v.double().numpy() for k, v in load_file(folder / entry["file"]).items()}
    T, S = arrays["q"].shape[1], arrays["k"].shape[1]
    r, j = np.arange(T)[:, None], np.arange(S)[None]
    seen = (j >= arrays["first"][:, None]) & (j < arrays["end"][:, None])
    if "mask" in arrays:
        packed = arrays["mask"].astype(np.uint8)
        seen &= (packed[r, j // 8] >> (7 - j % 8) & 1).astype(bool)
    for h in range(entry["query_heads"]):
        g = h // (entry["query_heads"] // entry["kv_heads"])
        scores = entry["scale"] * arrays["q"][h] @ arrays["k"][g].T
        if entry["softcap"]:
            scores = entry["softcap"] * np.tanh(scores / entry["softcap"])
        if "bias" in arrays:
            scores = scores + arrays["bias"][h]
        if "bias_by_offset" in arrays:
            scores = scores + arrays["bias_by_offset"][h][j - r + T - 1]
        shift = arrays["logsumexp"][h][:, None]
        weights = np.exp(np.where(seen, scores - np.maximum(shift, -1e300), -np.inf))
        # a log-sum-exp below 10 stored in float32: relative 6e-8 * 10 of a weight of at most 1
        assert np.abs(weights - made.weights(0, h, dtype=np.float64)).max() < 2e-6
        total = 1 - (np.exp(arrays["sinks"][h] - arrays["logsumexp"][h]) if case.sinks else 0)
        alive = seen.any(axis=1)
        assert np.abs(weights.sum(axis=1) - total)[alive].max() < 1e-5  # 24 such weights
