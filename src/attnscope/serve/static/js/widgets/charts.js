// @ts-check
/**
 * A small chart of several lines over steps, with a mark that stands at one of them.
 *
 * The idea: lines differ in colour and in their dashes, so that nobody needs the colours; the
 * numbers at the mark are said elsewhere, as text.
 *
 * Not here: what the lines are.
 */

import { h } from "../parts/dom.js";

const SIZE = { width: 260, height: 120, left: 36, foot: 18 };

/**
 * @param {string} title
 * @param {{count: number, low: number, high: number, log?: boolean, ticks: readonly number[], text: (value: number) => string, last: string}} about
 *   count of points; ends of the axis; last: what stands below the last point
 */
export function lineChart(title, { count, low, high, log = false, ticks, text, last }) {
  const { width, height, left, foot } = SIZE;
  const scale = (/** @type {number} */ value) => (log ? Math.log10(value) : value);
  const [bottom, top] = [scale(low), scale(high)];
  const x = (/** @type {number} */ at) => left + ((width - left) * at) / Math.max(1, count - 1);
  const y = (/** @type {number} */ value) => {
    const share = (scale(Math.max(low, Math.min(high, value))) - bottom) / (top - bottom);
    return height * (1 - share) + 2;
  };
  const lines = h("svg:g", null);
  const mark = h("svg:path", { class: "mark" });
  const svg = h("svg:svg", { viewBox: `0 0 ${width} ${height + foot + 4}`, role: "img", "aria-label": title },
    ticks.map((tick) => [
      h("svg:path", { class: "grid", d: `M${left} ${y(tick)}H${width}` }),
      h("svg:text", { x: left - 5, y: y(tick) + 4, "text-anchor": "end" }, text(tick)),
    ]),
    h("svg:text", { x: left, y: height + foot, "text-anchor": "start" }, "0"),
    h("svg:text", { x: width, y: height + foot, "text-anchor": "end" }, last),
    lines, mark);
  return {
    element: h("figure", { class: "line-chart" }, h("figcaption", null, title), svg),
    /** @param {readonly {values: readonly number[], style: number}[]} drawn */
    draw: (drawn) => {
      lines.replaceChildren(...drawn.map(({ values, style }) => h("svg:path", {
        class: `line style-${style}`,
        d: values.map((value, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join(""),
      })));
    },
    /** @param {number} at   a point's place */
    point: (at) => mark.setAttribute("d", `M${x(at).toFixed(1)} 0V${height + 2}`),
  };
}

/** @param {number} style @returns {SVGSVGElement} a piece of a line, for a legend */
export function sample(style) {
  return h("svg:svg", { class: "sample", viewBox: "0 0 28 8", "aria-hidden": "true" }, h("svg:path", { class: `line style-${style}`, d: "M0 4H28" }));
}
