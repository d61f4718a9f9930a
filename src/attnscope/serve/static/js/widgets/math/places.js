// @ts-check
/**
 * Tokens that know their places: twins of attnscope.lessons.places, which asks attnscope.positions.
 *
 * Pairs are halves: number m of a vector turns with number m + r/2, where r is how many turn.
 */

import { normals } from "./random.js";
import { dot, softmax } from "./softmax.js";
import { multiply } from "./world.js";

/** @typedef {"none" | "added" | "rotated"} Way */

/**
 * Angle per position of each pair.
 * @param {number} rotary
 * @param {number} theta
 * @returns {number[]}
 */
export function frequencies(rotary, theta) {
  return Array.from({ length: rotary / 2 }, (_, m) => theta ** ((-2 * m) / rotary));
}

/**
 * A vector turned by its position.
 * @param {readonly number[]} x
 * @param {number} place
 * @param {readonly number[]} turns   angle per position of each pair
 * @returns {number[]}
 */
export function rotate(x, place, turns) {
  const y = [...x];
  const half = turns.length;
  turns.forEach((turn, m) => {
    const [c, s] = [Math.cos(place * turn), Math.sin(place * turn)];
    y[m] = x[m] * c - x[m + half] * s;
    y[m + half] = x[m + half] * c + x[m] * s;
  });
  return y;
}

/**
 * Sines at even places and cosines at odd ones (Vaswani et al. 2017).
 * @param {number} place
 * @param {number} width
 * @returns {number[]}
 */
export function sinusoid(place, width) {
  return Array.from({ length: width }, (_, at) => {
    const angle = place * 10000 ** (-(at - (at % 2)) / width);
    return at % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

/** @param {readonly number[]} a @param {readonly number[]} b @returns {number[]} */
const plus = (a, b) => a.map((one, at) => one + b[at]);

/**
 * The product of one random query and key, the key at `start`, the query 0, 1, … further.
 * @param {number} seed @param {number} width
 * @param {{rotary: number, theta: number, way: Way, start: number, count: number}} how
 * @returns {number[]}
 */
export function scoresByDistance(seed, width, { rotary, theta, way, start, count }) {
  const drawn = Array.from(normals(seed, 2 * width));
  const [q, k] = [drawn.slice(0, width), drawn.slice(width)];
  const turns = frequencies(rotary, theta);
  const placed = (/** @type {number[]} */ x, /** @type {number} */ place) =>
    way === "none" ? x : way === "added" ? plus(x, sinusoid(place, width)) : rotate(x, place, turns);
  const key = placed(k, start);
  return Array.from({ length: count }, (_, distance) => dot(placed(q, start + distance), key));
}

/**
 * A captured head's scores of one query with keys, as if each token stood at another place: what was
 * turned by its own place is turned on. At one place all together they are as before any turning.
 * @param {{rotary: {turns: readonly number[], q: readonly (readonly number[])[], k: readonly (readonly number[])[]}, scale: number, softcap: number | null}} head
 *   q and k turned by the tokens' own numbers
 * @param {readonly [number, number]} query             a token and its place
 * @param {readonly (readonly [number, number])[]} keys
 * @returns {number[]}   scaled and soft-capped
 */
export function scoresAt({ rotary: { turns, q, k }, scale, softcap }, [query, place], keys) {
  const asks = rotate(q[query], place - query, turns);
  return keys.map(([key, there]) => capped(scale * dot(asks, rotate(k[key], there - key, turns)), softcap));
}

/** @param {number} score @param {number | null} softcap @returns {number} */
export function capped(score, softcap) {
  return softcap === null ? score : softcap * Math.tanh(score / softcap);
}

/**
 * A token's causal weights, by the tokens' numbers, when the sentence stands in another order, and
 * what it fetches.
 * @param {import("./world.js").World} world
 * @param {readonly number[]} order   the tokens' numbers as they stand
 * @param {number} row                the number of the token that asks
 * @param {{way: Way, start: number, theta?: number}} how
 * @returns {{weights: number[], output: number[]}}
 */
export function placedRow(world, order, row, { way, start, theta = 10000 }) {
  const x = order.map((token, at) => way === "added" ? plus(world.E[token], sinusoid(start + at, world.E[token].length)) : world.E[token]);
  let [q, k] = [multiply(x, world.W_Q), multiply(x, world.W_K)];
  const width = q[0].length;
  if (way === "rotated") {
    const turns = frequencies(width, theta);
    [q, k] = [q, k].map((rows) => rows.map((one, at) => rotate(one, start + at, turns)));
  }
  const asks = order.indexOf(row);
  const found = softmax(k.slice(0, asks + 1).map((one) => dot(q[asks], one) / Math.sqrt(width)));
  const weights = order.map(() => 0);
  found.forEach((one, at) => { weights[order[at]] = one; });
  return { weights, output: multiply([found], multiply(x, world.W_V).slice(0, asks + 1))[0] };
}

/**
 * How much a move changes what a random sequence fetches, relative to its size: with v plain, with
 * v rotated too, with v rotated and the output turned back.
 * @param {number} seed
 * @param {{width: number, tokens: number, move: number}} about
 * @returns {number[]}
 */
export function movedOutputs(seed, { width, tokens, move }) {
  const drawn = Array.from(normals(seed, 3 * tokens * width));
  const rows = (/** @type {number} */ which) => Array.from({ length: tokens }, (_, at) => {
    const from = (which * tokens + at) * width;
    return drawn.slice(from, from + width);
  });
  const [q, k, v] = [0, 1, 2].map(rows);
  const turns = frequencies(width, 10000);
  /** @param {number} start @returns {number[][][]} */
  const outputs = (start) => {
    const [turnedQ, turnedK, turnedV] = [q, k, v].map((all) => all.map((one, at) => rotate(one, start + at, turns)));
    const weights = turnedQ.map((one, at) => softmax(turnedK.slice(0, at + 1).map((key) => dot(one, key) / Math.sqrt(width))));
    const fetched = (/** @type {number[][]} */ values) => weights.map((row, at) => multiply([row], values.slice(0, at + 1))[0]);
    const turned = fetched(turnedV);
    return [fetched(v), turned, turned.map((one, at) => rotate(one, -(start + at), turns))];
  };
  const size = (/** @type {number[]} */ all) => Math.sqrt(dot(all, all));
  const [here, there] = [outputs(0), outputs(move)];
  return here.map((one, way) => {
    const before = one.flat();
    return size(there[way].flat().map((value, at) => value - before[at])) / size(before);
  });
}
