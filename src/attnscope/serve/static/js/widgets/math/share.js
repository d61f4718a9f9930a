// @ts-check
/**
 * The teaching world's heads with keys and values of their own, or shared: twins of
 * attnscope.mechanisms.grouped (grouped_attention and pool_heads).
 */

import { dot, softmax } from "./softmax.js";
import { columns, multiply } from "./world.js";

/** @typedef {"own" | "mean" | "first" | "last"} Sharing   mean: of all heads; first, last: that head's for all */

/**
 * @param {number[][]} all   [T, heads * d] @param {import("./world.js").World} world @param {Sharing} how @param {number} head
 * @returns {number[][]} what a head reads, [T, d]
 */
function read(all, world, how, head) {
  const part = (/** @type {number} */ which) => all.map((row) => row.slice(...columns(world, which)));
  if (how === "own") return part(head);
  if (how !== "mean") return part(how === "first" ? 0 : world.heads - 1);
  const parts = Array.from({ length: world.heads }, (_, which) => part(which));
  return parts[0].map((row, token) => row.map((_, at) => parts.reduce((sum, one) => sum + one[token][at], 0) / world.heads));
}

/**
 * Causal weights and outputs of each head.
 * @param {import("./world.js").World} world @param {Sharing} how
 * @returns {{weights: number[][][], outputs: number[][][]}} [heads, T, …]
 */
export function shared(world, how) {
  const [q, k, v] = [world.W_Q, world.W_K, world.W_V].map((matrix) => multiply(world.E, matrix));
  const heads = Array.from({ length: world.heads }, (_, head) => {
    const [from, to] = columns(world, head);
    const [keys, values] = [read(k, world, how, head), read(v, world, how, head)];
    const weights = q.map((row, query) => softmax(keys.map((key, at) =>
      (at <= query ? dot(row.slice(from, to), key) / Math.sqrt(to - from) : -Infinity))));
    return { weights, outputs: multiply(weights, values) };
  });
  return { weights: heads.map((one) => one.weights), outputs: heads.map((one) => one.outputs) };
}
