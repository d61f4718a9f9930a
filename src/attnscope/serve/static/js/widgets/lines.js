// @ts-check
/**
 * A small plot of lines over one axis, with ticks, a marker, and colours that a table can name.
 *
 * The idea: the plot is a picture of numbers that stand beside it as text; so it is one image to a
 * screen reader, with a label, and the table says the rest.
 *
 * Not here: what is plotted.
 */

import { fill, h } from "../parts/dom.js";

const SIZE = { width: 520, height: 230, left: 78, right: 12, top: 10, foot: 44 };

/** @typedef {readonly [number, string]} Tick @typedef {readonly [number, number]} Point */

/**
 * @param {{label: string, x: [number, number], y: [number, number], xTicks: Tick[], yTicks: Tick[],
 *   xTitle: string, yTitle: string, count: number}} about   count: how many lines
 */
export function linePlot({ label, x, y, xTicks, yTicks, xTitle, yTitle, count }) {
  const { width, height, left, right, top, foot } = SIZE;
  const floor = height - foot;
  const across = (/** @type {number} */ at) => left + ((at - x[0]) / (x[1] - x[0])) * (width - left - right);
  const state = { y };
  const up = (/** @type {number} */ at) => {
    const share = (at - state.y[0]) / (state.y[1] - state.y[0]);
    return floor - Math.min(1.02, Math.max(-0.02, share)) * (floor - top);
  };
  const paths = Array.from({ length: count }, (_, at) => h("svg:path", { class: `line line-${at}` }));
  const marker = h("svg:path", { class: "marker" });
  const limit = h("svg:path", { class: "limit" });
  const dots = paths.map((_, at) => h("svg:circle", { class: `dot line-${at}`, r: 4, cx: -50, cy: -50 }));
  const side = h("svg:g", null);
  const element = h("svg:svg", { class: "line-plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    h("svg:path", { class: "axis", d: `M${left} ${top}V${floor}H${width - right}` }),
    xTicks.map(([at, text]) => [h("svg:path", { class: "axis", d: `M${across(at)} ${floor}v4` }),
      h("svg:text", { x: across(at), y: floor + 17, "text-anchor": "middle" }, text)]),
    side, limit, marker, paths, dots,
    h("svg:text", { x: (left + width - right) / 2, y: height - 3, "text-anchor": "middle" }, xTitle),
    h("svg:text", { x: 0, y: 0, transform: `translate(13 ${(top + floor) / 2}) rotate(-90)`, "text-anchor": "middle" }, yTitle));
  /** @param {Tick[]} ticks */
  function sideTicks(ticks) {
    fill(side, ticks.map(([at, text]) => [h("svg:path", { class: "grid", d: `M${left} ${up(at)}H${width - right}` }),
      h("svg:text", { x: left - 6, y: up(at) + 4, "text-anchor": "end" }, text)]));
  }
  sideTicks(yTicks);
  return {
    element,
    /**
     * @param {readonly (readonly Point[])[]} lines
     * @param {number} at   where the marker stands; every line has a dot there
     * @param {readonly number[]} values   of the lines there
     */
    update(lines, at, values) {
      lines.forEach((line, which) => paths[which].setAttribute("d", line.map(([a, b], n) => `${n ? "L" : "M"}${across(a).toFixed(1)} ${up(b).toFixed(1)}`).join("")));
      marker.setAttribute("d", `M${across(at).toFixed(1)} ${top}V${floor}`);
      values.forEach((value, which) => {
        dots[which].setAttribute("cx", across(at).toFixed(1));
        dots[which].setAttribute("cy", up(value).toFixed(1));
      });
    },
    /** A level that lines may not pass. @param {number} at */
    bound(at) {
      limit.setAttribute("d", `M${left} ${up(at).toFixed(1)}H${width - right}`);
    },
    /** @param {[number, number]} range @param {Tick[]} ticks */
    rescale(range, ticks) {
      state.y = range;
      sideTicks(ticks);
    },
  };
}

/** The line's colour beside its name in a table or legend. @param {number} at */
export function swatch(at) {
  return h("i", { class: `swatch line-${at}`, "aria-hidden": "true" });
}
