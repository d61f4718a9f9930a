"""Tries every causal-LM family of the installed transformers, and writes the table of them.

The idea: which families can be captured is found out and not claimed. A small random model of each
is run by itself, in float32 and in float64, and under observation in both modes, and its own
weights judge ours. Each family has a process of its own, with a limit on time and memory.

    python -m attnscope.capture.sweep              all families; writes the table
    python -m attnscope.capture.sweep llama mpt    some; prints only

Formula
    |ours - exact| <= 2 max |own - exact| + one rounding, for weights and logits, where "own" is
    the model's eager attention in float32 and "exact" the same in float64. A trace's weights are
    exp(s - lse), with scores that were computed twice and a log-sum-exp that was stored in float32:
    u (|lse| + 2 sqrt(D) |scale| max|q| max|k|) of a weight comes on top (u: half an epsilon).

Not here: how a small model is made (shrink.py).
"""

from __future__ import annotations

import contextlib
import json
import re
import resource
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from attnscope.capture.check import without_sink
from attnscope.capture.interface import watching
from attnscope.capture.shrink import build, families
from attnscope.capture.watch import Wanted, Watch
from attnscope.errors import UnsupportedModelError
from attnscope.testing.apart import EndedError, apart
from attnscope.testing.budget import budget
from attnscope.trace.layer import LayerRecord as Stored

SECONDS: Final = 120
MEMORY: Final = 8 << 30
TOKENS: Final = 24

Weights = dict[int, torch.Tensor]
Found = dict[int, tuple[torch.Tensor, float, bool]]
"""By layer: weights [1, H, T, S], what multiplies u in the formula, whether there are sinks."""


class DifferentError(Exception):
    """The capture went through and gave something else than the model's own attention."""


def try_family(family: str) -> dict[str, str]:
    """Capture one family in this process.

    Returns:
        `status` ("supported", "refused" or "not built"), and `reason` where it is not supported.

    Raises:
        DifferentError: a weight or a logit is off by more than the budget.
    """
    try:
        model = build(family)
        ids = _ids(model)
        with torch.no_grad():
            logits32, weights32 = _own(model, ids)
    except UnsupportedModelError as error:
        return {"status": "refused", "reason": _line(error)}
    except Exception as error:
        return {"status": "not built", "reason": _line(error)}
    if not weights32:
        said = "none of its layers asks transformers' interface for its attention"
        return {"status": "refused", "reason": said}
    try:
        ours = {mode: _ours(model, ids, mode) for mode in ("beside", "replace")}
    except UnsupportedModelError as error:
        return {"status": "refused", "reason": _line(error)}
    del model
    try:
        with torch.no_grad(), _exact_softmax():
            logits64, weights64 = _own(build(family, dtype=torch.float64), ids)
    except Exception as error:
        return {"status": "not built", "reason": f"in float64, as the judge: {_line(error)}"}
    if not torch.equal(ours["beside"][0], logits32):
        raise DifferentError("beside: the logits are not bit-identical")
    for mode, (logits, found) in ours.items():
        _judge(logits, logits32, logits64, f"{mode}: logits")
        if sorted(found) != sorted(weights64):
            raise DifferentError(f"{mode}: layers {sorted(found)}, and not {sorted(weights64)}")
        for index, (weights, room, sinks) in found.items():
            own, exact = weights32[index], weights64[index]
            seen = without_sink(weights, own) if sinks else weights
            _judge(seen, own, exact, f"{mode}: weights of layer {index}", room=room)
    return {"status": "supported", "reason": ""}


def _ids(model: Any) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    most = int(model.config.get_text_config().vocab_size)
    return torch.randint(3, min(most, 120), (1, TOKENS), generator=generator)


def _own(model: Any, ids: torch.Tensor) -> tuple[torch.Tensor, Weights]:
    """Logits of the model's eager run, and the weights that its own functions returned."""
    seen: Weights = {}
    with _returned(model, seen):
        result = model(input_ids=ids, use_cache=False, output_attentions=True)
    given = [a for a in (getattr(result, "attentions", None) or ()) if isinstance(a, torch.Tensor)]
    if len(given) == len(seen) and min(seen, default=0) >= 0:
        for (index, weights), other in zip(sorted(seen.items()), given, strict=True):
            if weights.shape == other.shape and not torch.equal(weights, other):
                raise DifferentError(f"output_attentions is not what layer {index} returned")
    return result.logits, seen


@contextlib.contextmanager
def _returned(model: Any, seen: Weights) -> Iterator[None]:
    """Keep the weights that each layer's eager function returns."""
    from transformers.modeling_utils import AttentionInterface

    find = AttentionInterface.get_interface
    watch = Watch(model, Wanted(()))

    def get_interface(self: Any, implementation: str, default: Any) -> Any:
        own = find(self, implementation, default)

        def function(module: torch.nn.Module, *args: Any, **keywords: Any) -> Any:
            output, weights = own(module, *args, **keywords)[:2]
            index = watch.number(module)
            if index in seen:
                index = -len(seen) - 1  # a second map of one layer; ours must refuse
            seen[index] = weights
            return output, weights

        return function

    AttentionInterface.get_interface = get_interface
    try:
        yield
    finally:
        AttentionInterface.get_interface = find


@contextlib.contextmanager
def _exact_softmax() -> Iterator[None]:
    """Models compute the softmax in float32 whatever their dtype; the oracle must not."""
    plain = torch.nn.functional.softmax

    def softmax(x: torch.Tensor, dim: Any = None, dtype: Any = None, **rest: Any) -> torch.Tensor:
        return plain(x, dim=dim, dtype=None if x.dtype == torch.float64 else dtype, **rest)

    torch.nn.functional.softmax = softmax  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.nn.functional.softmax = plain


def _ours(model: Any, ids: torch.Tensor, mode: str) -> tuple[torch.Tensor, Found]:
    """Logits and weights of an observed run; the weights as a trace gives them."""
    from attnscope.trace.arrays import MemoryArrays
    from attnscope.trace.header import read_header, read_layer
    from attnscope.trace.writer import pack

    watch = Watch(model, Wanted(("logsumexp", "entropy"), pool=False), mode=mode)
    with watching(watch), torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits
    facts = {"name": "m", "architecture": "m", "layers": 4096, "query_heads": 1, "kv_heads": 1}
    header = read_header(
        {
            "model": facts | {"head_width": 1, "width": 1},
            "mode": mode, "tokens": [], "text": "", "prompt_tokens": 0,
            "statistics": ["logsumexp", "entropy"],
        }
    )  # fmt: skip
    found: Found = {}
    for index, records in watch.records().items():
        info = read_layer({"index": index, **records[0].about})
        arrays = pack(records[0].arrays(), header.block, f"layer {index}")
        layer = Stored(info, MemoryArrays(arrays, f"layer {index}"), header)
        layer.check_values()
        rows = [torch.from_numpy(layer.weights(head)) for head in range(info.query_heads)]
        found[index] = torch.stack(rows)[None], _recomputed(layer), layer.sinks is not None
    return logits, found


def _recomputed(layer: Stored) -> float:
    """|lse| + 2 sqrt(D) |scale| max|q| max|k| of a layer."""
    lse = layer.logsumexp
    reach = [float(np.linalg.norm(layer.array(name), axis=-1).max()) for name in ("q", "k")]
    size = abs(layer.info.scale) * reach[0] * reach[1]
    return float(np.abs(lse[np.isfinite(lse)]).max()) + 2 * layer.info.head_width**0.5 * size


def _judge(
    ours: torch.Tensor, own: torch.Tensor, exact: torch.Tensor, what: str, *, room: float = 0.0
) -> None:
    """Ours within the budget, rows that see nothing left out: there eager looks everywhere."""
    if ours.ndim == 4:
        empty = (ours == 0).all(-1, keepdim=True)
        own, exact = own.masked_fill(empty, 0.0), exact.masked_fill(empty, 0.0)
    exact = exact.double()  # a few models return float32 logits whatever their dtype
    own_error = float((own.double() - exact).abs().max())
    unit = torch.finfo(ours.dtype).eps / 2
    factor = 2.0 + unit * room / max(own_error, unit)
    try:
        budget(ours, peer=own, oracle=exact, what=what, factor=factor)
    except AssertionError as error:
        raise DifferentError(str(error)) from None


def _line(error: BaseException) -> str:
    """An error in one short line, without the list of families."""
    said = str(error).split(" These families can be captured")[0]
    said = re.sub(r"\s+", " ", said).strip()
    name = "" if isinstance(error, UnsupportedModelError) else f"{type(error).__name__}: "
    return (name + said)[:300]


def in_process(family: str) -> dict[str, str]:
    """`try_family` in a process of its own, with limits; a difference is a status of its own."""
    try:
        found: dict[str, str] = apart(
            _limited,
            family,
            seconds=SECONDS,
            preload=("torch", "transformers", "attnscope.capture.sweep"),
        )
    except EndedError:
        return {"status": "not built", "reason": f"took more than {SECONDS} s or its memory"}
    return found


def _limited(family: str) -> dict[str, str]:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return try_family(family)
    except DifferentError as error:
        return {"status": "differs", "reason": _line(error)}
    except BaseException as error:
        return {"status": "failed", "reason": _line(error)}


def sweep(wanted: list[str]) -> dict[str, dict[str, str]]:
    """Every family asked for, one after the other."""
    import transformers

    transformers.logging.set_verbosity_error()
    try_family("llama")  # fills the cache of compiled code, which every process then reads
    classes, table = families(), {}
    for family in wanted or sorted(classes):
        table[family] = {"class": classes[family], **in_process(family)}
        print(f"{family}: {table[family]['status']} {table[family]['reason']}", flush=True)
    return table


def as_page(table: dict[str, dict[str, str]], version: str) -> str:
    """The table as a page of the documentation."""
    counts = {s: sum(f["status"] == s for f in table.values()) for s in ("supported", "refused")}
    lines = [
        "# Models that can be captured",
        "",
        "<!-- written by `python -m attnscope.capture.sweep`; do not edit -->",
        "",
        f"Of the {len(table)} causal-LM families of transformers {version}, "
        f"{counts['supported']} are supported: a small random model of each was run, and its "
        "captured weights and logits, in both modes, are as close to a float64 run as the model's "
        "own eager attention is: at most twice its error, one rounding, and for weights the "
        "rounding of the scores and log-sum-exp from which a trace recomputes them. `beside` left "
        "every bit of the logits as it was.",
        "",
        "`refused`: such a model is refused with this sentence. `not built`: no small model of the "
        "family could be made here, so nothing is known; if you give one it is tried, and its "
        "first layer is compared with the model's own attention, as in every capture.",
        "",
        "| family | class | status | reason |",
        "|---|---|---|---|",
    ]
    for family, found in sorted(table.items()):
        reason = found["reason"].replace("|", "\\|").replace("<", "&lt;")
        lines.append(f"| {family} | {found['class']} | {found['status']} | {reason} |")
    return "\n".join(lines) + "\n"


def main(wanted: list[str]) -> int:
    """Sweep; write the table if it is the whole one. Returns 1 where a family differs or fails."""
    import transformers

    table = sweep(wanted)
    bad = [name for name, found in table.items() if found["status"] in ("differs", "failed")]
    if not wanted:
        home = Path(__file__).parent
        whole = {"transformers": transformers.__version__, "families": table}
        (home / "families.json").write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
        page = home.parents[2] / "docs" / "models.md"
        if page.parent.is_dir():
            page.write_text(as_page(table, transformers.__version__), "utf-8")
    if bad:
        print(f"not as the models' own attention: {', '.join(bad)}", file=sys.stderr)
    return bool(bad)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
