// @ts-check
/**
 * The DataSource over the local server's HTTP API.
 *
 * The idea: what is JSON is asked once and kept; tiles and tracks are joined by frame (batch.js), cut
 * from the answer (records.js), and kept up to a number of bytes (lru.js). All
 * paths are relative to the page, so the secret prefix of the server never appears in code.
 *
 * Not here: what a view needs (tiles.js), capturing (capture.js).
 */

import { Batcher } from "./batch.js";
import { captureOver } from "./capture.js";
import { SourceError, isAbort } from "./errors.js";
import { LruBytes } from "./lru.js";
import { RecordReader, bytesOf, decodeColumn, decodeFlow, decodeRow, decodeTile, decodeTrack } from "./records.js";

/** @typedef {import("../types.js").DataSource} DataSource */
/** @typedef {import("../types.js").HeadRef} HeadRef */
/** @typedef {import("../types.js").Tile} Tile */
/** @typedef {import("../types.js").TrackTile} TrackTile */
/** @typedef {Record<string, string | number>} Query */

export const TILES_A_REQUEST = 64;
/** As many as threads compute them; what waits meanwhile can be taken back. */
const TILE_REQUESTS = 2;
const BUSY_WAITS = [120, 400, 1200];
const CACHE_BYTES = 160 << 20;

/**
 * @typedef {object} HttpOptions
 * @property {string} base       address of the page, ending in "/"
 * @property {typeof fetch} [fetch]
 * @property {(call: () => void) => void} [schedule]   when a batch is sent
 * @property {number} [cacheBytes]
 * @property {number[]} [waits]  milliseconds before asking a busy server again
 */

/**
 * Asks, and gives the response where it is a good one.
 */
export class Api {
  /** @param {HttpOptions} options */
  constructor({ base, fetch: given, waits = BUSY_WAITS }) {
    this.base = new URL("api/", base);
    this.fetch = given ?? ((/** @type {any[]} */ ...args) => fetch(.../** @type {[any]} */ (args)));
    this.waits = waits;
  }

  /**
   * @param {string} path
   * @param {Query} [query]
   * @returns {string}
   */
  url(path, query = {}) {
    const url = new URL(path, this.base);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value));
    return url.href.replace(/%2C/g, ",");
  }

  /**
   * @param {string} path
   * @param {Query} [query]
   * @param {RequestInit} [init]
   * @returns {Promise<Response>}
   */
  async get(path, query = {}, init = {}) {
    for (let turn = 0; ; turn++) {
      const response = await this.once(this.url(path, query), init);
      if (response.ok) return response;
      if (response.status !== 429 || turn >= this.waits.length) throw await refusal(response);
      await new Promise((resolve) => setTimeout(resolve, this.waits[turn]));
      init.signal?.throwIfAborted();
    }
  }

  /**
   * @param {string} url
   * @param {RequestInit} init
   */
  async once(url, init) {
    try {
      return await this.fetch(url, { credentials: "omit", cache: "no-store", ...init });
    } catch (error) {
      if (isAbort(error) || init.signal?.aborted) throw error;
      throw new SourceError(String(error), { code: "offline" });
    }
  }

  /**
   * @param {string} path
   * @param {Query} [query]
   * @param {RequestInit} [init]
   * @returns {Promise<any>}
   */
  async json(path, query, init) {
    const response = await this.get(path, query, init);
    try {
      return await response.json();
    } catch (error) {
      if (isAbort(error)) throw error;
      throw new SourceError(`${path}: no JSON`, { code: "broken" });
    }
  }

  /**
   * @param {string} path
   * @param {Query} query
   * @param {AbortSignal} [signal]
   * @returns {Promise<ArrayBuffer>}
   */
  async bytes(path, query, signal) {
    const response = await this.get(path, query, { signal });
    return response.arrayBuffer();
  }

  /**
   * Reads the records of an answer. It is read whole: piece by piece, each piece would wait for its turn
   * between two frames, and a request is short enough.
   * @param {string} path
   * @param {Query} query
   * @param {AbortSignal} signal
   * @param {(record: ArrayBuffer) => void} onRecord
   */
  async records(path, query, signal, onRecord) {
    const reader = new RecordReader(onRecord);
    reader.push(new Uint8Array(await this.bytes(path, query, signal)));
    reader.end();
  }
}

/**
 * @param {Response} response
 * @returns {Promise<SourceError>}
 */
async function refusal(response) {
  const text = await response.text().catch(() => "");
  try {
    const { error } = JSON.parse(text);
    if (typeof error === "string") return new SourceError(error, { status: response.status });
  } catch {
    // not JSON: say the status instead
  }
  return new SourceError(`HTTP ${response.status}`, { code: "broken", status: response.status });
}

/**
 * "3,5-9" for [3, 5, 6, 7, 8, 9].
 * @param {number[]} numbers
 * @returns {string}
 */
export function ranges(numbers) {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  const parts = [];
  for (let at = 0; at < sorted.length; ) {
    let end = at;
    while (end + 1 < sorted.length && sorted[end + 1] === sorted[end] + 1) end++;
    parts.push(end > at ? `${sorted[at]}-${sorted[end]}` : `${sorted[at]}`);
    at = end + 1;
  }
  return parts.join(",");
}

/**
 * The address of a trace within the API.
 * @param {string} trace
 * @param {string} what
 * @returns {string}
 */
function path(trace, what) {
  return `traces/${encodeURIComponent(trace)}/${what}`;
}

/**
 * A batcher whose groups are the JSON of [trace, fixed query] and whose items are positions.
 * @template T
 * @param {Api} api
 * @param {HttpOptions} options
 * @param {string} what
 * @param {{decode: (record: ArrayBuffer, trace: string) => T, most?: number}} how   most: requests under way at once
 * @returns {Batcher<T>}
 */
function batcher(api, options, what, { decode, most }) {
  return new Batcher({
    limit: TILES_A_REQUEST,
    most,
    kind: (group) => {
      const [trace, { measure, level }] = /** @type {[string, Query]} */ (JSON.parse(group));
      return `${trace} ${measure} ${level}`;
    },
    schedule: options.schedule,
    send: async (group, items, signal, deliver) => {
      const [trace, query] = /** @type {[string, Query]} */ (JSON.parse(group));
      let place = 0;
      await api.records(path(trace, what), { ...query, at: items.join(",") }, signal, (record) => {
        if (place >= items.length) throw new SourceError("more answers than questions", { code: "broken" });
        deliver(place, decode(record, trace));
        place += 1;
      });
    },
  });
}

/**
 * Keeps the promise of a JSON answer; one that failed is asked again.
 * @param {Api} api
 * @returns {(path: string, query?: Query) => Promise<any>}
 */
function remembered(api) {
  /** @type {Map<string, Promise<any>>} */
  const known = new Map();
  return (where, query) => {
    const key = api.url(where, query);
    const found = known.get(key) ?? api.json(where, query);
    known.set(key, found);
    found.catch(() => known.delete(key));
    return found;
  };
}

/**
 * @param {HttpOptions} options
 * @returns {DataSource}
 */
export function createHttpSource(options) {
  const api = new Api(options);
  const once = remembered(api);
  /** @type {LruBytes<any>} */
  const cache = new LruBytes(options.cacheBytes ?? CACHE_BYTES);
  /** @type {Map<string, string[]>} names of a trace's tracks, to decode them */
  const names = new Map();
  const tiles = batcher(api, options, "tiles", { decode: decodeTile, most: TILE_REQUESTS });
  const tracks = batcher(api, options, "tracks", { decode: (record, trace) => decodeTrack(record, names.get(trace) ?? []) });

  /** @type {DataSource["info"]} */
  const info = async (trace) => {
    const known = await once(path(trace, "info"));
    names.set(trace, known.tracks);
    return known;
  };

  /**
   * @template T
   * @param {Batcher<T>} from
   * @param {string} group
   * @param {string} item
   * @param {AbortSignal} [signal]
   * @returns {Promise<T>}
   */
  const cached = async (from, group, item, signal) => {
    const key = `${group} ${item}`;
    const known = cache.get(key);
    if (known) return known;
    const value = await from.ask(group, item, signal);
    cache.set(key, value, bytesOf(/** @type {any} */ (value)));
    return value;
  };

  return {
    can: { capture: true, generate: true, export: true },
    traces: async () => (await api.json("traces")).traces,
    models: async () => {
      const answer = await api.json("models");
      return Array.isArray(answer) ? answer : answer.models;
    },
    info,
    tokens: (trace) => once(path(trace, "tokens")),
    heads: (trace) => once(path(trace, "heads")),
    tiles: ({ trace, layer, head, measure, level, at }, signal) => {
      const group = JSON.stringify([trace, { layer, head, measure, level }]);
      return Promise.all(at.map(([x, y]) => cached(tiles, group, `${x}.${y}`, signal)));
    },
    tracks: async ({ trace, layer, head, names: wanted, level, at }, signal) => {
      await info(trace);
      const asked = wanted.flatMap((name) => {
        const group = JSON.stringify([trace, { layer, head, names: name, level }]);
        return at.map((x) => cached(tracks, group, String(x), signal));
      });
      return Promise.all(asked);
    },
    ...lines(api),
    cell: ({ trace, ...query }) => api.json(path(trace, "cell"), query),
    similar: async ({ trace, ...query }) => once(path(trace, "similar"), query),
    expected: async ({ trace, ...query }) => {
      const { cell, density } = await once(path(trace, "expected"), query);
      return { cell, density: Float32Array.from(density, (/** @type {number | null} */ mean) => mean ?? NaN) };
    },
    table: async ({ trace, rows, keys, ...query }) => {
      const window = { rows: `${rows[0]}-${rows[1]}`, keys: `${keys[0]}-${keys[1]}` };
      return (await api.get(path(trace, "table"), { ...query, ...window })).blob();
    },
    capture: captureOver(api),
  };
}

/**
 * Rows, columns and flows: one record each.
 * @param {Api} api
 * @returns {Pick<DataSource, "row" | "column" | "flow">}
 */
function lines(api) {
  return {
    row: async ({ trace, layer, head, queries, how }, signal) =>
      decodeRow(await api.bytes(path(trace, "row"), { layer, head, queries: ranges(queries), how }, signal)),
    column: async ({ trace, layer, head, keys, how }, signal) =>
      decodeColumn(await api.bytes(path(trace, "column"), { layer, head, keys: ranges(keys), how }, signal)),
    flow: async ({ trace, queries, how }, signal) =>
      decodeFlow(await api.bytes(path(trace, "flow"), { queries: ranges(queries), how }, signal)),
  };
}
