// @ts-check
/**
 * From a value to a place on the colour bar, in four ways.
 *
 * Formula (v a value, n what it is compared with, both of one cell)
 *     raw        (v - low) / (high - low)
 *     log        log(v / low) / log(high / low)
 *     uniform    the same of v / n, n what a row that spreads evenly over its keys in sight gives
 *     expected   the same of v / n, n the head's own mean weight at that distance
 * cut to 0..1; a zero is at the low end.
 *
 * Units: shares of a row for weights, the model's own for what arrived, times n for the last two.
 *
 * Not here: n of each cell (norms.js), the same formula for the GPU (webgl.js).
 */

/** @typedef {"raw" | "log" | "uniform" | "expected"} ScaleName */
/** @typedef {import("../types.js").Measure} Measure */
/**
 * All that turns a value into a colour.
 * @typedef {object} Look
 * @property {ScaleName} scale
 * @property {"mean" | "max"} plane
 * @property {number} low     value at the dark end
 * @property {number} high
 * @property {import("./palettes.js").PaletteName} palette
 */

const DECADES = 5;

/**
 * Whether the scale compares with something, cell by cell.
 * @param {ScaleName} scale
 * @returns {boolean}
 */
export function isRatio(scale) {
  return scale === "uniform" || scale === "expected";
}

/**
 * Whether a scale has a meaning for a measure: only shares of a row can be compared with shares.
 * @param {ScaleName} scale
 * @param {Measure} measure
 * @returns {boolean}
 */
export function scaleFits(scale, measure) {
  return !isRatio(scale) || measure.startsWith("weight");
}

/**
 * The ends of the colour bar where the reader has not moved them.
 * @param {ScaleName} scale
 * @param {Measure} measure
 * @param {number} largest   of the whole head: only used for what arrived, which has no natural end
 * @returns {[number, number]}
 */
export function naturalRange(scale, measure, largest) {
  if (scale === "uniform") return [1e-2, 1e3];
  if (scale === "expected") return [1 / 16, 16];
  const top = measure.startsWith("arrived") ? roundUp(largest) : 1;
  return scale === "log" ? [top / 10 ** DECADES, top] : [0, top];
}

/**
 * The next of 1, 2, 5 times a power of ten.
 * @param {number} value
 * @returns {number}
 */
export function roundUp(value) {
  if (!(value > 0) || !Number.isFinite(value)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((one) => one * power >= value * (1 - 1e-6)) ?? 10;
  return step * power;
}

/**
 * Place on the colour bar, 0 to 1.
 * @param {Look} look
 * @param {number} value
 * @param {number} [norm]
 * @returns {number}
 */
export function placeOf({ scale, low, high }, value, norm = 1) {
  const cut = (/** @type {number} */ t) => Math.min(1, Math.max(0, t));
  if (scale === "raw") return cut((value - low) / (high - low));
  if (!(value > 0) || !(norm > 0)) return 0;
  return cut(Math.log2(value / norm / low) / Math.log2(high / low));
}

/**
 * The value at a place of the colour bar.
 * @param {Look} look
 * @param {number} place
 * @returns {number}
 */
export function valueAt({ scale, low, high }, place) {
  return scale === "raw" ? low + place * (high - low) : low * (high / low) ** place;
}

/**
 * Number of the colour, 0 to 255.
 * @param {Look} look
 * @param {number} value
 * @param {number} [norm]
 * @returns {number}
 */
export function colourIndex(look, value, norm = 1) {
  return Math.floor(placeOf(look, value, norm) * 255 + 0.5);
}

/**
 * Round values to write beside the bar, from low to high.
 * @param {Look} look
 * @returns {number[]}
 */
export function ticksOf(look) {
  const { scale, low, high } = look;
  if (scale === "raw") {
    const step = roundUp((high - low) / 5.001);
    const first = Math.ceil(low / step - 1e-9);
    const count = Math.floor(high / step + 1e-9) - first + 1;
    return Array.from({ length: count }, (_, i) => (first + i) * step);
  }
  const base = scale === "expected" ? 2 : 10;
  const log = (/** @type {number} */ v) => Math.log(v) / Math.log(base);
  const first = Math.ceil(log(low) - 1e-9);
  const count = Math.floor(log(high) + 1e-9) - first + 1;
  if (count < 2) return [low, high];
  const stride = Math.ceil(count / 9);
  return Array.from({ length: count }, (_, i) => base ** (first + i)).filter((_, i) => i % stride === 0);
}
