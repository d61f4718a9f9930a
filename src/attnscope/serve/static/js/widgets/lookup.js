// @ts-check
/** A head that is trained while the reader waits: what the learning rate and a hold make of it. */

import { debounce, fill, h } from "../parts/dom.js";
import { count, percent, significant } from "../parts/numbers.js";
import { lineChart } from "./charts.js";
import { train, WIDTH } from "./math/lookup.js";
import { output, slider, switches } from "./parts.js";

const STEPS = 120;
const LAST = 20;
const GAUGES = /** @type {const} */ (["loss", "right", "largest", "entropy"]);
const CHARTS = {
  loss: { low: 0, high: 2, ticks: [0, 1, 2], text: String },
  right: { low: 0, high: 1, ticks: [0, 0.5, 1], text: (/** @type {number} */ one) => `${100 * one} %` },
  largest: { low: 1, high: 10000, log: true, ticks: [1, 10, 100, 1000, 10000], text: count },
  entropy: { low: 0, high: 2.1, ticks: [0, 1, 2], text: String },
};

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {object} _data
 * @param {import("./parts.js").Say} t
 */
export function mountLookup(place, _options, _data, t) {
  const state = { rate: 3, seed: 1, threshold: 10, hold: /** @type {import("./math/lookup.js").Hold} */ ("none") };
  const charts = GAUGES.map((gauge) => lineChart(t(`runs.${gauge}`), { ...CHARTS[gauge], count: STEPS, last: t("runs.step", { step: STEPS }) }));
  const facts = GAUGES.map((gauge) => output(`last.${gauge}`));
  const most = output("most");
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });

  function update() {
    const found = train(state.seed, state.rate, STEPS, state.hold, state.threshold);
    GAUGES.forEach((gauge, at) => {
      charts[at].draw([{ values: found[gauge], style: 0 }]);
      const tail = found[gauge].slice(-LAST);
      const value = tail.reduce((sum, one) => sum + one, 0) / LAST;
      facts[at].show(value, gauge === "right" ? percent(value) : significant(value, 3));
    });
    most.show(Math.max(...found.largest), significant(Math.max(...found.largest), 3));
    const right = found.right.slice(-LAST).reduce((sum, one) => sum + one, 0) / LAST;
    const good = right > 0.9;
    verdict.textContent = t(good ? "lookup.learned" : "lookup.lost");
    verdict.classList.toggle("good", good);
    verdict.classList.toggle("bad", !good);
  }
  const later = debounce(update, 80);
  const sliders = [
    { name: "rate", label: t("lookup.rate"), min: 0.3, max: 30, step: 0.1, value: state.rate },
    { name: "seed", label: t("spread.seed"), min: 1, max: 99, step: 1, value: state.seed },
  ].map((about) => slider(about, (now) => {
    if (about.name === "rate") state.rate = now;
    else state.seed = Math.round(now);
    later();
  }));
  const threshold = slider({ name: "threshold", label: t("lookup.threshold"), min: 2, max: 50, step: 1, value: state.threshold }, (now) => {
    state.threshold = now;
    later();
  });
  const only = h("div", { hidden: true }, threshold.element);
  const holds = switches(t("lookup.hold"), [["none", t("lookup.none")], ["norm", t("lookup.norm")], ["clip", t("lookup.clip")]], "none", (hold) => {
    state.hold = hold;
    only.hidden = hold !== "clip";
    update();
  });
  fill(place,
    h("div", { class: "controls" }, sliders.map((one) => one.element), holds, only),
    h("div", { class: "line-charts" }, charts.map((one) => one.element)),
    h("dl", { class: "facts" },
      h("div", null, h("dt", null, t("lookup.most")), h("dd", null, most.element)),
      GAUGES.map((gauge, at) => h("div", null, h("dt", null, t("lookup.last", { gauge: t(`runs.${gauge}`), steps: LAST })), h("dd", null, facts[at].element)))),
    h("p", { class: "note" }, t("lookup.about", { width: WIDTH, bound: Math.sqrt(WIDTH) })),
    verdict);
  update();
  return { dispose: () => {
    later.stop();
    fill(place);
  } };
}
