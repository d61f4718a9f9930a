// @ts-check
/**
 * What a widget is run on: a handout, one or two of its heads, and the token that asks.
 *
 * The idea: a widget asks here for a row of a few names, or for a window of the square; both say
 * what stands outside, so nothing is left out in silence.
 *
 * Not here: reading (handout.js), choosing (panel.js), rules and masks (the widgets).
 */

import { visibleScores } from "../math/seen.js";

/**
 * @typedef {import("./handout.js").Handout} Handout
 * @typedef {import("./handout.js").Head} Head
 * @typedef {object} Subject
 * @property {Handout} handout
 * @property {Head} head
 * @property {Head} other   a second head, where a widget compares two; else the same
 * @property {number} row   the query, counted from the first token of the handout
 */

/**
 * A row of the head as widgets edit it: the keys of the largest weights by name, the rest together.
 * @param {Subject} subject
 * @param {number} most   names
 * @param {import("../parts.js").Say} t
 * @returns {import("../math/row.js").Row & {keys: number[]}}
 */
export function rowOf({ handout, head, row }, most, t) {
  const { weights } = head;
  const seen = [...weights[row].keys()].filter((key) => weights[row][key] !== null && head.scores[row][key] !== null);
  const order = [...seen].sort((a, b) => Number(weights[row][b]) - Number(weights[row][a]) || a - b);
  const keys = order.slice(0, most).sort((a, b) => a - b);
  const others = order.slice(most).sort((a, b) => a - b);
  const { rest, sizes } = visibleScores(head, row, others);
  const count = others.length + head.outside.keys[row];
  return {
    keys,
    names: keys.map((key) => numbered(handout, key)),
    scores: keys.map((key) => Number(head.scores[row][key])),
    rest,
    restName: head.sink === null ? t("own.rest", { count }) : t("own.rest.sink", { count }),
    sizes: head.norms ? keys.map((key) => /** @type {number[]} */ (head.norms)[key]) : undefined,
    restSizes: sizes ?? undefined,
  };
}

/**
 * A token with its number in the text, from 1.
 * @param {Handout} handout
 * @param {number} at
 * @returns {string}
 */
export function numbered(handout, at) {
  return `${handout.start + at + 1} ${handout.names[at]}`;
}

/**
 * The tokens of a window of so many that holds a row and, where there are some, so many after it.
 * @param {Subject} subject
 * @param {number} most
 * @param {number} [after]
 * @returns {number[]}
 */
export function windowOf({ handout, row }, most, after = 0) {
  const n = handout.names.length;
  const first = Math.max(0, Math.min(row + after - most + 1, n - most));
  return Array.from({ length: Math.min(most, n) }, (_, at) => first + at);
}

/**
 * The next token here that a row may not see, though it has a score; null where there is none.
 * @param {Head} head
 * @param {number} row
 * @returns {number | null}
 */
export function hiddenFrom(head, row) {
  const found = head.weights[row].findIndex((one, key) => key > row && one === null && head.scores[row][key] !== null);
  return found < 0 ? null : found;
}
