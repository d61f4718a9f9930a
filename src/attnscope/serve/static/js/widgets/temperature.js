// @ts-check
/** A base and a temperature, which are one knob: two rows of bars that can be made the same. */

import { fill, h } from "../parts/dom.js";
import { percent, signed } from "../parts/numbers.js";
import { barNames, plainRow, weighed } from "./math/row.js";
import { powerWeights, softmax } from "./math/softmax.js";
import { bars, output, slider } from "./parts.js";

const SCORES = [2, 1, 0, -1];
const NEAR = 0.003;

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {{row?: import("./math/row.js").Row}} data   a row in the place of the lesson's
 * @param {import("./parts.js").Say} t
 */
export function mountTemperature(place, _options, data, t) {
  let base = 4;
  let temperature = 1;
  const row = data.row ?? plainRow(SCORES.map((s) => t("temperature.score", { score: signed(s, 0) })), SCORES);
  const labels = barNames(row);
  const left = bars("base", labels);
  const right = bars("temperature", labels);
  const apart = output("apart");
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });

  function update() {
    const a = weighed(row.scores, row.rest, (all) => powerWeights(all, base));
    const b = weighed(row.scores, row.rest, (all) => softmax(all, temperature));
    left.update(a, percent);
    right.update(b, percent);
    const largest = Math.max(...a.map((one, at) => Math.abs(one - b[at])));
    apart.show(largest, signed(100 * largest, 1));
    const same = largest < NEAR;
    verdict.textContent = same
      ? t("temperature.same", { base: signed(base, 2), temperature: signed(1 / Math.log(base), 3) })
      : t("temperature.apart");
    verdict.classList.toggle("good", same);
  }
  const controls = [
    slider({ name: "base", label: t("temperature.base"), min: 1.1, max: 10, step: 0.1, value: base }, (now) => {
      base = now;
      update();
    }),
    slider({ name: "temperature", label: t("temperature.temperature"), min: 0.1, max: 5, step: 0.01, value: temperature }, (now) => {
      temperature = now;
      update();
    }),
  ];
  fill(place,
    h("div", { class: "controls" }, controls.map((one) => one.element)),
    h("div", { class: "columns-of-bars" },
      h("div", { class: "column" }, h("h4", null, t("temperature.by_base")), left.element),
      h("div", { class: "column" }, h("h4", null, t("temperature.by_temperature")), right.element)),
    h("p", { class: "fact" }, t("temperature.largest"), " ", apart.element), verdict);
  update();
  return { dispose: () => fill(place) };
}
