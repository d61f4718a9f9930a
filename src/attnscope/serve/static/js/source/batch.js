// @ts-check
/**
 * Joins single questions of one frame into few requests, and forgets those nobody waits for.
 *
 * The idea: panning asks for dozens of tiles in one frame; they go out as one request per group. The
 * same item asked for twice is fetched once. Who aborts leaves; an item that nobody waits for is not
 * sent, and a request whose items have all been left is aborted on the wire.
 *
 * Not here: what a request looks like (http.js).
 */

import { SourceError, abortError } from "./errors.js";

/**
 * @template T
 * @typedef {object} Entry
 * @property {string} group
 * @property {string} item
 * @property {Set<{resolve: (value: T) => void, reject: (error: unknown) => void}>} waiters
 * @property {(() => void) | null} left    told when the last waiter has gone
 */

/**
 * Calls once, in the next frame; a hidden page has no frames, so a timer stands in.
 * @param {() => void} call
 */
export function nextFrame(call) {
  let done = false;
  const once = () => {
    if (!done) call();
    done = true;
  };
  if (typeof requestAnimationFrame === "function") requestAnimationFrame(once);
  setTimeout(once, typeof requestAnimationFrame === "function" ? 40 : 8);
}

/**
 * @template T
 */
export class Batcher {
  /**
   * @param {object} options
   * @param {(group: string, items: string[], signal: AbortSignal, deliver: (place: number, value: T) => void) => Promise<void>} options.send
   *     fetches the items and delivers each by its place
   * @param {number} options.limit            most items in one request
   * @param {(call: () => void) => void} [options.schedule]
   */
  constructor({ send, limit, schedule = nextFrame }) {
    this.send = send;
    this.limit = limit;
    this.schedule = schedule;
    /** @type {Map<string, Entry<T>>} all that are asked for and not yet here */
    this.entries = new Map();
    /** @type {Entry<T>[]} */
    this.waiting = [];
  }

  /**
   * @param {string} group
   * @param {string} item
   * @param {AbortSignal} [signal]
   * @returns {Promise<T>}
   */
  ask(group, item, signal) {
    if (signal?.aborted) return Promise.reject(abortError());
    const key = `${group} ${item}`;
    let entry = this.entries.get(key);
    if (!entry) {
      entry = { group, item, waiters: new Set(), left: null };
      this.entries.set(key, entry);
      if (!this.waiting.length) this.schedule(() => this.flush());
      this.waiting.push(entry);
    }
    return this.wait(entry, signal);
  }

  /**
   * @param {Entry<T>} entry
   * @param {AbortSignal} [signal]
   * @returns {Promise<T>}
   */
  wait(entry, signal) {
    return new Promise((resolve, reject) => {
      const leave = () => {
        entry.waiters.delete(waiter);
        reject(abortError());
        if (entry.waiters.size) return;
        this.forget(entry);
        entry.left?.();
      };
      const done = () => signal?.removeEventListener("abort", leave);
      const waiter = {
        resolve: (/** @type {T} */ value) => (done(), resolve(value)),
        reject: (/** @type {unknown} */ error) => (done(), reject(error)),
      };
      entry.waiters.add(waiter);
      signal?.addEventListener("abort", leave, { once: true });
    });
  }

  /** Sends what this frame asked for. */
  flush() {
    /** @type {Map<string, Entry<T>[]>} */
    const groups = new Map();
    for (const entry of this.waiting) {
      if (!entry.waiters.size) continue;
      const group = groups.get(entry.group) ?? [];
      group.push(entry);
      groups.set(entry.group, group);
    }
    this.waiting = [];
    for (const [group, entries] of groups) {
      for (let at = 0; at < entries.length; at += this.limit) {
        void this.request(group, entries.slice(at, at + this.limit));
      }
    }
  }

  /**
   * @param {string} group
   * @param {Entry<T>[]} entries
   */
  async request(group, entries) {
    const stop = new AbortController();
    const open = new Set(entries);
    for (const entry of entries) {
      entry.left = () => {
        open.delete(entry);
        if (!open.size) stop.abort(abortError());
      };
    }
    /** @param {number} place @param {T} value */
    const deliver = (place, value) => {
      const entry = entries[place];
      if (!open.delete(entry)) return;
      this.forget(entry);
      for (const waiter of [...entry.waiters]) waiter.resolve(value);
    };
    const items = entries.map((entry) => entry.item);
    try {
      await this.send(group, items, stop.signal, deliver);
      this.fail(open, new SourceError(`${open.size} of ${items.length} answers did not come`, { code: "broken" }));
    } catch (error) {
      this.fail(open, error);
    }
  }

  /**
   * @param {Set<Entry<T>>} open
   * @param {unknown} error
   */
  fail(open, error) {
    for (const entry of open) {
      this.forget(entry);
      for (const waiter of [...entry.waiters]) waiter.reject(error);
    }
    open.clear();
  }

  /** @param {Entry<T>} entry */
  forget(entry) {
    const key = `${entry.group} ${entry.item}`;
    if (this.entries.get(key) === entry) this.entries.delete(key);
  }
}
