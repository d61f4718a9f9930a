// @ts-check
/**
 * Capturing a text over HTTP: start it, follow its events, cancel it.
 *
 * The idea: the events are server-sent events read from a plain fetch, so one AbortSignal ends both
 * the reading and, by DELETE, the work itself. A stream that breaks off before "done" is an error.
 *
 * Not here: the forms a reader fills in (screens/home, widgets/own).
 */

import { SourceError, abortError, isAbort } from "./errors.js";

/** @typedef {import("../types.js").CaptureEvent} CaptureEvent */
/** @typedef {import("../types.js").DataSource} DataSource */
/** @typedef {import("../types.js").TraceEntry} TraceEntry */

/**
 * What this file needs of http.js.
 * @typedef {object} Caller
 * @property {(path: string, query?: Record<string, string | number>, init?: RequestInit) => Promise<Response>} get
 * @property {(path: string, query?: Record<string, string | number>, init?: RequestInit) => Promise<any>} json
 */

/** Bytes of the longest text that the server takes. */
const MOST_BYTES = 1e6;

/**
 * What is wrong with a text before it is sent.
 * @param {string} text
 * @returns {"empty" | "long" | null}
 */
export function faultOfText(text) {
  if (text.trim() === "") return "empty";
  return new TextEncoder().encode(text).length > MOST_BYTES ? "long" : null;
}

/**
 * Cuts the text of an event stream into the data of its events.
 */
export class EventReader {
  constructor() {
    this.rest = "";
  }

  /**
   * @param {string} text   a piece of the stream
   * @returns {string[]}    data of the events it completes
   */
  push(text) {
    const blocks = (this.rest + text.replace(/\r\n?/g, "\n")).split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.map(dataOf).filter((data) => data !== "");
  }
}

/**
 * @param {string} block
 * @returns {string}
 */
function dataOf(block) {
  const lines = block.split("\n").filter((line) => line.startsWith("data:"));
  return lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n");
}

/**
 * @param {Caller} api
 * @returns {NonNullable<DataSource["capture"]>}
 */
export function captureOver(api) {
  return async (want, onEvent, signal) => {
    const headers = { "Content-Type": "application/json" };
    const { id } = await api.json("captures", {}, { method: "POST", headers, body: JSON.stringify(want), signal });
    const where = `captures/${encodeURIComponent(id)}`;
    try {
      const response = await api.get(`${where}/events`, {}, { signal });
      return await follow(response, onEvent);
    } catch (error) {
      if (isAbort(error) || signal?.aborted) {
        await api.get(where, {}, { method: "DELETE", keepalive: true }).catch(() => undefined);
        throw abortError();
      }
      throw error;
    }
  };
}

/**
 * @param {Response} response
 * @param {(event: CaptureEvent) => void} onEvent
 * @returns {Promise<TraceEntry>}
 */
async function follow(response, onEvent) {
  if (!response.body) throw new SourceError("no events", { code: "broken" });
  const stream = response.body.getReader();
  const decoder = new TextDecoder();
  const events = new EventReader();
  for (;;) {
    const { done, value } = await stream.read();
    if (done) throw new SourceError("the events ended before the capture did", { code: "broken" });
    for (const data of events.push(decoder.decode(value, { stream: true }))) {
      const event = /** @type {CaptureEvent} */ (JSON.parse(data));
      onEvent(event);
      if (event.kind === "done") return event.trace;
      if (event.kind === "failed") throw new SourceError(event.message);
      if (event.kind === "cancelled") throw abortError();
    }
  }
}
