// @ts-check
/** Three values in the plane and their weighted mean: it never leaves the triangle. */

import { fill, h } from "../parts/dom.js";
import { percent, signed } from "../parts/numbers.js";
import { ends, toStep } from "./math/row.js";
import { softmax, weigh } from "./math/softmax.js";
import { bars, output, slider, switches } from "./parts.js";

const VALUES = [[-80, 50], [80, 50], [0, -80]];
const FIRST = [1, 2, 1];

/**
 * Where the weighted mean of the corners lies.
 * @param {readonly number[]} weights
 * @returns {number[]}
 */
export function mixed(weights) {
  return [0, 1].map((axis) => weights.reduce((sum, one, at) => sum + one * VALUES[at][axis], 0));
}

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {{row?: {names: string[], scores: number[]}}} data   three scores in the place of the lesson's
 * @param {import("./parts.js").Say} t
 */
export function mountMix(place, _options, { row }, t) {
  const first = row?.scores ?? FIRST;
  const names = row?.names ?? ["A", "B", "C"];
  const scores = [...first];
  /** @type {"softmax" | "proportional"} */
  let rule = "softmax";
  const chart = bars("weight", names, { low: -1, high: 2 });
  const point = h("svg:circle", { r: 6, class: "point" });
  const facts = [output("x"), output("y")];
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  function update() {
    const w = rule === "softmax" ? softmax(scores) : weigh(scores, "proportional");
    chart.update(w, percent);
    const [x, y] = mixed(w);
    facts[0].show(x, signed(x, 1));
    facts[1].show(-y, signed(-y, 1));
    const there = Number.isFinite(x);
    point.setAttribute("cx", there ? String(Math.max(-150, Math.min(150, x))) : "0");
    point.setAttribute("cy", there ? String(Math.max(-105, Math.min(75, y))) : "0");
    const inside = w.every((one) => one >= 0);
    verdict.textContent = t(!there ? "rules.no_sum" : inside ? "mix.inside" : "mix.outside");
    verdict.classList.toggle("good", there && inside);
    verdict.classList.toggle("bad", !there || !inside);
  }
  const sliders = scores.map((value, at) =>
    slider({ name: `score.${at}`, label: t("mix.score", { letter: names[at] }), ...ends(first, -5, 5), step: 0.1, value: toStep(value, 0.1) }, (now) => {
      scores[at] = now;
      update();
    }));
  fill(place,
    switches(t("mix.rule"), [["softmax", t("rules.softmax")], ["proportional", t("rules.proportional")]], rule, (now) => {
      rule = now;
      update();
    }),
    h("div", { class: "controls" }, sliders.map((one) => one.element)),
    h("svg:svg", { class: "plane", viewBox: "-160 -115 320 200", role: "img", "aria-label": t("mix.picture") },
      h("svg:path", { class: "axis", d: `M${VALUES.map((one) => one.join(" ")).join("L")}Z` }),
      VALUES.map((one, at) => h("svg:text", { x: one[0] * 1.12, y: one[1] * 1.12 + 5, "text-anchor": "middle" }, row ? short(names[at]) : names[at])), point),
    chart.element,
    h("p", { class: "fact" }, t("mix.at"), " ", facts[0].element, ", ", facts[1].element), verdict);
  update();
  return { dispose: () => fill(place) };
}

/** @param {string} name @returns {string} as it fits beside a corner */
function short(name) {
  const letters = [...name];
  return letters.length > 12 ? `${letters.slice(0, 11).join("")}…` : name;
}
