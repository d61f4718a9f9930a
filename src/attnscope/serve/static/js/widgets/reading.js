// @ts-check
/** A head of a real model: its map, and one row by weight and by what arrived; and a circuit by hand. */

import { fill, h, setStyle } from "../parts/dom.js";
import { percent } from "../parts/numbers.js";
import { againstEven, arrivedShares, circuit } from "./math/reading.js";
import { bars, output, slider, switches } from "./parts.js";

const SHOWN = 8;
const SHADES = 10;

/**
 * @typedef {{keys: number[], weights: number[], arrived: number[] | null}} Outside
 * @typedef {{layer: number, head: number, kind: string, weights: number[][], norms: number[], outside?: Outside}} Map
 *   outside: what each row sees beyond these tokens, in a part of a longer text
 * @typedef {{tokens: string[], words?: string[], start?: number, maps: Map[]}} Data
 *   words: the tokens as they stand in the text; start: the number of the first one, from 0
 */

/** @param {string} token @returns {string} a token as it may stand alone */
function visible(token) {
  return token.replace(/^ /, "␣");
}

/**
 * One row: its weights, what arrives from each key as a share of all, and both from beyond.
 * @param {Map} map
 * @param {number} row
 */
function rowOf(map, row) {
  const weights = map.weights[row];
  const { outside } = map;
  if (!outside?.keys[row]) {
    return { weights, arrived: arrivedShares(weights, map.norms), even: againstEven(weights, map.norms), beyond: [0, 0] };
  }
  const each = weights.map((w, key) => w * map.norms[key]);
  const beyond = outside.arrived?.[row] ?? NaN;
  const all = each.reduce((a, b) => a + b, beyond);
  return { weights, arrived: each.map((one) => one / all), even: NaN, beyond: [outside.weights[row], beyond / all] };
}

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options   head: "18.6"; row: its number
 * @param {Data} data
 * @param {import("./parts.js").Say} t
 */
export function mountReading(place, options, data, t) {
  const names = data.maps.map((one) => `${one.layer}.${one.head}`);
  const start = data.start ?? 0;
  const state = { map: Math.max(0, names.indexOf(options.head ?? "")), row: Number(options.row ?? start + data.tokens.length) - 1 - start, by: /** @type {"weight" | "arrived"} */ ("weight") };
  const size = data.tokens.length;
  const shades = Array.from({ length: SHADES }, (_, at) => h("svg:path", { class: "shade", "fill-opacity": ((at + 1) / SHADES).toFixed(2) }));
  const line = h("svg:rect", { x: 0, height: 1, width: size, class: "ring" });
  const svg = h("svg:svg", { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": t("reading.map"), class: "real-map", onclick: (/** @type {MouseEvent} */ event) => {
    const box = svg.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * size);
    state.row = Math.min(size - 1, Math.max(0, row));
    query.set(start + state.row + 1);
    update();
  } }, h("svg:path", { class: "half", d: `M0 0V${size}H${size}Z` }), shades, line);
  const words = (data.words ?? data.tokens).map((token) => h("span", { class: "word" }, token));
  const table = h("tbody", null);
  const asked = h("p", { class: "fact", "aria-live": "polite", data: { name: "asked" } });
  const part = data.maps.some((one) => one.outside?.keys.some((count) => count > 0));
  const said = part ? ["beyond.weight", "beyond.arrived", "all"] : ["first.weight", "first.arrived", "all"];
  const facts = said.map((name) => output(name));

  function update() {
    const map = data.maps[state.map];
    const paths = Array.from({ length: SHADES }, () => "");
    map.weights.forEach((row, i) => row.forEach((w, j) => {
      const at = Math.ceil(w * SHADES) - 1;
      if (w >= 0.02) paths[Math.min(SHADES - 1, at)] += `M${j} ${i}h1v1h-1z`;
    }));
    paths.forEach((d, at) => shades[at].setAttribute("d", d));
    line.setAttribute("y", String(state.row));
    const { weights, arrived, even, beyond } = rowOf(map, state.row);
    const shown = state.by === "weight" ? weights : arrived;
    words.forEach((word, at) => {
      setStyle(word, { "--heat": `${Math.round(100 * (shown[at] || 0))}%` });
      word.classList.toggle("later", at > state.row);
      word.classList.toggle("asker", at === state.row);
    });
    asked.textContent = t("reading.asked", { token: visible(data.tokens[state.row]), number: start + state.row + 1 });
    const order = [...shown.keys()].sort((a, b) => (shown[b] || 0) - (shown[a] || 0)).slice(0, SHOWN);
    fill(table, order.map((key) => h("tr", null,
      h("th", { scope: "row" }, h("small", null, String(start + key + 1)), " ", visible(data.tokens[key])),
      [weights, arrived].map((values, at) => {
        const out = output(`${at ? "arrived" : "weight"}.${key}`);
        out.show(values[key], percent(values[key]));
        return h("td", { class: "number shade-cell", style: { "--heat": `${Math.round(100 * (values[key] || 0))}%` } }, out.element);
      }))));
    [...(part ? beyond : [weights[0], arrived[0]]), even].forEach((value, at) => facts[at].show(value, percent(value)));
  }
  const query = slider({ name: "row", label: t("reading.row"), min: start + 1, max: start + size, step: 1, value: start + state.row + 1 }, (now) => {
    state.row = Math.round(now) - 1 - start;
    update();
  });
  fill(place,
    h("div", { class: "controls" },
      switches(t("reading.head"), data.maps.map((one, at) => /** @type {const} */ ([String(at), `${names[at]} ${t(`kind.${one.kind}`)}`])), String(state.map), (at) => {
        state.map = Number(at);
        update();
      }),
      query.element,
      switches(t("reading.shade"), [["weight", t("reading.weight")], ["arrived", t("reading.arrived")]], state.by, (by) => {
        state.by = by;
        update();
      })),
    h("p", { class: "shaded-text", lang: data.words ? null : "en" }, words),
    asked,
    h("div", { class: "map-and-row" }, h("figure", null, svg, h("figcaption", null, t("reading.caption"))),
      h("div", { class: "scrolling" }, h("table", null,
        h("thead", null, h("tr", null, ["reading.key", "reading.weight", "reading.arrived"].map((key, at) => h("th", { scope: "col", class: at ? "number" : null }, t(key))))), table))),
    h("dl", { class: "facts" }, said.map((key, at) => h("div", null, h("dt", null, t(`reading.${key}`)), h("dd", null, facts[at].element)))));
  update();
  return { dispose: () => fill(place) };
}

/**
 * An induction circuit by hand, on a row of words that the reader types.
 * @param {HTMLElement} place
 * @param {Record<string, string>} options   tokens: words with commas between
 * @param {object} _data
 * @param {import("./parts.js").Say} t
 */
export function mountCircuit(place, options, _data, t) {
  const first = (options.tokens ?? "A,B,C,D,A").split(",").join(" ");
  const state = { text: first, sharpness: 6, two: options.layers !== "one" };
  const stand = h("div", { class: "columns-of-bars two" });
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  function update() {
    const tokens = state.text.split(/\s+/).filter(Boolean).slice(0, 16);
    if (tokens.length < 2) {
      verdict.textContent = t("circuit.short");
      return;
    }
    const { weights, names, next } = circuit(tokens, state.sharpness, state.two);
    const looks = bars("weight", tokens.map((token, at) => `${at + 1} ${token}`));
    const says = bars("next", names);
    looks.update(weights, percent);
    says.update(next, percent);
    fill(stand, h("div", { class: "column" }, h("h4", null, t("circuit.looks", { token: tokens[tokens.length - 1] })), looks.element),
      h("div", { class: "column" }, h("h4", null, t("circuit.says")), says.element));
    const best = names[next.indexOf(Math.max(...next))];
    const own = best === tokens[tokens.length - 1];
    verdict.textContent = t(own ? "circuit.itself" : "circuit.next", { token: best });
  }
  const field = h("input", { type: "text", value: state.text, maxlength: 120, data: { name: "tokens" }, oninput: () => {
    state.text = field.value;
    update();
  } });
  const sharpness = slider({ name: "sharpness", label: t("circuit.sharpness"), min: 0, max: 20, step: 0.5, value: state.sharpness }, (now) => {
    state.sharpness = now;
    update();
  });
  fill(place, h("div", { class: "controls" }, h("label", { class: "line-field" }, h("span", null, t("circuit.tokens")), field), sharpness.element,
    switches(t("circuit.layers"), [["one", t("circuit.one")], ["two", t("circuit.two")]], state.two ? "two" : "one", (layers) => {
      state.two = layers === "two";
      update();
    })), stand, verdict);
  update();
  return { dispose: () => fill(place) };
}
