"""The tile source: a trace as a pyramid of tiles, for any program that draws; numpy only.

    info(trace)                                       what there is to see
    tile(trace, layer, head, measure, level, x, y)    256 x 256 cells of one head's map
    token_table, heads, track, row, column, flow, cell, window, similar, expected
    handout(trace, heads)                             a part of some heads as JSON (docs/handout.md)
    encode(tile), encode_track, encode_row, …         the same as bytes
    Tiles(trace)                                      all of it with a cache, for a server

The two functions and the binary format are a contract, described in docs/tiles.md.
"""

from attnscope.tiles.about import TRACKS, heads, info
from attnscope.tiles.compare import Alike, Expected, expected, similar
from attnscope.tiles.grid import MEASURES, TILE
from attnscope.tiles.handouts import handout
from attnscope.tiles.held import Tiles
from attnscope.tiles.rows import Cell, Flow, Row, cell, column, flow, row
from attnscope.tiles.tiling import Tile, tile, window
from attnscope.tiles.tokens import token_table
from attnscope.tiles.tracks import TrackTile, track
from attnscope.tiles.wire import (
    decode,
    encode,
    encode_column,
    encode_flow,
    encode_row,
    encode_track,
)

__all__ = [
    "MEASURES",
    "TILE",
    "TRACKS",
    "Alike",
    "Cell",
    "Expected",
    "Flow",
    "Row",
    "Tile",
    "Tiles",
    "TrackTile",
    "cell",
    "column",
    "decode",
    "encode",
    "encode_column",
    "encode_flow",
    "encode_row",
    "encode_track",
    "expected",
    "flow",
    "handout",
    "heads",
    "info",
    "row",
    "similar",
    "tile",
    "token_table",
    "track",
    "window",
]
