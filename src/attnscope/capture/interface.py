"""The place where transformers and attnscope meet: two registrations under one key, checked.

The idea: transformers looks up the attention function and the mask function by the same name, and
hands on no mask at all, without a word, where it finds only the first. So both are registered in
one call and looked at before every use.

    replace   the model's implementation is set to our key; `attend` makes the output
    beside    the model's own function runs with its own mask; ours looks at the same tensors

Not here: what is done with a call (watch.py).
"""

from __future__ import annotations

import contextlib
import contextvars
import json
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any, Final

import torch

from attnscope.capture.compact import CompactMask, compact_mask
from attnscope.capture.keywords import read_keywords
from attnscope.capture.sight import Masks
from attnscope.capture.watch import Watch
from attnscope.core.attend import attend
from attnscope.errors import ModelError, UnsupportedModelError

KEY: Final = "attnscope"
MODES: Final = ("replace", "beside")

_watching: contextvars.ContextVar[Watch | None] = contextvars.ContextVar("watch", default=None)


def register() -> None:
    """Register the attention function and the mask function with transformers, and look.

    Raises:
        ModelError: one of the two did not arrive where transformers looks for it.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(KEY, attention)
    AttentionMaskInterface.register(KEY, compact_mask)
    check_registered()


def check_registered() -> None:
    """Whether transformers finds both functions under our key.

    Raises:
        ModelError: it does not; without the mask function it would drop causality in silence.
    """
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    for what, registry, ours in (
        ("attention", ALL_ATTENTION_FUNCTIONS, attention),
        ("mask", ALL_MASK_ATTENTION_FUNCTIONS, compact_mask),
    ):
        # transformers asks the class-wide mapping, not the instance, whether there is a mask
        if registry._global_mapping.get(KEY) is not ours or registry.get(KEY) is not ours:
            raise ModelError(
                f"the {what} function {KEY!r} is not registered with transformers (or something "
                "else is, under the same name); without it the weights would be wrong."
            )


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **keywords: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function that is registered with transformers; its arguments are theirs.

    Returns:
        the output [B, T, H, E], and no weights.
    """
    watch = _watching.get()
    if watch is not None and watch.owns(module):
        return watch.see(module, (query, key, value), attention_mask, keywords), None
    meaning = read_keywords(module, type(module).__name__, keywords)
    sight = Masks().sight(query, key, attention_mask, meaning)
    keys = sight.keys
    seen = sight.spans if sight.mask is None else sight.mask & sight.spans.visible()
    result = attend(
        query, key[:, :, :keys], value[:, :, :keys],
        scale=meaning.scale, causal=False, mask=seen, bias=sight.bias, softcap=meaning.softcap,
        sinks=meaning.sinks,
    )  # fmt: skip
    return result.output.transpose(1, 2).contiguous(), None


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[Watch]:
    """Every attention call of the watched model is seen while this is open.

    Raises:
        UnsupportedModelError: the model does not route its attention through the interface.
    """
    require_routed(watch.model)
    around = _replaced(watch) if watch.mode == "replace" else _beside(watch)
    with around, watch:
        token = _watching.set(watch)
        try:
            yield watch
        finally:
            _watching.reset(token)


def require_routed(model: torch.nn.Module) -> None:
    """A model must be one of transformers' that asks the interface for its attention.

    Raises:
        UnsupportedModelError: it is not; the message lists the families that are.
    """
    from transformers import PreTrainedModel

    if not isinstance(model, PreTrainedModel):
        raise UnsupportedModelError(
            f"{type(model).__name__} is not a model of transformers; attnscope.observe(model) "
            "records any module that calls torch's scaled_dot_product_attention."
        )
    parts = [m for m in model.modules() if isinstance(m, PreTrainedModel)]
    if not all(type(part)._can_set_attn_implementation() for part in parts):
        raise not_routed(model, "its attention does not go through transformers' interface")


def not_routed(model: torch.nn.Module, reason: str) -> UnsupportedModelError:
    """The refusal of a family, with the list of those that can be captured."""
    known = sorted(name for name, f in families().items() if f["status"] == "supported")
    kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
    listed = f" These families can be captured: {', '.join(known)}." if known else ""
    return UnsupportedModelError(f"{kind}: {reason}.{listed}")


def families() -> dict[str, dict[str, str]]:
    """The table of families that the sweep wrote: status, and the reason of a refusal."""
    table = resources.files("attnscope.capture") / "families.json"
    if not table.is_file():
        return {}
    found: dict[str, dict[str, str]] = json.loads(table.read_text("utf-8"))["families"]
    return found


@contextlib.contextmanager
def _replaced(watch: Watch) -> Iterator[None]:
    """The model's implementation is ours for a while."""
    register()
    configs = _configs(watch.model)
    before = [config._attn_implementation_internal for config in configs]
    try:
        watch.model.set_attn_implementation(KEY)  # type: ignore[operator]
        if _configs(watch.model)[0]._attn_implementation != KEY:
            raise not_routed(watch.model, "its attention implementation cannot be set")
        yield
    finally:
        for config, one in zip(configs, before, strict=True):
            config._attn_implementation_internal = one


def _configs(model: Any) -> list[Any]:
    """Every configuration that says which implementation a part of the model uses."""
    from transformers import PreTrainedModel

    found: dict[int, Any] = {}

    def add(config: Any) -> None:
        if id(config) not in found:
            found[id(config)] = config
            for name in config.sub_configs:
                if getattr(config, name, None) is not None:
                    add(getattr(config, name))

    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            add(module.config)
    return list(found.values())


@contextlib.contextmanager
def _beside(watch: Watch) -> Iterator[None]:
    """The model keeps its implementation; the functions it looks up are seen being called.

    `get_interface` is what every model calls to find its function, with its own eager function as
    the default; wrapping that leaves configuration, masks and kernels as they were, and so every
    bit of the output. Models that are not watched, and other threads, get what they always got.
    """
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface

    own = {config._attn_implementation for config in _configs(watch.model)}
    if not own <= {"eager", "sdpa", None}:
        raise UnsupportedModelError(
            f"{watch.name}: mode 'beside' knows the masks of 'sdpa' and 'eager', and this model "
            f"runs on {', '.join(sorted(map(str, own)))}; set one of the two, or use 'replace'."
        )
    find, find_mask = AttentionInterface.get_interface, AttentionMaskInterface.__getitem__

    def get_interface(self: Any, implementation: str, default: Callable[..., Any]) -> Any:
        return _seen(find(self, implementation, default), implementation)

    def get_mask(self: Any, implementation: str) -> Any:
        return _noted(find_mask(self, implementation))

    AttentionInterface.get_interface = get_interface
    AttentionMaskInterface.__getitem__ = get_mask
    try:
        yield
    finally:
        AttentionInterface.get_interface = find
        AttentionMaskInterface.__getitem__ = find_mask


def _seen(own: Callable[..., Any], implementation: str) -> Callable[..., Any]:
    """A model's own attention function, its call seen by the watch."""

    def function(
        module: torch.nn.Module,
        q: Any,
        k: Any,
        v: Any,
        mask: Any = None,
        *rest: Any,
        **keywords: Any,
    ) -> Any:
        watch = _watching.get()
        if "attention_mask" in keywords:
            mask = keywords.pop("attention_mask")
        result = own(module, q, k, v, mask, *rest, **keywords)
        if watch is not None and watch.owns(module):
            if rest:
                raise UnsupportedModelError(f"{watch.name}: its attention takes more by position.")
            watch.see(
                module, (q, k, v), mask, keywords,
                own=(result[0], result[1]), none_is_causal=implementation != "eager",
            )  # fmt: skip
        return result

    return function


def _noted(own: Callable[..., Any]) -> Callable[..., Any]:
    """A mask function whose result is remembered together with its intervals."""

    def function(*args: Any, **keywords: Any) -> Any:
        mask = own(*args, **keywords)
        watch = _watching.get()
        if watch is not None and type(mask) is torch.Tensor and mask.ndim == 4:
            compact = compact_mask(*args, **keywords)
            if isinstance(compact, CompactMask):
                watch.masks.note(mask, compact)
        return mask

    return function
