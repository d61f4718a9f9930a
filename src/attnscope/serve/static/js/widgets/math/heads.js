// @ts-check
/**
 * What one row of weights can bring and what two can, what heads cost, and ways to take nothing:
 * twins of attnscope.lessons.several, which asks attnscope.mechanisms and attnscope.core.
 */

import { dot, softmax, total } from "./softmax.js";
import { columns, multiply, products } from "./world.js";

/** @typedef {import("./world.js").World} World */
/** @typedef {"none" | "first" | "sink" | "zero" | "gate"} Way */

/** @param {readonly number[]} x @returns {number} */
const size = (x) => Math.sqrt(dot(x, x));

/**
 * What rows of weights bring, against the giver's value in head A's columns and the thing's in B's.
 * @param {World} world
 * @param {readonly (readonly number[])[]} scores   one row for all columns, or one for each head
 * @param {{giver: number, thing: number}} wanted   the numbers of the tokens
 * @returns {{weights: number[][], fetched: number[], wanted: number[], distance: number}}
 */
export function twoJobs(world, scores, { giver, thing }) {
  const weights = scores.map((row) => softmax(row));
  const values = multiply(world.E, world.W_V).slice(0, scores[0].length);
  const heads = [0, 1].map((head) => columns(world, head));
  const fetched = heads.flatMap(([from, to], head) =>
    multiply([weights[scores.length === 1 ? 0 : head]], values.map((row) => row.slice(from, to)))[0]);
  const asked = heads.flatMap(([from, to], head) => values[head ? thing : giver].slice(from, to));
  return { weights, fetched, wanted: asked, distance: size(fetched.map((one, at) => one - asked[at])) };
}

/**
 * Numbers learned and products made by multi-head attention with a key and a value for each head;
 * a product and the sum it goes into are two FLOPs.
 * @param {number} model
 * @param {number} heads
 * @param {number} width   of a head
 * @param {number} tokens
 * @returns {{joined: number, parameters: number, projections: number, pairs: number, softmaxes: number}}
 */
export function headCosts(model, heads, width, tokens) {
  const joined = heads * width;
  const parameters = 4 * model * joined;
  return { joined, parameters, projections: tokens * parameters, pairs: 2 * joined * tokens ** 2, softmaxes: heads * tokens };
}

/**
 * A row that may take nothing: weights of its keys, what else takes part, and what is fetched.
 * @param {readonly number[]} scores
 * @param {readonly (readonly number[])[]} values
 * @param {Way} way
 * @param {number} number   score of the first token, logit of the sink, number before the gate
 * @returns {{weights: number[], beside: number, kept: number, open: number, fetched: number[]}}
 */
export function takingNothing(scores, values, way, number) {
  const logit = way === "zero" ? 0 : way === "sink" || way === "first" ? number : -Infinity;
  const all = softmax([...scores, logit]);
  const weights = all.slice(0, -1);
  const open = way === "gate" ? 1 / (1 + Math.exp(-number)) : 1;
  const fetched = multiply([weights], values)[0].map((one) => one * open);
  return { weights, beside: all[all.length - 1], kept: total(weights), open, fetched };
}

/**
 * Scaled scores of a token with those that it sees, and their values.
 * @param {World} world
 * @param {number} row
 * @returns {{scores: number[], values: number[][]}}
 */
export function rowOf(world, row) {
  const scale = Math.sqrt(world.W_Q[0].length);
  return {
    scores: products(world)[row].slice(0, row + 1).map((one) => one / scale),
    values: multiply(world.E, world.W_V).slice(0, row + 1),
  };
}
