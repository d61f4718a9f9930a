"""The stand-ins do what their namesakes do, here in CPython; in the browser, the sweep says so."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnscope.lessons.site import standins

FOLDER = Path(standins.__file__).parent


def loaded(name: str, **beside: Any) -> Any:
    """A stand-in under another name, with other modules in the place of those it imports."""
    spec = importlib.util.spec_from_file_location(f"standin_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = {key: sys.modules.get(key) for key in beside}
    sys.modules.update(beside)
    try:
        spec.loader.exec_module(module)
    finally:
        for key, value in before.items():
            if value is None:
                del sys.modules[key]
            else:
                sys.modules[key] = value
    return module


PATHS = loaded("pathlib")
PATHS.FILES["python"] = f"{sys.version_info.major}.{sys.version_info.minor:02d}"
JSON = loaded("json", pathlib=PATHS)
CLASSES = loaded("dataclasses")


def outcome(read: Any, error: type[Exception], text: str) -> Any:
    try:
        return repr(read(text))
    except error as found:
        return found.msg, found.lineno, found.colno  # type: ignore[attr-defined]
    except RecursionError:
        return "deep"


BROKEN = [
    "", " ", "{", "[", "]", "}", '"', '"\\', '"\\u12', '"\\u12zz"', '"\\ud83d\\ude00"', '"\\ud83d"',
    '"\\ud83d\\u0041"', '"\\ud83d\\uzzzz"', '"\\q"', '"\x01"', '"a\nb', "tru", "true1", "nul",
    "NaN",
    "-Infinity", "-", "-a", "01", "1.", "1.e5", "1e", "1e+", "1E-5", "-0", "-0.0", "1e999", "[1,]",
    "[1 2]", "[,]", '{"a"}', '{"a":}', '{"a":1,}', '{"a":1 "b":2}', "{a:1}", "{'a':1}", '{"a":1}x',
    "\ufeff{}", "[" * 5000, '{"a":[1,{"b":null}],"c":"\\n\\/\\t"}',
    ' [ 1 , 2.5 , "x" ] ', "[1,\n2,\n]",
]  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
def test_json_is_read_as_here(text: str) -> None:
    wanted = outcome(json.loads, json.JSONDecodeError, text)
    assert outcome(JSON.loads, JSON.JSONDecodeError, text) == wanted


@given(st.text(alphabet='{}[]:,"\\u0123def \n\t-+.eEtrufalsn\x01\ud83d😀', max_size=24))
def test_any_text_is_read_as_here(text: str) -> None:
    wanted = outcome(json.loads, json.JSONDecodeError, text)
    assert outcome(JSON.loads, JSON.JSONDecodeError, text) == wanted


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values, st.booleans())
def test_json_is_written_as_here_and_read_again(value: Any, escaped: bool) -> None:
    assert JSON.loads(json.dumps(value, ensure_ascii=escaped)) == value
    assert JSON.dumps(value) == json.dumps(value, ensure_ascii=False)


def test_what_is_no_json_goes_through_the_default() -> None:
    assert JSON.dumps([{1}, float("inf")], default=str) == '["{1}", Infinity]'


def test_paths_find_what_the_bundle_carries() -> None:
    PATHS.FILES.update({"data/configs/a.json": "{}", "data/configs/b.txt": "", "data/c.json": "[]"})
    folder = PATHS.Path("VFS.attnscope.plan.find.py").parent / "data" / "configs"
    assert [one.stem for one in folder.glob("*.json")] == ["a"]
    assert (PATHS.Path("x.py").parent / "data" / "c.json").read_text("utf-8") == "[]"


def test_data_classes_are_made_compared_and_replaced() -> None:
    @CLASSES.dataclass(frozen=True)
    class Point:
        x: int
        y: int = 2
        seen: list[int] = CLASSES.field(default_factory=list, repr=False, compare=False)

    one = Point(1)
    assert (one, hash(one)) == (Point(1, seen=[3]), hash(Point(1, 2)))
    assert one != Point(2)
    assert one != (1, 2)
    assert repr(one).endswith("Point(x=1, y=2)")
    assert CLASSES.replace(one, y=5) == Point(1, 5)
    assert CLASSES.asdict(Point(1, 2, [4])) == {"x": 1, "y": 2, "seen": [4]}
    assert Point(1).seen is not Point(1).seen
    with pytest.raises(AttributeError, match="cannot assign to field 'x'"):
        one.x = 3
    for given_, said in (((1, 2, [], 4), "takes 3"), ((), "needs 'x'")):
        with pytest.raises(TypeError, match=said):
            Point(*given_)
    with pytest.raises(TypeError, match="no field 'z'"):
        Point(1, z=3)
    with pytest.raises(TypeError, match="two values for 'x'"):
        Point(1, x=3)
