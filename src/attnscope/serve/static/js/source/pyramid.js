// @ts-check
/**
 * Which level and which tiles of the pyramid a view needs.
 *
 * The idea: a cell of level n is 2^n tokens wide; the level is the finest whose cells are at least
 * one pixel of the device, so every cell is seen and no pixel hides two. All in plain numbers.
 *
 * Units: tokens unless a name says cells, tiles or pixels.
 *
 * Not here: fetching (tiles.js), drawing (draw/).
 */

/** @typedef {import("../types.js").LayerInfo} LayerInfo */
/** @typedef {{x: number, y: number, width: number, height: number}} Rect   keys x, queries y */
/** @typedef {{level: number, x: number, y: number}} Place */

export const TILE = 256;

/**
 * The finest level whose cells are at least one device pixel.
 * @param {number} pixels   device pixels per token
 * @param {number} levels   how many there are
 * @returns {number}
 */
export function levelFor(pixels, levels) {
  const wanted = Math.ceil(Math.log2(1 / pixels) - 1e-9);
  return Math.max(0, Math.min(levels - 1, wanted));
}

/**
 * How many tiles a level has.
 * @param {{queries: number, keys: number}} layer
 * @param {number} level
 * @returns {{columns: number, rows: number}}
 */
export function tilesAt(layer, level) {
  const span = TILE * 2 ** level;
  return { columns: Math.ceil(layer.keys / span), rows: Math.ceil(layer.queries / span) };
}

/**
 * Whether causality alone hides the whole tile: its first key is after its last query.
 * @param {LayerInfo} layer
 * @param {Place} place
 * @returns {boolean}
 */
export function aboveDiagonal(layer, { level, x, y }) {
  if (!layer.causal || layer.cross) return false;
  const span = TILE * 2 ** level;
  const lastQuery = Math.min((y + 1) * span, layer.queries) - 1;
  return x * span > lastQuery + layer.keys - layer.queries;
}

/**
 * The tiles of a level that touch a rectangle, the nearest to its middle first.
 * @param {LayerInfo} layer
 * @param {number} level
 * @param {Rect} rect
 * @param {number} [around]   so many tiles more on each side
 * @returns {Place[]}
 */
export function tilesIn(layer, level, rect, around = 0) {
  const span = TILE * 2 ** level;
  const { columns, rows } = tilesAt(layer, level);
  const from = (/** @type {number} */ low) => Math.max(0, Math.floor(low / span) - around);
  const to = (/** @type {number} */ high, /** @type {number} */ end) =>
    Math.min(end - 1, Math.ceil(high / span) - 1 + around);
  const found = [];
  for (let y = from(rect.y); y <= to(rect.y + rect.height, rows); y++) {
    for (let x = from(rect.x); x <= to(rect.x + rect.width, columns); x++) {
      if (!aboveDiagonal(layer, { level, x, y })) found.push({ level, x, y });
    }
  }
  const middle = { x: (rect.x + rect.width / 2) / span - 0.5, y: (rect.y + rect.height / 2) / span - 0.5 };
  const far = (/** @type {Place} */ p) => (p.x - middle.x) ** 2 + (p.y - middle.y) ** 2;
  return found.sort((a, b) => far(a) - far(b));
}

/**
 * The tile one level up that holds this one.
 * @param {Place} place
 * @returns {Place}
 */
export function parentOf({ level, x, y }) {
  return { level: level + 1, x: x >> 1, y: y >> 1 };
}

/**
 * What a tile covers.
 * @param {Place} place
 * @param {{queries: number, keys: number}} layer
 * @returns {Rect}
 */
export function rectOf({ level, x, y }, layer) {
  const span = TILE * 2 ** level;
  return {
    x: x * span,
    y: y * span,
    width: Math.min(span, layer.keys - x * span),
    height: Math.min(span, layer.queries - y * span),
  };
}

/**
 * What two rectangles share, or null.
 * @param {Rect} a
 * @param {Rect} b
 * @returns {Rect | null}
 */
export function shared(a, b) {
  const x = Math.max(a.x, b.x);
  const y = Math.max(a.y, b.y);
  const width = Math.min(a.x + a.width, b.x + b.width) - x;
  const height = Math.min(a.y + a.height, b.y + b.height) - y;
  return width > 0 && height > 0 ? { x, y, width, height } : null;
}

/**
 * Rows and columns change places: how the comparison lies in the upper triangle.
 * @param {Rect} rect
 * @returns {Rect}
 */
export function transposed({ x, y, width, height }) {
  return { x: y, y: x, width: height, height: width };
}

/**
 * The pair that the largest weight of a coarse cell belongs to.
 * @param {{level: number, x: number, y: number, width: number, argmax: Int32Array | null}} tile
 * @param {number} column   cell within the tile
 * @param {number} row
 * @returns {{query: number, key: number} | null}   null where masked
 */
export function largestPair(tile, column, row) {
  const cell = 2 ** tile.level;
  const query = (tile.y * TILE + row) * cell;
  const key = (tile.x * TILE + column) * cell;
  if (!tile.argmax) return { query, key };
  const found = tile.argmax[row * tile.width + column];
  if (found < 0) return null;
  return { query: query + Math.floor(found / cell), key: key + (found % cell) };
}
