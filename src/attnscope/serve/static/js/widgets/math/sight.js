// @ts-check
/**
 * Which earlier tokens a query reads: all, a window, those an indexer chooses, or entries of
 * several tokens. Twins of attnscope.core.chosen and of the pairs that attnscope.plan.flops counts.
 */

import { normals } from "./random.js";
import { dot } from "./softmax.js";

/**
 * @typedef {"full" | "window" | "chosen" | "entries"} Scheme
 * @typedef {{scheme: Scheme, tokens: number, window: number, count: number, ratio: number, seed: number}} Plan
 * @typedef {{map: number[][], read: number, scanned: number, kept: number}} Sight   map: 1 read as it is, 2 as part of an entry, 0 not read
 */

export const HEADS = 3;
export const WIDTH = 4;

/**
 * An indexer's scores of every query for every key: sum over heads of w relu(q . k / sqrt(d)).
 * @param {number} seed
 * @param {number} queries
 * @param {number} keys
 * @returns {number[][]}
 */
export function indexScores(seed, queries, keys) {
  const drawn = normals(seed, (queries * HEADS + keys) * WIDTH + queries * HEADS);
  const vector = (/** @type {number} */ at) => Array.from(drawn.subarray(at * WIDTH, (at + 1) * WIDTH));
  const offset = (queries * HEADS + keys) * WIDTH;
  const K = Array.from({ length: keys }, (_, at) => vector(queries * HEADS + at));
  return Array.from({ length: queries }, (_, t) => K.map((k) => {
    let sum = 0;
    for (let head = 0; head < HEADS; head++) {
      sum += drawn[offset + t * HEADS + head] * Math.max(0, dot(vector(t * HEADS + head), k) / Math.sqrt(WIDTH));
    }
    return sum;
  }));
}

/**
 * The places of the largest scores among the first so many, best first; of equal ones the later.
 * @param {readonly number[]} scores
 * @param {number} visible
 * @param {number} count
 * @returns {number[]}
 */
export function best(scores, visible, count) {
  const places = Array.from({ length: visible }, (_, at) => at);
  return places.sort((a, b) => scores[b] - scores[a] || b - a).slice(0, count);
}

/**
 * The scores of an indexer that knows a real head's: of each key, or of each entry the log of the
 * sum of the exponentials of its tokens'.
 * @param {readonly (readonly (number | null)[])[]} scores
 * @param {number} ratio   tokens in an entry
 * @returns {number[][]}
 */
export function knownScores(scores, ratio) {
  return scores.map((row) => Array.from({ length: Math.floor(row.length / ratio) }, (_, group) => {
    const part = row.slice(group * ratio, (group + 1) * ratio).map((one) => one ?? -Infinity);
    const top = Math.max(...part);
    return top === -Infinity ? top : top + Math.log(part.reduce((sum, one) => sum + Math.exp(one - top), 0));
  }));
}

/**
 * What every query of a text reads under a plan, and what reading, choosing and keeping come to.
 * @param {Plan} plan
 * @param {readonly (readonly (number | null)[])[]} [real]   scores to choose by, in the place of drawn ones
 * @returns {Sight}
 */
export function sightOf({ scheme, tokens, window, count, ratio, seed }, real) {
  const map = Array.from({ length: tokens }, () => new Array(tokens).fill(0));
  let [read, scanned] = [0, 0];
  const groups = Math.floor(tokens / ratio);
  const size = { full: 0, window: 0, chosen: tokens, entries: groups }[scheme];
  const scores = !size ? [] : real ? knownScores(real, scheme === "chosen" ? 1 : ratio) : indexScores(seed, tokens, size);
  map.forEach((row, t) => {
    const near = scheme === "full" ? t + 1 : scheme === "chosen" ? 0 : Math.min(t + 1, window);
    if (scheme === "entries") {
      const whole = Math.floor((t + 1) / ratio);
      scanned += whole;
      const picked = best(scores[t], whole, count);
      read += picked.length;
      picked.forEach((entry) => row.fill(2, entry * ratio, (entry + 1) * ratio));
    }
    if (scheme === "chosen") {
      scanned += t + 1;
      const picked = best(scores[t], t + 1, count);
      read += picked.length;
      picked.forEach((key) => { row[key] = 1; });
    }
    row.fill(1, t + 1 - near, t + 1);
    read += near;
  });
  const kept = scheme === "window" ? Math.min(tokens, window) : scheme === "entries" ? Math.min(tokens, window) + groups : tokens;
  return { map, read, scanned, kept };
}
