// @ts-check
/**
 * What both ways of drawing have in common, and the choice between them.
 *
 * Not here: how either draws (webgl.js, canvas2d.js).
 */

import { CanvasDrawing } from "./canvas2d.js";
import { WebglDrawing } from "./webgl.js";

/** @typedef {import("../types.js").Tile} Tile */

/** @typedef {[number, number, number, number]} Box   left, top, right, bottom in device pixels, y downwards */
/** @typedef {{kind: "missing" | "pending", box: Box}} EmptyItem   no such map, or not here yet */

/**
 * A part of a tile.
 * @typedef {object} TileItem
 * @property {"values"} kind
 * @property {Box} box
 * @property {Tile} tile
 * @property {Float32Array | null} norms
 * @property {[number, number]} origin   where the tile's first cell begins, device pixels
 * @property {number} cell        how large one is
 * @property {boolean} swapped    rows and columns change places
 * @property {number} gain        values are multiplied by it: a parent's cell sums over more keys than its child's
 * @property {boolean} must       make it ready whatever the frame's budget says
 * @property {Item | null} standIn   drawn while the tile is not ready
 */

/** @typedef {EmptyItem | TileItem} Item */

/**
 * @typedef {object} Picture
 * @property {Item[]} items
 * @property {import("./scale.js").Look} look
 * @property {[number, number, number]} paper   colour of what is masked, 0 to 255
 * @property {[number, number, number]} ink     colour of the hatching
 * @property {number} dot                       device pixels per css pixel
 * @property {Budget} budget                    for making tiles ready in this frame
 */

/**
 * @typedef {object} Drawing
 * @property {"webgl2" | "canvas2d"} name
 * @property {(picture: Picture) => number} draw   how many tiles are still to be made ready: draw again
 * @property {() => void} dispose
 */

/**
 * Which way to draw. "auto" takes WebGL2 only where a graphics card does the work: done by the
 * processor it is slower than Canvas2D, and each frame waits for it.
 * @typedef {"auto" | "webgl2" | "canvas2d"} Prefer
 */

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Prefer} [prefer]
 * @returns {Drawing}
 */
export function createDrawing(canvas, prefer = "auto") {
  const webgl = prefer === "canvas2d" ? null : tryWebgl(canvas, prefer === "auto");
  if (webgl) return webgl;
  if (prefer === "webgl2") throw new Error("this browser does not draw float textures with WebGL2");
  const context = canvas.getContext("2d", { alpha: false });
  if (!context) throw new Error("this browser draws neither with WebGL2 nor with Canvas2D");
  return new CanvasDrawing(canvas, context);
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {boolean} quick   only with a graphics card
 * @returns {WebglDrawing | null}
 */
function tryWebgl(canvas, quick) {
  const options = { failIfMajorPerformanceCaveat: quick };
  if (!worksHere(canvas, options)) return null;
  const gl = canvas.getContext("webgl2", { ...options, antialias: false, alpha: false, preserveDrawingBuffer: false });
  return gl && new WebglDrawing(canvas, gl);
}

/**
 * Tried on a canvas of its own: one that has given a WebGL context never gives another kind.
 * @param {HTMLCanvasElement} canvas
 * @param {WebGLContextAttributes} options
 * @returns {boolean}
 */
function worksHere(canvas, options) {
  const trial = canvas.ownerDocument.createElement("canvas");
  try {
    const gl = trial.getContext("webgl2", options);
    if (!gl || (options.failIfMajorPerformanceCaveat && onProcessor(gl))) return false;
    const drawing = new WebglDrawing(trial, gl);
    gl.bindTexture(gl.TEXTURE_2D_ARRAY, gl.createTexture());
    gl.texStorage3D(gl.TEXTURE_2D_ARRAY, 1, gl.R32F, 1, 1, 1);
    const good = gl.getError() === gl.NO_ERROR;
    drawing.dispose();
    return good;
  } catch {
    return false;
  }
}

/**
 * Whether the processor plays the graphics card. Chromium does not count that as a caveat.
 * @param {WebGL2RenderingContext} gl
 * @returns {boolean}
 */
function onProcessor(gl) {
  const names = gl.getExtension("WEBGL_debug_renderer_info");
  const renderer = String(gl.getParameter(names ? names.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  return /swiftshader|llvmpipe|softpipe|software|microsoft basic/i.test(renderer);
}

/** The room that one frame has for making tiles ready; the first is made in any case. */
export class Budget {
  /** @param {number} ms */
  constructor(ms) {
    this.end = performance.now() + ms;
    this.used = false;
  }

  /** @returns {boolean} whether one more may be made */
  take() {
    if (this.used && performance.now() >= this.end) return false;
    this.used = true;
    return true;
  }
}
