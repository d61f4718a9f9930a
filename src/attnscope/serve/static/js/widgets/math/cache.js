// @ts-check
/**
 * What generation computes and whether a cache changes a bit: twins of attnscope.lessons.figures.loops
 * and attnscope.lessons.twins_cache.
 *
 * float32 in a browser: every operation is rounded by Math.fround, which is exactly a float32
 * operation (for + - * / of float32 numbers float64 is wide enough to round twice without harm).
 */

import { normals } from "./random.js";

/** @typedef {{steps: {sight: number, computed: number[], again: number[]}[], total: number, again: number}} Fed */

/**
 * Keys and values that each step computes.
 * @param {number} prompt @param {number} generated @param {boolean} cached
 * @returns {Fed}
 */
export function feed(prompt, generated, cached) {
  /** @type {Set<number>} */
  const held = new Set();
  /** @type {Set<number>} */
  const ever = new Set();
  const steps = [];
  let total = 0;
  let again = 0;
  for (let step = 0; step < generated; step++) {
    if (!cached) held.clear();
    const sight = prompt + step;
    const one = { sight, computed: /** @type {number[]} */ ([]), again: /** @type {number[]} */ ([]) };
    for (let position = 0; position < sight; position++) {
      if (held.has(position)) continue;
      (ever.has(position) ? one.again : one.computed).push(position);
      held.add(position);
      ever.add(position);
    }
    total += one.computed.length + one.again.length;
    again += one.again.length;
    steps.push(one);
  }
  return { steps, total, again };
}

const f = Math.fround;

/** @typedef {"one" | "lanes"} Order   sums term by term, or in four lanes that are added at the end */

/** @param {readonly number[]} terms float32 @param {Order} order @returns {number} */
function sum(terms, order) {
  if (order === "one") return terms.reduce((held, term) => f(held + term), 0);
  const lanes = [0, 0, 0, 0];
  terms.forEach((term, at) => {
    lanes[at % 4] = f(lanes[at % 4] + term);
  });
  return f(f(lanes[0] + lanes[1]) + f(lanes[2] + lanes[3]));
}

/** @param {readonly number[]} row @param {readonly (readonly number[])[]} matrix @param {Order} order */
function project(row, matrix, order) {
  return matrix[0].map((_, column) => sum(row.map((x, at) => f(x * matrix[at][column])), order));
}

/**
 * One row of attention over the keys and values given, in float32.
 * @param {readonly number[]} q @param {readonly (readonly number[])[]} keys
 * @param {readonly (readonly number[])[]} values @param {Order} order
 * @returns {number[]}
 */
function attend(q, keys, values, order) {
  const scale = f(1 / f(Math.sqrt(q.length)));
  const scores = keys.map((k) => f(sum(q.map((x, at) => f(x * k[at])), order) * scale));
  const largest = Math.max(...scores);
  const powers = scores.map((s) => f(Math.exp(f(s - largest))));
  const all = sum(powers, order);
  const weights = powers.map((one) => f(one / all));
  return values[0].map((_, at) => sum(values.map((v, key) => f(weights[key] * v[at])), order));
}

const whole = new Uint32Array(1);
const real = new Float32Array(whole.buffer);

/** @param {number} value @returns {number} the nearest number of 16 bits (bfloat16), ties to even */
export function half(value) {
  real[0] = value;
  whole[0] = (whole[0] + 0x7fff + ((whole[0] >>> 16) & 1)) & 0xffff0000;
  return real[0];
}

/**
 * Outputs of a random causal head in float32, three ways.
 * @param {number} seed @param {number} tokens @param {number} width
 * @param {boolean} halved   whether the cache keeps bfloat16
 * @returns {{cached: number[][], anew: number[][], atOnce: number[][]}}
 */
export function threeWays(seed, tokens, width, halved) {
  const drawn = normals(seed, width * (tokens + 3 * width)).map(f);
  const rows = (/** @type {number} */ from, /** @type {number} */ count) =>
    Array.from({ length: count }, (_, at) => Array.from(drawn.slice((from + at) * width, (from + at + 1) * width)));
  const x = rows(0, tokens);
  const shrunk = f(1 / f(Math.sqrt(width)));
  const [wq, wk, wv] = [0, 1, 2].map((at) => rows(tokens + at * width, width).map((row) => row.map((one) => f(one * shrunk))));
  const keep = (/** @type {number[]} */ row) => (halved ? row.map(half) : row);

  /** @type {number[][]} */
  const keys = [];
  /** @type {number[][]} */
  const values = [];
  const cached = x.map((row) => {
    keys.push(keep(project(row, wk, "one")));
    values.push(keep(project(row, wv, "one")));
    return attend(project(row, wq, "one"), keys, values, "one");
  });
  const anew = x.map((row, at) => {
    const seen = x.slice(0, at + 1);
    return attend(project(row, wq, "one"), seen.map((one) => project(one, wk, "one")), seen.map((one) => project(one, wv, "one")), "one");
  });
  const [allKeys, allValues] = [wk, wv].map((matrix) => x.map((row) => project(row, matrix, "lanes")));
  const atOnce = x.map((row, at) => attend(project(row, wq, "lanes"), allKeys.slice(0, at + 1), allValues.slice(0, at + 1), "lanes"));
  return { cached, anew, atOnce };
}

/**
 * How many numbers of two tables differ, and by how much at most.
 * @param {readonly (readonly number[])[]} a @param {readonly (readonly number[])[]} b
 * @returns {{differ: number, of: number, largest: number}}
 */
export function compare(a, b) {
  const gaps = a.flatMap((row, at) => row.map((one, column) => Math.abs(one - b[at][column])));
  return { differ: gaps.filter((one) => one > 0).length, of: gaps.length, largest: Math.max(...gaps) };
}
