"""From whatever names a model to its layers: a config, a folder, a GGUF header, a name.

The idea: find the text model's config inside what was given, look its family up, ask the family
for the kind of each layer and build them. What is not known is refused with the field or the name
in the sentence; nothing is guessed unless `assume_full` allows it, and then the answer says so.

Not here: families (families.py), GGUF keys (gguf_model.py), bytes (bytes.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from attnscope.plan import kinds, patterns, special
from attnscope.plan.families import ENCODERS, FAMILIES, REFUSED, Family
from attnscope.plan.fields import MOST_LAYERS, Fields, shown
from attnscope.plan.find import find
from attnscope.plan.model import Layer, Model
from attnscope.plan.numbers import ALIASES

INSIDE: Final = ("text_config", "llm_config", "language_config", "thinker_config", "decoder_config")
"""Where multimodal configs keep the language model's config."""

OUTSIDE: Final = (
    "torch_dtype", "dtype", "architectures", "tie_word_embeddings", "quantization_config",
)  # fmt: skip
"""What stands outside of the language model's config and holds for it too."""

WRAPPERS: Final = {
    "gemma4_unified": "gemma4_unified_text",
    "qwen4_exp": "qwen4_exp_text",
    "llava": "llama",
    "mistral3": "mistral",
    "aria": "aria_text",
    "fuyu": "persimmon",
    "mllama": "mllama_text_model",
    "emu3": "emu3_text_model",
    "kimi_k25": "kimi_k2",
    "step3_vl": "step3_text",
    "deepseek_vl_v2": "deepseek_v2",
}
"""What a wrapper's text model is where its inner config does not say."""

SAME_AS: Final = {
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "llama4": "llama4_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "gemma4": "gemma4_text",
    "dots3_note": "dots3_note_text",
    "jais": "gpt2",
    "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon",
    "kimi_vl_text": "deepseek_v3",
    "gpt-neox": "gpt_neox",
    "glm_moe_dsa_text": "glm_moe_dsa",
    "phi3_v": "phi3",
    "phi4mm": "phi3",
}
"""Flat configs under another name."""

IMAGE_FIELDS: Final = ("image_size", "patch_size", "num_channels")


def read(
    source: str | Path | Mapping[str, Any], *, assume_full: bool = False, name: str | None = None
) -> Model:
    """Read a model's layers.

    Args:
        source: a config as a dict; the path of a config.json, of a folder with one, or of a GGUF
            file; a built-in name; or a hub id whose config is in the local cache.
        assume_full: take an unknown architecture for ordinary attention in every layer. The
            answer then says so in `Model.assumed`.
        name: what to call it; by default what `source` is called.

    Returns:
        The model, whose `kv`, `fit` and so on answer questions.

    Raises:
        ConfigError: nothing found, broken, of an unknown architecture, or in contradiction.

    >>> read("qwen3-0.6b").layers[0].kind
    'full'
    """
    found = find(source)
    called = name or found.name
    if found.header is not None:
        from attnscope.plan.gguf_model import from_header

        return from_header(found.header, name=called, assume_full=assume_full)
    model = from_config(found.config, name=called, assume_full=assume_full)
    return replace(model, source=found.kind)


def unwrap(config: Mapping[str, Any], name: str) -> tuple[dict[str, Any], str, bool]:
    """The flat config of the language model, its model type, and whether it stood in another."""
    outer = config.get("model_type")
    flat = dict(config)
    inside = False
    for _ in range(3):
        key = next((one for one in INSIDE if isinstance(flat.get(one), dict)), None)
        if key is None or (key == "decoder_config" and "num_hidden_layers" in flat):
            break
        inner = dict(flat[key])
        for shared in OUTSIDE:
            inner.setdefault(shared, flat.get(shared))
        kind = inner.get("model_type") or WRAPPERS.get(str(flat.get("model_type")))
        inner["model_type"] = kind or flat.get("model_type")
        flat, inside = inner, True
    kind = flat.get("model_type") or outer
    if not isinstance(kind, str) or not kind:
        kind = _by_architecture(flat)
    if kind is None:
        raise _not_a_model(flat, name, None)
    return flat, SAME_AS.get(kind, kind), inside


def _by_architecture(flat: Mapping[str, Any]) -> str | None:
    """A model type from the class's name, for configs that have only that."""
    names = flat.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        return None
    squeezed = names[0].split("For")[0].removesuffix("Model").lower()
    return next((one for one in FAMILIES if one.replace("_", "") == squeezed), None)


def _not_a_model(flat: Mapping[str, Any], name: str, kind: str | None) -> Exception:
    from attnscope.errors import ConfigError

    if any(field in flat for field in IMAGE_FIELDS) and "vocab_size" not in flat:
        what = (
            f"model_type {shown(kind)} is an image model"
            if kind
            else "it is an image model's config"
        )
        return ConfigError(f"{name}: {what}, which keeps no cache of tokens.")
    if kind is None:
        return ConfigError(
            f"{name}: the field model_type is missing, so this is no model's config.json "
            "that can be read."
        )
    return ConfigError(
        f"{name}: model_type {shown(kind)} is not an architecture the planner knows. If all its "
        "layers are ordinary attention, --assume-full (assume_full=True) plans it so, marked."
    )


def _cannot(kind: str) -> str:
    return f"model_type {kind!r} cannot be planned: {REFUSED[kind]}."


def _refuse(fields: Fields, kind: str) -> None:
    """Raise for what is known not to be plannable."""
    if kind in REFUSED:
        raise fields.fail(_cannot(kind))
    if fields.values.get("is_encoder_decoder") is True:
        raise fields.fail(
            "is_encoder_decoder is true: part of its cache grows with the source, not the context."
        )
    if kind in ENCODERS and fields.values.get("is_decoder") is not True:
        raise fields.fail(
            f"model_type {kind!r} is an encoder (is_decoder is not true): it keeps no cache."
        )
    if fields.values.get("use_bidirectional_attention") in (True, "all"):
        raise fields.fail("use_bidirectional_attention is on: an encoder keeps no cache.")


def from_config(
    config: Mapping[str, Any], *, name: str = "config", assume_full: bool = False
) -> Model:
    """The model of a config that is already a dict.

    Raises:
        ConfigError: as `read`.
    """
    outer = config.get("model_type")
    if isinstance(outer, str) and outer in REFUSED:
        raise Fields(config, kind=outer, name=name).fail(_cannot(outer))
    flat, kind, inside = unwrap(config, name)
    fields = Fields(flat, kind=kind, name=name, inside=inside)
    _refuse(fields, kind)
    assumed: tuple[str, ...] = ()
    family = FAMILIES.get(kind)
    if family is None:
        if not assume_full:
            raise _not_a_model(flat, name, kind)
        family = Family(patterns.full_whatever)
        assumed = (f"model_type {kind!r} is unknown; every layer is taken as full attention",)
    layers = build_layers(fields, family)
    return Model(
        name=name,
        architecture=kind,
        width=fields.count("hidden_size"),
        layers=tuple(layers),
        vocabulary=fields.optional("vocab_size"),
        context_limit=fields.optional("max_position_embeddings"),
        dtype=_dtype(fields),
        fields=dict(flat),
        notes=tuple(_notes(fields, layers)),
        assumed=assumed,
    )


def build_layers(fields: Fields, family: Family) -> list[Layer]:
    """Every layer of a family's config."""
    if fields.kind == "nemotron_h" and not fields.has("num_hidden_layers"):
        given = fields.raw("layers_block_type") or fields.raw("layer_types")
        given = given or fields.raw("hybrid_override_pattern") or ()
        fields.values["num_hidden_layers"] = len(given)
    if fields.kind == "step3p5":
        special.without_drafts(fields)
    count = fields.layers()
    if family.rule in special.UNROLLED:
        names = family.rule(fields, count)
    else:
        names = patterns.layer_kinds(fields, count, family.rule)
    if len(names) > MOST_LAYERS:
        raise fields.fail(f"it has {len(names):,} layers; more than {MOST_LAYERS:,} are no model.")
    layers = [_one(fields, family, index, kind) for index, kind in enumerate(names)]
    return special.share_last(fields, layers, names) if family.sharing else layers


def _one(fields: Fields, family: Family, index: int, kind: str) -> Layer:
    if kind == patterns.MLP:
        return kinds.mlp(index, note="no attention in this layer")
    if kind in (patterns.LINEAR, patterns.CONV):
        builder = family.linear
    elif kind in (patterns.HYBRID, patterns.HYBRID_SLIDING):
        builder = family.hybrid
    else:
        builder = family.attention
    if builder is None:
        raise fields.fail(
            f"layer {index} is {kind!r}, a kind that {fields.kind} is not known to have."
        )
    return builder(fields, index, kind)


def _dtype(fields: Fields) -> str:
    """What activations are in: the config's own 16- or 32-bit type, else bf16."""
    value = fields.raw("dtype")
    plain = str(value).removeprefix("torch.").lower() if value is not None else ""
    plain = ALIASES.get(plain, plain)
    return plain if plain in ("bf16", "fp16", "fp32") else "bf16"


def _derived(fields: Fields, layers: list[Layer]) -> list[str]:
    """Sizes of heads that neither the config nor its library states."""
    notes = []
    plain = [layer.heads for layer in layers if layer.heads is not None and layer.latent is None]
    as_many = any(heads.kv == heads.query > 1 for heads in plain)
    if as_many and fields.raw("num_key_value_heads") is None:
        notes.append(f"num_key_value_heads is {_gone(fields, 'num_key_value_heads')}; there are as "
                     "many as query heads")  # fmt: skip
    if plain and fields.values.get("head_dim", 0) is None and fields.raw("head_dim") is None:
        notes.append(
            f"head_dim is null; hidden_size / num_attention_heads = {plain[0].qk} is taken"
        )
    return notes


def _gone(fields: Fields, field: str) -> str:
    return "null" if field in fields.values else "absent"


def _notes(fields: Fields, layers: list[Layer]) -> list[str]:
    """What a reader of the answer should know."""
    notes = [
        f"{field} is absent; {value!r} is the default of transformers for {fields.kind}"
        for field, value in sorted(fields.defaulted.items())
        if isinstance(value, int | float | str) and not isinstance(value, bool)
        if field not in fields.used
    ]
    notes += _derived(fields, layers)
    if not fields.has("dtype"):
        notes.append("no dtype in the config; bf16 is taken")
    extra = fields.values.get("num_nextn_predict_layers")
    if isinstance(extra, int) and extra > 0:
        notes.append(
            f"num_nextn_predict_layers = {extra}: layers for drafting, counted by an engine that "
            "drafts with them and not here"
        )
    if any(layer.kind == "compressed" and layer.window for layer in layers) and (
        fields.kind == "deepseek_v41"
    ):
        notes.append(
            "the published layout (288 + 68 bytes an entry) is of the entries; the window's raw "
            "keys are counted in the cache's plain format"
        )
    return notes
