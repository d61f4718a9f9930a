"""Weigh real caches: build a model on the meta device, run it, add up every cache tensor.

The idea: nothing of the planner is in here. A family of the installed transformers is built from
its own configuration class (with fewer layers where the default is large), run forward once at two
lengths with `DynamicCache(config=...)`, and every tensor found in the cache is counted. On the
meta device no number is computed, so size costs nothing. Each family runs in a process of
its own, with a limit on time and memory, so that one broken family is one line in the table.

Not here: the comparison with the plan (sweep.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import time
import traceback
from typing import Any

from attnscope.testing.apart import EndedError, apart

SECONDS = 150
MEMORY = 5 << 30
SHORT = 40

SETTINGS: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [9, 18, 27]},
    "granitemoehybrid": {"layer_types": (["mamba"] * 5 + ["attention"]) * 5 + ["mamba"] * 2},
    "deepseek_v2": {"num_experts_per_tok": 2, "n_routed_experts": 8, "topk_method": "greedy"},
    "dots1": {"num_experts_per_tok": 2, "n_routed_experts": 8, "n_shared_experts": 1},
    "dbrx": {"attn_config": {"kv_n_heads": 8, "rope_theta": 500000.0, "clip_qkv": 8}},
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}
    },
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8},
    "minimax_m3_vl_text": {
        "layer_types": ["full_attention"] * 3 + ["minimax_m3_sparse"] * 57,
    },
    "qwen4_exp_text": {
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 256,
        "indexer_budget": 64,
        "indexer_compress_ratio": 16,
        "num_hidden_layers": 4,
        "hidden_size": 256,
        "moe_intermediate_size": 64,
        "vocab_size": 512,
    },
    "rwkv": {"num_hidden_layers": 4},
    "zamba": {"num_hidden_layers": 24},
    "xlm": {"emb_dim": 64, "n_layers": 3, "n_heads": 4, "n_words": 512},
    "xmod": {
        "num_hidden_layers": 3,
        "hidden_size": 96,
        "intermediate_size": 128,
        "vocab_size": 512,
        "num_attention_heads": 12,
    },
    "jetmoe": {
        "num_hidden_layers": 3,
        "hidden_size": 256,
        "intermediate_size": 256,
        "num_local_experts": 4,
        "num_key_value_heads": 4,
        "vocab_size": 512,
    },
}
SETTINGS["qwen4_exp"] = {"text_config": SETTINGS["qwen4_exp_text"]}
"""What is set where a class's defaults build no model, or leave its special layers out."""

ON_CPU = ("jetmoe", "qwen4_exp_text", "qwen4_exp", "xlm", "xmod")
"""Families whose path depends on values, so the meta device will not do: small, on the CPU."""

Weighed = dict[str, Any]


def families() -> dict[str, str]:
    """Every causal-LM family of the installed transformers: model type and class name."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    names: dict[str, Any] = dict(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    return {key: (one if isinstance(one, str) else one[0]) for key, one in names.items()}


def _tensors_of(held: dict[str, Any]) -> list[Any]:
    """Every tensor among these, through lists, tuples and dicts, each once."""
    import torch

    found: dict[int, Any] = {}

    def visit(thing: Any) -> None:
        if isinstance(thing, torch.Tensor):
            found[id(thing)] = thing
        elif isinstance(thing, dict):
            for one in thing.values():
                visit(one)
        elif isinstance(thing, list | tuple):
            for one in thing:
                visit(one)

    for name, value in held.items():
        if name != "_sliding_window_tensor":  # the window's size as a number, not a cache
            visit(value)
    return list(found.values())


def weigh_cache(cache: Any) -> list[int]:
    """Bytes of each layer of a cache, every tensor counted."""
    if isinstance(cache, list):  # RWKV: five tensors whose last axis is the layer
        one = sum(t[..., 0].numel() * t.element_size() for t in cache)
        return [one] * cache[0].shape[-1]
    if hasattr(cache, "self_attention_cache"):  # a pair with the keys of an encoder's output
        cache = cache.self_attention_cache
    layers: list[list[Any]] = [_tensors_of(vars(layer)) for layer in cache.layers]
    # MiniMax keeps its states beside the layers, in a list of its own.
    for index, state in enumerate(getattr(cache, "linear_cache", ())):
        while len(layers) <= index:
            layers.append([])
        layers[index] += _tensors_of({"state": state})
    return [sum(t.numel() * t.element_size() for t in layer) for layer in layers]


def _quiet_experts(model: Any) -> None:
    """Let experts and routers pass their input through: what they compute depends on values."""
    for module in model.modules():
        name = type(module).__name__
        if name.endswith(("Experts", "ExpertsDispatch")):
            module.forward = lambda hidden, *_, **__: hidden


def shrink(config: Any) -> None:
    """Fewer experts and a smaller vocabulary; layers and all that the cache depends on stay."""
    for name in ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 16:
            with contextlib.suppress(Exception):
                setattr(config, name, 16)
    # Where the default's heads do not divide its width (and no head width is set), make them.
    if vars(config).get("head_dim") is None and "kv_lora_rank" not in vars(config):
        width, heads = vars(config).get("hidden_size"), vars(config).get("num_attention_heads")
        if width and heads and width % heads:
            config.hidden_size = heads * 64


def _text(config: Any) -> Any:
    return config.get_text_config(decoder=True)


def long_length(config: Any, short: int) -> int:
    """A length above every window, bounded where the model reads token by token in Python."""
    text = _text(config)
    windows = [short * 3]
    for name in ("sliding_window", "attention_chunk_size", "window_size", "sliding_window_size"):
        value = getattr(text, name, None)
        if isinstance(value, int) and value > 0:
            windows.append(value)
    length = max(windows) + 77
    return min(length, 9000)


def _forward(model: Any, config: Any, length: int, *, mask: bool, device: str = "meta") -> Any:
    import inspect

    import torch
    from transformers import DynamicCache

    cache = DynamicCache(config=config)
    ids = torch.zeros(1, length, dtype=torch.long, device=device)
    accepted = inspect.signature(model.forward).parameters
    key = next((name for name in ("cache", "past_key_values") if name in accepted), None)
    if key is None and "state" in accepted:
        return model(input_ids=ids, use_cache=True)["state"]
    if key is None:
        raise NotImplementedError(f"{type(model).__name__}.forward takes no cache")
    extra: dict[str, Any] = {"attention_mask": torch.ones_like(ids)} if mask else {}
    try:
        model(input_ids=ids, use_cache=True, **extra, **{key: cache})
    except ValueError as error:
        if "cache of its own" not in str(error):
            raise
        out = model(input_ids=ids, use_cache=True, **extra)
        return out.get("cache") or out["past_key_values"]
    return cache


def configure(key: str) -> Any:
    """The configuration of a family: its class's defaults, changed where they build no model."""
    from transformers import AutoConfig

    config = AutoConfig.for_model(key, **SETTINGS.get(key, {}))
    for part in {id(config): config, id(_text(config)): _text(config)}.values():
        if not getattr(part, "is_encoder_decoder", False):
            part.is_decoder = True
        part.use_cache = True
        shrink(part)
    return config


def _build(
    key: str, config: Any, dtype: str, *, eager: bool, device: str = "meta"
) -> tuple[Any, Any]:
    """The model on its device, and the config it was built from (the text part of one)."""
    import torch
    import transformers

    wanted = getattr(transformers, families()[key])
    part = config if isinstance(config, wanted.config_class) else _text(config)
    extra = {"attn_implementation": "eager"} if eager else {}
    with torch.device(device):
        try:
            model = wanted._from_config(part, dtype=getattr(torch, dtype), **extra)
        except ImportError:  # a vision tower's library is not here: the text model alone will do
            part = _text(config)
            wanted = getattr(transformers, families()[part.model_type])
            model = wanted._from_config(part, dtype=getattr(torch, dtype), **extra)
    model.eval()
    if hasattr(model, "set_default_language"):
        model.set_default_language("en_XX")
    if device == "meta":
        _quiet_experts(model)
    return model, part


def weigh_family(key: str, dtype: str = "bfloat16") -> Weighed:
    """Build one family from its configuration class, and weigh its cache at two lengths."""
    import torch

    config = configure(key)
    plain = json.loads(json.dumps(config.to_dict(), default=str))
    measured: Weighed = {"config": plain, "class": families()[key], "bytes": {}}
    device = "cpu" if key in ON_CPU else "meta"
    # Some families look at the values of their mask unless attention is eager and a mask given;
    # on the meta device there are no values to look at.
    for eager in (False, True):
        try:
            model, part = _build(key, config, dtype, eager=eager, device=device)
            with torch.no_grad():
                for length in (SHORT, long_length(config, SHORT)):
                    cache = _forward(model, part, length, mask=eager, device=device)
                    measured["bytes"][str(length)] = weigh_cache(cache)
            break
        except RuntimeError as error:
            if eager or "meta tensors" not in str(error):
                raise
    measured["parameters"] = sum(p.numel() for p in model.parameters())
    return measured


def _limited(key: str) -> Weighed:
    """`weigh_family` under the limit on memory; what goes wrong is an entry of its own."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    # A model may print what it likes.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        return weigh_family(key)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = " ".join(str(error).split())[:300]
        return {"error": f"{type(error).__name__}: {said}", "where": last.name}


def weigh(key: str) -> Weighed:
    """Weigh one family in a process of its own; a crash or a limit is an error entry."""
    began = time.monotonic()
    try:
        answer: Weighed = apart(
            _limited, key, seconds=SECONDS, preload=("torch", "transformers", "weigh")
        )
    except EndedError as error:
        return {"error": str(error)}
    answer["seconds"] = round(time.monotonic() - began, 1)
    return answer


def main() -> None:
    """Weigh the families named, or all, and print JSON."""
    import torch
    import transformers  # noqa: F401

    torch.set_num_threads(1)
    out: dict[str, Weighed] = {}
    for key in sys.argv[1:] or families():
        out[key] = weigh(key)
        said = out[key].get("error") or {k: sum(v) for k, v in out[key]["bytes"].items()}
        print(key, said, out[key].get("seconds"), file=sys.stderr, flush=True)
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
