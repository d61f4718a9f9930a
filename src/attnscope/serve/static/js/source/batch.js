// @ts-check
/**
 * Joins single questions of one frame into few requests, and forgets those nobody waits for.
 *
 * The idea: panning asks for dozens of tiles in one frame; they go out as one request per group. The
 * same item asked for twice is fetched once. Only one or two requests are under way: what waits meanwhile
 * can still be taken back for nothing, and the server is never behind with what is no longer seen. A
 * request is as long as it takes a moment: how many items that are is learned from those before. Who
 * aborts leaves; an item that nobody waits for is not sent, and a request whose items have all been
 * left is aborted on the wire.
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

/** Milliseconds that a request should take where it is one of several. */
const MOMENT = 15;
/** Items of a first request. */
const FIRST = 2;
/** How much a quick answer says of the next; a slow one is believed at once. */
const NEWEST = 0.2;

/**
 * @template T
 */
export class Batcher {
  /**
   * @param {object} options
   * @param {(group: string, items: string[], signal: AbortSignal, deliver: (place: number, value: T) => void) => Promise<void>} options.send
   *     fetches the items and delivers each by its place
   * @param {number} options.limit            most items in one request
   * @param {number} [options.most]           requests under way at once; without it, all go out at once, and whole
   * @param {(call: () => void) => void} [options.schedule]
   * @param {(group: string) => string} [options.kind]   groups whose items take alike
   * @param {() => number} [options.now]      milliseconds
   */
  constructor({ send, limit, most = Infinity, schedule = nextFrame, kind = (group) => group, now = () => performance.now() }) {
    this.send = send;
    this.limit = limit;
    this.most = most;
    this.schedule = schedule;
    this.kind = kind;
    this.now = now;
    this.running = 0;
    /** @type {Map<string, number>} milliseconds that an item of a kind takes */
    this.costs = new Map();
    /** @type {Map<string, Entry<T>>} all that are asked for and not yet here */
    this.entries = new Map();
    /** @type {Entry<T>[]} */
    this.waiting = [];
    this.called = false;
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
      this.waiting.push(entry);
      const first = !this.called;
      this.called = true;
      if (first) this.schedule(() => this.flush());
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

  /** Sends what this frame asked for, and what may go of that which waits. */
  flush() {
    this.called = false;
    this.waiting = this.waiting.filter((entry) => entry.waiters.size);
    while (this.waiting.length && this.running < this.room(this.waiting[0].group)) {
      const { group } = this.waiting[0];
      const size = this.size(group);
      /** @type {Entry<T>[]} */
      const next = [];
      this.waiting = this.waiting.filter((entry) => entry.group !== group || next.length === size || !next.push(entry));
      void this.request(group, next);
    }
  }

  /**
   * How many requests may be under way for one of this group to follow: items that take longer than a
   * moment come soonest one by one, since all who compute then share the one.
   * @param {string} group
   * @returns {number}
   */
  room(group) {
    return (this.costs.get(this.kind(group)) ?? 0) > MOMENT ? 1 : this.most;
  }

  /**
   * How many items the next request of a group has.
   * @param {string} group
   * @returns {number}
   */
  size(group) {
    if (this.most === Infinity) return this.limit;
    const cost = this.costs.get(this.kind(group));
    return Math.max(1, Math.min(this.limit, cost === undefined ? FIRST : Math.round(MOMENT / cost)));
  }

  /** @param {string} group @param {number} cost   milliseconds of an item */
  learn(group, cost) {
    const before = this.costs.get(this.kind(group)) ?? cost;
    this.costs.set(this.kind(group), cost > before ? cost : before + NEWEST * (cost - before));
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
    const begun = this.now();
    this.running += 1;
    try {
      await this.send(group, items, stop.signal, deliver);
      this.learn(group, (this.now() - begun) / items.length);
      this.fail(open, new SourceError(`${open.size} of ${items.length} answers did not come`, { code: "broken" }));
    } catch (error) {
      this.fail(open, error);
    } finally {
      this.running -= 1;
      if (this.waiting.length) this.flush();
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
