// @ts-check
/**
 * The colour bar as a control: it shows which value has which colour, where the value pointed at lies,
 * and its two ends can be moved.
 *
 * The idea: the bar spans the scale's natural range; between the two handles lies the palette, beyond
 * them its end colours.
 *
 * Not here: the choice of the scale (screens/map/controls.js).
 */

import { h } from "../parts/dom.js";
import { COLOURS, cssColour, paletteTable } from "./palettes.js";
import { colourIndex, placeOf, ticksOf, valueAt } from "./scale.js";

/** @typedef {import("./scale.js").Look} Look */

/**
 * A value as a label: "0.2", "10⁻⁴", "×4", "1/8".
 * @param {number} value
 * @param {import("./scale.js").ScaleName} scale
 * @returns {string}
 */
export function tickText(value, scale) {
  if (scale === "expected" && value < 1) return `1/${Math.round(1 / value)}`;
  if (scale === "uniform" || scale === "expected") {
    return value >= 0.01 && value < 1e4 ? `×${Number(value.toPrecision(2))}` : `×${power(value)}`;
  }
  if (value === 0) return "0";
  return value >= 0.001 && value < 1e5 ? String(Number(value.toPrecision(3))) : power(value);
}

/** @param {number} value */
function power(value) {
  const exponent = Math.floor(Math.log10(value) + 1e-9);
  const factor = Number((value / 10 ** exponent).toPrecision(2));
  const small = [...String(exponent)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)])).join("");
  return `${factor === 1 ? "" : `${factor}·`}10${small}`;
}

export class ColourBar {
  /**
   * @param {object} options
   * @param {(key: string, values?: Record<string, string | number>) => string} options.t
   * @param {(range: [number, number] | null) => void} options.onRange   null: back to the natural one
   */
  constructor({ t, onRange }) {
    this.t = t;
    this.onRange = onRange;
    this.canvas = h("canvas", { class: "bar-colours", width: COLOURS, height: 1, "aria-hidden": "true" });
    this.mark = h("div", { class: "bar-mark", hidden: true });
    this.ticks = h("div", { class: "bar-ticks", "aria-hidden": "true" });
    this.low = this.handle("low");
    this.high = this.handle("high");
    this.track = h("div", { class: "bar-track", ondblclick: () => onRange(null) }, this.canvas, this.mark, this.low, this.high);
    this.element = h("div", { class: "colourbar", role: "group", "aria-label": t("map.bar.label") }, this.track, this.ticks);
    /** @type {Look | null} */
    this.look = null;
    /** @type {Look | null} */
    this.natural = null;
  }

  /**
   * @param {"low" | "high"} end
   * @returns {HTMLElement}
   */
  handle(end) {
    const label = this.t(`map.bar.${end}`);
    const handle = h("div", { class: `bar-handle ${end}`, role: "slider", tabindex: "0", "aria-label": label, title: label });
    handle.addEventListener("keydown", (event) => this.key(event, end));
    handle.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      handle.focus();
      handle.setPointerCapture(event.pointerId);
    });
    handle.addEventListener("pointermove", (event) => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      const box = this.track.getBoundingClientRect();
      this.moveTo(end, (event.clientX - box.left) / Math.max(box.width, 1));
    });
    return handle;
  }

  /** @param {KeyboardEvent} event @param {"low" | "high"} end */
  key(event, end) {
    if (!this.look || !this.natural) return;
    const now = placeOf(this.natural, this.look[end]);
    const step = event.shiftKey ? 0.1 : 0.02;
    const next = { ArrowLeft: now - step, ArrowDown: now - step, ArrowRight: now + step, ArrowUp: now + step, Home: 0, End: 1 }[event.key];
    if (event.key === "Escape" || event.key === "Delete") this.onRange(null);
    else if (next !== undefined) this.moveTo(end, next);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {"low" | "high"} end @param {number} place   0 to 1 */
  moveTo(end, place) {
    if (!this.look || !this.natural) return;
    const other = placeOf(this.natural, this.look[end === "low" ? "high" : "low"]);
    const cut = end === "low" ? Math.max(0, Math.min(place, other - 0.02)) : Math.min(1, Math.max(place, other + 0.02));
    const value = Number(valueAt(this.natural, cut).toPrecision(4));
    this.onRange(end === "low" ? [value, this.look.high] : [this.look.low, value]);
  }

  /**
   * @param {Look} look
   * @param {[number, number]} natural
   */
  update(look, natural) {
    this.look = look;
    this.natural = { ...look, low: natural[0], high: natural[1] };
    this.paint(look, this.natural);
    for (const [handle, value] of /** @type {[HTMLElement, number][]} */ ([[this.low, look.low], [this.high, look.high]])) {
      const place = placeOf(this.natural, value);
      handle.style.left = `${100 * place}%`;
      handle.setAttribute("aria-valuemin", "0");
      handle.setAttribute("aria-valuemax", "100");
      handle.setAttribute("aria-valuenow", String(Math.round(100 * place)));
      handle.setAttribute("aria-valuetext", tickText(value, look.scale));
    }
    const spans = ticksOf(this.natural).map((value) => {
      const place = placeOf(/** @type {Look} */ (this.natural), value);
      const tick = h("span", { class: place < 0.03 ? "first" : place > 0.97 ? "last" : null }, tickText(value, look.scale));
      tick.style.left = `${100 * place}%`;
      return tick;
    });
    this.ticks.replaceChildren(...spans);
  }

  /** @param {Look} look @param {Look} natural */
  paint(look, natural) {
    const context = this.canvas.getContext("2d");
    if (!context) return;
    const table = paletteTable(look.palette);
    for (let i = 0; i < COLOURS; i++) {
      // The same colour for the same number: the bar does not ask what a cell is compared with.
      const index = colourIndex(look, valueAt(natural, i / (COLOURS - 1)));
      context.fillStyle = cssColour(table, index);
      context.fillRect(i, 0, 1, 1);
    }
  }

  /** @param {number | null} value   already compared, where the scale compares; null: nothing is pointed at */
  point(value) {
    this.mark.hidden = value === null || !Number.isFinite(value) || !this.natural;
    if (value !== null && this.natural) this.mark.style.left = `${100 * placeOf(this.natural, value)}%`;
  }
}
