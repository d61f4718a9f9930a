"""Keras's additive attention on torch, brought to our signature; nothing here is under test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

Layer = Callable[..., torch.Tensor]


@pytest.fixture(scope="module")
def keras(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Keras on torch; it reads both variables once, when it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERAS_BACKEND", "torch")
        patch.setenv("KERAS_HOME", str(tmp_path_factory.mktemp("keras")))
        import keras
        from keras.src.backend.common import dtypes

        # Keras narrows the products of float64 to float32; for an oracle it must not.
        patch.setitem(dtypes.BIT64_TO_BIT32_DTYPE, "float64", "float64")
        assert keras.backend.backend() == "torch"
        yield keras


def by_keras(keras: Any, dtype: torch.dtype, **call: Any) -> Layer:
    """The same signature as ours: [B, 1, T, A] in, [B, 1, T, E] out."""

    def run(q, k, v, energy):  # type: ignore[no-untyped-def]
        layer = keras.layers.AdditiveAttention(dtype=str(dtype).removeprefix("torch."))
        layer.build([q[:, 0].shape, v[:, 0].shape, k[:, 0].shape])
        # Its weight is a variable of its own; ours is put in its place to keep the graph.
        layer.scale = energy
        return layer([q[:, 0], v[:, 0], k[:, 0]], **call)[:, None]

    return run
