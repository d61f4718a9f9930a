// @ts-check
/**
 * Mouse, touch and wheel on the figure, turned into what they mean.
 *
 * The idea: one finger or button drags the map, or along an axis chooses a range of tokens; two fingers
 * pinch; the wheel zooms around the pointer; a press without movement is a click.
 *
 * Units: css pixels within the figure.
 *
 * Not here: what the meanings do (screen.js).
 */

/** @typedef {{left: number, top: number}} Point */
/**
 * @typedef {object} Meanings
 * @property {() => import("./figure.js").Layout} layout
 * @property {(right: number, down: number) => void} pan
 * @property {(point: Point, factor: number) => void} zoom   point within the plot
 * @property {(point: Point | null) => void} hover           within the plot; null: left it
 * @property {(point: Point) => void} click
 * @property {(axis: "keys" | "queries", from: number, to: number) => void} choose   pixels along the axis, within the plot
 * @property {() => void} rest    a movement has ended
 */

const CLICK_PIXELS = 4;
/** A wheel's notch is some 100 units; this makes it a fifth of a doubling. */
const WHEEL = 0.0022;

/**
 * Which part of the figure a point is in.
 * @param {import("./figure.js").Layout} layout
 * @param {Point} point
 * @returns {"plot" | "keys" | "queries" | "corner"}
 */
export function partOf({ plot }, { left, top }) {
  if (left >= plot.x && top >= plot.y) return "plot";
  if (left >= plot.x) return "keys";
  return top >= plot.y ? "queries" : "corner";
}

/**
 * How much a wheel event zooms; lines and pages are turned into pixels first.
 * @param {{deltaY: number, deltaMode: number, ctrlKey: boolean}} event
 * @returns {number}
 */
export function wheelFactor({ deltaY, deltaMode, ctrlKey }) {
  const pixels = deltaY * (deltaMode === 1 ? 33 : deltaMode === 2 ? 400 : 1);
  // A pinch on a trackpad comes as a wheel with Ctrl and small steps.
  return Math.exp(-Math.max(-300, Math.min(300, pixels)) * (ctrlKey ? 4 * WHEEL : WHEEL));
}

export class Pointers {
  /**
   * @param {HTMLElement} element
   * @param {Meanings} meanings
   */
  constructor(element, meanings) {
    this.element = element;
    this.meanings = meanings;
    /** @type {Map<number, Point>} */
    this.down = new Map();
    /** @type {{part: string, from: Point, moved: boolean} | null} */
    this.drag = null;
    this.stop = new AbortController();
    const { signal } = this.stop;
    element.addEventListener("pointerdown", (event) => this.press(event), { signal });
    element.addEventListener("pointermove", (event) => this.move(event), { signal });
    element.addEventListener("pointerup", (event) => this.release(event, true), { signal });
    element.addEventListener("pointercancel", (event) => this.release(event, false), { signal });
    element.addEventListener("pointerleave", () => this.down.size || meanings.hover(null), { signal });
    element.addEventListener("wheel", (event) => this.wheel(event), { signal, passive: false });
  }

  /** @param {PointerEvent | WheelEvent} event @returns {Point} */
  pointOf(event) {
    const box = this.element.getBoundingClientRect();
    return { left: event.clientX - box.left, top: event.clientY - box.top };
  }

  /** @param {Point} point @returns {Point} */
  inPlot({ left, top }) {
    const { plot } = this.meanings.layout();
    return { left: left - plot.x, top: top - plot.y };
  }

  /** @param {PointerEvent} event */
  press(event) {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    const point = this.pointOf(event);
    this.down.set(event.pointerId, point);
    this.element.setPointerCapture(event.pointerId);
    this.drag = this.down.size === 1 ? { part: partOf(this.meanings.layout(), point), from: point, moved: false } : null;
    this.element.classList.toggle("dragging", this.drag?.part === "plot");
  }

  /** @param {PointerEvent} event */
  move(event) {
    const point = this.pointOf(event);
    const before = this.down.get(event.pointerId);
    if (!before) {
      const part = partOf(this.meanings.layout(), point);
      this.element.dataset.part = part;
      return this.meanings.hover(part === "plot" ? this.inPlot(point) : null);
    }
    if (this.down.size === 2) this.pinch(event.pointerId, before, point);
    else if (this.drag) this.dragTo(before, point);
    this.down.set(event.pointerId, point);
    return undefined;
  }

  /** @param {Point} before @param {Point} point */
  dragTo(before, point) {
    const drag = /** @type {NonNullable<typeof this.drag>} */ (this.drag);
    if (!drag.moved && Math.hypot(point.left - drag.from.left, point.top - drag.from.top) < CLICK_PIXELS) return;
    const [start, now] = [this.inPlot(drag.from), this.inPlot(point)];
    if (drag.part === "keys") this.meanings.choose("keys", start.left, now.left);
    else if (drag.part === "queries") this.meanings.choose("queries", start.top, now.top);
    else if (drag.part === "plot") {
      const from = drag.moved ? before : drag.from;
      this.meanings.pan(point.left - from.left, point.top - from.top);
    }
    drag.moved = true;
  }

  /** @param {number} id @param {Point} before @param {Point} point */
  pinch(id, before, point) {
    const other = [...this.down].find(([one]) => one !== id)?.[1];
    if (!other) return;
    const apart = (/** @type {Point} */ one) => Math.max(10, Math.hypot(one.left - other.left, one.top - other.top));
    const middle = { left: (point.left + other.left) / 2, top: (point.top + other.top) / 2 };
    this.meanings.pan((point.left - before.left) / 2, (point.top - before.top) / 2);
    this.meanings.zoom(this.inPlot(middle), apart(point) / apart(before));
  }

  /** @param {PointerEvent} event @param {boolean} whole   not taken away by the browser */
  release(event, whole) {
    const point = this.down.get(event.pointerId);
    if (!point) return;
    this.down.delete(event.pointerId);
    const drag = this.drag;
    this.drag = null;
    this.element.classList.remove("dragging");
    const now = this.inPlot(point);
    if (whole && drag && !drag.moved) {
      if (drag.part === "plot") this.meanings.click(now);
      else if (drag.part === "keys") this.meanings.choose("keys", now.left, now.left);
      else if (drag.part === "queries") this.meanings.choose("queries", now.top, now.top);
    }
    this.meanings.rest();
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    const point = this.pointOf(event);
    event.preventDefault();
    const sideways = event.shiftKey || Math.abs(event.deltaX) > 2 * Math.abs(event.deltaY);
    if (sideways && !event.ctrlKey) this.meanings.pan(-(event.deltaX || event.deltaY), 0);
    else this.meanings.zoom(this.inPlot(point), wheelFactor(event));
    this.meanings.rest();
  }

  dispose() {
    this.stop.abort();
  }
}
