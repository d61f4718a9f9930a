// @ts-check
/** The view in the URL: what goes in comes out, and what a stranger writes there does no harm. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { createStore, decodeView, defaults, encodeView, fit, memoryPlace } from "../../../src/attnscope/serve/static/js/store.js";
import { madeInfo } from "./fake_trace.js";

/** @typedef {import("../../../src/attnscope/serve/static/js/types.js").ViewState} ViewState */

/** @type {ViewState} */
const FULL = {
  v: 1, screen: "map", trace: "t-1.a", layer: 12, head: 3, queries: [812, 815], keys: [37, 37], locked: true,
  how: "mean", statistic: "mean_distance", sort: "kind", top: 20, measure: "arrived-no-sink", scale: "uniform", plane: "max",
  range: [0.001, 0.5], palette: "cividis", view: { x: 812.5, y: -3.25, pixels: 0.0125 },
  compare: { trace: "t2", layer: 0, head: 11 }, mass: 0.75, language: "zh", theme: "dark",
};

test("a view with every field set comes back from its link", () => {
  assert.deepEqual(decodeView(`#${encodeView(FULL)}`), FULL);
});

test("the test above looks at every field of the view", () => {
  const base = defaults("en");
  assert.deepEqual(Object.keys(FULL).sort(), Object.keys(base).sort());
  for (const [name, value] of Object.entries(base)) {
    if (name !== "v") assert.notDeepEqual(FULL[/** @type {keyof ViewState} */ (name)], value, name);
  }
});

test("a link says nothing of what is at its default, but names the language", () => {
  assert.equal(encodeView({ ...defaults("zh"), trace: "t1" }), "overview/t1?lang=zh");
  assert.equal(encodeView({ ...defaults("en"), screen: "map", trace: "t1", layer: 12, head: 3, queries: [812, 812], scale: "raw" }),
    "map/t1/12.3?q=812&scale=raw&lang=en");
});

test("any mixture of fields comes back from its link", () => {
  // Every subset of a few fields, which stands for the others: they are written one by one.
  const names = /** @type {(keyof ViewState)[]} */ (["layer", "head", "queries", "keys", "view", "compare", "mass", "top", "range"]);
  for (let mask = 0; mask < 2 ** names.length; mask++) {
    const state = { ...FULL };
    names.forEach((name, bit) => {
      if (mask & (1 << bit)) Object.assign(state, { [name]: defaults("zh")[name] });
    });
    if (state.layer === null) state.head = null;
    assert.deepEqual(decodeView(encodeView(state)), state);
  }
});

const HOSTILE = [
  "#", "#?", "#////?&&==", "#<script>alert(1)</script>", "#map/../../etc/passwd", "#map/%2e%2e/1.1", "#map/__proto__/1.1",
  "#map/t/1e9.2", "#map/t/-1.2", "#map/t/1.2.3", "#map/t/99999999999.1", "#map/t/0x10.1", "#constructor/t",
  "#map/t?q=5-2", "#map/t?q=1-2-3", "#map/t?q=NaN", "#map/t?k=Infinity", "#map/t?view=1,2", "#map/t?view=NaN,0,1",
  "#map/t?view=0,0,0", "#map/t?view=0,0,1e99", "#map/t?view=,,", "#map/t?mass=2", "#map/t?mass=-1", "#map/t?mass=0", "#map/t?top=0", "#map/t?top=-5",
  "#map/t?scale=__proto__", "#map/t?measure=toString", "#map/t?statistic=a%20b", "#map/t?statistic=<b>", "#map/t?statistic=__proto__",
  "#map/t?with=t", "#map/t?with=t/1", "#map/t?with=/1.2", "#map/t?with=../x/1.2", "#map/t?range=1,0", "#map/t?range=1", "#map/t?lang=xx", "#map/t?theme=",
  `#map/${"a".repeat(5000)}`, `#map/t?q=${"9".repeat(400)}`, `#map/t?${"x=1&".repeat(2000)}`,
];

test("what makes no sense in a link is the default", () => {
  for (const hash of HOSTILE) {
    const state = decodeView(hash, "en");
    const base = defaults("en");
    for (const [name, value] of Object.entries(state)) {
      if (name === "screen" || (name === "trace" && value === "t")) continue;
      assert.deepEqual(value, base[/** @type {keyof ViewState} */ (name)], `${hash}: ${name}`);
    }
    assert.ok(["overview", "map"].includes(state.screen), hash);
  }
});

test("a damaged link keeps what is whole in it", () => {
  const state = decodeView("#flow/t1/3.x?q=7&scale=nonsense&mass=0.5");
  assert.deepEqual([state.screen, state.trace, state.layer, state.queries, state.scale, state.mass], ["flow", "t1", null, [7, 7], "log", 0.5]);
});

const SIZE = { layers: 4, heads: 4, kv: 2, tokens: 50, prompt: 50, blind: [1], arrived: true, sink: false };

test("a layer, head or token that the trace has not is none", () => {
  const info = madeInfo(SIZE);
  const state = { ...defaults(), trace: "t" };
  assert.deepEqual(fit({ ...state, layer: 3, head: 3, queries: [0, 49] }, info), {});
  assert.deepEqual(fit({ ...state, layer: 4, head: 0 }, info), { layer: null, head: null });
  assert.deepEqual(fit({ ...state, layer: 1, head: 0 }, info), { layer: null, head: null });
  assert.deepEqual(fit({ ...state, layer: 3, head: 4 }, info), { head: null });
  assert.deepEqual(fit({ ...state, queries: [0, 50], keys: [50, 50] }, info), { queries: null, keys: null });
  assert.deepEqual(fit({ ...state, statistic: "no_such" }, info), { statistic: "entropy" });
});

test("a new screen is a new entry of the history, a moved map is not", () => {
  const place = memoryPlace();
  const store = createStore(place, { wait: 0 });
  store.set({ trace: "t1" });
  store.set({ screen: "map", layer: 1, head: 2 });
  store.set({ view: { x: 1, y: 2, pixels: 3 } });
  store.set({ view: { x: 4, y: 5, pixels: 6 } });
  store.flush();
  assert.deepEqual(place.history, ["overview?lang=en", "overview/t1?lang=en", "map/t1/1.2?view=4,5,6&lang=en"]);
  store.stop();
});

test("back and forward bring the whole view back and tell all", () => {
  const place = memoryPlace("#map/t1/1.2?q=3&lang=en");
  /** @type {() => void} */
  let changed = () => {};
  place.listen = (listener) => {
    changed = listener;
    return () => {};
  };
  const store = createStore(place, { wait: 0 });
  /** @type {(number | null)[]} */
  const seen = [];
  store.subscribe((now) => seen.push(now.layer));
  place.history.push("#map/t1/5.2?q=3&lang=en");
  changed();
  assert.deepEqual(seen, [5]);
  assert.deepEqual(store.get().queries, [3, 3]);
  store.stop();
});

test("another trace forgets the head, the tokens and the place of the map", () => {
  const store = createStore(memoryPlace(encodeView(FULL)), { wait: 0 });
  store.set({ trace: "other" });
  const { layer, head, queries, keys, view, compare, locked, palette, statistic } = store.get();
  assert.deepEqual([layer, head, queries, keys, view, compare, locked], [null, null, null, null, null, null, false]);
  assert.deepEqual([palette, statistic], ["cividis", "mean_distance"]);
  store.set({ trace: "third", layer: 2 });
  assert.equal(store.get().layer, 2);
  store.stop();
});

test("who stopped listening hears nothing, and nothing is told where nothing changed", () => {
  const store = createStore(memoryPlace(), { wait: 0 });
  let heard = 0;
  const stop = store.subscribe(() => void heard++);
  store.set({ statistic: "entropy" });
  assert.equal(heard, 0);
  store.set({ statistic: "max_weight" });
  assert.equal(heard, 1);
  stop();
  store.set({ statistic: "entropy" });
  assert.equal(heard, 1);
  store.stop();
});

test("the state cannot be changed from outside", () => {
  const store = createStore(memoryPlace(), { wait: 0 });
  assert.throws(() => Object.assign(store.get(), { trace: "x" }), TypeError);
  store.stop();
});
