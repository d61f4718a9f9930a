// @ts-check
/**
 * Reading heads: the rules that name them, what arrives of a weight, and a circuit of two heads by
 * hand. Twins of attnscope.trace.kinds and attnscope.lessons.circuit.
 */

import { softmax } from "./softmax.js";

export const ASKED = ["previous-token", "induction", "sink", "local", "uniform"];

/**
 * A head's kind: the first rule whose share is large enough.
 * @param {readonly (number | null)[]} shares   by ASKED; null where too few rows count
 * @param {number} half
 * @returns {string}
 */
export function kindOf(shares, half) {
  const at = shares.findIndex((share) => share !== null && share >= half);
  return at < 0 ? "mixed" : ASKED[at];
}

/**
 * How many heads there are of each kind, "mixed" last.
 * @param {readonly {shares: (number | null)[]}[]} heads
 * @param {number} half
 * @returns {number[]}
 */
export function counts(heads, half) {
  const kinds = heads.map((one) => kindOf(one.shares, half));
  return [...ASKED, "mixed"].map((kind) => kinds.filter((one) => one === kind).length);
}

/**
 * What arrives from each key, as shares of all that arrives: weight times the norm of W_O v.
 * @param {readonly number[]} weights
 * @param {readonly number[]} norms
 * @returns {number[]}
 */
export function arrivedShares(weights, norms) {
  const arrived = weights.map((w, key) => w * norms[key]);
  const sum = arrived.reduce((a, b) => a + b, 0);
  return arrived.map((one) => (sum > 0 ? one / sum : 0));
}

/**
 * All that arrives (the sum of lengths), against what an even row over the same keys would bring.
 * @param {readonly number[]} weights
 * @param {readonly number[]} norms
 * @returns {number}
 */
export function againstEven(weights, norms) {
  const arrived = weights.reduce((sum, w, key) => sum + w * norms[key], 0);
  return arrived / (weights.reduce((sum, _, key) => sum + norms[key], 0) / weights.length);
}

/**
 * The last token's look-up by hand-made heads, and what it says comes next.
 *
 * With two layers, a head of the first brings every token the name of the one before it, and a head
 * of the second looks for tokens whose predecessor is the asker. With one, it looks for its own name.
 * @param {readonly string[]} tokens
 * @param {number} sharpness   what a match scores
 * @param {boolean} two
 * @returns {{weights: number[], names: string[], next: number[]}}
 */
export function circuit(tokens, sharpness, two) {
  const names = [...new Set(tokens)];
  const known = tokens.map((token) => names.map((name) => Number(name === token)));
  const before = tokens.map((_, i) => {
    if (i === 0) return names.map(() => 0);
    const w = softmax(tokens.slice(0, i + 1).map((__, j) => (j === i - 1 ? sharpness : 0)));
    return names.map((__, name) => w.reduce((sum, one, j) => sum + one * known[j][name], 0));
  });
  const asker = known[tokens.length - 1];
  const keys = two ? before : known;
  const weights = softmax(keys.map((key) => sharpness * key.reduce((sum, one, name) => sum + one * asker[name], 0)));
  const next = names.map((_, name) => weights.reduce((sum, one, j) => sum + one * known[j][name], 0));
  return { weights, names, next };
}
