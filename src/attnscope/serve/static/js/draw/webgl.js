// @ts-check
/**
 * Draws tiles with WebGL2: one texture per tile, colours made in the shader.
 *
 * The idea: a texture holds the planes of a tile as float32; scale, range, palette and plane are
 * uniforms, so changing them uploads nothing. Each pixel finds its cell by its own position: no
 * filter ever mixes two cells. Few textures are made per frame, so a frame stays short; a tile that
 * waits is drawn by what stands in for it.
 *
 * Units: device pixels, y downwards, as in canvas2d.js.
 *
 * Not here: which tiles (screens/map/picture.js), the same without a GPU (canvas2d.js).
 */

import { isRatio } from "./scale.js";
import { COLOURS, paletteTable } from "./palettes.js";

/** @typedef {import("../types.js").Tile} Tile */
/** @typedef {import("./drawing.js").Drawing} Drawing */
/** @typedef {import("./drawing.js").Item} Item */
/** @typedef {import("./drawing.js").Picture} Picture */
/** @typedef {{texture: WebGLTexture, bytes: number, used: number}} Held */

const VERTEX = `#version 300 es
uniform vec4 box;      // left, top, right, bottom
uniform vec2 size;
void main() {
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  vec2 pixel = mix(box.xy, box.zw, corner);
  gl_Position = vec4(pixel / size * vec2(2, -2) + vec2(-1, 1), 0, 1);
}`;

const FRAGMENT = `#version 300 es
precision highp float;
precision highp sampler2DArray;
uniform sampler2DArray values;   // layers: mean, max
uniform sampler2D norms;
uniform sampler2D colours;
uniform vec2 size;
uniform vec2 origin;             // of the tile
uniform float cell;              // pixels
uniform ivec2 cells;
uniform int kind;                // 0 values, 1 missing, 2 pending
uniform int layer;
uniform bool swapped;
uniform bool ratio;
uniform bool raw;
uniform vec2 ends;               // low and high, or their log2
uniform float gain;
uniform vec3 ink;
uniform float dot_;              // device pixels per css pixel
out vec4 colour;
void main() {
  vec2 pixel = vec2(gl_FragCoord.x, size.y - gl_FragCoord.y);
  if (kind != 0) {
    float stripe = mod(pixel.x + pixel.y, 8.0 * dot_) / dot_;
    float strength = kind == 1 ? (stripe < 1.5 ? 0.55 : 0.0) : 0.10;
    colour = vec4(ink * strength, strength);
    return;
  }
  vec2 place = (pixel - origin) / cell;
  ivec2 at = clamp(ivec2(floor(swapped ? place.yx : place)), ivec2(0), cells - 1);
  float value = texelFetch(values, ivec3(at, layer), 0).r;
  if (value < 0.0) discard;      // masked
  float scaled = value * gain;
  if (ratio) scaled /= max(texelFetch(norms, at, 0).r, 1e-30);
  float t = raw ? (scaled - ends.x) / (ends.y - ends.x)
                : scaled > 0.0 ? (log2(scaled) - ends.x) / (ends.y - ends.x) : 0.0;
  int index = int(clamp(t, 0.0, 1.0) * 255.0 + 0.5);
  colour = vec4(texelFetch(colours, ivec2(index, 0), 0).rgb, 1);
}`;

const UNIFORMS = /** @type {const} */ ([
  "box", "size", "origin", "cell", "cells", "kind", "layer", "swapped", "ratio", "raw", "ends", "gain", "ink",
  "dot_", "values", "norms", "colours",
]);

const KEEP_BYTES = 256 << 20;

/**
 * @param {WebGL2RenderingContext} gl
 * @param {number} type
 * @param {string} text
 * @returns {WebGLShader}
 */
function shader(gl, type, text) {
  const made = gl.createShader(type);
  if (!made) throw new Error("webgl: no shader");
  gl.shaderSource(made, text);
  gl.compileShader(made);
  if (!gl.getShaderParameter(made, gl.COMPILE_STATUS)) throw new Error(`webgl: ${gl.getShaderInfoLog(made)}`);
  return made;
}

/**
 * @param {WebGL2RenderingContext} gl
 * @returns {WebGLProgram}
 */
function link(gl) {
  const program = gl.createProgram();
  gl.attachShader(program, shader(gl, gl.VERTEX_SHADER, VERTEX));
  gl.attachShader(program, shader(gl, gl.FRAGMENT_SHADER, FRAGMENT));
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(`webgl: ${gl.getProgramInfoLog(program)}`);
  return program;
}

/**
 * @implements {Drawing}
 */
export class WebglDrawing {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {WebGL2RenderingContext} gl
   */
  constructor(canvas, gl) {
    this.name = /** @type {const} */ ("webgl2");
    this.canvas = canvas;
    this.gl = gl;
    this.program = link(gl);
    /** @type {Record<string, WebGLUniformLocation | null>} */
    this.at = Object.fromEntries(UNIFORMS.map((name) => [name, gl.getUniformLocation(this.program, name)]));
    /** @type {Map<Tile, Held>} */
    this.tiles = new Map();
    /** @type {Map<Float32Array, Held>} */
    this.norms = new Map();
    this.bytes = 0;
    this.frame = 0;
    /** @type {Map<string, WebGLTexture>} */
    this.palettes = new Map();
    this.vertices = gl.createVertexArray();
    /** @type {import("./drawing.js").Budget | null} */
    this.budget = null;
    this.scratch = new Float32Array(0);
  }

  /**
   * @param {Picture} picture
   * @returns {number}  how many textures are still to be made: draw again
   */
  draw(picture) {
    const { gl } = this;
    this.frame += 1;
    this.budget = picture.budget;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    const [red, green, blue] = picture.paper;
    gl.clearColor(red / 255, green / 255, blue / 255, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.useProgram(this.program);
    gl.bindVertexArray(this.vertices);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.setLook(picture);
    let left = 0;
    for (const item of picture.items) left += this.item(item, picture);
    this.trim();
    return left;
  }

  /** @param {Picture} picture */
  setLook({ look, ink, dot }) {
    const { gl, at } = this;
    const raw = look.scale === "raw";
    gl.uniform2f(at.size, this.canvas.width, this.canvas.height);
    gl.uniform1i(at.raw, Number(raw));
    gl.uniform2f(at.ends, raw ? look.low : Math.log2(look.low), raw ? look.high : Math.log2(look.high));
    gl.uniform3f(at.ink, ink[0] / 255, ink[1] / 255, ink[2] / 255);
    gl.uniform1f(at.dot_, dot);
    gl.uniform1i(at.values, 0);
    gl.uniform1i(at.norms, 1);
    gl.uniform1i(at.colours, 2);
    gl.activeTexture(gl.TEXTURE2);
    gl.bindTexture(gl.TEXTURE_2D, this.palette(look.palette));
  }

  /**
   * @param {Item} item
   * @param {Picture} picture
   * @returns {number}
   */
  item(item, picture) {
    const { gl, at } = this;
    const [left, top, right, bottom] = item.box;
    gl.uniform4f(at.box, left, top, right, bottom);
    if (item.kind !== "values") {
      gl.uniform1i(at.kind, item.kind === "missing" ? 1 : 2);
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
      return 0;
    }
    const ratio = isRatio(picture.look.scale) && item.norms !== null;
    const values = this.texture(item.tile, item.must);
    const norms = ratio && item.norms && values ? this.normTexture(item.tile, item.norms, item.must) : null;
    if (!values || (ratio && !norms)) {
      return 1 + (item.standIn ? this.item(item.standIn, picture) : 0);
    }
    this.bind(values, norms);
    gl.uniform1i(at.kind, 0);
    gl.uniform2f(at.origin, item.origin[0], item.origin[1]);
    gl.uniform1f(at.cell, item.cell);
    gl.uniform2i(at.cells, item.tile.width, item.tile.height);
    gl.uniform1i(at.layer, picture.look.plane === "max" && item.tile.level ? 1 : 0);
    gl.uniform1i(at.swapped, Number(item.swapped));
    gl.uniform1i(at.ratio, Number(ratio));
    gl.uniform1f(at.gain, item.gain);
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    return 0;
  }

  /**
   * @param {Held} values
   * @param {Held | null} norms
   */
  bind(values, norms) {
    const { gl } = this;
    values.used = this.frame;
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D_ARRAY, values.texture);
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, norms?.texture ?? this.palette("viridis"));
    if (norms) norms.used = this.frame;
  }

  /**
   * The texture of a tile, made where the frame has room for it.
   * @param {Tile} tile
   * @param {boolean} must
   * @returns {Held | null}
   */
  texture(tile, must) {
    const found = this.tiles.get(tile);
    if (found || !tile.mean || !tile.max) return found ?? null;
    if (!must && !this.budget?.take()) return null;
    const { gl } = this;
    const planes = tile.level ? [tile.mean, tile.max] : [tile.mean];
    const texture = gl.createTexture();
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D_ARRAY, texture);
    gl.texStorage3D(gl.TEXTURE_2D_ARRAY, 1, gl.R32F, tile.width, tile.height, planes.length);
    nearest(gl, gl.TEXTURE_2D_ARRAY);
    const { width, height } = tile;
    planes.forEach((plane, z) => {
      const data = this.unmasked(plane);
      gl.texSubImage3D(gl.TEXTURE_2D_ARRAY, 0, 0, 0, z, width, height, 1, gl.RED, gl.FLOAT, data);
    });
    const held = { texture, bytes: 4 * width * height * planes.length, used: this.frame };
    this.tiles.set(tile, held);
    this.bytes += held.bytes;
    return held;
  }

  /**
   * A plane with -1 where it is masked: compilers for GPUs may take NaN for anything.
   * @param {Float32Array} plane
   * @returns {Float32Array}
   */
  unmasked(plane) {
    if (this.scratch.length !== plane.length) this.scratch = new Float32Array(plane.length);
    for (let i = 0; i < plane.length; i++) this.scratch[i] = plane[i] >= 0 ? plane[i] : -1;
    return this.scratch;
  }

  /**
   * @param {Tile} tile
   * @param {Float32Array} norms
   * @param {boolean} must
   * @returns {Held | null}
   */
  normTexture(tile, norms, must) {
    const found = this.norms.get(norms);
    if (found) return found;
    if (!must && !this.budget?.take()) return null;
    const { gl } = this;
    const texture = gl.createTexture();
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.R32F, tile.width, tile.height, 0, gl.RED, gl.FLOAT, norms);
    nearest(gl, gl.TEXTURE_2D);
    const held = { texture, bytes: norms.byteLength, used: this.frame };
    this.norms.set(norms, held);
    this.bytes += held.bytes;
    return held;
  }

  /**
   * @param {import("./palettes.js").PaletteName} name
   * @returns {WebGLTexture}
   */
  palette(name) {
    const found = this.palettes.get(name);
    if (found) return found;
    const { gl } = this;
    const texture = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    const table = new Uint8Array(paletteTable(name));
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGB8, COLOURS, 1, 0, gl.RGB, gl.UNSIGNED_BYTE, table);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 4);
    nearest(gl, gl.TEXTURE_2D);
    this.palettes.set(name, texture);
    return texture;
  }

  /** Frees the textures that were used longest ago, never one of this frame. */
  trim() {
    for (const held of [this.tiles, this.norms]) {
      if (this.bytes <= KEEP_BYTES) return;
      const old = [...held].filter(([, one]) => one.used < this.frame).sort((a, b) => a[1].used - b[1].used);
      for (const [key, one] of old) {
        if (this.bytes <= KEEP_BYTES) return;
        this.gl.deleteTexture(one.texture);
        /** @type {Map<any, Held>} */ (held).delete(key);
        this.bytes -= one.bytes;
      }
    }
  }

  /** Frees everything, the context included: a page may hold few. */
  dispose() {
    const { gl } = this;
    for (const held of [...this.tiles.values(), ...this.norms.values()]) gl.deleteTexture(held.texture);
    this.tiles.clear();
    this.norms.clear();
    this.bytes = 0;
    gl.getExtension("WEBGL_lose_context")?.loseContext();
  }
}

/**
 * @param {WebGL2RenderingContext} gl
 * @param {number} target
 */
function nearest(gl, target) {
  gl.texParameteri(target, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
  gl.texParameteri(target, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
  gl.texParameteri(target, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
  gl.texParameteri(target, gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE);
}
