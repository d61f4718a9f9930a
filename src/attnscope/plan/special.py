"""Families whose rules or layers are their own: one function each, with the fields it reads.

Not here: families that fit the common builders (families.py), compressed attention
(compressed_models.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnscope.plan import build, kinds, patterns
from attnscope.plan.fields import Fields
from attnscope.plan.model import Heads, Indexer, Layer, Store
from attnscope.plan.patterns import CONV, FULL, INDEXED, LINEAR, MLP, SLIDING, SPARSE


def smollm3(fields: Fields, layers: int) -> list[str]:
    """Layers without rotary positions slide, where windows are on (they are off as published)."""
    if not fields.flag("use_sliding_window") or not fields.optional("sliding_window", least=0):
        return [FULL] * layers
    interval = fields.optional("no_rope_layer_interval") or 4
    given = fields.per_layer("no_rope_layers", layers)
    rope = given or [int((i + 1) % interval != 0) for i in range(layers)]
    return [FULL if one else SLIDING for one in rope]


def modernbert(fields: Fields, layers: int) -> list[str]:
    """Every `global_attn_every_n_layers`th from the first on is full."""
    period = fields.check(
        "global_attn_every_n_layers", fields.values.get("global_attn_every_n_layers", 3)
    )
    return [SLIDING if i % period else FULL for i in range(layers)]


def modernbert_layer(fields: Fields, index: int, kind: str) -> Layer:
    """Half of `local_attention` looks back."""
    if kind != SLIDING:
        return build.plain(fields, index, kind)
    own = {**fields.values, "sliding_window": fields.count("local_attention") // 2}
    return build.plain(Fields(own, kind=fields.kind, name=fields.name), index, kind)


def gpt_neo(fields: Fields, layers: int) -> list[str]:
    """`attention_layers`, or `attention_types` as [[kinds], times]; local layers slide."""
    given = fields.per_layer("attention_layers", layers)
    if given is None:
        given = []
        types = fields.raw("attention_types")
        for one in types if isinstance(types, list) else ():
            if not (isinstance(one, list) and len(one) == 2 and isinstance(one[0], list)):
                raise fields.fail("attention_types must hold [[kinds], times].")
            given += one[0] * fields.check("attention_types", one[1], most=layers)
        if len(given) != layers:
            raise fields.fail(
                f"attention_types describes {len(given):,} layers but num_layers is {layers:,}; "
                "they contradict each other."
            )
    return patterns.translate(fields, "attention_types", given)


def gpt_neo_layer(fields: Fields, index: int, kind: str) -> Layer:
    """Local layers see `window_size` tokens; transformers keeps every token all the same."""
    full = build.plain(fields, index, FULL)
    if kind == FULL or full.heads is None:
        return full
    window, source = fields.count("window_size"), fields.says("window_size", *build.SIZES)
    local = kinds.attention(index, full.heads, window=window, source=source)
    return replace(local, held=full.stores, note="transformers keeps every token")


def openelm(fields: Fields, index: int, kind: str) -> Layer:
    """OpenELM lists query and KV heads per layer."""
    return build.plain(fields, index, kind)


def mllama(fields: Fields, index: int, kind: str) -> Layer:
    """Llama 3.2 Vision: `cross_attention_layers` keep the image's keys, and none of the text."""
    if index not in (fields.indices("cross_attention_layers", fields.layers()) or ()):
        return build.plain(fields, index, kind)
    return replace(kinds.mlp(index), kind="cross", note="grows with the image, not with the text")


def nemotron_nas(fields: Fields, index: int, kind: str) -> Layer:
    """Nemotron-NAS: `block_configs[i].attention` may be absent or have its own group size."""
    blocks = fields.per_layer("block_configs", fields.layers())
    if blocks is None:
        raise fields.fail("the field block_configs is missing.")
    block: Any = blocks[index]
    block = block.get("attention") if isinstance(block, dict) else None
    if not isinstance(block, dict):
        raise fields.fail(f"block_configs[{index}].attention is missing.")
    if block.get("no_op"):
        return kinds.mlp(index, note=f"block_configs[{index}].attention.no_op")
    if block.get("replace_with_linear"):
        return kinds.mlp(index, note=f"block_configs[{index}].attention.replace_with_linear")
    queries = build.query_heads(fields, index)
    name = f"block_configs[{index}].attention.n_heads_in_group"
    group = fields.check(name, block.get("n_heads_in_group"))
    if queries % group:
        raise fields.fail(
            f"num_attention_heads = {queries} is not a multiple of {name} = {group}; "
            "they contradict each other."
        )
    width = build.head_width(fields, queries)
    return kinds.attention(
        index, Heads(queries, queries // group, width, width), source=f"{name} = {group}"
    )


def deci(fields: Fields, index: int, kind: str) -> Layer:
    """DeciLM: blocks as in Nemotron-NAS, or `num_key_value_heads_per_layer`."""
    if fields.has("block_configs"):
        return nemotron_nas(fields, index, kind)
    if not fields.has("num_key_value_heads"):
        raise fields.fail("the field num_key_value_heads_per_layer is missing.")
    return build.plain(fields, index, kind)


def step3(fields: Fields, index: int, kind: str) -> Layer:
    """Step-3: all queries share few KV heads, as many as there are `num_attention_groups`."""
    if not fields.has("num_key_value_heads"):
        raise fields.fail("the field num_attention_groups is missing.")
    return build.plain(fields, index, kind)


def step3p5(fields: Fields, index: int, kind: str) -> Layer:
    """Step-3.5: `attention_other_setting` holds the heads of the layers that slide."""
    setting = fields.table("attention_other_setting")
    if kind != setting.get("attention_type", SLIDING) or fields.has("per_layer_config"):
        return build.plain(fields, index, kind)
    names = {"num_attention_groups": "num_key_value_heads"}
    other = {names.get(name, name): value for name, value in setting.items()}
    # The model's own number of groups stands under its other name, and is not these layers'.
    own = {**fields.values, "num_attention_groups": None, **other}
    return build.plain(Fields(own, kind=fields.kind, name=fields.name), index, kind)


def without_drafts(fields: Fields) -> None:
    """Step-3.5 lists the kinds of its layers for drafting too, after those of the model."""
    given, drafts = fields.raw("layer_types"), fields.optional("num_nextn_predict_layers", least=0)
    if isinstance(given, list) and drafts and len(given) == fields.layers() + drafts:
        fields.values["layer_types"] = given[:-drafts]


def hunyuan_cross_layer(fields: Fields, index: int, kind: str) -> Layer:
    """Hunyuan-Large: with `use_cla`, each group of `cla_share_factor` layers shares one cache."""
    layer = build.plain(fields, index, kind)
    if not fields.flag("use_cla"):
        return layer
    factor = fields.count("cla_share_factor")
    owner = index - index % factor
    if owner == index:
        return layer
    return kinds.shared(layer, owner, note=f"cla_share_factor = {factor}")


def dots3_note(fields: Fields, layers: int) -> list[str]:
    """The first two and every fourth are indexed, the others slide."""
    full = FULL if fields.values.get("use_dsa") is False else INDEXED
    on = fields.values.get("use_sliding_window", True)
    return [full if not on or i < 2 or i % 4 == 1 else SLIDING for i in range(layers)]


SWA_DEFAULTS = {
    "num_attention_heads": 64, "kv_lora_rank": 1024, "head_dim": 256, "qk_nope_head_dim": 192,
    "v_head_dim": 128,
}  # fmt: skip


def dots3_note_layer(fields: Fields, index: int, kind: str) -> Layer:
    """MLA of two sizes: sliding layers have fields of their own, with `swa_` before them."""
    if kind == INDEXED:
        layer = build.dsa(fields, index, kind)
        # transformers normalises this family's index keys in float32, and keeps them so.
        held = tuple(
            replace(one, number="fp32") if one.name == "indexer keys" else one
            for one in layer.stores
        )
        return replace(layer, held=held)
    if kind != SLIDING:
        return build.mla(fields, index, kind)
    if isinstance(fields.values.get("per_layer_config"), dict):
        own = build.of_layer(fields, index)
    else:
        swa = {k: fields.values.get(f"swa_{k}", v) for k, v in SWA_DEFAULTS.items()}
        swa["qk_rope_head_dim"] = fields.values.get(
            "swa_qk_rope_head_dim", swa["head_dim"] - swa["qk_nope_head_dim"]
        )
        own = Fields({**fields.values, **swa}, kind=fields.kind, name=fields.name)
    own.values.pop("qk_head_dim", None)  # that of the indexed layers
    return build.mla(own, index, kind)


def longcat(fields: Fields, layers: int) -> list[str]:
    """LongCat: two attentions in each layer, each with a cache of its own."""
    return [FULL] * (2 * layers)


def qwen4(fields: Fields, layers: int) -> list[str]:
    """As Qwen3-Next, but the full layers have an indexer."""
    return [INDEXED if one == FULL else one for one in patterns.linear_interval(fields, layers)]


def qwen4_attention(fields: Fields, index: int, kind: str) -> Layer:
    """Ordinary heads, and keys of an indexer for every token (pooled when they are read)."""
    layer = build.plain(fields, index, kind)
    indexer = Indexer(
        fields.count("indexer_n_heads"),
        fields.count("indexer_kv_heads") * fields.count("indexer_head_dim"),
        fields.count("indexer_budget"),
    )
    layer = kinds.with_indexer(layer, indexer, source=fields.says("indexer_head_dim"))
    names = patterns.layer_kinds(fields, fields.layers(), qwen4)
    if names.index(INDEXED) != index:
        return layer
    # transformers keeps the three positions of every token once, with the first of these layers.
    positions = Store("positions", 3, 1, number="int64")
    return replace(layer, held=(*layer.stores, positions))


def qwen4_linear(fields: Fields, index: int, kind: str) -> Layer:
    """Gated DeltaNet; layers with n-gram embeddings are refused."""
    if fields.raw("ple_layer_ids"):
        raise fields.fail(
            "ple_layer_ids is not empty: what layers with n-gram embeddings keep is not known here."
        )
    return build.gated_deltanet(fields, index, kind)


def olmo_deltanet(fields: Fields, index: int, kind: str) -> Layer:
    """OLMo's hybrid: widths that are absent follow from the model's width."""
    own = dict(fields.values)
    if own.get("linear_key_head_dim") is None:
        heads = own.get("linear_num_key_heads") or build.query_heads(fields, index)
        own["linear_key_head_dim"] = 3 * fields.count("hidden_size") // (4 * heads)
    if own.get("linear_value_head_dim") is None:
        own["linear_value_head_dim"] = 2 * own["linear_key_head_dim"]
    return build.gated_deltanet(Fields(own, kind=fields.kind, name=fields.name), index, kind)


def lara_mini(fields: Fields, layers: int) -> list[str]:
    """Linear, sliding, linear, full, sliding, and again."""
    return patterns.repeat(LINEAR, SLIDING, LINEAR, FULL, SLIDING)(fields, layers)


def lfm3(fields: Fields, layers: int) -> list[str]:
    """Full at 2, 6, 10 ...; sliding at 4, 8, ...; short convolutions elsewhere."""
    return [FULL if i % 4 == 2 else SLIDING if i % 4 == 0 and i else CONV for i in range(layers)]


def m3_attention(fields: Fields, index: int, kind: str) -> Layer:
    """MiniMax-M3: sparse layers keep an index key per token, and pick blocks by it."""
    layer = build.plain(fields, index, FULL)
    if kind != SPARSE:
        return layer
    table = fields.table("sparse_attention_config")

    def size(flat: str, nested: str) -> int:
        if nested in table:
            return fields.check(f"sparse_attention_config.{nested}", table[nested])
        return fields.count(flat)

    blocks = size("index_topk_blocks", "sparse_topk_blocks")
    indexer = Indexer(
        size("index_n_heads", "sparse_num_index_heads"),
        size("index_head_dim", "sparse_index_dim"),
        blocks * size("index_block_size", "sparse_block_size"),
    )
    return kinds.with_indexer(layer, indexer, source="index_head_dim")


def dory(fields: Fields, layers: int) -> list[str]:
    """Dory counts attention and MLP as layers; its middle section runs several times.

    Each run keeps keys and values of its own, unless `recurrent_kv_cache_mode` is "last_loop".
    """
    given = fields.per_layer("layer_types", layers)
    halves = given is not None and MLP in given
    if given is None:
        kinds_of = [FULL if (i + 1) % 4 == 0 else SLIDING for i in range(layers)]
    else:
        kinds_of = patterns.translate(fields, "layer_types", [k for k in given if k != MLP])
    scale = 2 if halves else 1
    first = fields.count("n_input_layers", least=0) // scale
    last = fields.count("n_output_layers", least=0) // scale
    loops = fields.count("n_recurrent_loops")
    if fields.raw("recurrent_kv_cache_mode", "per_loop") == "last_loop":
        loops = 1
    middle = kinds_of[first : len(kinds_of) - last]
    return kinds_of + middle * (loops - 1)


def inkling_loop(fields: Fields, layers: int) -> list[str]:
    """Inkling's looped middle: each pass through it keeps keys and values of its own."""
    table = fields.table("loop_config")

    def size(nested: str, flat: str) -> int:
        if nested in table:
            return fields.check(f"loop_config.{nested}", table[nested], least=0)
        return fields.count(flat, least=0)

    start, end = (
        size("core_start", "loop_layer_index_start"),
        size("core_end", "loop_layer_index_end"),
    )
    passes = size("num_passes", "loop_num_passes")
    if not start <= end <= layers or passes < 1:
        raise fields.fail(
            f"the loop runs {passes} times over layers {start} to {end} of {layers}; they "
            "contradict each other."
        )
    found = patterns.layer_kinds(fields, layers, patterns.local_ids)
    return found + found[start:end] * (passes - 1)


UNROLLED = (dory, longcat, inkling_loop)
"""Rules that give more layers than the config counts: each has a cache of its own."""


def share_last(fields: Fields, layers: list[Layer], names: list[str]) -> list[Layer]:
    """Gemma 3n and 4: the last `num_kv_shared_layers` read the last own layer of their kind."""
    count = fields.optional("num_kv_shared_layers", least=0) or 0
    if not count:
        return layers
    if count > len(layers):
        raise fields.fail(
            f"num_kv_shared_layers = {count} is more than num_hidden_layers = {len(layers)}; "
            "they contradict each other."
        )
    first = len(layers) - count
    owners = {name: index for index, name in enumerate(names[:first])}
    found = list(layers)
    for index in range(first, len(layers)):
        if names[index] not in owners:
            raise fields.fail(
                f"num_kv_shared_layers = {count} leaves layer {index} ({names[index]}) no layer of "
                "its kind to share with; they contradict each other."
            )
        owner = owners[names[index]]
        found[index] = kinds.shared(
            replace(layers[index]), owner, note=f"num_kv_shared_layers = {count}"
        )
    return found
