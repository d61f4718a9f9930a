// @ts-check
/**
 * Where each head stands: pure arithmetic from the list of heads to rectangles, and back.
 *
 * The idea: heads come in sections (a layer; all heads by rank; a kind), a section is broken into
 * rows, a row has cells. In the order of layers a layer is one row, its cells stand closer where they
 * share a KV head; in the other orders rows are filled from left to right.
 *
 * Units: CSS pixels.
 *
 * Not here: colours and canvases (draw.js).
 */

import { KINDS } from "../../parts/kinds.js";

/**
 * @typedef {import("../../types.js").HeadRow} HeadRow
 * @typedef {import("../../types.js").LayerInfo} LayerInfo
 * @typedef {import("../../types.js").ViewState} ViewState
 * @typedef {{layer: LayerInfo | null, kind: string | null, heads: HeadRow[]}} Section
 * @typedef {{x: number, y: number, width: number, height: number, row: number, head: HeadRow}} Cell
 * @typedef {{y: number, height: number, section: Section, opens: boolean, first: number, end: number}} Row
 * @typedef {{cells: Cell[], rows: Row[], width: number, height: number, label: number}} Layout
 */

export const CELL = { least: 9, most: 80, lowest: 13, highest: 38 };
const LETTER_ROW = 17;
const GAP = 2;
const GROUP_GAP = 7;
const ROW_GAP = 6;
const SECTION_GAP = 10;

/**
 * Heads by a statistic, the largest first; what has no value comes last; ties by layer and head.
 * @param {HeadRow[]} heads
 * @param {string} statistic
 * @returns {HeadRow[]}
 */
export function ranked(heads, statistic) {
  const value = /** @param {HeadRow} one */ (one) => {
    const found = one.statistics[statistic];
    return typeof found === "number" && !Number.isNaN(found) ? found : -Infinity;
  };
  return [...heads].sort((a, b) => {
    const [first, second] = [value(a), value(b)];
    return (first === second ? 0 : second - first) || a.layer - b.layer || a.head - b.head;
  });
}

/**
 * The heads in sections, in the order asked for.
 *
 * In the order of layers every layer is there, also one without a map, and `top` hides nothing (draw.js
 * dims the others); in the other orders only the first `top` by the statistic are there.
 *
 * @param {LayerInfo[]} layers
 * @param {HeadRow[]} heads
 * @param {Pick<ViewState, "sort" | "statistic" | "top">} view
 * @returns {Section[]}
 */
export function sections(layers, heads, { sort, statistic, top }) {
  if (sort === "layer") {
    /** @type {Map<number, HeadRow[]>} */
    const by = new Map(layers.map((layer) => [layer.index, []]));
    for (const head of heads) by.get(head.layer)?.push(head);
    for (const list of by.values()) list.sort((a, b) => a.head - b.head);
    return layers.map((layer) => ({ layer, kind: null, heads: by.get(layer.index) ?? [] }));
  }
  const chosen = ranked(heads, statistic).slice(0, top ?? heads.length);
  if (sort === "statistic") return [{ layer: null, kind: null, heads: chosen }];
  const kinds = [...new Set([...KINDS, ...chosen.map((one) => one.kind)])];
  return kinds
    .map((kind) => ({ layer: null, kind, heads: chosen.filter((one) => one.kind === kind) }))
    .filter((section) => section.heads.length > 0);
}

/**
 * Which of the query heads of a layer share a KV head: the KV head of query head h.
 * @param {LayerInfo} layer
 * @param {number} head
 * @returns {number}
 */
export function kvHead(layer, head) {
  return Math.floor(head / Math.max(1, layer.query_heads / Math.max(1, layer.kv_heads)));
}

/**
 * Rectangles for all heads in a box of so many pixels. The width is kept unless cells would be under
 * CELL.least wide; rows get what height there is, between CELL.lowest and CELL.highest.
 * @param {Section[]} parts
 * @param {{width: number, height: number, label: number}} box   label: the width kept for row labels
 * @returns {Layout}
 */
export function arrange(parts, { width, height, label }) {
  const room = Math.max(0, width - label);
  const inLayers = parts.every((part) => part.layer !== null);
  const cellWidth = inLayers ? widthInLayers(parts, room) : Math.max(CELL.least, Math.min(CELL.most, flatWidth(parts, room)));
  const perRow = inLayers ? Infinity : Math.max(1, Math.floor((room + GAP) / (cellWidth + GAP)));
  const count = parts.reduce((sum, part) => sum + Math.max(1, Math.ceil(part.heads.length / perRow)), 0);
  const each = (height - SECTION_GAP * parts.length * (inLayers ? 0 : 1)) / Math.max(1, count) - ROW_GAP;
  // A row should have room for a letter, unless that would need several screens.
  const lowest = count > 64 ? CELL.lowest : LETTER_ROW;
  const cellHeight = Math.floor(Math.max(lowest, Math.min(CELL.highest, each, Math.max(lowest, cellWidth))));
  /** @type {Layout} */
  const made = { cells: [], rows: [], width: label, height: 0, label };
  let y = 0;
  for (const section of parts) {
    for (let from = 0; from === 0 || from < section.heads.length; from += perRow) {
      const heads = section.heads.slice(from, from + Math.min(perRow, section.heads.length));
      const first = made.cells.length;
      place(made, { section, heads, y, cellWidth, cellHeight });
      made.rows.push({ y, height: cellHeight, section, opens: from === 0, first, end: made.cells.length });
      y += cellHeight + ROW_GAP;
      if (perRow === Infinity) break;
    }
    if (!inLayers) y += SECTION_GAP;
  }
  made.height = Math.max(0, y);
  return made;
}

/**
 * Puts one row of heads into the layout.
 * @param {Layout} made
 * @param {{section: Section, heads: HeadRow[], y: number, cellWidth: number, cellHeight: number}} line
 */
function place(made, { section, heads, y, cellWidth, cellHeight }) {
  let x = made.label;
  const { layer } = section;
  const grouped = layer !== null && layer.kv_heads < layer.query_heads;
  heads.forEach((head, index) => {
    if (index > 0) x += grouped && kvHead(layer, head.head) !== kvHead(layer, heads[index - 1].head) ? GROUP_GAP : GAP;
    made.cells.push({ x, y, width: cellWidth, height: cellHeight, row: made.rows.length, head });
    x += cellWidth;
  });
  made.width = Math.max(made.width, x);
}

/** @param {Section[]} parts @param {number} room @returns {number} */
function widthInLayers(parts, room) {
  let width = CELL.most;
  for (const { heads, layer } of parts) {
    if (!heads.length || !layer) continue;
    const groups = layer.kv_heads < layer.query_heads ? layer.kv_heads : 1;
    const gaps = (heads.length - 1) * GAP + (groups - 1) * (GROUP_GAP - GAP);
    width = Math.min(width, (room - gaps) / heads.length);
  }
  return Math.max(CELL.least, Math.floor(width));
}

/** Cells wide enough for a label, unless there are very many. @param {Section[]} parts @param {number} room @returns {number} */
function flatWidth(parts, room) {
  const most = Math.max(1, ...parts.map((part) => part.heads.length));
  if (most <= 400) return CELL.most;
  return Math.max(CELL.least, Math.min(CELL.most, Math.floor(Math.sqrt((room * 600) / most)) - GAP));
}

/**
 * The cell at a point, or -1.
 * @param {Layout} layout
 * @param {number} x
 * @param {number} y
 * @returns {number}
 */
export function cellAt(layout, x, y) {
  const row = layout.rows.find((one) => y >= one.y - 1 && y < one.y + one.height + ROW_GAP - 1);
  if (!row) return -1;
  for (let index = row.first; index < row.end; index++) {
    const cell = layout.cells[index];
    if (x >= cell.x - 1 && x < cell.x + cell.width + 1) return index;
  }
  return -1;
}

/**
 * The cell of a head, or -1.
 * @param {Layout} layout
 * @param {number | null} layer
 * @param {number | null} head
 * @returns {number}
 */
export function cellOf(layout, layer, head) {
  return layout.cells.findIndex((cell) => cell.head.layer === layer && cell.head.head === head);
}

/**
 * The cell a key leads to from another: the same one where there is none that way, null for other keys.
 * @param {Layout} layout
 * @param {number} from
 * @param {string} key
 * @returns {number | null}
 */
export function step(layout, from, key) {
  const cell = layout.cells[from];
  if (!cell) return null;
  const row = layout.rows[cell.row];
  if (key === "ArrowLeft") return Math.max(row.first, from - 1);
  if (key === "ArrowRight") return Math.min(row.end - 1, from + 1);
  if (key === "Home") return row.first;
  if (key === "End") return row.end - 1;
  const rows = { ArrowUp: -1, ArrowDown: 1, PageUp: -8, PageDown: 8 }[key];
  return rows === undefined ? null : vertical(layout, cell, rows, from);
}

/** @param {Layout} layout @param {Cell} cell @param {number} rows @param {number} from @returns {number} */
function vertical(layout, cell, rows, from) {
  const filled = layout.rows.map((row, index) => ({ row, index })).filter(({ row }) => row.end > row.first);
  const here = filled.findIndex(({ index }) => index === cell.row);
  const { row } = filled[Math.max(0, Math.min(filled.length - 1, here + rows))];
  let best = from;
  let distance = Infinity;
  for (let index = row.first; index < row.end; index++) {
    const off = Math.abs(layout.cells[index].x - cell.x);
    if (off < distance) [best, distance] = [index, off];
  }
  return best;
}

/**
 * The ends of the colour scale: shares start at 0, other statistics at their least value.
 * @param {HeadRow[]} heads
 * @param {string} statistic
 * @returns {[number, number]}
 */
export function ends(heads, statistic) {
  const values = heads.map((one) => one.statistics[statistic]).filter((value) => Number.isFinite(value));
  if (values.length === 0) return [0, 1];
  const share = /_mass$|^max_weight$/.test(statistic);
  const low = share ? 0 : values.reduce((a, b) => Math.min(a, b));
  const high = values.reduce((a, b) => Math.max(a, b));
  return high > low ? [low, high] : [low, low + 1];
}
