// @ts-check
import assert from "node:assert/strict";
import test from "node:test";

import { checked, HandoutError, MOST_BYTES, namesOf, readHandout } from "../../../src/attnscope/serve/static/js/widgets/own/handout.js";
import { isChoice } from "../../../src/attnscope/serve/static/js/widgets/own/state.js";
import { firstHead } from "../../../src/attnscope/serve/static/js/widgets/own/source.js";
import { hiddenFrom, rowOf, windowOf } from "../../../src/attnscope/serve/static/js/widgets/own/subject.js";
import { openText } from "../../../src/attnscope/serve/static/js/widgets/own/texts.js";
import { ownOf } from "../../../src/attnscope/serve/static/js/widgets/own/registry.js";
import { WIDGETS } from "../../../src/attnscope/serve/static/js/widgets/registry.js";
import { ends, gathered, toStep, weighed } from "../../../src/attnscope/serve/static/js/widgets/math/row.js";
import { covered, maskedRow } from "../../../src/attnscope/serve/static/js/widgets/math/seen.js";
import { softmax, weigh } from "../../../src/attnscope/serve/static/js/widgets/math/softmax.js";
import { made } from "./fake_handout.js";

/** @param {string} key @param {(value: any) => void} damage */
function refuses(key, damage) {
  /** @type {any} */
  const value = structuredClone(made(4, { before: 2, sink: 0.5 }));
  damage(value);
  assert.throws(() => checked(value), (/** @type {any} */ error) => error instanceof HandoutError && error.key === key, damage.toString());
}

/** @type {import("../../../src/attnscope/serve/static/js/widgets/parts.js").Say} */
const t = (key, values = {}) => `${key} ${JSON.stringify(values)}`;

test("a handout that is right is read, and what is not asked for is dropped", () => {
  const found = readHandout(JSON.stringify({ ...made(5), more: "x" }));
  assert.deepEqual(found.names, ["␣w0", "␣w1", "␣w2", "␣w3", "␣w4"]);
  assert.deepEqual(found.words, [" w0", " w1", " w2", " w3", " w4"]);
  assert.deepEqual([found.model, found.count, found.start, found.heads.length], ["small", 5, 0, 1]);
  assert.ok(!("more" in found));
});

test("every field that is not as it must be is refused by its name", () => {
  for (const text of ["", "{", "NaN", '{"schema": NaN}', "[1,", "\u0000", "[".repeat(50_000)]) {
    assert.throws(() => readHandout(text), { key: "own.fault.json" });
  }
  for (const value of [null, 1, "x", [], {}, { schema: 1 }, { schema: "attnscope.look/1" }]) assert.throws(() => checked(value), { key: "own.fault.foreign" });
  assert.throws(() => checked({ ...made(2), schema: "attnscope.head/2" }), { key: "own.fault.version" });
  assert.throws(() => readHandout(" ".repeat(MOST_BYTES + 1)), { key: "own.fault.large" });
  const field = "own.fault.field";
  /** @type {((value: any) => void)[]} */
  const damages = [
    (v) => { v.tokens = null; }, (v) => { v.tokens.labels = []; }, (v) => { v.tokens.labels[0] = 3; }, (v) => { v.tokens.labels[0] = "\ufffd"; },
    (v) => { v.tokens.labels[0] = "x".repeat(5000); }, (v) => { v.tokens.start = 9; }, (v) => { v.tokens.start = -1; }, (v) => { v.tokens.count = 1.5; },
    (v) => { v.tokens.spans.pop(); }, (v) => { v.tokens.spans[0] = [3, 1]; }, (v) => { v.model = {}; },
    (v) => { v.heads = []; }, (v) => { v.heads = Array(17).fill(v.heads[0]); }, (v) => { v.heads[0] = null; },
    (v) => { v.heads[0].layer = "3"; }, (v) => { v.heads[0].kind = "<b>"; }, (v) => { v.heads[0].causal = 1; }, (v) => { v.heads[0].window = 0; },
    (v) => { v.heads[0].scale = "x"; }, (v) => { v.heads[0].softcap = -1; }, (v) => { v.heads[0].sink = Infinity; },
    (v) => { v.heads[0].scores.pop(); }, (v) => { v.heads[0].scores[1].pop(); }, (v) => { v.heads[0].scores[1][1] = NaN; }, (v) => { v.heads[0].scores[1][1] = 1e999; },
    (v) => { v.heads[0].weights[2][0] = -0.1; }, (v) => { v.heads[0].weights[2][0] = 1.5; }, (v) => { v.heads[0].norms[0] = -1; }, (v) => { v.heads[0].norms.push(1); },
    (v) => { v.heads[0].outside = null; }, (v) => { v.heads[0].outside.keys[0] = 1.5; }, (v) => { v.heads[0].outside.weights[0] = 2; },
    (v) => { v.heads[0].outside.arrived[0] = "1"; }, (v) => { v.heads[0].outside.logsumexp = []; }, (v) => { v.heads[0].sink_weights = null; },
    (v) => { v.all = null; }, (v) => { v.all[0].layer = 1e9; }, (v) => { v.all[0].kind = 3; }, (v) => { v.all[0].first = 2; }, (v) => { v.all[0].share = "1"; },
  ];
  for (const damage of damages) refuses(field, damage);
});

test("weights that are not the softmax of the scores are refused", () => {
  const field = "own.fault.field";
  refuses(field, (v) => { v.heads[0].scores[3][0] += 0.01; });
  refuses(field, (v) => { v.heads[0].weights[3][0] += 2e-5; });
  refuses(field, (v) => { v.heads[0].outside.logsumexp[3] = null; });
  refuses(field, (v) => { v.heads[0].sink = null; });
  refuses(field, (v) => { v.heads[0].weights[3][1] = null; });
  const blind = made(2);
  blind.heads[0].weights[0][0] = null;
  blind.heads[0].outside.weights[0] = 0.5;
  assert.throws(() => checked(blind), { key: field });
  blind.heads[0].outside.weights[0] = 0;
  checked(blind); // a row that sees nothing
});

test("script in a token's text is text", () => {
  const value = made(2);
  value.tokens.labels[0] = "<img src=x onerror=alert(1)>";
  assert.equal(checked(value).names[0], "<img src=x onerror=alert(1)>");
});

test("tokens are called so that each can be told from its neighbours", () => {
  assert.deepEqual(namesOf([" a", "b ", "\n", "\t", ""], [[0, 2], [2, 4], [4, 5], [5, 6], [6, 6]]), ["␣a", "b␣", "⏎", "⇥", "∅"]);
  // pieces of one character share its span; the first may hold the space before it
  assert.deepEqual(namesOf([" 🍎", "🍎", "🍎", "国", "国"], [[0, 5], [1, 5], [1, 5], [5, 8], [5, 8]]), ["␣🍎 1/3", "🍎 2/3", "🍎 3/3", "国 1/2", "国 2/2"]);
});

test("a row's named keys and its rest have the weights of the whole row", () => {
  for (const how of [{}, { before: 7 }, { before: 7, sink: 1.5 }, { sink: -2 }]) {
    const handout = checked(made(9, how));
    const [head] = handout.heads;
    for (const row of [0, 3, 8]) {
      const found = rowOf({ handout, head, other: head, row }, 4, t);
      const shown = weighed(found.scores, found.rest);
      found.keys.forEach((key, at) => assert.ok(Math.abs(shown[at] - Number(head.weights[row][key])) < 1e-12));
      assert.ok(Math.abs(shown.reduce((a, b) => a + b, 0) - 1) < 1e-12);
      const least = Math.min(...found.keys.map((key) => Number(head.weights[row][key])));
      const others = head.weights[row].filter((one, key) => one !== null && !found.keys.includes(key));
      assert.ok(others.every((one) => Number(one) <= least));
      assert.equal(found.sizes?.length, found.names.length);
      assert.equal(found.restSizes?.length, found.rest.length);
      const brought = [...found.sizes ?? [], ...found.restSizes ?? []].reduce((sum, size, at) => sum + size * softmax([...found.scores, ...found.rest])[at], 0);
      const wanted = head.weights[row].reduce((/** @type {number} */ sum, one, key) => sum + (one ?? 0) * (1 + key), head.outside.arrived?.[row] ?? 0);
      assert.ok(Math.abs(brought - wanted) < 1e-9);
    }
  }
});

test("a rule is applied to every score before the rest is added up", () => {
  const [scores, rest] = [[3, 1], [2, -1, 0.5]];
  const whole = weigh([...scores, ...rest], "shifted");
  assert.deepEqual(weighed(scores, rest, (all) => weigh(all, "shifted")), [whole[0], whole[1], whole[2] + whole[3] + whole[4]]);
  assert.deepEqual(gathered([1, 2], 2), [1, 2]);
  assert.deepEqual(ends([-31.2, 4], -10, 10), { min: -34, max: 10 });
  assert.equal(toStep(4.918, 0.1), 4.9);
});

test("masks change a row as they would have changed it in the model", () => {
  const [head] = checked(made(6, { before: 3, sink: 0.25 })).heads;
  const before = maskedRow(head, 2, "before");
  before.weights.forEach((one, key) => assert.ok(Math.abs(one - (head.weights[2][key] ?? 0)) < 1e-12));
  assert.ok(Math.abs(before.outside - head.outside.weights[2]) < 1e-12);
  const none = maskedRow(head, 2, "none");
  const whole = softmax([.../** @type {number[]} */ (head.scores[2]), Number(head.outside.logsumexp[2]), 0.25]);
  none.weights.forEach((one, key) => assert.ok(Math.abs(one - whole[key]) < 1e-12));
  const after = maskedRow(head, 2, "after");
  assert.deepEqual(after.weights.slice(3), [0, 0, 0]);
  assert.deepEqual(after.weights.slice(0, 3), none.weights.slice(0, 3));
  assert.equal(maskedRow(head, 2, "none", 4).weights.length, 4);
  assert.deepEqual(maskedRow({ ...head, scores: [[null]], weights: [[null]], outside: { ...head.outside, logsumexp: [null] }, sink: null }, 0, "before").weights, [0]);
});

test("what a map covers of a head's weight is a mean over its rows", () => {
  const [head] = checked(made(4)).heads;
  const all = [0, 1, 2, 3].map(() => [1, 1, 1, 1]);
  assert.ok(Math.abs(covered(head, all) - 1) < 1e-12);
  const own = [0, 1, 2, 3].map((i) => [0, 1, 2, 3].map((j) => Number(i === j)));
  const wanted = [0, 1, 2, 3].reduce((sum, i) => sum + Number(head.weights[i][i]), 0) / 4;
  assert.ok(Math.abs(covered(head, own) - wanted) < 1e-12);
  assert.equal(covered({ ...head, weights: [[null]] }, [[1]]), 0);
});

test("tokens are counted as in the whole text, of which a part is here", () => {
  const handout = checked(made(6, { before: 3 }));
  const [head] = handout.heads;
  assert.deepEqual(rowOf({ handout, head, other: head, row: 5 }, 6, t).names, ["4 ␣w0", "5 ␣w1", "6 ␣w2", "7 ␣w3", "8 ␣w4", "9 ␣w5"]);
});

test("a window of tokens holds the one that asks, and the next hidden one is found", () => {
  const handout = checked(made(20));
  const [head] = handout.heads;
  const subject = (/** @type {number} */ row) => ({ handout, head, other: head, row });
  assert.deepEqual(windowOf(subject(19), 12), [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
  assert.deepEqual(windowOf(subject(3), 12), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  assert.equal(windowOf(subject(14), 12)[11], 14);
  assert.equal(windowOf(subject(2), 40).length, 20);
  assert.deepEqual(windowOf(subject(14), 6, 2), [11, 12, 13, 14, 15, 16]);
  assert.deepEqual(windowOf(subject(19), 6, 2), [14, 15, 16, 17, 18, 19]);
  assert.equal(hiddenFrom(head, 4), 5);
  assert.equal(hiddenFrom(head, 19), null);
  // Of a sliding window's row the first keys are out of sight, too, but have come already.
  const slides = { ...head, weights: head.weights.map((row, i) => row.map((one, j) => (i - j < 3 ? one : null))) };
  assert.equal(hiddenFrom(slides, 9), 10);
  assert.equal(hiddenFrom(slides, 19), null);
});

test("a file's heads are those that it holds, and no other", async () => {
  const text = JSON.stringify(made(5, { heads: [[7, 2], [3, 1], [7, 0]] }));
  const found = await openText({ kind: "file", text }, null);
  assert.deepEqual(found.first, { layer: 7, head: 2 });
  assert.deepEqual(found.layers.map((one) => [one.index, one.heads.map((each) => each.head)]), [[3, [1]], [7, [2, 0]]]);
  const handout = await found.heads([{ layer: 3, head: 1 }, { layer: 7, head: 0 }]);
  assert.deepEqual(handout.heads.map((one) => `${one.layer}.${one.head}`), ["3.1", "7.0", "7.2"]);
  await assert.rejects(found.heads([{ layer: 1, head: 1 }]), { key: "own.fault.head" });
  await assert.rejects(openText({ kind: "trace", id: "x", start: 0 }, null), { key: "own.fault.no_server" });
});

test("a trace's heads are asked for once, and those of one part are kept together", async () => {
  /** @type {string[]} */
  const asked = [];
  /** @type {any} */
  const source = {
    layers: async () => [{ layer: { index: 3, kind: "full", keys: 9, queries: 9 }, heads: [{ layer: 3, head: 0, kind: "sink", score: 1 }, { layer: 3, head: 1, kind: "local", score: 0.6 }] }],
    traces: async () => [{ id: "mine", model: "small" }],
    head: async (/** @type {string} */ id, /** @type {number} */ layer, /** @type {number} */ head, /** @type {number} */ start) => {
      asked.push(`${id} ${layer}.${head} ${start}`);
      return checked(made(4, { heads: [[layer, head]] }));
    },
  };
  const found = await openText({ kind: "trace", id: "mine", start: 2 }, source);
  assert.deepEqual([found.model, found.first.head, found.starts], ["small", 1, { least: 0, count: 9 }]);
  await found.heads([{ layer: 3, head: 1 }]);
  const handout = await found.heads([{ layer: 3, head: 0 }, { layer: 3, head: 1 }]);
  assert.deepEqual(handout.heads.map((one) => one.head), [0, 1]);
  assert.deepEqual(asked, ["mine 3.1 2", "mine 3.0 2"]);
  // However many were looked at before, the one that is asked for is there.
  for (let head = 2; head < 12; head++) assert.equal((await found.heads([{ layer: 3, head }])).heads[0].head, head);
  await assert.rejects(openText({ kind: "trace", id: "empty", start: 0 }, { ...source, layers: async () => [] }), { key: "own.fault.no_map" });
});

test("the first head is the clearest of the kind that says most", () => {
  const heads = [["sink", 1], ["local", 0.7], ["induction", 0.5], ["induction", 0.8], ["unknown", 0]].map(([kind, score], head) => ({ layer: 0, head, kind: String(kind), score: Number(score) }));
  assert.equal(firstHead(heads).head, 3);
  assert.equal(firstHead(heads.slice(0, 2)).head, 1);
  assert.equal(firstHead([heads[4], heads[0]]).head, 0);
});

test("what a browser kept is believed only where it is a choice", () => {
  const good = { from: { kind: "trace", id: "x", start: 0 }, model: "m", layer: 1, head: 2, other: { layer: 1, head: 3 }, row: 4 };
  assert.ok(isChoice(good));
  assert.ok(isChoice({ ...good, from: { kind: "file", text: "{}" } }));
  for (const bad of [null, 3, {}, { ...good, from: { kind: "file" } }, { ...good, from: { kind: "http", id: "x", start: 0 } }, { ...good, layer: -1 }, { ...good, row: "4" }, { ...good, other: null }]) assert.ok(!isChoice(bad));
});

test("every widget that shows a row, a head or a mask has its way, and the others have none", () => {
  const own = Object.keys(WIDGETS).filter((name) => ownOf(name, {}));
  assert.deepEqual(own.sort(), ["census", "cosine", "far", "grid", "growth", "hide", "jacobian", "jobs", "lid", "mix", "mixture", "nothing", "order", "pairs", "properties", "reading", "regroup", "rules", "share", "sight", "squeeze", "still", "temperature", "weights"]);
  assert.ok(ownOf("grid", { of: "cosine" })?.needs.embeddings);
  assert.ok(!ownOf("grid", { of: "score" })?.needs.embeddings);
  assert.ok(ownOf("weights", { heads: "yes" })?.needs.two);
});
