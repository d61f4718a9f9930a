// @ts-check
/**
 * What each cell of a tile is compared with: an even spread over the keys in sight, or the head's own
 * mean at that distance. Computed here, so that changing the scale fetches nothing.
 *
 * The idea: both depend only on which keys a row sees. For causal layers, with or without a window,
 * that is known: query i at position p = i + S - T sees keys p - w < j <= p. A cell wholly in
 * sight is a product or a difference of sums known beforehand; only cells that the edge of sight
 * cuts are summed query by query.
 *
 * Formula (cell of queries I and keys J)
 *     uniform    mean over i in I of |J seen by i| / |keys seen by i|
 *     expected   mean over i in I of the sum over j in J seen by i of density(p_i - j)
 *     for the plane of maxima: the same for the one pair that the maximum belongs to
 *
 * Not here: layers whose sight is not of this kind; for them `uniform` tiles are fetched (compare.js).
 */

import { TILE, largestPair } from "../source/pyramid.js";

/** @typedef {import("../types.js").LayerInfo} LayerInfo */
/** @typedef {import("../types.js").Tile} Tile */
/** @typedef {"uniform" | "expected"} NormName */

/**
 * Whether sight follows from the layer's description alone.
 * @param {LayerInfo} layer
 * @returns {boolean}
 */
export function sightIsKnown(layer) {
  return layer.causal && !layer.cross && (layer.kind === "full" || layer.kind === "sliding");
}

export class Norms {
  /**
   * @param {LayerInfo} layer
   * @param {{cell: number, density: Float32Array} | null} expected   DataSource.expected
   */
  constructor(layer, expected) {
    this.layer = layer;
    this.window = layer.kind === "sliding" && layer.window ? layer.window : Infinity;
    this.shift = layer.keys - layer.queries;
    /** sums[d] = density(0) + ... + density(d - 1), so a run of distances is one difference */
    this.sums = expected ? cumulative(expected, layer.keys) : null;
    /** how many tiles may be computed before the next frame */
    this.allowance = Infinity;
    /** whether something was put off: draw again */
    this.owing = false;
    /** @type {Map<string, Map<number, number>>} expected of a cell by shape and distance */
    this.byDistance = new Map();
    /** @type {Float64Array | null} inverses[i] = sum of 1 / (keys seen) over queries before i */
    this.inverses = null;
    /** @type {WeakMap<Tile, Map<string, Float32Array>>} */
    this.known = new WeakMap();
  }

  /**
   * How many keys a query sees.
   * @param {number} query
   * @returns {number}
   */
  seenBy(query) {
    return Math.min(query + this.shift + 1, this.window);
  }

  /**
   * The norms of a tile's cells, or null where they cannot be had.
   * @param {Tile} tile
   * @param {NormName} name
   * @param {"mean" | "max"} plane
   * @returns {Float32Array | null}
   */
  of(tile, name, plane) {
    if (!sightIsKnown(this.layer) || (name === "expected" && !this.sums)) return null;
    const byName = this.known.get(tile) ?? new Map();
    this.known.set(tile, byName);
    const key = `${name} ${tile.level ? plane : "mean"}`;
    const known = byName.get(key);
    if (known) return known;
    if (this.allowance <= 0) {
      this.owing = true;
      return null;
    }
    this.allowance -= 1;
    const found = this.compute(tile, name, plane);
    byName.set(key, found);
    return found;
  }

  /**
   * @param {Tile} tile
   * @param {NormName} name
   * @param {"mean" | "max"} plane
   * @returns {Float32Array}
   */
  compute(tile, name, plane) {
    const { width, height, level } = tile;
    const norms = new Float32Array(width * height);
    const size = 2 ** level;
    for (let row = 0; row < height; row++) {
      const query = (tile.y * TILE + row) * size;
      const end = Math.min(query + size, this.layer.queries);
      for (let column = 0; column < width; column++) {
        const key = (tile.x * TILE + column) * size;
        const last = Math.min(key + size, this.layer.keys);
        const pair = plane === "max" && level ? largestPair(tile, column, row) : null;
        norms[row * width + column] = pair
          ? this.span(name, pair.query, pair.key, pair.key + 1)
          : this.mean(name, query, end, key, last);
      }
    }
    return norms;
  }

  /**
   * The norm of one cell.
   * @param {NormName} name
   * @param {number} query   first
   * @param {number} end     after the last query
   * @param {number} key
   * @param {number} last    after the last key
   * @returns {number}
   */
  mean(name, query, end, key, last) {
    if (name === "uniform" && this.whole(query, end, key, last)) {
      if (this.seenBy(query) === this.seenBy(end - 1)) return (last - key) / this.seenBy(query);
      return ((last - key) * this.inverse(query, end)) / (end - query);
    }
    if (name === "uniform") return this.slowly(name, { query, end, key, last });
    // The rest depends only on how far the cell is from the diagonal, its size and its height.
    const shape = `${last - key} ${end - query}`;
    const known = this.byDistance.get(shape) ?? new Map();
    this.byDistance.set(shape, known);
    const found = known.get(query - key) ?? this.slowly(name, { query, end, key, last });
    known.set(query - key, found);
    return found;
  }

  /**
   * The definition: query by query.
   * @param {NormName} name
   * @param {{query: number, end: number, key: number, last: number}} cell
   * @returns {number}
   */
  slowly(name, { query, end, key, last }) {
    let sum = 0;
    for (let i = query; i < end; i++) sum += this.span(name, i, key, last);
    return sum / (end - query);
  }

  /**
   * Whether every query of a cell sees every key of it.
   * @param {number} query @param {number} end @param {number} key @param {number} last
   * @returns {boolean}
   */
  whole(query, end, key, last) {
    return last - 1 <= query + this.shift && end - 1 + this.shift - key < this.window;
  }

  /**
   * Whether a tile hides a cell that the layer's description says is in sight.
   * @param {Tile} tile
   * @param {number} [left]   so many first keys were left out
   * @returns {boolean}
   */
  contradicts({ mean, width, height, level, x, y }, left = 0) {
    if (!mean) return false;
    const size = 2 ** level;
    for (let at = 0; at < width * height; at++) {
      if (!Number.isNaN(mean[at])) continue;
      const query = (y * TILE + Math.floor(at / width)) * size;
      const key = (x * TILE + (at % width)) * size;
      const end = Math.min(query + size, this.layer.queries);
      const last = Math.min(key + size, this.layer.keys);
      if (last > left && this.whole(query, end, key, last)) return true;
    }
    return false;
  }

  /**
   * Sum of 1 / (keys seen) over queries, from sums known beforehand.
   * @param {number} query
   * @param {number} end
   * @returns {number}
   */
  inverse(query, end) {
    if (!this.inverses) {
      this.inverses = new Float64Array(this.layer.queries + 1);
      for (let i = 0; i < this.layer.queries; i++) this.inverses[i + 1] = this.inverses[i] + 1 / this.seenBy(i);
    }
    return this.inverses[end] - this.inverses[query];
  }

  /**
   * What one query gives a run of keys.
   * @param {NormName} name
   * @param {number} query
   * @param {number} key
   * @param {number} last   after the last key
   * @returns {number}
   */
  span(name, query, key, last) {
    const place = query + this.shift;
    const from = Math.max(key, place - this.window + 1, 0);
    const to = Math.min(last, place + 1);
    if (from >= to) return 0;
    if (name === "uniform") return (to - from) / this.seenBy(query);
    const sums = /** @type {Float64Array} */ (this.sums);
    return sums[place - from + 1] - sums[place - to + 1];
  }
}

/**
 * @param {{cell: number, density: Float32Array}} expected
 * @param {number} keys
 * @returns {Float64Array}
 */
function cumulative({ cell, density }, keys) {
  const sums = new Float64Array(keys + 1);
  for (let distance = 0; distance < keys; distance++) {
    const place = Math.min(Math.floor(distance / cell), density.length - 1);
    sums[distance + 1] = sums[distance] + (place >= 0 ? density[place] || 0 : 0);
  }
  return sums;
}
