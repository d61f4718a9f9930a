// @ts-check
/** Lids for scores, and QK-Clip head by head. */

import { fill, h } from "../parts/dom.js";
import { percent, significant, signed } from "../parts/numbers.js";
import { clipHeads, held, passed } from "./math/holds.js";
import { barNames, ends, plainRow, toStep, weighed } from "./math/row.js";
import { bars, output, slider, switches } from "./parts.js";

const SCORES = [80, 60, 5];
const WAYS = /** @type {const} */ (["none", "lid", "soft"]);
const HEADS = [40, 90, 400, 150];

/**
 * One row of scores under a lid, under a soft cap, and as it is.
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {{row?: import("./math/row.js").Row}} data   a row in the place of the lesson's; scores 1 and 2 are its first two
 * @param {import("./parts.js").Say} t
 */
export function mountLid(place, _options, data, t) {
  const row = data.row ?? plainRow(SCORES.map((_, at) => t("growth.key", { number: at + 1 })), SCORES);
  const largest = Math.max(...row.scores, ...row.rest);
  // Real rows are smaller than the lesson's: the lid stands at half of the largest score.
  const state = { scores: [...row.scores], threshold: data.row ? Math.max(1, Math.ceil(largest / 2)) : 30 };
  const names = barNames(row);
  const columns = WAYS.map((way) => {
    const chart = bars(`${way}.weight`, names);
    const facts = ["first", "second", "slope"].map((name) => output(`${way}.${name}`));
    const verdict = h("p", { class: "verdict", data: { name: `${way}.verdict` } });
    return { way, chart, facts, verdict, element: h("div", { class: "column" }, h("h4", null, t(`lid.${way}`)), chart.element,
      h("dl", null, ["first", "second", "slope"].map((name, at) => [h("dt", null, t(`lid.${name}`)), h("dd", null, facts[at].element)])), verdict) };
  });
  function update() {
    for (const { way, chart, facts, verdict } of columns) {
      const scores = held(state.scores, way, state.threshold);
      const slope = passed(state.scores, way, state.threshold)[0];
      chart.update(weighed(scores, held(row.rest, way, state.threshold)), percent);
      facts[0].show(scores[0], signed(scores[0], 2));
      facts[1].show(scores[1], signed(scores[1], 2));
      facts[2].show(slope, percent(slope));
      const tie = state.scores[0] !== state.scores[1] && scores[0] === scores[1];
      verdict.textContent = tie ? t("lid.tie") : slope < 0.1 ? t("lid.flat") : t(way === "none" ? "lid.open" : "lid.fine");
      verdict.classList.toggle("bad", tie || slope < 0.1);
    }
  }
  const step = data.row ? 0.1 : 1;
  const sliders = row.scores.map((value, at) => slider({ name: `score.${at}`, label: data.row ? names[at] : t("lid.score", { number: at + 1 }), ...(data.row ? ends(row.scores, -5, 10) : { min: -20, max: 120 }), step, value: toStep(value, step) }, (now) => {
    state.scores[at] = now;
    update();
  }));
  const threshold = slider({ name: "threshold", label: t("lid.threshold"), min: data.row ? 1 : 5, max: 100, step: 1, value: state.threshold }, (now) => {
    state.threshold = now;
    update();
  });
  fill(place, h("div", { class: "controls" }, sliders.map((one) => one.element), threshold.element), h("div", { class: "columns-of-bars" }, columns.map((one) => one.element)));
  update();
  return { dispose: () => fill(place) };
}

/**
 * QK-Clip on four heads, with keys of their own or one for all.
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {object} _data
 * @param {import("./parts.js").Say} t
 */
export function mountClipping(place, _options, _data, t) {
  const state = { largest: [...HEADS], threshold: 100, shared: false };
  const cells = HEADS.map((_, at) => ["gamma", "q", "k", "after"].map((name) => output(`${name}.${at}`)));
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  function update() {
    const found = clipHeads(state.largest, state.threshold, state.shared);
    found.forEach(({ gamma, q, k }, at) => {
      const after = state.largest[at] * q * k;
      [gamma, q, k, after].forEach((value, column) => cells[at][column].show(value, significant(value, 3)));
      rows[at].classList.toggle("touched", gamma < 1);
    });
    const touched = found.filter((one) => one.gamma < 1).length;
    verdict.textContent = t(state.shared ? "clipping.shared.said" : "clipping.own.said", { count: touched });
  }
  const sliders = HEADS.map((value, at) => slider({ name: `largest.${at}`, label: t("clipping.largest", { number: at + 1 }), min: 1, max: 500, step: 1, value }, (now) => {
    state.largest[at] = now;
    update();
  }));
  const threshold = slider({ name: "threshold", label: t("growth.tau"), min: 10, max: 500, step: 10, value: state.threshold }, (now) => {
    state.threshold = now;
    update();
  });
  const rows = HEADS.map((_, at) => h("tr", null, h("th", { scope: "row" }, t("clipping.head", { number: at + 1 })), cells[at].map((cell) => h("td", { class: "number" }, cell.element))));
  fill(place, h("div", { class: "controls" }, sliders.map((one) => one.element), threshold.element,
    switches(t("clipping.keys"), [["own", t("clipping.own")], ["shared", t("clipping.shared")]], "own", (keys) => {
      state.shared = keys === "shared";
      update();
    })),
    h("div", { class: "scrolling" }, h("table", null,
      h("thead", null, h("tr", null, ["clipping.which", "clipping.gamma", "clipping.q", "clipping.k", "clipping.after"].map((key, at) => h("th", { scope: "col", class: at ? "number" : null }, t(key))))),
      h("tbody", null, rows))), verdict);
  update();
  return { dispose: () => fill(place) };
}
