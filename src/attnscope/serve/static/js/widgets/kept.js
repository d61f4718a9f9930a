// @ts-check
/** What real models keep of a text: bytes against its length, several models on one logarithmic plot. */

import { fill, h } from "../parts/dom.js";
import { count } from "../parts/numbers.js";
import { sized } from "./bytes.js";
import { linePlot, swatch } from "./lines.js";
import { keptBytes } from "./math/kept.js";
import { output, slider } from "./parts.js";

/** @typedef {{id: string, name: string, stores: import("./math/kept.js").Store[]}} Keeper */

const LONGEST = 20;
const Y = /** @type {[number, number]} */ ([13, 42]);
const GIB = 2 ** 30;
const STRIDE = 128; // tokens that fill a whole entry of every model

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options   models: ids, joined by commas
 * @param {{models: Keeper[]}} data
 * @param {import("./parts.js").Say} t
 */
export function mountKept(place, options, data, t) {
  const wanted = (options.models ?? "").split(",");
  const models = wanted.map((id) => {
    const found = data.models.find((one) => one.id === id);
    if (!found) throw new Error(`there is no model ${id} among ${data.models.map((one) => one.id).join(", ")}`);
    return found;
  });
  const state = { power: 17, requests: 1, memory: 80 };
  const cells = models.map((_, at) => ({ now: output(`bytes.${at}`), more: output(`token.${at}`), fits: output(`fits.${at}`) }));
  const tokens = output("tokens");
  const plot = linePlot({
    label: t("kept.picture"), x: [0, LONGEST], y: Y, xTitle: t("kept.axis.tokens"), yTitle: t("kept.axis.bytes"), count: models.length,
    xTicks: [0, 4, 8, 12, 16, 20].map((at) => [at, at < 10 ? String(2 ** at) : sized(2 ** at).replace("iB", "").replace(" ", "")]),
    yTicks: [20, 30, 40].map((at) => [at, sized(2 ** at)]),
  });
  function update() {
    const length = 2 ** state.power;
    const bytes = (/** @type {Keeper} */ one, /** @type {number} */ long) => state.requests * keptBytes(one.stores, long);
    plot.update(models.map((one) => Array.from({ length: LONGEST + 1 }, (_, at) => /** @type {const} */ ([at, Math.log2(bytes(one, 2 ** at))]))),
      state.power, models.map((one) => Math.log2(bytes(one, length))));
    plot.bound(Math.log2(state.memory * GIB));
    tokens.show(length, count(length));
    models.forEach((one, at) => {
      const all = bytes(one, length);
      cells[at].now.show(all, sized(all));
      const step = (keptBytes(one.stores, length + STRIDE) - keptBytes(one.stores, length)) / STRIDE;
      cells[at].more.show(step, step ? `${count(step)} B` : "0");
      const fits = all <= state.memory * GIB;
      cells[at].fits.show(fits ? 1 : 0, t(fits ? "kept.yes" : "kept.no"));
    });
  }
  fill(place,
    h("div", { class: "controls" },
      slider({ name: "power", label: t("bytes.power"), min: 0, max: LONGEST, step: 1, value: state.power }, (now) => {
        state.power = Math.round(now);
        update();
      }).element,
      slider({ name: "requests", label: t("kept.requests"), min: 1, max: 64, step: 1, value: state.requests }, (now) => {
        state.requests = Math.round(now);
        update();
      }).element,
      slider({ name: "memory", label: t("kept.memory"), min: 4, max: 640, step: 4, value: state.memory }, (now) => {
        state.memory = now;
        update();
      }).element),
    plot.element,
    h("p", { class: "fact" }, t("bytes.tokens"), " ", tokens.element, h("br", null), h("i", { class: "swatch limit", "aria-hidden": "true" }), t("kept.limit")),
    h("div", { class: "scrolling" }, h("table", { class: "kept" },
      h("thead", null, h("tr", null, h("th", null, t("kept.model")), ["now", "more", "fits"].map((key) => h("th", { scope: "col", class: "number" }, t(`kept.${key}`))))),
      h("tbody", null, models.map((one, at) => h("tr", null, h("th", { scope: "row" }, swatch(at), one.name),
        h("td", { class: "number" }, cells[at].now.element), h("td", { class: "number" }, cells[at].more.element), h("td", { class: "number" }, cells[at].fits.element)))))));
  update();
  return { dispose: () => fill(place) };
}
