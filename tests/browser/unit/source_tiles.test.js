// Levels, tiles and stand-ins: each is compared with the definition, counted out pixel by pixel.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createFakeSource } from "./fake_source.js";
import {
  TILE, aboveDiagonal, largestPair, levelFor, parentOf, rectOf, shared, tilesIn, transposed,
} from "../../../src/attnscope/serve/static/js/source/pyramid.js";
import { TileSet } from "../../../src/attnscope/serve/static/js/source/tiles.js";

const layerOf = (/** @type {object} */ more = {}) => /** @type {any} */ ({
  ...{ index: 0, kind: "full", reason: null, window: null, query_heads: 1, kv_heads: 1, queries: 3000, keys: 3000 },
  ...{ levels: 5, causal: true, cross: false, arrived: true, sink_logit: false, ...more },
});

test("the level is the finest whose cells are at least a device pixel", () => {
  for (const pixels of [100, 1.5, 1, 0.99, 0.5, 0.3, 0.03, 0.001]) {
    const level = levelFor(pixels, 9);
    assert.ok(pixels * 2 ** level >= 1 - 1e-6 || level === 8, `${pixels}`);
    assert.ok(level === 0 || pixels * 2 ** (level - 1) < 1, `${pixels} is not the finest`);
  }
  assert.equal(levelFor(1e-9, 4), 3);
});

test("the tiles of a view are those that share a token with it, the nearest first", () => {
  const layer = layerOf();
  for (const [level, rect] of /** @type {[number, any][]} */ ([
    [0, { x: 100, y: 300, width: 400, height: 300 }], [1, { x: 511.5, y: 1023.5, width: 1, height: 1 }],
    [0, { x: -900, y: -900, width: 5000, height: 5000 }], [4, { x: 0, y: 0, width: 3000, height: 3000 }],
    [2, { x: 1024, y: 2048, width: 1024, height: 952 }], [0, { x: 5000, y: 0, width: 10, height: 10 }],
  ])) {
    const span = TILE * 2 ** level;
    const wanted = [];
    for (let y = 0; y * span < 3000; y++) {
      for (let x = 0; x * span < 3000; x++) {
        const overlaps = x * span < rect.x + rect.width && (x + 1) * span > rect.x && y * span < rect.y + rect.height && (y + 1) * span > rect.y;
        const lastQuery = Math.min((y + 1) * span, 3000) - 1;
        if (overlaps && x * span <= lastQuery) wanted.push(`${x},${y}`);
      }
    }
    const got = tilesIn(layer, level, rect);
    assert.deepEqual(got.map(({ x, y }) => `${x},${y}`).sort(), wanted.sort(), JSON.stringify([level, rect]));
    const far = got.map(({ x, y }) => Math.hypot((x + 0.5) * span - rect.x - rect.width / 2, (y + 0.5) * span - rect.y - rect.height / 2)).map((d) => Math.round(1e6 * d));
    assert.deepEqual(far, [...far].sort((a, b) => a - b));
  }
});

test("only causality hides a tile beforehand, and it knows keys that came before the queries", () => {
  const place = { level: 0, x: 2, y: 0 };
  assert.equal(aboveDiagonal(layerOf(), place), true);
  assert.equal(aboveDiagonal(layerOf({ causal: false }), place), false);
  assert.equal(aboveDiagonal(layerOf({ cross: true }), place), false);
  assert.equal(aboveDiagonal(layerOf({ queries: 2488 }), place), false); // query 255 stands at key 767
  assert.equal(aboveDiagonal(layerOf({ queries: 2750 }), place), true); // at key 505
});

test("a parent covers its children, and rectangles meet or not", () => {
  const layer = layerOf();
  for (const place of tilesIn(layer, 1, { x: 0, y: 0, width: 3000, height: 3000 })) {
    const [child, parent] = [rectOf(place, layer), rectOf(parentOf(place), layer)];
    assert.deepEqual(shared(child, parent), child);
  }
  assert.equal(shared({ x: 0, y: 0, width: 2, height: 2 }, { x: 2, y: 0, width: 2, height: 2 }), null);
  assert.deepEqual(transposed({ x: 1, y: 2, width: 3, height: 4 }), { x: 2, y: 1, width: 4, height: 3 });
});

test("the largest pair of a coarse cell is found by its argmax", () => {
  const tile = { level: 3, x: 1, y: 2, width: 4, argmax: Int32Array.of(-1, 8 * 5 + 6, 0, 63) };
  assert.equal(largestPair(tile, 0, 0), null);
  assert.deepEqual(largestPair(tile, 1, 0), { query: 512 * 8 + 5, key: 257 * 8 + 6 });
  assert.deepEqual(largestPair(tile, 3, 0), { query: 512 * 8 + 7, key: 259 * 8 + 7 });
  assert.deepEqual(largestPair({ ...tile, level: 0, argmax: null }, 3, 1), { query: 513, key: 259 });
});

/** @param {object} [more] */
function setUp(more = {}) {
  const source = createFakeSource({ tokens: 600, ...more });
  const events = { arrived: 0, errors: /** @type {unknown[]} */ ([]) };
  const layer = layerOf({ queries: 600, keys: 600, levels: 3 });
  const set = new TileSet({
    ...{ source, of: { trace: "fake", layer: 0, head: 1 }, measure: "weight", layer, now: () => 0, stillMs: 0 },
    ...{ onArrive: () => (events.arrived += 1), onError: (/** @type {unknown} */ error) => events.errors.push(error) },
  });
  const all = () => source.asked.flatMap(({ level, at }) => at.map(([x, y]) => `${level}/${x}/${y}`));
  return { source, events, set, all };
}
const settle = () => new Promise((resolve) => setTimeout(resolve, 20));
const corner = { x: 0, y: 0, width: 100, height: 100 };

test("the top tile is asked for first and stands in for all that is not here", async () => {
  const { set, all } = setUp();
  set.want(0, { x: 0, y: 300, width: 600, height: 300 });
  assert.equal(all()[0], "2/0/0");
  assert.equal(set.find({ level: 0, x: 0, y: 1 }), null);
  await settle();
  assert.equal(set.find({ level: 0, x: 0, y: 1 })?.level, 0);
  assert.equal(set.find({ level: 0, x: 0, y: 0 })?.level, 2);
  assert.equal(set.get({ level: 0, x: 0, y: 0 }), null);
});

test("what is no longer seen is let go, and what is seen again is asked again", async () => {
  const { set, events } = setUp({ delay: 5 });
  set.want(0, { x: 0, y: 512, width: 600, height: 88 });
  const first = [...set.asked.keys()];
  set.want(0, corner);
  await settle();
  assert.ok(first.includes("0/2/2"));
  assert.equal(set.get({ level: 0, x: 2, y: 2 }), null);
  assert.ok(set.get({ level: 0, x: 0, y: 0 }));
  assert.equal(set.topTile?.level, 2);
  set.want(0, { x: 512, y: 512, width: 10, height: 10 });
  await settle();
  assert.ok(set.get({ level: 0, x: 2, y: 2 }));
  assert.deepEqual(events.errors, []);
});

test("neighbours are fetched only once all that is seen is here", async () => {
  const { set, all } = setUp();
  set.want(0, corner);
  await settle();
  const before = new Set(all());
  assert.ok(!before.has("0/0/1"));
  set.want(0, corner);
  await settle();
  set.want(0, corner);
  await settle();
  assert.ok(set.get({ level: 0, x: 0, y: 1 }));
  assert.ok(set.get({ level: 1, x: 0, y: 0 }), "the parent, for zooming out");
  const asked = all();
  assert.equal(new Set(asked).size, asked.length, "nothing is asked twice");
});

test("while the view moves no neighbour is fetched, and then without being asked again", async () => {
  const source = createFakeSource({ tokens: 600 });
  const layer = layerOf({ queries: 600, keys: 600, levels: 3 });
  const of = { trace: "fake", layer: 0, head: 1 };
  const set = new TileSet({ source, of, measure: "weight", layer, onArrive: () => {}, onError: (error) => assert.fail(String(error)), stillMs: 30 });
  const neighbour = () => source.asked.some(({ level, at }) => level === 0 && at.some(([x, y]) => x === 0 && y === 1));
  for (let step = 0; step < 8; step++) {
    set.want(0, { x: step, y: step, width: 100, height: 100 });
    await new Promise((resolve) => setTimeout(resolve, 10));
    assert.equal(neighbour(), false, `${step}`);
  }
  await new Promise((resolve) => setTimeout(resolve, 120));
  assert.equal(neighbour(), true);
  set.close();
});

test("what is seen is not kept waiting by what is fetched ahead", async () => {
  const { source, set } = setUp({ delay: 20 });
  set.want(0, corner);
  await new Promise((resolve) => setTimeout(resolve, 60));
  set.want(0, corner);
  assert.ok([...set.asked.values()].some(({ early }) => early));
  const early = [...set.asked].filter(([, { early }]) => early).map(([, { stop }]) => stop.signal);
  set.want(0, { x: 300, y: 300, width: 100, height: 100 });
  assert.ok(early.length > 1);
  assert.equal(early.filter((signal) => !signal.aborted).length, 1, "all but the one that is seen now");
  assert.equal(set.asked.get("0/1/1")?.early, false);
  assert.equal(source.asked.filter(({ level, at }) => level === 0 && at.some(([x, y]) => x === 1 && y === 1)).length, 1);
});

test("what is fetched ahead is not let go by the frames in between", async () => {
  const { set, all } = setUp({ tokens: 600, delay: 3 });
  for (let frame = 0; frame < 60; frame++) {
    set.want(0, { x: 300, y: 300, width: 100, height: 100 });
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await settle();
  const wanted = ["0/0/0", "0/0/1", "0/0/2", "0/1/1", "0/1/2", "0/2/2", "1/0/0", "2/0/0"];
  for (const name of wanted) assert.equal(all().filter((one) => one === name).length, 1, name);
});

test("a failure is told once and not tried again at once", async () => {
  const { set, source, events } = setUp();
  let now = 0;
  set.now = () => now;
  let calls = 0;
  source.tiles = async () => {
    calls += 1;
    throw new Error("no");
  };
  set.want(2, corner);
  await settle();
  set.want(2, corner);
  await settle();
  assert.deepEqual([calls, events.errors.length], [1, 1]);
  now = 5000;
  set.want(2, corner);
  await settle();
  assert.equal(calls, 2);
});

test("after closing, nothing arrives and nothing is asked", async () => {
  const { set, events } = setUp({ delay: 5 });
  set.want(0, corner);
  set.close();
  await settle();
  set.want(0, corner);
  assert.deepEqual([events.arrived, events.errors.length, set.asked.size, set.topTile], [0, 0, 0, null]);
});

test("the fake's rows sum to one and its cells are what their pairs say", () => {
  const { maps } = createFakeSource({ tokens: 40 });
  for (let i = 0; i < 40; i++) {
    let sum = 0;
    for (let j = 0; j <= i; j++) sum += maps.sees(1, i, j) ? maps.value({ layer: 1, head: 2 }, "weight", i, j) : 0;
    assert.ok(Math.abs(sum - 1) < 1e-12);
  }
  const want = { layer: 0, head: 2, measure: /** @type {const} */ ("weight") };
  const pairs = [[32, 8], [32, 9], [33, 8], [33, 9]].map(([i, j]) => maps.value(want, "weight", i, j));
  const cell = maps.cell(want, 2, 16, 4);
  assert.ok(Math.abs(cell.mean - pairs.reduce((a, b) => a + b) / 2) < 1e-15);
  assert.equal(cell.max, Math.max(...pairs));
  assert.equal(pairs[cell.argmax], cell.max);
});
