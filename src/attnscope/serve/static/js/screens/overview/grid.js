// @ts-check
/**
 * The overview's grid: a canvas for the eye, and over it the row a reader stands in as real cells.
 *
 * The idea: a model may have ten thousand heads, so only the row with the focus is in the DOM; it is
 * the one tab stop (role grid, roving tabindex), and moves with the arrows. Pointers are answered by
 * arithmetic on the layout.
 *
 * Not here: what a choice leads to (screen.js).
 */

import { fill, h } from "../../parts/dom.js";
import { rove } from "../../parts/focus.js";
import { drawHeads } from "./draw.js";
import { arrange, cellAt, cellOf, step } from "./layout.js";

/**
 * @typedef {import("../../types.js").HeadRow} HeadRow
 * @typedef {import("./layout.js").Layout} Layout
 * @typedef {import("./layout.js").Section} Section
 * @typedef {object} Hooks
 * @property {(head: HeadRow) => string} label       what a cell is called
 * @property {(section: Section) => string} title    what stands before a section
 * @property {(section: Section) => string} reason   what stands in a row without cells
 * @property {(head: HeadRow | null) => void} hover
 * @property {(head: HeadRow) => void} choose        by key
 * @property {(head: HeadRow) => void} press         by a click
 * @property {(head: HeadRow) => void} open          Enter, or a double click
 */

export class HeadGrid {
  /**
   * @param {string} name   of the grid
   * @param {Hooks} hooks
   */
  constructor(name, hooks) {
    this.hooks = hooks;
    /** @type {Layout} */
    this.layout = { cells: [], rows: [], width: 0, height: 0, label: 0 };
    this.stop = () => {};
    this.current = -1;
    this.shownRow = -1;
    /** @type {HTMLElement[]} */
    this.row = [];
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.labels = h("div", { class: "labels" });
    this.cells = h("div", { role: "grid", "aria-label": name, class: "cells" });
    this.similar = h("div", { class: "similar", "aria-hidden": "true" });
    this.columns = h("div", { class: "columns", "aria-hidden": "true" });
    this.field = h("div", {
      class: "field-of-heads",
      onpointermove: /** @param {PointerEvent} event */ (event) => this.pointed(event, (head) => hooks.hover(head)),
      onpointerleave: () => hooks.hover(null),
      onclick: /** @param {MouseEvent} event */ (event) => this.pointed(event, (head) => head && this.pressed(head)),
      ondblclick: /** @param {MouseEvent} event */ (event) => this.pointed(event, (head) => head && hooks.open(head)),
    }, this.canvas, this.labels, this.similar, this.cells);
    this.element = h("div", { class: "grid" }, this.columns, this.field);
  }

  /**
   * Lays out and draws everything.
   * @param {Section[]} parts
   * @param {{width: number, height: number, label: number}} box
   * @param {import("./draw.js").Look} look
   */
  draw(parts, box, look) {
    this.layout = arrange(parts, box);
    this.stop();
    this.stop = drawHeads(this.canvas, this.layout, look);
    this.element.style.width = `${this.layout.width}px`;
    this.field.style.height = `${this.layout.height}px`;
    this.drawLabels();
    this.drawColumns();
    this.cells.setAttribute("aria-rowcount", String(this.layout.rows.length));
    this.cells.setAttribute("aria-colcount", String(Math.max(0, ...this.layout.rows.map((row) => row.end - row.first))));
    this.shownRow = -1;
    this.current = Math.min(this.current, this.layout.cells.length - 1);
    this.stand(this.current < 0 ? 0 : this.current, false);
  }

  drawLabels() {
    const { rows, label } = this.layout;
    fill(this.labels, rows.map((row) => [
      row.opens ? h("span", { class: "label", style: { top: `${row.y}px`, height: `${row.height}px`, width: `${label - 8}px` } }, this.hooks.title(row.section)) : null,
      row.end > row.first ? null
        : h("span", { class: "reason", style: { top: `${row.y}px`, height: `${row.height - 3}px`, left: `${label}px` } }, this.hooks.reason(row.section)),
    ]).flat());
  }

  /** The numbers of the heads over their columns, where a row is a layer; not all where cells are narrow. */
  drawColumns() {
    const { rows, cells } = this.layout;
    const longest = rows.reduce((best, row) => (row.end - row.first > best.end - best.first ? row : best), rows[0] ?? { first: 0, end: 0 });
    const shown = longest.end > longest.first && rows[0].section.layer ? cells.slice(longest.first, longest.end) : [];
    const every = shown.length && shown[0].width < 20 ? 4 : 1;
    this.columns.hidden = shown.length === 0;
    fill(this.columns, shown.filter((_, index) => index % every === 0).map((cell) =>
      h("span", { style: { left: `${cell.x}px`, width: `${cell.width}px` } }, cell.head.head)));
  }

  /**
   * Puts the tab stop on a head, and the focus too where asked.
   * @param {number | null} layer
   * @param {number | null} head
   * @param {boolean} focus
   * @returns {boolean} whether the head is here
   */
  select(layer, head, focus) {
    const at = cellOf(this.layout, layer, head);
    if (at >= 0) this.stand(at, focus);
    else for (const one of this.row) one.setAttribute("aria-selected", "false");
    return at >= 0;
  }

  /** @param {{layer: number, head: number}[]} heads */
  outline(heads) {
    fill(this.similar, heads.map(({ layer, head }) => {
      const cell = this.layout.cells[cellOf(this.layout, layer, head)];
      return cell ? h("span", { style: { left: `${cell.x - 2}px`, top: `${cell.y - 2}px`, width: `${cell.width + 4}px`, height: `${cell.height + 4}px` } }) : null;
    }));
  }

  /** @param {number} index @param {boolean} focus */
  stand(index, focus) {
    const cell = this.layout.cells[index];
    if (!cell) return fill(this.cells);
    if (cell.row !== this.shownRow) this.buildRow(cell.row);
    const { first } = this.layout.rows[cell.row];
    const before = this.row[this.current - first] ?? null;
    this.current = index;
    const next = this.row[index - first];
    for (const one of this.row) one.setAttribute("aria-selected", String(one === next));
    rove(before, next, focus);
  }

  /** @param {number} row */
  buildRow(row) {
    const { first, end } = this.layout.rows[row];
    this.row = this.layout.cells.slice(first, end).map((cell, column) => h("div", {
      role: "gridcell", tabindex: "-1", "aria-colindex": column + 1, "aria-selected": "false",
      "aria-label": this.hooks.label(cell.head),
      style: { left: `${cell.x}px`, top: `${cell.y}px`, width: `${cell.width}px`, height: `${cell.height}px` },
      onfocus: () => this.focused(first + column),
    }));
    this.shownRow = row;
    fill(this.cells, h("div", { role: "row", "aria-rowindex": row + 1 }, this.row));
  }

  /** @param {number} index */
  focused(index) {
    if (index !== this.current) this.stand(index, false);
  }

  /** @param {HeadRow} head */
  pressed(head) {
    this.select(head.layer, head.head, true);
    this.hooks.press(head);
  }

  /**
   * @param {MouseEvent} event
   * @param {(head: HeadRow | null) => void} then
   */
  pointed(event, then) {
    const box = this.field.getBoundingClientRect();
    const index = cellAt(this.layout, event.clientX - box.left, event.clientY - box.top);
    then(this.layout.cells[index]?.head ?? null);
  }

  /** Whether the focus is in the grid. */
  get focusedHere() {
    return this.cells.contains(this.cells.ownerDocument.activeElement);
  }

  /**
   * @param {KeyboardEvent} event
   * @returns {boolean}
   */
  key(event) {
    const cell = this.layout.cells[this.current];
    if (!cell || !this.focusedHere) return false;
    if (event.key === "Enter") {
      this.hooks.open(cell.head);
      return true;
    }
    const next = step(this.layout, this.current, event.key);
    if (next === null) return false;
    this.stand(next, true);
    this.hooks.choose(this.layout.cells[next].head);
    return true;
  }
}
