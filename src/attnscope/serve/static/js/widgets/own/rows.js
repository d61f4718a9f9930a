// @ts-check
/**
 * Widgets that work on one row of scores, on a row of the reader's text.
 *
 * The idea: the lesson's widget is mounted with another row; the keys that take most have names and
 * sliders, the rest is one bar. Only what a lesson's example has and a real row has not is said here.
 *
 * Not here: the widgets themselves, windows of the square (squares.js).
 */

import { mountGrowth } from "../growth.js";
import { takeNothing } from "../heads.js";
import { mountHide } from "../hide.js";
import { mountLid } from "../holds.js";
import { mountJacobian } from "../jacobian.js";
import { mountMix } from "../mix.js";
import { mountProperties } from "../properties.js";
import { mountRules } from "../rules.js";
import { mountTemperature } from "../temperature.js";
import { signed } from "../../parts/numbers.js";
import { joint } from "../math/row.js";
import { hiddenFrom, numbered, rowOf } from "./subject.js";

/** @typedef {import("./control.js").OwnMount} OwnMount */

const NAMES = 5;

/** @type {OwnMount} */
export const rules = (place, options, subject, t) => mountRules(place, options, { row: rowOf(subject, NAMES, t) }, t);

/** @type {OwnMount} */
export const properties = (place, options, subject, t) => {
  const row = rowOf(subject, NAMES, t);
  return mountProperties(place, options, { row: { ...row, names: lettered(row.names) } }, t);
};

/** @type {OwnMount} */
export const temperature = (place, options, subject, t) => {
  const row = rowOf(subject, NAMES, t);
  return mountTemperature(place, options, { row: { ...row, names: row.names.map((name, at) => `${name} (${signed(row.scores[at], 2)})`) } }, t);
};

/** @type {OwnMount} */
export const jacobian = (place, options, subject, t) => {
  const row = rowOf(subject, NAMES, t);
  // The score that is nudged is the first: the largest weight stands there.
  const best = row.keys.indexOf([...row.keys].sort((a, b) => Number(subject.head.weights[subject.row][b]) - Number(subject.head.weights[subject.row][a]))[0]);
  const order = [best, ...row.keys.keys()].filter((at, place_, all) => all.indexOf(at) === place_);
  return mountJacobian(place, options, { row: { ...row, names: order.map((at) => row.names[at]), scores: order.map((at) => row.scores[at]) } }, t);
};

/** @type {OwnMount} */
export const growth = (place, options, subject, t) => mountGrowth(place, options, { row: rowOf(subject, NAMES + 3, t) }, t);

/** @type {OwnMount} */
export const lid = (place, options, subject, t) => {
  const row = rowOf(subject, NAMES, t);
  const order = [...row.scores.keys()].sort((a, b) => row.scores[b] - row.scores[a]);
  return mountLid(place, options, { row: { ...row, names: order.map((at) => row.names[at]), scores: order.map((at) => row.scores[at]) } }, t);
};

/**
 * The hidden token is the next one.
 * @type {OwnMount}
 */
export const hide = (place, options, subject, t) => {
  const { head, row: query, handout } = subject;
  const hidden = Number(hiddenFrom(head, query));
  const row = rowOf(subject, NAMES, t);
  const names = [...row.names, t("own.hide.next", { token: numbered(handout, hidden) })];
  return mountHide(place, options, { row: { ...row, names, hidden: Number(head.scores[query][hidden]) } }, t);
};

/**
 * The two keys of the largest weights, and everything else as the third corner.
 * @type {OwnMount}
 */
export const mix = (place, options, subject, t) => {
  const { names, scores, rest, restName } = rowOf(subject, 2, t);
  const third = rest.length ? [joint(rest)] : [];
  return mountMix(place, options, { row: { names: [...names, restName], scores: [...scores, ...third] } }, t);
};

/** @type {OwnMount} */
export const nothing = (place, _options, subject, t) => {
  const row = rowOf(subject, NAMES, t);
  const sizes = row.sizes && row.restSizes ? [...row.sizes, ...row.restSizes] : [...row.scores, ...row.rest].map(() => NaN);
  return takeNothing(place, { ...row, values: sizes.map((one) => [one]), words: ["own_kept", "open", "own_size", "plain"] }, t);
};

/** @param {readonly string[]} names */
function lettered(names) {
  return names.map((name, at) => `${"ABCDEFGH"[at]}: ${name}`);
}
