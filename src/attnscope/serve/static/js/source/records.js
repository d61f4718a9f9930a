// @ts-check
/**
 * The binary records of a trace's tiles, tracks, rows, columns and flows, decoded without copying.
 *
 * The idea: every record starts with 32 bytes that say how long it is, so a stream of records is cut
 * as it arrives and the first tile is on the screen before the last one is computed. Each record
 * gets a buffer of its own, whose planes are typed arrays over it.
 *
 * Layout (little-endian; attnscope.tiles writes the same)
 *     tile    "ATTL" u16 version, state, planes, level, width, height; u32 x, y, payload, 0
 *     track   "ATTR" u16 version, state, planes, level, width, name;   u32 x, 0, payload, 0
 *     row     "ATRW" u16 version, flags; u32 count; f32 sink; then weights, arrived
 *     column  "ATCL" u16 version, 0;     u32 count; then sums
 *     flow    "ATFL" u16 version, flags; u32 layers, keys; then layer numbers, weights, arrived
 *     error   "ATER" u16 version, status; at 24 u32 length, 0; then the sentence, where it came late
 *
 * Not here: fetching (http.js).
 */

import { SourceError } from "./errors.js";

/** @typedef {import("../types.js").Tile} Tile */
/** @typedef {import("../types.js").TrackTile} TrackTile */
/** @typedef {import("../types.js").RowAnswer} RowAnswer */

export const HEADER = 32;
export const VERSION = 1;
/** A record claims its own length: more than any tile or row can have is a broken stream. */
export const LONGEST = 1 << 28;

const STATES = /** @type {const} */ (["values", "masked", "missing"]);

/**
 * @param {string} what
 * @returns {SourceError}
 */
function broken(what) {
  return new SourceError(what, { code: "broken" });
}

/**
 * The four letters a record starts with.
 * @param {DataView} view
 * @returns {string}
 */
function magicOf(view) {
  return String.fromCharCode(view.getUint8(0), view.getUint8(1), view.getUint8(2), view.getUint8(3));
}

/**
 * How many bytes follow the header.
 * @param {DataView} view   the 32 bytes
 * @returns {number}
 */
export function payloadBytes(view) {
  const magic = magicOf(view);
  if (view.getUint16(4, true) !== VERSION) {
    throw broken(`record ${magic}: version ${view.getUint16(4, true)}, expected ${VERSION}`);
  }
  const bytes = payloadOf(magic, view);
  if (bytes > LONGEST) throw broken(`record ${magic}: ${bytes} bytes, more than ${LONGEST}`);
  return bytes;
}

/**
 * @param {string} magic
 * @param {DataView} view
 * @returns {number}
 */
function payloadOf(magic, view) {
  const flags = view.getUint16(6, true);
  const count = view.getUint32(8, true);
  switch (magic) {
    case "ATTL":
    case "ATTR":
    case "ATER":
      return view.getUint32(24, true);
    case "ATRW":
      return 4 * count * (flags & 1 ? 2 : 1);
    case "ATCL":
      return 4 * count;
    case "ATFL":
      return 4 * count + 4 * count * view.getUint32(12, true) * (flags & 1 ? 2 : 1);
    default:
      throw broken(`record ${JSON.stringify(magic)}: not one that attnscope writes`);
  }
}

/**
 * Cuts a stream of bytes into records.
 */
export class RecordReader {
  /** @param {(record: ArrayBuffer) => void} onRecord */
  constructor(onRecord) {
    this.onRecord = onRecord;
    this.header = new Uint8Array(HEADER);
    /** @type {Uint8Array | null} */
    this.record = null;
    this.filled = 0;
  }

  /**
   * @param {Uint8Array} chunk
   */
  push(chunk) {
    let at = 0;
    while (at < chunk.length || (this.record && this.filled === this.record.length)) {
      const target = this.record ?? this.header;
      const take = Math.min(target.length - this.filled, chunk.length - at);
      target.set(chunk.subarray(at, at + take), this.filled);
      this.filled += take;
      at += take;
      if (this.filled < target.length) return;
      if (this.record) this.finish();
      else this.begin();
    }
  }

  /** The header is whole: make room for the record. */
  begin() {
    const bytes = payloadBytes(new DataView(this.header.buffer));
    this.record = new Uint8Array(HEADER + bytes);
    this.record.set(this.header);
    this.filled = HEADER;
  }

  /** The record is whole: hand it on. */
  finish() {
    const done = /** @type {Uint8Array} */ (this.record);
    this.record = null;
    this.filled = 0;
    const view = new DataView(done.buffer);
    if (magicOf(view) === "ATER") {
      throw new SourceError(new TextDecoder().decode(done.subarray(HEADER)), { status: view.getUint16(6, true) });
    }
    this.onRecord(/** @type {ArrayBuffer} */ (done.buffer));
  }

  /** The stream has ended; half a record is an error. */
  end() {
    if (this.record || this.filled) throw broken("the answer ends in the middle of a record");
  }
}

/**
 * @param {ArrayBuffer} buffer
 * @param {string} magic
 * @returns {DataView}
 */
function open(buffer, magic) {
  if (buffer.byteLength < HEADER) throw broken(`record ${magic}: ${buffer.byteLength} bytes`);
  const view = new DataView(buffer);
  if (magicOf(view) !== magic) throw broken(`expected a record ${magic}, got ${JSON.stringify(magicOf(view))}`);
  const bytes = payloadBytes(view);
  if (buffer.byteLength !== HEADER + bytes) {
    throw broken(`record ${magic}: expected ${HEADER + bytes} bytes, got ${buffer.byteLength}`);
  }
  return view;
}

/**
 * @param {DataView} view
 * @param {string} magic
 * @returns {"values" | "masked" | "missing"}
 */
function stateOf(view, magic) {
  const state = STATES[view.getUint16(6, true)];
  if (!state) throw broken(`record ${magic}: unknown state ${view.getUint16(6, true)}`);
  return state;
}

/**
 * @param {ArrayBuffer} buffer
 * @returns {Tile}
 */
export function decodeTile(buffer) {
  const view = open(buffer, "ATTL");
  const planes = view.getUint16(8, true);
  const width = view.getUint16(12, true);
  const height = view.getUint16(14, true);
  const cells = width * height;
  const state = stateOf(view, "ATTL");
  const place = { level: view.getUint16(10, true), x: view.getUint32(16, true), y: view.getUint32(20, true) };
  if (![0, 1, 3].includes(planes) || buffer.byteLength !== HEADER + 4 * planes * cells) {
    throw broken(`record ATTL: ${planes} planes of ${width} x ${height} do not fit its length`);
  }
  if ((state === "values") !== planes > 0) throw broken(`record ATTL: ${planes} planes in state ${state}`);
  if (!planes) return { state, ...place, width, height, mean: null, max: null, argmax: null };
  const mean = new Float32Array(buffer, HEADER, cells);
  if (planes === 1) return { state, ...place, width, height, mean, max: mean, argmax: null };
  const max = new Float32Array(buffer, HEADER + 4 * cells, cells);
  const argmax = new Int32Array(buffer, HEADER + 8 * cells, cells);
  return { state, ...place, width, height, mean, max, argmax };
}

/**
 * @param {ArrayBuffer} buffer
 * @param {string[]} names   TraceInfo.tracks
 * @returns {TrackTile}
 */
export function decodeTrack(buffer, names) {
  const view = open(buffer, "ATTR");
  const planes = view.getUint16(8, true);
  const width = view.getUint16(12, true);
  const name = names[view.getUint16(14, true)];
  if (name === undefined) throw broken(`record ATTR: track number ${view.getUint16(14, true)} of ${names.length}`);
  if (buffer.byteLength !== HEADER + 4 * planes * width || ![0, 2].includes(planes)) {
    throw broken(`record ATTR: ${planes} planes of ${width} do not fit its length`);
  }
  const place = { name, level: view.getUint16(10, true), x: view.getUint32(16, true) };
  if (!planes) {
    const empty = new Float32Array(width).fill(NaN);
    return { ...place, mean: empty, max: empty };
  }
  const mean = new Float32Array(buffer, HEADER, width);
  return { ...place, mean, max: new Float32Array(buffer, HEADER + 4 * width, width) };
}

/**
 * @param {ArrayBuffer} buffer
 * @returns {RowAnswer}
 */
export function decodeRow(buffer) {
  const view = open(buffer, "ATRW");
  const count = view.getUint32(8, true);
  const arrived = view.getUint16(6, true) & 1 ? new Float32Array(buffer, HEADER + 4 * count, count) : null;
  return { weights: new Float32Array(buffer, HEADER, count), arrived, sink: view.getFloat32(12, true) };
}

/**
 * @param {ArrayBuffer} buffer
 * @returns {Float32Array}
 */
export function decodeColumn(buffer) {
  const view = open(buffer, "ATCL");
  return new Float32Array(buffer, HEADER, view.getUint32(8, true));
}

/**
 * @param {ArrayBuffer} buffer
 * @returns {{layers: number[], keys: number, weights: Float32Array, arrived: Float32Array | null}}
 */
export function decodeFlow(buffer) {
  const view = open(buffer, "ATFL");
  const layers = view.getUint32(8, true);
  const keys = view.getUint32(12, true);
  const at = HEADER + 4 * layers;
  const arrived = view.getUint16(6, true) & 1;
  return {
    layers: Array.from(new Int32Array(buffer, HEADER, layers)),
    keys,
    weights: new Float32Array(buffer, at, layers * keys),
    arrived: arrived ? new Float32Array(buffer, at + 4 * layers * keys, layers * keys) : null,
  };
}

/**
 * Bytes a decoded thing keeps alive, for caches.
 * @param {Tile | TrackTile | RowAnswer | Float32Array} thing
 * @returns {number}
 */
export function bytesOf(thing) {
  if (thing instanceof Float32Array) return HEADER + thing.byteLength;
  if ("weights" in thing) return HEADER + thing.weights.byteLength + (thing.arrived?.byteLength ?? 0);
  if ("name" in thing) return HEADER + 2 * thing.mean.byteLength;
  const planes = thing.mean ? (thing.argmax ? 3 : 1) : 0;
  return HEADER + planes * (thing.mean?.byteLength ?? 0);
}
