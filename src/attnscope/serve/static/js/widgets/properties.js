// @ts-check
/** The four properties of the softmax, each with what it says now, on scores that can be dragged. */

import { fill, h } from "../parts/dom.js";
import { percent, significant, signed } from "../parts/numbers.js";
import { barNames, ends, gathered, plainRow, toStep } from "./math/row.js";
import { total, weigh } from "./math/softmax.js";
import { bars, output, slider } from "./parts.js";

const FIRST = [2, 1, 0.5, -1];
const STEP = 0.1;

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {{row?: import("./math/row.js").Row}} data   a row in the place of the lesson's; A and B are its first two
 * @param {import("./parts.js").Say} t
 */
export function mountProperties(place, _options, data, t) {
  const row = data.row ?? plainRow(FIRST.map((_, at) => t("properties.token", { letter: "ABCD"[at] })), FIRST);
  const { names, rest } = row;
  const scores = [...row.scores];
  let c = 0;
  const sliders = row.scores.map((value, at) =>
    slider({ name: `score.${at}`, label: names[at], ...ends(row.scores, -10, 10), step: STEP, value: toStep(value, STEP) }, (now) => {
      scores[at] = now;
      update();
    }));
  const shift = slider({ name: "shift", label: t("properties.shift"), min: -20, max: 20, step: 0.5, value: 0 }, (now) => {
    c = now;
    update();
  });
  const chart = bars("weight", barNames(row));
  const facts = Object.fromEntries(["least", "sum", "moved", "rival", "ratio", "law"].map((name) => [name, output(name)]));

  function update() {
    const all = [...scores, ...rest];
    const now = all.map((s) => s + c);
    const weights = weigh(now, "softmax");
    const still = weigh(all, "softmax");
    chart.update(gathered(weights, names.length), percent);
    const least = Math.min(...weights);
    facts.least.show(least, significant(100 * least, 2) + " %");
    facts.sum.show(total(weights), percent(total(weights)));
    facts.moved.show(change(weights, still), signed(100 * change(weights, still), 1));
    const rival = change(weigh(now, "proportional"), weigh(all, "proportional"));
    facts.rival.show(rival, Number.isFinite(rival) ? signed(100 * rival, 1) : "–");
    facts.ratio.show(weights[0] / weights[1], significant(weights[0] / weights[1], 4));
    const law = Math.exp(scores[0] - scores[1]);
    facts.law.show(law, significant(law, 4));
  }
  const card = (/** @type {string} */ key, /** @type {[string, string][]} */ rows) =>
    h("div", { class: "column" }, h("h4", null, t(`properties.${key}`)),
      h("dl", null, rows.flatMap(([label, name]) => [h("dt", null, t(`properties.${label}`)), h("dd", null, facts[name].element)])));
  fill(place,
    h("div", { class: "controls" }, sliders.map((one) => one.element), shift.element),
    chart.element,
    h("div", { class: "columns-of-bars two" },
      card("positive", [["least", "least"]]),
      card("sums", [["sum", "sum"]]),
      card("differences", [["moved", "moved"], ["rival", "rival"]]),
      card("pair", [["ratio", "ratio"], ["law", "law"]])));
  update();
  return { dispose: () => fill(place) };
}

/** @param {number[]} a @param {number[]} b @returns {number} the largest difference, as a share */
function change(a, b) {
  return Math.max(...a.map((one, at) => Math.abs(one - b[at])));
}
