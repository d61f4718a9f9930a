// @ts-check
/**
 * Lesson 11 on the reader's text: a real row, and what linear attention would make of its query and
 * keys, by weights and by a table.
 *
 * The idea: queries and keys are in the capture, values by their lengths alone; the order of the
 * products shows on a length as well as on a value. The model was trained with a softmax, so this is
 * what would become of the row, and no model.
 *
 * Not here: the formula (math/linear.js).
 */

import { fill, h } from "../../parts/dom.js";
import { count, percent, significant } from "../../parts/numbers.js";
import { linearRow, orderCosts } from "../math/linear.js";
import { capped } from "../math/places.js";
import { dot, softmax, total } from "../math/softmax.js";
import { bars, output, slider } from "../parts.js";
import { numbered, rowOf } from "./subject.js";

/** @typedef {import("./handout.js").Rotary} Rotary */

const NAMES = 6;
const SAME = 1e-9;
const COSTS = /** @type {const} */ ([["products", "pairs", "table"], ["kept", "keptPairs", "keptTable"]]);

/** @type {import("./control.js").OwnMount} */
export const regroup = (place, _options, subject, t) => {
  const { handout, head, row } = subject;
  const { q, k } = /** @type {Rotary} */ (head.rotary);
  const seen = [...head.weights[row].keys()].filter((key) => head.weights[row][key] !== null && head.scores[row][key] !== null);
  const { keys } = rowOf(subject, NAMES, t);
  const others = seen.filter((key) => !keys.includes(key));
  const labels = [...keys.map((key) => numbered(handout, key)), ...(others.length ? [t("own.others")] : [])];
  const charts = { softmax: bars("softmax", labels), weights: bars("weights", labels) };
  const results = { byWeights: output("by_weights"), byTable: output("by_table"), apart: output("apart") };
  const lengths = seen.map((key) => [head.norms ? head.norms[key] : NaN]);
  const costs = orderCosts(handout.count, q[row].length);
  /** The named keys' weights, then that of the rest. @param {readonly number[]} weights of all that is seen */
  const gathered = (weights) => [...keys.map((key) => weights[seen.indexOf(key)]), ...(others.length ? [total(others.map((key) => weights[seen.indexOf(key)]))] : [])];
  /** @param {number} factor */
  function update(factor) {
    const query = q[row].map((one) => factor * one);
    const found = linearRow(query, seen.map((key) => k[key]), lengths);
    charts.softmax.update(gathered(softmax(seen.map((key) => capped(head.scale * dot(query, k[key]), head.softcap)))), percent);
    charts.weights.update(gathered(found.weights), percent);
    const [byWeights, byTable] = [found.byWeights[0], found.byTable[0]];
    const apart = Math.abs(byWeights - byTable);
    const shown = (/** @type {number} */ value) => (Number.isFinite(value) ? significant(value, 6) : "–");
    results.byWeights.show(byWeights, shown(byWeights));
    results.byTable.show(byTable, shown(byTable));
    results.apart.show(apart, !Number.isFinite(apart) ? "–" : apart <= SAME * Math.abs(byWeights) ? "0" : significant(apart, 2));
  }
  const left = head.outside.keys[row];
  const cell = (/** @type {"pairs" | "table" | "keptPairs" | "keptTable"} */ name) => {
    const out = output(name);
    out.show(costs[name], count(costs[name]));
    return h("td", { class: "number" }, out.element);
  };
  const table = costs.table < costs.pairs;
  fill(place,
    h("p", { class: "note" }, t("own.regroup"), " ", left ? t("own.regroup.left", { count: left, share: percent(head.outside.weights[row]) }) : ""),
    h("div", { class: "controls" }, slider({ name: "length", label: t("own.pairs.length"), min: 0, max: 4, step: 0.1, value: 1 }, update).element),
    h("div", { class: "columns-of-bars two" }, /** @type {const} */ (["softmax", "weights"]).map((name) =>
      h("div", { class: "column" }, h("h4", null, t(`regroup.${name}`)), charts[name].element))),
    h("h4", null, t("own.regroup.lengths")),
    h("dl", { class: "facts" }, /** @type {const} */ (["byWeights", "byTable", "apart"]).map((name) =>
      h("div", null, h("dt", null, t(`regroup.${name}`)), h("dd", null, results[name].element)))),
    h("div", { class: "scrolling" }, h("table", null,
      h("thead", null, h("tr", null, h("th", null, t("own.regroup.text", { count: count(handout.count), width: q[row].length })), ["weights_first", "table_first"].map((key) => h("th", { scope: "col", class: "number" }, t(`regroup.${key}`))))),
      h("tbody", null, COSTS.map(([name, pairs, kept]) => h("tr", null, h("th", { scope: "row" }, t(`regroup.${name}`)), cell(pairs), cell(kept)))))),
    h("p", { class: `verdict ${table ? "good" : ""}`.trim(), data: { name: "verdict" } }, t(table ? "regroup.table_wins" : "regroup.pairs_win")));
  update(1);
  return { dispose: () => fill(place) };
};
