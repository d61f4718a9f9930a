// @ts-check
/**
 * From scores to weights, and what depends on them: twins of attnscope.mechanisms.rivals.
 *
 * Not here: how weights are drawn.
 */

/** @typedef {"proportional" | "shifted" | "softmax" | "base_two"} Rule */

/**
 * Weights of a row by a rule, faults included; NaN where a sum is 0.
 * @param {readonly number[]} scores
 * @param {Rule} rule
 * @returns {number[]}
 */
export function weigh(scores, rule) {
  const mass = MASSES[rule](scores);
  const sum = total(mass);
  return mass.map((one) => (sum === 0 ? NaN : one / sum));
}

/** @param {readonly number[]} scores @param {number} base @returns {number[]} */
function powers(scores, base) {
  const largest = Math.max(...scores);
  return scores.map((s) => Math.exp((s - largest) * Math.log(base)));
}

/** @type {Record<Rule, (scores: readonly number[]) => number[]>} */
const MASSES = {
  proportional: (scores) => [...scores],
  shifted: (scores) => scores.map((s) => s - Math.min(...scores)),
  softmax: (scores) => powers(scores, Math.E),
  base_two: (scores) => powers(scores, 2),
};

/**
 * The softmax of scores divided by a temperature.
 * @param {readonly number[]} scores
 * @param {number} [temperature]
 * @returns {number[]}
 */
export function softmax(scores, temperature = 1) {
  return weigh(scores.map((s) => s / temperature), "softmax");
}

/**
 * Powers of any base above 1, in proportion.
 * @param {readonly number[]} scores
 * @param {number} base
 * @returns {number[]}
 */
export function powerWeights(scores, base) {
  const mass = powers(scores, base);
  const sum = total(mass);
  return mass.map((one) => one / sum);
}

/** @param {readonly number[]} values @returns {number} */
export function total(values) {
  return values.reduce((sum, one) => sum + one, 0);
}

/**
 * How each weight of a softmax moves with each score: diag(w) - w w^T.
 * @param {readonly number[]} w
 * @returns {number[][]}
 */
export function jacobian(w) {
  return w.map((a, i) => w.map((b, j) => (i === j ? a : 0) - a * b));
}

/**
 * The Frobenius norm of the Jacobian, summed around the largest weight as in Python.
 * @param {readonly number[]} w
 * @returns {number}
 */
export function jacobianNorm(w) {
  const first = w.indexOf(Math.max(...w));
  const rest = w.filter((_, at) => at !== first);
  const a = w[first];
  const [r1, r2, r3] = [1, 2, 3].map((k) => total(rest.map((one) => one ** k)));
  return Math.sqrt(Math.max(0, a ** 2 * r1 ** 2 + r2 * (1 + 2 * a ** 2) - 2 * r3 + r2 ** 2));
}

/**
 * Entropy in nats.
 * @param {readonly number[]} w
 * @returns {number}
 */
export function entropy(w) {
  return -total(w.map((one) => (one > 0 ? one * Math.log(one) : 0)));
}

/** @param {readonly number[]} a @param {readonly number[]} b @returns {number} */
export function dot(a, b) {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += a[at] * b[at];
  return sum;
}
