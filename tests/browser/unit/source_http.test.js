// Tiles of one frame go out together, are cut off when nobody wants them, and are kept by bytes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Batcher } from "../../../src/attnscope/serve/static/js/source/batch.js";
import { EventReader } from "../../../src/attnscope/serve/static/js/source/capture.js";
import { SourceError, explain, isAbort } from "../../../src/attnscope/serve/static/js/source/errors.js";
import { createHttpSource, ranges } from "../../../src/attnscope/serve/static/js/source/http.js";
import { LruBytes } from "../../../src/attnscope/serve/static/js/source/lru.js";

/** @param {number} x @param {number} y @param {number} value */
function tileBytes(x, y, value) {
  const bytes = new Uint8Array(36);
  const view = new DataView(bytes.buffer);
  bytes.set([65, 84, 84, 76, 1]);
  for (const at of [8, 12, 14]) view.setUint16(at, 1, true);
  for (const [at, one] of [[16, x], [20, y], [24, 4]]) view.setUint32(at, one, true);
  view.setFloat32(32, value, true);
  return bytes;
}

/** A server that counts: each tile's value is x + 100 y. */
function fakeServer() {
  /** @type {URL[]} */
  const asked = [];
  /** @type {AbortSignal[]} */
  const signals = [];
  const state = { status: 200, hold: /** @type {Promise<void> | null} */ (null) };
  /** @type {any} */
  const fetch = async (/** @type {string} */ address, /** @type {any} */ init) => {
    const url = new URL(address);
    asked.push(url);
    if (init.signal) signals.push(init.signal);
    if (state.hold) await Promise.race([state.hold, new Promise((_, reject) => init.signal?.addEventListener("abort", () => reject(init.signal.reason)))]);
    if (state.status !== 200) return new Response(JSON.stringify({ error: "layer: 99 is not there" }), { status: state.status });
    if (url.pathname.endsWith("/cell")) return Response.json({ weight: 0.5, arrived: null, score: 1, visible: true });
    const at = (url.searchParams.get("at") ?? "").split(",").map((pair) => pair.split(".").map(Number));
    return new Response(new Blob(at.map(([x, y]) => tileBytes(x, y, x + 100 * y))));
  };
  return { asked, signals, state, fetch };
}

/** Frames that a test lets pass. */
function frames() {
  /** @type {(() => void)[]} */
  let waiting = [];
  return { schedule: (/** @type {() => void} */ call) => void waiting.push(call), pass: () => {
    const now = waiting;
    waiting = [];
    for (const call of now) call();
  } };
}

/** @param {number} level @param {[number, number][]} at */
const want = (level, at) => ({ trace: "a b", layer: 1, head: 2, measure: /** @type {const} */ ("weight"), level, at });

/** @param {Partial<import("../../../src/attnscope/serve/static/js/source/http.js").HttpOptions>} [more] */
function setUp(more = {}) {
  const server = fakeServer();
  const frame = frames();
  const source = createHttpSource({ base: "http://127.0.0.1:9/secret/", fetch: server.fetch, schedule: frame.schedule, waits: [1, 1], ...more });
  return { server, frame, source };
}

test("one frame's tiles are one request for each head, measure and level", async () => {
  const { server, frame, source } = setUp();
  const all = [source.tiles(want(0, [[0, 0]])), source.tiles(want(0, [[0, 0], [1, 1]])), source.tiles(want(3, [[0, 0]]))];
  assert.equal(server.asked.length, 0);
  frame.pass();
  const values = (await Promise.all(all)).map((tiles) => tiles.map(({ mean }) => mean?.[0]));
  assert.deepEqual(values, [[0], [0, 101], [0]]);
  assert.deepEqual(server.asked.map((url) => url.searchParams.get("at")), ["0.0,1.1", "0.0"]);
  assert.equal(server.asked[0].pathname, "/secret/api/traces/a%20b/tiles");
  assert.deepEqual(Object.fromEntries(server.asked[1].searchParams), { layer: "1", head: "2", measure: "weight", level: "3", at: "0.0" });
});

test("more tiles than a moment's worth are several requests, the first asked first, two at once", async () => {
  const { server, frame, source } = setUp();
  /** @type {() => void} */
  let free = () => {};
  server.state.hold = new Promise((resolve) => (free = () => resolve()));
  const at = Array.from({ length: 130 }, (_, i) => /** @type {[number, number]} */ ([i, 0]));
  const tiles = source.tiles(want(0, at));
  frame.pass();
  assert.deepEqual(server.asked.map((url) => url.searchParams.get("at")), ["0.0,1.0", "2.0,3.0"]);
  free();
  assert.deepEqual((await tiles).map(({ mean }) => mean?.[0]), at.map(([x]) => x));
  const sizes = server.asked.map((url) => url.searchParams.get("at")?.split(",").length ?? 0);
  assert.equal(sizes.reduce((a, b) => a + b), 130);
  assert.ok(Math.max(...sizes) <= 64);
});

/** A batcher whose requests a test answers, and its clock. */
function slow() {
  /** @type {{items: string[], group: string, answer: () => void, signal: AbortSignal}[]} */
  const sent = [];
  const clock = { now: 0 };
  /** @type {Batcher<string>} */
  const batcher = new Batcher({
    ...{ limit: 8, most: 2, schedule: () => {}, now: () => clock.now },
    send: (group, items, signal, deliver) =>
      new Promise((resolve, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
        sent.push({ group, items, signal, answer: () => (items.forEach((item, place) => deliver(place, item)), resolve()) });
      }),
  });
  return { batcher, sent, clock, ask: (/** @type {string} */ group, /** @type {number} */ count, /** @type {AbortSignal} */ signal) =>
    Promise.all(Array.from({ length: count }, (_, i) => batcher.ask(group, `${i}`, signal))) };
}

/** Lets all that is settled be noticed. */
const noticed = () => new Promise((resolve) => setTimeout(resolve, 0));

test("a request is as long as a moment, as those before it teach", async () => {
  const { batcher, sent, clock } = slow();
  const take = async (/** @type {string} */ group, /** @type {number} */ ms) => {
    const first = sent.length;
    const asked = Array.from({ length: 30 }, (_, i) => batcher.ask(group, `${i}`));
    batcher.flush();
    for (let at = first; at < sent.length; at++) {
      clock.now += ms;
      sent[at].answer();
      await noticed();
    }
    await Promise.all(asked);
  };
  await take("quick", 1);
  await take("slow", 100);
  const longest = (/** @type {string} */ group) => sent.filter((one) => one.group === group).map(({ items }) => items.length);
  assert.ok(Math.max(...longest("quick").slice(1)) > 4, `${longest("quick")}`);
  assert.equal(Math.min(...longest("slow").slice(2)), 1, `${longest("slow")}`);
  assert.ok(Math.max(...longest("quick"), ...longest("slow")) <= 8);
});

test("what waits for a free request is taken back for nothing, and what came later takes its turn", async () => {
  const { batcher, sent, ask } = slow();
  const [seen, gone, next] = [new AbortController(), new AbortController(), new AbortController()];
  const first = ask("a", 2, seen.signal);
  batcher.flush();
  const lost = ask("b", 2, gone.signal).catch((error) => error);
  const more = ask("a", 5, seen.signal);
  const late = ask("c", 3, next.signal);
  batcher.flush();
  assert.deepEqual(sent.map(({ group, items }) => [group, items.length]), [["a", 2], ["b", 2]]);
  const other = ask("d", 2, gone.signal).catch((error) => error);
  batcher.flush();
  gone.abort();
  for (const one of [lost, other]) assert.ok(isAbort(await one));
  await noticed();
  assert.deepEqual(sent.slice(2).map(({ group, items }) => [group, items]), [["a", ["2", "3"]]]);
  for (const at of [0, 2, 3, 4, 5]) {
    sent[at].answer();
    await noticed();
  }
  assert.deepEqual(await first, ["0", "1"]);
  assert.deepEqual(await more, ["0", "1", "2", "3", "4"]);
  assert.deepEqual(await late, ["0", "1", "2"]);
  assert.deepEqual(sent.map(({ group }) => group), ["a", "b", "a", "a", "c", "c"], "d was never sent");
});

test("what one head's tiles take is known of the next head's", async () => {
  const { server, frame, source } = setUp();
  const many = Array.from({ length: 40 }, (_, i) => /** @type {[number, number]} */ ([i, 0]));
  const first = source.tiles(want(0, many));
  frame.pass();
  await first;
  const before = server.asked.length;
  const next = source.tiles({ ...want(0, many), head: 3 });
  frame.pass();
  assert.ok((server.asked[before].searchParams.get("at")?.split(",").length ?? 0) > 2, "these take no time at all");
  await next;
  const other = source.tiles(want(1, many));
  frame.pass();
  assert.equal(server.asked.at(-1)?.searchParams.get("at")?.split(",").length, 2, "another level is another matter");
  await other;
});

test("a request that is cut off or fails makes room for the next", async () => {
  const { batcher, sent, ask } = slow();
  const stop = new AbortController();
  const lost = [ask("a", 1, stop.signal), ask("b", 1, stop.signal)].map((one) => one.catch((error) => error));
  const stay = ask("c", 1, new AbortController().signal);
  batcher.flush();
  assert.deepEqual(sent.map(({ group }) => group), ["a", "b"]);
  stop.abort();
  for (const one of lost) assert.ok(isAbort(await one));
  await noticed();
  assert.deepEqual(sent.map(({ group }) => group), ["a", "b", "c"]);
  sent[2].answer();
  assert.deepEqual(await stay, ["0"]);
  assert.equal(batcher.running, 0);
});

test("what is known is not asked again, until its bytes are needed for others", async () => {
  const { server, frame, source } = setUp({ cacheBytes: 100 });
  const get = async (/** @type {number} */ x) => {
    const tiles = source.tiles(want(0, [[x, 0]]));
    await Promise.resolve();
    frame.pass();
    return (await tiles)[0];
  };
  const first = await get(0);
  assert.equal(await get(0), first);
  assert.equal(server.asked.length, 1);
  await get(1);
  await get(2);
  assert.notEqual(await get(0), first);
  assert.equal(server.asked.length, 4);
});

test("a request is cut off when all who asked have left, not before", async () => {
  const { server, frame, source } = setUp();
  server.state.hold = new Promise(() => {});
  const [one, other] = [new AbortController(), new AbortController()];
  const gone = source.tiles(want(0, [[0, 0]]), one.signal);
  const also = source.tiles(want(0, [[0, 0], [1, 0]]), other.signal);
  frame.pass();
  one.abort();
  await assert.rejects(gone, isAbort);
  assert.equal(server.signals[0].aborted, false);
  other.abort();
  await assert.rejects(also, isAbort);
  assert.equal(server.signals[0].aborted, true);
});

test("what is no longer wanted before its frame is never sent", async () => {
  const { server, frame, source } = setUp();
  const stop = new AbortController();
  const gone = source.tiles(want(0, [[0, 0]]), stop.signal);
  const kept = source.tiles(want(0, [[1, 0]]));
  stop.abort();
  frame.pass();
  await assert.rejects(gone, isAbort);
  await kept;
  assert.deepEqual(server.asked.map((url) => url.searchParams.get("at")), ["1.0"]);
  await assert.rejects(source.tiles(want(0, [[5, 5]]), AbortSignal.abort()), isAbort);
});

test("a refusal carries the server's sentence, a dead server the interface's", async () => {
  const { server, source } = setUp();
  server.state.status = 400;
  const cell = { trace: "t", layer: 99, head: 0, query: 1, key: 1 };
  await assert.rejects(source.cell(cell), (error) =>
    error instanceof SourceError && error.status === 400 && explain(error, () => "not asked") === "layer: 99 is not there");
  const dead = createHttpSource({ base: "http://127.0.0.1:9/", fetch: async () => Promise.reject(new TypeError("failed to fetch")) });
  await assert.rejects(dead.cell(cell), (error) => error instanceof SourceError && error.code === "offline" && explain(error, (key) => key) === "map.error.offline");
});

test("a busy server is asked again, and then believed", async () => {
  const { server, source } = setUp();
  server.state.status = 429;
  await assert.rejects(source.cell({ trace: "t", layer: 0, head: 0, query: 0, key: 0 }), (error) => error instanceof SourceError && error.status === 429);
  assert.equal(server.asked.length, 3);
});

test("an answer that ends early fails only what did not come", async () => {
  /** @type {Batcher<string>} */
  const batcher = new Batcher({ limit: 9, schedule: (call) => call(), send: async (_, items, __, deliver) => deliver(0, items[0]) });
  const frame = frames();
  batcher.schedule = frame.schedule;
  const [first, second] = [batcher.ask("g", "a"), batcher.ask("g", "b")];
  frame.pass();
  assert.equal(await first, "a");
  await assert.rejects(second, /did not come/);
  assert.equal(batcher.entries.size, 0);
});

test("ranges are written as the server reads them", () => {
  assert.equal(ranges([9, 3, 5, 6, 7, 8, 5]), "3,5-9");
  assert.equal(ranges([4]), "4");
});

test("the cache drops what was used longest ago, and keeps one that is too large", () => {
  /** @type {string[]} */
  const dropped = [];
  const cache = new LruBytes(10, (_, key) => dropped.push(key));
  for (const key of ["a", "b"]) cache.set(key, key, 5);
  cache.get("a");
  cache.set("c", "c", 5);
  assert.deepEqual(dropped, ["b"]);
  cache.set("d", "d", 50);
  assert.deepEqual([...cache.held.keys()], ["d"]);
  assert.equal(cache.bytes, 50);
});

test("events are read from a stream cut anywhere", () => {
  const text = 'data: {"kind":"progress"}\r\n\r\n: a comment\n\ndata: {"a":\ndata: 1}\n\n';
  for (const step of [1, 5, text.length]) {
    const reader = new EventReader();
    const got = [];
    for (let at = 0; at < text.length; at += step) got.push(...reader.push(text.slice(at, at + step)));
    assert.deepEqual(got, ['{"kind":"progress"}', '{"a":\n1}'], `chunks of ${step}`);
  }
});
