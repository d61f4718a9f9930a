"""The planner's numbers with what stands behind each: formula, inputs, source, and kind.

The idea: a number on the page is an object that carries its own explanation, so a click needs no
further question. A sum over layers lists its summands, one for each sort of layer and store, with
the config's fields that they came from; they add up to the number (a test adds them).

Units: bytes, tokens, FLOPs.

Not here: what such an object holds (page_number.py), the values (report.py, fit.py), how they are
shown (serve/static/js/planner).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from attnscope.plan.bytes import as_asked, formats
from attnscope.plan.devices import DEVICES
from attnscope.plan.engines import CHECKED
from attnscope.plan.explain import explain_cost, grouped, ranges
from attnscope.plan.fit import Fit, largest_context, three_digits
from attnscope.plan.model import KINDS, Layer, Model, Store
from attnscope.plan.page_number import Input, Number, bytes_number, said_input
from attnscope.plan.page_number import number as made_number
from attnscope.plan.report import Asked, number
from attnscope.plan.texts import bytes_cells, flops_cells
from attnscope.plan.weighed import weighed
from attnscope.plan.what_if import Row, schemes


class Numbers:
    """The numbers of one model on the page.

    Args:
        model: it.
        asked: what is asked of it.
        said: its report.
    """

    def __init__(self, model: Model, asked: Asked, said: dict[str, Any]) -> None:
        self.model, self.asked, self.said = model, asked, said
        self.form: dict[str, Any] = {"dtype": asked.dtype, "kv_dtype": asked.kv_dtype}
        self.cache_format, self.plain_format = formats(model, asked.dtype, asked.kv_dtype)
        self.known = said["weights"]
        self._alike = {id(model): grouped(as_asked(model, asked.kv_dtype))}

    def _stores(self, model: Model) -> Iterable[tuple[Store, int, str]]:
        """Each store of each sort of layer: how many layers have it, and which they are."""
        if id(model) not in self._alike:
            self._alike[id(model)] = grouped(as_asked(model, self.asked.kv_dtype))
        for layer, numbers in self._alike[id(model)]:
            for store in layer.stores:
                yield store, len(numbers), f"layers {ranges(numbers)}: {layer.kind}, {store.name}"

    def _entry(self, store: Store) -> int:
        return store.entry_bytes(self.cache_format, self.plain_format)

    def _summands(
        self, model: Model, entries: Callable[[Store], Fraction | int | None]
    ) -> list[Input]:
        """The products that a number of bytes is the sum of."""
        found = []
        for store, count, name in self._stores(model):
            many = entries(store)
            if not many:
                continue
            size = self._entry(store)
            times = f"{many:,}" if isinstance(many, int) else f"1/{many.denominator:,}"
            product = bytes_cells(number(count * many * size))[0]
            found.append(
                said_input(name, f"{count:,} x {times} x {size:,} B = {product}", store.source)
            )
        return found

    def _sum(
        self, model: Model, value: float, formula: str, entries: Callable[[Store], Any]
    ) -> Number:
        return bytes_number(
            value, formula=f"{formula}: layers x entries x bytes of an entry, summed",
            inputs=self._summands(model, entries), source=self._form_words(),
        )  # fmt: skip

    def _form_words(self) -> str:
        cache, plain = self.cache_format, self.plain_format
        words = f"cache in {self.said['kv_dtype']}"
        if cache.note:
            words += f" ({cache.note})"
        numbers = {store.number for layer in self.model.layers for store in layer.stores}
        if plain.name == cache.name or "model" not in numbers:
            return words
        return f"{words}, convolutions in {plain.name}"

    def cache(self) -> dict[str, Number]:
        """Bytes of the cache, and how they grow."""
        kv, tokens, batch = self.said["kv"], self.asked.context, self.asked.batch
        return {
            "total": self._total(self.model, kv["total_bytes"]),
            "sequence": self._sum(
                self.model, kv["sequence_bytes"], f"bytes(T = {tokens:,})",
                lambda store: store.entries(tokens),
            ),
            "per_token": self._per_token(self.model, kv["per_token_bytes"]),
            "within": self._sum(
                self.model, kv["per_token_bytes_within_window"], "bytes of one more token",
                _growing(windows=True),
            ),
            "capped": self._sum(self.model, kv["capped_bytes"], "at most", _capped),
            "fixed": self._sum(
                self.model, kv["fixed_bytes"], "once",
                lambda store: 1 if store.growth in ("fixed", "closed") else None,
            ),
            "batch": made_number(batch, f"{batch:,}", f"{batch:,}", formula="", kind="given"),
        }  # fmt: skip

    def _total(self, model: Model, value: int) -> Number:
        tokens, batch = self.asked.context, self.asked.batch
        inputs = self._summands(model, lambda store: store.entries(tokens))
        return bytes_number(
            value, formula=f"{batch:,} x bytes(T = {tokens:,}), the sum over all layers",
            inputs=[said_input("sequences", f"{batch:,}"), *inputs], source=self._form_words(),
        )  # fmt: skip

    def _per_token(self, model: Model, value: float) -> Number:
        return self._sum(model, value, "bytes of one more token past every window", _growing())

    def weights(self) -> Number | None:
        """Bytes of the weights, None where nobody knows."""
        if self.known is None:
            return None
        given = self.asked.weights is not None
        inputs = []
        if self.known["parameters"]:
            inputs.append(
                said_input("parameters", f"{self.known['parameters']:,}", "counted by layers")
            )
            if self.known["active"] not in (None, self.known["parameters"]):
                inputs.append(said_input("of these a token uses", f"{self.known['active']:,}"))
        return bytes_number(
            self.known["size"], formula=self.known["source"], inputs=inputs,
            kind="given" if given else "computed",
            source="" if given else "attnscope.plan.weights, from the config",
        )  # fmt: skip

    def fit(self) -> Number | None:
        """The largest context in the room that is asked for."""
        if self.asked.budget is None or self.known is None:
            return None
        return self._fit(self.model, self.asked.budget)

    def _fit(self, model: Model, budget: int) -> Number:
        weights = self.known["size"]
        found = largest_context(model, budget, weights=weights, batch=self.asked.batch, **self.form)
        inputs = [
            said_input("room", bytes_cells(budget)[0]),
            said_input("weights", bytes_cells(weights)[0], self.known["source"]),
        ]
        if found.tokens:
            inputs.append(
                said_input(f"cache at {found.tokens:,}", bytes_cells(found.bytes_used)[0])
            )
        if found.limit:
            inputs.append(
                said_input("the model's own limit", f"{found.limit:,} tokens", "the config")
            )
        return {
            **made_number(
                found.tokens, _fit_text(found), _fit_text(found), inputs=inputs,
                formula=f"the largest T with {self.asked.batch:,} x bytes(T) <= room - weights",
                source="attnscope.plan.fit",
            ),
            "used": found.bytes_used,
            "limit": found.limit,
            "usable": found.usable,
            "why": "weights" if weights > budget else "none" if found.tokens == 0
            else "always" if found.tokens is None else "",
        }  # fmt: skip

    def schemes(self) -> list[dict[str, Any]]:
        """The model as it is, and as it would be."""
        rows = self.rows()
        base = rows[0].total_bytes
        return [
            {
                "scheme": row.scheme,
                "per_token": self._per_token(row.model, number(row.per_token_bytes)),
                "total": self._total(row.model, row.total_bytes),
                "times": three_digits(row.total_bytes, base) if base else "",
                "fit": None
                if self.asked.budget is None or self.known is None
                else self._fit(row.model, self.asked.budget),
            }
            for row in rows
        ]

    def rows(self) -> list[Row]:
        """The schemes, computed once."""
        if not hasattr(self, "_rows"):
            self._rows = schemes(self.model, **self.asked.schemes)
        return self._rows

    def groups(self) -> list[dict[str, Any]]:
        """Layers that are alike: what one of them keeps."""
        return [self._group(layer, numbers) for layer, numbers in self._alike[id(self.model)]]

    def _group(self, layer: Layer, numbers: list[int]) -> dict[str, Any]:
        one = layer.split(self.cache_format, self.plain_format)
        inputs = [
            said_input(
                store.name, store.formula(self.cache_format, self.plain_format), store.source
            )
            for store in layer.stores
        ]
        means = KINDS.get(layer.kind, "")

        def said(value: float, formula: str) -> Number:
            return bytes_number(value, formula=formula, inputs=inputs, note=layer.note or means)

        return {
            "layers": ranges(numbers),
            "numbers": numbers,
            "count": len(numbers),
            "kind": layer.kind,
            "window": layer.window,
            "per_token": said(number(one.per_token_bytes), "one layer, one more token"),
            "capped": said(one.capped_bytes, "one layer, its window when full"),
            "fixed": said(one.fixed_bytes, "one layer, once"),
        }

    def formats(self) -> list[dict[str, Any]]:
        """The cache in every common format."""
        return [
            {
                "format": row["format"],
                "per_token": bytes_number(
                    row["per_token_bytes"], note=row["note"], source="attnscope.plan.numbers",
                    formula=f"bytes of one more token with every vector in {row['format']}",
                ),
                "total": bytes_number(
                    row["total_bytes"], note=row["note"], source="attnscope.plan.numbers",
                    formula=f"the same sum with every vector in {row['format']}",
                ),
            }
            for row in self.said["formats"]
        ]  # fmt: skip

    def engines(self) -> list[dict[str, Any]]:
        """What engines allocate, or why there is no number."""
        logical = self.said["kv"]["total_bytes"]
        found = []
        for one in self.said["engine_details"]:
            size = one["size"]
            evidence, checked = CHECKED[one["engine"]]
            about: dict[str, Any] = {
                "engine": one["engine"], "version": one["version"], "evidence": evidence,
            }  # fmt: skip
            if size is None:
                found.append({**about, "total": None, "times": "", "reason": one["formula"]})
                continue
            parts = [said_input(name, bytes_cells(part)[0]) for name, part in one["parts"]]
            total = bytes_number(
                size, formula=one["formula"], inputs=parts, source=one["version"], note=checked
            )
            times = three_digits(size, logical) if logical else ""
            found.append({**about, "total": total, "times": times, "reason": ""})
        return found

    def flops(self) -> list[dict[str, Any]]:
        """FLOPs of a prefill and of a decode step, and the bytes that such a step reads."""
        spent = self.said["flops"]
        lines = explain_cost(self.model, context=self.asked.context)

        def said(name: str, *whats: str) -> dict[str, Any]:
            value = spent[name]
            exact, short = flops_cells(value)
            inputs = [
                said_input(f"layers {one.layers}: {one.kind}, {one.what}",
                       f"{one.formula} = {one.flops:,}")
                for one in lines if one.what in whats
            ]  # fmt: skip
            about = made_number(
                value, short or exact, f"{exact} FLOPs", inputs=inputs,
                formula="one multiply-add is 2 FLOPs; products of queries and keys, and of weights "
                "and values", source="attnscope.plan.flops",
            )  # fmt: skip
            return {"what": name, "number": about}

        found = [said("prefill", "prefill, exact"), said("prefill_dense")]
        found.append(said("decode_step", "decode step", "decode step, absorbed"))
        for name in ("decode_expanded", "decode_reexpansion", "indexer_prefill", "indexer_decode"):
            if spent[name]:
                found.append(said(name))
        for name in ("recurrence_prefill", "recurrence_decode"):
            if spent[name]:
                found.append(said(name, "recurrence"))
        read = bytes_number(
            spent["decode_bytes"], formula="bytes of the cache that one decode step reads",
            source="attnscope.plan.flops",
        )  # fmt: skip
        found.append({"what": "decode_bytes", "number": read})
        intensity = three_digits(spent["intensity"])
        ratio = made_number(
            spent["intensity"], intensity, f"{intensity} FLOPs/B",
            formula="FLOPs of a decode step / bytes that it reads", source="attnscope.plan.flops",
        )  # fmt: skip
        return [*found, {"what": "intensity", "number": ratio}]

    def devices(self) -> list[dict[str, Any]]:
        """What fits on each device."""
        return [
            {
                "device": device.name,
                "memory": bytes_number(
                    device.memory, formula="", kind="reported", source=device.sheet
                ),
                "fit": None if self.known is None else self._fit(self.model, device.memory),
            }
            for device in DEVICES.values()
        ]

    def device(self) -> dict[str, Any] | None:
        """How a decode step meets a device's ridge point."""
        device = self.asked.device
        if device is None:
            return None
        said = self.said["device"]
        rates = {}
        for name, value, unit in (("peak", device.peak, 12), ("bandwidth", device.bandwidth, 9)):
            long, short = ("FLOP/s", "TFLOP/s") if name == "peak" else ("B/s", "GB/s")
            shown = f"{three_digits(value, 10**unit)} {short}"
            rates[name] = made_number(
                value, shown, f"{value:,} {long}", formula="", kind="reported", source=device.sheet,
                note="dense bf16" if name == "peak" else "",
            )  # fmt: skip
        peak = said_input("peak", f"{rates['peak']['text']} dense bf16", device.sheet)
        speed = said_input("bandwidth", rates["bandwidth"]["text"], device.sheet)
        ridge, seconds = said["ridge"], said["decode_cache_read_s"]
        shown = f"{three_digits(seconds * 1e3)} ms"
        return {
            **rates,
            "ridge": made_number(ridge, three_digits(ridge), f"{three_digits(ridge)} FLOPs/B",
                                 formula="peak / bandwidth", inputs=[peak, speed]),
            "bound": said["decode_bound"],
            "reads": made_number(seconds, shown, shown, inputs=[speed],
                                 formula="batch x bytes that a decode step reads / bandwidth"),
        }  # fmt: skip

    def weighed(self) -> dict[str, Any] | None:
        """What the real cache tensors of a built-in model weigh, beside what its plan says."""
        found = weighed(self.model)
        if found is None:
            return None
        source = f"transformers {found.version}, the cache tensors of one forward pass"
        return {
            "rows": [
                {
                    "tokens": tokens,
                    "measured": bytes_number(
                        size, formula="", kind="measured", source=source,
                        note="built from this config on the meta device, one sequence, in bf16",
                    ),
                    "planned": bytes_number(
                        planned, formula=f"layers as transformers holds them, T = {tokens:,}, bf16",
                        source="attnscope.plan.engines.transformers",
                    ),
                }
                for tokens, size, planned in found.rows
            ],
        }  # fmt: skip


def _fit_text(found: Fit) -> str:
    return "∞" if found.tokens is None else f"{found.tokens:,}"


def _growing(*, windows: bool = False) -> Callable[[Store], Fraction | int | None]:
    """Entries that one more token adds."""

    def entries(store: Store) -> Fraction | int | None:
        if store.growth == "token" or (windows and store.growth == "window"):
            return 1
        return Fraction(1, store.span) if store.growth == "compressed" else None

    return entries


def _capped(store: Store) -> int | None:
    """Entries that a window, or a group that waits to be compressed, has at most."""
    if store.growth == "window":
        return store.span
    return store.span - 1 if store.growth == "rest" else None
