// @ts-check
/**
 * The DataSource of a stand-alone page: every answer is computed from what the file holds.
 *
 * The file's form and the meaning of its arrays are in docs/export.md.
 *
 * Not here: the weights (embedded_head.js), tiles (embedded_tiles.js), unpacking (embedded_arrays.js).
 */

import { EmbeddedArrays } from "./embedded_arrays.js";
import { EmbeddedHead } from "./embedded_head.js";
import { Breather, EmbeddedTiles } from "./embedded_tiles.js";
import { SourceError } from "./errors.js";
import { TILE } from "./pyramid.js";

/** @typedef {import("../types.js").DataSource} DataSource */
/** @typedef {import("../types.js").HeadRef} HeadRef */
/**
 * @typedef {object} Page
 * @property {string} schema
 * @property {import("../types.js").TraceEntry} entry
 * @property {import("../types.js").TraceInfo} info
 * @property {import("../types.js").TokenTable} tokens
 * @property {import("../types.js").HeadRow[]} heads
 * @property {Partial<import("../types.js").ViewState>} view
 * @property {number} bytes
 * @property {{index: number, scale: number, softcap: number | null, heads: number[]}[]} layers
 * @property {import("./embedded_arrays.js").Entry[]} arrays
 */

const SCHEMA = "attnscope.page/1";
const SAMPLED = 64;
const MOST_CELLS = 4_000_000;

/**
 * @param {Page} page
 * @param {ArrayBuffer} data
 * @returns {DataSource}
 */
export function createEmbeddedSource(page, data) {
  if (page.schema !== SCHEMA) throw new SourceError(`schema: expected ${SCHEMA}, got ${page.schema}`, { code: "broken" });
  const held = new Embedded(page, data);
  return {
    can: { capture: false, generate: false, export: true },
    traces: async () => [page.entry],
    models: async () => [],
    info: async () => page.info,
    tokens: async () => page.tokens,
    heads: async () => page.heads,
    tiles: (want, signal) => held.tiles(want, signal),
    tracks: async (want) => held.tracks(want),
    row: async (want, signal) => held.row(want, signal),
    column: async (want, signal) => held.column(want, signal),
    flow: (want, signal) => held.flow(want, signal),
    cell: async (want) => held.cell(want),
    similar: (want) => held.similar(want),
    expected: (want) => held.expected(want),
    table: (want) => held.table(want),
    capture: null,
  };
}

/** What a page holds, head by head. */
class Embedded {
  /**
   * @param {Page} page
   * @param {ArrayBuffer} data
   */
  constructor(page, data) {
    this.page = page;
    this.arrays = new EmbeddedArrays(page.arrays, data);
    /** @type {Map<string, {head: EmbeddedHead, tiles: EmbeddedTiles}>} */
    this.known = new Map();
    this.breather = new Breather();
  }

  /** @param {{layer: number, head: number}} of */
  of({ layer, head }) {
    const key = `${layer}.${head}`;
    const found = this.known.get(key) ?? this.open(layer, head);
    this.known.set(key, found);
    return found;
  }

  /** @param {number} layer @param {number} head */
  open(layer, head) {
    const about = this.page.layers.find(({ index }) => index === layer);
    if (!about?.heads.includes(head)) {
      const there = this.page.layers.map(({ index, heads }) => `${index}: ${heads.join(", ")}`).join("; ");
      throw new SourceError(`layer ${layer}, head ${head} is not in this page; there are ${there}`);
    }
    const array = (/** @type {string} */ name) => this.arrays.get(name, layer, head);
    const ofLayer = (/** @type {string} */ name) => this.arrays.get(name, layer, null);
    const width = this.arrays.entry("q", layer, head)?.shape[1] ?? 1;
    const made = new EmbeddedHead({
      ...{ q: array("q"), k: this.arrays.get("k", layer, this.keysOf(layer, head)), logsumexp: array("logsumexp") },
      ...{ norms: array("value_norms"), sink: array("sink")?.[0] ?? -Infinity },
      ...{ first: ofLayer("first"), end: ofLayer("end"), origin: ofLayer("origin") },
      ...{ mask: ofLayer("mask"), bias: array("bias"), biasByOffset: array("bias_by_offset") },
    }, { scale: about.scale, softcap: about.softcap, width, sinkKeys: this.page.info.sink_keys });
    return { head: made, tiles: new EmbeddedTiles(made, this.stored(layer, head)) };
  }

  /**
   * The head whose keys this one reads: the first of its group that is here.
   * @param {number} layer
   * @param {number} head
   * @returns {number}
   */
  keysOf(layer, head) {
    const info = this.layer(layer);
    const group = (/** @type {number} */ one) => Math.floor((one * info.kv_heads) / info.query_heads);
    const heads = this.page.layers.find(({ index }) => index === layer)?.heads ?? [];
    return heads.find((one) => group(one) === group(head)) ?? head;
  }

  /** @param {number} layer */
  layer(layer) {
    const found = this.page.info.layers.find(({ index }) => index === layer);
    if (!found) throw new SourceError(`layer ${layer} is not in this page`);
    return found;
  }

  /** @param {number} layer @param {number} head @returns {import("./embedded_tiles.js").Stored | null} */
  stored(layer, head) {
    const entry = this.arrays.entry("map_mean", layer, head);
    const cell = this.arrays.get("map_cell", layer, head);
    if (!entry || !cell) return null;
    const plane = (/** @type {string} */ name) => this.arrays.get(name, layer, head);
    return { level: Math.round(Math.log2(cell[0])), mean: plane("map_mean"), max: plane("map_max"), argmax: plane("map_argmax"), columns: entry.shape[1] };
  }

  /** @type {DataSource["tiles"]} */
  async tiles({ layer, head, measure, level, at }, signal) {
    const { tiles } = this.of({ layer, head });
    const { levels } = this.layer(layer);
    if (level < 0 || level >= levels) throw new SourceError(`level: expected 0 to ${levels - 1}, got ${level}`);
    const found = [];
    for (const place of at) found.push(await tiles.tile(measure, level, place, signal));
    return found;
  }

  /** @param {HeadRef & {names: string[], level: number, at: number[]}} want */
  tracks({ layer, head, names, level, at }) {
    return names.flatMap((name) => {
      const whole = this.arrays.get(`track:${name}`, layer, head) ?? new Float32Array(0);
      return at.map((x) => ({ name, level, x, ...pooled(whole, level, x) }));
    });
  }

  /** @param {HeadRef & {queries: number[], how: "mean" | "sum"}} want @param {AbortSignal} [signal] */
  async row({ layer, head, queries, how }, signal) {
    const { head: one } = this.of({ layer, head });
    const { total, sink } = await this.summed(one, queries, signal);
    const share = how === "mean" ? 1 / queries.length : 1;
    const weights = Float32Array.from(total, (value) => value * share);
    const { norms } = one.arrays;
    return { weights, arrived: norms ? Float32Array.from(total, (value, key) => value * share * norms[key]) : null, sink: sink * share };
  }

  /**
   * The sum of some rows, in float64.
   * @param {EmbeddedHead} one
   * @param {number[]} queries
   * @param {AbortSignal} [signal]
   */
  async summed(one, queries, signal) {
    const total = new Float64Array(one.keys);
    const out = new Float64Array(one.keys);
    let sink = 0;
    for (const query of queries) {
      one.row(query, 0, one.keys, { measure: "weight", out });
      for (let key = 0; key < one.keys; key++) total[key] += out[key] || 0;
      sink += one.sinkShare(query);
      await this.breather.rest(signal);
    }
    return { total, sink };
  }

  /** @param {HeadRef & {keys: number[], how: "mean" | "sum"}} want @param {AbortSignal} [signal] */
  async column({ layer, head, keys, how }, signal) {
    const { head: one } = this.of({ layer, head });
    const column = new Float32Array(one.queries);
    for (let query = 0; query < one.queries; query++) {
      let sum = 0;
      for (const key of keys) sum += one.weight(query, key);
      column[query] = how === "mean" ? sum / keys.length : sum;
      if (query % TILE === 0) await this.breather.rest(signal);
    }
    return column;
  }

  /** @type {DataSource["flow"]} */
  async flow({ queries, how }, signal) {
    const first = this.page.layers.map(({ index }) => this.layer(index)).find(({ cross }) => !cross);
    if (!first) throw new SourceError("flow: this page has no layer with a map of its own text");
    const alike = this.page.layers.filter(({ index, heads }) =>
      heads.length && !this.layer(index).cross && this.layer(index).keys === first.keys && this.layer(index).queries === first.queries);
    const [weights, arrived] = [new Float32Array(alike.length * first.keys), new Float32Array(alike.length * first.keys).fill(NaN)];
    let known = false;
    for (const [at, { index, heads }] of alike.entries()) {
      const both = [new Float64Array(first.keys), new Float64Array(first.keys)];
      for (const head of heads) {
        const { head: one } = this.of({ layer: index, head });
        const { total } = await this.summed(one, queries, signal);
        const { norms } = one.arrays;
        for (let key = 0; key < first.keys; key++) {
          both[0][key] += total[key];
          both[1][key] += norms ? total[key] * norms[key] : NaN;
        }
      }
      const share = how === "mean" ? 1 / queries.length : 1;
      for (let key = 0; key < first.keys; key++) {
        weights[at * first.keys + key] = (both[0][key] * share) / heads.length;
        arrived[at * first.keys + key] = both[1][key] * share;
      }
      known ||= !Number.isNaN(both[1][0]);
    }
    return { layers: alike.map(({ index }) => index), keys: first.keys, weights, arrived: known ? arrived : null };
  }

  /** @param {HeadRef & {query: number, key: number}} want */
  cell({ layer, head, query, key }) {
    const { head: one } = this.of({ layer, head });
    const { norms } = one.arrays;
    if (!one.sees(query, key)) return { weight: 0, arrived: norms ? 0 : null, score: null, visible: false };
    const weight = one.weight(query, key);
    return { weight, arrived: norms ? weight * norms[key] : null, score: one.score(query, key), visible: true };
  }

  /** @type {DataSource["similar"]} */
  async similar({ layer, head, count }) {
    const { head: one } = this.of({ layer, head });
    const wanted = Math.min(SAMPLED, one.queries);
    const rows = Array.from({ length: wanted }, (_, at) => Math.floor(((at + 1) * one.queries) / wanted) - 1);
    const found = [];
    for (const { index, heads } of this.page.layers) {
      const [mine, other] = [this.layer(layer), this.layer(index)];
      if (mine.queries !== other.queries || mine.keys !== other.keys || mine.cross !== other.cross) continue;
      for (const number of heads) {
        if (index === layer && number === head) continue;
        const similarity = await this.overlap(one, this.of({ layer: index, head: number }).head, rows);
        found.push({ layer: index, head: number, similarity });
      }
    }
    found.sort((a, b) => b.similarity - a.similarity || a.layer - b.layer || a.head - b.head);
    return found.slice(0, count);
  }

  /**
   * The mean over rows of what two heads put on the same keys, and on their sinks.
   * @param {EmbeddedHead} one @param {EmbeddedHead} other @param {number[]} rows
   */
  async overlap(one, other, rows) {
    const [a, b] = [new Float64Array(one.keys), new Float64Array(one.keys)];
    let [sum, count] = [0, 0];
    for (const query of rows) {
      if (!other.sight(query)) continue;
      one.row(query, 0, one.keys, { measure: "weight", out: a });
      other.row(query, 0, one.keys, { measure: "weight", out: b });
      for (let key = 0; key < one.keys; key++) sum += Math.min(a[key] || 0, b[key] || 0);
      sum += Math.min(one.sinkShare(query), other.sinkShare(query));
      count += 1;
      await this.breather.rest();
    }
    return count ? sum / count : 0;
  }

  /** @type {DataSource["expected"]} */
  async expected({ layer, head }) {
    if (this.layer(layer).cross) throw new SourceError(`layer: ${layer} is cross-attention: queries and keys have no distance`);
    const { head: one } = this.of({ layer, head });
    const length = Math.max(one.queries, one.keys);
    const cell = 2 ** Math.max(0, Math.ceil(Math.log2(length / 1024)));
    const bins = Math.ceil(length / cell);
    const [sums, pairs] = [new Float64Array(bins), new Float64Array(bins)];
    const out = new Float64Array(one.keys);
    for (let query = 0; query < one.queries; query++) {
      one.row(query, 0, one.keys, { measure: "weight", out });
      for (let key = 0; key < one.keys; key++) {
        if (Number.isNaN(out[key])) continue;
        const bin = Math.floor(Math.abs(query + one.keys - one.queries - key) / cell);
        sums[bin] += out[key];
        pairs[bin] += 1;
      }
      await this.breather.rest();
    }
    return { cell, density: Float32Array.from(sums, (sum, bin) => sum / pairs[bin]) };
  }

  /** @type {DataSource["table"]} */
  async table({ layer, head, measure, rows, keys, format }) {
    if (format !== "csv") throw new SourceError("format: a stand-alone page writes csv; parquet needs the server");
    const count = keys[1] - keys[0] + 1;
    if (count * (rows[1] - rows[0] + 1) > MOST_CELLS) throw new SourceError(`rows, keys: expected at most ${MOST_CELLS} cells`);
    const { head: one } = this.of({ layer, head });
    const out = new Float64Array(count);
    const lines = [`query,key,${measure.replace(/-/g, "_")}\n`];
    for (let query = rows[0]; query <= rows[1]; query++) {
      one.row(query, keys[0], keys[1] + 1, { measure, out });
      const line = [];
      for (let at = 0; at < count; at++) if (!Number.isNaN(out[at])) line.push(`${query},${keys[0] + at},${out[at]}\n`);
      lines.push(line.join(""));
      await this.breather.rest();
    }
    return new Blob(lines, { type: "text/csv" });
  }
}

/**
 * @param {Float32Array} whole
 * @param {number} level
 * @param {number} x
 */
function pooled(whole, level, x) {
  const size = 2 ** level;
  const width = Math.max(0, Math.min(TILE, Math.ceil(whole.length / size) - x * TILE));
  const [mean, max] = [new Float32Array(width), new Float32Array(width)];
  for (let at = 0; at < width; at++) {
    const part = whole.subarray((x * TILE + at) * size, (x * TILE + at + 1) * size);
    mean[at] = part.reduce((sum, value) => sum + value, 0) / part.length;
    max[at] = part.reduce((most, value) => Math.max(most, value), -Infinity);
  }
  return { mean, max };
}
