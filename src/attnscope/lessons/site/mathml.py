r"""Formulas: a small part of TeX's notation to MathML, with terms that can be asked about.

The idea: a formula is written as everyone writes it, and read by a parser of a hundred lines that
refuses what it does not know. `\term{name}{…}` is a node that a page can open.

    what            written
    letters, digits a  12.5  \alpha  \text{分数}
    above, below    x^2  x_{ij}
    built           \frac{a}{b}  \sqrt{d}  \abs{x}  \row{a & b \\ c & d}
    a term          \term{keys}{k_j}
    a figure        \fig{softmax.8_7_9.sum}

Not here: where formulas stand (inline.py, blocks.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import Final

TOKEN: Final = re.compile(r"\\[A-Za-z]+|\\[\\{},;! ]|\d+(?:[.,]\d+)*|\s+|.", re.DOTALL)

LETTERS: Final = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "theta": "θ",
    "lambda": "λ", "mu": "μ", "phi": "φ", "sigma": "σ", "tau": "τ", "Delta": "Δ", "infty": "∞",
    "ell": "ℓ", "partial": "∂",
}  # fmt: skip
SIGNS: Final = {
    "cdot": "·", "times": "×", "div": "÷", "pm": "±", "le": "≤", "ge": "≥", "ne": "≠",
    "approx": "≈", "in": "∈", "to": "→", "iff": "⇔", "dots": "…", "leftarrow": "←",
    "odot": "⊙", "lfloor": "⌊", "rfloor": "⌋", "prime": "′", "top": "⊤",
    "Rightarrow": "⇒", "propto": "∝", "ll": "≪",
}  # fmt: skip
LARGE: Final = {"sum": "∑", "prod": "∏"}
WORDS: Final = (
    "exp", "log", "ln", "max", "min", "softmax", "Var", "diag", "tanh", "cos", "sin", "std", "E",
    "sigmoid", "rms",
)  # fmt: skip
SPACES: Final = {",": "0.17em", ";": "0.28em", "!": "-0.17em", " ": "0.33em", "quad": "1em"}
ASCII: Final = {"-": "−", "*": "·", "'": "′"}


class FormulaError(ValueError):
    """A formula that cannot be read, with what was expected."""


Figure = Callable[[str], str]


def mathml(source: str, *, figure: Figure, block: bool = False) -> str:
    """A formula as a MathML element.

    Args:
        source: in the notation above.
        figure: from a figure's id to what it prints.
        block: on a line of its own.

    Raises:
        FormulaError: an unknown command, or braces that do not match.

    >>> mathml("x^2", figure=str)
    '<math><msup><mi>x</mi><mn>2</mn></msup></math>'
    """
    reader = _Reader(source, figure)
    inside = reader.until("")
    return f'<math display="block">{inside}</math>' if block else f"<math>{inside}</math>"


def terms(source: str) -> list[str]:
    r"""The names of the terms of a formula, in order.

    >>> terms(r"\term{a}{x} + \term{b}{y}")
    ['a', 'b']
    """
    return re.findall(r"\\term\{([^}]*)\}", source)


class _Reader:
    def __init__(self, source: str, figure: Figure) -> None:
        self.tokens = TOKEN.findall(source)
        self.source, self.figure, self.at = source, figure, 0

    def peek(self) -> str:
        while self.at < len(self.tokens) and self.tokens[self.at].isspace():
            self.at += 1
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def until(self, end: str) -> str:
        """Everything up to a closing token, as siblings."""
        found: list[str] = []
        while True:
            token = self.peek()
            if token == end:
                self.next()
                return "".join(found)
            if token == "" or token == "}":
                what = f"{end!r} is missing" if token == "" else "a } too many"
                raise FormulaError(f"formula {self.source!r}: {what}.")
            found.append(self.scripted())

    def scripted(self) -> str:
        """One thing with what stands above and below it."""
        large = self.peek().lstrip("\\") in LARGE
        base = self.single()
        below = above = ""
        while self.peek() in ("_", "^"):
            if self.next() == "_":
                below = self.single()
            else:
                above = self.single()
        if large and (below or above):
            if not above:
                return f"<munder>{base}{below}</munder>"
            return f"<munderover>{base}{below or '<mrow></mrow>'}{above}</munderover>"
        if below and above:
            return f"<msubsup>{base}{below}{above}</msubsup>"
        if below:
            return f"<msub>{base}{below}</msub>"
        return f"<msup>{base}{above}</msup>" if above else base

    def single(self) -> str:
        token = self.next()
        if token == "{":
            return f"<mrow>{self.until('}')}</mrow>"
        if token.startswith("\\"):
            return self.command(token[1:])
        if token[:1].isdigit():
            return f"<mn>{token}</mn>"
        if token in ("", "}", "_", "^", "&"):
            raise FormulaError(f"formula {self.source!r}: expected something before {token!r}.")
        if token.isalpha():
            # A Chinese word in a formula is upright, and its letters belong together.
            return f"<mi>{token}</mi>" if token.isascii() else f"<mtext>{token}</mtext>"
        stretch = ' stretchy="false"' if token in "()[]|" else ""
        return f"<mo{stretch}>{escape(ASCII.get(token, token))}</mo>"

    def command(self, name: str) -> str:
        if name in LETTERS:
            return f"<mi>{LETTERS[name]}</mi>"
        if name in SIGNS:
            return f"<mo>{SIGNS[name]}</mo>"
        if name in LARGE:
            return f'<mo movablelimits="false">{LARGE[name]}</mo>'
        if name in WORDS:
            # No gap before a bracket, a thin one before an argument.
            gap = "" if self.peek() in ("(", "{", "_", "^") else '<mspace width="0.17em"></mspace>'
            return f'<mi mathvariant="normal">{name}</mi>' + gap
        if name in SPACES:
            return f'<mspace width="{SPACES[name]}"></mspace>'
        if name in ("{", "}"):
            return f'<mo stretchy="false">{name}</mo>'
        build = getattr(self, f"_{name}", None)
        if build is None:
            raise FormulaError(f"formula {self.source!r}: \\{name} is not known.")
        built: str = build()
        return built

    def raw(self) -> str:
        """What stands between braces, as it stands there."""
        if self.next() != "{":
            raise FormulaError(f"formula {self.source!r}: expected a {{.")
        found = []
        while self.at < len(self.tokens) and self.tokens[self.at] != "}":
            found.append(self.tokens[self.at])
            self.at += 1
        if self.next() != "}":
            raise FormulaError(f"formula {self.source!r}: '}}' is missing.")
        return "".join(found)

    def _text(self) -> str:
        return f"<mtext>{escape(self.raw())}</mtext>"

    def _frac(self) -> str:
        return f"<mfrac>{self.single()}{self.single()}</mfrac>"

    def _sqrt(self) -> str:
        return f"<msqrt>{self.single()}</msqrt>"

    def _abs(self) -> str:
        return f'<mrow><mo stretchy="true">|</mo>{self.single()}<mo stretchy="true">|</mo></mrow>'

    def _bold(self) -> str:
        return f'<mi mathvariant="bold">{self.raw()}</mi>'

    def _left(self) -> str:
        return f'<mo stretchy="true">{escape(self.next())}</mo>'

    _right = _left

    def _fig(self) -> str:
        return f"<mn>{escape(self.figure(self.raw()))}</mn>"

    def _term(self) -> str:
        name = self.raw()
        return f'<mrow class="ask" data-ask="{escape(name)}">{self.single()}</mrow>'

    def _row(self) -> str:
        """A matrix: cells between &, rows between two backslashes."""
        if self.next() != "{":
            raise FormulaError(f"formula {self.source!r}: \\row expects a {{.")
        rows: list[list[str]] = [[""]]
        while (token := self.peek()) != "}":
            if token == "":
                raise FormulaError(f"formula {self.source!r}: '}}' is missing.")
            if token == "&":
                self.next()
                rows[-1].append("")
            elif token == "\\\\":
                self.next()
                rows.append([""])
            else:
                rows[-1][-1] += self.scripted()
        self.next()
        cells = "".join(
            "<mtr>" + "".join(f"<mtd>{cell}</mtd>" for cell in row) + "</mtr>" for row in rows
        )
        return (
            '<mrow><mo stretchy="true">(</mo>'
            f"<mtable>{cells}</mtable>"
            '<mo stretchy="true">)</mo></mrow>'
        )
