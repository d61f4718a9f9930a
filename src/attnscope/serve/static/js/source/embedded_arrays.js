// @ts-check
/**
 * The arrays of a stand-alone page, taken out of its bytes when they are first used.
 *
 * The form is that of docs/export.md: the bytes of an array stand plane by plane, first the lowest byte
 * of every element.
 *
 * Not here: inflating (standalone.js), what the arrays mean (embedded_head.js).
 */

import { SourceError } from "./errors.js";

/** @typedef {{name: string, layer: number, head: number | null, dtype: "f4" | "bf16" | "i4" | "u1", shape: number[], at: number}} Entry */

const BYTES = { f4: 4, bf16: 2, i4: 4, u1: 1 };

export class EmbeddedArrays {
  /**
   * @param {Entry[]} entries
   * @param {ArrayBuffer} data
   */
  constructor(entries, data) {
    this.bytes = new Uint8Array(data);
    /** @type {Map<string, Entry>} */
    this.entries = new Map(entries.map((entry) => [`${entry.name} ${entry.layer} ${entry.head}`, entry]));
    /** @type {Map<Entry, Float32Array | Int32Array | Uint8Array>} */
    this.known = new Map();
    this.all = entries;
  }

  /**
   * @param {string} name
   * @param {number} layer
   * @param {number | null} head
   * @returns {Entry | undefined}
   */
  entry(name, layer, head) {
    return this.entries.get(`${name} ${layer} ${head}`);
  }

  /**
   * An array, or null where the page has none.
   * @param {string} name
   * @param {number} layer
   * @param {number | null} head
   * @returns {any}   Float32Array for f4 and bf16, Int32Array, Uint8Array
   */
  get(name, layer, head) {
    const entry = this.entry(name, layer, head);
    if (!entry) return null;
    const known = this.known.get(entry) ?? this.unpack(entry);
    this.known.set(entry, known);
    return known;
  }

  /**
   * @param {Entry} entry
   * @returns {Float32Array | Int32Array | Uint8Array}
   */
  unpack({ name, dtype, shape, at }) {
    const count = shape.reduce((product, side) => product * side, 1);
    const size = BYTES[dtype];
    if (!size || at + count * size > this.bytes.length) {
      throw new SourceError(`${name}: ${count} of ${dtype} at ${at} are not in the page`, { code: "broken" });
    }
    if (dtype === "u1") return this.bytes.slice(at, at + count);
    const out = new Uint8Array(4 * count);
    // A bfloat16 is the upper half of a float32.
    const shift = 4 - size;
    for (let plane = 0; plane < size; plane++) {
      const from = at + plane * count;
      for (let i = 0; i < count; i++) out[4 * i + plane + shift] = this.bytes[from + i];
    }
    return dtype === "i4" ? new Int32Array(out.buffer) : new Float32Array(out.buffer);
  }
}
