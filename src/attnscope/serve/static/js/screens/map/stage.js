// @ts-check
/**
 * The elements of the figure: a canvas for the tiles, one for axes and marks over it, and the proxy
 * that takes the focus and speaks for both.
 *
 * The idea: `ask` asks for a frame; a frame reads the state once and paints both. Nothing is painted
 * outside of frames.
 *
 * Not here: what to paint (figure.js, picture.js), input (pointer.js, keys.js).
 */

import { Budget, createDrawing } from "../../draw/drawing.js";
import { paintShapes } from "../../draw/shapes.js";
import { h } from "../../parts/dom.js";
import { layoutOf } from "./figure.js";

/** @typedef {import("../../draw/drawing.js").Drawing} Drawing */
/** @typedef {import("../../draw/tracks.js").Style} Style */
/** @typedef {import("./figure.js").Layout} Layout */

/** Milliseconds of a frame for making tiles ready. */
const BUDGET = 6;

export class Stage {
  /**
   * @param {HTMLElement} root      of the app: its css says the colours
   * @param {{label: string, help: string, onFrame: (stage: Stage) => boolean, prefer: import("../../draw/drawing.js").Prefer}} options
   *     onFrame paints; true asks for another frame
   */
  constructor(root, { label, help, onFrame, prefer }) {
    this.root = root;
    this.onFrame = onFrame;
    this.prefer = prefer;
    this.tiles = h("canvas", { class: "map-tiles", "aria-hidden": "true" });
    this.over = h("canvas", { class: "map-over", "aria-hidden": "true" });
    this.proxy = h("div", {
      ...{ class: "map-proxy", tabindex: "0", role: "application", "aria-label": label },
      ...{ "aria-roledescription": help },
    });
    this.element = h("div", { class: "map-figure" }, this.tiles, this.over, this.proxy);
    /** @type {Layout} */
    this.layout = layoutOf(400, 400);
    this.dot = 1;
    /** @type {Drawing} */
    this.drawing = this.newDrawing();
    this.frame = 0;
    /** @type {Style | null} */
    this.known = null;
    this.font = "sans-serif";
    this.resizes = new ResizeObserver(() => this.measure());
    this.resizes.observe(this.element);
    this.themes = new MutationObserver(() => this.restyle());
    this.themes.observe(root, { attributes: true, attributeFilter: ["data-scheme", "class"] });
  }

  /** @returns {Drawing} */
  newDrawing() {
    const drawing = createDrawing(this.tiles, this.prefer);
    this.element.dataset.drawing = drawing.name;
    this.tiles.addEventListener("webglcontextlost", () => this.lost(), { once: true });
    return drawing;
  }

  /** A graphics card may be taken away: go on with a new canvas. */
  lost() {
    if (!this.frame && !this.element.isConnected) return;
    const fresh = h("canvas", { class: "map-tiles", "aria-hidden": "true" });
    this.tiles.replaceWith(fresh);
    this.tiles = fresh;
    this.drawing = this.newDrawing();
    this.measure();
  }

  /** Takes the size the page gives. */
  measure() {
    const { width, height } = this.element.getBoundingClientRect();
    if (width < 2 || height < 2) return;
    this.dot = Math.min(3, this.element.ownerDocument.defaultView?.devicePixelRatio || 1);
    this.layout = layoutOf(Math.floor(width), Math.floor(height));
    const { plot } = this.layout;
    const place = (/** @type {HTMLCanvasElement} */ canvas, /** @type {{x: number, y: number, width: number, height: number}} */ at) => {
      canvas.width = Math.round(at.width * this.dot);
      canvas.height = Math.round(at.height * this.dot);
      Object.assign(canvas.style, { left: `${at.x}px`, top: `${at.y}px`, width: `${at.width}px`, height: `${at.height}px` });
    };
    place(this.tiles, plot);
    place(this.over, { x: 0, y: 0, width: this.layout.width, height: this.layout.height });
    this.paintNow();
  }

  restyle() {
    this.known = null;
    this.ask();
  }

  /**
   * The colours of the current theme.
   * @returns {Style}
   */
  get style() {
    if (this.known) return this.known;
    const css = getComputedStyle(this.root);
    const value = (/** @type {string} */ name, /** @type {string} */ otherwise) => css.getPropertyValue(name).trim() || otherwise;
    this.known = {
      ...{ ink: value("--ink", "#1a1d21"), soft: value("--soft", "#555c66"), line: value("--line-strong", "#80868f") },
      ...{ accent: value("--accent", "#1b5fc1"), wash: value("--accent-wash", "#e4edfa"), sunken: value("--sunken", "#efefec") },
      ...{ surface: value("--surface", "#ffffff"), ground: value("--ground", "#f7f7f5") },
    };
    this.font = css.fontFamily || "sans-serif";
    return this.known;
  }

  /** Asks for a frame. */
  ask() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => this.paintNow());
  }

  paintNow() {
    if (this.frame) cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (this.tiles.width < 2 || !this.element.isConnected) return;
    if (this.onFrame(this)) this.ask();
  }

  /**
   * @param {Omit<import("../../draw/drawing.js").Picture, "paper" | "ink" | "dot" | "budget">} picture
   * @returns {number}
   */
  paintTiles(picture) {
    const { ground, soft } = this.style;
    return this.drawing.draw({ ...picture, paper: rgbOf(ground), ink: rgbOf(soft), dot: this.dot, budget: new Budget(BUDGET) });
  }

  /** @param {import("../../draw/shapes.js").Shape[]} shapes */
  paintOver(shapes) {
    const context = this.over.getContext("2d");
    if (!context) return;
    context.setTransform(this.dot, 0, 0, this.dot, 0, 0);
    context.clearRect(0, 0, this.layout.width, this.layout.height);
    paintShapes(context, shapes, this.font);
  }

  dispose() {
    this.resizes.disconnect();
    this.themes.disconnect();
    if (this.frame) cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.element.remove();
    this.drawing.dispose();
  }
}

/**
 * The bytes of a css colour written #rrggbb.
 * @param {string} css
 * @returns {[number, number, number]}
 */
export function rgbOf(css) {
  const hex = /^#([0-9a-f]{6})$/i.exec(css)?.[1] ?? "808080";
  const value = parseInt(hex, 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}
