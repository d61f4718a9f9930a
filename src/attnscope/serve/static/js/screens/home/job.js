// @ts-check
/**
 * One capture under way: its state outlives the screen that shows it (a change of language makes a new one).
 *
 * Not here: the process that captures (the server's).
 */

import { faultOfText } from "../../source/capture.js";
import { explain, isAbort } from "../../source/errors.js";

/**
 * @typedef {import("../../types.js").App} App
 * @typedef {import("../../types.js").CaptureEvent} CaptureEvent
 * @typedef {import("../../types.js").TraceEntry} TraceEntry
 * @typedef {object} JobState
 * @property {"idle" | "running" | "cancelling"} phase
 * @property {{done: number, total: number, what: string} | null} progress
 * @property {string} prompt
 * @property {string[]} made     texts of generated tokens
 * @property {string | null} failed   a sentence
 * @property {boolean} cancelled
 */

const IDLE = { phase: /** @type {const} */ ("idle"), progress: null, prompt: "", made: [], failed: null, cancelled: false };

export class CaptureJob {
  constructor() {
    /** @type {JobState} */
    this.state = { ...IDLE };
    /** @type {AbortController | null} */
    this.control = null;
    /** @type {(state: JobState) => void} */
    this.changed = () => {};
  }

  /** @param {Partial<JobState>} change */
  set(change) {
    this.state = { ...this.state, ...change };
    this.changed(this.state);
  }

  /**
   * Captures; the trace where it came to be, null where it was cancelled or failed.
   * @param {App} app
   * @param {{text: string, model: string, generate: number}} want
   * @returns {Promise<TraceEntry | null>}
   */
  async run(app, want) {
    const { capture } = app.source;
    if (!capture || this.state.phase !== "idle") return null;
    this.control = new AbortController();
    this.set({ ...IDLE, phase: "running", prompt: want.text, made: [] });
    try {
      const entry = await capture(want, (event) => this.heard(event), this.control.signal);
      this.set({ phase: "idle", progress: null });
      return entry;
    } catch (error) {
      if (isAbort(error)) this.set({ phase: "idle", progress: null, cancelled: true });
      else this.set({ phase: "idle", progress: null, failed: explain(error, app.t) });
      return null;
    }
  }

  /** @param {CaptureEvent} event */
  heard(event) {
    if (event.kind === "progress") this.set({ progress: { done: event.done, total: event.total, what: event.what } });
    if (event.kind === "token") this.set({ made: [...this.state.made, event.text] });
  }

  cancel() {
    if (this.state.phase !== "running") return;
    this.set({ phase: "cancelling" });
    this.control?.abort();
  }
}

/** @type {WeakMap<object, CaptureJob>} */
const jobs = new WeakMap();

/**
 * The one job of an app.
 * @param {App} app
 * @returns {CaptureJob}
 */
export function jobOf(app) {
  const known = jobs.get(app.store) ?? new CaptureJob();
  jobs.set(app.store, known);
  return known;
}

/**
 * What is wrong with what a reader wants to capture, as the key of a text, or null.
 * @param {{text: string, model: string, generate: number}} want
 * @returns {string | null}
 */
export function faultOf({ text, model, generate }) {
  const wrong = faultOfText(text);
  if (wrong) return `home.fault.${wrong}`;
  if (model === "") return "home.fault.model";
  return Number.isInteger(generate) && generate >= 0 && generate <= MOST_GENERATED ? null : "home.fault.generate";
}

export const MOST_GENERATED = 1024;
