"""The tile source: a trace as a pyramid of tiles, for any program that draws; numpy only.

    info(trace)                                       what there is to see
    tile(trace, layer, head, measure, level, x, y)    256 x 256 cells of one head's map

The two functions and the binary format are a contract, described in docs/tiles.md.
"""

from attnscope.tiles.about import TRACKS, heads, info
from attnscope.tiles.grid import MEASURES, TILE
from attnscope.tiles.tile import Tile, tile
from attnscope.tiles.tokens import token_table
from attnscope.tiles.wire import decode, encode

__all__ = [
    "MEASURES",
    "TILE",
    "TRACKS",
    "Tile",
    "decode",
    "encode",
    "heads",
    "info",
    "tile",
    "token_table",
]
