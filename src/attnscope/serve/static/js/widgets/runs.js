// @ts-check
/** Training runs that were recorded: loss, right answers, largest score and entropy, step by step. */

import { fill, h } from "../parts/dom.js";
import { count, percent, significant } from "../parts/numbers.js";
import { lineChart, sample } from "./charts.js";
import { checkbox, output, slider, switches } from "./parts.js";

const NAMES = ["scaled", "growing", "norm", "clip", "unscaled", "smaller"];
const FIRST = ["scaled", "growing"];
const GAUGES = /** @type {const} */ (["loss", "right", "largest", "entropy"]);
const CHARTS = {
  loss: { low: 0, high: 4.5, ticks: [0, 2, 4], text: String },
  right: { low: 0, high: 1, ticks: [0, 0.5, 1], text: (/** @type {number} */ one) => `${100 * one} %` },
  largest: { low: 1, high: 10000, log: true, ticks: [1, 10, 100, 1000, 10000], text: count },
  entropy: { low: 0, high: 2, ticks: [0, 1, 2], text: String },
};

/** @typedef {{curves: Record<string, number[][]>, rate: number}} Variant @typedef {{steps: number, window: number, seeds: number, variants: Record<string, Variant>}} Data */

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options   show: ids of the runs that are shown first
 * @param {Data} data
 * @param {import("./parts.js").Say} t
 */
export function mountRuns(place, options, data, t) {
  const points = data.variants.scaled.curves.loss[0].length;
  const state = { shown: new Set((options.show ?? FIRST.join()).split(",")), seed: "mean", at: points - 1 };
  const charts = GAUGES.map((gauge) => lineChart(t(`runs.${gauge}`), { ...CHARTS[gauge], count: points, last: t("runs.step", { step: count(data.steps) }) }));
  const where = output("step");
  const cells = NAMES.map((name) => GAUGES.map((gauge) => output(`${name}.${gauge}`)));

  /** @param {string} name @param {string} gauge @returns {number[]} */
  function curve(name, gauge) {
    const runs = data.variants[name].curves[gauge];
    if (state.seed !== "mean") return runs[Number(state.seed)];
    return runs[0].map((_, at) => runs.reduce((sum, run) => sum + run[at], 0) / runs.length);
  }
  function update() {
    GAUGES.forEach((gauge, at) => {
      charts[at].draw(NAMES.flatMap((name, style) => (state.shown.has(name) ? [{ values: curve(name, gauge), style }] : [])));
      charts[at].point(state.at);
      NAMES.forEach((name, row) => {
        const value = curve(name, gauge)[state.at];
        cells[row][at].show(value, gauge === "right" ? percent(value) : significant(value, 3));
      });
    });
    rows.forEach((row, at) => row.classList.toggle("off", !state.shown.has(NAMES[at])));
    const last = Math.min(data.steps, (state.at + 1) * data.window);
    where.show(last, t("runs.window", { from: count(state.at * data.window + 1), to: count(last) }));
  }
  const rows = NAMES.map((name, row) => {
    const box = checkbox(`show.${name}`, t(`runs.${name}`, { rate: data.variants[name].rate }), (on) => {
      state.shown[on ? "add" : "delete"](name);
      update();
    });
    const input = box.querySelector("input");
    if (input) input.checked = state.shown.has(name);
    return h("tr", null, h("th", { scope: "row" }, h("span", { class: "sampled" }, sample(row), box)), cells[row].map((cell) => h("td", { class: "number" }, cell.element)));
  });
  const step = slider({ name: "window", label: t("runs.slide", { window: data.window }), min: 1, max: points, step: 1, value: points }, (now) => {
    state.at = Math.round(now) - 1;
    update();
  });
  const seeds = Array.from({ length: data.seeds }, (_, at) => /** @type {const} */ ([String(at), t("runs.seed", { number: at + 1 })]));
  fill(place,
    h("div", { class: "line-charts" }, charts.map((one) => one.element)),
    h("div", { class: "controls" }, step.element, switches(t("runs.seeds"), [["mean", t("runs.mean")], ...seeds], "mean", (seed) => {
      state.seed = seed;
      update();
    })),
    h("p", { class: "fact", "aria-live": "polite" }, where.element),
    h("div", { class: "scrolling" }, h("table", { class: "runs" },
      h("thead", null, h("tr", null, h("th", null, t("runs.run")), GAUGES.map((gauge) => h("th", { scope: "col", class: "number" }, t(`runs.${gauge}`))))),
      h("tbody", null, rows))));
  update();
  return { dispose: () => fill(place) };
}
