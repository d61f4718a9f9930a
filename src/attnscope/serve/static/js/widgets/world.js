// @ts-check
/** Widgets on the teaching sentence: one row as bars, all rows as a table, what a row fetches. */

import { fill, h, setStyle } from "../parts/dom.js";
import { percent, signed } from "../parts/numbers.js";
import { cosine, multiply, outputs, products, weights } from "./math/world.js";
import { bars, output, slider, switches } from "./parts.js";

/** @typedef {import("./math/world.js").World} World @typedef {import("./parts.js").Say} Say */

/** @param {World} world @param {Record<string, string>} options @param {Say} t @param {(row: number) => void} onRow */
function rowSwitch(world, options, t, onRow) {
  const first = Number(options.row ?? 3);
  return switches(t("world.row"), world.tokens.map((token, at) => /** @type {const} */ ([String(at), token])), String(first), (at) => onRow(Number(at)));
}

/** @param {World} world @param {Say} t @param {(head: number | null) => void} onHead */
function headSwitch(world, t, onHead) {
  const heads = Array.from({ length: world.heads }, (_, at) => /** @type {const} */ ([String(at), t("world.head", { letter: "AB"[at] })]));
  return switches(t("world.heads"), [["all", t("world.head.all")], ...heads], "all", (at) => onHead(at === "all" ? null : Number(at)));
}

/** @param {Say} t @param {(mask: import("./math/world.js").Mask) => void} onMask @param {import("./math/world.js").Mask} first */
function maskSwitch(t, onMask, first) {
  return switches(t("world.mask"), [["none", t("world.mask.none")], ["before", t("world.mask.before")], ["after", t("world.mask.after")]], first, onMask);
}

/**
 * Embeddings compared directly: the row's features can be changed.
 * @param {HTMLElement} place @param {Record<string, string>} options @param {World} world @param {Say} t
 */
export function mountCosine(place, options, world, t) {
  const E = world.E.map((row) => [...row]);
  let row = Number(options.row ?? 3);
  const chart = bars("cosine", world.tokens, { low: -1, high: 1 });
  const sliders = world.features.map((name, at) =>
    slider({ name: `feature.${at}`, label: name, min: -1, max: 1, step: 0.1, value: E[row][at] }, (now) => {
      E[row][at] = now;
      update();
    }));
  const best = h("p", { class: "fact", data: { name: "best" } });
  function update() {
    const found = E.map((one) => cosine(E[row], one));
    chart.update(found, (value) => (Number.isFinite(value) ? signed(value, 3) : "–"));
    const order = [...found.keys()].filter((at) => Number.isFinite(found[at])).sort((a, b) => found[b] - found[a]);
    best.textContent = t("world.order", { order: order.map((at) => world.tokens[at]).join(t("world.and")) });
  }
  const choose = rowSwitch(world, options, t, (at) => {
    row = at;
    sliders.forEach((one, feature) => one.set(E[row][feature]));
    update();
  });
  fill(place, choose, h("div", { class: "controls" }, sliders.map((one) => one.element)), chart.element, best);
  update();
  return { dispose: () => fill(place) };
}

/**
 * One query against every key, with the numbers that are multiplied.
 * @param {HTMLElement} place @param {Record<string, string>} options @param {World} world @param {Say} t
 */
export function mountPairs(place, options, world, t) {
  let row = Number(options.row ?? 3);
  const q = multiply(world.E, world.W_Q).map((one) => [...one]);
  const k = multiply(world.E, world.W_K);
  const chart = bars("score", world.tokens, { low: -10, high: 10 });
  const order = h("p", { class: "fact", data: { name: "order" } });
  const sliders = q[row].map((value, at) =>
    slider({ name: `q.${at}`, label: t("world.q", { number: at + 1 }), min: -3, max: 3, step: 0.01, value: round(value) }, (now) => {
      q[row][at] = now;
      update();
    }));
  function update() {
    const found = k.map((one) => one.reduce((sum, value, at) => sum + value * q[row][at], 0));
    chart.update(found, (value) => signed(value, 2));
    const sorted = [...found.keys()].sort((a, b) => found[b] - found[a]);
    order.textContent = t("world.order", { order: sorted.map((at) => world.tokens[at]).join(t("world.and")) });
  }
  const choose = rowSwitch(world, options, t, (at) => {
    row = at;
    sliders.forEach((one, feature) => one.set(round(q[row][feature])));
    update();
  });
  fill(place, choose, h("div", { class: "controls" }, sliders.map((one) => one.element)), chart.element, order);
  update();
  return { dispose: () => fill(place) };
}

/** @param {number} value @returns {number} as a slider's field shows it */
function round(value) {
  return Math.round(value * 100) / 100;
}

/**
 * The weights of a row, with the mask nowhere, before or after the softmax.
 * @param {HTMLElement} place @param {Record<string, string>} options @param {World} world @param {Say} t
 */
export function mountWeights(place, options, world, t) {
  const state = { row: Number(options.row ?? 3), head: /** @type {number | null} */ (null), mask: /** @type {import("./math/world.js").Mask} */ (options.mask ?? "none") };
  const chart = bars("weight", world.tokens);
  const facts = Object.fromEntries(["sum", "future"].map((name) => [name, output(name)]));
  function update() {
    const found = weights(world, state)[state.row];
    chart.update(found, percent);
    const sum = found.reduce((a, b) => a + b, 0);
    const future = found.slice(state.row + 1).reduce((a, b) => a + b, 0);
    facts.sum.show(sum, percent(sum));
    facts.future.show(future, percent(future));
  }
  fill(place, h("div", { class: "controls" }, rowSwitch(world, options, t, (row) => {
    state.row = row;
    update();
  }), maskSwitch(t, (mask) => {
    state.mask = mask;
    update();
  }, state.mask), options.heads === "yes" ? headSwitch(world, t, (head) => {
    state.head = head;
    update();
  }) : null), chart.element, h("dl", { class: "facts" }, ["sum", "future"].map((name) =>
    h("div", null, h("dt", null, t(`world.${name}`)), h("dd", null, facts[name].element)))));
  update();
  return { dispose: () => fill(place) };
}

/**
 * All rows at once: cosines, scores or weights, as a table with shades.
 * @param {HTMLElement} place @param {Record<string, string>} options   of: cosine, score, weight; heads: yes, to choose one @param {World} world @param {Say} t
 */
export function mountGrid(place, options, world, t) {
  const state = { head: /** @type {number | null} */ (null), mask: /** @type {import("./math/world.js").Mask} */ (options.mask ?? "before") };
  const cells = world.tokens.map((_, i) => world.tokens.map((__, j) => output(`g.${i}.${j}`)));
  const asked = h("p", { class: "fact", "aria-live": "polite", data: { name: "pair" } }, t("world.pick"));
  const values = () => {
    if (options.of === "cosine") return world.E.map((one) => world.E.map((other) => cosine(one, other)));
    return options.of === "score" ? products(world, state.head) : weights(world, state);
  };
  function update() {
    values().forEach((row, i) => row.forEach((value, j) => {
      const size = options.of === "score" ? Math.abs(value) / 7 : Math.abs(value);
      const text = options.of === "weight" ? percent(value) : signed(value, options.of === "score" ? 2 : 3);
      cells[i][j].show(value, text);
      setStyle(cells[i][j].element, { "--heat": `${Math.round(Math.min(1, size) * 100)}%` });
      cells[i][j].element.classList.toggle("negative", value < 0);
    }));
  }
  const body = world.tokens.map((token, i) => h("tr", null, h("th", { scope: "row" }, token), cells[i].map((cell, j) =>
    h("td", { class: "number" }, h("button", { type: "button", class: "cell", "aria-label": `${token}, ${world.tokens[j]}`, onclick: () => {
      asked.textContent = t(`world.pair.${options.of}`, { query: token, key: world.tokens[j], there: String(cell.element.textContent), back: String(cells[j][i].element.textContent) });
    } }, cell.element)))));
  fill(place, h("div", { class: "controls" }, options.of === "weight" ? maskSwitch(t, (mask) => {
    state.mask = mask;
    update();
  }, state.mask) : null, options.heads === "yes" ? headSwitch(world, t, (head) => {
    state.head = head;
    update();
  }) : null), h("div", { class: "scrolling" }, h("table", { class: "heat" },
    h("thead", null, h("tr", null, h("th", null, t(options.of === "cosine" ? "world.corner.cosine" : "world.corner")), world.tokens.map((token) => h("th", { scope: "col", class: "number" }, token)))),
    h("tbody", null, body))), asked);
  update();
  return { dispose: () => fill(place) };
}

/**
 * What a row fetches: each coordinate between the least and the largest of the values in sight.
 * @param {HTMLElement} place @param {Record<string, string>} options @param {World} world @param {Say} t
 */
export function mountMixture(place, options, world, t) {
  const state = { row: Number(options.row ?? 3), head: /** @type {number | null} */ (null), fetch: /** @type {"V" | "K"} */ ("V") };
  const table = h("tbody", null);
  const chart = bars("weight", world.tokens);
  function update() {
    const found = weights(world, state)[state.row];
    chart.update(found, percent);
    const from = multiply(world.E, state.fetch === "V" ? world.W_V : world.W_K);
    const mixed = outputs(world, state)[state.row];
    const first = state.head === null ? 0 : state.head * (from[0].length / world.heads);
    fill(table, mixed.map((value, at) => {
      const column = from.slice(0, state.row + 1).map((row) => row[first + at]);
      const found = /** @type {const} */ ([["least", Math.min(...column), 2], ["o", value, 3], ["largest", Math.max(...column), 2]]);
      return h("tr", null, h("th", { scope: "row" }, t("world.coordinate", { number: first + at + 1 })), found.map(([name, one, decimals]) => {
        const out = output(`${name}.${at}`);
        out.show(one, signed(one, decimals));
        return h("td", { class: "number" }, out.element);
      }));
    }));
  }
  fill(place, h("div", { class: "controls" }, rowSwitch(world, options, t, (row) => {
    state.row = row;
    update();
  }), headSwitch(world, t, (head) => {
    state.head = head;
    update();
  }), switches(t("world.fetch"), [["V", "v"], ["K", "k"]], "V", (fetch) => {
    state.fetch = fetch;
    update();
  })), chart.element, h("div", { class: "scrolling" }, h("table", null,
    h("thead", null, h("tr", null, ["world.fetched", "world.least", "world.mixed", "world.largest"].map((key, at) => h("th", { scope: "col", class: at ? "number" : null }, t(key))))), table)));
  update();
  return { dispose: () => fill(place) };
}
