// @ts-check
/**
 * Asks for what the flow shows, and drops what is no longer wanted.
 *
 * The idea: the row of a head is cheap and asked at once; the weights of all layers are a hundred
 * times as much and asked when the reader stays a moment (or at once where no head is chosen).
 *
 * Not here: what is done with the answers (screen.js).
 */

import { isAbort } from "../../source/errors.js";
import { overLayers } from "./mass.js";

/**
 * @typedef {import("../../types.js").DataSource} DataSource
 * @typedef {Awaited<ReturnType<DataSource["flow"]>>} Flow
 * @typedef {{trace: string, layer: number | null, head: number | null, queries: [number, number], how: "mean" | "sum", offset: number}} Want
 *     queries are positions of tokens; offset is how many keys stand before the first row
 * @typedef {object} Got
 * @property {Want} want
 * @property {Float32Array | null} weights   null: this layer has no map
 * @property {Float32Array | null} arrived
 * @property {number} sink
 */

const REST = 220;

export class FlowData {
  /**
   * @param {DataSource} source
   * @param {{row: (got: Got) => void, layers: (flow: Flow) => void, later: (column: Float32Array) => void, failed: (error: unknown) => void}} hooks
   */
  constructor(source, hooks) {
    this.source = source;
    this.hooks = hooks;
    this.control = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.asked = "";
  }

  /**
   * Asks for a row, then for the layers and for who looks at it later.
   * @param {Want} want
   */
  ask(want) {
    const name = JSON.stringify(want);
    if (name === this.asked) return;
    this.stop();
    this.asked = name;
    const control = (this.control = new AbortController());
    const { signal } = control;
    if (want.head !== null && want.layer !== null) {
      this.guard(signal, () => this.row(want, signal));
      this.timer = setTimeout(() => {
        this.guard(signal, () => this.layers(want, signal));
        this.guard(signal, () => this.later(want, signal));
      }, REST);
    } else {
      this.guard(signal, () => this.layers(want, signal));
    }
  }

  /** @param {AbortSignal} signal @param {() => Promise<void>} work */
  async guard(signal, work) {
    try {
      await work();
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      this.asked = "";
      this.hooks.failed(error);
    }
  }

  /** @param {Want} want @param {AbortSignal} signal */
  async row(want, signal) {
    const { trace, layer, head, how } = want;
    if (layer === null || head === null) return;
    const { weights, arrived, sink } = await this.source.row({ trace, layer, head, how, queries: rowsOf(want) }, signal);
    if (!signal.aborted) this.hooks.row({ want, weights, arrived, sink });
  }

  /** @param {Want} want @param {AbortSignal} signal */
  async layers(want, signal) {
    const { trace, how, layer, head } = want;
    const asked = this.source.flow({ trace, how, queries: rowsOf(want) }, signal);
    const [flow, info] = await Promise.all([asked, this.source.info(trace)]);
    if (signal.aborted) return;
    if (head === null || layer === null) {
      const heads = /** @param {number} index */ (index) => info.layers.find((one) => one.index === index)?.query_heads ?? 1;
      const row = overLayers(flow, layer, heads);
      this.hooks.row({ want, weights: row?.weights ?? null, arrived: row?.arrived ?? null, sink: 0 });
    }
    this.hooks.layers(flow);
  }

  /** @param {Want} want @param {AbortSignal} signal */
  async later(want, signal) {
    const { trace, layer, head, how, queries } = want;
    if (layer === null || head === null) return;
    const column = await this.source.column({ trace, layer, head, how, keys: span(queries) }, signal);
    if (!signal.aborted) this.hooks.later(column);
  }

  stop() {
    clearTimeout(this.timer);
    this.control.abort();
    this.asked = "";
  }
}

/** @param {Want} want */
function rowsOf({ queries, offset }) {
  return span(queries).map((position) => position - offset);
}

/**
 * All whole numbers of a range.
 * @param {[number, number]} range
 * @returns {number[]}
 */
export function span([first, last]) {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}
