// @ts-check
/**
 * Draws the overview's cells on a canvas: the statistic as the fill, the kind as a mark and a bar.
 *
 * Not here: where the cells are (layout.js), the row a reader stands in (grid.js, which is DOM).
 */

import { COLOURS, cssColour, lightness, paletteTable } from "../../draw/palettes.js";
import { markOf } from "../../parts/kinds.js";
import { kvHead } from "./layout.js";

/**
 * @typedef {import("./layout.js").Layout} Layout
 * @typedef {import("./layout.js").Cell} Cell
 * @typedef {object} Look
 * @property {string} statistic
 * @property {[number, number]} ends        of the colour scale
 * @property {"viridis" | "cividis"} palette
 * @property {(head: import("../../types.js").HeadRow) => boolean} bright   the others are dimmed
 * @property {string} ink                   colours of the theme
 * @property {string} bracket
 * @property {string} line
 * @property {string} font
 * @property {(cell: Cell) => string | null} caption   a second line under the mark, where there is room
 */

const SLICE = 8;
const BAR = 3;
const LETTER_WIDTH = 17;

/**
 * Makes the canvas as large as the layout, in device pixels, and gives its context in CSS pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @returns {CanvasRenderingContext2D}
 */
export function sized(canvas, width, height) {
  const ratio = Math.min(globalThis.devicePixelRatio || 1, 3);
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/**
 * Draws all cells from the top, a slice of a few milliseconds at a time: ten thousand heads may take
 * longer than a page may stand still.
 * @param {HTMLCanvasElement} canvas
 * @param {Layout} layout
 * @param {Look} look
 * @returns {() => void}  stops what is not drawn yet
 */
export function drawHeads(canvas, layout, look) {
  const context = sized(canvas, layout.width, layout.height);
  const table = paletteTable(look.palette);
  const colours = Array.from({ length: COLOURS }, (_, index) => shadeOf(table, index));
  drawBrackets(context, layout, look.bracket);
  drawMissing(context, layout, look);
  let next = 0;
  let asked = 0;
  const slice = () => {
    const stop = performance.now() + SLICE;
    while (next < layout.cells.length) {
      const cell = layout.cells[next++];
      context.globalAlpha = look.bright(cell.head) ? 1 : 0.16;
      drawCell(context, cell, look, colours);
      if (next % 64 === 0 && performance.now() > stop) break;
    }
    if (next < layout.cells.length) asked = requestAnimationFrame(slice);
  };
  slice();
  return () => cancelAnimationFrame(asked);
}

/** A colour of the palette, and the ink that stands on it. @param {Uint8ClampedArray} table @param {number} index */
function shadeOf(table, index) {
  const dark = lightness(table[3 * index], table[3 * index + 1], table[3 * index + 2]) < 52;
  return { ground: cssColour(table, index), ink: dark ? "#ffffff" : "#000000" };
}

/**
 * The place of a value in the palette, or -1 where it is no number.
 * @param {number | undefined} value
 * @param {[number, number]} ends
 * @returns {number}
 */
export function colourOf(value, [low, high]) {
  if (value === undefined || Number.isNaN(value)) return -1;
  const share = Math.max(0, Math.min(1, (value - low) / (high - low)));
  return Math.round(share * (COLOURS - 1));
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Cell} cell
 * @param {Look} look
 * @param {{ground: string, ink: string}[]} colours
 */
function drawCell(context, cell, look, colours) {
  const { x, y, width, height, head } = cell;
  const mark = markOf(head.kind);
  const index = colourOf(head.statistics[look.statistic], look.ends);
  const filled = height - BAR - 1;
  const { ground, ink } = index < 0 ? { ground: look.line, ink: look.ink } : colours[index];
  context.fillStyle = ground;
  context.fillRect(x, y, width, filled);
  context.fillStyle = mark.colour;
  context.fillRect(x, y + filled + 1, width, BAR);
  context.fillStyle = ink;
  drawMark(context, { x: x + width / 2, y: y + filled / 2, width, height: filled }, head.kind, look, look.caption(cell));
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {{x: number, y: number, width: number, height: number}} box   x and y in the middle
 * @param {string} kind
 * @param {Look} look
 * @param {string | null} caption
 */
function drawMark(context, { x, y, width, height }, kind, look, caption) {
  const mark = markOf(kind);
  context.textAlign = "center";
  context.textBaseline = "middle";
  if (width >= LETTER_WIDTH && height >= 11) {
    const two = caption !== null && height >= 27 && width >= 40;
    context.font = `600 ${Math.min(14, height - 2)}px ${look.font}`;
    context.fillText(mark.letter, x, two ? y - 6 : y + 0.5);
    if (!two) return;
    context.font = `10px ${look.font}`;
    context.fillText(caption, x, y + 7);
    return;
  }
  const size = Math.min(width, height) / 2 - 2;
  if (size < 1.5) return;
  context.beginPath();
  if (mark.shape) mark.shape.forEach(([dx, dy], i) => context[i ? "lineTo" : "moveTo"](x + dx * size, y + dy * size));
  else context.arc(x, y, size * 0.7, 0, 2 * Math.PI);
  context.fill();
}

/**
 * A bracket under the query heads that share a KV head, where several do.
 * @param {CanvasRenderingContext2D} context
 * @param {Layout} layout
 * @param {string} colour
 */
function drawBrackets(context, layout, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  for (const { left, right, y } of brackets(layout)) {
    context.moveTo(left + 0.5, y);
    context.lineTo(left + 0.5, y + 2.5);
    context.lineTo(right - 0.5, y + 2.5);
    context.lineTo(right - 0.5, y);
  }
  context.stroke();
}

/**
 * Where the brackets are: one for each KV head that several query heads share.
 * @param {Layout} layout
 * @returns {{left: number, right: number, y: number, layer: number, kv: number}[]}
 */
export function brackets(layout) {
  const found = [];
  for (const row of layout.rows) {
    const { layer } = row.section;
    if (!layer || layer.kv_heads >= layer.query_heads) continue;
    for (let from = row.first; from < row.end; ) {
      const kv = kvHead(layer, layout.cells[from].head.head);
      let to = from;
      while (to + 1 < row.end && kvHead(layer, layout.cells[to + 1].head.head) === kv) to++;
      const last = layout.cells[to];
      found.push({ left: layout.cells[from].x, right: last.x + last.width, y: row.y + row.height + 1, layer: layer.index, kv });
      from = to + 1;
    }
  }
  return found;
}

/**
 * Layers without a map: a hatched row. The reason stands beside it, in DOM.
 * @param {CanvasRenderingContext2D} context
 * @param {Layout} layout
 * @param {Look} look
 */
function drawMissing(context, layout, look) {
  context.strokeStyle = look.line;
  for (const row of layout.rows) {
    if (row.end > row.first) continue;
    context.save();
    context.beginPath();
    context.rect(layout.label, row.y, layout.width - layout.label, row.height - BAR);
    context.clip();
    context.beginPath();
    for (let x = layout.label - row.height; x < layout.width; x += 8) {
      context.moveTo(x, row.y + row.height);
      context.lineTo(x + row.height, row.y);
    }
    context.stroke();
    context.restore();
  }
}

/**
 * The coarsest tile of a head as a small picture, on a logarithmic scale of three decades.
 * @param {HTMLCanvasElement} canvas
 * @param {import("../../types.js").Tile} tile
 * @param {"viridis" | "cividis"} palette
 */
export function drawThumbnail(canvas, tile, palette) {
  const { width, height, mean } = tile;
  canvas.width = Math.max(1, width);
  canvas.height = Math.max(1, height);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.clearRect(0, 0, canvas.width, canvas.height);
  if (!mean || tile.state !== "values") return;
  const table = paletteTable(palette);
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    if (Number.isNaN(mean[i])) continue;
    const place = mean[i] <= 0 ? 0 : Math.max(0, Math.min(1, 1 + Math.log10(mean[i]) / 3));
    const at = 3 * Math.round(place * (COLOURS - 1));
    image.data.set([table[at], table[at + 1], table[at + 2], 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
}
