"""How many minutes a lesson takes its reader, from the page itself; nobody types that number.

The idea: what is read on the way through a lesson is counted on its page, after every figure has
become a number and every formula MathML, and divided by a pace that was measured. Doing is added:
a time for each experiment, and one for making up one's mind at each prediction.

    minutes = words / 238 + characters / 332 + experiments * 1 + predictions * 1/2

What is counted
    words          of letters or digits: in text, tables, code, a formula's explanations. Each sign
                   of a formula is one, as when it is read aloud, and so is a root or a fraction;
                   brackets and commas are not
    characters     Chinese ones; words and formulas between them are read at the pace of words
    on the way     what a prediction turns out to be, all steps of a design, the explanation of
                   every term of a formula: they unfold, but the lesson goes through them
What is not
    folded         `question` and `deeper`: a second reading, for whoever wants it
    practice       `exercises`: no reading, and done at each reader's own pace; the reader's notes
    looked at      steps of the flow that other lessons explain, names on the timeline, menus

Units: minutes.

Paper: Brysbaert 2019, doi 10.1016/j.jml.2019.104047, over 190 studies: adults read 238 words of
English non-fiction a minute in silence, 183 aloud. Chinese aloud is 255 characters a minute
(Trauzettel-Klosinski & Dietz 2012, doi 10.1167/iovs.11-8284, table 2: texts of equal content,
25 readers a language); in silence it is taken to be faster by as much as English is.

Not here: how long thinking takes. Whoever stops to reckon needs longer than this.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

WORDS: Final = 238.0
"""English words read in a minute."""
CHARACTERS: Final = 255 * WORDS / 183
"""Chinese characters read in a minute."""
EXPERIMENT: Final = 1.0
"""Minutes for the two or three drags of a widget, and a look at what each of them does."""
PREDICTION: Final = 0.5
"""Minutes for making up one's mind."""

WORD: Final = re.compile(r"[^\W_\u3400-\u9fff]+(?:[.,'’-][^\W_\u3400-\u9fff]+)*")
CHARACTER: Final = re.compile("[\u3400-\u9fff]")
SILENT: Final = re.compile(r"[()\[\]{},;|\s\u2061-\u2064]*")
"""Signs of a formula that nobody reads aloud."""

NOT_READ: Final = frozenset({
    "which", "question", "deeper", "exercises", "notes", "ask-hint", "choose", "known", "later",
})  # fmt: skip
"""Classes of elements that are not on the way."""
VOID: Final = frozenset({"br", "hr", "img", "input"})


def reading_minutes(html: str) -> float:
    """What reading a page's content takes, in minutes.

    Args:
        html: of the content alone, without bar and menus.

    >>> round(reading_minutes("<p>" + "word " * 476 + "</p>"), 3)
    2.0
    """
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.minutes()


class _Reader(HTMLParser):
    """Counts what stands in elements that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []
        self.words = self.characters = self.experiments = self.predictions = 0

    def minutes(self) -> float:
        read = self.words / WORDS + self.characters / CHARACTERS
        return read + self.experiments * EXPERIMENT + self.predictions * PREDICTION

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            return
        classes = set((dict(attrs).get("class") or "").split())
        inside = self.open[-1][1] if self.open else True
        # The list of names below "you are here" is a map.
        listed = tag == "ol" and any(name == "here" for name, _ in self.open)
        read = inside and not (classes & NOT_READ or tag == "nav" or listed)
        self.open.append(("here" if "here" in classes else tag, read))
        if read:
            self.experiments += "widget" in classes
            self.predictions += "predict" in classes
            self.words += tag in ("msqrt", "mfrac")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and self.open:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and not self.open[-1][1]:
            return
        if self.open and self.open[-1][0] in ("mi", "mn", "mo"):
            self.words += not SILENT.fullmatch(data)
            return
        self.words += len(WORD.findall(data))
        self.characters += len(CHARACTER.findall(data))
