// @ts-check
/**
 * Scores and weights of a handout's head under other masks than the model's own, and with parts of
 * it away. Rows are those of the handout; what a row sees outside it counts as one key.
 *
 * Not here: reading a handout (own/handout.js).
 */

import { softmax } from "./softmax.js";

/** @typedef {import("../own/handout.js").Head} Head */

/**
 * The scores of some keys of a row, of what lies outside, and of the learned sink, and the norm of
 * what each would bring; null where norms are unknown.
 * @param {Head} head
 * @param {number} row
 * @param {readonly number[]} keys
 * @returns {{rest: number[], sizes: number[] | null}}
 */
export function visibleScores(head, row, keys) {
  const rest = keys.map((key) => Number(head.scores[row][key]));
  const sizes = head.norms ? keys.map((key) => /** @type {number[]} */ (head.norms)[key]) : null;
  const beyond = head.outside.logsumexp[row];
  if (beyond !== null) {
    rest.push(beyond);
    const weight = head.outside.weights[row];
    sizes?.push(weight > 0 && head.outside.arrived ? head.outside.arrived[row] / weight : 0);
  }
  if (head.sink !== null) {
    rest.push(head.sink);
    sizes?.push(0);
  }
  return { rest, sizes };
}

/**
 * A row's weights under a mask: the model's own before the softmax, none, or the same after it.
 * @param {Head} head
 * @param {number} row
 * @param {import("./world.js").Mask} mask
 * @param {number} [tokens]   as if the text ended behind so many tokens of the handout
 * @returns {{weights: number[], outside: number, sink: number}}
 */
export function maskedRow(head, row, mask, tokens = head.scores.length) {
  const seen = (/** @type {number} */ key) => head.weights[row][key] !== null;
  const scores = head.scores[row].slice(0, tokens).map((score, key) => (score === null || (mask === "before" && !seen(key)) ? -Infinity : score));
  const all = [...scores, head.outside.logsumexp[row] ?? -Infinity, head.sink ?? -Infinity];
  if (Math.max(...all) === -Infinity) return { weights: scores.map(() => 0), outside: 0, sink: 0 };
  const found = softmax(all);
  return {
    weights: found.slice(0, tokens).map((weight, key) => (mask === "after" && !seen(key) ? 0 : weight)),
    outside: found[tokens],
    sink: found[tokens + 1],
  };
}

/**
 * How much of a head's weight on these tokens lies on the pairs of a map, the mean over its rows.
 * @param {Head} head
 * @param {readonly (readonly number[])[]} map   0 for a pair that is not read
 * @returns {number}
 */
export function covered(head, map) {
  let [sum, rows] = [0, 0];
  head.weights.forEach((row, query) => {
    const all = row.reduce((/** @type {number} */ a, weight) => a + (weight ?? 0), 0);
    if (all === 0) return;
    rows += 1;
    sum += row.reduce((/** @type {number} */ a, weight, key) => a + (map[query][key] ? weight ?? 0 : 0), 0) / all;
  });
  return rows ? sum / rows : 0;
}
