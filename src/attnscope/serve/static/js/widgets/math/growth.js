// @ts-check
/**
 * Scores of one query when projections have grown, and two ways to hold them: QK-norm and QK-Clip.
 * Twins of attnscope.mechanisms.qk_norm and qk_clip.
 */

import { normals } from "./random.js";
import { dot } from "./softmax.js";

/**
 * A vector over its root mean square.
 * @param {readonly number[]} x
 * @returns {number[]}
 */
export function rmsNorm(x) {
  const rms = Math.sqrt(dot(x, x) / x.length);
  return x.map((one) => one / rms);
}

/**
 * min(1, tau / largest): what scores are multiplied by so that none passes tau.
 * @param {number} largest
 * @param {number} tau
 * @returns {number}
 */
export function clipFactor(largest, tau) {
  return largest > tau ? tau / largest : 1;
}

/**
 * Scaled scores of a random query with random keys, q and k grown by a factor each.
 * @param {number} seed
 * @param {number} width
 * @param {number} keys
 * @param {number} growth
 * @param {{norm?: boolean, tau?: number | null}} [held]   tau: QK-Clip's threshold, null for none
 * @returns {number[]}
 */
export function grownScores(seed, width, keys, growth, { norm = false, tau = null } = {}) {
  const drawn = Array.from(normals(seed, width * (keys + 1)), (one) => one * growth);
  const vectors = Array.from({ length: keys + 1 }, (_, at) => {
    const x = drawn.slice(at * width, (at + 1) * width);
    return norm ? rmsNorm(x) : x;
  });
  const scores = vectors.slice(1).map((k) => dot(vectors[0], k) / Math.sqrt(width));
  const factor = tau === null ? 1 : clipFactor(Math.max(...scores), tau);
  return scores.map((one) => one * factor);
}
