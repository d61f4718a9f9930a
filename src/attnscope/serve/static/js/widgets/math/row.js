// @ts-check
/**
 * A row of scores of which some have names, and the rest stands together under one.
 *
 * The idea: a real row sees more tokens than a reader can watch. Every rule is applied to all of
 * its scores, and only then what the nameless ones got is added up; so what is shown is exact for
 * any rule, base, temperature or cap.
 *
 * Not here: where a row comes from (own/subject.js, or a lesson's own numbers).
 */

import { softmax, total } from "./softmax.js";

/**
 * @typedef {object} Row
 * @property {string[]} names      of the scores that are shown one by one
 * @property {number[]} scores
 * @property {number[]} rest       the other scores; may be empty
 * @property {string} restName
 * @property {number[]} [sizes]    the norm of what each named key would bring
 * @property {number[]} [restSizes]
 */

/**
 * A lesson's own row: every score has a name.
 * @param {readonly string[]} names
 * @param {readonly number[]} scores
 * @returns {Row}
 */
export function plainRow(names, scores) {
  return { names: [...names], scores: [...scores], rest: [], restName: "" };
}

/**
 * What the bars of a row are called.
 * @param {Row} row
 * @returns {string[]}
 */
export function barNames(row) {
  return row.rest.length ? [...row.names, row.restName] : row.names;
}

/**
 * Values of all scores as they are shown: one by one, and what the rest comes to.
 * @param {readonly number[]} values   of the named, then of the rest
 * @param {number} named
 * @returns {number[]}
 */
export function gathered(values, named) {
  return values.length > named ? [...values.slice(0, named), total(values.slice(named))] : [...values];
}

/**
 * The weights of a row as they are shown.
 * @param {readonly number[]} scores
 * @param {readonly number[]} rest
 * @param {(all: number[]) => number[]} [rule]
 * @returns {number[]}
 */
export function weighed(scores, rest, rule = softmax) {
  return gathered(rule([...scores, ...rest]), scores.length);
}

/**
 * The score of one key that would take as much as all of these together; -Infinity of none.
 * @param {readonly number[]} scores
 * @returns {number}
 */
export function joint(scores) {
  const top = Math.max(...scores);
  return top === -Infinity ? top : top + Math.log(total(scores.map((one) => Math.exp(one - top))));
}

/**
 * Scores that several rows come to on average, key by key; a row that does not see a key has no say.
 * @param {readonly (readonly (number | null)[])[]} rows   null where a row does not see a key
 * @returns {number[]}   -Infinity where none does
 */
export function meanScores(rows) {
  return rows[0].map((_, key) => {
    const seen = rows.flatMap((row) => row[key] ?? []);
    return seen.length ? total(seen) / seen.length : -Infinity;
  });
}

/**
 * The ends of a slider for scores, wide enough for these.
 * @param {readonly number[]} scores
 * @param {number} low
 * @param {number} high
 * @returns {{min: number, max: number}}
 */
export function ends(scores, low, high) {
  return { min: Math.min(low, Math.floor(Math.min(...scores)) - 2), max: Math.max(high, Math.ceil(Math.max(...scores)) + 2) };
}

/**
 * A score as a slider's field shows it; the widget goes on with the whole number until it is moved.
 * @param {number} score
 * @param {number} step
 * @returns {number}
 */
export function toStep(score, step) {
  return Number((Math.round(score / step) * step).toFixed(4));
}
