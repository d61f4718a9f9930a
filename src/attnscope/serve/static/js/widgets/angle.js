// @ts-check
/** Two arrows in the plane: their dot product grows with length, their cosine with the angle alone. */

import { fill, h } from "../parts/dom.js";
import { signed } from "../parts/numbers.js";
import { dot } from "./math/softmax.js";
import { cosine } from "./math/world.js";
import { output, slider } from "./parts.js";

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {object} _data
 * @param {import("./parts.js").Say} t
 */
export function mountAngle(place, _options, _data, t) {
  const state = { degrees: 50, length: 2 };
  const facts = Object.fromEntries(["dot", "cosine"].map((name) => [name, output(name)]));
  const moving = h("svg:path", { class: "law" });
  const still = h("svg:path", { class: "axis", d: arrow([1.5, 0]) });
  function update() {
    const angle = (state.degrees * Math.PI) / 180;
    const b = [state.length * Math.cos(angle), state.length * Math.sin(angle)];
    moving.setAttribute("d", arrow(b));
    facts.dot.show(dot([1.5, 0], b), signed(dot([1.5, 0], b), 2));
    facts.cosine.show(cosine([1.5, 0], b), signed(cosine([1.5, 0], b), 3));
  }
  const controls = [
    slider({ name: "degrees", label: t("angle.degrees"), min: 0, max: 180, step: 1, value: state.degrees }, (now) => {
      state.degrees = now;
      update();
    }),
    slider({ name: "length", label: t("angle.length"), min: 0.2, max: 3, step: 0.1, value: state.length }, (now) => {
      state.length = now;
      update();
    }),
  ];
  fill(place, h("div", { class: "controls" }, controls.map((one) => one.element)),
    h("svg:svg", { class: "plane", viewBox: "-110 -105 220 125", role: "img", "aria-label": t("angle.picture") }, still, moving),
    h("dl", { class: "facts" }, ["dot", "cosine"].map((name) => h("div", null, h("dt", null, t(`angle.${name}`)), h("dd", null, facts[name].element)))));
  update();
  return { dispose: () => fill(place) };
}

/** @param {number[]} to @returns {string} a path from the middle, 33 units to one */
function arrow(to) {
  const [x, y] = [33 * to[0], -33 * to[1]];
  const angle = Math.atan2(y, x);
  const head = [2.7, -2.7].map((turn) => `M${x.toFixed(1)} ${y.toFixed(1)}l${(7 * Math.cos(angle + turn)).toFixed(1)} ${(7 * Math.sin(angle + turn)).toFixed(1)}`);
  return `M0 0L${x.toFixed(1)} ${y.toFixed(1)}${head.join("")}`;
}
