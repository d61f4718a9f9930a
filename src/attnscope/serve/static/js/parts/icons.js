// @ts-check
/** The few icons: drawn here, so that no font or file is needed. */

import { h } from "./dom.js";

const SHAPES = {
  mark: ["M2 2v16h16z", ""],
  auto: ["M10 3a7 7 0 1 0 0 14z", "M10 3a7 7 0 0 1 0 14"],
  light: ["M10 6.5a3.5 3.5 0 1 0 0 7a3.5 3.5 0 0 0 0-7z", "M10 1.5v2M10 16.5v2M1.5 10h2M16.5 10h2M4 4l1.4 1.4M14.6 14.6L16 16M16 4l-1.4 1.4M5.4 14.6L4 16"],
  dark: ["M16.5 12.5A7.2 7.2 0 0 1 7.5 3.5a7.2 7.2 0 1 0 9 9z", ""],
  close: ["", "M5 5l10 10M15 5L5 15"],
};

/**
 * @param {keyof typeof SHAPES} name
 * @returns {SVGSVGElement}
 */
export function icon(name) {
  const [filled, line] = SHAPES[name];
  return h("svg:svg", { viewBox: "0 0 20 20", width: 18, height: 18, "aria-hidden": "true", focusable: "false" },
    filled ? h("svg:path", { d: filled, fill: "currentColor" }) : null,
    line ? h("svg:path", { d: line, fill: "none", stroke: "currentColor", "stroke-width": 1.6, "stroke-linecap": "round" }) : null);
}
