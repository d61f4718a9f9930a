// @ts-check
/**
 * Lesson 1 on the reader's text: the model's own embeddings, compared directly.
 *
 * The idea: a real embedding has hundreds of numbers without names, so the switch is not a slider
 * for each: all embeddings of a model have much in common, and what is left without it is compared
 * too. Embeddings know no head, no mask and no place: every token of the part is compared with every
 * other.
 *
 * Not here: the formula (math/embeddings.js), reading (handout.js).
 */

import { fill, h, setStyle } from "../../parts/dom.js";
import { signed } from "../../parts/numbers.js";
import { centred } from "../math/embeddings.js";
import { total } from "../math/softmax.js";
import { bars, output, switches } from "../parts.js";
import { numbered, windowOf } from "./subject.js";

/**
 * @typedef {import("./control.js").OwnMount} OwnMount
 * @typedef {import("./handout.js").Embeddings} Embeddings
 * @typedef {"plain" | "centred"} Way
 */

const NAMES = 8;
const WINDOW = 12;
/** Cosines and norms closer than this are those of one vector: they have nine digits. */
const SAME = 1e-8;

/** @param {import("../parts.js").Say} t @param {(way: Way) => void} onWay */
function waySwitch(t, onWay) {
  return switches(t("own.embeddings"), /** @type {const} */ (["plain", "centred"]).map((way) => /** @type {const} */ ([way, t(`own.embeddings.${way}`)])), "plain", onWay);
}

/** @param {Embeddings} given @returns {Record<Way, (number | null)[][]>} */
const both = ({ norms, cosines }) => ({ plain: cosines, centred: centred(norms, cosines) });

/** @param {number} value */
const shown = (value) => (Number.isFinite(value) ? signed(value, 3) : "–");

/**
 * One token against all of the part: those that are most like it or most unlike, and itself.
 * @type {OwnMount}
 */
export const cosine = (place, _options, { handout, row }, t) => {
  const embeddings = /** @type {Embeddings} */ (handout.embeddings);
  const found = both(embeddings);
  const chart = h("div", null);
  const best = h("p", { class: "fact", data: { name: "best" } });
  const mean = output("mean");
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  const same = sameAs(embeddings, row);
  /** @param {Way} way */
  function update(way) {
    const line = found[way][row];
    const keys = nearest(line, row);
    const values = keys.map((key) => line[key] ?? NaN);
    const made = bars("cosine", keys.map((key) => numbered(handout, key)), { low: -1, high: 1 });
    made.update(values, shown);
    fill(chart, made.element);
    const order = [...keys.keys()].filter((at) => Number.isFinite(values[at])).sort((a, b) => values[b] - values[a]);
    best.textContent = order.length ? t("world.order", { order: order.map((at) => numbered(handout, keys[at])).join(t("world.and")) }) : "";
    const others = line.filter((one, key) => one !== null && key !== row).map(Number);
    mean.show(others.length ? total(others) / others.length : NaN, shown(total(others) / others.length));
    const alike = same.slice(0, NAMES).map((key) => numbered(handout, key)).join(t("world.and")) + (same.length > NAMES ? " …" : "");
    verdict.textContent = line[row] === null ? t(way === "plain" ? "own.cosine.zero" : "own.cosine.nothing")
      : same.length ? t("own.cosine.same", { tokens: alike, count: same.length }) : t("own.cosine.self");
  }
  fill(place, h("p", { class: "note" }, t("own.cosine", { count: handout.names.length })), h("div", { class: "controls" }, waySwitch(t, update)), chart, best,
    h("dl", { class: "facts" }, h("div", null, h("dt", null, t("own.cosine.mean")), h("dd", null, mean.element))), verdict);
  update("plain");
  return { dispose: () => fill(place) };
};

/**
 * A window of the square of all pairs.
 * @type {OwnMount}
 */
export const cosines = (place, _options, subject, t) => {
  const { handout } = subject;
  const found = both(/** @type {Embeddings} */ (handout.embeddings));
  const keys = windowOf(subject, WINDOW);
  const names = keys.map((key) => numbered(handout, key));
  const cells = keys.map((i) => keys.map((j) => output(`g.${i}.${j}`)));
  const asked = h("p", { class: "fact", "aria-live": "polite", data: { name: "pair" } }, t("world.pick"));
  /** @param {Way} way */
  function update(way) {
    keys.forEach((i, row) => keys.forEach((j, column) => {
      const value = found[way][i][j] ?? NaN;
      const { element, show } = cells[row][column];
      show(value, shown(value));
      setStyle(element, { "--heat": `${Math.round(100 * Math.abs(value || 0))}%` });
      element.classList.toggle("negative", value < 0);
    }));
    asked.textContent = t("world.pick");
  }
  fill(place, h("p", { class: "note" }, t("own.cosines")), h("div", { class: "controls" }, waySwitch(t, update)),
    h("div", { class: "scrolling" }, h("table", { class: "heat" },
      h("thead", null, h("tr", null, h("th", null, t("world.corner.cosine")), names.map((name) => h("th", { scope: "col", class: "number" }, name)))),
      h("tbody", null, names.map((name, i) => h("tr", null, h("th", { scope: "row" }, name), cells[i].map((cell, j) =>
        h("td", { class: "number" }, h("button", { type: "button", class: "cell", "aria-label": `${name}, ${names[j]}`, onclick: () => {
          asked.textContent = t("world.pair.cosine", { query: name, key: names[j], there: String(cell.element.textContent), back: String(cells[j][i].element.textContent) });
        } }, cell.element)))))))), asked);
  update("plain");
  return { dispose: () => fill(place) };
};

/**
 * The token itself and those of the largest cosines by size, in the order of the text.
 * @param {readonly (number | null)[]} line
 * @param {number} row
 * @returns {number[]}
 */
function nearest(line, row) {
  const others = [...line.keys()].filter((key) => key !== row && line[key] !== null);
  others.sort((a, b) => Math.abs(Number(line[b])) - Math.abs(Number(line[a])) || a - b);
  return [row, ...others.slice(0, NAMES - 1)].sort((a, b) => a - b);
}

/**
 * The other tokens with the same embedding.
 * @param {Embeddings} embeddings
 * @param {number} row
 * @returns {number[]}
 */
function sameAs({ norms, cosines }, row) {
  return [...norms.keys()].filter((key) => key !== row && (cosines[row][key] ?? 0) > 1 - SAME && Math.abs(norms[key] - norms[row]) <= SAME * norms[row]);
}
