// @ts-check
/**
 * The chart of a score against the distance of query and key, for two places of a text.
 *
 * Not here: what is scored (places.js, own/places.js).
 */

import { h } from "../parts/dom.js";
import { signed } from "../parts/numbers.js";

/** Distances 0 to 64. */
export const COUNT = 65;
const CHART = { width: 560, height: 200, top: 14, left: 46, right: 16, foot: 30 };

/** @param {import("./parts.js").Say} t */
export function distanceChart(t) {
  const lines = ["law", "second"].map((name) => h("svg:path", { class: name }));
  const mark = h("svg:path", { class: "axis" });
  const ends = [1, 0, -1].map(() => h("svg:text", { "text-anchor": "end", x: CHART.left - 6 }));
  const right = CHART.width - CHART.right;
  const x = (/** @type {number} */ distance) => CHART.left + (distance / (COUNT - 1)) * (right - CHART.left);
  const svg = h("svg:svg", { class: "plane chart", viewBox: `0 0 ${CHART.width} ${CHART.top + CHART.height + CHART.foot}`, role: "img", "aria-label": t("places.far.picture") },
    mark, lines[1], lines[0], ends,
    [0, 16, 32, 48, 64].map((one) => h("svg:text", { x: x(one), y: CHART.top + CHART.height + CHART.foot - 6, "text-anchor": "middle" }, String(one))));
  return {
    /** The picture and its legend. */
    elements: [svg, h("p", { class: "note" }, h("i", { class: "key law" }), t("places.far.key.here"), " ", h("i", { class: "key second" }), t("places.far.key.there"))],
    /**
     * @param {readonly (readonly number[])[]} scores   at each distance, at two places
     * @param {{distance: number, edge: number, decimals?: number}} about   which distance is marked; ends of the axis
     */
    draw: (scores, { distance, edge, decimals = 0 }) => {
      const y = (/** @type {number} */ score) => CHART.height * (0.5 - score / (2 * edge)) + CHART.top;
      scores.forEach((line, which) =>
        lines[which].setAttribute("d", line.map((one, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${y(one).toFixed(1)}`).join("")));
      mark.setAttribute("d", `M${x(distance).toFixed(1)} ${CHART.top}V${CHART.height + CHART.top}M${CHART.left} ${y(0)}H${right}`);
      ends.forEach((one, at) => {
        one.textContent = signed((1 - at) * edge, decimals);
        one.setAttribute("y", String(y((1 - at) * edge) + 4));
      });
    },
  };
}
