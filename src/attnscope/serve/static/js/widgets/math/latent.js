// @ts-check
/**
 * Latents in place of keys and values: twins of attnscope.lessons.experiments.latent (the teaching
 * world), attnscope.core.latent_parts (both forms) and attnscope.mechanisms.latent (their FLOPs).
 *
 * Matrices are arrays of rows; query row, key column.
 */

import { normals } from "./random.js";
import { dot, softmax } from "./softmax.js";
import { columns, multiply } from "./world.js";

/** @typedef {import("./world.js").World} World */

/** @param {readonly (readonly number[])[]} a @returns {number[][]} */
export function transpose(a) {
  return a[0].map((_, j) => a.map((row) => row[j]));
}

/**
 * Eigenvectors of a symmetric matrix as rows, those of the largest eigenvalues first (Jacobi's
 * rotations: each makes one pair of entries zero, and a few rounds leave none).
 * @param {readonly (readonly number[])[]} matrix
 * @returns {number[][]}
 */
export function eigenvectors(matrix) {
  const a = matrix.map((row) => [...row]);
  const n = a.length;
  const v = a.map((_, i) => a.map((__, j) => (i === j ? 1 : 0)));
  for (let round = 0; round < 60; round++) {
    for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) turn(a, v, p, q);
  }
  const order = [...a.keys()].sort((i, j) => a[j][j] - a[i][i]);
  return order.map((i) => v.map((row) => row[i]));
}

/** @param {number[][]} a @param {number[][]} v @param {number} p @param {number} q */
function turn(a, v, p, q) {
  if (a[p][q] === 0) return;
  const theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
  const t = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
  const c = 1 / Math.sqrt(t * t + 1);
  const s = t * c;
  for (let i = 0; i < a.length; i++) {
    const [x, y] = [a[i][p], a[i][q]];
    a[i][p] = c * x - s * y;
    a[i][q] = s * x + c * y;
  }
  const [first, second] = [a[p], a[q]];
  a[p] = first.map((x, i) => c * x - s * second[i]);
  a[q] = first.map((x, i) => s * x + c * second[i]);
  for (const row of v) {
    const [x, y] = [row[p], row[q]];
    row[p] = c * x - s * y;
    row[q] = s * x + c * y;
  }
}

/**
 * Keys and values made again from so many numbers a token, the best that so many can do here.
 * @param {World} world
 * @param {number} numbers
 * @returns {{latents: number[][], K: number[][], V: number[][]}}
 */
export function squeezed(world, numbers) {
  const both = world.W_K.map((row, i) => [...row, ...world.W_V[i]]);
  const made = multiply(world.E, both);
  const up = eigenvectors(multiply(transpose(made), made)).slice(0, numbers);
  const latents = multiply(made, transpose(up));
  const again = multiply(latents, up);
  const width = world.W_K[0].length;
  return { latents, K: again.map((row) => row.slice(0, width)), V: again.map((row) => row.slice(width)) };
}

/**
 * One key and one value for all heads: the mean of theirs, in every head's columns.
 * @param {World} world
 * @returns {{K: number[][], V: number[][]}}
 */
export function sharedHead(world) {
  const mean = (/** @type {number[][]} */ x) => x.map((row) => {
    const part = row.length / world.heads;
    return row.map((_, at) => {
      let sum = 0;
      for (let head = 0; head < world.heads; head++) sum += row[head * part + (at % part)];
      return sum / world.heads;
    });
  });
  return { K: mean(multiply(world.E, world.W_K)), V: mean(multiply(world.E, world.W_V)) };
}

/**
 * Causal weights of every head and what all of them fetch, of any keys and values.
 * @param {World} world
 * @param {number[][]} K
 * @param {number[][]} V
 * @returns {{weights: number[][][], outputs: number[][]}}
 */
export function readBy(world, K, V) {
  const Q = multiply(world.E, world.W_Q);
  const weights = Array.from({ length: world.heads }, (_, head) => {
    const [from, to] = columns(world, head);
    return Q.map((q, row) => {
      const scores = K.map((k, key) => (key <= row ? dot(q.slice(from, to), k.slice(from, to)) / Math.sqrt(to - from) : -Infinity));
      return softmax(scores);
    });
  });
  const outputs = Q.map((_, row) => V[0].map((__, at) => {
    const head = Math.floor((at * world.heads) / V[0].length);
    return V.reduce((sum, value, key) => sum + weights[head][row][key] * value[at], 0);
  }));
  return { weights, outputs };
}

export const DRAWN = { content: 4, rotary: 4, latent: 6, theta: 100 };

/**
 * One query and one key so many places apart, scored in both forms. Of a rotated key the absorbed
 * form has a query that was merged once, as if the distance were 0.
 * @param {number} seed
 * @param {number} distance
 * @param {"none" | "key" | "beside"} where   what is rotated: nothing, the expanded key, or numbers of their own
 * @returns {{expanded: number, absorbed: number}}
 */
export function bothForms(seed, distance, where) {
  const { content: N, rotary: D, latent: R, theta } = DRAWN;
  const drawn = Array.from(normals(seed, N + D + R + D + N * R));
  const take = (/** @type {number} */ count) => drawn.splice(0, count);
  const [q, qr, c, r] = [take(N), take(D), take(R), take(D)];
  const up = Array.from({ length: N }, () => take(R));
  const key = up.map((row) => dot(row, c));
  const query = transpose(up).map((row) => dot(row, q));
  if (where === "key") return { expanded: dot(rotated(q, distance, theta), key), absorbed: dot(query, c) };
  const beside = where === "beside" ? dot(rotated(qr, distance, theta), r) : 0;
  return { expanded: dot(q, key) + beside, absorbed: dot(query, c) + beside };
}

/**
 * Neighbouring pairs turned by a position, as RoPE does.
 * @param {readonly number[]} x
 * @param {number} place
 * @param {number} theta
 * @returns {number[]}
 */
export function rotated(x, place, theta) {
  return x.map((value, at) => {
    const pair = at - (at % 2);
    // Frequencies in float32, as every model has them.
    const angle = place * Math.fround(1 / Math.fround(theta ** Math.fround(pair / x.length)));
    return at % 2 ? value * Math.cos(angle) + x[pair] * Math.sin(angle) : value * Math.cos(angle) - x[pair + 1] * Math.sin(angle);
  });
}

/**
 * FLOPs of a layer's attention for new tokens behind cached ones, what both forms need left out.
 * @param {number} fresh
 * @param {number} cached
 * @param {{heads: number, nope: number, rope: number, value: number, rank: number}} sizes
 * @returns {{expanded: number, absorbed: number}}
 */
export function formFlops(fresh, cached, { heads, nope, rope, value, rank }) {
  const keys = fresh + cached;
  const up = 2 * rank * heads * (nope + value);
  return {
    expanded: keys * up + 2 * fresh * keys * heads * (nope + rope + value),
    absorbed: fresh * up + 2 * fresh * keys * heads * (2 * rank + rope),
  };
}
