"""From a GGUF header's keys to a model's layers: the same layers as from the model's config.

The idea: GGUF names the sizes of every architecture alike (`<architecture>.block_count`,
`.attention.head_count_kv`, `.ssm.state_size`, ...), so one reader serves all, and what the file
leaves to its reader (which layers slide, and how far) is a small table.

Source: key names as written by the gguf package; the rules of sliding layers as llama.cpp's loaders
have them, which the tests ask (tests/plan/test_plan_llamacpp.py).

Not here: the header's bytes (gguf_header.py), how a key is read (gguf_keys.py).
"""

from __future__ import annotations

from typing import Final

from attnscope.errors import ConfigError
from attnscope.plan import kinds
from attnscope.plan.fields import MOST_LAYERS, shown
from attnscope.plan.gguf_header import Header, Skipped
from attnscope.plan.gguf_keys import Keys
from attnscope.plan.model import Heads, Indexer, Latent, Layer, Model

PERIODS: Final[dict[str, tuple[int, bool]]] = {
    "afmoe": (4, False), "cohere2": (4, False), "cohere2moe": (4, True), "exaone4": (4, False),
    "exaone-moe": (4, False), "gemma2": (2, False), "gemma3": (6, False), "gemma3n": (5, False),
    "gpt-oss": (2, False), "laguna": (4, True), "llama4": (4, False), "mellum": (4, False),
    "olmo2": (4, False), "smallthinker": (4, True),
}  # fmt: skip
"""Where the file has no pattern: one full layer in so many, and whether it is the first."""

NEEDS_PATTERN: Final = frozenset(("gemma4", "granite_swa", "mimo2", "step35"))
"""Where the file must say it, layer by layer."""
NEEDS_WINDOW: Final = NEEDS_PATTERN | {"cohere2", "cohere2moe", "exaone-moe", "gemma3n", "gpt-oss"}
"""Where the file must have the window."""
EXAONE_LAYERS: Final = 64
"""The EXAONE 4 whose layers slide; its smaller models have no window."""
CHUNK: Final = 8192
"""Tokens of a chunk of Llama 4, whose files do not state it."""

_NAMES: Final = [
    "llama", "llama4", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl",
    "qwen3vlmoe", "gemma", "gemma2", "gemma3", "gemma3n", "phi2", "phi3", "phimoe", "starcoder",
    "starcoder2", "falcon", "gpt2", "gptneox", "mpt", "bloom", "stablelm", "internlm2",
    "baichuan", "command-r", "cohere2", "olmo", "olmo2", "olmoe", "openelm", "granite",
    "granitemoe", "minicpm", "orion", "xverse", "chatglm", "glm4", "glm4moe", "exaone",
    "exaone4", "exaone-moe", "nemotron", "arctic", "dbrx", "bitnet", "deci", "seed_oss",
    "smollm3", "ernie4_5", "ernie4_5-moe", "hunyuan-moe", "hunyuan-dense", "dots1", "gpt-oss",
    "arcee", "afmoe", "apertus", "minimax-m2", "mellum", "laguna", "smallthinker", "bailingmoe",
    "bailingmoe2", "grok", "deepseek", "jais", "codeshell", "refact", "plamo", "mistral3",
    "cohere2moe", "gemma4", "granite_swa", "mimo2", "step35",
]  # fmt: skip
PLAIN: Final = frozenset(_NAMES)
"""Architectures whose attention is of ordinary heads."""

LATENT: Final = frozenset(("deepseek2", "minicpm3", "glm-dsa", "deepseek32", "kimi-linear"))
INDEXED: Final = frozenset(("deepseek32", "glm-dsa"))
"""MLA with an indexer."""
STATES: Final = {
    "mamba": "mamba", "jamba": "mamba", "mamba2": "mamba2", "nemotron_h": "mamba2",
    "nemotron_h_moe": "mamba2", "granitehybrid": "mamba2", "falcon-h1": "mamba2",
    "qwen3next": "delta", "qwen35": "delta", "qwen35moe": "delta", "kimi-linear": "kda",
    "lfm2": "conv", "lfm2moe": "conv",
}  # fmt: skip
"""Architectures with recurrences, and of which sort."""

SIDES: Final = ("key", "value")
FULL_INTERVAL: Final = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4}

BY_KV_HEADS: Final = frozenset(STATES) - {"mamba", "mamba2", "falcon-h1", *FULL_INTERVAL}
"""Hybrids whose files list the KV heads of each layer, 0 where it keeps a state."""


def from_header(header: Header, *, name: str, assume_full: bool = False) -> Model:
    """The model that a GGUF header describes.

    Raises:
        ConfigError: no text model, an unknown architecture, missing or contradicting keys.
    """
    keys = Keys(header, name)
    known = keys.arch in PLAIN or keys.arch in LATENT or keys.arch in STATES
    assumed: tuple[str, ...] = ()
    if not known:
        if not assume_full:
            raise ConfigError(
                f"{name}: the GGUF architecture {keys.arch!r} is not one the planner knows. If all "
                "its layers are ordinary attention, --assume-full (assume_full=True) plans it so."
            )
        assumed = (f"architecture {keys.arch!r} is unknown; every layer is taken as full",)
    total = keys.count("block_count")
    if total > MOST_LAYERS:
        raise ConfigError(f"{name}: {total:,} layers; more than {MOST_LAYERS:,} are no model.")
    drafting = keys.optional("nextn_predict_layers") or 0
    layers = total - drafting if drafting < total else total
    built = [_layer(keys, index, layers) for index in range(layers)]
    own = keys.optional("attention.shared_kv_layers") or 0
    if own:
        built = _share(keys, built, own)
    notes = _notes(keys, built, drafting)
    return Model(
        name=name,
        architecture=keys.arch,
        width=keys.count("embedding_length"),
        layers=tuple(built),
        source="gguf",
        vocabulary=_vocabulary(keys),
        context_limit=keys.optional("context_length"),
        dtype="fp16",
        fields={k: v for k, v in header.keys.items() if not isinstance(v, Skipped)},
        notes=tuple(notes),
        assumed=assumed,
    )


def _notes(keys: Keys, layers: list[Layer], drafting: int) -> list[str]:
    """What a reader of the answer should know."""
    notes = []
    if drafting:
        notes.append(f"nextn_predict_layers = {drafting}: layers for drafting, not counted here")
    if keys.raw("attention.head_count_kv") is None and any(layer.heads for layer in layers):
        notes.append("attention.head_count_kv is absent; there are as many as query heads")
    key = "attention.sliding_window"
    given = keys.optional(key) or keys.optional("attention.chunk_size")
    windows = {layer.window for layer in layers if layer.window}
    if windows and not given:
        notes.append(f"{key} is absent; {windows.pop():,} is what llama.cpp takes for {keys.arch}")
    if given and not windows:
        notes.append(f"{key} = {given} is not read for {keys.arch}; every layer is counted as full")
    return notes


def _vocabulary(keys: Keys) -> int | None:
    tokens = keys.keys.get("tokenizer.ggml.tokens")
    if isinstance(tokens, Skipped):
        return tokens.count
    return len(tokens) if isinstance(tokens, list) else keys.optional("vocab_size")


def _share(keys: Keys, layers: list[Layer], count: int) -> list[Layer]:
    first = len(layers) - count
    owners = {layers[index].kind: index for index in range(max(first, 0))}
    found = list(layers)
    for index in range(max(first, 0), len(layers)):
        kind = layers[index].kind
        if kind not in owners:
            raise keys.fail(
                f"attention.shared_kv_layers = {count} leaves layer {index} ({kind}) no layer of "
                "its kind to share with; they contradict each other."
            )
        note = f"attention.shared_kv_layers = {count}"
        found[index] = kinds.shared(layers[index], owners[kind], note=note)
    return found


def span(keys: Keys, layers: int) -> int | None:
    """The window of the layers that slide, or the chunk; None where none does.

    Raises:
        ConfigError: it is missing in a file that must have it.
    """
    window = keys.optional("attention.sliding_window")
    if keys.arch == "llama4":
        # A window of 0 says that no layer is chunked; without one, llama.cpp takes its own number.
        return None if window == 0 else keys.optional("attention.chunk_size") or window or CHUNK
    if window is None:
        if keys.arch in NEEDS_WINDOW:
            raise keys.missing("attention.sliding_window")
        slides = keys.arch == "gemma2" or (keys.arch == "exaone4" and layers == EXAONE_LAYERS)
        return 4096 if slides else None
    return window or None


def _window(keys: Keys, index: int, layers: int) -> int | None:
    """The window of a layer, None of a full one."""
    window = span(keys, layers)
    if window is None:
        return None
    pattern = keys.raw("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        if len(pattern) < layers:
            raise keys.short("attention.sliding_window_pattern", pattern, layers)
        if pattern[index] not in (0, 1):
            raise keys.fail(
                f"attention.sliding_window_pattern[{index}] must be true or false, "
                f"got {shown(pattern[index])}."
            )
        return window if pattern[index] else None
    if keys.arch in NEEDS_PATTERN:
        if pattern is None:
            raise keys.missing("attention.sliding_window_pattern")
        raise keys.fail(
            f"attention.sliding_window_pattern must list one flag per layer, got {shown(pattern)}."
        )
    # Phi-3 slides everywhere; llama.cpp reads no window for the other architectures.
    period, first = PERIODS.get(keys.arch, (0, False))
    if pattern is not None:
        period = keys.check("attention.sliding_window_pattern", pattern)
    if not period:
        return window if keys.arch == "phi3" else None
    return window if index % period != (0 if first else period - 1) else None


def _kv_heads(keys: Keys, index: int, layers: int) -> int | None:
    """KV heads of a layer, 0 where it has no attention; None where the file leaves it open.

    Raises:
        ConfigError: a hybrid that does not list them, or a model without any.
    """
    key = "attention.head_count_kv"
    value = keys.raw(key)
    if keys.arch in BY_KV_HEADS and not isinstance(value, list):
        if value is None:
            raise keys.missing(key)
        raise keys.fail(f"{key} must list one number per layer, got {shown(value)}.")
    if value is None or isinstance(value, list):
        return None if value is None else keys.of_layer(key, index, layers)
    return keys.check(key, value, 0 if keys.arch in ("mamba", "mamba2") else 1)


def _layer(keys: Keys, index: int, layers: int) -> Layer:
    sort, kv = STATES.get(keys.arch), _kv_heads(keys, index, layers)
    if sort is not None and keys.arch != "falcon-h1" and _is_state(keys, index, layers, kv):
        return _state(keys, index, sort)
    if kv == 0:
        return kinds.mlp(index, note="attention.head_count_kv is 0 here")
    if keys.arch in LATENT:
        return _latent(keys, index, layers)
    return _attention(keys, index, layers, kv)


def _is_state(keys: Keys, index: int, layers: int, kv: int | None) -> bool:
    if keys.arch in ("mamba", "mamba2"):
        return True
    if keys.arch in FULL_INTERVAL:
        interval = keys.optional("full_attention_interval", least=1) or FULL_INTERVAL[keys.arch]
        return (index + 1) % interval != 0
    if keys.arch in ("nemotron_h", "nemotron_h_moe") and kv == 0:
        # In these files attention has KV heads, an MLP has a width, and Mamba has neither.
        return keys.of_layer("feed_forward_length", index, layers, default=0) == 0
    return kv == 0


def _attention(keys: Keys, index: int, layers: int, kv: int | None) -> Layer:
    queries = keys.of_layer("attention.head_count", index, layers)
    if not isinstance(keys.raw("attention.head_count"), list):
        keys.check("attention.head_count", queries)
    if queries < 1:
        return kinds.mlp(index, note="attention.head_count is 0 here")
    count = queries if kv is None else keys.check("attention.head_count_kv", kv)
    window = _window(keys, index, layers)
    width = keys.optional("attention.key_length", least=1)
    value = keys.optional("attention.value_length", least=1)
    if (width is None) != (value is None):
        raise keys.missing("attention." + ("key_length" if width is None else "value_length"))
    if window is not None:
        if keys.arch == "gemma4":
            width, value = (keys.count(f"attention.{one}_length_swa") for one in SIDES)
        width = keys.optional("attention.key_length_swa", least=1) or width
        value = keys.optional("attention.value_length_swa", least=1) or value
    if width is None:
        embedding = keys.count("embedding_length")
        if embedding % queries:
            raise keys.fail(
                f"attention.key_length is missing and embedding_length = {embedding} "
                f"is not a multiple of head_count = {queries}; they contradict each other."
            )
        width = embedding // queries
    if queries % count:
        raise keys.fail(
            f"attention.head_count = {queries} is not a multiple of head_count_kv = {count}; "
            "they contradict each other."
        )
    source = keys.says("attention.head_count_kv", "attention.key_length", "attention.value_length")
    layer = kinds.attention(
        index, Heads(queries, count, width, value or width), window=window,
        chunked=keys.arch == "llama4", source=source,
    )  # fmt: skip
    if keys.arch == "falcon-h1":
        return kinds.together("full+mamba2", layer, _state(keys, index, "mamba2"))
    return layer


def _latent(keys: Keys, index: int, layers: int) -> Layer:
    queries = keys.of_layer("attention.head_count", index, layers)
    keys.check("attention.head_count", queries)
    rank, rope = keys.count("attention.kv_lora_rank"), keys.count("rope.dimension_count")
    old = keys.raw("attention.key_length_mla") is None
    if old and keys.arch in INDEXED:
        raise keys.missing("attention.key_length_mla")
    # Without it the file is for keys and values per head (an old conversion).
    key, value = (keys.count(f"attention.{one}_length{'' if old else '_mla'}") for one in SIDES)
    if rope > key:
        raise keys.fail(
            f"rope.dimension_count = {rope} is more than the {key} of a key; they contradict "
            "each other."
        )
    source = keys.says("attention.kv_lora_rank", "rope.dimension_count")
    sizes = Latent(rank, rope, key - rope, value)
    layer = kinds.latent(index, queries, sizes, expanded=old, source=source)
    if old:
        return layer
    if keys.raw("attention.indexer.key_length") is None and keys.arch not in INDEXED:
        return layer
    modes = keys.raw("attention.indexer.types")
    if isinstance(modes, list) and len(modes) < layers:
        raise keys.short("attention.indexer.types", modes, layers)
    own = not isinstance(modes, list) or bool(modes[index])
    indexer = Indexer(
        keys.count("attention.indexer.head_count"),
        keys.count("attention.indexer.key_length"),
        keys.count("attention.indexer.top_k"),
        own,
    )
    return kinds.with_indexer(layer, indexer, source=keys.says("attention.indexer.key_length"))


def _state(keys: Keys, index: int, sort: str) -> Layer:
    names = ("ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank",
             "ssm.inner_size", "shortconv.l_cache", "kda.head_dim")  # fmt: skip
    source = keys.says(*names)
    if sort == "conv":
        taps = keys.count("shortconv.l_cache")
        channels = keys.count("embedding_length")
        return kinds.convolution(index, channels=channels, taps=taps, source=source)
    taps = keys.count("ssm.conv_kernel")
    if sort == "kda":
        heads, width = keys.count("attention.head_count"), keys.count("kda.head_dim")
        return kinds.delta(
            index, "kda", key_heads=heads, value_heads=heads, key_width=width, value_width=width,
            taps=taps, source=source,
        )  # fmt: skip
    inner, states = keys.count("ssm.inner_size"), keys.count("ssm.state_size")
    if sort == "mamba":
        return kinds.mamba(index, inner=inner, states=states, taps=taps, source=source)
    heads, groups = keys.count("ssm.time_step_rank"), keys.count("ssm.group_count")
    if inner % heads:
        raise keys.fail(
            f"ssm.inner_size = {inner} is not a multiple of ssm.time_step_rank = {heads}; "
            "they contradict each other."
        )
    if sort == "mamba2":
        return kinds.mamba2(
            index, heads=heads, head_width=inner // heads, states=states, groups=groups, taps=taps,
            source=source,
        )  # fmt: skip
    return kinds.delta(
        index, "gated-deltanet", key_heads=groups, value_heads=heads, key_width=states,
        value_width=inner // heads, taps=taps, source=source,
    )  # fmt: skip
