// Palettes, scales, norms: against published tables, plain formulas and brute force.
import assert from "node:assert/strict";
import { test } from "node:test";
import { tickText } from "../../../src/attnscope/serve/static/js/draw/colourbar.js";
import { colourCells } from "../../../src/attnscope/serve/static/js/draw/canvas2d.js";
import { Norms, sightIsKnown } from "../../../src/attnscope/serve/static/js/draw/norms.js";
import { lightness, paletteTable } from "../../../src/attnscope/serve/static/js/draw/palettes.js";
import {
  colourIndex, naturalRange, placeOf, roundUp, scaleFits, ticksOf, valueAt,
} from "../../../src/attnscope/serve/static/js/draw/scale.js";
import { createFakeSource } from "./fake_source.js";

/** @typedef {import("../../../src/attnscope/serve/static/js/draw/scale.js").Look} Look */

// matplotlib 3.11.2's own tables at numbers that are no anchors of ours: index, then red, green, blue.
const PUBLISHED = {
  viridis: [[2, 69, 4, 87], [23, 72, 33, 115], [42, 68, 57, 131], [63, 59, 81, 139], [86, 48, 105, 142], [108, 39, 126, 142], [127, 33, 144, 141], [149, 32, 164, 134], [171, 55, 184, 120], [192, 94, 201, 98], [213, 144, 215, 67], [234, 200, 224, 32], [252, 246, 230, 32]],
  cividis: [[2, 0, 36, 81], [23, 1, 50, 113], [42, 42, 63, 109], [63, 66, 78, 108], [86, 88, 94, 109], [108, 108, 109, 114], [127, 124, 123, 120], [149, 145, 139, 120], [171, 166, 156, 116], [192, 188, 174, 108], [213, 210, 192, 96], [234, 233, 211, 78], [252, 254, 228, 52]],
};

for (const name of /** @type {const} */ (["viridis", "cividis"])) {
  test(`${name} is the published palette`, () => {
    const table = paletteTable(name);
    for (const [index, ...rgb] of PUBLISHED[name]) {
      const got = [...table.subarray(3 * index, 3 * index + 3)];
      // 3 of 255: the cubic through every fifth colour; a step of the palette itself is up to 3.
      got.forEach((value, at) => assert.ok(Math.abs(value - rgb[at]) <= 3, `${index}: ${got} is not ${rgb}`));
    }
  });

  test(`${name} grows lighter all the way`, () => {
    const table = paletteTable(name);
    const light = Array.from({ length: 256 }, (_, i) => lightness(table[3 * i], table[3 * i + 1], table[3 * i + 2]));
    // 0.15 of L*: rounding to bytes; the published table has such steps too. Over 5 colours it must rise.
    for (let i = 1; i < 256; i++) assert.ok(light[i] > light[i - 1] - 0.15, `${i}`);
    for (let i = 5; i < 256; i++) assert.ok(light[i] > light[i - 5] + 0.3, `${i}`);
    assert.ok(light[255] - light[0] > 70);
  });
}

test("lightness is CIE L*", () => {
  assert.ok(Math.abs(lightness(255, 255, 255) - 100) < 1e-4);
  assert.equal(lightness(0, 0, 0), 0);
  assert.ok(Math.abs(lightness(119, 119, 119) - 50.03) < 0.01); // sRGB 119 is the middle grey
});

/** @param {Partial<Look>} [more] @returns {Look} */
const look = (more) => ({ scale: "raw", plane: "mean", low: 0, high: 1, palette: "viridis", ...more });

test("each scale is its formula, and its inverse comes back", () => {
  assert.equal(placeOf(look(), 0.25), 0.25);
  assert.ok(Math.abs(placeOf(look({ scale: "log", low: 1e-4 }), 0.01) - 0.5) < 1e-12);
  assert.ok(Math.abs(placeOf(look({ scale: "uniform", low: 0.01, high: 100 }), 0.3, 0.03) - 0.75) < 1e-12);
  for (const scale of /** @type {const} */ (["raw", "log", "uniform", "expected"])) {
    const one = look({ scale, low: 0.01, high: 20 });
    for (const place of [0, 0.1, 0.5, 1]) assert.ok(Math.abs(placeOf(one, valueAt(one, place)) - place) < 1e-12);
  }
});

test("zero, nothing and too much are at the ends", () => {
  const log = look({ scale: "log", low: 1e-5 });
  assert.deepEqual([0, 1e-9, 2].map((value) => colourIndex(log, value)), [0, 0, 255]);
  assert.equal(placeOf(look({ scale: "uniform", low: 0.1, high: 10 }), 0.5, 0), 0);
});

test("only shares are compared with shares", () => {
  assert.equal(scaleFits("uniform", "weight-no-sink"), true);
  assert.equal(scaleFits("expected", "arrived"), false);
  assert.deepEqual(naturalRange("raw", "arrived", 3.2), [0, 5]);
  assert.deepEqual(naturalRange("log", "weight", 0.2), [1e-5, 1]);
});

test("ends and ticks are round numbers within the range", () => {
  for (const [value, up] of [[0.13, 0.2], [0.2, 0.2], [2.1, 5], [51, 100], [0, 1], [NaN, 1]]) assert.ok(Math.abs(roundUp(value) - up) < 1e-12);
  const ticks = ticksOf(look({ scale: "log", low: 1e-5 }));
  assert.deepEqual(ticks.map((tick) => tickText(tick, "log")), ["10⁻⁵", "10⁻⁴", "0.001", "0.01", "0.1", "1"]);
  assert.deepEqual(ticksOf(look()).map((tick) => tickText(tick, "raw")), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
  const ratio = ticksOf(look({ scale: "expected", low: 1 / 16, high: 16 }));
  assert.deepEqual(ratio.map((tick) => tickText(tick, "expected")), ["1/16", "1/8", "1/4", "1/2", "×1", "×2", "×4", "×8", "×16"]);
  for (const one of [look({ low: 0.31, high: 0.34 }), look({ scale: "log", low: 0.2, high: 0.7 })]) {
    const all = ticksOf(one);
    assert.ok(all.length >= 2 && all.every((tick) => tick >= one.low - 1e-12 && tick <= one.high + 1e-12));
  }
});

/** @param {number | null} window @param {object} [more] */
const layerOf = (window, more = {}) => /** @type {any} */ ({
  ...{ index: 0, kind: window ? "sliding" : "full", window, queries: 300, keys: 300, levels: 2 },
  ...{ causal: true, cross: false, arrived: true, query_heads: 4, kv_heads: 2, ...more },
});

for (const window of [null, 37]) {
  test(`an even spread over the keys in sight is what the pairs give, window ${window}`, () => {
    const { maps } = createFakeSource({ tokens: 300, windows: [window] });
    const norms = new Norms(layerOf(window), null);
    for (const level of [0, 1, 2, 4]) {
      const want = { layer: 0, head: 0, measure: /** @type {const} */ ("weight"), level };
      const tile = maps.tile(want, 0, 0);
      const even = maps.tile({ ...want, measure: "uniform" }, 0, 0);
      const got = /** @type {Float32Array} */ (norms.of(tile, "uniform", "mean"));
      let seen = 0;
      for (let at = 0; at < got.length; at++) {
        const wanted = /** @type {Float32Array} */ (even.mean)[at];
        if (Number.isNaN(wanted)) continue;
        seen += 1;
        // Both are float64 sums of at most 256 terms, rounded to float32: two roundings apart.
        assert.ok(Math.abs(got[at] - wanted) <= 2.4e-7 * wanted, `level ${level}, cell ${at}: ${got[at]} is not ${wanted}`);
      }
      assert.ok(seen > 10);
    }
  });

  test(`what a head expects at a distance is the mean of its own pairs, window ${window}`, async () => {
    const source = createFakeSource({ tokens: 300, windows: [window] });
    const expected = await source.expected({ trace: "fake", layer: 0, head: 2 });
    const norms = new Norms(layerOf(window), expected);
    const level = 3;
    const tile = source.maps.tile({ layer: 0, head: 2, measure: "weight", level }, 0, 0);
    const [means, maxima] = [norms.of(tile, "expected", "mean"), norms.of(tile, "expected", "max")];
    for (let at = 0; at < tile.width * tile.height; at += 7) {
      if (Number.isNaN(tile.mean?.[at])) continue;
      const [row, column] = [Math.floor(at / tile.width), at % tile.width];
      let [sum, rows] = [0, 0];
      for (let i = row * 8; i < Math.min(row * 8 + 8, 300); i++, rows++) {
        for (let j = column * 8; j < column * 8 + 8; j++) if (source.maps.sees(0, i, j)) sum += expected.density[i - j];
      }
      assert.ok(Math.abs((means?.[at] ?? 0) - sum / rows) < 1e-6 * (sum / rows), `cell ${row}, ${column}`);
      const found = /** @type {Int32Array} */ (tile.argmax)[at];
      const distance = row * 8 + (found >> 3) - column * 8 - (found & 7);
      assert.ok(Math.abs((maxima?.[at] ?? 0) - expected.density[distance]) < 1e-6, `pair of ${row}, ${column}`);
    }
  });
}

test("queries that continue a text see the keys before it", () => {
  const norms = new Norms(layerOf(null, { queries: 100 }), null);
  assert.equal(norms.seenBy(0), 201);
  assert.ok(Math.abs(norms.span("uniform", 0, 0, 300) - 1) < 1e-12);
  assert.equal(norms.span("uniform", 0, 201, 300), 0);
});

test("sight is not guessed where the layer does not say it, or a tile contradicts it", () => {
  for (const more of [{ causal: false }, { cross: true }, { kind: "chunked" }]) assert.equal(sightIsKnown(layerOf(null, more)), false);
  const { maps } = createFakeSource({ tokens: 300, windows: [null] });
  const tile = maps.tile({ layer: 0, head: 0, measure: "weight", level: 1 }, 0, 0);
  const norms = new Norms(layerOf(null), null);
  assert.equal(norms.contradicts(tile), false);
  /** @type {Float32Array} */ (tile.mean)[140 * tile.width + 3] = NaN;
  assert.equal(norms.contradicts(tile), true);
});

test("few tiles are compared in one frame, and the rest is owed", () => {
  const { maps } = createFakeSource({ tokens: 20 });
  const [one, other] = [0, 1].map((level) => maps.tile({ layer: 0, head: 0, measure: "weight", level }, 0, 0));
  const norms = new Norms(layerOf(null, { queries: 20, keys: 20 }), null);
  norms.allowance = 1;
  assert.ok(norms.of(one, "uniform", "mean"));
  assert.equal(norms.of(other, "uniform", "mean"), null);
  assert.equal(norms.owing, true);
  assert.ok(norms.of(one, "uniform", "mean"), "what is known costs nothing");
});

test("masked cells are clear, the others have the colour of their value", () => {
  const tile = /** @type {any} */ ({ state: "values", level: 1, x: 0, y: 0, width: 2, height: 1,
    mean: Float32Array.of(0.5, NaN), max: Float32Array.of(1, NaN), argmax: Int32Array.of(0, -1) });
  const table = paletteTable("viridis");
  const rgba = (/** @type {number} */ index) => [...table.subarray(3 * index, 3 * index + 3), 255];
  const cells = (/** @type {Partial<Look>} */ more, /** @type {number} */ gain = 1) => [...colourCells(tile, { look: look(more), norms: null, gain })];
  assert.deepEqual(cells({}), [...rgba(128), 0, 0, 0, 0]);
  assert.deepEqual(cells({ plane: "max" }), [...rgba(255), 0, 0, 0, 0]);
  assert.deepEqual(cells({}, 0.5), [...rgba(64), 0, 0, 0, 0]);
});

test("the quick colouring is the formula, cell by cell", () => {
  const mean = Float32Array.from({ length: 400 }, (_, i) => (i % 50 === 0 ? 0 : 10 ** (-6 + (i % 97) / 12)));
  const norms = Float32Array.from({ length: 400 }, (_, i) => 0.001 * (1 + (i % 13)));
  const tile = /** @type {any} */ ({ state: "values", level: 0, x: 0, y: 0, width: 20, height: 20, mean, max: mean, argmax: null });
  const table = paletteTable("cividis");
  for (const [scale, low, high] of /** @type {const} */ ([["raw", 0, 1], ["log", 1e-5, 1], ["uniform", 0.01, 1000]])) {
    const one = look({ scale, low, high, palette: "cividis" });
    const used = scale === "uniform" ? norms : null;
    const pixels = colourCells(tile, { look: one, norms: used, gain: 1 });
    for (let i = 0; i < 400; i++) {
      const index = colourIndex(one, mean[i], used ? used[i] : 1);
      // Two ways to write one formula may round to colours next to each other.
      const near = [index - 1, index, index + 1].map((at) => Math.min(255, Math.max(0, at)));
      assert.ok(near.some((at) => [0, 1, 2].every((c) => pixels[4 * i + c] === table[3 * at + c])), `${scale} ${i}`);
    }
  }
});
