// @ts-check
/**
 * The view as it moves: dragged, zoomed, flying, fitted; written into the state when it rests.
 *
 * Not here: the geometry (view.js), what moves it (pointer.js, keys.js).
 */

import { clampView, fitView, flight, insideView, panBy, reveal, zoomAt } from "./view.js";

/** @typedef {import("./view.js").View} View */
/** @typedef {import("./view.js").Extent} Extent */
/** @typedef {import("./view.js").Size} Size */

const REST = 200;
/** Milliseconds of a flight per unit of its length, and its bounds. */
const PACE = 380;
const SHORTEST = 250;
const LONGEST = 1600;

export class Camera {
  /**
   * @param {object} options
   * @param {import("../../types.js").Store} options.store
   * @param {() => Extent} options.extent
   * @param {() => Size} options.plot
   * @param {() => void} options.ask        asks for a frame
   * @param {() => number} [options.now]    milliseconds
   * @param {() => boolean} [options.still] whether the reader wants no movement
   */
  constructor({ store, extent, plot, ask, now = () => performance.now(), still = reducedMotion }) {
    this.store = store;
    this.extent = extent;
    this.plot = plot;
    this.ask = ask;
    this.now = now;
    this.still = still;
    /** @type {View} */
    this.view = { x: 0, y: 0, pixels: 1 };
    this.fitted = true;
    /** @type {{at: (t: number) => View, to: View, start: number, duration: number, done: () => void} | null} */
    this.way = null;
    /** @type {ReturnType<typeof setTimeout> | null} */
    this.resting = null;
  }

  /** The view as the state holds it; null fits all. */
  get written() {
    return this.fitted ? null : this.view;
  }

  /** The view that is flown to, or the one that is shown. */
  get target() {
    return this.way?.to ?? this.view;
  }

  get flying() {
    return this.way !== null;
  }

  /** Takes the state's view, unless it is the one that this camera wrote. */
  take() {
    const { view } = this.store.get();
    if (JSON.stringify(view) === JSON.stringify(this.written) && view !== null) return;
    if (this.way && view !== null) return;
    this.way = null;
    this.fitted = view === null;
    this.view = view ?? fitView(this.extent(), this.plot());
    this.ask();
  }

  /** The view of this frame. @returns {View} */
  frame() {
    if (this.fitted && !this.way) this.view = fitView(this.extent(), this.plot());
    if (!this.way) return this.view;
    const { at, start, duration, done } = this.way;
    const t = Math.min(1, (this.now() - start) / duration);
    this.view = at(ease(t));
    if (t >= 1) {
      this.way = null;
      done();
    }
    return this.view;
  }

  /** @param {View} view */
  moveTo(view) {
    this.way = null;
    this.fitted = false;
    this.view = clampView(view, this.extent(), this.plot());
    this.ask();
    this.rest();
  }

  /** @param {number} right @param {number} down   css pixels */
  pan(right, down) {
    this.moveTo(panBy(this.view, right, down));
  }

  /** @param {number} factor @param {{left: number, top: number}} [point]   the middle, where none is given */
  zoom(factor, point) {
    const { width, height } = this.plot();
    const at = point ?? { left: width / 2, top: height / 2 };
    this.moveTo(zoomAt(this.view, this.plot(), { point: at, factor, extent: this.extent() }));
  }

  /** @param {{query: number, key: number}} pair */
  reveal(pair) {
    const next = reveal(this.target, this.plot(), pair);
    if (next.x !== this.view.x || next.y !== this.view.y) this.moveTo(next);
  }

  fit() {
    this.fly(fitView(this.extent(), this.plot()), () => {
      this.fitted = true;
      this.store.set({ view: null });
    });
  }

  /**
   * Flies to a place without leaving the map; where all of the map is shown it stays so.
   * @param {{query: number, key: number}} pair
   * @param {number} pixels   at least so many per token
   */
  flyTo({ query, key }, pixels) {
    const [extent, plot] = [this.extent(), this.plot()];
    if (this.fitted && this.view.pixels >= pixels) return;
    this.fly(insideView({ x: key + 0.5, y: query + 0.5, pixels: Math.max(this.view.pixels, pixels) }, extent, plot));
  }

  /** @param {View} target @param {() => void} [done] */
  fly(target, done = () => this.rest()) {
    const to = clampView(target, this.extent(), this.plot());
    const { at, length } = flight(this.view, to, this.plot());
    this.fitted = false;
    if (this.still() || !(length > 0.01)) {
      this.view = to;
      this.way = null;
      this.ask();
      return done();
    }
    const duration = Math.min(LONGEST, Math.max(SHORTEST, length * PACE));
    this.way = { at, to, start: this.now(), duration, done };
    return this.ask();
  }

  /** Writes the view into the state once it has come to rest. */
  rest() {
    if (this.resting !== null) clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.resting = null;
      if (this.way) return;
      // As a link holds it, so that a link shows the same to the pixel.
      if (!this.fitted) this.view = rounded(this.view);
      this.ask();
      this.store.set({ view: this.written });
    }, REST);
  }

  dispose() {
    if (this.resting !== null) clearTimeout(this.resting);
    this.way = null;
  }
}

/**
 * To nine digits: far below a pixel, and no longer in a link.
 * @param {View} view
 * @returns {View}
 */
function rounded({ x, y, pixels }) {
  const short = (/** @type {number} */ value) => Number(value.toPrecision(9));
  return { x: short(x), y: short(y), pixels: short(pixels) };
}

/**
 * Starts and ends gently.
 * @param {number} t
 * @returns {number}
 */
export function ease(t) {
  return t < 0.5 ? 4 * t ** 3 : 1 - (2 - 2 * t) ** 3 / 2;
}

/** @returns {boolean} */
function reducedMotion() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}
