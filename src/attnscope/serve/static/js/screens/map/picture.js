// @ts-check
/**
 * What the picture is made of: the tiles that are seen, or what stands in for them, as items to draw.
 *
 * Units: device pixels for boxes; tokens for rectangles.
 *
 * Not here: drawing the items (draw/), fetching (source/tiles.js).
 */

import { TILE, levelFor, parentOf, rectOf, shared, tilesIn, transposed } from "../../source/pyramid.js";
import { isRatio } from "../../draw/scale.js";

/** @typedef {import("../../draw/drawing.js").Item} Item */
/** @typedef {import("../../draw/drawing.js").Box} Box */
/** @typedef {import("../../draw/scale.js").Look} Look */
/** @typedef {import("../../source/pyramid.js").Rect} Rect */
/** @typedef {import("../../types.js").Tile} Tile */
/** @typedef {import("./subject.js").Subject} Subject */

/**
 * How tokens lie on the picture.
 * @typedef {object} Frame
 * @property {Rect} seen     tokens
 * @property {number} pixels device pixels per token
 * @property {Look} look
 */

/**
 * @param {Subject} subject
 * @param {Frame} frame
 * @param {boolean} swapped   in the upper triangle, rows as columns
 * @returns {Item[]}
 */
export function itemsOf(subject, frame, swapped) {
  if (!subject.hasMap) return [];
  const level = levelFor(frame.pixels, subject.layer.levels);
  const seen = swapped ? transposed(frame.seen) : frame.seen;
  const items = tilesIn(subject.layer, level, seen).map((place) => {
    const tile = subject.tiles.get(place);
    const rect = rectOf(place, subject.layer);
    if (tile) return itemOf(subject, frame, { tile, rect, level, swapped });
    const ancestor = subject.tiles.find(place);
    if (ancestor) return itemOf(subject, frame, { tile: ancestor, rect, level, swapped });
    return /** @type {Item} */ ({ kind: "pending", box: boxOf(rect, frame, swapped) });
  });
  return items.filter((item) => item !== null);
}

/**
 * @param {Rect} rect
 * @param {Frame} frame
 * @param {boolean} swapped
 * @returns {Box}
 */
function boxOf(rect, { seen, pixels }, swapped) {
  const placed = shared(swapped ? transposed(rect) : rect, seen) ?? { x: seen.x, y: seen.y, width: 0, height: 0 };
  const left = (placed.x - seen.x) * pixels;
  const top = (placed.y - seen.y) * pixels;
  return [left, top, left + placed.width * pixels, top + placed.height * pixels];
}

/**
 * @param {Subject} subject
 * @param {Frame} frame
 * @param {{tile: Tile, rect: Rect, level: number, swapped: boolean}} what
 *     rect: the part to draw; level: of the cells that are wanted there
 * @returns {Item | null}
 */
function itemOf(subject, frame, { tile, rect, level, swapped }) {
  if (tile.state === "masked") return null;
  const box = boxOf(rect, frame, swapped);
  if (tile.state === "missing") return { kind: "missing", box };
  const { look, seen, pixels } = frame;
  const parent = tile.level < subject.tiles.top.level ? subject.tiles.find(parentOf(tile)) : null;
  const standIn = parent && itemOf(subject, frame, { tile: parent, rect, level, swapped });
  const norms = subject.normsOf(tile, look);
  if (isRatio(look.scale) && !norms) return standIn ?? { kind: "pending", box };
  const size = 2 ** tile.level;
  const [x, y] = swapped ? [tile.y, tile.x] : [tile.x, tile.y];
  return {
    ...{ kind: "values", box, tile, norms, swapped, cell: size * pixels },
    origin: [(x * TILE * size - seen.x) * pixels, (y * TILE * size - seen.y) * pixels],
    gain: gainOf(tile, level, look),
    must: tile.level === subject.tiles.top.level,
    standIn,
  };
}

/**
 * A parent's mean sums over more keys than its child's: shared out evenly, it is the best guess.
 * Ratios and maxima need no such thing.
 * @param {Tile} tile
 * @param {number} level
 * @param {Look} look
 * @returns {number}
 */
function gainOf(tile, level, look) {
  return look.plane === "max" || isRatio(look.scale) ? 1 : 2 ** (level - tile.level);
}
