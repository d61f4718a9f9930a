"""trace.json as Python objects: every field checked, nothing guessed, unknown fields refused.

The idea: what this module lets through can be trusted by the rest of the package; so each field
has a kind and a range here, and an error names the field, what was expected and what came.

Units
    token spans in bytes of the text's UTF-8; `scale` and `softcap` as in core.attend.

Not here: bytes and files (document.py), arrays (arrays.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from attnscope.errors import TraceError
from attnscope.trace.fields import Fields, short, utf8_length
from attnscope.trace.format import (
    EMBEDDINGS,
    LAYER_FILE,
    MAX_COUNT,
    MAX_LAYERS,
    MAX_STATISTICS,
    NAME,
    OWN_ARRAY,
)

MODES: Final = ("replace", "beside")
Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its place, its id, what to show for it, and its bytes in the text."""

    index: int
    id: int
    text: str
    start: int
    end: int


_TOKEN: Final = ("index", "id", "text", "start", "end")


@dataclass(frozen=True)
class ModelInfo:
    """The model that was observed. `layers` counts all layers, with or without attention."""

    name: str
    architecture: str
    layers: int
    query_heads: int
    kv_heads: int
    head_width: int
    width: int
    vocabulary: int | None = None


@dataclass(frozen=True)
class FileInfo:
    """A file of the trace: its name, its length, and a checksum of eight hex digits for each block
    of 256 KiB.
    """

    file: str
    bytes: int
    crc32: str


@dataclass(frozen=True)
class LayerInfo:
    """One layer as trace.json says it.

    Attributes:
        kind: "full", "sliding", "chunked"…; "none" for a layer without an attention map.
        reason: why there is none.
        name: the module's name, where a layer's number alone does not say which it is.
        causal: whether a query is blind to later keys.
        cross: whether keys belong to another sequence than queries.
        file, bytes, crc32: the layer's file, its length, and a checksum of eight hex digits for
            each block of 256 KiB.
    """

    index: int
    kind: str
    reason: str | None = None
    name: str | None = None
    window: int | None = None
    query_heads: int = 0
    kv_heads: int = 0
    head_width: int = 0
    value_width: int = 0
    scale: float = 1.0
    softcap: float | None = None
    causal: bool = True
    cross: bool = False
    file: str | None = None
    bytes: int = 0
    crc32: str = ""

    @property
    def has_map(self) -> bool:
        """Whether there are weights to look at."""
        return self.kind != "none"

    @property
    def stored(self) -> FileInfo | None:
        """The layer's file, or None in a trace in memory."""
        return None if self.file is None else FileInfo(self.file, self.bytes, self.crc32)


@dataclass(frozen=True)
class Header:
    """All of trace.json but the format's own marks.

    Attributes:
        about: further facts of whoever wrote the trace (times, peak memory), names to scalars.
        embeddings: the file of the tokens' embeddings, where they were kept and are on a disk.
    """

    model: ModelInfo
    mode: str
    tokens: tuple[Token, ...]
    text: str
    prompt_tokens: int
    statistics: tuple[str, ...]
    layers: tuple[LayerInfo, ...] = ()
    sink_keys: int = 1
    local: int = 8
    created: str = ""
    attnscope: str = ""
    about: dict[str, Scalar] = field(default_factory=dict)
    embeddings: FileInfo | None = None

    @property
    def block(self) -> tuple[str, ...]:
        """The statistics that share the array `statistics`, in its order."""
        return tuple(name for name in self.statistics if name not in OWN_ARRAY)

    def with_layers(self, layers: Iterable[LayerInfo]) -> Header:
        """The same with other layers."""
        return replace(self, layers=tuple(layers))


def read_header(value: Any) -> Header:
    """Check the parsed trace.json (or the same as a Python mapping).

    Raises:
        TraceError: naming the field, what was expected and what came.
    """
    names = Header.__dataclass_fields__
    fields = Fields(value, "trace.json", [*names, "format", "version", "sha256"])
    text = fields.string("text")
    tokens = _tokens(fields.value.get("tokens"), text)
    mode = fields.string("mode")
    if mode not in MODES:
        raise fields.fail("mode", "'replace' or 'beside'")
    statistics = _statistics(fields)
    model = read_model(fields.value.get("model"))
    header = Header(
        model=model,
        mode=mode,
        tokens=tokens,
        text=text,
        prompt_tokens=fields.count("prompt_tokens", most=len(tokens)),
        statistics=statistics,
        layers=_layers(fields.value.get("layers", ()), model),
        sink_keys=fields.count("sink_keys", least=1) if "sink_keys" in fields.value else 1,
        local=fields.count("local", least=1) if "local" in fields.value else 8,
        created=fields.string("created", optional=True) or "",
        attnscope=fields.string("attnscope", optional=True) or "",
        about=_about(fields.value.get("about", {})),
        embeddings=_embeddings(fields.value.get("embeddings")),
    )
    return header


def _embeddings(value: Any) -> FileInfo | None:
    """Check the field `embeddings`."""
    if value is None:
        return None
    fields = Fields(value, "trace.json: embeddings", FileInfo.__dataclass_fields__)
    if fields.string("file") != EMBEDDINGS:
        raise fields.fail("file", EMBEDDINGS)
    return FileInfo(EMBEDDINGS, fields.count("bytes", most=1 << 48), fields.string("crc32"))


def read_model(value: Any) -> ModelInfo:
    """Check the field `model`."""
    fields = Fields(value, "trace.json: model", ModelInfo.__dataclass_fields__)
    return ModelInfo(
        name=fields.string("name"),
        architecture=fields.string("architecture"),
        layers=fields.count("layers", most=MAX_LAYERS),
        query_heads=fields.count("query_heads", least=1),
        kv_heads=fields.count("kv_heads", least=1),
        head_width=fields.count("head_width", least=1),
        width=fields.count("width", least=1),
        vocabulary=fields.optional_count("vocabulary", least=1),
    )


def read_layer(value: Any) -> LayerInfo:
    """Check one entry of `layers`.

    >>> read_layer({"index": 3, "kind": "none", "reason": "a recurrent layer"}).has_map
    False
    """
    where = "trace.json: layers"
    if isinstance(value, Mapping) and isinstance(value.get("index"), int):
        where = f"trace.json: layer {short(value['index'])}"
    fields = Fields(value, where, LayerInfo.__dataclass_fields__)
    index = fields.count("index", most=MAX_LAYERS - 1)
    kind = fields.string("kind")
    if not NAME.fullmatch(kind):
        raise fields.fail("kind", "a lower-case word")
    reason, name = fields.string("reason", optional=True), fields.string("name", optional=True)
    if kind == "none":
        if not reason:
            raise fields.fail("reason", "a sentence, because this layer has no map")
        return LayerInfo(index, kind, reason=reason, name=name)
    softcap = None if fields.value.get("softcap") is None else fields.number("softcap")
    if softcap is not None and softcap <= 0:
        raise fields.fail("softcap", "a positive number")
    heads, kv_heads = fields.count("query_heads", least=1), fields.count("kv_heads", least=1)
    if heads % kv_heads:
        raise fields.fail("query_heads", f"a multiple of the {kv_heads} key/value heads")
    file = fields.string("file", optional=True)
    if file is not None and not LAYER_FILE.fullmatch(file):
        raise fields.fail("file", "a name like layers/000.safetensors")
    return LayerInfo(
        index,
        kind,
        reason=reason,
        name=name,
        window=fields.optional_count("window", least=1),
        query_heads=heads,
        kv_heads=kv_heads,
        head_width=fields.count("head_width", least=1),
        value_width=fields.count("value_width", least=1),
        scale=fields.number("scale"),
        softcap=softcap,
        causal=fields.flag("causal", True),
        cross=fields.flag("cross", False),
        file=file,
        bytes=fields.count("bytes", most=1 << 48) if "bytes" in fields.value else 0,
        crc32=fields.string("crc32", optional=True) or "",
    )


def to_json(header: Header) -> dict[str, Any]:
    """The header as trace.json holds it, without the format's own marks."""
    value = {name: getattr(header, name) for name in Header.__dataclass_fields__}
    value["model"] = _without_none(asdict(header.model))
    value["tokens"] = [{name: getattr(token, name) for name in _TOKEN} for token in header.tokens]
    value["layers"] = [_layer_json(layer) for layer in header.layers]
    value["statistics"] = list(header.statistics)
    if header.embeddings is None:
        del value["embeddings"]
    else:
        value["embeddings"] = asdict(header.embeddings)
    return value


def _layer_json(layer: LayerInfo) -> dict[str, Any]:
    if not layer.has_map:
        return _without_none(
            {"index": layer.index, "kind": "none", "reason": layer.reason, "name": layer.name}
        )
    kept = ("window", "softcap")  # null says "none" here, rather than "not told"
    return {name: v for name, v in asdict(layer).items() if v is not None or name in kept}


def _without_none(value: dict[str, Any]) -> dict[str, Any]:
    return {name: entry for name, entry in value.items() if entry is not None}


def _layers(value: Any, model: ModelInfo) -> tuple[LayerInfo, ...]:
    if not isinstance(value, list | tuple) or len(value) > MAX_LAYERS:
        raise TraceError(f"trace.json: layers: expected a list of at most {MAX_LAYERS} entries.")
    layers = tuple(read_layer(entry) for entry in value)
    for before, after in itertools.pairwise(layers):
        if after.index <= before.index:
            raise TraceError(
                f"trace.json: layers: expected rising numbers, got {after.index} after "
                f"{before.index}."
            )
    if layers and layers[-1].index >= model.layers:
        raise TraceError(
            f"trace.json: layer {layers[-1].index} is not one of the model's {model.layers} layers."
        )
    files = [layer.file for layer in layers if layer.file is not None]
    if len(set(files)) != len(files):
        raise TraceError("trace.json: layers: two layers name the same file.")
    return layers


def _tokens(value: Any, text: str) -> tuple[Token, ...]:
    if not isinstance(value, list | tuple):
        raise TraceError("trace.json: tokens: expected a list.")
    length = utf8_length(text) or 0
    return tuple(_token(entry, place, length) for place, entry in enumerate(value))


def _token(entry: Any, place: int, length: int) -> Token:
    """One token, checked. Texts are long, so what is right is recognised in one expression."""
    if not isinstance(entry, dict):
        if not isinstance(entry, Mapping) and all(hasattr(entry, name) for name in _TOKEN):
            entry = {name: getattr(entry, name) for name in _TOKEN}
        return _checked_token(entry, place, length)
    index, number, text = entry.get("index"), entry.get("id"), entry.get("text")
    start, end = entry.get("start"), entry.get("end")
    if (
        len(entry) == len(_TOKEN)
        and type(index) is type(number) is type(start) is type(end) is int
        and index == place
        and type(text) is str
        and text.isascii()
        and 0 <= number < MAX_COUNT
        and 0 <= start <= end <= length
    ):
        return Token(index, number, text, start, end)
    return _checked_token(entry, place, length)


def _checked_token(entry: Any, place: int, length: int) -> Token:
    """The same field by field, with the complaint about the first that is wrong."""
    fields = Fields(entry, f"trace.json: token {place}", _TOKEN)
    token = Token(
        fields.count("index"),
        fields.count("id", least=-1, most=1 << 62),
        fields.string("text"),
        fields.count("start", most=length),
        fields.count("end", most=length),
    )
    if token.index != place:
        raise fields.fail("index", f"{place}, its place in the list")
    if token.end < token.start:
        raise fields.fail("end", f"at least start, {token.start}")
    return token


def _statistics(fields: Fields) -> tuple[str, ...]:
    names = fields.value.get("statistics")
    valid = (
        isinstance(names, list | tuple)
        and len(names) <= MAX_STATISTICS
        and all(isinstance(name, str) and NAME.fullmatch(name) for name in names)
        and len(set(names)) == len(names)
    )
    if not valid:
        raise fields.fail("statistics", f"a list of at most {MAX_STATISTICS} different names")
    return tuple(names)  # type: ignore[arg-type]


def _about(value: Any) -> dict[str, Scalar]:
    fields = Fields(value, "trace.json: about", value if isinstance(value, Mapping) else ())
    for name, entry in fields.value.items():
        if not isinstance(name, str) or not isinstance(entry, str | int | float | None):
            raise fields.fail(name, "a string, a number, true, false or null")
        if isinstance(entry, float):
            fields.number(name)
    return dict(fields.value)
