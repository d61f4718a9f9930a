// @ts-check
/** A number in the place of minus infinity: what it leaves to a hidden token. */

import { fill, h } from "../parts/dom.js";
import { percent, signed } from "../parts/numbers.js";
import { barNames, ends, plainRow, toStep, weighed } from "./math/row.js";
import { bars, slider } from "./parts.js";

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {{row?: import("./math/row.js").Row & {hidden: number}}} data   a row in the place of the lesson's; its last name is the hidden token
 * @param {import("./parts.js").Say} t
 */
export function mountHide(place, _options, data, t) {
  const row = data.row ?? { ...plainRow([t("hide.first"), t("hide.second"), t("hide.hidden")], [1, 0]), hidden: 3 };
  const state = { number: -2, hidden: row.hidden };
  const chart = bars("weight", barNames(row));
  const last = row.scores.length;
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  function update() {
    const found = weighed([...row.scores, state.hidden + state.number], row.rest);
    chart.update(found, percent);
    const leak = found[last];
    verdict.textContent = leak > 0 ? t("hide.leaks", { weight: percent(leak) }) : t("hide.none");
    verdict.classList.toggle("bad", leak >= 0.0005);
    verdict.classList.toggle("good", leak < 0.0005);
  }
  const controls = [
    slider({ name: "number", label: t("hide.number"), min: -800, max: 0, step: 1, value: state.number }, (now) => {
      state.number = now;
      update();
    }),
    slider({ name: "hidden", label: t("hide.score"), ...ends([state.hidden], -10, 20), step: 0.5, value: toStep(state.hidden, 0.5) }, (now) => {
      state.hidden = now;
      update();
    }),
  ];
  fill(place, h("div", { class: "controls" }, controls.map((one) => one.element)), chart.element, h("p", { class: "fact" }, data.row ? null : t("hide.scores", { first: signed(1, 0), second: signed(0, 0) })), verdict);
  update();
  return { dispose: () => fill(place) };
}
