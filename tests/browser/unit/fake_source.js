// @ts-check
/**
 * A DataSource that computes a small, exact causal attention in the page; for tests and design.
 *
 * The idea: every answer is the definition, in plain loops over the whole T x T map in float64; tests
 * compare the clever ways with it. Heads have characters, as real ones do.
 *
 * Formula
 *     p_ij = exp(s_ij) / sum over seen j of exp(s_ij),   s_ij = q_i . k_j / sqrt(d) + character
 *
 * Not here: speed; a few hundred tokens are meant.
 */

import { SourceError, abortError } from "../../../src/attnscope/serve/static/js/source/errors.js";
import { TILE } from "../../../src/attnscope/serve/static/js/source/pyramid.js";

/** @typedef {import("../../../src/attnscope/serve/static/js/types.js").DataSource} DataSource */
/** @typedef {import("../../../src/attnscope/serve/static/js/types.js").LayerInfo} LayerInfo */
/** @typedef {import("../../../src/attnscope/serve/static/js/types.js").Measure} Measure */
/** @typedef {import("../../../src/attnscope/serve/static/js/types.js").Tile} Tile */
/** @typedef {{weights: Float64Array, scores: Float64Array, norms: Float64Array}} HeadMap */

const WORDS = ["The", " cat", " sat", " on", " the", " mat", ",", " 国", " and", " 👩🏽", " purred", ".", "\n\n"];
const WIDTH = 8;
const SINK = 1;
export const FAKE_TRACKS = ["received", "entropy", "sink_mass", "max_weight"];

/**
 * A generator of numbers in (0, 1), the same for the same seed.
 * @param {number} seed
 * @returns {() => number}
 */
export function randomOf(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (((mixed ^ (mixed >>> 14)) >>> 0) + 0.5) / 4294967296;
  };
}

/**
 * What a head adds to the score of key j for query i.
 * @param {number} head
 * @param {number} i
 * @param {number} j
 * @returns {number}
 */
function character(head, i, j) {
  if (head % 4 === 0) return j === 0 ? 5 : 0;
  if (head % 4 === 1) return j === i - 1 ? 6 : 0;
  if (head % 4 === 2) return i !== j && (i - j) % WORDS.length === WORDS.length - 1 ? 4 : 0;
  return -0.15 * (i - j);
}

/** The maps, computed when first asked for. */
export class FakeMaps {
  /**
   * @param {{tokens: number, seed: number, windows: (number | null)[]}} options
   */
  constructor({ tokens, seed, windows }) {
    this.tokens = tokens;
    this.seed = seed;
    this.windows = windows;
    /** @type {Map<string, HeadMap>} */
    this.known = new Map();
  }

  /**
   * Whether query i sees key j.
   * @param {number} layer
   * @param {number} i
   * @param {number} j
   * @returns {boolean}
   */
  sees(layer, i, j) {
    return j <= i && i - j < (this.windows[layer] ?? Infinity);
  }

  /**
   * @param {number} layer
   * @param {number} head
   * @returns {HeadMap}
   */
  get(layer, head) {
    const key = `${layer}.${head}`;
    const found = this.known.get(key) ?? this.compute(layer, head);
    this.known.set(key, found);
    return found;
  }

  /**
   * @param {number} layer
   * @param {number} head
   * @returns {HeadMap}
   */
  compute(layer, head) {
    const n = this.tokens;
    const random = randomOf(this.seed * 1009 + layer * 131 + head);
    const draw = () => Float64Array.from({ length: n * WIDTH }, () => 3.4 * (random() - 0.5));
    const [q, k] = [draw(), draw()];
    const weights = new Float64Array(n * n).fill(NaN);
    const scores = new Float64Array(n * n).fill(NaN);
    for (let i = 0; i < n; i++) {
      let sum = 0;
      for (let j = 0; j <= i; j++) {
        if (!this.sees(layer, i, j)) continue;
        let dot = 0;
        for (let d = 0; d < WIDTH; d++) dot += q[i * WIDTH + d] * k[j * WIDTH + d];
        scores[i * n + j] = dot / Math.sqrt(WIDTH) + character(head + layer, i, j);
        weights[i * n + j] = Math.exp(scores[i * n + j]);
        sum += weights[i * n + j];
      }
      for (let j = 0; j <= i; j++) weights[i * n + j] /= sum;
    }
    return { weights, scores, norms: Float64Array.from({ length: n }, (_, j) => (j === 0 ? 0.05 : 0.5 + random())) };
  }

  /**
   * One pair by measure; NaN where masked.
   * @param {{layer: number, head: number}} of
   * @param {Measure} measure
   * @param {number} i
   * @param {number} j
   * @returns {number}
   */
  value({ layer, head }, measure, i, j) {
    if (!this.sees(layer, i, j)) return NaN;
    if (measure === "uniform") return 1 / Math.min(i + 1, this.windows[layer] ?? Infinity);
    const { weights, norms } = this.get(layer, head);
    if (measure.endsWith("no-sink") && j < SINK) return NaN;
    const weight = weights[i * this.tokens + j];
    return measure.startsWith("arrived") ? weight * norms[j] : weight;
  }

  /**
   * One cell of the pyramid from its definition.
   * @param {{layer: number, head: number, measure: Measure}} want
   * @param {number} size    tokens of a cell
   * @param {number} row     cell
   * @param {number} column
   * @returns {{mean: number, max: number, argmax: number}}
   */
  cell(want, size, row, column) {
    const n = this.tokens;
    const [i0, j0] = [row * size, column * size];
    let [sum, max, argmax] = [0, -1, -1];
    for (let i = i0; i < Math.min(i0 + size, n); i++) {
      for (let j = j0; j < Math.min(j0 + size, n); j++) {
        const value = this.value(want, want.measure, i, j);
        if (Number.isNaN(value)) continue;
        sum += value;
        if (value > max) [max, argmax] = [value, (i - i0) * size + (j - j0)];
      }
    }
    if (argmax < 0) return { mean: NaN, max: NaN, argmax };
    return { mean: sum / (Math.min(i0 + size, n) - i0), max, argmax };
  }

  /**
   * @param {{layer: number, head: number, measure: Measure, level: number}} want
   * @param {number} x
   * @param {number} y
   * @returns {Tile}
   */
  tile(want, x, y) {
    const size = 2 ** want.level;
    const cells = Math.ceil(this.tokens / size);
    const width = Math.min(TILE, cells - x * TILE);
    const height = Math.min(TILE, cells - y * TILE);
    if (width <= 0 || height <= 0) throw new SourceError(`x, y: ${x}, ${y} is outside`, { status: 400 });
    const mean = new Float32Array(width * height);
    const max = new Float32Array(width * height);
    const argmax = new Int32Array(width * height);
    for (let row = 0; row < height; row++) {
      for (let column = 0; column < width; column++) {
        const at = row * width + column;
        const found = this.cell(want, size, y * TILE + row, x * TILE + column);
        [mean[at], max[at], argmax[at]] = [found.mean, found.max, found.argmax];
      }
    }
    const place = { level: want.level, x, y, width, height };
    if (argmax.every((at) => at < 0)) return { state: "masked", ...place, mean: null, max: null, argmax: null };
    return { state: "values", ...place, mean, max: want.level ? max : mean, argmax: want.level ? argmax : null };
  }

  /**
   * @param {number} layer
   * @param {number} head
   * @param {string} name
   * @returns {Float64Array}
   */
  track(layer, head, name) {
    const n = this.tokens;
    const track = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      for (let j = 0; j <= i; j++) {
        const p = this.value({ layer, head }, "weight", i, j);
        if (Number.isNaN(p)) continue;
        if (name === "received") track[j] += p;
        else if (name === "entropy") track[i] -= p > 0 ? p * Math.log(p) : 0;
        else if (name === "sink_mass") track[i] += j < SINK ? p : 0;
        else track[i] = Math.max(track[i], p);
      }
    }
    return track;
  }
}

/**
 * @param {number} n
 * @returns {import("../../../src/attnscope/serve/static/js/types.js").TokenTable}
 */
function fakeTokens(n) {
  const encoder = new TextEncoder();
  const pieces = Array.from({ length: n }, (_, i) => WORDS[i % WORDS.length]);
  const [start, end] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  let at = 0;
  for (const piece of pieces) {
    start.push(at);
    at += encoder.encode(piece).length;
    end.push(at);
  }
  return { text: pieces.join(""), ids: pieces.map((_, i) => i % WORDS.length), start, end, labels: pieces };
}

/**
 * @param {FakeMaps} maps
 * @param {number} heads
 * @returns {import("../../../src/attnscope/serve/static/js/types.js").TraceInfo}
 */
function fakeInfo(maps, heads) {
  const levels = 1 + Math.max(0, Math.ceil(Math.log2(maps.tokens / TILE)));
  const shape = { query_heads: heads, kv_heads: Math.max(1, heads >> 1), queries: maps.tokens, keys: maps.tokens };
  const flags = { levels, causal: true, cross: false, arrived: true, sink_logit: false, reason: null };
  /** @type {LayerInfo[]} */
  const layers = maps.windows.map((window, index) => ({
    ...{ index, kind: window ? "sliding" : "full", window },
    ...shape,
    ...flags,
  }));
  const none = { index: layers.length, kind: "none", reason: "a recurrent layer has no map", window: null };
  layers.push({ ...none, ...shape, ...flags, levels: 0, arrived: false });
  return {
    schema: "attnscope.tiles/1",
    model: { name: "fake", architecture: "Fake", layers: layers.length, query_heads: heads, kv_heads: shape.kv_heads, head_width: WIDTH },
    tile: TILE,
    measures: ["weight", "arrived", "weight-no-sink", "arrived-no-sink", "uniform"],
    tracks: FAKE_TRACKS,
    statistics: ["entropy", "sink_mass", "max_weight"],
    prompt_tokens: Math.floor(maps.tokens * 0.8),
    sink_keys: SINK,
    layers,
  };
}

/**
 * @param {{tokens?: number, heads?: number, windows?: (number | null)[], seed?: number, delay?: number, trace?: string}} [options]
 *     `delay`: milliseconds before a tile comes, for seeing what stands in
 * @returns {DataSource & {maps: FakeMaps, asked: {level: number, at: [number, number][]}[]}}
 */
export function createFakeSource({ tokens = 300, heads = 4, windows = [null, 64], seed = 1, delay = 0, trace = "fake" } = {}) {
  const maps = new FakeMaps({ tokens, seed, windows });
  const info = fakeInfo(maps, heads);
  /** @type {{level: number, at: [number, number][]}[]} */
  const asked = [];
  const wait = (/** @type {AbortSignal | undefined} */ signal) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, delay);
      signal?.addEventListener("abort", () => (clearTimeout(timer), reject(abortError())));
    });
  return {
    maps,
    asked,
    can: { capture: false, generate: false, export: true },
    traces: async () => [{ id: trace, name: "fake", model: "fake", tokens }],
    models: async () => [],
    info: async () => info,
    tokens: async () => fakeTokens(tokens),
    heads: async () => fakeHeads(maps, heads),
    tiles: async (want, signal) => {
      asked.push({ level: want.level, at: want.at });
      await wait(signal);
      return want.at.map(([x, y]) => maps.tile(want, x, y));
    },
    ...fakeLines(maps),
    similar: async ({ head, count }) =>
      Array.from({ length: Math.min(count, heads) }, (_, i) => ({ layer: 0, head: i, similarity: i === head ? 1 : 0.5 })),
    expected: async ({ layer, head }) => ({ cell: 1, density: expectedOf(maps, layer, head) }),
    table: async ({ layer, head, measure, rows, keys }) => {
      const lines = [`query,key,${measure.replace(/-/g, "_")}`];
      for (let i = rows[0]; i <= rows[1]; i++) {
        for (let j = keys[0]; j <= keys[1]; j++) {
          const value = maps.value({ layer, head }, measure, i, j);
          if (!Number.isNaN(value)) lines.push(`${i},${j},${value}`);
        }
      }
      return new Blob([lines.join("\n")], { type: "text/csv" });
    },
    capture: null,
  };
}

/**
 * @param {FakeMaps} maps
 * @param {number} heads
 * @returns {import("../../../src/attnscope/serve/static/js/types.js").HeadRow[]}
 */
function fakeHeads(maps, heads) {
  const kinds = ["sink", "previous-token", "induction", "local"];
  const mean = (/** @type {Float64Array} */ all) => all.reduce((sum, x) => sum + x, 0) / all.length;
  return maps.windows.flatMap((_, layer) =>
    Array.from({ length: heads }, (_, head) => ({
      ...{ layer, head, kind: kinds[(head + layer) % 4], score: 1 },
      statistics: Object.fromEntries(FAKE_TRACKS.slice(1).map((name) => [name, mean(maps.track(layer, head, name))])),
    })),
  );
}

/**
 * Mean weight per key in sight at each distance.
 * @param {FakeMaps} maps
 * @param {number} layer
 * @param {number} head
 * @returns {Float32Array}
 */
function expectedOf(maps, layer, head) {
  const n = maps.tokens;
  const density = new Float32Array(n);
  for (let distance = 0; distance < n; distance++) {
    let [sum, count] = [0, 0];
    for (let i = distance; i < n; i++) {
      const p = maps.value({ layer, head }, "weight", i, i - distance);
      if (!Number.isNaN(p)) [sum, count] = [sum + p, count + 1];
    }
    density[distance] = count ? sum / count : 0;
  }
  return density;
}

/**
 * @param {FakeMaps} maps
 * @returns {Pick<DataSource, "tracks" | "row" | "column" | "flow" | "cell">}
 */
function fakeLines(maps) {
  const n = maps.tokens;
  const zero = (/** @type {number} */ x) => (Number.isNaN(x) ? 0 : x);
  /** @param {{layer: number, head: number}} of @param {Measure} measure @param {number[]} queries @param {string} how */
  const join = (of, measure, queries, how) =>
    Float32Array.from({ length: n }, (_, j) => {
      const sum = queries.reduce((all, i) => all + zero(maps.value(of, measure, i, j)), 0);
      return how === "mean" ? sum / queries.length : sum;
    });
  return {
    tracks: async ({ layer, head, names, level, at }) =>
      names.flatMap((name) => {
        const whole = maps.track(layer, head, name);
        return at.map((x) => ({ name, level, x, ...pooled(whole, level, x) }));
      }),
    row: async ({ queries, how, ...of }) => ({
      weights: join(of, "weight", queries, how),
      arrived: join(of, "arrived", queries, how),
      sink: 0,
    }),
    column: async ({ keys, how, ...of }) =>
      Float32Array.from({ length: n }, (_, i) => {
        const sum = keys.reduce((all, j) => all + zero(maps.value(of, "weight", i, j)), 0);
        return how === "mean" ? sum / keys.length : sum;
      }),
    flow: async ({ queries, how }) => {
      const layers = maps.windows.map((_, layer) => layer);
      const rows = layers.map((layer) => join({ layer, head: 0 }, "weight", queries, how));
      return { layers, keys: n, weights: Float32Array.from(rows.flatMap((row) => [...row])), arrived: null };
    },
    cell: async ({ query, key, ...of }) => {
      const weight = maps.value(of, "weight", query, key);
      if (Number.isNaN(weight)) return { weight: 0, arrived: 0, score: null, visible: false };
      const { norms, scores } = maps.get(of.layer, of.head);
      return { weight, arrived: weight * norms[key], score: scores[query * n + key], visible: true };
    },
  };
}

/**
 * @param {Float64Array} whole
 * @param {number} level
 * @param {number} x
 * @returns {{mean: Float32Array, max: Float32Array}}
 */
function pooled(whole, level, x) {
  const size = 2 ** level;
  const width = Math.min(TILE, Math.ceil(whole.length / size) - x * TILE);
  const part = (/** @type {number} */ at) => whole.subarray((x * TILE + at) * size, (x * TILE + at + 1) * size);
  return {
    mean: Float32Array.from({ length: width }, (_, at) => part(at).reduce((sum, v) => sum + v, 0) / part(at).length),
    max: Float32Array.from({ length: width }, (_, at) => part(at).reduce((most, v) => Math.max(most, v), -Infinity)),
  };
}
export const fakeSource = createFakeSource;
