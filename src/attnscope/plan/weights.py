"""Bytes of a model's weights: from its files' headers, or by counting parameters.

The idea: a safetensors file begins with a table of its tensors, so the exact bytes of the weights
are known without reading one of them. Without files, the parameters of the common architectures
follow from the config; for the others nothing is said.

Formulas (parameters of one layer; C model width, H and G heads of width D, F the MLP's width)
    attention   C H D + 2 C G D + H D C (+ biases, + 2 D where q and k are normalised)
    MLA         C R_q + R_q H (nope + rope) + C (R + rope) + R H (nope + v) + H v C, and norms
    MLP         3 C F with a gate; experts: that for each, and C for each in the router

Units: bytes, parameters.

Not here: bytes of quantised weights other than by their files.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from attnscope.errors import ConfigError
from attnscope.plan.fields import Fields
from attnscope.plan.model import Heads, Layer, Model
from attnscope.plan.numbers import model_format

MOST_HEADER: Final = 100 << 20
"""The safetensors format allows no larger header."""


@dataclass(frozen=True)
class Weights:
    """What the weights take, and how that is known."""

    size: int
    source: str
    parameters: int | None = None
    active: int | None = None


def safetensors_bytes(path: Path) -> int:
    """Bytes of the tensors of one safetensors file, by its header.

    Raises:
        ConfigError: no safetensors file, or a header that does not fit the file.
    """
    total = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else total
        if length > min(total - 8, MOST_HEADER):
            raise ConfigError(f"{path} is no safetensors file: its header would not fit in it.")
        try:
            table = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise ConfigError(f"{path} is no safetensors file: its header is not JSON.") from None
    if not isinstance(table, dict):
        raise ConfigError(f"{path} is no safetensors file: its header is no table.")
    size = 0
    for name, one in table.items():
        if name == "__metadata__":
            continue
        span: Any = one.get("data_offsets") if isinstance(one, dict) else None
        pair = isinstance(span, list) and len(span) == 2
        if (
            not pair
            or not all(isinstance(x, int) for x in span)
            or not 0 <= span[0] <= span[1] <= total - 8 - length
        ):
            raise ConfigError(f"{path}: the tensor {name!r} lies outside the file.")
        size += span[1] - span[0]
    return size


def from_files(path: Path) -> Weights | None:
    """The weights beside a config, or in a GGUF file; None where there are none.

    Raises:
        ConfigError: a damaged file.
    """
    if path.is_file() and path.suffix.lower() == ".gguf":
        return _from_gguf(path)
    if path.is_file() and path.name != "config.json":
        return None  # whose weights lie beside a config under another name is not known
    folder = path if path.is_dir() else path.parent
    files = sorted(folder.glob("*.safetensors"))
    index = folder / "model.safetensors.index.json"
    if files and (not index.is_file() or len(files) >= _shards(index)):
        size = sum(safetensors_bytes(one) for one in files)
        return Weights(size, f"headers of {len(files)} safetensors file{'s' * (len(files) > 1)}")
    if index.is_file():
        total = _index(index).get("metadata", {}).get("total_size")
        if isinstance(total, int) and 0 < total < 10**15:
            return Weights(total, f"total_size in {index.name}")
    return None


def _from_gguf(path: Path) -> Weights | None:
    from attnscope.plan.gguf_header import MAGIC, read_header

    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            return None
    size = read_header(path).weight_bytes()
    return None if size is None else Weights(size, "tensors in the GGUF header")


def _index(path: Path) -> dict[str, Any]:
    from attnscope.plan.find import load_json

    return load_json(path)


def _shards(path: Path) -> int:
    table = _index(path).get("weight_map")
    return len(set(table.values())) if isinstance(table, dict) else 0


LLAMA_LIKE: Final = {
    "llama": "", "mistral": "", "smollm3": "", "qwen2": "qkv-bias", "qwen3": "qk-norm",
    "gemma": "", "gemma2": "four-norms", "gemma3_text": "four-norms qk-norm", "phi3": "",
    "mixtral": "experts", "qwen3_moe": "experts qk-norm", "olmo2": "wide-qk-norm",
    "glm4_moe": "experts", "gpt_oss": "experts all-bias sinks", "ministral3": "",
    "qwen3_next": "experts qk-norm gate shared-gate", "qwen3_5_text": "qk-norm gate",
}  # fmt: skip
"""Families whose parameters are counted, and how they differ from Llama."""
LATENT: Final = ("deepseek_v2", "deepseek_v3", "kimi_k2", "deepseek_v32", "glm_moe_dsa")
TIED: Final = frozenset(("gemma", "gemma2", "gemma3_text", "smollm3"))
"""Families whose input and output embeddings are one by default."""
BIASED: Final = frozenset(("glm4_moe", "gpt_oss", "llama", "qwen2", "qwen3", "qwen3_moe"))
"""Families in which it is known what `attention_bias` adds."""


def count(model: Model) -> tuple[int, int] | None:
    """Parameters, and those that one token uses; None for families that are not counted.

    Raises:
        ConfigError: a field that the count needs is missing.
    """
    if model.source in ("gguf", "what-if") or model.assumed:
        return None
    fields = Fields(model.fields, kind=model.architecture, name=model.name)
    style = LLAMA_LIKE.get(model.architecture, "latent" if model.architecture in LATENT else None)
    if style is None or not fields.has("intermediate_size") or not fields.has("vocab_size"):
        return None
    if fields.values.get("mlp_bias") or (
        fields.values.get("attention_bias") and model.architecture not in BIASED
    ):
        return None  # biases of which it is not known here where they stand
    if any(layer.heads is None and layer.kind != "gated-deltanet" for layer in model.layers):
        return None
    width, vocabulary = model.width, fields.count("vocab_size")
    tied = fields.values.get("tie_word_embeddings")
    tied = model.architecture in TIED if tied is None else bool(tied)
    rest = vocabulary * width * (1 if tied else 2) + width
    total = active = rest
    for layer in model.layers:
        own = _mixer(fields, layer, style)
        own += width * (4 if "four-norms" in style else 2)
        mlp, used = _mlp(fields, layer.index, style, width)
        total += own + mlp
        active += own + used
    return total, active


def _mixer(fields: Fields, layer: Layer, style: str) -> int:
    """Parameters of a layer's attention or recurrence."""
    if layer.kind == "gated-deltanet":
        return _delta(fields)
    assert layer.heads is not None
    if style != "latent":
        return _heads(fields, layer.heads, style)
    width, size = fields.count("hidden_size"), _latent(fields, fields.count("hidden_size"))
    if layer.indexer is None or not layer.indexer.own:
        return size
    heads, inner = layer.indexer.heads, layer.indexer.width
    size += fields.count("q_lora_rank") * heads * inner
    return size + width * inner + 2 * inner + width * heads


def _delta(fields: Fields) -> int:
    """Gated DeltaNet: q, k, v and the gate z, two numbers a head, a convolution, and back."""
    width, taps = fields.count("hidden_size"), fields.count("linear_conv_kernel_dim")
    heads, inner = fields.count("linear_num_value_heads"), fields.count("linear_value_head_dim")
    keys = fields.count("linear_num_key_heads") * fields.count("linear_key_head_dim")
    values = heads * inner
    channels = 2 * keys + values
    size = width * (channels + values + 2 * heads) + channels * taps
    return size + 2 * heads + inner + values * width


def _heads(fields: Fields, heads: Heads, style: str) -> int:
    width = fields.count("hidden_size")
    queries, keys = heads.query * heads.qk, heads.kv * heads.qk
    size = (3 if "gate" in style.split() else 2) * width * queries + 2 * width * keys
    bias = bool(fields.values.get("attention_bias"))
    if "qkv-bias" in style or "all-bias" in style or bias:
        size += queries + 2 * keys
    if "all-bias" in style or (bias and fields.kind in ("llama", "qwen3", "qwen3_moe")):
        size += width
    if "sinks" in style:
        size += heads.query
    if "wide-qk-norm" in style:
        size += queries + keys
    elif "qk-norm" in style or fields.values.get("use_qk_norm"):
        size += 2 * heads.qk
    return size


def _latent(fields: Fields, width: int) -> int:
    heads, rank = fields.count("num_attention_heads"), fields.count("kv_lora_rank")
    rope, nope = fields.count("qk_rope_head_dim"), fields.count("qk_nope_head_dim")
    value, low = fields.count("v_head_dim"), fields.optional("q_lora_rank")
    query = heads * (nope + rope)
    size = width * query if low is None else width * low + low + low * query
    size += width * (rank + rope) + rank + rank * heads * (nope + value)
    return size + heads * value * width


def _mlp(fields: Fields, index: int, style: str, width: int) -> tuple[int, int]:
    """Parameters of a layer's MLP, and those one token uses."""
    dense = 3 * width * fields.count("intermediate_size")
    experts = next(
        (fields.count(n) for n in ("n_routed_experts", "num_local_experts", "num_experts")
         if fields.has(n)), 0,
    )  # fmt: skip
    if ("experts" not in style and style != "latent") or not experts:
        return dense, dense
    sparse = (index + 1) % (fields.optional("decoder_sparse_step") or 1) == 0
    if index in (fields.indices("mlp_only_layers", fields.layers()) or ()) or not sparse:
        return dense, dense
    if index < (fields.optional("first_k_dense_replace", least=0) or 0):
        return dense, dense
    inner = fields.optional("moe_intermediate_size") or fields.count("intermediate_size")
    one = 3 * width * inner
    if "all-bias" in style:
        one += 2 * inner + width
    router = experts * width + (experts if "all-bias" in style else 0)
    if fields.kind not in ("deepseek_v2", *LLAMA_LIKE) or fields.kind == "glm4_moe":
        router += experts  # the bias that balances the load
    common = (fields.optional("n_shared_experts", least=0) or 0) * one
    if "shared-gate" in style:
        common += 3 * width * fields.count("shared_expert_intermediate_size") + width
    chosen = fields.count("num_experts_per_tok")
    return router + common + experts * one, router + common + chosen * one


def quantised(model: Model) -> str | None:
    """What the config says its published weights are quantised to, None where it says nothing."""
    for name in ("quantization_config", "compression_config"):
        table = model.fields.get(name)
        if isinstance(table, dict) and table:
            return str(table.get("quant_method") or table.get("format") or "a format not named")
    return None


def unknown(model: Model) -> str:
    """Why the weights of a model without files are not known.

    >>> from attnscope.plan import read
    >>> unknown(read("gpt-oss-20b"))
    'quantization_config says mxfp4, and no files; --dtype bf16 counts them in bf16'
    """
    how = quantised(model)
    if how is not None and count(model) is not None:
        return f"quantization_config says {how}, and no files; --dtype bf16 counts them in bf16"
    return f"{model.architecture} is not counted, and no files"


def weights_of(
    model: Model, *, path: Path | None = None, dtype: str | None = None
) -> Weights | None:
    """What a model's weights take: by its files if there are some, else by counting.

    Args:
        path: the config, folder or GGUF file it was read from.
        dtype: of the weights, where they are counted; the config's own by default.

    Returns:
        None where neither way knows: of weights that are quantised, parameters are no bytes, and
        they are counted only where a dtype is given.

    >>> from attnscope.plan import read
    >>> weights_of(read("llama-3-8b")).parameters
    8030261248
    """
    found = from_files(path) if path is not None else None
    if found is not None:
        return found
    counted = count(model)
    if counted is None or (dtype is None and quantised(model) is not None):
        return None
    form = model_format(dtype if dtype is not None else model.dtype)
    return Weights(
        counted[0] * form.vector_bytes(1), f"{counted[0]:,} parameters in {form.name}", *counted
    )
