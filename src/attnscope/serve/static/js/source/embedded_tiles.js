// @ts-check
/**
 * The pyramid of one head of a stand-alone page: the finest tiles from queries and keys, coarser ones
 * from four finer ones, or from the captured map where the page holds one.
 *
 * Formula (r = queries of a finer cell's row, fewer at the rim)
 *     mean = (sum over four cells of mean * r) / (sum over two rows of r);  max = the largest of the four
 *
 * Work is cut into pieces of some milliseconds, so that the page stays quick.
 *
 * Not here: the weights themselves (embedded_head.js).
 */

import { abortError } from "./errors.js";
import { LruBytes } from "./lru.js";
import { TILE } from "./pyramid.js";
import { bytesOf } from "./records.js";

/** @typedef {import("../types.js").Measure} Measure */
/** @typedef {import("../types.js").Tile} Tile */
/** @typedef {import("./embedded_head.js").EmbeddedHead} EmbeddedHead */
/** @typedef {{level: number, mean: Float32Array, max: Float32Array, argmax: Int32Array, columns: number}} Stored */

const PIECE_MS = 12;
const ROWS = 16;
const KEEP_BYTES = 64 << 20;

/** Lets the page do something else, where it has not for a while. */
export class Breather {
  constructor() {
    this.since = now();
  }

  /** @param {AbortSignal} [signal] */
  async rest(signal) {
    if (signal?.aborted) throw abortError();
    if (now() - this.since < PIECE_MS) return;
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.since = now();
    if (signal?.aborted) throw abortError();
  }
}

/** @returns {number} */
function now() {
  return performance.now();
}

export class EmbeddedTiles {
  /**
   * @param {EmbeddedHead} head
   * @param {Stored | null} stored   the captured map, of weights
   */
  constructor(head, stored) {
    this.head = head;
    this.stored = stored;
    /** @type {LruBytes<Tile>} */
    this.cache = new LruBytes(KEEP_BYTES);
    this.breather = new Breather();
  }

  /**
   * @param {Measure} measure
   * @param {number} level
   * @param {[number, number]} at   x, y
   * @param {AbortSignal} [signal]
   * @returns {Promise<Tile>}
   */
  async tile(measure, level, [x, y], signal) {
    const key = `${measure} ${level} ${x} ${y}`;
    const known = this.cache.get(key);
    if (known) return known;
    const size = 2 ** level;
    const cells = (/** @type {number} */ count, /** @type {number} */ place) =>
      Math.max(0, Math.min(TILE, Math.ceil(count / size) - place * TILE));
    /** @type {Tile} */
    const tile = {
      ...{ state: "masked", level, x, y, mean: null, max: null, argmax: null },
      ...{ width: cells(this.head.keys, x), height: cells(this.head.queries, y) },
    };
    if (level === this.stored?.level && measure === "weight") this.read(tile, this.stored);
    else if (level === 0) await this.compute(tile, measure, signal);
    else await this.pool(tile, measure, signal);
    this.cache.set(key, tile, bytesOf(tile));
    return tile;
  }

  /**
   * A part of the captured map.
   * @param {Tile} tile
   * @param {Stored} stored
   */
  read(tile, { mean, max, argmax, columns }) {
    const made = planes(tile);
    for (let row = 0; row < tile.height; row++) {
      const from = (tile.y * TILE + row) * columns + tile.x * TILE;
      for (const [to, plane] of /** @type {[any, any][]} */ ([[made.mean, mean], [made.max, max], [made.argmax, argmax]])) {
        to.set(plane.subarray(from, from + tile.width), row * tile.width);
      }
    }
    settle(tile, made);
  }

  /**
   * The weights themselves.
   * @param {Tile} tile
   * @param {Measure} measure
   * @param {AbortSignal} [signal]
   */
  async compute(tile, measure, signal) {
    const { width, height, x, y } = tile;
    const mean = new Float32Array(width * height);
    const out = new Float64Array(width);
    for (let row = 0; row < height; row++) {
      if (row % ROWS === 0) await this.breather.rest(signal);
      this.head.row(y * TILE + row, x * TILE, x * TILE + width, { measure, out });
      mean.set(out, row * width);
    }
    if (mean.some((value) => !Number.isNaN(value))) Object.assign(tile, { state: "values", mean, max: mean });
  }

  /**
   * Four tiles of the level below become one.
   * @param {Tile} tile
   * @param {Measure} measure
   * @param {AbortSignal} [signal]
   */
  async pool(tile, measure, signal) {
    const made = planes(tile);
    const span = TILE * 2 ** (tile.level - 1);
    for (const [right, down] of [[0, 0], [1, 0], [0, 1], [1, 1]]) {
      const [x, y] = [2 * tile.x + right, 2 * tile.y + down];
      if (x * span >= this.head.keys || y * span >= this.head.queries) continue;
      const finer = await this.tile(measure, tile.level - 1, [x, y], signal);
      if (finer.state === "values") this.merge(tile, made, finer);
      await this.breather.rest(signal);
    }
    const size = 2 ** tile.level;
    for (let at = 0; at < made.mean.length; at++) {
      const row = (tile.y * TILE + Math.floor(at / tile.width)) * size;
      made.mean[at] /= Math.min(row + size, this.head.queries) - row;
    }
    settle(tile, made);
  }

  /**
   * Adds the cells of a finer tile.
   * @param {Tile} tile
   * @param {ReturnType<typeof planes>} made   mean holds sums for now
   * @param {Tile} finer
   */
  merge(tile, made, finer) {
    const half = 2 ** finer.level;
    const [mean, max] = /** @type {[Float32Array, Float32Array]} */ ([finer.mean, finer.max]);
    for (let row = 0; row < finer.height; row++) {
      const down = finer.y * TILE + row;
      const rows = Math.min((down + 1) * half, this.head.queries) - down * half;
      for (let column = 0; column < finer.width; column++) {
        const from = row * finer.width + column;
        if (Number.isNaN(mean[from])) continue;
        const right = finer.x * TILE + column;
        const to = ((down >> 1) - tile.y * TILE) * tile.width + (right >> 1) - tile.x * TILE;
        made.mean[to] += mean[from] * rows;
        if (!(max[from] > made.max[to])) continue;
        made.max[to] = max[from];
        const found = finer.argmax ? finer.argmax[from] : 0;
        const [inRow, inKey] = [Math.floor(found / half), found % half];
        made.argmax[to] = (inRow + (down & 1) * half) * 2 * half + inKey + (right & 1) * half;
      }
    }
  }
}

/**
 * Planes of which nothing is known yet; sums are kept in float64.
 * @param {Tile} tile
 */
function planes({ width, height }) {
  const cells = width * height;
  return { mean: new Float64Array(cells), max: new Float32Array(cells).fill(-1), argmax: new Int32Array(cells).fill(-1) };
}

/**
 * Gives a tile its planes; where nothing was found it is masked.
 * @param {Tile} tile
 * @param {ReturnType<typeof planes>} made
 */
function settle(tile, made) {
  const mean = Float32Array.from(made.mean);
  let seen = false;
  for (let at = 0; at < mean.length; at++) {
    if (made.argmax[at] >= 0) seen = true;
    else mean[at] = made.max[at] = NaN;
  }
  if (seen) Object.assign(tile, { state: "values", mean, max: made.max, argmax: made.argmax });
}
