// @ts-check
/** Expanded and absorbed scores of one pair by distance: the same, unless a rotation stands between. */

import { fill, h } from "../parts/dom.js";
import { signed } from "../parts/numbers.js";
import { linePlot, swatch } from "./lines.js";
import { bothForms, DRAWN } from "./math/latent.js";
import { output, slider, switches } from "./parts.js";

const FAR = 40;
const FINE = 4; // points of the curve between two whole distances
const SAME = 1e-9;
const FORMS = /** @type {const} */ (["expanded", "absorbed"]);
const PLACES = /** @type {const} */ (["none", "key", "beside"]);

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options
 * @param {object} _data
 * @param {import("./parts.js").Say} t
 */
export function mountMerge(place, options, _data, t) {
  const state = { seed: 1, distance: 3, where: PLACES.find((one) => one === options.where) ?? "key" };
  const facts = FORMS.map((form) => output(form));
  const [apart, queries] = [output("apart"), output("queries")];
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  const plot = linePlot({
    label: t("merge.picture"), x: [0, FAR], y: [-5, 5], xTitle: t("merge.distance.axis"), yTitle: t("merge.score"), count: 2,
    xTicks: [0, 10, 20, 30, 40].map((at) => [at, String(at)]), yTicks: [],
  });
  function update() {
    const all = Array.from({ length: FINE * FAR + 1 }, (_, at) => bothForms(state.seed, at / FINE, state.where));
    const reach = Math.max(1, ...all.flatMap((one) => [Math.abs(one.expanded), Math.abs(one.absorbed)]));
    const edge = Math.ceil(reach * 1.1);
    plot.rescale([-edge, edge], [-edge, 0, edge].map((at) => [at, signed(at, 0)]));
    const now = all[FINE * state.distance];
    plot.update(FORMS.map((form) => all.map((one, at) => /** @type {const} */ ([at / FINE, one[form]]))), state.distance, FORMS.map((form) => now[form]));
    FORMS.forEach((form, at) => facts[at].show(now[form], signed(now[form], 3)));
    const difference = Math.abs(now.expanded - now.absorbed);
    apart.show(difference, difference < SAME ? "0" : signed(difference, 3));
    const needed = state.where === "key" ? FAR + 1 : 1;
    queries.show(needed, String(needed));
    const same = all.every((one) => Math.abs(one.expanded - one.absorbed) < SAME);
    verdict.textContent = t(`merge.verdict.${state.where}`, { numbers: DRAWN.latent, rotary: DRAWN.rotary });
    verdict.classList.toggle("good", same);
    verdict.classList.toggle("bad", !same);
  }
  fill(place,
    h("div", { class: "controls" },
      switches(t("merge.where"), PLACES.map((one) => /** @type {const} */ ([one, t(`merge.where.${one}`)])), state.where, (where) => {
        state.where = where;
        update();
      }),
      slider({ name: "distance", label: t("merge.distance"), min: 0, max: FAR, step: 1, value: state.distance }, (now) => {
        state.distance = Math.round(now);
        update();
      }).element,
      slider({ name: "seed", label: t("spread.seed"), min: 1, max: 99, step: 1, value: state.seed }, (now) => {
        state.seed = Math.round(now);
        update();
      }).element),
    plot.element,
    h("dl", { class: "facts" },
      FORMS.map((form, at) => h("div", null, h("dt", null, swatch(at), t(`merge.${form}`)), h("dd", null, facts[at].element))),
      h("div", null, h("dt", null, t("merge.apart")), h("dd", null, apart.element)),
      h("div", null, h("dt", null, t("merge.queries", { count: FAR + 1 })), h("dd", null, queries.element))),
    verdict);
  update();
  return { dispose: () => fill(place) };
}
