// @ts-check
/**
 * A head that learns to look up names, trained on the page: gradients worked out by hand. The twin
 * of attnscope.lessons.lookup, where PyTorch differentiates the same loss.
 *
 * The idea: a step lists names with values, asks for one of them, and moves W_Q and W_K against the
 * gradient. Vectors stand in flat arrays, one behind the other.
 */

import { bits, normals } from "./random.js";
import { entropy, softmax } from "./softmax.js";

const NAMES = 16;
const LISTED = 8;
const ROWS = 16;
const EMBEDDING = 8;
export const WIDTH = 64;
const VALUE_WIDTH = 4;

/** @typedef {"none" | "norm" | "clip"} Hold @typedef {{loss: number[], right: number[], largest: number[], entropy: number[]}} Run */

/**
 * What a step sees.
 * @param {number} seed
 * @param {number} step
 * @returns {{listed: number[][], right: number[], values: Float64Array}}
 */
export function rows(seed, step) {
  const start = seed * 7919 + step * 104729;
  const next = bits(start);
  const listed = [];
  const right = [];
  for (let row = 0; row < ROWS; row++) {
    const pool = Array.from({ length: NAMES }, (_, name) => name);
    for (let at = 0; at < LISTED; at++) {
      const other = at + (next() % (NAMES - at));
      [pool[at], pool[other]] = [pool[other], pool[at]];
    }
    listed.push(pool.slice(0, LISTED));
    right.push(next() % LISTED);
  }
  return { listed, right, values: normals(start + 1, ROWS * LISTED * VALUE_WIDTH) };
}

/**
 * Train the head; one number a step, those before the step's update.
 * @param {number} seed
 * @param {number} rate
 * @param {number} steps
 * @param {Hold} [hold]
 * @param {number} [threshold]   of QK-Clip
 * @returns {Run}
 */
export function train(seed, rate, steps, hold = "none", threshold = 10) {
  const size = EMBEDDING * WIDTH;
  const drawn = normals(seed, NAMES * EMBEDDING + 2 * size);
  const names = Array.from({ length: NAMES }, (_, at) => drawn.subarray(at * EMBEDDING, (at + 1) * EMBEDDING));
  const [wq, wk] = [0, 1].map((at) =>
    drawn.slice(NAMES * EMBEDDING + at * size, NAMES * EMBEDDING + (at + 1) * size).map((one) => one / Math.sqrt(EMBEDDING)));
  /** @type {Run} */
  const found = { loss: [], right: [], largest: [], entropy: [] };
  for (let step = 0; step < steps; step++) {
    const one = forward(rows(seed, step), names, wq, wk, hold);
    for (const name of /** @type {const} */ (["loss", "right", "largest", "entropy"])) found[name].push(one[name]);
    const factor = hold === "clip" && one.largest > threshold ? Math.sqrt(threshold / one.largest) : 1;
    for (const [w, slope] of /** @type {const} */ ([[wq, one.slopeQ], [wk, one.slopeK]]))
      for (let at = 0; at < w.length; at++) w[at] = (w[at] - rate * slope[at]) * factor;
  }
  return found;
}

/**
 * One step's numbers and the gradients at W_Q and W_K.
 * @param {ReturnType<typeof rows>} seen @param {Float64Array[]} names
 * @param {Float64Array} wq @param {Float64Array} wk @param {Hold} hold
 */
function forward({ listed, right, values }, names, wq, wk, hold) {
  const queries = names.map((name) => vector(name, wq, hold));
  const keys = names.map((name) => vector(name, wk, hold));
  const slopesQ = names.map(() => new Float64Array(WIDTH));
  const slopesK = names.map(() => new Float64Array(WIDTH));
  const one = { loss: 0, right: 0, largest: -Infinity, entropy: 0 };
  listed.forEach((list, row) => {
    const asked = list[right[row]];
    const scores = list.map((name) => product(queries[asked].x, keys[name].x) / Math.sqrt(WIDTH));
    const w = softmax(scores);
    const v = (/** @type {number} */ at, /** @type {number} */ e) => values[(row * LISTED + at) * VALUE_WIDTH + e];
    const missing = Array.from({ length: VALUE_WIDTH }, (_, e) =>
      w.reduce((sum, share, at) => sum + share * v(at, e), 0) - v(right[row], e));
    one.loss += missing.reduce((sum, m) => sum + m * m, 0) / (ROWS * VALUE_WIDTH);
    one.right += Number(w.indexOf(Math.max(...w)) === right[row]) / ROWS;
    one.largest = Math.max(one.largest, ...scores);
    one.entropy += entropy(w) / ROWS;
    // d loss / d w_j, through the Jacobian to the scores, through the product to q and k.
    const slopes = w.map((_, at) => (2 / (ROWS * VALUE_WIDTH)) * missing.reduce((sum, m, e) => sum + m * v(at, e), 0));
    const mean = w.reduce((sum, share, at) => sum + share * slopes[at], 0);
    list.forEach((name, at) => {
      const slope = (w[at] * (slopes[at] - mean)) / Math.sqrt(WIDTH);
      for (let d = 0; d < WIDTH; d++) {
        slopesQ[asked][d] += slope * keys[name].x[d];
        slopesK[name][d] += slope * queries[asked].x[d];
      }
    });
  });
  return { ...one, slopeQ: weightSlope(names, queries, slopesQ, hold), slopeK: weightSlope(names, keys, slopesK, hold) };
}

/**
 * A name's query or key, with the root mean square it was divided by (1 without a norm).
 * @param {Float64Array} name @param {Float64Array} w @param {Hold} hold
 */
function vector(name, w, hold) {
  const x = new Float64Array(WIDTH);
  for (let c = 0; c < EMBEDDING; c++) for (let d = 0; d < WIDTH; d++) x[d] += name[c] * w[c * WIDTH + d];
  const rms = hold === "norm" ? Math.sqrt(product(x, x) / WIDTH) : 1;
  return { x: x.map((value) => value / rms), rms };
}

/**
 * The gradient at a projection from those at the vectors it makes, back through the norm.
 * @param {Float64Array[]} names @param {{x: Float64Array, rms: number}[]} made
 * @param {Float64Array[]} slopes @param {Hold} hold
 */
function weightSlope(names, made, slopes, hold) {
  const found = new Float64Array(EMBEDDING * WIDTH);
  names.forEach((name, at) => {
    const { x, rms } = made[at];
    const along = hold === "norm" ? product(x, slopes[at]) / WIDTH : 0;
    for (let d = 0; d < WIDTH; d++) {
      const slope = (slopes[at][d] - along * x[d]) / rms;
      for (let c = 0; c < EMBEDDING; c++) found[c * WIDTH + d] += name[c] * slope;
    }
  });
  return found;
}

/** @param {Float64Array} a @param {Float64Array} b @returns {number} */
function product(a, b) {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += a[at] * b[at];
  return sum;
}
