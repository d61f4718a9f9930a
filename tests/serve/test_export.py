"""A stand-alone page holds the captured numbers bit for bit, its own policy, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve_samples import HEADS, TOKENS, make_trace

import attnscope
from attnscope.errors import TraceError
from attnscope.serve import export
from attnscope.trace import Trace

DTYPES = {"f4": "<f4", "bf16": "<u2", "i4": "<i4", "u1": "u1"}


def block(text: str, name: str) -> str:
    """What stands in a data block, read as a browser does: up to the next </script."""
    found = re.search(rf'<script type="[^"]*" id="{name}">(.*?)</script', text, re.DOTALL)
    assert found is not None
    return found[1]


def unpack(text: str) -> tuple[Any, dict[tuple[str, int, int | None], np.ndarray]]:
    """The page's JSON and its arrays, decoded as docs/export.md says."""
    page = json.loads(block(text, "attnscope-page"))
    data = zlib.decompress(base64.b64decode(block(text, "attnscope-data")))
    assert len(data) == page["bytes"]
    arrays = {}
    for entry in page["arrays"]:
        dtype = np.dtype(DTYPES[entry["dtype"]])
        count = int(np.prod(entry["shape"]))
        planes = np.frombuffer(data, "u1", count * dtype.itemsize, entry["at"])
        whole = planes.reshape(dtype.itemsize, count).T.copy().view(dtype).reshape(entry["shape"])
        arrays[entry["name"], entry["layer"], entry["head"]] = whole
    return page, arrays


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_trace()


def test_every_number_is_there_bit_for_bit(trace: Trace, tmp_path: Path) -> None:
    place = trace.to_html(tmp_path / "page.html", layers=2, heads=[1, 3])
    page, arrays = unpack(place.read_text(encoding="utf-8"))
    record = trace.layer(2)
    for head, group in ((1, 0), (3, 1)):
        assert np.array_equal(arrays["q", 2, head], record.array("q")[head])
        assert np.array_equal(arrays["k", 2, head], record.array("k")[group])
        assert np.array_equal(arrays["logsumexp", 2, head], record.logsumexp[head])
        assert np.array_equal(arrays["value_norms", 2, head], record.array("value_norms")[head])
        for name in page["info"]["tracks"]:
            assert np.array_equal(arrays[f"track:{name}", 2, head], record.statistic(name)[head])
    for name, array in zip(("first", "end", "origin"), record.spans, strict=True):
        assert np.array_equal(arrays[name, 2, None], array)
    assert {head for _, _, head in arrays} == {None, 1, 3}
    assert {layer for _, layer, _ in arrays} == {2}


def test_heads_that_share_keys_share_them_in_the_page(trace: Trace, tmp_path: Path) -> None:
    place = trace.to_html(tmp_path / "page.html", layers=0)
    _, arrays = unpack(place.read_text(encoding="utf-8"))
    assert [key for key in arrays if key[0] == "k"] == [("k", 0, 0), ("k", 0, 2)]


def test_what_was_left_out_is_said(trace: Trace, tmp_path: Path) -> None:
    place = trace.to_html(tmp_path / "page.html", layers=[2], heads=1, name="mine")
    page, _ = unpack(place.read_text(encoding="utf-8"))
    assert [layer["kind"] for layer in page["info"]["layers"]] == ["none", "none", "full"]
    reasons = [layer["reason"] for layer in page["info"]["layers"]]
    assert reasons == ["this layer was left out of the page", "a recurrent layer", None]
    assert [(row["layer"], row["head"]) for row in page["heads"]] == [(2, 1)]
    assert page["view"] == {"screen": "map", "trace": "page", "layer": 2, "head": 1}
    assert page["entry"] == {"id": "page", "name": "mine", "model": "plain", "tokens": TOKENS}
    whole = attnscope.to_html(trace, tmp_path / "all.html")
    page, _ = unpack(whole.read_text(encoding="utf-8"))
    assert page["view"] == {"screen": "overview", "trace": "page"}
    assert len(page["heads"]) == 2 * HEADS


def test_the_policy_allows_its_own_script_and_style_alone(trace: Trace, tmp_path: Path) -> None:
    text = trace.to_html(tmp_path / "page.html", heads=0).read_text(encoding="utf-8")
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert found is not None
    policy = dict(part.strip().split(" ", 1) for part in html.unescape(found[1]).split(";"))
    for name, pattern in (("script-src", '<script type="module">(.*?)</script'),
                          ("style-src", "<style>(.*?)</style")):  # fmt: skip
        [inner] = re.findall(pattern, text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert policy[name] == f"'sha256-{digest}'"
    assert policy["default-src"] == "'none'"
    markup = re.sub("(<script[^>]*>).*?(?=</script)", r"\1", text, flags=re.DOTALL)
    assert len(markup) < len(text) / 4
    assert not re.search(r'(src|href)="(?!data:,")', markup)
    assert not re.search(r"\bimport\s*[({\"']", block_of_script(text))


def block_of_script(text: str) -> str:
    [script] = re.findall('<script type="module">(.*?)</script', text, re.DOTALL)
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", script, flags=re.DOTALL)


HOSTILE = "</script><script>document.title='taken'</script><!--<img src=x onerror=alert(1)>\u2028"


def test_a_strangers_words_stay_words(tmp_path: Path) -> None:
    trace = make_trace(tokens=20, model=HOSTILE, words=lambda n: f"{HOSTILE}{n}")
    text = trace.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    page, _ = unpack(text)
    assert page["tokens"]["text"] == trace.text
    assert page["info"]["model"]["name"] == HOSTILE
    assert HOSTILE[:9] not in text.replace("</script>\n", "")
    assert "<img" not in text
    assert text.count("<script") == 3
    assert "\u2028" not in text.split("<script", 1)[1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"layers": 1}, "layer: 1 has no attention map: a recurrent layer"),
        ({"layers": [0, 9]}, "layer: 9 is not in this trace"),
        ({"heads": 4}, "heads: 4 is not one of the 4 heads of layer 0"),
        ({"heads": [-1]}, "heads: -1 is not one of the 4 heads"),
        ({"layers": []}, "expected at least one head"),
        ({"heads": []}, "expected at least one head"),
    ],
)
def test_what_cannot_be_chosen_is_named(
    trace: Trace, tmp_path: Path, given: Any, said: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        trace.to_html(tmp_path / "page.html", **given)
    assert list(tmp_path.iterdir()) == []


def test_too_much_for_a_page_is_refused(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "MOST_BYTES", 1 << 20)
    assert trace.to_html(tmp_path / "page.html").exists()
    monkeypatch.setattr(export, "MOST_BYTES", 1 << 16)
    with pytest.raises(ValueError, match="choose fewer heads"):
        trace.to_html(tmp_path / "other.html")


def test_a_file_is_replaced_only_when_asked(trace: Trace, tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    place.write_text("mine")
    with pytest.raises(TraceError, match="already exists"):
        trace.to_html(place)
    assert place.read_text() == "mine"
    trace.to_html(place, overwrite=True, heads=0)
    assert place.read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(TraceError, match="cannot be written"):
        trace.to_html(tmp_path / "gone" / "page.html")
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]


def test_one_head_of_1024_tokens_takes_at_most_3_mb(tmp_path: Path) -> None:
    trace = make_trace(tokens=1024)
    # width 64, the widest noise that float32 holds: nothing but the upper planes can shrink
    record = trace.layer(0)
    generator = np.random.default_rng(0)
    wide = {
        name: generator.standard_normal((1, 1024, 64)).astype(np.float32) for name in ("q", "k")
    }
    pack = export.Pack()
    for name, array in wide.items():
        pack.add(name, array, layer=0, head=0)
    extra = len("".join(pack.text()))
    place = trace.to_html(tmp_path / "page.html", layers=0, heads=0)
    assert record.queries == 1024
    assert place.stat().st_size + extra <= 3_000_000


LICENSE = Path(__file__).parents[2] / "LICENSE"


@pytest.mark.slow
@pytest.mark.real_model
@pytest.mark.parametrize("model", ["smollm2", "gemma3"])
def test_one_head_of_a_real_model_takes_at_most_3_mb(model: str, tmp_path: Path) -> None:
    """Each kind of layer, early and late, at exactly 1,024 tokens; gemma3's heads are 256 wide."""
    from attnscope.capture.models import load

    loaded = load(model)
    text = cut(loaded.tokenizer, LICENSE.read_text("utf-8"), 1024)
    trace = attnscope.capture(loaded.model, text, tokenizer=loaded.tokenizer)
    assert len(trace.tokens) == 1024
    whole = [layer for layer in trace.layers if layer.has_map]
    kinds = {layer.kind: layer.index for layer in whole}  # the last of each kind
    for layer in {0, whole[-1].index, *kinds.values()}:
        place = trace.to_html(tmp_path / "page.html", layers=layer, heads=0, overwrite=True)
        assert place.stat().st_size <= 3_000_000, f"layer {layer}"


def cut(tokenizer: Any, text: str, tokens: int) -> str:
    """The longest beginning of a text that has so many tokens, found by halving."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high)
            if len(tokenizer(text[:middle])["input_ids"]) <= tokens
            else (low, middle - 1)
        )
    return text[:low]
