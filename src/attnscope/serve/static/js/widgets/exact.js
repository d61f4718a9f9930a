// @ts-check
/** Does a cache change a bit? Counted in float32, against two ways without one. */

import { debounce, fill, h } from "../parts/dom.js";
import { count, significant } from "../parts/numbers.js";
import { compare, threeWays } from "./math/cache.js";
import { output, slider, switches } from "./parts.js";

const WIDTH = 16;
const WAYS = /** @type {const} */ (["anew", "atOnce"]);

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {object} _data
 * @param {import("./parts.js").Say} t
 */
export function mountExact(place, _options, _data, t) {
  const state = { seed: 1, tokens: 24, halved: false };
  const cells = WAYS.map((way) => [output(`${way}.differ`), output(`${way}.largest`)]);
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  function update() {
    const found = threeWays(state.seed, state.tokens, WIDTH, state.halved);
    WAYS.forEach((way, at) => {
      const { differ, of, largest } = compare(found.cached, found[way]);
      cells[at][0].show(differ, t("exact.of", { differ: count(differ), all: count(of) }));
      cells[at][1].show(largest, significant(largest, 2));
      cells[at][0].element.classList.toggle("good", differ === 0);
    });
    const same = compare(found.cached, found.anew).differ === 0;
    verdict.textContent = t(same ? "exact.same" : "exact.rounded");
    verdict.classList.toggle("good", same);
    verdict.classList.toggle("bad", !same);
  }
  const later = debounce(update, 80);
  const controls = [
    slider({ name: "seed", label: t("spread.seed"), min: 1, max: 99, step: 1, value: state.seed }, (now) => {
      state.seed = Math.round(now);
      later();
    }),
    slider({ name: "tokens", label: t("exact.tokens"), min: 2, max: 48, step: 1, value: state.tokens }, (now) => {
      state.tokens = Math.round(now);
      later();
    }),
  ];
  fill(place, h("div", { class: "controls" }, controls.map((one) => one.element),
    switches(t("exact.keep"), [["whole", t("exact.whole")], ["half", t("exact.half")]], "whole", (kept) => {
      state.halved = kept === "half";
      update();
    })),
    h("div", { class: "scrolling" }, h("table", null,
      h("thead", null, h("tr", null, ["exact.against", "exact.differ", "exact.largest"].map((key, at) => h("th", { scope: "col", class: at ? "number" : null }, t(key))))),
      h("tbody", null, WAYS.map((way, at) => h("tr", null, h("th", { scope: "row" }, t(`exact.${way}`)),
        cells[at].map((one) => h("td", { class: "number" }, one.element))))))), verdict);
  update();
  return { dispose: () => {
    later.stop();
    fill(place);
  } };
}
