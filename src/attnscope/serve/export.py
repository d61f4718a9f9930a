"""A part of a trace as one HTML file that needs nothing else: no server, no network, no Python.

The idea: the file holds the app, and of each chosen head the queries, keys and log-sum-exps as they
were captured, bit for bit; the page recomputes every weight from them. A head of 1,024 tokens and
width 64 then takes half a megabyte where its weights would take four, and nothing is rounded. The
file's own policy allows its own script and style, by their hashes, and nothing else.

Not here: the arrays' text form (packed.py), joining modules (link.py), the format (docs/export.md).
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np

from attnscope import tiles
from attnscope.errors import TraceError
from attnscope.link import LinkError, link
from attnscope.serve.files import STATIC
from attnscope.serve.packed import Pack
from attnscope.trace import LayerRecord, Trace

SCHEMA: Final = "attnscope.page/1"
ENTRY: Final = "standalone.js"
STYLES: Final = ("base.css", "shell.css", "overview.css", "map.css", "flow.css", "flow-side.css")
MAP_FROM: Final = 1024
"""Tokens above which the captured map goes along: the page would be slow to pool one itself."""
MOST_BYTES: Final = 256 << 20
"""Of arrays in one file; a browser holds them several times over while it opens the page."""
LEFT_OUT: Final = "this layer was left out of the page"


def to_html(
    trace: Trace,
    path: str | os.PathLike[str],
    *,
    layers: int | Iterable[int] | None = None,
    heads: int | Iterable[int] | None = None,
    name: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a part of a trace as one stand-alone page.

    Args:
        trace: what `attnscope.capture` or `attnscope.open` gave.
        path: the file.
        layers: one or several layers; all that have a map if not given.
        heads: one or several heads of each of them; all if not given.
        name: what the page calls the trace; the model's name if not given.
        overwrite: whether a file that stands there is replaced.

    Returns:
        The path.

    Raises:
        ValueError: a layer or head that is not there, or more than a page can hold.
        TraceError: the trace is damaged, or the file cannot be written.

    Cost: memory and bytes of the chosen heads' queries and keys, about 8 T D bytes each.
    """
    target = Path(path)
    if target.exists() and not overwrite:
        raise TraceError(f"{target}: already exists; choose another name, or give overwrite=True.")
    chosen = _chosen(trace, layers, heads)
    _check_size(trace, chosen)
    pack = Pack()
    parts = [_layer(pack, trace, trace.layer(index), which) for index, which in chosen.items()]
    page = {
        "schema": SCHEMA,
        "entry": {
            "id": "page", "name": name or trace.model.name, "model": trace.model.name,
            "tokens": len(trace.tokens),
        },
        "info": _info(trace, chosen),
        "tokens": tiles.token_table(trace),
        "heads": [row for row in tiles.heads(trace) if row["head"] in chosen.get(row["layer"], ())],
        "view": _view(chosen),
        "bytes": pack.bytes,
        "layers": parts,
        "arrays": pack.entries,
    }  # fmt: skip
    _write(target, [*_head(name or trace.model.name), _block(page), *_data(pack), "</html>\n"])
    return target


def _chosen(trace: Trace, layers: Any, heads: Any) -> dict[int, list[int]]:
    """The heads of each layer, checked."""
    known = {layer.index: layer for layer in trace.layers if layer.has_map}
    wanted = list(known) if layers is None else _several(layers)
    found = {}
    for index in wanted:
        count = trace.layer(index).info.query_heads  # says what is wrong with the number
        which = list(range(count)) if heads is None else _several(heads)
        for head in which:
            if not 0 <= head < count:
                raise ValueError(f"heads: {head} is not one of the {count} heads of layer {index}")
        found[index] = which
    if not any(found.values()):
        raise ValueError("layers, heads: expected at least one head; a page of none shows nothing")
    return found


def _several(given: Any) -> list[int]:
    return sorted({int(one) for one in ([given] if isinstance(given, int | np.integer) else given)})


def _check_size(trace: Trace, chosen: dict[int, list[int]]) -> None:
    size = 0
    for index, heads in chosen.items():
        record = trace.layer(index)
        width = record.info.head_width
        groups = {_group(record, head) for head in heads}
        size += 4 * width * (record.queries * len(heads) + record.keys * len(groups))
        if record.has("bias"):
            size += 4 * record.queries * record.keys * len(heads)
        if _needs_map(record):
            size += sum(12 * record.arrays.entry("map_mean").shape[1] * 1024 for _ in heads)
    if size > MOST_BYTES:
        raise ValueError(
            f"layers, heads: these take {size / 2**20:,.0f} MiB, and a page may have "
            f"{MOST_BYTES >> 20}; choose fewer heads, or open the trace with `attnscope serve`"
        )


def _group(record: LayerRecord, head: int) -> int:
    return head * record.info.kv_heads // record.info.query_heads


def _needs_map(record: LayerRecord) -> bool:
    return max(record.queries, record.keys) > MAP_FROM and record.has("map_mean")


def _layer(pack: Pack, trace: Trace, record: LayerRecord, heads: list[int]) -> dict[str, Any]:
    """Pack one layer's arrays; returns what the page is told of it."""
    index = record.info.index

    def add(name: str, array: np.ndarray, head: int | None = None) -> None:
        pack.add(name, array, layer=index, head=head)

    for name, array in zip(("first", "end", "origin"), record.spans, strict=True):
        add(name, array)
    if record.has("mask"):
        add("mask", record.array("mask"))
    queries, keys = record.array("q"), record.array("k")
    planes = record.map() if _needs_map(record) else None
    packed: set[int] = set()
    for head in heads:
        group = _group(record, head)
        if group not in packed:
            add("k", keys[group], head)
            packed.add(group)
        add("q", queries[head], head)
        add("logsumexp", record.logsumexp[head], head)
        norms = record.norms(head)
        if norms is not None:
            add("value_norms", norms, head)
        if record.sinks is not None:
            add("sink", record.sinks[head : head + 1], head)
        for name in ("bias", "bias_by_offset"):
            if record.has(name):
                add(name, record.array(name)[head], head)
        for name in tiles.info(trace)["tracks"]:
            add(f"track:{name}", record.statistic(name)[head], head)
        if planes is not None:
            add("map_mean", planes.mean[head], head)
            add("map_max", planes.max[head], head)
            add("map_argmax", planes.argmax[head], head)
            add("map_cell", np.array([planes.cell], np.int32), head)
    info = record.info
    return {"index": index, "scale": info.scale, "softcap": info.softcap, "heads": heads}


def _info(trace: Trace, chosen: dict[int, list[int]]) -> dict[str, Any]:
    info = tiles.info(trace)
    for layer in info["layers"]:
        if layer["index"] not in chosen and layer["kind"] != "none":
            layer.update(kind="none", reason=LEFT_OUT, levels=0)
    return info


def _view(chosen: dict[int, list[int]]) -> dict[str, Any]:
    """A single head opens as its map, several as the overview."""
    view: dict[str, Any] = {"screen": "overview", "trace": "page"}
    if sum(map(len, chosen.values())) == 1:
        [(layer, [head])] = [(one, heads) for one, heads in chosen.items() if heads]
        view.update(screen="map", layer=layer, head=head)
    return view


def _head(title: str) -> list[str]:
    """The beginning of the page: policy, style, script."""
    style = "\n".join((STATIC / "css" / one).read_text(encoding="utf-8") for one in STYLES)
    script = link(STATIC / "js", [ENTRY])
    for what, text, end in (("style", style, "</style"), ("script", script, "</script")):
        if end in text.lower() or "<!--" in text:
            raise LinkError(f"{what}: {end} or <!-- in it would end it inside of a page")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src blob: data:; base-uri 'none'; form-action 'none'"
    )
    return [
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        '<meta name="color-scheme" content="light dark">\n',
        f'<title>{html.escape(title)} · attnscope</title>\n<link rel="icon" href="data:,">\n',
        f"<style>{style}</style>\n",
        '<body>\n<div id="attnscope"></div>\n',
        f'<script type="module">{script}</script>\n',
    ]


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def _block(page: dict[str, Any]) -> str:
    """JSON that cannot end its own element, whatever a token says."""
    text = json.dumps(page, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    text = text.encode("utf-8", "replace").decode("utf-8")  # a damaged text's half characters
    return f'<script type="application/json" id="attnscope-page">{text}</script>\n'


def _data(pack: Pack) -> Iterable[str]:
    yield '<script type="text/plain" id="attnscope-data">\n'
    yield from pack.text()
    yield "</script>\n</body>\n"


def _write(target: Path, parts: Iterable[str]) -> None:
    """The whole file or nothing."""
    aside = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        with aside.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(parts)
        os.replace(aside, target)
    except OSError as error:
        raise TraceError(f"{target}: cannot be written ({error.strerror or error}).") from None
    finally:
        aside.unlink(missing_ok=True)
