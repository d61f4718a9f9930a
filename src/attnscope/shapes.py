"""The one legend of letters, layouts and conventions that every part of attnscope follows.

At every public boundary q, k and v are laid out `[B, H, T, D]`; maps have the query as row and the
key as column, in code, in pictures and in words.

Shapes
    B  batch                       T  queries (rows)
    H  query heads                 S  keys (columns); the T queries stand at the end of the S keys
    G  key/value heads (H % G = 0) D  width of one query or key
    L  layers                      E  width of one value
    C  model width                 R  rank of a latent
    A lower-case letter is a part of its capital: t rows of one strip.

Units
    entropy in nats; distance in tokens; memory in bytes, with binary prefixes (GiB) written so;
    FLOPs with one multiply-add counted as two.

Window
    A window of w keys includes the query's own position: key j is in sight of query i
    when 0 <= i - j < w. Libraries that count otherwise are converted where they are called.

Not here: code. This module holds constants and words only.
"""

from typing import Final

LETTERS: Final[dict[str, str]] = {
    "B": "batch",
    "H": "query heads",
    "G": "key/value heads",
    "T": "queries",
    "S": "keys",
    "D": "width of one query or key",
    "E": "width of one value",
    "C": "model width",
    "R": "rank of a latent",
    "L": "layers",
}

KIB: Final = 1024
MIB: Final = 1024**2
GIB: Final = 1024**3
