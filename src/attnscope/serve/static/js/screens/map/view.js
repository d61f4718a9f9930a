// @ts-check
/**
 * Where the map is looked at: from tokens to pixels and back, panning, zooming, flying.
 *
 * The idea: a view is the key and the query in the middle and the pixels per token; everything else
 * follows from it and the size of the picture. All functions are pure.
 *
 * Units: css pixels and tokens; a query is y, a key is x.
 *
 * Not here: which tiles a view needs (source/pyramid.js), input (pointer.js).
 */

/** @typedef {{x: number, y: number, pixels: number}} View */
/** @typedef {{width: number, height: number}} Size    of the picture, pixels */
/** @typedef {{keys: number, queries: number}} Extent  of the map, tokens */
/** @typedef {import("../../source/pyramid.js").Rect} Rect */

export const LARGEST_CELL = 96;
/** How much further out than everything one may go. */
const SMALLEST = 0.8;
/** So many pixels of the map always stay in sight. */
const IN_SIGHT = 60;

/**
 * All of the map, in the top left corner, where its axes are.
 * @param {Extent} extent
 * @param {Size} size
 * @returns {View}
 */
export function fitView({ keys, queries }, { width, height }) {
  const pixels = Math.min(LARGEST_CELL / 2, width / Math.max(keys, 1), height / Math.max(queries, 1));
  const safe = Math.max(pixels, 1e-6);
  return { x: width / 2 / safe, y: height / 2 / safe, pixels: safe };
}

/**
 * The part of the map that is seen, in tokens; it may reach beyond the map.
 * @param {View} view
 * @param {Size} size
 * @returns {Rect}
 */
export function seenRect({ x, y, pixels }, { width, height }) {
  return { x: x - width / 2 / pixels, y: y - height / 2 / pixels, width: width / pixels, height: height / pixels };
}

/**
 * @param {View} view
 * @param {Size} size
 * @param {{key: number, query: number}} place   with fractions
 * @returns {{left: number, top: number}}
 */
export function toPixels(view, size, { key, query }) {
  return {
    left: (key - view.x) * view.pixels + size.width / 2,
    top: (query - view.y) * view.pixels + size.height / 2,
  };
}

/**
 * @param {View} view
 * @param {Size} size
 * @param {{left: number, top: number}} point
 * @returns {{key: number, query: number}}   with fractions
 */
export function toTokens(view, size, { left, top }) {
  return {
    key: view.x + (left - size.width / 2) / view.pixels,
    query: view.y + (top - size.height / 2) / view.pixels,
  };
}

/**
 * The same view within bounds: hardly further out than all, not nearer than a cell as large as a
 * thumb, and never with the map out of sight.
 * @param {View} view
 * @param {Extent} extent
 * @param {Size} size
 * @returns {View}
 */
export function clampView(view, extent, size) {
  const least = SMALLEST * fitView(extent, size).pixels;
  const pixels = Math.min(LARGEST_CELL, Math.max(least, view.pixels));
  const within = (/** @type {number} */ at, /** @type {number} */ count, /** @type {number} */ long) => {
    const reach = Math.max(0, long / 2 - IN_SIGHT) / pixels;
    return Math.min(count + reach, Math.max(-reach, at));
  };
  return { x: within(view.x, extent.keys, size.width), y: within(view.y, extent.queries, size.height), pixels };
}

/**
 * The same view moved so that nothing beyond the map is seen; a map that is smaller than the picture
 * stands in the top left corner, as it does when all of it is shown.
 * @param {View} view
 * @param {Extent} extent
 * @param {Size} size
 * @returns {View}
 */
export function insideView(view, extent, size) {
  const { pixels } = clampView(view, extent, size);
  const within = (/** @type {number} */ at, /** @type {number} */ count, /** @type {number} */ long) => {
    const half = long / 2 / pixels;
    return Math.max(half, Math.min(count - half, at));
  };
  return { x: within(view.x, extent.keys, size.width), y: within(view.y, extent.queries, size.height), pixels };
}

/**
 * Moves the map by pixels.
 * @param {View} view
 * @param {number} right
 * @param {number} down
 * @returns {View}
 */
export function panBy(view, right, down) {
  return { ...view, x: view.x - right / view.pixels, y: view.y - down / view.pixels };
}

/**
 * Zooms so that what is under a point stays there.
 * @param {View} view
 * @param {Size} size
 * @param {{point: {left: number, top: number}, factor: number, extent: Extent}} how
 * @returns {View}
 */
export function zoomAt(view, size, { point, factor, extent }) {
  const fixed = toTokens(view, size, point);
  const { pixels } = clampView({ ...view, pixels: view.pixels * factor }, extent, size);
  return {
    x: fixed.key - (point.left - size.width / 2) / pixels,
    y: fixed.query - (point.top - size.height / 2) / pixels,
    pixels,
  };
}

/**
 * The least movement that brings a cell into sight, with a margin.
 * @param {View} view
 * @param {Size} size
 * @param {{key: number, query: number}} place   whole tokens
 * @returns {View}
 */
export function reveal(view, size, { key, query }) {
  const margin = Math.min(40, size.width / 4, size.height / 4);
  const { left, top } = toPixels(view, size, { key: key + 0.5, query: query + 0.5 });
  const move = (/** @type {number} */ at, /** @type {number} */ end) =>
    at < margin ? margin - at : at > end - margin ? end - margin - at : 0;
  return panBy(view, move(left, size.width), move(top, size.height));
}

/**
 * A way from one view to another that zooms out where it is long, as maps do: the smooth and efficient
 * path of van Wijk and Nuij (2003), whose speed on the screen is the same all along.
 * @param {View} from
 * @param {View} to
 * @param {Size} size
 * @returns {{at: (t: number) => View, length: number}}   t from 0 to 1
 */
export function flight(from, to, size) {
  const rho = Math.SQRT2;
  const [w0, w1] = [size.width / from.pixels, size.width / to.pixels];
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const distance = Math.hypot(dx, dy);
  const sign = w1 >= w0 ? 1 : -1;
  if (distance < 1e-6 * w0) {
    const length = Math.abs(Math.log(w1 / w0)) / rho;
    const width = (/** @type {number} */ t) => w0 * Math.exp(sign * rho * t * length);
    return { length, at: (t) => (t >= 1 ? to : { x: from.x + t * dx, y: from.y + t * dy, pixels: size.width / width(t) }) };
  }
  const b = (/** @type {number} */ one, /** @type {number} */ other, /** @type {number} */ side) =>
    (w1 * w1 - w0 * w0 + side * rho ** 4 * distance * distance) / (2 * (side > 0 ? one : other) * rho * rho * distance);
  const r0 = Math.log(Math.sqrt(b(w0, w1, 1) ** 2 + 1) - b(w0, w1, 1));
  const r1 = Math.log(Math.sqrt(b(w0, w1, -1) ** 2 + 1) - b(w0, w1, -1));
  const length = (r1 - r0) / rho;
  return {
    length,
    at: (t) => {
      if (t >= 1) return to;
      const s = t * length;
      const u = (w0 / (rho * rho)) * (Math.cosh(r0) * Math.tanh(rho * s + r0) - Math.sinh(r0));
      const width = (w0 * Math.cosh(r0)) / Math.cosh(rho * s + r0);
      return { x: from.x + (u / distance) * dx, y: from.y + (u / distance) * dy, pixels: size.width / width };
    },
  };
}
