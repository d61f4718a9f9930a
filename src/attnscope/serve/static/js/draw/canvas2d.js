// @ts-check
/**
 * Draws tiles with Canvas2D, where there is no WebGL2: the same pictures, coloured by the processor.
 *
 * The idea: a tile is coloured once per look into a small canvas, one pixel per cell, and that is
 * drawn enlarged without smoothing.
 *
 * Units: device pixels, y downwards, as in webgl.js.
 */

import { COLOURS, paletteTable } from "./palettes.js";
import { isRatio } from "./scale.js";

/** @typedef {import("../types.js").Tile} Tile */
/** @typedef {import("./drawing.js").Drawing} Drawing */
/** @typedef {import("./drawing.js").Item} Item */
/** @typedef {import("./drawing.js").Picture} Picture */
/** @typedef {import("./drawing.js").TileItem} TileItem */
/** @typedef {{canvas: HTMLCanvasElement, look: string, used: number}} Coloured */

const KEEP = 160;

/** @type {Map<string, Uint32Array>} */
const tables = new Map();

/**
 * A palette as whole pixels: red in the lowest byte, as ImageData has it.
 * @param {import("./palettes.js").PaletteName} name
 * @returns {Uint32Array}
 */
function pixelTable(name) {
  const found = tables.get(name);
  if (found) return found;
  const table = paletteTable(name);
  const bytes = new Uint8Array(4 * COLOURS);
  for (let i = 0; i < COLOURS; i++) bytes.set([table[3 * i], table[3 * i + 1], table[3 * i + 2], 255], 4 * i);
  const pixels = new Uint32Array(bytes.buffer);
  tables.set(name, pixels);
  return pixels;
}

/**
 * The colours of a tile's cells, four bytes each; masked cells are clear. The formula is that of
 * scale.js, with what all cells share taken out of the loop.
 * @param {Tile} tile
 * @param {{look: import("./scale.js").Look, norms: Float32Array | null, gain: number}} how
 * @returns {Uint8ClampedArray}
 */
export function colourCells(tile, { look, norms, gain }) {
  const plane = /** @type {Float32Array} */ (look.plane === "max" && tile.level ? tile.max : tile.mean);
  const table = pixelTable(look.palette);
  const pixels = new Uint32Array(plane.length);
  const raw = look.scale === "raw";
  const low = raw ? look.low : Math.log2(look.low);
  const per = 255 / ((raw ? look.high : Math.log2(look.high)) - low);
  for (let i = 0; i < plane.length; i++) {
    const value = plane[i];
    if (!(value >= 0)) continue;
    const scaled = norms ? (value * gain) / Math.max(norms[i], 1e-30) : value * gain;
    const place = raw ? (scaled - low) * per : scaled > 0 ? (Math.log2(scaled) - low) * per : 0;
    pixels[i] = table[place <= 0 ? 0 : place >= 255 ? 255 : (place + 0.5) | 0];
  }
  return new Uint8ClampedArray(pixels.buffer);
}

/**
 * @implements {Drawing}
 */
export class CanvasDrawing {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {CanvasRenderingContext2D} context
   */
  constructor(canvas, context) {
    this.name = /** @type {const} */ ("canvas2d");
    this.canvas = canvas;
    this.context = context;
    /** @type {Map<string, Coloured>} */
    this.coloured = new Map();
    /** @type {WeakMap<Tile, number>} */
    this.numbers = new WeakMap();
    this.count = 0;
    this.frame = 0;
    /** @type {import("./drawing.js").Budget | null} */
    this.budget = null;
  }

  /**
   * @param {Picture} picture
   * @returns {number}  how many tiles are still to be coloured: draw again
   */
  draw(picture) {
    const { context, canvas } = this;
    this.frame += 1;
    this.budget = picture.budget;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = `rgb(${picture.paper.join(" ")})`;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.imageSmoothingEnabled = false;
    let waiting = 0;
    for (const item of picture.items) waiting += this.item(item, picture);
    if (this.coloured.size > KEEP) {
      for (const [key, one] of this.coloured) if (one.used < this.frame) this.coloured.delete(key);
    }
    return waiting;
  }

  /**
   * @param {Item} item
   * @param {Picture} picture
   * @returns {number}
   */
  item(item, picture) {
    const { context } = this;
    // Whole pixels: where two tiles shared one, the paper would shine through both.
    const [left, top, right, bottom] = item.box.map(Math.round);
    context.save();
    context.beginPath();
    context.rect(left, top, right - left, bottom - top);
    context.clip();
    let waiting = 0;
    if (item.kind === "values") {
      const coloured = this.colour(item, picture);
      if (coloured) this.enlarge(item, coloured);
      else waiting = 1;
    } else if (item.kind === "missing") {
      this.hatch(item.box, picture);
    } else {
      context.fillStyle = `rgb(${picture.ink.join(" ")} / 10%)`;
      context.fillRect(left, top, right - left, bottom - top);
    }
    context.restore();
    if (waiting && item.kind === "values" && item.standIn) waiting += this.item(item.standIn, picture);
    return waiting;
  }

  /**
   * @param {TileItem} item
   * @param {HTMLCanvasElement} coloured
   */
  enlarge(item, coloured) {
    const { context } = this;
    const { cell, origin, swapped } = item;
    const { width, height } = coloured;
    const [left, top] = origin.map(Math.round);
    const right = (Math.round(origin[0] + cell * (swapped ? height : width)) - left) / (swapped ? height : width);
    const down = (Math.round(origin[1] + cell * (swapped ? width : height)) - top) / (swapped ? width : height);
    if (swapped) context.setTransform(0, down, right, 0, left, top);
    else context.setTransform(right, 0, 0, down, left, top);
    context.drawImage(coloured, 0, 0);
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  /**
   * @param {TileItem} item
   * @param {Picture} picture
   * @returns {HTMLCanvasElement | null}
   */
  colour({ tile, norms, gain, must }, { look }) {
    const used = isRatio(look.scale) ? norms : null;
    const number = this.numbers.get(tile) ?? this.count++;
    this.numbers.set(tile, number);
    const key = `${number} ${gain}`;
    const how = `${JSON.stringify(look)} ${used !== null}`;
    const found = this.coloured.get(key);
    if (found && found.look === how) {
      found.used = this.frame;
      return found.canvas;
    }
    if (!must && !this.budget?.take()) return null;
    const canvas = found?.canvas ?? this.canvas.ownerDocument.createElement("canvas");
    canvas.width = tile.width;
    canvas.height = tile.height;
    const image = new ImageData(tile.width, tile.height);
    image.data.set(colourCells(tile, { look, norms: used, gain }));
    canvas.getContext("2d")?.putImageData(image, 0, 0);
    this.coloured.set(key, { canvas, look: how, used: this.frame });
    return canvas;
  }

  /**
   * @param {[number, number, number, number]} box
   * @param {Picture} picture
   */
  hatch([left, top, right, bottom], { ink, dot }) {
    const { context } = this;
    const step = 8 * dot;
    context.strokeStyle = `rgb(${ink.join(" ")} / 55%)`;
    context.lineWidth = 1.06 * dot; // the shader's stripes are 1.5 wide along x
    context.beginPath();
    for (let sum = Math.floor((left + top) / step) * step + 0.75 * dot; sum < right + bottom; sum += step) {
      context.moveTo(sum - bottom, bottom);
      context.lineTo(sum - top, top);
    }
    context.stroke();
  }

  dispose() {
    this.coloured.clear();
  }
}
