// @ts-check
/**
 * A cache that keeps what was used last, up to a number of bytes.
 *
 * Not here: what is kept (http.js, tiles.js).
 */

/**
 * @template V
 */
export class LruBytes {
  /**
   * @param {number} limit                     bytes
   * @param {(value: V, key: string) => void} [onDrop]  told of each value that leaves
   */
  constructor(limit, onDrop) {
    this.limit = limit;
    this.onDrop = onDrop;
    this.bytes = 0;
    /** @type {Map<string, {value: V, bytes: number}>} */
    this.held = new Map();
  }

  /**
   * The value, which is from now the one used last.
   * @param {string} key
   * @returns {V | undefined}
   */
  get(key) {
    const entry = this.held.get(key);
    if (!entry) return undefined;
    this.held.delete(key);
    this.held.set(key, entry);
    return entry.value;
  }

  /**
   * Looks without counting as a use.
   * @param {string} key
   * @returns {V | undefined}
   */
  peek(key) {
    return this.held.get(key)?.value;
  }

  /**
   * Keeps a value; one larger than the whole cache is kept alone, since it is wanted now.
   * @param {string} key
   * @param {V} value
   * @param {number} bytes
   */
  set(key, value, bytes) {
    this.delete(key);
    this.held.set(key, { value, bytes });
    this.bytes += bytes;
    for (const oldest of this.held.keys()) {
      if (this.bytes <= this.limit || oldest === key) break;
      this.delete(oldest);
    }
  }

  /**
   * @param {string} key
   */
  delete(key) {
    const entry = this.held.get(key);
    if (!entry) return;
    this.held.delete(key);
    this.bytes -= entry.bytes;
    this.onDrop?.(entry.value, key);
  }

  clear() {
    for (const key of [...this.held.keys()]) this.delete(key);
  }
}
