// @ts-check
/** What the scores of all pairs take: additive attention beside dot products. */

import { fill, h } from "../parts/dom.js";
import { count } from "../parts/numbers.js";
import { output, slider } from "./parts.js";

const TWO = 2; // bytes of a BF16 number

/** @param {number} tokens @param {number} width @returns {number} bytes of all pairs' tanh layers */
export function additiveBytes(tokens, width) {
  return tokens * tokens * width * TWO;
}

/** @param {number} bytes @returns {string} in the largest binary unit that is at least 1 */
export function sized(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const step = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, bytes)) / 10)));
  const value = bytes / 1024 ** step;
  return `${value >= 100 || Number.isInteger(value) ? count(value) : value.toFixed(1)} ${units[step]}`;
}

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {object} _data
 * @param {import("./parts.js").Say} t
 */
export function mountBytes(place, _options, _data, t) {
  const state = { power: 12, width: 256 };
  const facts = Object.fromEntries(["tokens", "additive", "dot"].map((name) => [name, output(name)]));
  function update() {
    const tokens = 2 ** state.power;
    facts.tokens.show(tokens, count(tokens));
    facts.additive.show(additiveBytes(tokens, state.width), sized(additiveBytes(tokens, state.width)));
    facts.dot.show(additiveBytes(tokens, 1), sized(additiveBytes(tokens, 1)));
  }
  const controls = [
    slider({ name: "power", label: t("bytes.power"), min: 6, max: 18, step: 1, value: state.power }, (now) => {
      state.power = Math.round(now);
      update();
    }),
    slider({ name: "width", label: t("bytes.width"), min: 16, max: 1024, step: 16, value: state.width }, (now) => {
      state.width = now;
      update();
    }),
  ];
  fill(place, h("div", { class: "controls" }, controls.map((one) => one.element)),
    h("dl", { class: "facts" }, ["tokens", "additive", "dot"].map((name) => h("div", null, h("dt", null, t(`bytes.${name}`)), h("dd", null, facts[name].element)))));
  update();
  return { dispose: () => fill(place) };
}
