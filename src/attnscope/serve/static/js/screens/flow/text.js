// @ts-check
/**
 * The text, line by line: only the lines in view are elements, each token is one of them.
 *
 * The idea: lines.js knows where everything stands, so scrolling makes and drops a few lines, and a
 * new row changes the shades of the few hundred tokens in view, whatever the length of the text.
 *
 * Not here: which weights (screen.js), which keys (screen.js).
 */

import { eachFrame, fill, h } from "../../parts/dom.js";
import { breakLines } from "./lines.js";
import { joinedLabel } from "../../parts/labels.js";
import { unitRange, unitsOf, visible } from "./tokens.js";

/**
 * @typedef {import("../../types.js").TokenTable} TokenTable
 * @typedef {import("./lines.js").Lines} Lines
 * @typedef {object} Paint
 * @property {Float32Array | null} shade    0 to 1 per token
 * @property {Float32Array | null} bar      what arrived
 * @property {Float32Array | null} later    who looks at the chosen tokens
 * @property {[number, number] | null} chosen
 * @property {[number, number] | null} keys
 * @property {number} made                  tokens from here on were generated
 * @property {number} shown                 tokens from here on are not there yet
 */

const LINE = 34;
const MORE = 8;
const PIECE = 6;

export class TextView {
  /**
   * @param {string} label
   * @param {{point: (token: number | null) => void, press: (first: number, last: number, extend: boolean) => void, drag: (first: number, last: number) => void}} hooks
   */
  constructor(label, hooks) {
    this.hooks = hooks;
    /** @type {TokenTable} */
    this.table = { text: "", ids: [], start: [], end: [], labels: [] };
    this.units = unitsOf(this.table);
    /** @type {string[]} */
    this.labels = [];
    /** @type {Float32Array} */
    this.widths = new Float32Array(0);
    /** @type {Lines} */
    this.lines = breakLines([], [], 1);
    /** @type {Paint} */
    this.paint = { shade: null, bar: null, later: null, chosen: null, keys: null, made: Infinity, shown: Infinity };
    /** @type {Map<number, HTMLElement>} */
    this.alive = new Map();
    /** @type {Map<number, {span: HTMLElement, said: string}>} what is in view, and how it was last painted */
    this.spans = new Map();
    this.room = 0;
    this.anchor = -1;
    this.body = h("div", { class: "lines", dir: "auto" });
    this.redraw = eachFrame(() => this.render());
    this.element = h("div", {
      class: "text", tabindex: "0", role: "application", "aria-label": label,
      onscroll: () => this.redraw(),
      onpointerdown: /** @param {PointerEvent} event */ (event) => this.down(event),
      onpointermove: /** @param {PointerEvent} event */ (event) => this.move(event),
      onpointerup: () => (this.anchor = -1),
      onpointerleave: () => this.hooks.point(null),
    }, this.body);
  }

  /** @param {TokenTable} table */
  setTokens(table) {
    this.table = table;
    this.units = unitsOf(table);
    this.labels = Array.from(this.units.first, (token, unit) => this.shownLabel(token, unitRange(this.units, unit).last));
    this.widths = this.measure();
    this.room = 0;
    this.element.scrollTop = 0;
    this.layout();
  }

  /** What stands in the text for a unit: its characters, signs for what has none. @param {number} token @param {number} last */
  shownLabel(token, last) {
    const { start, end } = this.table;
    const label = joinedLabel(this.table, token, last);
    if (end[token] === start[token]) return label === "" ? "∅" : visible(label);
    if (/[\r\n]/.test(label)) return `${label.replace(/[\r\n]+/g, "")}${"↵".repeat((label.match(/\n/g) ?? ["\r"]).length)}\n`;
    return label.replace(/[\p{Cc}]/gu, (char) => (char === "\t" ? "⇥\u2003" : visible(char)));
  }

  /** The width of each unit in the text's own font, measured once per label. */
  measure() {
    const style = getComputedStyle(this.element);
    const context = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
    context.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    this.element.style.setProperty("--space", `${context.measureText(" ").width}px`);
    /** @type {Map<string, number>} */
    const known = new Map();
    return Float32Array.from(this.labels, (label, unit) => {
      let width = known.get(label);
      if (width === undefined) known.set(label, (width = context.measureText(label.replace("\n", "")).width));
      const { first, last } = unitRange(this.units, unit);
      const chip = this.table.end[first] === this.table.start[first] ? 10 : 0;
      return Math.max(width + chip, last > first ? (last - first + 1) * PIECE : 0);
    });
  }

  /** Breaks the lines anew where the width has changed. */
  layout() {
    const room = Math.max(80, this.element.clientWidth - 40);
    if (room === this.room || this.labels.length === 0) return this.render();
    const top = this.room ? this.lines.first[Math.floor(this.element.scrollTop / LINE)] ?? 0 : 0;
    this.room = room;
    this.lines = breakLines(this.labels, this.widths, room);
    this.body.style.height = `${this.lines.first.length * LINE}px`;
    for (const line of this.alive.values()) line.remove();
    this.alive.clear();
    this.spans.clear();
    this.element.scrollTop = this.lines.line[top] * LINE;
    this.render();
  }

  /** Makes the lines in view, drops the others, and shades what is there. */
  render() {
    const { scrollTop, clientHeight } = this.element;
    const from = Math.max(0, Math.floor(scrollTop / LINE) - MORE);
    const to = Math.min(this.lines.first.length, Math.ceil((scrollTop + clientHeight) / LINE) + MORE);
    for (const [line, element] of this.alive) {
      if (line >= from && line < to) continue;
      const { first, last } = this.tokensOf(line);
      for (let token = first; token <= last; token++) this.spans.delete(token);
      element.remove();
      this.alive.delete(line);
    }
    for (let line = from; line < to; line++) {
      if (this.alive.has(line)) continue;
      const element = this.makeLine(line);
      this.alive.set(line, element);
      this.body.append(element);
    }
    this.shade();
  }

  /** @param {number} line */
  tokensOf(line) {
    const { first } = this.lines;
    const last = line + 1 < first.length ? first[line + 1] : this.labels.length;
    return { first: this.units.first[first[line]], last: unitRange(this.units, last - 1).last };
  }

  /** @param {number} line */
  makeLine(line) {
    const { first } = this.lines;
    const end = line + 1 < first.length ? first[line + 1] : this.labels.length;
    const units = [];
    for (let unit = first[line]; unit < end; unit++) units.push(this.makeUnit(unit));
    // A space that begins a line stands outside it, so that lines begin flush.
    const hangs = /^ \S/.test(this.labels[first[line]] ?? "");
    return h("div", { class: hangs ? "line hangs" : "line", style: { top: `${line * LINE}px` } }, units);
  }

  /** @param {number} unit */
  makeUnit(unit) {
    const { first, last } = unitRange(this.units, unit);
    const label = this.labels[unit].replace("\n", "");
    const special = this.table.end[first] === this.table.start[first];
    if (first === last) return this.makeToken(first, label, special ? "token special" : label.includes("↵") ? "token sign" : "token");
    const pieces = [];
    for (let token = first; token <= last; token++) pieces.push(this.makeToken(token, "", "token piece"));
    return h("span", { class: "unit", data: { unit }, style: { minWidth: `${(last - first + 1) * PIECE}px` } },
      h("span", { class: "char" }, label), h("span", { class: "pieces" }, pieces));
  }

  /** @param {number} token @param {string} label @param {string} kind */
  makeToken(token, label, kind) {
    const span = h("span", { class: kind, data: { token } }, label);
    span.dataset.kind = kind;
    this.spans.set(token, { span, said: "" });
    return span;
  }

  /** Which of the two is the ground, and which the bar below. @param {"weight" | "arrived"} shade */
  setShade(shade) {
    this.element.dataset.shade = shade;
  }

  /** @param {Partial<Paint>} change */
  show(change) {
    Object.assign(this.paint, change);
    this.redraw();
  }

  /** Writes the shades of the tokens in view. */
  shade() {
    const { shade, bar, later, chosen, keys, made, shown } = this.paint;
    const inside = (/** @type {[number, number] | null} */ range, /** @type {number} */ token) => range !== null && token >= range[0] && token <= range[1];
    for (const [token, one] of this.spans) {
      const marks = `${inside(chosen, token) ? " chosen" : ""}${inside(keys, token) ? " key" : ""}${token >= made ? " made" : ""}${token >= shown ? " unborn" : ""}`;
      const [w, a, l] = [shade, bar, later].map((values) => Math.round(1000 * (values?.[token] ?? 0)) / 1000);
      const said = `${marks}|${w}|${a}|${l}`;
      // Only what has changed is written: a style that is written is worked out again.
      if (said === one.said || (one.said === "" && said === "|0|0|0")) continue;
      one.said = said;
      const { style, dataset } = one.span;
      one.span.className = `${dataset.kind}${w || a || l ? " lit" : ""}${marks}`;
      style.setProperty("--attn-w", String(w));
      style.setProperty("--attn-a", String(a));
      style.setProperty("--attn-l", String(l));
      if (dataset.kind === "token piece") this.shadeUnit(token);
    }
  }

  /** A character has the strongest shade of its pieces. @param {number} token   one of the pieces */
  shadeUnit(token) {
    const { shade, shown } = this.paint;
    const unit = /** @type {HTMLElement | null | undefined} */ (this.spans.get(token)?.span.closest(".unit"));
    if (!unit) return;
    const { first, last } = unitRange(this.units, this.units.of[token]);
    let most = 0;
    for (let piece = first; piece <= last; piece++) most = Math.max(most, shade?.[piece] ?? 0);
    unit.className = `unit${most > 0 ? " lit" : ""}${first >= shown ? " unborn" : ""}`;
    unit.style.setProperty("--attn-w", most.toFixed(3));
  }

  /**
   * Scrolls a token into view, if it is not.
   * @param {number} token
   */
  reveal(token) {
    const line = this.lines.line[this.units.of[token]] ?? 0;
    const { scrollTop, clientHeight } = this.element;
    const top = line * LINE;
    if (top >= scrollTop + LINE && top <= scrollTop + clientHeight - 3 * LINE) return;
    this.element.scrollTop = Math.max(0, top - clientHeight / 3);
    this.render();
  }

  /**
   * The tokens under a pointer: one, or all pieces of a character.
   * @param {Event} event
   * @returns {[number, number] | null}
   */
  under(event) {
    const target = event.target instanceof Element ? event.target.closest("[data-token], [data-unit]") : null;
    if (!(target instanceof HTMLElement)) return null;
    if (target.dataset.token !== undefined) return [Number(target.dataset.token), Number(target.dataset.token)];
    const { first, last } = unitRange(this.units, Number(target.dataset.unit));
    return [first, last];
  }

  /** @param {PointerEvent} event */
  down(event) {
    if (event.button !== 0) return;
    const at = this.under(event);
    if (!at) return;
    this.anchor = at[0];
    this.element.focus({ preventScroll: true });
    this.hooks.press(at[0], at[1], event.shiftKey);
    event.preventDefault();
  }

  /** @param {PointerEvent} event */
  move(event) {
    const at = this.under(event);
    if (this.anchor >= 0 && event.buttons & 1) {
      if (at && at[0] !== this.anchor) this.hooks.drag(Math.min(at[0], this.anchor), Math.max(at[1], this.anchor));
      return;
    }
    this.hooks.point(at ? at[0] : null);
  }

  clear() {
    fill(this.body);
    this.alive.clear();
    this.spans.clear();
  }
}
