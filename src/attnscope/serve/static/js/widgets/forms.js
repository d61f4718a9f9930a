// @ts-check
/** What both forms of MLA cost, by new and cached tokens: prefill wants the one, decoding the other. */

import { fill, h } from "../parts/dom.js";
import { count, significant } from "../parts/numbers.js";
import { formFlops } from "./math/latent.js";
import { bars, output, slider } from "./parts.js";

const BILLION = 1e9;

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {{heads: number, nope: number, rope: number, value: number, rank: number}} data   a real layer's sizes
 * @param {import("./parts.js").Say} t
 */
export function mountForms(place, _options, data, t) {
  const state = { fresh: 0, cached: 13 };
  const chart = bars("flops", [t("forms.name.expanded"), t("forms.name.absorbed")]);
  const facts = Object.fromEntries(["fresh", "cached", "times"].map((name) => [name, output(name)]));
  const verdict = h("p", { class: "verdict good", "aria-live": "polite", data: { name: "verdict" } });
  function update() {
    const [fresh, cached] = [2 ** state.fresh, state.cached ? 2 ** state.cached : 0];
    const { expanded, absorbed } = formFlops(fresh, cached, data);
    const most = Math.max(expanded, absorbed);
    chart.update([expanded / most, absorbed / most], (share) => `${significant((share * most) / BILLION, 3)} G`);
    facts.fresh.show(fresh, count(fresh));
    facts.cached.show(cached, count(cached));
    const times = most / Math.min(expanded, absorbed);
    facts.times.show(times, significant(times, 3));
    verdict.textContent = t(absorbed < expanded ? "forms.absorbed" : "forms.expanded");
  }
  fill(place,
    h("div", { class: "controls" },
      slider({ name: "fresh", label: t("forms.fresh.power"), min: 0, max: 14, step: 1, value: state.fresh }, (now) => {
        state.fresh = Math.round(now);
        update();
      }).element,
      slider({ name: "cached", label: t("forms.cached.power"), min: 0, max: 20, step: 1, value: state.cached }, (now) => {
        state.cached = Math.round(now);
        update();
      }).element),
    chart.element,
    h("dl", { class: "facts" }, ["fresh", "cached", "times"].map((name) => h("div", null, h("dt", null, t(`forms.${name}`)), h("dd", null, facts[name].element)))),
    verdict);
  update();
  return { dispose: () => fill(place) };
}
