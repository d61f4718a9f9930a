"""DeepSeek-V4 and V4.1: a window of raw tokens, and entries that stand for several tokens each.

The idea: V4 layers are of three kinds by their ratio (0 a window alone, 4 overlapping entries with
an indexer, 128 plain entries). V4.1 lets a few source layers keep entries that all later layers
read; the layout of an entry was published with the model, and is used unless another format is
asked for.

Formula (V4.1): 512 FP4 numbers and an E4M3 scale per 16 (288 B), an index key of 128 FP4 numbers
and an E8M0 scale per 32 (68 B): 356 B an entry; three sources at ratio 2 and one at ratio 1 are
2.5 entries a token: 890 B.

Not here: sums (bytes.py).
"""

from __future__ import annotations

from attnscope.plan import build, kinds
from attnscope.plan.fields import Fields
from attnscope.plan.model import Heads, Indexer, Layer
from attnscope.plan.patterns import CSA, HCA, SLIDING

RATIOS = {CSA: 4, HCA: 128}
OLD_RATES = {CSA: "compress_rate_csa", HCA: "compress_rate_hca"}


def _window_only(fields: Fields, index: int, heads: int, width: int) -> Layer:
    """A sliding layer whose keys are its values: one vector a token."""
    window = fields.count("sliding_window")
    source = fields.says("head_dim", "sliding_window")
    store = kinds.Store("window K=V", 1, width, "window", window, source=source)
    return Layer(index, "sliding", (store,), Heads(heads, 1, width, width), window)


def deepseek_v4(fields: Fields, index: int, kind: str) -> Layer:
    """A layer of V4 by its ratio."""
    heads, width = build.query_heads(fields, index), fields.count("head_dim")
    if build.kv_heads(fields, heads) != 1:
        raise fields.fail(
            f"num_key_value_heads = {fields.raw('num_key_value_heads')}, but compressed sparse "
            "attention has one; they contradict each other."
        )
    if kind == SLIDING:
        own = _window_only(fields, index, heads, width)
        if fields.kind == "deepseek_v4":
            # transformers' plain sliding layer keeps the same vector as key and as value.
            held = kinds.attention(index, Heads(heads, 1, width, width), window=own.window)
            own = kinds.replace(own, held=held.stores)
        return own
    rates = fields.table("compress_rates")
    ratio = rates.get(kind) or fields.raw(OLD_RATES[kind]) or RATIOS[kind]
    return kinds.compressed(
        index,
        query_heads=heads,
        width=width,
        window=fields.count("sliding_window"),
        ratio=fields.check("compress_rates", ratio),
        indexer=build.indexer_of(fields, own=True) if kind == CSA else None,
        source=fields.says("head_dim", "sliding_window", "index_head_dim", "compress_ratios"),
    )


def v41_kinds(fields: Fields, layers: int) -> list[str]:
    """Layers before the first source have a window alone; the others read entries."""
    sources = _sources(fields, layers)
    return [SLIDING if index < sources[0] else CSA for index in range(layers)]


def _sources(fields: Fields, layers: int) -> list[int]:
    given = fields.indices("kv_source_layer_ids", layers)
    if not given:
        raise fields.fail("the field kv_source_layer_ids is missing.")
    return sorted(given)


def deepseek_v41(fields: Fields, index: int, kind: str) -> Layer:
    """A layer of V4.1: a source, a reader of the last source before it, or a window alone."""
    heads, width = build.query_heads(fields, index), fields.count("head_dim")
    if kind == SLIDING:
        return _window_only(fields, index, heads, width)
    sources = _sources(fields, fields.layers())
    owner = max(one for one in sources if one <= index)
    ratios = fields.table("compress_ratio_at_source")
    ratio = fields.check(f"compress_ratio_at_source.{owner}", ratios.get(str(owner)))
    choosing = fields.indices("index_source_layer_ids", fields.layers()) or sources
    indexer = Indexer(
        fields.count("index_n_heads"),
        fields.count("index_head_dim"),
        fields.count("index_topk"),
        own=index in choosing,
    )
    return kinds.compressed(
        index,
        query_heads=heads,
        width=width,
        window=fields.count("sliding_window"),
        ratio=ratio,
        indexer=indexer,
        number="fp4+e4m3/16",
        index_number="fp4+e8m0/32",
        source=fields.says("head_dim", "index_head_dim", "kv_source_layer_ids")
        + f", compress_ratio_at_source.{owner} = {ratio}",
        owner=None if owner == index else owner,
    )
