// @ts-check
/**
 * Linear attention in both orders, and a table of fixed size as a memory: the latter is a twin of
 * attnscope.mechanisms.gated_delta and attnscope.lessons.experiments.memory.
 */

import { normals } from "./random.js";
import { dot, softmax, total } from "./softmax.js";

/** @typedef {"add" | "delta" | "gated"} Rule */

/**
 * elu(x) + 1: what makes a query or a key positive, number by number.
 * @param {number} x
 * @returns {number}
 */
export function positive(x) {
  return x > 0 ? x + 1 : Math.exp(x);
}

/**
 * What a query takes from some keys and values by linear attention, in both orders of the products.
 * @param {readonly number[]} q
 * @param {readonly (readonly number[])[]} K
 * @param {readonly (readonly number[])[]} V   a value for each key, all of one width
 * @returns {{weights: number[], byWeights: number[], byTable: number[]}}
 */
export function linearRow(q, K, V) {
  const query = q.map(positive);
  const scores = K.map((k) => dot(query, k.map(positive)));
  const weights = scores.map((one) => one / total(scores));
  const byWeights = V[0].map((_, e) => total(V.map((v, at) => weights[at] * v[e])));
  // The same in the other order: the table and its sum go from token to token, and no key is kept.
  const table = q.map(() => V[0].map(() => 0));
  const sum = q.map(() => 0);
  K.forEach((k, at) => k.forEach((one, d) => {
    sum[d] += positive(one);
    V[at].forEach((value, e) => {
      table[d][e] += positive(one) * value;
    });
  }));
  const below = dot(query, sum);
  const byTable = V[0].map((_, e) => total(query.map((one, d) => one * table[d][e])) / below);
  return { weights, byWeights, byTable };
}

/**
 * The last of some random tokens, taking from all of them: by weights, by a table, and by a softmax.
 * @param {number} seed
 * @param {number} tokens
 * @param {number} width
 * @returns {{weights: number[], softmax: number[], byWeights: number[], byTable: number[]}}
 */
export function bothOrders(seed, tokens, width) {
  const drawn = normals(seed, width * (2 * tokens + 1));
  const rows = (/** @type {number} */ from, /** @type {number} */ count) => Array.from({ length: count }, (_, at) => Array.from(drawn.subarray((from + at) * width, (from + at + 1) * width)));
  const [q] = rows(0, 1);
  const K = rows(1, tokens);
  const V = rows(1 + tokens, tokens);
  const soft = softmax(K.map((k) => dot(q, k) / Math.sqrt(width)));
  return { ...linearRow(q, K, V), softmax: soft };
}

/**
 * Multiplications of a causal text, and numbers kept at its end, in both orders (one head).
 * @param {number} tokens
 * @param {number} width
 * @returns {{pairs: number, table: number, keptPairs: number, keptTable: number}}
 */
export function orderCosts(tokens, width) {
  return {
    pairs: tokens * (tokens + 1) * width,
    table: 2 * tokens * width * width + tokens * width,
    keptPairs: 2 * tokens * width,
    keptTable: width * width + width,
  };
}

/**
 * Random pairs: keys of length one, values of as many numbers.
 * @param {number} seed
 * @param {number} count
 * @param {number} width
 * @returns {{keys: number[][], values: number[][]}}
 */
export function pairsOf(seed, count, width) {
  const drawn = normals(seed, 2 * count * width);
  const row = (/** @type {number} */ at) => Array.from(drawn.subarray(at * width, (at + 1) * width));
  return {
    keys: Array.from({ length: count }, (_, at) => {
      const key = row(at);
      const length = Math.sqrt(dot(key, key));
      return key.map((one) => one / length);
    }),
    values: Array.from({ length: count }, (_, at) => row(count + at)),
  };
}

/**
 * The table after all pairs have been written, [width][numbers of a value].
 * @param {readonly (readonly number[])[]} keys
 * @param {readonly (readonly number[])[]} values
 * @param {{rule: Rule, rate?: number, decay?: number}} how   rate: share of the error that is corrected
 * @returns {number[][]}
 */
export function written(keys, values, { rule, rate = 1, decay = 1 }) {
  const S = keys[0].map(() => values[0].map(() => 0));
  keys.forEach((k, at) => {
    if (rule === "gated") S.forEach((row) => row.forEach((one, e) => { row[e] = decay * one; }));
    const found = recalled(S, k);
    const change = values[at].map((v, e) => (rule === "add" ? v : rate * (v - found[e])));
    S.forEach((row, d) => row.forEach((one, e) => { row[e] = one + k[d] * change[e]; }));
  });
  return S;
}

/**
 * What a key finds in a table.
 * @param {readonly (readonly number[])[]} S
 * @param {readonly number[]} key
 * @returns {number[]}
 */
export function recalled(S, key) {
  return S[0].map((_, e) => total(S.map((row, d) => row[e] * key[d])));
}

/**
 * How far off each pair is when its key is read again, relative to its value.
 * @param {readonly (readonly number[])[]} S
 * @param {readonly (readonly number[])[]} keys
 * @param {readonly (readonly number[])[]} values
 * @returns {number[]}
 */
export function offBy(S, keys, values) {
  return keys.map((key, at) => {
    const off = recalled(S, key).map((one, e) => one - values[at][e]);
    return Math.sqrt(dot(off, off) / dot(values[at], values[at]));
  });
}
