// @ts-check
/** The flow's arithmetic: which keys hold the mass, words over tokens, pieces under characters, lines. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { breakLines, breaks, vertically } from "../../../src/attnscope/serve/static/js/screens/flow/lines.js";
import { byLayer, largest, massList, overLayers, shades } from "../../../src/attnscope/serve/static/js/screens/flow/mass.js";
import { rangeLabel, shareText } from "../../../src/attnscope/serve/static/js/screens/flow/panel.js";
import { joinedLabel } from "../../../src/attnscope/serve/static/js/parts/labels.js";
import { bytesText, find, unitOffsets, unitRange, unitsOf, visible, Words } from "../../../src/attnscope/serve/static/js/screens/flow/tokens.js";
import { halves, measureOf } from "../../../src/attnscope/serve/static/js/screens/flow/toolbar.js";
import { madeRow, madeTokens, noise } from "./fake_trace.js";

/** A table from labels; one that is a list is a character in so many pieces, "<s>" has no bytes. @param {(string | [string, number])[]} parts */
function table(...parts) {
  /** @type {import("../../../src/attnscope/serve/static/js/types.js").TokenTable} */
  const made = { text: "", ids: [], start: [], end: [], labels: [] };
  let byte = 0;
  for (const part of parts) {
    const [label, pieces] = typeof part === "string" ? [part, 1] : part;
    const bytes = label === "<s>" ? 0 : new TextEncoder().encode(label).length;
    for (let piece = 0; piece < pieces; piece++) {
      made.ids.push(made.ids.length);
      made.start.push(byte);
      made.end.push(byte + bytes);
      made.labels.push(label);
    }
    if (bytes) made.text += label;
    byte += bytes;
  }
  return made;
}

test("the listed keys are the fewest that reach the mass", () => {
  const found = massList([0.1, 0.5, 0, 0.3, 0.1], 0.8);
  assert.deepEqual(found.listed.map((one) => one.key), [1, 3]);
  assert.deepEqual([found.rest.count, found.total.toFixed(9), found.rest.weight.toFixed(9)], [2, "1.000000000", "0.200000000"]);
});

test("for made-up rows no smaller set of keys reaches the mass, and the rest is what is left", () => {
  for (let seed = 0; seed < 60; seed++) {
    const row = Float32Array.from(madeRow(seed % 4, seed % 3, 20 + seed, 90, false).row);
    const mass = 0.05 + 0.94 * noise(seed);
    const { listed, rest, total } = massList(row, mass);
    const sum = listed.reduce((all, one) => all + one.weight, 0);
    const falling = [...row].sort((a, b) => b - a);
    const before = falling.slice(0, listed.length - 1).reduce((all, one) => all + one, 0);
    assert.ok(sum >= total * mass * (1 - 1e-8) && before < total * mass);
    assert.deepEqual(listed.map((one) => one.weight), falling.slice(0, listed.length));
    assert.equal(rest.count + listed.length, row.filter((one) => one > 0).length);
    assert.ok(Math.abs(rest.weight + sum - total) < 1e-12);
  }
});

test("a learned sink leaves a row under one; the mass is then of what there is", () => {
  const { listed, total } = massList([0.2, 0.1, 0.1], 0.5);
  assert.deepEqual(listed.map((one) => one.key), [0]);
  assert.ok(Math.abs(total - 0.4) < 1e-12);
});

test("a sink that is left out counts neither as a key nor in the total", () => {
  const { listed, total } = massList([0.8, 0.15, 0.05], 0.7, { from: 1 });
  assert.deepEqual(listed.map((one) => one.key), [1]);
  assert.ok(Math.abs(total - 0.2) < 1e-12);
});

test("rows of nothing, of one key, of ties, and the whole mass", () => {
  assert.deepEqual(massList([0, 0], 0.9), { listed: [], reached: 0, rest: { count: 0, weight: 0 }, total: 0 });
  assert.equal(massList([1], 0.9).listed.length, 1);
  assert.deepEqual(massList([0.25, 0.25, 0.25, 0.25], 0.5).listed.map((one) => one.key), [0, 1]);
  assert.equal(massList([0.3, 0.3, 0.4], 1).listed.length, 3);
  assert.deepEqual(massList([NaN, 1], 0.9).listed.map((one) => one.key), [1]);
});

test("shades are measured by the largest weight beyond the sink", () => {
  const made = shades([0.9, 0.04, 0.01, 0], 1);
  assert.deepEqual([...made].map((one) => Number(one.toFixed(4))), [1, 1, 0.5, 0]);
  assert.deepEqual([...shades([0.5, 0], 1)], [1, 0]);
  assert.deepEqual([...shades([0, 0], 0)], [0, 0]);
});

const FLOW = { layers: [0, 2], keys: 3, weights: Float32Array.of(0.5, 0.5, 0, 0.25, 0.25, 0.5), arrived: Float32Array.of(1, 2, 0, 3, 4, 5) };

test("over layers and heads both the weights and what arrived are averaged", () => {
  const heads = (/** @type {number} */ layer) => (layer === 0 ? 1 : 2);
  assert.deepEqual(overLayers(FLOW, null, heads), { weights: Float32Array.of(0.375, 0.375, 0.25), arrived: Float32Array.of(1.25, 2, 1.25) });
  assert.deepEqual(overLayers(FLOW, 2, heads), { weights: Float32Array.of(0.25, 0.25, 0.5), arrived: Float32Array.of(1.5, 2, 2.5) });
  assert.equal(overLayers(FLOW, 1, heads), null);
  assert.equal(overLayers({ ...FLOW, layers: [] }, null, heads), null);
  const partly = { ...FLOW, arrived: Float32Array.of(NaN, NaN, NaN, 3, 4, 5) };
  assert.equal(overLayers(partly, null, heads)?.arrived, null, "a layer that does not know it");
  assert.deepEqual(overLayers(partly, 2, heads)?.arrived, Float32Array.of(1.5, 2, 2.5));
  assert.deepEqual(byLayer(FLOW, [1, 2]), [0.5, 0.75]);
});

test("the largest entries come in order and none is zero", () => {
  const values = Float32Array.from({ length: 500 }, (_, i) => noise(i));
  const sorted = [...values.keys()].sort((a, b) => values[b] - values[a]);
  assert.deepEqual(largest(values, 7), sorted.slice(0, 7));
  assert.deepEqual(largest([0, 3, 0, 2], 5), [1, 3]);
  assert.deepEqual(largest([9, 3, 1], 1, 1), [1]);
});

test("pieces of one character are one unit; tokens without bytes are each their own", () => {
  const made = table("<s>", "<s>", "a", ["国", 3], ["国", 3], " b");
  const units = unitsOf(made);
  assert.deepEqual([...units.first], [0, 1, 2, 3, 6, 9]);
  assert.deepEqual(unitRange(units, 3), { first: 3, last: 5 });
  assert.deepEqual(unitRange(units, 5), { first: 9, last: 9 });
});

test("a piece that holds the space before a character is one unit with the other pieces", () => {
  const made = { text: "a 国，b", ids: [0, 1, 2, 3, 4], start: [0, 1, 2, 2, 8], end: [1, 5, 5, 8, 9], labels: ["a", " 国", "国", "国，", "b"] };
  const units = unitsOf(made);
  assert.deepEqual([...units.first], [0, 1, 4]);
  assert.equal(joinedLabel(made, 1, 3), " 国，");
  assert.equal(joinedLabel(made, 0, 4), made.text);
  assert.equal(joinedLabel(madeTokens(300), 0, 299), madeTokens(300).text);
});

test("byte offsets become places in a string, also beyond the basic plane", () => {
  const text = "aé国👩🏽‍🔬z";
  const bytes = [0, 1, 3, 6, 10, text.length, 21, 22];
  const expected = bytes.map((at) => Buffer.from(text, "utf8").subarray(0, at).toString("utf8")).map((one) => one.length);
  for (const at of [0, 1, 3, 6, 10, 14]) {
    assert.equal(unitOffsets(text, [at])[0], expected[bytes.indexOf(at)] ?? Buffer.from(text).subarray(0, at).toString().length);
  }
});

test("a token's bytes are those of its span", () => {
  const made = table("é", ["国", 3]);
  assert.equal(bytesText(made.text, made.start[1], made.end[1]), "E5 9B BD");
  assert.equal(bytesText(made.text, 0, 0), "");
  assert.deepEqual([[2, 3], [3, 5], [0, 1], [1, 4]].map(([from, to]) => bytesText("é国👩", from, to)), ["E5", "9B BD", "C3", "A9 E5 9B"]);
  assert.deepEqual([[5, 7], [7, 9]].map(([from, to]) => bytesText("é国👩", from, to)), ["F0 9F", "91 A9"]);
});

test("a word is all tokens of it, with the space before it, in both languages", () => {
  const made = table("<s>", "The", " app", "le", " is", " here", ".", "小", "明", "给", "了", ["苹", 2], "果", "。");
  const words = new Words(made, "zh");
  assert.deepEqual(words.around(1), { first: 1, last: 1 });
  assert.deepEqual(words.around(2), { first: 2, last: 3 });
  assert.deepEqual(words.around(3), { first: 2, last: 3 });
  assert.deepEqual(words.around(12), { first: 11, last: 13 });
  assert.deepEqual(words.around(0), { first: 0, last: 0 });
  assert.deepEqual(words.next({ first: 1, last: 1 }, 1), { first: 2, last: 3 });
  assert.deepEqual(words.next({ first: 2, last: 3 }, -1), { first: 1, last: 1 });
  assert.equal(words.next({ first: 0, last: 0 }, -1), null);
  assert.equal(words.next({ first: 14, last: 14 }, 1), null);
});

test("going word by word visits every token once, there and back", () => {
  const made = madeTokens(400);
  const words = new Words(made, "en");
  let word = words.around(0);
  const seen = [word];
  for (let next = words.next(word, 1); next; next = words.next(word, 1)) {
    assert.equal(next.first, word.last + 1);
    seen.push((word = next));
  }
  assert.equal(word.last, 399);
  for (let at = seen.length - 2; at >= 0; at--) assert.deepEqual(words.next(seen[at + 1], -1), seen[at]);
});

test("a text is found over tokens, from a place on and then from the beginning", () => {
  const made = table("The", " app", "le", " is", ["国", 3], " Apple", "s");
  assert.deepEqual(find(made, "apple", -1), { first: 1, last: 2 });
  assert.deepEqual(find(made, "apple", 2), { first: 7, last: 7 });
  assert.deepEqual(find(made, "APPLE", 7), { first: 1, last: 2 });
  assert.deepEqual(find(made, "国", -1), { first: 4, last: 6 });
  assert.equal(find(made, "pear", -1), null);
  assert.equal(find(made, "a.p", -1), null);
  assert.equal(find(made, "", -1), null);
});

test("nothing in a list of tokens is invisible", () => {
  assert.deepEqual(["a b", " a", "\n", "\t", "\u200b", "\u0301", "", "\u202e", "👩🏽‍🔬", "<b>"].map(visible),
    ["a b", "␣a", "↵", "⇥", "U+200B", "◌\u0301", "∅", "U+202E", "👩🏽‍🔬", "<b>"]);
});

test("the name of a range has each character once and is not too long", () => {
  const made = table("The", ["国", 3], " app");
  assert.equal(rangeLabel(made, 0, 4), "The国 app");
  assert.equal([...rangeLabel(table("x".repeat(300)), 0, 0)].length, 45);
});

test("lines are filled, hold every unit once, and break where words begin", () => {
  const labels = "The quick brown fox jumps over the lazy dog and the cat\n小明把苹果给了小王。\n\nend".match(/ ?\w+|\n|./gu) ?? [];
  const widths = labels.map((label) => label.replace("\n", "").length * 10);
  for (const room of [90, 120, 200, 1000]) {
    const { first, x, line } = breakLines(labels, widths, room);
    for (let unit = 0; unit < labels.length; unit++) {
      const start = first[line[unit]];
      assert.ok(unit >= start && (line[unit] + 1 >= first.length || unit < first[line[unit] + 1]));
      assert.equal(x[unit], widths.slice(start, unit).reduce((sum, one) => sum + one, 0));
      if (unit > start) assert.ok(x[unit] + widths[unit] <= room || !labels.slice(start + 1, unit + 1).some((label, i) => breaks(labels[start + i], label)));
      if (unit > start) assert.ok(!labels[unit - 1].endsWith("\n"));
    }
  }
});

test("a unit wider than a line has a line of its own, and an empty text has none", () => {
  assert.deepEqual([...breakLines(["a", "b".repeat(50), "c"], [10, 500, 10], 100).first], [0, 1, 2]);
  assert.equal(breakLines([], [], 100).first.length, 0);
});

test("up and down go to the unit at the same place", () => {
  const labels = Array.from({ length: 12 }, (_, i) => ` w${i}`);
  const lines = breakLines(labels, labels.map(() => 30), 95);
  assert.equal(vertically(lines, 1, 1), 4);
  assert.equal(vertically(lines, 4, -1), 1);
  assert.equal(vertically(lines, 1, -1), 1);
  assert.equal(vertically(lines, 10, 5), 10);
});

test("the work of breaking 32,768 tokens into lines does not grow with their square", () => {
  const made = madeTokens(32768);
  const units = unitsOf(made);
  const labels = Array.from(units.first, (token) => made.labels[token]);
  const widths = labels.map((label) => 8 * label.length);
  const before = performance.now();
  const { first } = breakLines(labels, widths, 800);
  // About 10 ms on a quiet machine; a billion steps would take seconds on any.
  assert.ok(performance.now() - before < 1000);
  assert.ok(first.length > 1000);
});

test("a measure is its two halves", () => {
  assert.deepEqual(halves("arrived-no-sink"), { shade: "arrived", noSink: true });
  assert.deepEqual(halves("uniform"), { shade: "weight", noSink: false });
  for (const measure of /** @type {const} */ (["weight", "arrived", "weight-no-sink", "arrived-no-sink"])) {
    const { shade, noSink } = halves(measure);
    assert.equal(measureOf(shade, noSink), measure);
  }
});

test("a chosen share is written without needless digits", () => {
  assert.deepEqual([0.9, 0.955, 1].map(shareText), ["90 %", "95.5 %", "100 %"]);
});

test("bytes become places at every length that UTF-8 has", () => {
  const text = "\u007f\u0080\u07ff\u0800\uffff\u{10000}x";
  assert.deepEqual([...unitOffsets(text, [0, 1, 3, 5, 8, 11, 15, 16])], [0, 1, 2, 3, 4, 5, 7, 8]);
});

test("weights of nothing shade nothing", () => {
  assert.deepEqual([...shades([0, 0, 0], 1)], [0, 0, 0]);
});

test("a line may be broken between scripts, on either side of a character that is a word", () => {
  assert.deepEqual([["a", "国"], ["国", "a"], ["国", "王"], ["a", "b"], ["国", "。"], ["（", "国"], ["a-", "b"], ["a", " b"], ["", "国"]]
    .map(([before, label]) => breaks(before, label)), [true, true, true, false, false, false, true, true, true]);
});
