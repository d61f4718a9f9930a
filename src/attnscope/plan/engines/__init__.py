"""What engines really allocate, one file per engine, each with the version it describes.

The idea: an engine rounds to blocks, pads pages, keeps one token less or a batch more; each file
writes that down for one engine and answers with an Allocation, or with the reason why it does not
know.

Not here: what a model keeps in itself (kinds.py).
"""

from __future__ import annotations

from typing import Final

from attnscope.plan.engines import llamacpp, sglang, vllm
from attnscope.plan.engines import transformers as hf
from attnscope.plan.engines.allocation import Allocation
from attnscope.plan.model import Model

__all__ = ["CHECKED", "Allocation", "allocations"]

CHECKED: Final = {
    "transformers": (
        "measured",
        "The rule was checked by weighing: the cache tensors of 175 families of models are as "
        "planned.",
    ),
    "vllm": ("source", "The rule was read from the source; vLLM was not run."),
    "sglang": ("source", "The rule was read from the source; SGLang was not run."),
    "llama.cpp": (
        "measured",
        "The rule was checked by running: llama.cpp logs the same sizes of small files of 26 "
        "architectures.",
    ),
}
"""What is known of each engine's rule: whether it was "measured", or read from its "source"."""


def allocations(
    model: Model,
    *,
    context: int,
    batch: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
) -> list[Allocation]:
    """What each engine allocates, with its default options, for `batch` sequences.

    >>> from attnscope.plan import read
    >>> [one.engine for one in allocations(read("llama-3-8b"), context=1000)]
    ['transformers', 'vllm', 'sglang', 'llama.cpp']
    """
    return [
        engine(model, context=context, batch=batch, dtype=dtype, kv_dtype=kv_dtype)
        for engine in (hf.allocate, vllm.allocate, sglang.allocate, llamacpp.allocate)
    ]
