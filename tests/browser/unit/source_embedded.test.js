// A stand-alone page's answers against a plain softmax, written here, of the same queries and keys.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createEmbeddedSource } from "../../../src/attnscope/serve/static/js/source/embedded.js";
import { EmbeddedArrays } from "../../../src/attnscope/serve/static/js/source/embedded_arrays.js";
import { isAbort } from "../../../src/attnscope/serve/static/js/source/errors.js";
import { randomOf } from "./fake_source.js";

const [T, D, SINK] = [600, 6, 0.3];
const SCALE = 0.4;

/** The bytes of an array plane by plane, lowest byte first: docs/export.md. @param {ArrayBufferView} array @param {number} size */
function planesOf(array, size) {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  const count = bytes.length / size;
  return Uint8Array.from({ length: bytes.length }, (_, at) => bytes[(at % count) * size + Math.floor(at / count)]);
}

/**
 * A page of two heads that share keys, window 90, a learned sink; and the weights by definition.
 * @param {{softcap?: number | null, map?: boolean}} [options]
 */
function makePage({ softcap = null, map = false } = {}) {
  const random = randomOf(5);
  const draw = (/** @type {number} */ n) => Float32Array.from({ length: n }, () => 4 * (random() - 0.5));
  const k = draw(T * D);
  const norms = draw(T).map(Math.abs);
  const spans = { first: Int32Array.from({ length: T }, (_, i) => Math.max(0, i - 89)), end: Int32Array.from({ length: T }, (_, i) => i + 1), origin: new Int32Array(T) };
  /** @type {any[]} */
  const entries = [];
  /** @type {Uint8Array[]} */
  const parts = [];
  let at = 0;
  const add = (/** @type {string} */ name, /** @type {any} */ array, /** @type {number | null} */ head, shape = [array.length]) => {
    entries.push({ name, layer: 3, head, dtype: array instanceof Int32Array ? "i4" : "f4", shape, at });
    parts.push(planesOf(array, 4));
    at += array.byteLength;
  };
  for (const [name, array] of Object.entries(spans)) add(name, array, null);
  add("k", k, 0, [T, D]);
  const weights = [0, 1].map((head) => {
    const q = draw(T * D);
    const { weight, logsumexp } = softmax(q, k, softcap);
    add("q", q, head, [T, D]);
    add("logsumexp", logsumexp, head);
    add("value_norms", norms, head);
    add("sink", Float32Array.of(SINK), head);
    add("track:entropy", Float32Array.from({ length: T }, (_, i) => i), head);
    if (map && head === 0) {
      const planes = pool(weight, 2);
      for (const name of /** @type {const} */ (["mean", "max", "argmax"])) add(`map_${name}`, planes[name], head, [300, 300]);
      add("map_cell", Int32Array.of(2), head);
    }
    return weight;
  });
  const layer = { index: 3, kind: "sliding", reason: null, window: 90, query_heads: 4, kv_heads: 1, queries: T, keys: T, levels: 3, causal: true, cross: false, arrived: true, sink_logit: true };
  const page = /** @type {any} */ ({
    schema: "attnscope.page/1", entry: { id: "page", name: "n", model: "m", tokens: T }, tokens: {}, heads: [], view: {}, bytes: at,
    info: { sink_keys: 2, tracks: ["entropy"], layers: [layer] }, layers: [{ index: 3, scale: SCALE, softcap, heads: [0, 1] }], arrays: entries,
  });
  const data = new Uint8Array(at);
  parts.reduce((place, part) => (data.set(part, place), place + part.length), 0);
  return { page, data: data.buffer, weights, norms };
}

/**
 * The definition: every score, the sink's logit among them.
 * @param {Float32Array} q @param {Float32Array} k @param {number | null} softcap
 */
function softmax(q, k, softcap) {
  const weight = new Float64Array(T * T).fill(NaN);
  const logsumexp = new Float32Array(T);
  for (let i = 0; i < T; i++) {
    let total = Math.exp(Math.fround(SINK));
    for (let j = Math.max(0, i - 89); j <= i; j++) {
      let dot = 0;
      for (let d = 0; d < D; d++) dot += q[i * D + d] * k[j * D + d];
      const score = softcap ? softcap * Math.tanh((SCALE * dot) / softcap) : SCALE * dot;
      weight[i * T + j] = Math.exp(score);
      total += weight[i * T + j];
    }
    for (let j = 0; j <= i; j++) weight[i * T + j] /= total;
    logsumexp[i] = Math.log(total);
  }
  return { weight, logsumexp };
}

/** Cells of `size` by their definition. @param {Float64Array} weight @param {number} size */
function pool(weight, size) {
  const cells = Math.ceil(T / size);
  const planes = { mean: new Float32Array(cells ** 2).fill(NaN), max: new Float32Array(cells ** 2).fill(NaN), argmax: new Int32Array(cells ** 2).fill(-1) };
  for (let row = 0; row < cells; row++) {
    for (let column = 0; column < cells; column++) {
      let [sum, most, found] = [0, -1, -1];
      for (let i = row * size; i < Math.min(T, row * size + size); i++) {
        for (let j = column * size; j < Math.min(T, column * size + size); j++) {
          const value = weight[i * T + j];
          if (Number.isNaN(value)) continue;
          sum += value;
          if (value > most) [most, found] = [value, (i - row * size) * size + j - column * size];
        }
      }
      if (found < 0) continue;
      const at = row * cells + column;
      [planes.mean[at], planes.max[at], planes.argmax[at]] = [sum / (Math.min(T, row * size + size) - row * size), most, found];
    }
  }
  return planes;
}

// The log-sum-exp was rounded to float32: up to 2^-24 of its size (below 4), so 2.4e-7 of a weight.
const EXACT = 5e-7;
const close = (/** @type {number} */ a, /** @type {number} */ b, room = EXACT) =>
  assert.ok(Object.is(a, b) || Math.abs(a - b) <= room * Math.abs(b), `${a} is not ${b}`);
const of = { trace: "page", layer: 3, head: 0 };

for (const softcap of [null, 1.5]) {
  test(`pairs, rows and columns are the softmax's, softcap ${softcap}`, async () => {
    const { page, data, weights, norms } = makePage({ softcap });
    const source = createEmbeddedSource(page, data);
    for (const [head, query, key] of [[0, 300, 250], [1, 599, 599], [1, 5, 0]]) {
      const cell = await source.cell({ ...of, head, query, key });
      close(cell.weight, weights[head][query * T + key]);
      close(cell.arrived ?? NaN, cell.weight * norms[key]);
      assert.equal(cell.visible, true);
    }
    assert.deepEqual(await source.cell({ ...of, query: 300, key: 5 }), { weight: 0, arrived: 0, score: null, visible: false });
    const row = await source.row({ ...of, queries: [100, 101, 400], how: "mean" });
    const wanted = Array.from({ length: T }, (_, j) => [100, 101, 400].reduce((sum, i) => sum + (weights[0][i * T + j] || 0), 0) / 3);
    row.weights.forEach((value, j) => close(value, Math.fround(wanted[j]), 1e-6));
    const shares = [100, 101, 400].map((i) => 1 - Array.from({ length: T }, (_, j) => weights[0][i * T + j] || 0).reduce((a, b) => a + b));
    close(row.sink, shares.reduce((a, b) => a + b) / 3, 1e-5);
    const column = await source.column({ ...of, keys: [10, 11], how: "sum" });
    column.forEach((value, i) => close(value, Math.fround((weights[0][i * T + 10] || 0) + (weights[0][i * T + 11] || 0)), 1e-6));
  });
}

for (const map of [false, true]) {
  test(`tiles of every level are cells by definition, ${map ? "with" : "without"} a captured map`, async () => {
    const { page, data, weights } = makePage({ map });
    const source = createEmbeddedSource(page, data);
    for (const level of [0, 1, 2]) {
      const cells = Math.ceil(T / 2 ** level);
      const wanted = pool(weights[0], 2 ** level);
      for (const [x, y] of /** @type {[number, number][]} */ ([[0, 0], [1, 1], [0, 1], [0, 2]])) {
        if (y * 256 >= cells || x * 256 >= cells) continue;
        const [tile] = await source.tiles({ ...of, measure: "weight", level, at: [[x, y]] });
        assert.deepEqual([tile.width, tile.height], [Math.min(256, cells - x * 256), Math.min(256, cells - y * 256)]);
        if (level === 0 && x === 0 && y === 2) assert.equal(tile.state, "masked");
        if (tile.state === "masked") continue;
        for (let at = 0; at < tile.width * tile.height; at++) {
          const from = (y * 256 + Math.floor(at / tile.width)) * cells + x * 256 + (at % tile.width);
          close(/** @type {Float32Array} */ (tile.mean)[at], wanted.mean[from], 1e-6);
          close(/** @type {Float32Array} */ (tile.max)[at], wanted.max[from], 1e-6);
          if (tile.argmax) assert.equal(tile.argmax[at], wanted.argmax[from]);
        }
      }
    }
  });
}

test("other measures are what their names say", async () => {
  const { page, data, weights, norms } = makePage();
  const source = createEmbeddedSource(page, data);
  const at = /** @type {[number, number][]} */ ([[0, 0]]);
  const plane = async (/** @type {any} */ measure) => (await source.tiles({ ...of, measure, level: 0, at }))[0].mean ?? [];
  const [uniform, arrived, bare] = [await plane("uniform"), await plane("arrived"), await plane("weight-no-sink")];
  for (const [i, j] of [[0, 0], [50, 1], [50, 2], [200, 150]]) {
    close(uniform[i * 256 + j], Math.fround(1 / Math.min(i + 1, 90)));
    close(arrived[i * 256 + j], weights[0][i * T + j] * norms[j], 1e-6);
    close(bare[i * 256 + j], j < 2 ? NaN : weights[0][i * T + j], 1e-6);
  }
});

test("what is expected at a distance is the mean of its pairs; alike heads are found", async () => {
  const { page, data, weights } = makePage();
  const source = createEmbeddedSource(page, data);
  const { cell, density } = await source.expected(of);
  assert.equal(cell, 1);
  for (const distance of [0, 1, 89]) {
    let sum = 0;
    for (let i = distance; i < T; i++) sum += weights[0][i * T + i - distance];
    close(density[distance], sum / (T - distance), 1e-6);
  }
  assert.ok(Number.isNaN(density[90]));
  const [alike] = await source.similar({ ...of, count: 3 });
  assert.deepEqual([alike.layer, alike.head], [3, 1]);
  assert.ok(alike.similarity > 0 && alike.similarity < 1);
});

test("flow joins the heads that are here, and a table holds the pairs in sight", async () => {
  const { page, data, weights, norms } = makePage();
  const source = createEmbeddedSource(page, data);
  const flow = await source.flow({ trace: "page", queries: [400], how: "sum" });
  assert.deepEqual([flow.layers, flow.keys], [[3], T]);
  const both = weights[0][400 * T + 350] + weights[1][400 * T + 350];
  close(flow.weights[350], both / 2, 1e-6);
  close(flow.arrived?.[350] ?? NaN, both * norms[350], 1e-6);
  const text = await (await source.table({ ...of, measure: "weight", rows: [100, 101], keys: [9, 13], format: "csv" })).text();
  assert.deepEqual(text.trim().split("\n").map((line) => line.split(",").slice(0, 2).join()),
    ["query,key", "100,11", "100,12", "100,13", "101,12", "101,13"]);
  await assert.rejects(source.table({ ...of, measure: "weight", rows: [0, 1], keys: [0, 1], format: "parquet" }), /csv/);
  const [track] = await source.tracks({ ...of, names: ["entropy"], level: 1, at: [1] });
  assert.deepEqual([track.mean.length, track.mean[0], track.max[43]], [44, 512.5, 599]);
});

test("what is not in the page is said, and work that nobody wants ends", async () => {
  const { page, data } = makePage();
  const source = createEmbeddedSource(page, data);
  await assert.rejects(source.cell({ ...of, head: 7, query: 1, key: 1 }), /head 7 is not in this page; there are 3: 0, 1/);
  await assert.rejects(source.tiles({ ...of, measure: "weight", level: 3, at: [[0, 0]] }), /expected 0 to 2, got 3/);
  await assert.rejects(source.tiles({ ...of, measure: "arrived", level: 2, at: [[0, 0]] }, AbortSignal.abort()), isAbort);
  assert.throws(() => createEmbeddedSource({ ...page, schema: "attnscope.page/2" }, data), /expected attnscope.page\/1/);
  assert.throws(() => new EmbeddedArrays(page.arrays, data.slice(0, 100)).get("k", 3, 0), /are not in the page/);
});

test("bfloat16 is the upper half of a float32", () => {
  const values = Float32Array.of(1.5, -0.25, 3.140625);
  const upper = Uint16Array.from(new Uint32Array(values.buffer), (bits) => bits >>> 16);
  const entries = /** @type {any} */ ([{ name: "q", layer: 0, head: 0, dtype: "bf16", shape: [3], at: 0 }]);
  const arrays = new EmbeddedArrays(entries, /** @type {ArrayBuffer} */ (planesOf(upper, 2).buffer));
  assert.deepEqual(arrays.get("q", 0, 0), values);
});

/**
 * A page of one head with a mask, a bias for each pair and one by offset; and what its rows see, by definition.
 * @param {number} T
 */
function makeOdd(T) {
  const random = randomOf(9);
  const draw = (/** @type {number} */ n) => Float32Array.from({ length: n }, () => 2 * (random() - 0.5));
  const [q, k, bias, line] = [draw(T * 2), draw(T * 2), draw(T * T), draw(2 * T - 1)];
  const wide = Math.ceil(T / 8);
  const mask = new Uint8Array(T * wide);
  const score = new Float64Array(T * T).fill(-Infinity);
  bias[3 * T + 1] = -Infinity;
  for (let i = 0; i < T; i++) {
    for (let j = 0; j < T; j++) {
      const seen = j === i || random() < 0.7;
      if (seen) mask[i * wide + Math.floor(j / 8)] |= 128 >> j % 8; // as numpy.packbits: the first key is the highest bit
      const offset = line[j - i + T - 1];
      if (seen && j <= i) score[i * T + j] = 0.5 * (q[2 * i] * k[2 * j] + q[2 * i + 1] * k[2 * j + 1]) + bias[i * T + j] + offset;
    }
  }
  const logsumexp = Float32Array.from({ length: T }, (_, i) => Math.log(score.subarray(i * T, i * T + T).reduce((sum, one) => sum + Math.exp(one), 0)));
  /** @type {[string, any, number | null, number[]][]} */
  const arrays = [
    ["first", new Int32Array(T), null, [T]], ["end", Int32Array.from({ length: T }, (_, i) => i + 1), null, [T]], ["origin", new Int32Array(T), null, [T]],
    ["mask", mask, null, [T, wide]], ["k", k, 0, [T, 2]], ["q", q, 0, [T, 2]], ["logsumexp", logsumexp, 0, [T]],
    ["bias", bias, 0, [T, T]], ["bias_by_offset", line, 0, [2 * T - 1]], ["track:entropy", Float32Array.from({ length: T }, (_, i) => i), 0, [T]],
  ];
  let at = 0;
  const entries = arrays.map(([name, array, head, shape]) => {
    const dtype = array instanceof Uint8Array ? "u1" : array instanceof Int32Array ? "i4" : "f4";
    const entry = { name, layer: 0, head, dtype, shape, at };
    at += array.byteLength;
    return entry;
  });
  const data = new Uint8Array(at);
  arrays.forEach(([, array], index) => data.set(array instanceof Uint8Array ? array : planesOf(array, 4), entries[index].at));
  const layer = { index: 0, kind: "full", reason: null, window: null, query_heads: 1, kv_heads: 1, queries: T, keys: T, levels: Math.max(1, Math.ceil(Math.log2(T / 256)) + 1), causal: true, cross: false, arrived: false, sink_logit: false };
  const page = /** @type {any} */ ({
    schema: "attnscope.page/1", entry: { id: "page", name: "n", model: "m", tokens: T }, tokens: {}, heads: [], view: {}, bytes: at,
    info: { sink_keys: 1, tracks: ["entropy"], layers: [layer] }, layers: [{ index: 0, scale: 0.5, softcap: null, heads: [0] }], arrays: entries,
  });
  return { source: createEmbeddedSource(page, data.buffer), score, logsumexp };
}

test("masks and biases hide and move what the definition says", async () => {
  const T = 21;
  const { source, score, logsumexp } = makeOdd(T);
  const here = { trace: "page", layer: 0, head: 0 };
  let hidden = 0;
  for (let query = 0; query < T; query++) {
    for (let key = 0; key < T; key++) {
      const wanted = score[query * T + key];
      const cell = await source.cell({ ...here, query, key });
      assert.equal(cell.visible, wanted > -Infinity, `${query} ${key}`);
      hidden += key <= query && wanted === -Infinity ? 1 : 0;
      if (cell.visible) close(cell.score ?? NaN, wanted, 1e-12);
      close(cell.weight, Math.exp(wanted - logsumexp[query]), 1e-12);
    }
  }
  assert.ok(hidden > 20);
  const [tile] = await source.tiles({ ...here, measure: "uniform", level: 0, at: [[0, 0]] });
  for (let query = 0; query < T; query++) {
    const seen = score.subarray(query * T, query * T + T).filter((one) => one > -Infinity).length;
    for (let key = 0; key < T; key++) close(tile.mean?.[query * T + key] ?? NaN, score[query * T + key] > -Infinity ? Math.fround(1 / seen) : NaN, 1e-6);
  }
});

test("at the rim a track's last cell is of what is left, and distances over 1,024 share their bins", async () => {
  const T = 1031;
  const { source, score, logsumexp } = makeOdd(T);
  const here = { trace: "page", layer: 0, head: 0 };
  const [track] = await source.tracks({ ...here, names: ["entropy"], level: 2, at: [1] });
  assert.equal(track.mean.length, 2);
  assert.deepEqual([...track.mean], [1025.5, 1029]);
  assert.deepEqual([...track.max], [1027, 1030]);
  const { cell, density } = await source.expected(here);
  assert.deepEqual([cell, density.length], [2, 516]);
  for (const bin of [0, 7, 515]) {
    let [sum, pairs] = [0, 0];
    for (let i = 0; i < T; i++) {
      for (let j = 0; j <= i; j++) {
        if (Math.floor((i - j) / 2) !== bin || score[i * T + j] === -Infinity) continue;
        sum += Math.exp(score[i * T + j] - logsumexp[i]);
        pairs += 1;
      }
    }
    close(density[bin], sum / pairs, 1e-6);
  }
});
