// @ts-check
/**
 * The tiles of one head and measure: what is here, what is asked for, what stands in meanwhile.
 *
 * The idea: `want` is told once a frame what the view needs; it asks for what is missing, lets go of
 * what is no longer seen, and, once all is here and the view is still, fetches the neighbours; these
 * it lets go as soon as something that is seen is missing. `find` gives the best that is here: the
 * tile itself, or its nearest ancestor. The top tile is asked for first and never dropped, so
 * something is always there.
 *
 * Not here: geometry (pyramid.js), the wire (http.js).
 */

import { isAbort } from "./errors.js";
import { LruBytes } from "./lru.js";
import { parentOf, tilesIn } from "./pyramid.js";
import { bytesOf } from "./records.js";

/** @typedef {import("../types.js").DataSource} DataSource */
/** @typedef {import("../types.js").HeadRef} HeadRef */
/** @typedef {import("../types.js").LayerInfo} LayerInfo */
/** @typedef {import("../types.js").Measure} Measure */
/** @typedef {import("../types.js").Tile} Tile */
/** @typedef {import("./pyramid.js").Place} Place */
/** @typedef {import("./pyramid.js").Rect} Rect */

const HOLD_BYTES = 96 << 20;
/** Neighbours are asked for in small portions: a request under way delays what is seen next. */
const PREFETCH = 4;
/** Milliseconds without a movement, after which neighbours are fetched. */
const STILL_MS = 150;
/** After a failure a tile is left alone this long. */
const PAUSE_MS = 2000;

/**
 * @param {Place} place
 * @returns {string}
 */
export function nameOf({ level, x, y }) {
  return `${level}/${x}/${y}`;
}

export class TileSet {
  /**
   * @param {object} options
   * @param {DataSource} options.source
   * @param {HeadRef} options.of
   * @param {Measure} options.measure
   * @param {LayerInfo} options.layer
   * @param {() => void} options.onArrive    something new is here: draw again
   * @param {(error: unknown) => void} options.onError
   * @param {number} [options.holdBytes]
   * @param {() => number} [options.now]     milliseconds
   * @param {number} [options.stillMs]
   */
  constructor({ source, of, measure, layer, onArrive, onError, holdBytes = HOLD_BYTES, now = () => Date.now(), stillMs = STILL_MS }) {
    this.source = source;
    this.of = of;
    this.measure = measure;
    this.layer = layer;
    this.onArrive = onArrive;
    this.onError = onError;
    this.now = now;
    /** @type {LruBytes<Tile>} */
    this.held = new LruBytes(holdBytes);
    /** @type {Tile | null} */
    this.topTile = null;
    /** @type {Map<string, {stop: AbortController, early: boolean}>} */
    this.asked = new Map();
    /** @type {Map<string, number>} when a failed tile may be tried again */
    this.paused = new Map();
    this.stillMs = stillMs;
    /** Where the view was last, and since when. */
    this.view = { name: "", since: 0 };
    /** @type {ReturnType<typeof setTimeout> | null} */
    this.later = null;
    this.closed = false;
  }

  /** @returns {Place} */
  get top() {
    return { level: this.layer.levels - 1, x: 0, y: 0 };
  }

  /**
   * What the view needs now; what it needed before and no longer does is let go.
   * @param {number} level
   * @param {Rect} rect     in this head's own rows and keys
   */
  want(level, rect) {
    if (this.closed) return;
    const seen = rect.width > 0 && rect.height > 0 ? tilesIn(this.layer, level, rect) : [];
    const wanted = new Set(seen.map(nameOf));
    if (!this.topTile) wanted.add(nameOf(this.top));
    const ahead = seen.length ? this.ahead(level, rect) : [];
    const near = new Set(ahead.map(nameOf));
    const missing = seen.filter((place) => this.fresh(place));
    const holdsTop = level === this.top.level && seen.length > 0;
    if (!this.topTile && !holdsTop && this.fresh(this.top)) missing.unshift(this.top);
    const due = missing.length > 0 || [...wanted].some((name) => this.asked.has(name));
    for (const [name, request] of this.asked) {
      if (wanted.has(name)) request.early = false;
      else if (due || !(request.early && near.has(name))) request.stop.abort();
    }
    if (missing.length) this.ask(missing, false);
    else if (!due) this.whenStill(level, rect, () => this.prefetch(ahead));
  }

  /**
   * @param {number} level @param {Rect} rect
   * @param {() => void} call   at once where the view has been there for a while, else the next time that it is wanted
   */
  whenStill(level, rect, call) {
    const name = `${level} ${rect.x} ${rect.y} ${rect.width} ${rect.height}`;
    if (name !== this.view.name) this.view = { name, since: this.now() };
    const wait = this.view.since + this.stillMs - this.now();
    if (wait <= 0) return call();
    if (this.later !== null) clearTimeout(this.later);
    this.later = setTimeout(() => this.want(level, rect), wait);
  }

  /**
   * What may be seen next: the parents, for zooming out, and the neighbours.
   * @param {number} level
   * @param {Rect} rect
   * @returns {Place[]}
   */
  ahead(level, rect) {
    const parents = level < this.top.level ? tilesIn(this.layer, level + 1, rect) : [];
    return [...parents, ...tilesIn(this.layer, level, rect, 1)];
  }

  /** @param {Place[]} ahead */
  prefetch(ahead) {
    if ([...this.asked.values()].some(({ early }) => early)) return;
    const next = ahead.filter((place) => this.fresh(place)).slice(0, PREFETCH);
    if (next.length) this.ask(next, true);
  }

  /**
   * Neither here nor asked for nor just failed.
   * @param {Place} place
   * @returns {boolean}
   */
  fresh(place) {
    const name = nameOf(place);
    if (this.held.peek(name) || this.asked.has(name)) return false;
    if (place.level === this.top.level && this.topTile) return false;
    return (this.paused.get(name) ?? 0) <= this.now();
  }

  /**
   * @param {Place[]} places
   * @param {boolean} early   before it is seen
   */
  ask(places, early) {
    for (const place of places) {
      const name = nameOf(place);
      const stop = new AbortController();
      this.asked.set(name, { stop, early });
      const { level, x, y } = place;
      const want = { ...this.of, measure: this.measure, level, at: /** @type {[number, number][]} */ ([[x, y]]) };
      this.source.tiles(want, stop.signal).then(
        ([tile]) => this.arrive(name, place, tile),
        (error) => this.fail(name, error),
      );
    }
  }

  /**
   * @param {string} name
   * @param {Place} place
   * @param {Tile} tile
   */
  arrive(name, place, tile) {
    this.asked.delete(name);
    if (this.closed) return;
    this.paused.delete(name);
    if (place.level === this.top.level) this.topTile = tile;
    else this.held.set(name, tile, bytesOf(tile));
    this.onArrive();
  }

  /**
   * @param {string} name
   * @param {unknown} error   told to the reader only where the tile is seen
   */
  fail(name, error) {
    const early = this.asked.get(name)?.early ?? false;
    this.asked.delete(name);
    if (isAbort(error) || this.closed) return;
    this.paused.set(name, this.now() + PAUSE_MS);
    if (!early) this.onError(error);
  }

  /**
   * The tile, or null.
   * @param {Place} place
   * @returns {Tile | null}
   */
  get(place) {
    if (place.level === this.top.level) return this.topTile;
    return this.held.get(nameOf(place)) ?? null;
  }

  /**
   * The tile or the nearest ancestor that is here.
   * @param {Place} place
   * @returns {Tile | null}
   */
  find(place) {
    for (let at = place; at.level <= this.top.level; at = parentOf(at)) {
      const tile = this.get(at);
      if (tile) return tile;
    }
    return null;
  }

  /** How many tiles that are seen are still to come. */
  get pending() {
    return [...this.asked.values()].filter(({ early }) => !early).length;
  }

  /** Lets go of everything. */
  close() {
    this.closed = true;
    if (this.later !== null) clearTimeout(this.later);
    for (const { stop } of this.asked.values()) stop.abort();
    this.asked.clear();
    this.held.clear();
    this.topTile = null;
  }
}
