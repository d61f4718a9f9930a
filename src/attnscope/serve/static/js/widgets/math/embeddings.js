// @ts-check
/**
 * How alike embeddings are once what all of them have in common is taken away.
 *
 * The idea: norms and cosines give every dot product of the vectors, and those of the centred ones
 * follow from them; the vectors themselves are not needed.
 *
 * Formula
 *     G_ij = |x_i| |x_j| cos_ij        G' = H G H with H = I - 11^T / n        cos'_ij = G'_ij / sqrt(G'_ii G'_jj)
 */

import { total } from "./softmax.js";

/** What is left of a square by rounding, of the largest: norms and cosines have nine digits. */
const ROUNDING = 1e-7;

/**
 * The cosines of vectors behind their mean; null with one of which nothing is left.
 * @param {readonly number[]} norms
 * @param {readonly (readonly (number | null)[])[]} cosines   null with a vector of length 0
 * @returns {(number | null)[][]}
 */
export function centred(norms, cosines) {
  const G = cosines.map((row, i) => row.map((one, j) => norms[i] * norms[j] * (one ?? 0)));
  const means = G.map((row) => total(row) / row.length);
  const mean = total(means) / means.length;
  const left = G.map((row, i) => row.map((one, j) => one + mean - (means[i] + means[j])));
  const least = ROUNDING * Math.max(...norms.map((one) => one * one));
  const sizes = left.map((row, i) => (row[i] > least ? Math.sqrt(row[i]) : null));
  return left.map((row, i) => row.map((one, j) => {
    const [a, b] = [sizes[i], sizes[j]];
    return a === null || b === null ? null : Math.min(1, Math.max(-1, one / (a * b)));
  }));
}
