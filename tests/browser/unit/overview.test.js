// @ts-check
/** The overview's order and geometry: every head once, none over another, from 4 to 100 layers. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { brackets, colourOf } from "../../../src/attnscope/serve/static/js/screens/overview/draw.js";
import { arrange, CELL, cellAt, cellOf, ends, kvHead, ranked, sections, step } from "../../../src/attnscope/serve/static/js/screens/overview/layout.js";
import { madeHeads, madeInfo } from "./fake_trace.js";

/** @typedef {import("../../../src/attnscope/serve/static/js/types.js").HeadRow} HeadRow */

const SIZES = [[4, 4, 4], [30, 9, 3], [12, 16, 1], [100, 128, 8], [26, 4, 1]];
const SORTS = /** @type {const} */ (["layer", "statistic", "kind"]);
const BOXES = [{ width: 900, height: 600 }, { width: 340, height: 500 }, { width: 3000, height: 2000 }];

/** @param {number} layers @param {number} heads @param {number} kv @param {number[]} [blind] */
function made(layers, heads, kv, blind = []) {
  const size = { layers, heads, kv, tokens: 64, prompt: 64, blind, arrived: true, sink: false };
  return { info: madeInfo(size), heads: madeHeads(size) };
}

/** @param {number} layer @param {number} head @param {number} value @param {string} [kind] @returns {HeadRow} */
const row = (layer, head, value, kind = "mixed") => ({ layer, head, kind, score: 0, statistics: { entropy: value } });

test("heads are ranked by a statistic, ties by place, what has no value last", () => {
  const heads = [row(1, 0, 2), row(0, 1, 3), row(0, 0, NaN), row(0, 2, 2), row(2, 0, 2)];
  assert.deepEqual(ranked(heads, "entropy").map((one) => [one.layer, one.head]), [[0, 1], [0, 2], [1, 0], [2, 0], [0, 0]]);
  assert.deepEqual(ranked(heads, "absent").map((one) => one.layer), [0, 0, 0, 1, 2]);
});

test("in the order of layers every layer is there, also one without a map", () => {
  const { info, heads } = made(4, 3, 3, [2]);
  const parts = sections(info.layers, [...heads].reverse(), { sort: "layer", statistic: "entropy", top: 1 });
  assert.deepEqual(parts.map((part) => part.heads.map((one) => one.head)), [[0, 1, 2], [0, 1, 2], [], [0, 1, 2]]);
  assert.equal(parts[2].layer?.reason, "a recurrent layer: its state has no attention map");
});

test("the other orders hold the first so many heads by the statistic", () => {
  const { info, heads } = made(6, 4, 2);
  const best = ranked(heads, "entropy").slice(0, 5);
  assert.deepEqual(sections(info.layers, heads, { sort: "statistic", statistic: "entropy", top: 5 }).map((part) => part.heads), [best]);
  const kinds = sections(info.layers, heads, { sort: "kind", statistic: "entropy", top: 5 });
  assert.deepEqual(kinds.flatMap((part) => part.heads).sort((a, b) => b.statistics.entropy - a.statistics.entropy), best);
  for (const part of kinds) assert.ok(part.heads.every((one) => one.kind === part.kind));
});

test("a kind that only the trace knows has a section too", () => {
  const parts = sections([], [row(0, 0, 1, "sink"), row(0, 1, 1, "strange")], { sort: "kind", statistic: "entropy", top: null });
  assert.deepEqual(parts.map((part) => part.kind), ["sink", "strange"]);
});

test("no two cells meet, all are in the field, each is found where it stands", () => {
  for (const [layers, many, kv] of SIZES) {
    const { info, heads } = made(layers, many, kv, [1]);
    for (const sort of SORTS) for (const box of BOXES) {
      const layout = arrange(sections(info.layers, heads, { sort, statistic: "entropy", top: null }), { ...box, label: 80 });
      assert.equal(layout.cells.length, heads.length);
      for (const { first, end, y, height } of layout.rows) {
        for (let index = first; index < end; index++) {
          const cell = layout.cells[index];
          assert.equal(cell.y, y);
          assert.ok(cell.width >= CELL.least && cell.width <= CELL.most && height >= CELL.lowest && height <= CELL.highest);
          assert.ok(cell.x >= 80 && cell.x + cell.width <= layout.width && y + height <= layout.height);
          if (index > first) assert.ok(cell.x >= layout.cells[index - 1].x + layout.cells[index - 1].width);
        }
      }
      for (let at = 1; at < layout.rows.length; at++) assert.ok(layout.rows[at].y >= layout.rows[at - 1].y + layout.rows[at - 1].height);
      for (let index = 0; index < layout.cells.length; index += 97) {
        const cell = layout.cells[index];
        assert.equal(cellAt(layout, cell.x + cell.width / 2, cell.y + cell.height / 2), index);
        assert.equal(cellOf(layout, cell.head.layer, cell.head.head), index);
      }
      assert.equal(cellAt(layout, 5, 5), -1);
    }
  }
});

test("the rows fit the width wherever cells need not shrink below the least", () => {
  for (const [many, kv] of [[9, 3], [24, 8], [40, 40]]) {
    const { info, heads } = made(30, many, kv);
    for (const sort of SORTS) {
      assert.ok(arrange(sections(info.layers, heads, { sort, statistic: "entropy", top: null }), { width: 900, height: 600, label: 80 }).width <= 900);
    }
    // In layers no room is given away: one more pixel for each cell would not fit.
    const { cells } = arrange(sections(info.layers, heads, { sort: "layer", statistic: "entropy", top: null }), { width: 900, height: 600, label: 80 });
    const last = cells[many - 1];
    assert.ok(cells[0].width === CELL.most || last.x + last.width + many > 900, `${many} heads`);
  }
});

test("query heads that share a KV head stand under one bracket, and only they", () => {
  const { info, heads } = made(3, 6, 2, [1]);
  const layout = arrange(sections(info.layers, heads, { sort: "layer", statistic: "entropy", top: null }), { width: 900, height: 600, label: 80 });
  const found = brackets(layout);
  assert.deepEqual(found.map(({ layer, kv }) => [layer, kv]), [[0, 0], [0, 1], [2, 0], [2, 1]]);
  for (const { layer, kv, left, right } of found) {
    const under = layout.cells.filter((cell) => cell.head.layer === layer && cell.x >= left && cell.x + cell.width <= right);
    assert.deepEqual(under.map((cell) => cell.head.head), kv === 0 ? [0, 1, 2] : [3, 4, 5]);
  }
  const alone = made(3, 4, 4);
  const plain = arrange(sections(alone.info.layers, alone.heads, { sort: "layer", statistic: "entropy", top: null }), { width: 900, height: 600, label: 80 });
  assert.deepEqual(brackets(plain), []);
});

test("the KV head of a query head is that of its group", () => {
  const { info } = made(1, 9, 3);
  assert.deepEqual([0, 2, 3, 8].map((head) => kvHead(info.layers[0], head)), [0, 0, 1, 2]);
});

test("arrows go to the neighbour and stop at the ends; up and down skip layers without a map", () => {
  const { info, heads } = made(4, 5, 5, [1]);
  const layout = arrange(sections(info.layers, heads, { sort: "layer", statistic: "entropy", top: null }), { width: 900, height: 600, label: 80 });
  const at = /** @param {number} layer @param {number} head */ (layer, head) => cellOf(layout, layer, head);
  assert.equal(step(layout, at(0, 2), "ArrowRight"), at(0, 3));
  assert.equal(step(layout, at(0, 4), "ArrowRight"), at(0, 4));
  assert.equal(step(layout, at(0, 0), "ArrowLeft"), at(0, 0));
  assert.equal(step(layout, at(0, 2), "ArrowDown"), at(2, 2));
  assert.equal(step(layout, at(2, 2), "ArrowUp"), at(0, 2));
  assert.equal(step(layout, at(3, 2), "ArrowDown"), at(3, 2));
  assert.equal(step(layout, at(0, 2), "Home"), at(0, 0));
  assert.equal(step(layout, at(0, 2), "End"), at(0, 4));
  assert.equal(step(layout, at(0, 2), "PageDown"), at(3, 2));
  assert.equal(step(layout, at(0, 2), "x"), null);
  assert.equal(step(layout, -1, "ArrowDown"), null);
});

test("shares are coloured from 0, other statistics from their least value", () => {
  const heads = [row(0, 0, 2), row(0, 1, 5), row(0, 2, NaN)].map((one) => ({ ...one, statistics: { entropy: one.statistics.entropy, sink_mass: 0.5 } }));
  assert.deepEqual(ends(heads, "entropy"), [2, 5]);
  assert.deepEqual(ends(heads, "sink_mass"), [0, 0.5]);
  assert.deepEqual(ends([], "entropy"), [0, 1]);
  assert.deepEqual(ends([row(0, 0, 3)], "entropy"), [3, 4]);
  assert.deepEqual([2, 5, 9, 3.5, NaN, undefined].map((value) => colourOf(value, [2, 5])), [0, 255, 255, 128, -1, -1]);
});

test("a hundred layers of 128 heads are laid out without comparing each with each", () => {
  const { info, heads } = made(100, 128, 8);
  const before = performance.now();
  arrange(sections(info.layers, heads, { sort: "layer", statistic: "entropy", top: null }), { width: 1200, height: 800, label: 80 });
  // About 10 ms on a quiet machine; 12,800 squared steps would take seconds on any.
  assert.ok(performance.now() - before < 1000);
});
