// @ts-check
/** Generation step by step: which keys and values are computed, without a cache and with one. */

import { fill, h } from "../parts/dom.js";
import { count, signed } from "../parts/numbers.js";
import { feed } from "./math/cache.js";
import { output, slider } from "./parts.js";

const MOST = 12;
const CELL = 13;
const KINDS = /** @type {const} */ (["kept", "computed", "again"]);

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options   prompt, generated
 * @param {object} _data
 * @param {import("./parts.js").Say} t
 */
export function mountFeeding(place, options, _data, t) {
  const state = { prompt: Number(options.prompt ?? 2), generated: Number(options.generated ?? 3) };
  const panels = [false, true].map((cached) => panel(cached, t));
  const ratio = output("ratio");
  function update() {
    const found = [false, true].map((cached) => feed(state.prompt, state.generated, cached));
    panels.forEach((one, at) => one.update(found[at], state));
    ratio.show(found[0].total / found[1].total, signed(found[0].total / found[1].total, 1));
  }
  const controls = /** @type {const} */ (["prompt", "generated"]).map((name) =>
    slider({ name, label: t(`feeding.${name}`), min: 1, max: MOST, step: 1, value: state[name] }, (now) => {
      state[name] = Math.round(now);
      update();
    }));
  fill(place, h("div", { class: "controls" }, controls.map((one) => one.element)),
    h("div", { class: "columns-of-bars two" }, panels.map((one) => one.element)),
    h("p", { class: "note legend" }, KINDS.map((kind) => h("span", null, h("i", { class: kind, "aria-hidden": "true" }), t(`feeding.${kind}`)))),
    h("p", { class: "fact" }, t("feeding.ratio"), " ", ratio.element));
  update();
  return { dispose: () => fill(place) };
}

/** @param {boolean} cached @param {import("./parts.js").Say} t */
function panel(cached, t) {
  const name = cached ? "with" : "without";
  const shapes = Object.fromEntries(KINDS.map((kind) => [kind, h("svg:path", { class: kind })]));
  const svg = h("svg:svg", { class: "cells", role: "img", "aria-label": t(`feeding.${name}`) }, KINDS.map((kind) => shapes[kind]));
  const facts = ["total", "again"].map((fact) => output(`${name}.${fact}`));
  const element = h("div", { class: "column" }, h("h4", null, t(`feeding.${name}`)), svg,
    h("dl", null, ["total", "again"].flatMap((fact, at) => [h("dt", null, t(`feeding.${fact}`)), h("dd", null, facts[at].element)])));
  /** @param {import("./math/cache.js").Fed} found @param {{prompt: number, generated: number}} state */
  function update(found, { prompt, generated }) {
    svg.setAttribute("viewBox", `0 0 ${Math.max(14, prompt + generated - 1) * CELL} ${generated * CELL}`);
    const all = { kept: "", computed: "", again: "" };
    found.steps.forEach((step, row) => {
      const made = new Set([...step.computed, ...step.again]);
      const kept = Array.from({ length: step.sight }, (_, at) => at).filter((at) => !made.has(at));
      all.kept += kept.map((at) => square(at, row)).join("");
      all.computed += step.computed.map((at) => square(at, row)).join("");
      all.again += step.again.map((at) => square(at, row)).join("");
    });
    for (const kind of KINDS) shapes[kind].setAttribute("d", all[kind]);
    facts[0].show(found.total, count(found.total));
    facts[1].show(found.again, count(found.again));
  }
  return { element, update };
}

/** @param {number} column @param {number} row @returns {string} */
function square(column, row) {
  return `M${column * CELL + 1.5} ${row * CELL + 1.5}h${CELL - 3}v${CELL - 3}h${3 - CELL}z`;
}
