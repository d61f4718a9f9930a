// @ts-check
/**
 * A data source made up by arithmetic: any number of layers, heads and tokens, the same each time.
 *
 * It answers as the contract in types.js says, so that screens can be tested at sizes that no test
 * has the time to capture. Weights are exact rows of a softmax over made-up scores.
 *
 * Not here: tiles of a fine level (the map has its own fake).
 */

/**
 * @typedef {import("../../../src/attnscope/serve/static/js/types.js").DataSource} DataSource
 * @typedef {import("../../../src/attnscope/serve/static/js/types.js").HeadRow} HeadRow
 * @typedef {import("../../../src/attnscope/serve/static/js/types.js").TraceInfo} TraceInfo
 * @typedef {import("../../../src/attnscope/serve/static/js/types.js").TokenTable} TokenTable
 */

const KINDS = ["sink", "previous-token", "induction", "local", "uniform", "mixed"];
const SENTENCES = [
  "Xiao Ming gave the apple to Xiao Wang. ",
  "小明把苹果给了小王，小王很高兴。",
  "A family 👩🏽‍🔬 and a naïve café, né e\u0301. ",
  "\n\n# Who has the apple now?\n",
  "<script>window.broken = 1</script> ",
];

/**
 * A number in [0, 1) from some numbers: the same each time.
 * @param {...number} seeds
 */
export function noise(...seeds) {
  let x = 2166136261;
  for (const seed of seeds) {
    x = Math.imul(x ^ (seed + 0x9e3779b9), 0x85ebca6b);
    x ^= x >>> 13;
    x = Math.imul(x, 0xc2b2ae35);
    x ^= x >>> 16;
  }
  return (x >>> 0) / 2 ** 32;
}

/**
 * So many tokens of text, some characters in several pieces.
 * @param {number} count
 * @returns {TokenTable}
 */
export function madeTokens(count) {
  /** @type {TokenTable} */
  const table = { text: "", ids: [], start: [], end: [], labels: [] };
  const encoder = new TextEncoder();
  let byte = 0;
  for (let part = 0; table.ids.length < count; part++) {
    const words = SENTENCES[part % SENTENCES.length].match(/\s?[A-Za-z<>/.=]+|\s|\p{Extended_Pictographic}[\p{Emoji_Modifier}\u200d\p{Extended_Pictographic}]*|./gsu) ?? [];
    for (const word of words) {
      const bytes = encoder.encode(word).length;
      const pieces = bytes > word.length ? Math.min(3, bytes - 1) : 1;
      if (table.ids.length + pieces > count) {
        if (table.ids.length < count) pushToken(table, ".", byte++);
        return table;
      }
      for (let piece = 0; piece < pieces; piece++) {
        table.ids.push(table.ids.length % 997);
        table.start.push(byte);
        table.end.push(byte + bytes);
        table.labels.push(word);
      }
      table.text += word;
      byte += bytes;
    }
  }
  return table;
}

/** @param {TokenTable} table @param {string} word @param {number} byte */
function pushToken(table, word, byte) {
  table.ids.push(1);
  table.start.push(byte);
  table.end.push(byte + word.length);
  table.labels.push(word);
  table.text += word;
}

/**
 * @typedef {object} Size
 * @property {number} [layers]
 * @property {number} [heads]
 * @property {number} [kv]
 * @property {number} [tokens]
 * @property {number} [prompt]     tokens before the generated ones
 * @property {number[]} [blind]    layers without a map
 * @property {boolean} [arrived]
 * @property {boolean} [sink]      a learned sink logit takes a share of every row
 * @property {string} [name]       of the trace and of its model
 * @property {"done" | "failed" | "slow"} [capture]   how a capture ends; "slow" waits to be cancelled
 */

/**
 * @param {Required<Omit<Size, "name" | "capture">>} size
 * @returns {TraceInfo}
 */
export function madeInfo({ layers, heads, kv, tokens, prompt, blind, arrived, sink }) {
  return {
    schema: "attnscope.tiles/1",
    model: { name: "made-up", architecture: "llama", layers, query_heads: heads, kv_heads: kv, head_width: 64 },
    tile: 256,
    measures: ["weight", "arrived", "weight-no-sink", "arrived-no-sink", "uniform"],
    tracks: ["received", "entropy", "sink_mass"],
    statistics: ["entropy", "sink_mass", "previous_mass", "induction_mass", "max_weight", "mean_distance", "jacobian_norm", "argmax_share"],
    prompt_tokens: prompt,
    sink_keys: 1,
    layers: Array.from({ length: layers }, (_, index) => {
      const none = blind.includes(index);
      return {
        index, kind: none ? "none" : index % 6 === 5 ? "full" : "sliding",
        reason: none ? "a recurrent layer: its state has no attention map" : null,
        window: index % 6 === 5 || none ? null : 512, query_heads: heads, kv_heads: kv,
        queries: tokens, keys: tokens, levels: Math.max(1, Math.ceil(Math.log2(tokens / 256)) + 1),
        causal: true, cross: false, arrived, sink_logit: sink,
      };
    }),
  };
}

/**
 * @param {Required<Omit<Size, "name" | "capture">>} size
 * @returns {HeadRow[]}
 */
export function madeHeads({ layers, heads, blind }) {
  const rows = [];
  for (let layer = 0; layer < layers; layer++) {
    if (blind.includes(layer)) continue;
    for (let head = 0; head < heads; head++) {
      const value = /** @param {number} n */ (n) => noise(layer, head, n);
      rows.push({
        layer, head, kind: KINDS[Math.floor(value(0) ** 2 * 6)], score: value(1),
        statistics: {
          entropy: 4 * value(2), sink_mass: value(3), previous_mass: value(4) * 0.5, induction_mass: value(5) ** 3,
          max_weight: value(6), mean_distance: 60 * value(7), jacobian_norm: 0.3 * value(8), argmax_share: value(9),
        },
      });
    }
  }
  return rows;
}

/**
 * One exact row: a softmax over made-up scores.
 * @param {number} layer
 * @param {number} head
 * @param {number} query
 * @param {number} keys
 * @param {boolean} sink
 */
export function madeRow(layer, head, query, keys, sink) {
  const row = new Float64Array(keys);
  let total = sink ? 1 : 0;
  for (let key = 0; key <= query; key++) {
    const score = (key === 0 ? 3 : 0) + 5 * noise(layer, head, key) ** 4 + 3 * Math.exp((key - query) / 6) + noise(query, key, head);
    row[key] = Math.exp(score);
    total += row[key];
  }
  for (let key = 0; key <= query; key++) row[key] /= total;
  return { row, share: sink ? 1 / total : 0 };
}

/** @param {number} key @param {number} layer */
export function madeNorm(key, layer) {
  return key === 0 ? 0.02 : 0.5 + noise(layer, key, 77);
}

/**
 * @param {Size} [size]
 * @returns {DataSource}
 */
export function fakeSource(size = {}) {
  const full = { layers: 4, heads: 4, kv: 2, tokens: 120, prompt: 0, blind: /** @type {number[]} */ ([]), arrived: true, sink: false, name: "made-up", ...size };
  if (!size.prompt) full.prompt = full.tokens;
  const info = madeInfo(full);
  const table = madeTokens(full.tokens);
  const heads = madeHeads(full);
  const entry = { id: "made", name: full.name, model: full.name, tokens: full.tokens };
  const entries = [entry];
  const maps = info.layers.filter((one) => one.kind !== "none").map((one) => one.index);
  const { tokens } = full;
  /** @param {number} layer @param {number} head @param {number[]} queries @param {"mean" | "sum"} how */
  const joined = (layer, head, queries, how) => {
    const weights = new Float32Array(tokens);
    let sink = 0;
    const part = how === "mean" ? 1 / queries.length : 1;
    for (const query of queries) {
      const { row, share } = madeRow(layer, head, query, tokens, full.sink);
      for (let key = 0; key < tokens; key++) weights[key] += part * row[key];
      sink += part * share;
    }
    const arrived = full.arrived ? weights.map((weight, key) => weight * madeNorm(key, layer)) : null;
    return { weights, arrived, sink };
  };
  return {
    can: { capture: !!size.capture, generate: !!size.capture, export: false },
    traces: async () => [...entries],
    info: async () => info,
    tokens: async () => table,
    heads: async () => heads,
    tiles: async ({ layer, head, level, at }) => at.map(([x, y]) => {
      const cells = Math.min(256, Math.ceil(tokens / 2 ** level));
      const mean = new Float32Array(cells * cells).map((_, i) => {
        const [row, column] = [Math.floor(i / cells), i % cells];
        return column > row ? NaN : column === 0 ? 0.5 : (0.6 * noise(layer, head, i)) / (1 + row - column);
      });
      return { state: /** @type {const} */ ("values"), level, x, y, width: cells, height: cells, mean, max: mean, argmax: new Int32Array(cells * cells) };
    }),
    tracks: async () => [],
    row: async ({ layer, head, queries, how }) => joined(layer, head, queries, how),
    column: async ({ layer, head, keys, how }) => {
      const made = new Float32Array(tokens);
      for (let query = 0; query < tokens; query++) {
        for (const key of keys) if (key <= query) made[query] += noise(layer, head, query, key) / (how === "mean" ? keys.length : 1);
      }
      return made;
    },
    flow: async ({ queries, how }) => {
      const weights = new Float32Array(maps.length * tokens);
      const arrived = new Float32Array(maps.length * tokens);
      maps.forEach((layer, index) => {
        const got = joined(layer, 0, queries, how);
        weights.set(got.weights, index * tokens);
        if (got.arrived) arrived.set(got.arrived.map((one) => one * full.heads), index * tokens); // as if all heads were the first
      });
      return { layers: maps, keys: tokens, weights, arrived: full.arrived ? arrived : null };
    },
    cell: async ({ layer, head, query, key }) => ({ weight: madeRow(layer, head, query, tokens, full.sink).row[key], arrived: null, score: null, visible: key <= query }),
    similar: async ({ layer, head, count }) => heads
      .filter((one) => one.layer !== layer || one.head !== head).slice(0, count)
      .map((one, index) => ({ layer: one.layer, head: one.head, similarity: 1 - index / 20 })),
    expected: async () => ({ cell: 1, density: new Float32Array(tokens) }),
    table: async () => new Blob([]),
    capture: size.capture ? (want, onEvent, signal) => madeCapture(size.capture, want, onEvent, signal).then((made) => {
      entries.push(made);
      return made;
    }) : null,
    models: async () => [{ name: "big", installed: false, licence: "" }, { name: "small", installed: true, licence: "Apache-2.0" }],
  };
}

/**
 * A capture that loads, generates token by token, and ends as told.
 * @param {Size["capture"]} end
 * @param {{text: string, model: string, generate: number}} want
 * @param {(event: import("../../../src/attnscope/serve/static/js/types.js").CaptureEvent) => void} onEvent
 * @param {AbortSignal} [signal]
 */
async function madeCapture(end, want, onEvent, signal) {
  const wait = /** @param {number} time */ (time) => new Promise((done, fail) => {
    setTimeout(() => done(undefined), time);
    signal?.addEventListener("abort", () => fail(new DOMException("no longer wanted", "AbortError")));
  });
  onEvent({ kind: "progress", done: 0, total: 0, what: "loading" });
  await wait(20);
  for (let index = 0; index < want.generate; index++) {
    onEvent({ kind: "progress", done: index + 1, total: want.generate, what: "generating" });
    onEvent({ kind: "token", index, text: ` word${index}` });
    await wait(5);
  }
  if (end === "slow") await wait(1e6);
  if (end === "failed") throw new Error("The process that captured was ended: it needed more memory than there is.");
  return { id: "made2", name: want.text, model: want.model, tokens: 120 };
}
