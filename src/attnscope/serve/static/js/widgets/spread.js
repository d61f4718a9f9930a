// @ts-check
/** The variance experiment: six histograms on one axis, and what a softmax makes of such rows. */

import { debounce, fill, h } from "../parts/dom.js";
import { percent, significant, signed } from "../parts/numbers.js";
import { histogram, products, rowStatistics, spreadOf } from "./math/spread.js";
import { output, slider } from "./parts.js";

const WIDTHS = [4, 64, 256];
const ROWS = 120;
const KEYS = 16;
const EDGE = 56;
const BINS = 112;
const PANEL = { width: 220, height: 110, foot: 18 };
const TABLE = ["maxWeight", "decided", "entropy", "jacobianNorm", "gradient"];

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {{pairs: number, std: number[][], std_error: number[][]}} data   what Python measured
 * @param {import("./parts.js").Say} t
 */
export function mountSpread(place, _options, data, t) {
  const state = { seed: 1, pairs: 2000 };
  const panels = [0, 1].map((kind) => WIDTHS.map((width, at) => panel(`std.${kind}.${at}`,
    t(kind ? "spread.scaled" : "spread.raw", { width }), kind ? 1 : Math.sqrt(width), t)));
  const cells = TABLE.map((name) => [0, 1].map((kind) => output(`${name}.${kind}`)));

  function update() {
    WIDTHS.forEach((width, at) => {
      const raw = products(state.seed, width, state.pairs);
      panels[0][at].update(raw);
      panels[1][at].update(raw.map((one) => one / Math.sqrt(width)));
    });
    const found = rowStatistics(state.seed, WIDTHS[2], ROWS, KEYS);
    TABLE.forEach((name, row) => found.forEach((one, kind) => {
      const value = /** @type {Record<string, number>} */ (one)[name];
      cells[row][kind].show(value, SHARES.has(name) ? percent(value) : significant(value, 3));
    }));
  }
  const later = debounce(update, 120);
  const controls = [
    slider({ name: "seed", label: t("spread.seed"), min: 1, max: 99, step: 1, value: state.seed }, (now) => {
      state.seed = Math.round(now);
      later();
    }),
    slider({ name: "pairs", label: t("spread.pairs"), min: 500, max: 4000, step: 500, value: state.pairs }, (now) => {
      state.pairs = Math.round(now);
      later();
    }),
  ];
  fill(place,
    h("div", { class: "controls" }, controls.map((one) => one.element)),
    [0, 1].flatMap((kind) => [h("h4", null, t(kind ? "spread.row.scaled" : "spread.row.raw")),
      h("div", { class: "histograms" }, panels[kind].map((one) => one.element))]),
    h("p", { class: "note" }, t("spread.axes", { edge: EDGE })),
    h("p", { class: "note" }, t("spread.python", {
      pairs: data.pairs.toLocaleString("en"),
      std: data.std[0].map((one, at) => `${signed(one, 2)} ± ${signed(data.std_error[0][at], 2)}`).join(" / "),
    })),
    h("h4", null, t("spread.table", { rows: ROWS, keys: KEYS })),
    h("div", { class: "scrolling" }, h("table", null,
      h("thead", null, h("tr", null, h("th", null, ""), ["spread.head.raw", "spread.head.scaled"].map((key) => h("th", { class: "number", scope: "col" }, t(key))))),
      h("tbody", null, TABLE.map((name, row) => h("tr", null, h("th", { scope: "row" }, t(`spread.${name}`)),
        cells[row].map((one) => h("td", { class: "number" }, one.element))))))));
  update();
  return { dispose: () => {
    later.stop();
    fill(place);
  } };
}

const SHARES = new Set(["maxWeight", "decided"]);

/**
 * One histogram with the normal curve that the law predicts.
 * @param {string} name @param {string} title @param {number} predicted @param {import("./parts.js").Say} t
 */
function panel(name, title, predicted, t) {
  const out = output(name);
  const { width, height, foot } = PANEL;
  const x = (/** @type {number} */ score) => ((score + EDGE) / (2 * EDGE)) * width;
  const shape = h("svg:path", { class: "area" });
  const curve = h("svg:path", { class: "law" });
  const ticks = [-40, 0, 40].map((score) => h("svg:text", { x: x(score), y: height + foot - 4, "text-anchor": "middle" }, signed(score, 0)));
  const line = h("svg:path", { class: "axis", d: `M0 ${height}H${width}` });
  const svg = h("svg:svg", { viewBox: `0 0 ${width} ${height + foot}`, role: "img", "aria-label": title }, shape, curve, line, ticks);
  const step = (2 * EDGE) / BINS;
  /** @param {number[]} values */
  function update(values) {
    const counts = histogram(values, -EDGE, EDGE, BINS);
    const law = (/** @type {number} */ score) =>
      (values.length * step * Math.exp(-((score / predicted) ** 2) / 2)) / (predicted * Math.sqrt(2 * Math.PI));
    const top = Math.max(...counts, law(0)) * 1.06;
    const y = (/** @type {number} */ count) => (height * (1 - count / top)).toFixed(1);
    shape.setAttribute("d", `M0 ${height}${counts.map((count, at) => `V${y(count)}H${x(-EDGE + (at + 1) * step).toFixed(1)}`).join("")}V${height}Z`);
    curve.setAttribute("d", Array.from({ length: width + 1 }, (_, at) => `${at ? "L" : "M"}${at} ${y(law((at / width) * 2 * EDGE - EDGE))}`).join(""));
    out.show(spreadOf(values), significant(spreadOf(values), 3));
  }
  return { element: h("figure", null, svg, h("figcaption", null, h("span", null, title), " ", h("span", null, t("spread.std"), " ", out.element))), update };
}
