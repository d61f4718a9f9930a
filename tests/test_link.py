"""Joined modules do what the modules do, and what cannot be joined is named by file and line."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnscope.link import LinkError, blank, link, ordered, read
from attnscope.serve.files import STATIC


def write(folder: Path, **modules: str) -> Path:
    """Modules by name; `a__b` is a/b.js."""
    for name, text in modules.items():
        place = folder / f"{name.replace('__', '/')}.js"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return folder


def run(script: str, *, then: str = "") -> str:
    """What Node prints when it runs a module."""
    node = shutil.which("node")
    if node is None:
        pytest.fail("This test needs Node: apt-get install -y chromium nodejs npm")
    done = subprocess.run(
        [node, "--input-type=module", "-"], input=script + then, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_linked_file_does_what_the_modules_do(tmp_path: Path) -> None:
    write(
        tmp_path,
        main="""
import { Shape, area as measure } from "./parts/shape.js";
import {
  join,
  LIMIT,
} from './text.js'
const local = 2;
function hidden() { return join([measure(new Shape(3)), local, LIMIT]); }
export { hidden as answer, LIMIT };
""",
        parts__shape="""
import { LIMIT } from "../text.js";
const local = 5;
export class Shape { constructor(side) { this.side = Math.min(side, LIMIT); } }
export const area = (shape) => shape.side ** 2 + local;
""",
        text="""
export const LIMIT = 100;
export async function later() { return 1; }
export function* steps() { yield 1; }
export function join(parts) { return parts.map((one) => `${one}`).join(`;`); }
""",
    )
    script = link(tmp_path, ["main.js"], expose=True)
    assert run(script, then="console.log(answer(), LIMIT);") == "14;2;100 100\n"


def test_each_module_runs_once_and_after_what_it_imports(tmp_path: Path) -> None:
    write(
        tmp_path,
        main='import { a } from "./a.js";\nimport { b } from "./b.js";\nconsole.log("main", a, b);',
        a='import { c } from "./c.js";\nconsole.log("a");\nexport const a = c;',
        b='import { c } from "./c.js";\nconsole.log("b");\nexport const b = c;',
        c='console.log("c");\nexport const c = 1;',
    )
    assert [module.name for module in ordered(tmp_path, ["main.js"])] == [
        "c.js", "a.js", "b.js", "main.js",
    ]  # fmt: skip
    assert run(link(tmp_path, ["main.js"])) == "c\na\nb\nmain 1 1\n"


def test_words_in_strings_comments_and_patterns_are_left_alone(tmp_path: Path) -> None:
    text = r"""
// export default 1; import x from "y"
/* import("z")
export * from "a" */
export const said = `
export default ${ `${"import('x')"}` } import.meta
`;
export const found = "import( x".replace(/import\(["'`/]*/g, "export ");
export const half = 8 / 2 / 2;
"""
    write(tmp_path, main=text)
    script = link(tmp_path, ["main.js"], expose=True)
    printed = run(script, then="console.log(JSON.stringify([said, found, half]));")
    assert json.loads(printed) == [
        "\nexport default import('x') import.meta\n", "export  x", 2
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('import x from "./a.js";', "main.js:2: cannot be joined: import x from"),
        ('import * as x from "./a.js";', "main.js:2: cannot be joined: import *"),
        ('import "./a.js";', 'main.js:2: cannot be joined: import "./a.js"'),
        ('import { x } from "a";', 'main.js:2: expected a path like "./other.js", got "a"'),
        ('import { x } from "https://a.b/c.js";', "main.js:2: expected a path"),
        ('import { x } from "../a.js";', "main.js:2: ../a.js is outside of the folder"),
        ('import { default as x, "y" as z } from "./a.js";', "main.js:2: cannot be joined"),
        ("export default 1;", "main.js:2: cannot be joined: export default 1;"),
        ("export { x } /* y */ + 1;", "main.js:2: cannot be joined: export { x }"),
        ("export let x = 1;", "main.js:2: cannot be joined: export let x"),
        ('export * from "./a.js";', "main.js:2: cannot be joined: export *"),
        ('export { x } from "./a.js";', "main.js:2: cannot be joined: export { x }"),
        ("export const { x } = y;", "main.js:2: cannot be joined: export const { x }"),
        ("const x = () => import('./a.js');", "main.js:2: cannot be joined: import("),
        ("const x = import.meta.url;", "main.js:2: cannot be joined: import.meta"),
        ("await 1;", "main.js:2: cannot be joined: await"),
        ("export const a = 1;\nexport const a = 2;", "main.js: exports a name twice"),
        ("const x = 'half", "main.js:2: a string does not end"),
        ("const x = `half ${1}", "main.js:2: a template does not end"),
        ("/* half", "main.js:2: /* does not end"),
    ],
)
def test_what_cannot_be_joined_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path, main=f"// first\n{text}\n", a="export const x = 1;")
    with pytest.raises(LinkError) as caught:
        link(tmp_path, ["main.js"])
    assert said in str(caught.value)


def test_a_missing_module_a_missing_name_and_a_circle_are_named(tmp_path: Path) -> None:
    write(
        tmp_path,
        main='import { x } from "./gone.js";',
        name='import { y } from "./one.js";',
        one='import { two } from "./two.js";\nexport const one = 1;',
        two='import { one } from "./one.js";\nexport const two = 2;',
        plain="export const x = 1;",
        asks='import { y } from "./plain.js";',
    )
    for entry, said in (
        ("main.js", "main.js: there is no module gone.js"),
        ("one.js", "circle: one.js -> two.js -> one.js"),
        ("asks.js", "asks.js: plain.js exports no y"),
    ):
        with pytest.raises(LinkError, match=said):
            link(tmp_path, [entry])


def test_comments_are_left_out_and_nothing_else(tmp_path: Path) -> None:
    text = """
/** About it: `quoted`, 'it's. */
// export
export const kept = `one // two

   /* three */ ${ /* four */ [1, // five
  2].join("//") }

`; /* six */
export const more = 1 /* seven
*/ + 1;
"""
    script = link(write(tmp_path, main=text), ["main.js"], expose=True)
    for word in ("About", "four", "five", "six", "seven", "// export"):
        assert word not in script
    printed = run(script, then="console.log(JSON.stringify([kept, more]));")
    assert json.loads(printed) == ["one // two\n\n   /* three */ 1//2\n\n", 2]


@given(st.text(alphabet="ab'\"`/*\\${}\n ()=", max_size=40))
def test_blanking_keeps_every_place_or_says_what_does_not_end(text: str) -> None:
    try:
        code = blank(text)
    except LinkError:
        return
    assert len(code) == len(text)
    assert [at for at, c in enumerate(code) if c == "\n"] == [
        at for at, c in enumerate(text) if c == "\n"
    ]
    assert all(c in (text[at], " ") for at, c in enumerate(code))


@pytest.mark.parametrize(
    "name", sorted(p.relative_to(STATIC / "js").as_posix() for p in (STATIC / "js").rglob("*.js"))
)
def test_every_module_of_the_page_can_be_joined(name: str) -> None:
    assert read(STATIC / "js", name).name == name


def test_several_linked_scripts_live_in_one_page(tmp_path: Path) -> None:
    write(tmp_path, one="globalThis.seen = [1];\n", two="globalThis.seen.push(2);\n")
    both = link(tmp_path, ["one.js"]) + link(tmp_path, ["two.js"])
    assert run(both, then="console.log(JSON.stringify(globalThis.seen));").strip() == "[1,2]"


@pytest.mark.parametrize(
    "entry", ["page.js", "widget.js", "standalone.js", "widgets/course.js", "widgets/scheme.js"]
)
def test_every_entry_is_joined_and_parses(entry: str) -> None:
    script = link(STATIC / "js", [entry], expose=True)
    # A function is parsed when it is made, and runs only when it is called.
    plain = script.replace("\nexport const ", "\nconst ")
    check = f"new Function({json.dumps(plain)});"
    assert run(check) == ""
