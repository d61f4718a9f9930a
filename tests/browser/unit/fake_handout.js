// @ts-check
/** Handouts as attnscope writes them, for the tests of what reads them. */

import { dot, softmax } from "../../../src/attnscope/serve/static/js/widgets/math/softmax.js";

/**
 * A handout of n tokens with causal heads.
 * @param {number} n
 * @param {{before?: number, sink?: number | null, heads?: [number, number][]}} [how]
 */
export function made(n, { before = 0, sink = null, heads = [[3, 1]] } = {}) {
  const scores = Array.from({ length: n }, (_, i) => Array.from({ length: n }, (__, j) => Math.sin(3 * i + 5 * j) * 4));
  return handout(scores, { before, sink, heads });
}

/**
 * The same with what widgets of embeddings and of places need: scores made of queries and keys of
 * 6 numbers, of which 4 turn, and embeddings of which the third is all zeros and the first comes twice.
 * @param {number} n   at least 5
 * @param {{softcap?: number | null, before?: number}} [how]
 */
export function madeWhole(n, { softcap = null, before = 0 } = {}) {
  const rows = (/** @type {number} */ seed) => Array.from({ length: n }, (_, i) => Array.from({ length: 6 }, (__, m) => 4 * Math.sin(seed + 7 * i + 3 * m)));
  const [q, k] = [rows(1), rows(2)];
  const cap = (/** @type {number} */ score) => (softcap === null ? score : softcap * Math.tanh(score / softcap));
  const found = handout(q.map((query) => k.map((key) => cap(0.125 * dot(query, key)))), { before, sink: null, heads: [[3, 1]] });
  const vectors = rows(3);
  vectors[2] = vectors[2].map(() => 0);
  vectors[4] = vectors[0];
  const norms = vectors.map((one) => Math.sqrt(dot(one, one)));
  const cosines = vectors.map((a, i) => vectors.map((b, j) => (norms[i] && norms[j] ? dot(a, b) / (norms[i] * norms[j]) : null)));
  return { ...found, embeddings: { norms, cosines }, heads: found.heads.map((one) => ({ ...one, softcap, rotary: { turns: [1, 0.01], q, k } })) };
}

/** @param {number[][]} scores @param {{before: number, sink: number | null, heads: [number, number][]}} how */
function handout(scores, { before, sink, heads }) {
  const n = scores.length;
  const outside = scores.map((_, i) => (before ? Math.cos(i) + Math.log(before) : null));
  const rows = scores.map((row, i) => softmax([...row.slice(0, i + 1), outside[i] ?? -Infinity, sink ?? -Infinity]));
  return {
    schema: "attnscope.head/1",
    model: "small",
    tokens: { count: n + before, start: before, labels: Array.from({ length: n }, (_, at) => ` w${at}`), spans: Array.from({ length: n }, (_, at) => [3 * at, 3 * at + 3]) },
    heads: heads.map(([layer, head]) => ({
      layer, head, kv_head: 0, kind: "induction", attention: "full", causal: true, window: null, scale: 0.125, softcap: null, sink,
      scores,
      weights: rows.map((row, i) => scores.map((_, j) => (j <= i ? row[j] : null))),
      norms: scores.map((_, j) => 1 + j),
      outside: { keys: scores.map(() => before), logsumexp: outside, weights: rows.map((row, i) => row[i + 1]), arrived: rows.map((row, i) => 2 * row[i + 1]) },
      sink_weights: rows.map((row, i) => row[i + 2]),
    })),
    all: heads.map(([layer, head]) => ({ layer, head, kind: "induction", share: 0.7, first: 0.2 })),
  };
}
