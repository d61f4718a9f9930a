"""From a config's fields to one layer of each sort: where each sort's sizes are called what.

The idea: a builder takes the fields, a layer's number and its kind, asks for the sizes by name and
hands them to kinds.py. Attention has one builder for ordinary heads and one for MLA; each family of
recurrences has its own names for the same few sizes.

Not here: which layer is of which kind (patterns.py), which family uses which builder (families.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from attnscope.plan import kinds
from attnscope.plan.fields import Fields, shown
from attnscope.plan.model import Heads, Indexer, Latent, Layer
from attnscope.plan.patterns import CHUNKED, SLIDING

Builder = Callable[[Fields, int, str], Layer]


def of_layer(fields: Fields, index: int) -> Fields:
    """The fields as one layer sees them, where `per_layer_config` overrides some."""
    table = fields.values.get("per_layer_config")
    if not isinstance(table, dict):
        return fields
    # transformers writes the layers' numbers as text, with zeros in front to sort them.
    numbered = {int(key): value for key, value in table.items() if str(key).isdigit()}
    own = numbered.get(index)
    if not isinstance(own, dict) or not own:
        return fields
    return Fields({**fields.values, **own}, kind=fields.kind, name=fields.name)


def head_width(fields: Fields, query_heads: int) -> int:
    """`head_dim`, or the model's width divided by its heads where the config has none.

    Raises:
        ConfigError: no head_dim, and a width that the heads do not divide.
    """
    given = fields.optional("head_dim")
    if given is not None:
        return given
    width = fields.count("hidden_size")
    if width % query_heads:
        raise fields.fail(
            f"head_dim is missing and hidden_size = {width:,} is not a multiple of "
            f"num_attention_heads = {query_heads:,}; they contradict each other."
        )
    return width // query_heads


def kv_heads(fields: Fields, query_heads: int, index: int = 0) -> int:
    """The number of KV heads: its field, else the library's default, else as many as queries."""
    said = _sharing(fields, query_heads)
    if said is not None:
        return said
    value = fields.raw("num_key_value_heads")
    if isinstance(value, list):
        value = _item(fields, fields.where("num_key_value_heads") or "", value, index)
    if value is None:
        for flag in ("multi_query", "multi_query_attention"):
            if fields.values.get(flag) is True and query_heads > 1:
                raise fields.fail(
                    f"{flag} is true, but no field says how many KV heads {fields.kind} has."
                )
        return query_heads
    return _divisor(
        fields, fields.where("num_key_value_heads") or "num_key_value_heads", value, query_heads
    )


ONE_FOR_ALL: Final = ("multiquery", "multiquery_attention", "mqa")
ONE_FOR_EACH: Final = ("multihead", "multihead_attention", "mha")
SOME: Final = ("groupedquery", "grouped_query_attention", "gqa")


def _sharing(fields: Fields, query_heads: int) -> int | None:
    """KV heads by a field that names the sort of attention; None where a number must say it.

    SantaCoder (`attention_head_type`), MPT (`attn_config.attn_type`) and ChatGLM
    (`multi_query_attention`) published such fields, which the classes of transformers do not read.
    """
    table = fields.values.get("attn_config")
    nested = table if isinstance(table, dict) else {}
    for name, sort in (
        ("attention_head_type", fields.raw("attention_head_type")),
        ("attn_config.attn_type", nested.get("attn_type")),
    ):
        if sort in ONE_FOR_ALL:
            return 1
        if sort in ONE_FOR_EACH:
            return query_heads
        if sort is not None and sort not in SOME:
            raise fields.fail(f"{name} is {shown(sort)}, a sort of attention not known here.")
    if nested.get("kv_n_heads") is not None:
        return _divisor(fields, "attn_config.kv_n_heads", nested["kv_n_heads"], query_heads)
    return None if fields.flag("multi_query_attention", True) else query_heads


def _divisor(fields: Fields, field: str, value: Any, query_heads: int) -> int:
    """A number of KV heads that divides that of the query heads."""
    count = fields.check(field, value)
    if query_heads % count:
        raise fields.fail(
            f"num_attention_heads = {query_heads:,} is not a multiple of {field} = {count:,}; "
            "they contradict each other."
        )
    return count


def _item(fields: Fields, field: str, value: list[Any], index: int) -> Any:
    if index >= len(value):
        raise fields.fail(f"{field} has {len(value)} items, none for layer {index}.")
    return value[index]


def query_heads(fields: Fields, index: int) -> int:
    """The number of query heads, of this layer where they differ."""
    for field in ("num_attention_heads_per_layer", "num_query_heads"):
        given = fields.raw(field)
        if isinstance(given, list):
            return fields.check(field, _item(fields, field, given, index))
    value = fields.raw("num_attention_heads")
    if isinstance(value, list):
        return fields.check(
            "num_attention_heads", _item(fields, "num_attention_heads", value, index)
        )
    return fields.count("num_attention_heads")


def window_of(fields: Fields, kind: str) -> int | None:
    """The window of a sliding or chunked layer, None of a full one.

    Raises:
        ConfigError: a layer that slides in a config without a window.
    """
    if kind == CHUNKED:
        return fields.count("attention_chunk_size")
    if "sliding" not in kind:
        return None
    for field in ("sliding_window", "sliding_window_size", "attention_window_size"):
        if fields.raw(field):
            return fields.count(field)
    raise fields.fail("a layer is sliding_attention but the field sliding_window is missing.")


SIZES = ("num_key_value_heads", "num_kv_heads", "head_dim", "hidden_size", "num_attention_heads")


def plain(fields: Fields, index: int, kind: str) -> Layer:
    """Ordinary attention: MHA, GQA, MQA, full, sliding or chunked."""
    own = of_layer(fields, index)
    queries = query_heads(own, index)
    width = head_width(own, queries)
    heads = Heads(queries, kv_heads(own, queries, index), width, width)
    return kinds.attention(
        index,
        heads,
        window=window_of(own, kind),
        chunked=kind == CHUNKED,
        source=own.says(*SIZES, *(("sliding_window",) if kind == SLIDING else ())),
    )


def two_widths(fields: Fields, index: int, kind: str) -> Layer:
    """As plain, with `v_head_dim` for the values, and fields of their own for sliding layers."""
    own = of_layer(fields, index)
    swa = {
        name: own.values[f"swa_{name}"]
        for name in ("num_attention_heads", "num_key_value_heads", "head_dim", "v_head_dim")
        if own.values.get(f"swa_{name}") is not None
    }
    if own.kind == "mimo_v2_flash" and "num_key_value_heads" not in swa:
        # Its own library does not read the field: sliding layers have twice the KV heads there.
        swa["num_key_value_heads"] = 2 * own.count("num_key_value_heads")
    if "sliding" in kind and swa:
        own = Fields({**own.values, **swa}, kind=own.kind, name=own.name)
    layer = plain(own, index, kind)
    assert layer.heads is not None
    value_width = own.optional("v_head_dim") or layer.heads.v
    return replace(
        kinds.attention(
            index,
            replace(layer.heads, v=value_width),
            window=layer.window,
            source=own.says(*SIZES, "v_head_dim"),
        )
    )


def multi_query(fields: Fields, index: int, kind: str) -> Layer:
    """GPT-BigCode and Falcon: a flag says that all queries share one KV head.

    Falcon 40B's first config (RefinedWeb) has neither flag, and its KV heads as `n_head_kv`.
    """
    queries = query_heads(fields, index)
    flags = fields.has("multi_query") or fields.has("new_decoder_architecture")
    first = not flags and fields.where("num_key_value_heads") == "n_head_kv"
    if first or fields.flag("new_decoder_architecture"):
        count = kv_heads(fields, queries)
    else:
        count = 1 if fields.flag("multi_query") else queries
    width = head_width(fields, queries)
    source = fields.says("multi_query", "new_decoder_architecture", *SIZES)
    return kinds.attention(index, Heads(queries, count, width, width), source=source)


def nested_kv(fields: Fields, index: int, kind: str) -> Layer:
    """DBRX: `attn_config.kv_n_heads`."""
    queries = query_heads(fields, index)
    nested = fields.table("attn_config").get("kv_n_heads")
    count = _divisor(fields, "attn_config.kv_n_heads", nested, queries)
    width = head_width(fields, queries)
    source = f"attn_config.kv_n_heads = {count}, " + fields.says(*SIZES)
    return kinds.attention(index, Heads(queries, count, width, width), source=source)


def gemma4(fields: Fields, index: int, kind: str) -> Layer:
    """Gemma 4: full layers have a head width, and may have a number of KV heads, of their own."""
    if kind == SLIDING or isinstance(fields.values.get("per_layer_config"), dict):
        return plain(fields, index, kind)
    own: dict[str, Any] = {"head_dim": fields.values.get("global_head_dim", 512)}
    if fields.flag("attention_k_eq_v", True) and fields.raw("num_global_key_value_heads"):
        own["num_key_value_heads"] = fields.values["num_global_key_value_heads"]
    return plain(Fields({**fields.values, **own}, kind=fields.kind, name=fields.name), index, kind)


MLA = ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")


def latent_sizes(fields: Fields) -> Latent:
    """The widths of MLA.

    Raises:
        ConfigError: one is missing, or `qk_head_dim` is not the sum of its parts.
    """
    rank, rope = fields.count("kv_lora_rank"), fields.count("qk_rope_head_dim")
    nope = fields.count("qk_nope_head_dim", least=0)
    value = fields.optional("v_head_dim")
    if value is None and fields.kind == "minicpm3":
        value = fields.count("hidden_size") // query_heads(fields, 0)
    value = value or fields.count("v_head_dim")
    said = fields.values.get("qk_head_dim")
    if said is not None and said != nope + rope:
        raise fields.fail(
            f"qk_head_dim = {shown(said)} is not qk_nope_head_dim + qk_rope_head_dim = "
            f"{nope + rope}; they contradict each other."
        )
    return Latent(rank, rope, nope, value)


def mla(fields: Fields, index: int, kind: str) -> Layer:
    """MLA, sliding where the layer is; ordinary heads where `use_mla` says no."""
    if fields.values.get("use_mla") is False:
        return plain(fields, index, kind)
    own = of_layer(fields, index)
    return kinds.latent(
        index,
        query_heads(own, index),
        latent_sizes(own),
        window=window_of(own, kind),
        source=own.says(*MLA),
    )


def indexer_of(fields: Fields, *, own: bool) -> Indexer:
    """The sizes of a lightning indexer."""
    return Indexer(
        fields.count("index_n_heads"),
        fields.count("index_head_dim"),
        fields.count("index_topk"),
        own,
    )


def dsa(fields: Fields, index: int, kind: str) -> Layer:
    """MLA with an indexer: its own, or (by `indexer_types`) the selection of an earlier layer."""
    layer = mla(fields, index, kind)
    if kind == SLIDING:
        return layer
    own = True
    modes = indexer_modes(fields)
    if modes is not None:
        own = modes[index] == "full"
    source = fields.says("index_head_dim", "indexer_types", "index_topk_freq")
    return kinds.with_indexer(layer, indexer_of(fields, own=own), source=source)


def indexer_modes(fields: Fields) -> list[str] | None:
    """`indexer_types`, or the schedule that `index_topk_freq` and its offset describe."""
    layers = fields.layers()
    given = fields.per_layer("indexer_types", layers)
    pattern = fields.raw("index_topk_pattern")
    if given is None and isinstance(pattern, str):
        letters = {"F": "full", "S": "shared"}
        given = [letters.get(one, one) for one in pattern]
    if given is not None:
        for i, one in enumerate(given):
            if one not in ("full", "shared"):
                raise fields.fail(f"indexer_types[{i}] is {shown(one)}; full and shared are known.")
        if not given or given[0] != "full":
            raise fields.fail(
                "indexer_types begins with a shared indexer: there is none before it."
            )
        return [str(one) for one in given]
    if fields.kind == "hy_v4":
        return ["full" if i == 0 or (i - 1) % 4 == 0 else "shared" for i in range(layers)]
    if not fields.has("index_topk_freq"):
        return None
    period = fields.count("index_topk_freq")
    offset = (
        fields.count("index_skip_topk_offset", least=0)
        if fields.has("index_skip_topk_offset")
        else 2
    )
    return ["full" if max(i - offset + 1, 0) % period == 0 else "shared" for i in range(layers)]


GDN = (
    "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
    "linear_value_head_dim", "linear_conv_kernel_dim",
)  # fmt: skip


def gated_deltanet(fields: Fields, index: int, kind: str) -> Layer:
    """Gated DeltaNet by Qwen's names; OLMo's hybrid leaves some to be derived."""
    count = fields.count
    key_heads = fields.optional(GDN[0]) or query_heads(fields, index)
    value_heads = fields.optional(GDN[1]) or query_heads(fields, index)
    if value_heads % key_heads:
        raise fields.fail(
            f"linear_num_value_heads = {value_heads} is not a multiple of linear_num_key_heads = "
            f"{key_heads}; they contradict each other."
        )
    return kinds.delta(
        index,
        "gated-deltanet",
        key_heads=key_heads,
        value_heads=value_heads,
        key_width=count(GDN[2]),
        value_width=count(GDN[3]),
        taps=count(GDN[4]),
        source=fields.says(*GDN),
    )


def kda(fields: Fields, index: int, kind: str) -> Layer:
    """Kimi Delta Attention: flat fields, or the table `linear_attn_config`."""
    table = fields.table("linear_attn_config")

    def size(flat: str, nested: str, spare: str = "") -> int:
        if nested in table:
            return fields.check(f"linear_attn_config.{nested}", table[nested])
        return fields.count(flat if fields.raw(flat) is not None or not spare else spare)

    heads = size("linear_num_heads", "num_heads", "num_attention_heads")
    width = size("linear_head_dim", "head_dim", "head_dim")
    taps = size("linear_conv_kernel_dim", "short_conv_kernel_size", "short_conv_kernel_size")
    source = ", ".join(
        f"linear_attn_config.{k} = {v}" for k, v in table.items() if "layers" not in k
    )
    source = source or fields.says("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
    return kinds.delta(
        index, "kda", key_heads=heads, value_heads=heads, key_width=width, value_width=width,
        taps=taps, source=source,
    )  # fmt: skip
