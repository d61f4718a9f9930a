"""Everything the planner says of a model at a length, as one object of plain JSON values.

The idea: the command line's table, its `--json` and the planner's page show the same object, made
here, so they cannot differ.

Contract: kv.total_bytes is of the whole batch; every other number of `kv` and of `layers` is of one
sequence. Past every window, one sequence takes per_token_bytes * context + capped_bytes +
fixed_bytes (less at most one entry of each compressed layer). Numbers that are no whole number of
bytes are floats.

Not here: how it is printed (cli/plan.py).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from attnscope.plan.bytes import answer
from attnscope.plan.devices import Device
from attnscope.plan.engines import allocations
from attnscope.plan.explain import explain, explain_cost
from attnscope.plan.fit import largest_context
from attnscope.plan.flops import Cost, cost
from attnscope.plan.model import Model
from attnscope.plan.numbers import FORMATS
from attnscope.plan.weights import Weights, quantised, unknown, weights_of
from attnscope.plan.what_if import left_out, schemes

SCHEMA: Final = "attnscope.plan/1"
LEARNED_POSITIONS: Final = (
    "gpt2", "gpt-sw3", "gpt_bigcode", "gpt_neo", "openai-gpt", "opt", "biogpt",
)  # fmt: skip
"""Families that look a position up in a table; the others can at least compute one beyond."""
SHOWN_FORMATS: Final = ("bf16", "fp16", "fp8", "int8", "int4")


@dataclass(frozen=True)
class Asked:
    """What is asked of a model.

    Args:
        budget: bytes for the largest context, None where it is not asked.
        weights: bytes of the weights, None to find out.
        groups: numbers of KV heads to try.
        window, share: what if; see `what_if.changed`.
    """

    context: int
    batch: int = 1
    dtype: str | None = None
    kv_dtype: str | None = None
    budget: int | None = None
    weights: int | None = None
    device: Device | None = None
    groups: tuple[int, ...] = (8,)
    window: int | None = None
    share: tuple[int, int] | None = None
    explain: bool = False

    @property
    def schemes(self) -> dict[str, Any]:
        """What `what_if.schemes` is asked."""
        return {
            "context": self.context, "batch": self.batch, "dtype": self.dtype,
            "kv_dtype": self.kv_dtype, "groups": self.groups, "window": self.window,
            "share": self.share,
        }  # fmt: skip


def number(value: Fraction | int) -> int | float:
    """A whole number where it is one.

    >>> number(Fraction(4, 2)), number(Fraction(1, 2))
    (2, 0.5)
    """
    exact = Fraction(value)
    return int(exact) if exact.denominator == 1 else float(exact)


def default_context(model: Model) -> int:
    """32,768 tokens, or the model's own limit where that is less."""
    return min(32_768, model.context_limit or 32_768)


def beyond_limit(model: Model, context: int) -> list[str]:
    """A note where the context is longer than the model's own limit; none else.

    >>> from attnscope.plan import read
    >>> beyond_limit(read("llama-3-8b"), 8193)
    ["8,193 tokens are more than the model's own limit of 8,192 positions"]
    """
    limit = model.context_limit
    if limit is None or context <= limit:
        return []
    note = f"{context:,} tokens are more than the model's own limit of {limit:,} positions"
    scheme = model.fields.get("position_embedding_type", "learned")
    if model.architecture in LEARNED_POSITIONS and scheme in ("learned", "absolute"):
        note += (
            ": it learned a vector for each of these and has none beyond, so it cannot run there"
        )
    return [note]


def _model_part(model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "architecture": model.architecture,
        "layers": len(model.layers),
        "width": model.width,
        "vocabulary": model.vocabulary,
        "context_limit": model.context_limit,
        "source": model.source,
    }


def _flops(found: Cost) -> dict[str, Any]:
    said = asdict(found)
    said.pop("context")
    said["decode_variant"] = said.pop("variant")
    said["intensity"] = found.intensity
    return said


def report(model: Model, asked: Asked, *, path: Path | None = None) -> dict[str, Any]:
    """The whole answer.

    Args:
        path: where the config or the GGUF file lies, for the weights beside it.

    Raises:
        ValueError: numbers or formats that make no sense.
        ConfigError: damaged weight files beside the config.
    """
    form = {"dtype": asked.dtype, "kv_dtype": asked.kv_dtype}
    where: dict[str, Any] = {"context": asked.context, "batch": asked.batch, **form}
    kv = answer(model, **where)
    engines = allocations(model, **where)
    spent = cost(model, context=asked.context, **form)
    known = _weights(model, asked, path)
    said: dict[str, Any] = {
        "schema": SCHEMA,
        "model": _model_part(model),
        "context": asked.context,
        "batch": asked.batch,
        "dtype": kv.dtype,
        "kv_dtype": kv.kv_dtype,
        "kv": {
            "per_token_bytes": number(kv.per_token_bytes),
            "per_token_bytes_within_window": number(kv.per_token_bytes_within_window),
            "capped_bytes": kv.capped_bytes,
            "fixed_bytes": kv.fixed_bytes,
            "sequence_bytes": kv.sequence_bytes,
            "total_bytes": kv.total_bytes,
        },
        "formats": formats_table(model, asked),
        "layers": [
            {
                "index": one.index,
                "kind": one.kind,
                "per_token_bytes": number(one.per_token_bytes),
                "capped_bytes": one.capped_bytes,
                "fixed_bytes": one.fixed_bytes,
                "window": one.window,
            }
            for one in kv.layers
        ],
        "flops": _flops(spent),
        "engines": {one.engine: one.size for one in engines if one.size is not None},
        "engine_details": [asdict(one) for one in engines],
        "what_if": [
            {
                "scheme": row.scheme,
                "per_token_bytes": number(row.per_token_bytes),
                "total_bytes": row.total_bytes,
            }
            for row in schemes(model, **asked.schemes)
        ],
        "weights": None if known is None else asdict(known),
        "notes": [*beyond_limit(model, asked.context), *model.notes],
        "assumed": list(model.assumed),
    }
    said["notes"] += [
        f"GQA-{count} is no scheme of this model: {count} does not divide its query heads"
        for count in left_out(model, asked.groups)
        if asked.groups != Asked.groups  # nobody asked for the default
    ]
    if known is None and quantised(model) is not None:
        said["notes"].append(f"weights: {unknown(model)}")
    said["notes"] += [f"{one.engine}: {one.formula}" for one in engines if one.size is None]
    _add_fit(said, model, asked, known)
    _add_device(said, asked, spent)
    if asked.explain:
        said["explain"] = [asdict(line) for line in explain(model, **form)]
        lines = explain_cost(model, context=asked.context)
        said["explain_flops"] = [asdict(line) for line in lines]
    return said


def _weights(model: Model, asked: Asked, path: Path | None) -> Weights | None:
    if asked.weights is not None:
        return Weights(asked.weights, "as given")
    return weights_of(model, path=path, dtype=asked.dtype)


def formats_table(model: Model, asked: Asked) -> list[dict[str, Any]]:
    """The cache in every common format."""
    rows = []
    for name in SHOWN_FORMATS:
        one = answer(
            model, context=asked.context, batch=asked.batch, dtype=asked.dtype, kv_dtype=name
        )
        rows.append(
            {
                "format": name,
                "per_token_bytes": number(one.per_token_bytes),
                "total_bytes": one.total_bytes,
                "note": FORMATS[name].note,
            }
        )
    return rows


_UNKNOWN: Final = (
    "The weights of {name} are not known ({why}); give --weights BYTES, or --weights 0."
)


def weights_unknown(model: Model, asked: Asked) -> str | None:
    """Why nothing can be said of what fits, of a model that is no file; None where it can.

    >>> from attnscope.plan import read
    >>> weights_unknown(read("llama-3-8b"), Asked(context=1)) is None
    True
    """
    if _weights(model, asked, None) is not None:
        return None
    return _UNKNOWN.format(name=model.name, why=unknown(model))


def _add_fit(said: dict[str, Any], model: Model, asked: Asked, known: Weights | None) -> None:
    if asked.budget is None:
        return
    if known is None:
        raise ValueError(_UNKNOWN.format(name=model.name, why=unknown(model)))
    found = largest_context(
        model,
        asked.budget,
        weights=known.size,
        batch=asked.batch,
        dtype=asked.dtype,
        kv_dtype=asked.kv_dtype,
    )
    said["fit"] = {**asdict(found), "usable": found.usable}


def _add_device(said: dict[str, Any], asked: Asked, spent: Cost) -> None:
    if asked.device is None:
        return
    device = asked.device
    bound = "memory" if spent.intensity < device.ridge else "arithmetic"
    said["device"] = {
        **asdict(device),
        "ridge": device.ridge,
        "decode_bound": bound,
        "decode_cache_read_s": asked.batch * spent.decode_bytes / device.bandwidth,
    }
