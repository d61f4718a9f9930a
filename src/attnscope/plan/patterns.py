"""Which kind each layer is: `layer_types` where the config has it, else the family's own rule.

The idea: published configs say which layers are which in a dozen ways (an interval, a pattern, a
list of ones and zeros, a string of letters, indices, or not at all), and each family reads its own.
The rules are written down here, one line each; where a config gives both a list and a rule that
disagree, that is said, not settled.

Here the names of transformers' own `layer_types` are used, and older names are translated.

Not here: what a layer of a type keeps (families.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attnscope.plan.fields import Fields, shown

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
LINEAR, CONV, INDEXED = "linear_attention", "conv", "indexed_attention"
HYBRID, HYBRID_SLIDING, MLP = "hybrid", "hybrid_sliding", "mlp"
CSA, HCA, SPARSE = "compressed_sparse_attention", "heavily_compressed_attention", "block_sparse"

OLD_NAMES: Final = {
    "mamba": LINEAR,
    "mamba2": LINEAR,
    "attention": FULL,
    "global": FULL,
    "global_attention": FULL,
    "local": SLIDING,
    "local_attention": SLIDING,
    "recurrent": LINEAR,
    "deepseek_sparse_attention": INDEXED,
    "qwen_sparse_attention": INDEXED,
    "minimax_m3_sparse": SPARSE,
    "moe": MLP,
    "M": LINEAR,
    "*": FULL,
    "-": MLP,
    "E": MLP,
    "L": SLIDING,
    "G": FULL,
    "short_conv": CONV,
    "m": LINEAR,
    "g": HYBRID,
}
KNOWN: Final = frozenset(
    (FULL, SLIDING, CHUNKED, LINEAR, CONV, INDEXED, HYBRID, HYBRID_SLIDING, MLP, CSA, HCA, SPARSE)
)

Rule = Callable[[Fields, int], list[str]]


def translate(fields: Fields, field: str, names: list[Any]) -> list[str]:
    """Every name as one of this module's.

    Raises:
        ConfigError: for a name that is no known kind of layer.
    """
    found = []
    for index, one in enumerate(names):
        name = OLD_NAMES.get(one, one) if isinstance(one, str) else None
        if name not in KNOWN:
            raise fields.fail(
                f"{field}[{index}] is {shown(one)}, a kind of layer that the planner does not know."
            )
        found.append(str(name))
    return found


def every(period: int, *, last: bool = False, first: bool = False) -> Rule:
    """Full at the end (or the beginning) of each group of `period`, else sliding."""

    def rule(fields: Fields, layers: int) -> list[str]:
        at = 0 if first else period - 1
        found = [FULL if i % period == at else SLIDING for i in range(layers)]
        if last:
            found[-1] = FULL
        return found

    return rule


def pattern_field(field: str, default: int | None, *, other: str = SLIDING) -> Rule:
    """`field` is an interval: its last layer is full, the others `other`."""

    def rule(fields: Fields, layers: int) -> list[str]:
        value = fields.raw(field, default)
        if isinstance(value, str) and value:
            letters = translate(fields, field, list(value))
            return [letters[i % len(letters)] for i in range(layers)]
        if value is None:
            raise fields.fail(f"neither layer_types nor {field} says which layers are full.")
        period = fields.check(field, value)
        return [FULL if (i + 1) % period == 0 else other for i in range(layers)]

    return rule


def all_full(fields: Fields, layers: int) -> list[str]:
    """No window is known to the family; one in the config contradicts it."""
    for field in ("sliding_window", "attention_chunk_size"):
        off = fields.values.get("use_sliding_window") is False
        if fields.has(field) and fields.values[field] and not off:
            raise fields.fail(
                f"{field} = {shown(fields.values[field])}, but {fields.kind} has no windows; "
                "they contradict each other."
            )
    return [FULL] * layers


def full_whatever(fields: Fields, layers: int) -> list[str]:
    """Every layer is full, whatever window the config carries along."""
    return [FULL] * layers


def window_if_given(fields: Fields, layers: int) -> list[str]:
    """Every layer slides where `sliding_window` is a number, and none where it is null."""
    off = fields.raw("use_sliding_window") is False
    return [FULL if off or not fields.optional("sliding_window", least=0) else SLIDING] * layers


def upper_layers(fields: Fields, layers: int) -> list[str]:
    """Qwen2's rule: with `use_sliding_window`, the layers from `max_window_layers` on slide."""
    if not fields.flag("use_sliding_window") or not fields.optional("sliding_window", least=0):
        return [FULL] * layers
    first = fields.count("max_window_layers", least=0)
    return [SLIDING if i >= first else FULL for i in range(layers)]


def upper_layers_if_given(fields: Fields, layers: int) -> list[str]:
    """The layers from `max_window_layers` on slide where there is a window."""
    if not fields.optional("sliding_window", least=0):
        return [FULL] * layers
    first = fields.count("max_window_layers", least=0)
    return [SLIDING if i >= first else FULL for i in range(layers)]


def even_lower_layers(fields: Fields, layers: int) -> list[str]:
    """Qwen2-MoE's rule: every other layer below `max_window_layers` slides, if windows are on."""
    if not fields.flag("use_sliding_window"):
        return [FULL] * layers
    below = fields.count("max_window_layers", least=0)
    return [SLIDING if i % 2 == 0 and i < below else FULL for i in range(layers)]


def exaone(fields: Fields, layers: int) -> list[str]:
    """`sliding_window_pattern` is a number or letters (LLLG); without a window all are full."""
    if not fields.optional("sliding_window", least=0):
        return [FULL] * layers
    return pattern_field("sliding_window_pattern", 4)(fields, layers)


def llama4(fields: Fields, layers: int) -> list[str]:
    """Layers with rotary positions are chunked; `no_rope_layers` holds a 1 for those."""
    given = fields.per_layer("no_rope_layers", layers) if fields.raw("no_rope_layers") else None
    if given is None:
        interval = fields.count("no_rope_layer_interval")
        given = [int((i + 1) % interval != 0) for i in range(layers)]
    return [CHUNKED if one else FULL for one in given]


def linear_interval(fields: Fields, layers: int) -> list[str]:
    """`full_attention_interval` (4 where absent): the last of each group is full."""
    return pattern_field("full_attention_interval", 4, other=LINEAR)(fields, layers)


def attn_type_list(fields: Fields, layers: int) -> list[str]:
    """MiniMax: `attn_type_list` holds 1 for full, 0 for lightning; else they alternate."""
    given = fields.per_layer("attn_type_list", layers)
    if given is None:
        return [LINEAR if i % 2 else FULL for i in range(layers)]
    if any(one not in (0, 1) for one in given):
        raise fields.fail("attn_type_list must hold zeros and ones.")
    return [FULL if one else LINEAR for one in given]


def kimi(fields: Fields, layers: int) -> list[str]:
    """Kimi-Linear lists its layers by number, and counts from 1."""
    table = fields.table("linear_attn_config")
    if not table:
        return [FULL if i and i % 4 == 0 else LINEAR for i in range(layers)]
    found: list[str | None] = [None] * layers
    for key, kind in (("kda_layers", LINEAR), ("full_attn_layers", FULL)):
        numbers = table.get(key, [])
        if not isinstance(numbers, list):
            raise fields.fail(f"linear_attn_config.{key} must be a list, got {shown(numbers)}.")
        for number in numbers:
            if not isinstance(number, int) or not 1 <= number <= layers:
                raise fields.fail(
                    f"linear_attn_config.{key} holds {shown(number)}; layers are 1 to {layers}."
                )
            if found[number - 1] is not None:
                raise fields.fail(f"layer {number} stands in both lists of linear_attn_config.")
            found[number - 1] = kind
    missing = [i + 1 for i, one in enumerate(found) if one is None]
    if missing:
        raise fields.fail(f"layer {missing[0]} stands in neither list of linear_attn_config.")
    return [one for one in found if one is not None]


def jamba(fields: Fields, layers: int) -> list[str]:
    """`attn_layer_period` and `attn_layer_offset`; the others are Mamba."""
    period = fields.count("attn_layer_period")
    offset = fields.count("attn_layer_offset", least=0)
    return [FULL if i % period == offset else LINEAR for i in range(layers)]


def bamba(fields: Fields, layers: int) -> list[str]:
    """`attn_layer_indices` are full; the others are Mamba 2."""
    given = fields.indices("attn_layer_indices", layers) or []
    return [FULL if i in given else LINEAR for i in range(layers)]


def nemotron_h(fields: Fields, layers: int) -> list[str]:
    """`hybrid_override_pattern`: M Mamba 2, * attention, - MLP, E experts."""
    value = fields.raw("hybrid_override_pattern")
    if not isinstance(value, str):
        raise fields.fail("neither layers_block_type nor hybrid_override_pattern is there.")
    if len(value) != layers:
        raise fields.fail(
            f"hybrid_override_pattern has {len(value):,} letters but num_hidden_layers is "
            f"{layers:,}; they contradict each other."
        )
    return translate(fields, "hybrid_override_pattern", list(value))


def lfm2(fields: Fields, layers: int) -> list[str]:
    """`full_attn_idxs` are full; the others are short convolutions."""
    given = fields.indices("full_attn_idxs", layers)
    if given is None:
        return [FULL] * layers
    return [FULL if i in given else CONV for i in range(layers)]


def recurrent_gemma(fields: Fields, layers: int) -> list[str]:
    """`block_types` repeats; its attention is local."""
    pattern = fields.raw("block_types") or fields.raw("_block_types")
    if not isinstance(pattern, list) or not pattern:
        raise fields.fail("block_types must list the kinds of the repeating block.")
    kinds = {"recurrent": LINEAR, "attention": SLIDING}
    if any(one not in ("recurrent", "attention") for one in pattern):
        raise fields.fail(f"block_types must hold recurrent and attention, got {shown(pattern)}.")
    return [kinds[pattern[i % len(pattern)]] for i in range(layers)]


def mimo(fields: Fields, layers: int) -> list[str]:
    """`hybrid_layer_pattern` holds 1 for a window; else the first and every sixth are full."""
    given = fields.per_layer("hybrid_layer_pattern", layers)
    if given is not None:
        return [SLIDING if one else FULL for one in given]
    return [FULL if i == 0 or (i + 1) % 6 == 0 else SLIDING for i in range(layers)]


def flint(fields: Fields, layers: int) -> list[str]:
    """The first two, every fourth and the last are full."""
    return [FULL if i < 2 or i % 4 == 1 or i == layers - 1 else SLIDING for i in range(layers)]


def cohere2_moe(fields: Fields, layers: int) -> list[str]:
    """Two intervals: one for the dense layers at the beginning, one for the rest."""
    dense = fields.optional("first_k_dense_replace", least=0) or 0
    first = fields.count("prefix_dense_sliding_window_pattern")
    then = fields.count("sliding_window_pattern")
    return [
        FULL if ((i + 1) % first if i < dense else (i - dense + 1) % then) == 0 else SLIDING
        for i in range(layers)
    ]


def zamba(fields: Fields, layers: int) -> list[str]:
    """Zamba 1: Mamba, and a shared attention block beside it at an interval."""
    period = fields.count("attn_layer_period")
    offset = fields.count("attn_layer_offset", least=0)
    head = [LINEAR, LINEAR, HYBRID][:layers]
    return head + [HYBRID if i % period == offset else LINEAR for i in range(layers - 3)]


def zamba2(fields: Fields, layers: int) -> list[str]:
    """Zamba 2 without its list of layers; the library would put 54 layers of one model there."""
    raise fields.fail("layers_block_type is not there, which says where the attention stands.")


def layer_group(fields: Fields, layers: int) -> list[str]:
    """`layer_group_size`: the last of each group is full, the others linear."""
    return pattern_field("layer_group_size", None, other=LINEAR)(fields, layers)


def compress_ratios(fields: Fields, layers: int) -> list[str]:
    """DeepSeek-V4: 0 a window, 4 compressed, 128 heavily compressed; else they alternate."""
    given = fields.raw("compress_ratios")
    if given is None:
        return [HCA if i < 2 or i % 2 == 0 else CSA for i in range(layers)]
    if not isinstance(given, list) or len(given) < layers:
        raise fields.fail(f"compress_ratios must list {layers} ratios.")
    kinds = {0: SLIDING, 4: CSA, 128: HCA}
    for index, one in enumerate(given[:layers]):
        if one not in (0, 4, 128):
            raise fields.fail(f"compress_ratios[{index}] is {shown(one)}; 0, 4, 128 are known.")
    return [kinds[one] for one in given[:layers]]


def local_ids(fields: Fields, layers: int) -> list[str]:
    """Inkling: `local_layer_ids` slide; else all but every sixth."""
    given = fields.indices("local_layer_ids", layers)
    if given is None:
        return [HYBRID if (i + 1) % 6 == 0 else HYBRID_SLIDING for i in range(layers)]
    return [HYBRID_SLIDING if i in given else HYBRID for i in range(layers)]


def repeat(*kinds: str) -> Rule:
    """The kinds in turn."""
    return lambda fields, layers: [kinds[i % len(kinds)] for i in range(layers)]


def m3_sparse(fields: Fields, layers: int) -> list[str]:
    """MiniMax-M3: `sparse_attention_freq` holds 1 where an indexer picks blocks."""
    given = fields.table("sparse_attention_config").get("sparse_attention_freq")
    if given is None:
        return [FULL] * layers
    if not isinstance(given, list) or len(given) != layers:
        raise fields.fail(f"sparse_attention_config.sparse_attention_freq must list {layers}.")
    return [SPARSE if one else FULL for one in given]


def layer_kinds(fields: Fields, layers: int, rule: Rule) -> list[str]:
    """The kind of each layer: the config's list, checked against the family's rule if it has one.

    Raises:
        ConfigError: a list of the wrong length, an unknown kind, or a rule that contradicts it.
    """
    for field in ("layer_types", "layers_block_type"):
        given = fields.per_layer(field, layers)
        if given is None:
            continue
        found = translate(fields, field, given)
        _compare(fields, field, found)
        return found
    return rule(fields, layers)


def _compare(fields: Fields, field: str, found: list[str]) -> None:
    """Refuse an interval that does not fit the list beside it."""
    if fields.kind == "cohere2_moe":  # its interval begins after the dense layers
        return
    for name in ("full_attention_interval", "sliding_window_pattern", "_sliding_window_pattern"):
        period = fields.values.get(name)
        if isinstance(period, bool) or not isinstance(period, int) or period < 2:
            continue
        full = [i for i, one in enumerate(found) if one in (FULL, INDEXED)]
        said = [i for i in range(len(found)) if (i + 1) % period == 0]
        extra = {len(found) - 1, 0}  # some families add the first or the last layer
        if (full and set(said) - set(full)) or set(full) - set(said) - extra:
            raise fields.fail(
                f"{field} has full layers at {full[:4]}..., but {name} = {period} puts them at "
                f"{said[:4]}...; they contradict each other."
            )
