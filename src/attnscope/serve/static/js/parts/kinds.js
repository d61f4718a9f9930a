// @ts-check
/**
 * How a kind of head is marked everywhere: a letter, a shape and a colour, so that none is needed alone.
 *
 * The colours are near Okabe and Ito's, which the common kinds of colour blindness tell apart, stand on
 * light and dark grounds, and carry black letters. A test holds them equal to the terminal's (cli/picture.py).
 *
 * Not here: the rules that name a head (the trace has done that), the words (text/).
 */

import { h } from "./dom.js";

export const KINDS = /** @type {const} */ (["sink", "previous-token", "induction", "local", "uniform", "mixed"]);

/** @typedef {{letter: string, colour: string, shape: [number, number][] | null}} Mark */

/** Shapes are polygons in a box from -1 to 1; null is a disc. @type {Record<string, Mark>} */
export const MARKS = {
  sink: { letter: "S", colour: "#d55e00", shape: [[-1, -0.8], [1, -0.8], [0, 1]] },
  "previous-token": { letter: "P", colour: "#2a86c8", shape: [[0.8, -1], [0.8, 1], [-1, 0]] },
  induction: { letter: "I", colour: "#c9609a", shape: [[0, -1], [1, 0], [0, 1], [-1, 0]] },
  local: { letter: "L", colour: "#0a9a72", shape: [[-0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]] },
  uniform: { letter: "U", colour: "#d99400", shape: [[-1, -0.4], [1, -0.4], [1, 0.4], [-1, 0.4]] },
  mixed: { letter: "M", colour: "#8a8f98", shape: null },
};

/**
 * The mark of a kind; one that is not known is marked as mixed.
 * @param {string} kind
 * @returns {Mark}
 */
export function markOf(kind) {
  return Object.hasOwn(MARKS, kind) ? MARKS[kind] : MARKS.mixed;
}

/**
 * The mark as a small picture, for legends and lists.
 * @param {string} kind
 * @returns {SVGSVGElement}
 */
export function kindIcon(kind) {
  const { colour, letter } = markOf(kind);
  return h("svg:svg", { class: "kind", viewBox: "0 0 20 20", width: 18, height: 18, "aria-hidden": "true" },
    h("svg:rect", { x: 1, y: 1, width: 18, height: 18, rx: 4, fill: colour }),
    h("svg:text", { x: 10, y: 14.4, "text-anchor": "middle", "font-size": 12, "font-weight": 700, fill: "#000" }, letter));
}

/**
 * The name of a kind in the reader's language; one from a stranger's trace is shown as it is.
 * @param {import("../types.js").App["t"]} t
 * @param {string} kind
 * @returns {string}
 */
export function kindName(t, kind) {
  return KINDS.some((one) => one === kind) ? t(`kind.${kind}`) : kind;
}
