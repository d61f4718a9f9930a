// @ts-check
/**
 * Ways to hold scores: a lid, a soft cap, and QK-Clip head by head. Twins of numpy's minimum, of
 * attnscope.core's soft cap and of attnscope.mechanisms.qk_clip.
 */

import { clipFactor } from "./growth.js";

/** @typedef {"none" | "lid" | "soft"} Way */

/**
 * Scores as the softmax gets them.
 * @param {readonly number[]} scores
 * @param {Way} way
 * @param {number} threshold
 * @returns {number[]}
 */
export function held(scores, way, threshold) {
  if (way === "lid") return scores.map((s) => Math.min(s, threshold));
  return way === "soft" ? scores.map((s) => threshold * Math.tanh(s / threshold)) : [...scores];
}

/**
 * How much of a small move of each score comes through.
 * @param {readonly number[]} scores
 * @param {Way} way
 * @param {number} threshold
 * @returns {number[]}
 */
export function passed(scores, way, threshold) {
  if (way === "lid") return scores.map((s) => Number(s < threshold));
  return way === "soft" ? scores.map((s) => 1 - Math.tanh(s / threshold) ** 2) : scores.map(() => 1);
}

/**
 * What QK-Clip does to each head: the factor on its scores, on its W_Q and on its W_K.
 * @param {readonly number[]} largest   the largest score of each head
 * @param {number} threshold
 * @param {boolean} shared              whether all heads share one key
 * @returns {{gamma: number, q: number, k: number}[]}
 */
export function clipHeads(largest, threshold, shared) {
  return largest.map((m) => {
    const gamma = clipFactor(m, threshold);
    return { gamma, q: shared ? gamma : Math.sqrt(gamma), k: shared ? 1 : Math.sqrt(gamma) };
  });
}
