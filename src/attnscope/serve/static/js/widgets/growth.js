// @ts-check
/** What becomes of a row of weights when the projections grow, with QK-norm and QK-Clip to hold it. */

import { fill, h } from "../parts/dom.js";
import { percent, significant } from "../parts/numbers.js";
import { clipFactor, grownScores } from "./math/growth.js";
import { barNames, gathered } from "./math/row.js";
import { jacobianNorm, softmax } from "./math/softmax.js";
import { bars, checkbox, output, slider } from "./parts.js";

const WIDTH = 64;
const KEYS = 6;
const SEED = 3;

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {{row?: import("./math/row.js").Row}} data   a row in the place of the one that is drawn
 * @param {import("./parts.js").Say} t
 */
export function mountGrowth(place, _options, { row }, t) {
  const state = { growth: 1, norm: false, clip: false, tau: 5 };
  const chart = bars("weight", row ? barNames(row) : Array.from({ length: KEYS }, (_, at) => t("growth.key", { number: at + 1 })));
  const facts = Object.fromEntries(["largest", "bound", "jacobian"].map((name) => [name, output(name)]));

  function update() {
    const held = { norm: state.norm, tau: state.clip ? state.tau : null };
    const scores = row ? grown([...row.scores, ...row.rest], state.growth, held) : grownScores(SEED, WIDTH, KEYS, state.growth, held);
    const w = softmax(scores);
    chart.update(gathered(w, row?.names.length ?? KEYS), percent);
    facts.largest.show(Math.max(...scores), significant(Math.max(...scores), 3));
    facts.bound.show(state.growth ** 2, significant(state.growth ** 2, 3));
    facts.jacobian.show(jacobianNorm(w), significant(jacobianNorm(w), 3));
  }
  const growth = slider({ name: "growth", label: t("growth.growth"), min: 1, max: 10, step: 0.1, value: 1 }, (now) => {
    state.growth = now;
    update();
  });
  const tau = slider({ name: "tau", label: t("growth.tau"), min: 1, max: 100, step: 1, value: state.tau }, (now) => {
    state.tau = now;
    update();
  });
  const norm = checkbox("norm", t("growth.norm"), (on) => {
    state.norm = on;
    update();
  });
  const clip = checkbox("clip", t("growth.clip"), (on) => {
    state.clip = on;
    update();
  });
  fill(place,
    h("div", { class: "controls" }, growth.element, h("div", { class: "tools" }, norm, clip), tau.element),
    chart.element,
    h("dl", { class: "facts" }, ["bound", "largest", "jacobian"].map((name) => h("div", null, h("dt", null, t(`growth.fact.${name}`)), h("dd", null, facts[name].element)))));
  update();
  return { dispose: () => fill(place) };
}

/**
 * Scores of a real row when its q and k grow. A norm on q and k takes out whatever they grew by.
 * @param {readonly number[]} scores @param {number} growth @param {{norm: boolean, tau: number | null}} held
 * @returns {number[]}
 */
export function grown(scores, growth, { norm, tau }) {
  const free = scores.map((s) => (norm ? s : s * growth ** 2));
  const factor = tau === null ? 1 : clipFactor(Math.max(...free), tau);
  return free.map((s) => s * factor);
}
