// @ts-check
/**
 * The teaching world's attention: twins of attnscope.lessons.world.
 *
 * Matrices are arrays of rows; query row, key column.
 */

import { dot, softmax } from "./softmax.js";

/**
 * @typedef {{tokens: string[], features: string[], heads: number, E: number[][], W_Q: number[][],
 *   W_K: number[][], W_V: number[][]}} World
 * @typedef {"none" | "before" | "after"} Mask   before or after the softmax
 */

/** @param {readonly (readonly number[])[]} a @param {readonly (readonly number[])[]} b @returns {number[][]} */
export function multiply(a, b) {
  return a.map((row) => b[0].map((_, j) => row.reduce((sum, one, i) => sum + one * b[i][j], 0)));
}

/** @param {readonly number[]} a @param {readonly number[]} b @returns {number} */
export function cosine(a, b) {
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

/**
 * Raw dot products of all queries with all keys, over the columns of a head or all of them.
 * @param {World} world
 * @param {number | null} [head]
 * @returns {number[][]}
 */
export function products(world, head = null) {
  const [from, to] = columns(world, head);
  const q = multiply(world.E, world.W_Q).map((row) => row.slice(from, to));
  const k = multiply(world.E, world.W_K).map((row) => row.slice(from, to));
  return q.map((one) => k.map((other) => dot(one, other)));
}

/**
 * The columns that a head reads: the first, and the one behind the last.
 * @param {World} world
 * @param {number | null} head
 * @returns {[number, number]}
 */
export function columns(world, head) {
  const width = world.W_Q[0].length;
  const part = width / world.heads;
  return head === null ? [0, width] : [head * part, (head + 1) * part];
}

/**
 * Attention weights; masked after the softmax a row keeps what its visible keys had.
 * @param {World} world
 * @param {{head?: number | null, mask?: Mask}} [how]
 * @returns {number[][]}
 */
export function weights(world, { head = null, mask = "before" } = {}) {
  const [from, to] = columns(world, head);
  const scale = Math.sqrt(to - from);
  return products(world, head).map((row, query) => {
    const seen = (/** @type {number} */ key) => mask === "none" || key <= query;
    const scores = row.map((one, key) => (mask !== "before" || seen(key) ? one / scale : -Infinity));
    return softmax(scores).map((one, key) => (seen(key) ? one : 0));
  });
}

/**
 * What each token takes: weights times values (or times keys, to see why not).
 * @param {World} world
 * @param {{head?: number | null, mask?: Mask, fetch?: "V" | "K"}} [how]
 * @returns {number[][]}
 */
export function outputs(world, { head = null, mask = "before", fetch = "V" } = {}) {
  const [from, to] = columns(world, head);
  const values = multiply(world.E, fetch === "V" ? world.W_V : world.W_K).map((row) => row.slice(from, to));
  return multiply(weights(world, { head, mask }), values);
}
