// @ts-check
/** Linear attention: the same result by weights and by a table; what either order costs. */

import { fill, h } from "../parts/dom.js";
import { count, percent, signed, significant } from "../parts/numbers.js";
import { bothOrders, orderCosts } from "./math/linear.js";
import { bars, output, slider } from "./parts.js";

const DRAWN = { tokens: 6, width: 4 };
const SAME = 1e-9;
const COSTS = /** @type {const} */ (["pairs", "table", "keptPairs", "keptTable"]);

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {object} _data
 * @param {import("./parts.js").Say} t
 */
export function mountRegroup(place, _options, _data, t) {
  const state = { seed: 1, power: 12, width: 128 };
  const names = Array.from({ length: DRAWN.tokens }, (_, at) => t("growth.key", { number: at + 1 }));
  const charts = { softmax: bars("softmax", names), weights: bars("weights", names) };
  const results = { byWeights: output("by_weights"), byTable: output("by_table"), apart: output("apart") };
  const cells = Object.fromEntries(COSTS.map((name) => [name, output(name)]));
  const tokens = output("tokens");
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  function update() {
    const found = bothOrders(state.seed, DRAWN.tokens, DRAWN.width);
    charts.softmax.update(found.softmax, percent);
    charts.weights.update(found.weights, percent);
    results.byWeights.show(found.byWeights[0], found.byWeights.map((one) => signed(one, 3)).join(", "));
    results.byTable.show(found.byTable[0], found.byTable.map((one) => signed(one, 3)).join(", "));
    const apart = Math.max(...found.byWeights.map((one, at) => Math.abs(one - found.byTable[at])));
    results.apart.show(apart, apart < SAME ? "0" : significant(apart, 2));
    const length = 2 ** state.power;
    const costs = orderCosts(length, state.width);
    tokens.show(length, count(length));
    COSTS.forEach((name) => cells[name].show(costs[name], count(costs[name])));
    const table = costs.table < costs.pairs;
    verdict.textContent = t(table ? "regroup.table_wins" : "regroup.pairs_win");
    verdict.classList.toggle("good", table);
  }
  fill(place,
    slider({ name: "seed", label: t("spread.seed"), min: 1, max: 99, step: 1, value: state.seed }, (now) => {
      state.seed = Math.round(now);
      update();
    }).element,
    h("div", { class: "columns-of-bars two" }, /** @type {const} */ (["softmax", "weights"]).map((name) =>
      h("div", { class: "column" }, h("h4", null, t(`regroup.${name}`)), charts[name].element))),
    h("dl", { class: "facts" }, /** @type {const} */ (["byWeights", "byTable", "apart"]).map((name) =>
      h("div", null, h("dt", null, t(`regroup.${name}`)), h("dd", null, results[name].element)))),
    h("div", { class: "controls" },
      slider({ name: "power", label: t("bytes.power"), min: 4, max: 20, step: 1, value: state.power }, (now) => {
        state.power = Math.round(now);
        update();
      }).element,
      slider({ name: "width", label: t("regroup.width"), min: 8, max: 256, step: 8, value: state.width }, (now) => {
        state.width = now;
        update();
      }).element),
    h("div", { class: "scrolling" }, h("table", null,
      h("thead", null, h("tr", null, h("th", null, t("bytes.tokens"), " ", tokens.element), ["weights_first", "table_first"].map((key) => h("th", { scope: "col", class: "number" }, t(`regroup.${key}`))))),
      h("tbody", null,
        h("tr", null, h("th", { scope: "row" }, t("regroup.products")), ["pairs", "table"].map((name) => h("td", { class: "number" }, cells[name].element))),
        h("tr", null, h("th", { scope: "row" }, t("regroup.kept")), ["keptPairs", "keptTable"].map((name) => h("td", { class: "number" }, cells[name].element)))))),
    verdict);
  update();
  return { dispose: () => fill(place) };
}
