"""After the attention of a long text, and only then, memory is given back."""

from __future__ import annotations

import pytest
import torch
from models import ids, small

from attnscope.capture import tidy
from attnscope.capture.session import capture
from attnscope.core.memory import WORTH


class Counted:
    """Counts what was given back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heap = self.compiler = 0
        monkeypatch.setattr(tidy, "free_heap", self._heap)
        monkeypatch.setattr(tidy, "unload_compiler", self._compiler)

    def _heap(self) -> bool:
        self.heap += 1
        return True

    def _compiler(self) -> int:
        self.compiler += 1
        return 0


@pytest.mark.parametrize("mode", ["replace", "beside"])
def test_after_every_layer_of_a_long_text_the_heap_and_once_the_compiler(
    monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    counted = Counted(monkeypatch)
    model = small("llama")
    config = model.config
    row = config.num_attention_heads * config.head_dim * 4
    monkeypatch.setattr(tidy, "WORTH", 20 * row)
    trace = capture(model, ids(20), mode=mode)
    assert counted.heap == len(trace.layers) > 1
    assert counted.compiler == 1
    capture(model, ids(19), mode=mode)
    assert counted.heap == len(trace.layers)


def test_a_short_text_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    capture(small("llama"), ids(20))
    assert counted.heap == counted.compiler == 0


def test_a_forward_that_is_not_watched_any_more_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = Counted(monkeypatch)
    monkeypatch.setattr(tidy, "WORTH", 1)
    model = small("llama")

    def hooks() -> list[int]:  # other tests read this model's own weights: transformers keeps some
        return [len(module._forward_hooks) for module in model.modules()]

    others = hooks()
    capture(model, ids(20))
    before = counted.heap
    with torch.no_grad():
        model(input_ids=ids(20), use_cache=False)
    assert counted.heap == before > 0
    assert hooks() == others


def test_queries_on_another_device_are_not_this_heaps_business() -> None:
    told = tidy.Tidy()
    told.attended(torch.empty(WORTH, device="meta"))
    assert not told._due
    told.attended(torch.empty(WORTH // 4))
    assert told._due
