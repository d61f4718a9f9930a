// @ts-check
/**
 * The variance experiment on the page: dot products of random vectors, and rows of them behind a
 * softmax. Twins of attnscope.lessons.twins.
 */

import { normals } from "./random.js";
import { entropy, jacobianNorm, softmax, total } from "./softmax.js";

const VALUE_WIDTH = 8;

/**
 * Dot products of random q and k of a width, each pair of its own.
 * @param {number} seed
 * @param {number} width
 * @param {number} pairs
 * @returns {number[]}
 */
export function products(seed, width, pairs) {
  const drawn = normals(seed * 1009 + width, 2 * width * pairs);
  return Array.from({ length: pairs }, (_, at) => {
    let sum = 0;
    const from = 2 * width * at;
    for (let a = 0; a < width; a++) sum += drawn[from + a] * drawn[from + width + a];
    return sum;
  });
}

/**
 * Standard deviation around the known mean 0.
 * @param {readonly number[]} values
 * @returns {number}
 */
export function spreadOf(values) {
  return Math.sqrt(total(values.map((one) => one * one)) / values.length);
}

/**
 * How many values fall into each of the bins between two ends; the end bins hold what lies beyond.
 * @param {readonly number[]} values
 * @param {number} low
 * @param {number} high
 * @param {number} bins
 * @returns {number[]}
 */
export function histogram(values, low, high, bins) {
  const counts = new Array(bins).fill(0);
  for (const one of values) {
    const at = Math.floor(((one - low) / (high - low)) * bins);
    counts[Math.min(bins - 1, Math.max(0, at))] += 1;
  }
  return counts;
}

/**
 * Rows of scores behind a softmax, undivided and divided by the root of the width: means over rows.
 *
 * The gradient is that of the loss |sum w_j v_j - v_right|^2 / 2 / VALUE_WIDTH at the scores; row i
 * has its right key at i modulo `keys`.
 * @param {number} seed
 * @param {number} width
 * @param {number} rows
 * @param {number} keys
 */
export function rowStatistics(seed, width, rows, keys) {
  const each = width * (keys + 1) + keys * VALUE_WIDTH;
  const drawn = normals(seed * 1009 + width + 500009, rows * each);
  return [1, 1 / Math.sqrt(width)].map((scale) => {
    const found = Array.from({ length: rows }, (_, row) =>
      oneRow(drawn.subarray(row * each, (row + 1) * each), width, keys, scale, row % keys));
    const mean = (/** @type {number} */ column) => total(found.map((one) => one[column])) / rows;
    return {
      maxWeight: mean(0),
      decided: found.filter((one) => one[0] > 0.99).length / rows,
      entropy: mean(1),
      jacobianNorm: mean(2),
      gradient: median(found.map((one) => one[3])),
    };
  });
}

/**
 * @param {Float64Array} drawn @param {number} width @param {number} keys @param {number} scale
 * @param {number} right
 * @returns {[number, number, number, number]}
 */
function oneRow(drawn, width, keys, scale, right) {
  const scores = Array.from({ length: keys }, (_, key) => {
    let sum = 0;
    for (let a = 0; a < width; a++) sum += drawn[a] * drawn[width * (key + 1) + a];
    return sum * scale;
  });
  const w = softmax(scores);
  const values = drawn.subarray(width * (keys + 1));
  const missing = Array.from({ length: VALUE_WIDTH }, (_, e) =>
    total(w.map((one, key) => one * values[key * VALUE_WIDTH + e])) - values[right * VALUE_WIDTH + e]);
  const slopes = w.map((_, key) =>
    total(missing.map((one, e) => one * values[key * VALUE_WIDTH + e])) / VALUE_WIDTH);
  const mean = total(slopes.map((one, key) => one * w[key]));
  const gradient = Math.sqrt(total(w.map((one, key) => (one * (slopes[key] - mean)) ** 2)));
  return [Math.max(...w), entropy(w), jacobianNorm(w), gradient];
}

/** @param {number[]} values @returns {number} */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length / 2;
  return sorted.length % 2 ? sorted[Math.floor(half)] : (sorted[half - 1] + sorted[half]) / 2;
}
