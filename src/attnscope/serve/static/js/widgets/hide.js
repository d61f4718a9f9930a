// @ts-check
/** A number in the place of minus infinity: what it leaves to a hidden token. */

import { fill, h } from "../parts/dom.js";
import { percent, signed } from "../parts/numbers.js";
import { softmax } from "./math/softmax.js";
import { bars, slider } from "./parts.js";

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {object} _data
 * @param {import("./parts.js").Say} t
 */
export function mountHide(place, _options, _data, t) {
  const state = { number: -2, hidden: 3 };
  const names = [t("hide.first"), t("hide.second"), t("hide.hidden")];
  const chart = bars("weight", names);
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  function update() {
    const found = softmax([1, 0, state.hidden + state.number]);
    chart.update(found, percent);
    const leaks = found[2] > 0;
    verdict.textContent = leaks ? t("hide.leaks", { weight: percent(found[2]) }) : t("hide.none");
    verdict.classList.toggle("bad", found[2] >= 0.0005);
    verdict.classList.toggle("good", found[2] < 0.0005);
  }
  const controls = [
    slider({ name: "number", label: t("hide.number"), min: -800, max: 0, step: 1, value: state.number }, (now) => {
      state.number = now;
      update();
    }),
    slider({ name: "hidden", label: t("hide.score"), min: -10, max: 20, step: 0.5, value: state.hidden }, (now) => {
      state.hidden = now;
      update();
    }),
  ];
  fill(place, h("div", { class: "controls" }, controls.map((one) => one.element)), chart.element, h("p", { class: "fact" }, t("hide.scores", { first: signed(1, 0), second: signed(0, 0) })), verdict);
  update();
  return { dispose: () => fill(place) };
}
