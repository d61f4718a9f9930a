// @ts-check
import assert from "node:assert/strict";
import test from "node:test";

import { checked, HandoutError } from "../../../src/attnscope/serve/static/js/widgets/own/handout.js";
import { choice, choose } from "../../../src/attnscope/serve/static/js/widgets/own/state.js";
import { centred } from "../../../src/attnscope/serve/static/js/widgets/math/embeddings.js";
import { rotate, scoresAt } from "../../../src/attnscope/serve/static/js/widgets/math/places.js";
import { joint, meanScores } from "../../../src/attnscope/serve/static/js/widgets/math/row.js";
import { madeWhole } from "./fake_handout.js";

/** @param {string} field @param {(value: any) => void} damage */
function refuses(field, damage) {
  /** @type {any} */
  const value = structuredClone(madeWhole(6));
  damage(value);
  assert.throws(() => checked(value), (/** @type {any} */ error) => error instanceof HandoutError && error.values.field === field, damage.toString());
}

test("embeddings and turned queries and keys are read; what else stands there is dropped", () => {
  const value = madeWhole(6);
  Object.assign(value.embeddings, { more: 1 });
  Object.assign(value.heads[0].rotary, { more: 1 });
  const found = checked(value);
  assert.deepEqual(Object.keys(found.embeddings ?? {}), ["norms", "cosines"]);
  assert.deepEqual(Object.keys(found.heads[0].rotary ?? {}), ["turns", "q", "k"]);
  for (const softcap of [0.5, 30]) assert.ok(checked(madeWhole(7, { softcap, before: 4 })).heads[0].rotary);
});

test("a file without them is read, and says whether they are unknown or not written yet", () => {
  for (const none of [null, undefined]) {
    /** @type {any} */
    const value = madeWhole(5);
    value.embeddings = none;
    value.heads[0].rotary = none;
    const found = checked(value);
    assert.deepEqual([found.embeddings, found.heads[0].rotary], [none, none]);
  }
});

test("embeddings that no vectors have are refused", () => {
  for (const norms of [null, [], [1, 1, 0, 1, 1], ["1", 1, 0, 1, 1, 1], [1, -1, 0, 1, 1, 1], [1, 1, 0, 1, 1, Infinity]]) refuses("embeddings.norms", (v) => { v.embeddings.norms = norms; });
  refuses("embeddings.norms", (v) => { v.embeddings = []; });
  refuses("embeddings.norms", (v) => { v.embeddings = "x"; });
  for (const one of [1.1, -2, NaN, "0", {}]) refuses("embeddings.cosines", (v) => { v.embeddings.cosines[1][3] = v.embeddings.cosines[3][1] = one; });
  refuses("embeddings.cosines", (v) => { v.embeddings.cosines.pop(); });
  refuses("embeddings.cosines", (v) => { v.embeddings.cosines[1].pop(); });
  refuses("embeddings.cosines[1]", (v) => { v.embeddings.cosines[1][3] += v.embeddings.cosines[1][3] > 0 ? -0.01 : 0.01; });
  refuses("embeddings.cosines[3]", (v) => { v.embeddings.cosines[3][3] = 0.999; });
  refuses("embeddings.cosines[0]", (v) => { v.embeddings.cosines[0][1] = v.embeddings.cosines[1][0] = null; });
  refuses("embeddings.cosines[0]", (v) => { v.embeddings.norms[2] = 1; });
  refuses("embeddings.cosines[0]", (v) => { v.embeddings.cosines[0][2] = v.embeddings.cosines[2][0] = 0.5; });
});

test("queries and keys that are none are refused", () => {
  const field = "heads[0].rotary.turns";
  for (const turns of [null, [1, 2, 3, 4], [1, NaN], ["1"], {}]) refuses(field, (v) => { v.heads[0].rotary.turns = turns; });
  for (const name of ["q", "k"]) {
    const where = `heads[0].rotary.${name}`;
    refuses(where, (v) => { v.heads[0].rotary[name].pop(); });
    refuses(where, (v) => { v.heads[0].rotary[name][3].pop(); });
    refuses(where, (v) => { v.heads[0].rotary[name][3][0] = "1"; });
    refuses(where, (v) => { v.heads[0].rotary[name][3][0] = Infinity; });
    refuses("heads[0].rotary", (v) => { v.heads[0].rotary[name][3][0] = 1e200; });
  }
  for (const q of [null, [], [[]], "abc", [{ length: 6 }]]) refuses("heads[0].rotary.q", (v) => { v.heads[0].rotary.q = q; });
  refuses("heads[0].rotary.q", (v) => { v.heads[0].rotary = 3; });
  refuses("heads[0].rotary", (v) => { v.heads[0].scale = 1e308; });
});

test("scores that are not made of the queries and keys are found, whatever was changed", () => {
  /** @param {(head: any) => void} change */
  const biased = (change) => {
    /** @type {any} */
    const value = structuredClone(madeWhole(6, { softcap: 9 }));
    change(value.heads[0]);
    return checked(value).heads[0].biased;
  };
  assert.equal(biased(() => {}), false);
  assert.equal(biased((head) => { head.rotary.turns = []; }), false, "a layer that turns nothing");
  assert.equal(biased((head) => { head.scores[1][3] = null; }), false, "a pair behind minus infinity");
  for (const name of ["q", "k"]) for (const at of [0, 5]) assert.equal(biased((head) => { head.rotary[name][3][at] += 0.001; }), true, `${name} ${at}`);
  assert.equal(biased((head) => { head.scores[1][3] += 0.001; }), true);
  assert.equal(biased((head) => { head.softcap = 9.1; }), true);
  assert.equal(biased((head) => { head.scale = 0.1251; }), true);
});

test("what all have in common is taken away, and nothing of it stays", () => {
  const { norms, cosines } = madeWhole(6).embeddings;
  const found = centred(norms, cosines);
  found.forEach((row, i) => row.forEach((one, j) => assert.ok(Math.abs(Number(one) - Number(found[j][i])) < 1e-12)));
  assert.equal(found[0][4], found[4][0]);
  assert.ok(Math.abs(Number(found[0][4]) - 1) < 1e-12, "the same token");
  assert.ok(Number.isFinite(found[2][0]), "all zeros has a direction from the mean");
  assert.deepEqual(centred([2], [[1]]), [[null]]);
  assert.deepEqual(centred([2, 2], [[1, 1], [1, 1]]), [[null, null], [null, null]]);
  assert.deepEqual(centred([0, 0], [[null, null], [null, null]]), [[null, null], [null, null]]);
});

test("a key put where it stood scores as it did, and distance alone counts elsewhere", () => {
  const head = checked(madeWhole(8, { softcap: 6 })).heads[0];
  const rotary = /** @type {import("../../../src/attnscope/serve/static/js/widgets/own/handout.js").Rotary} */ (head.rotary);
  const keys = [0, 1, 2, 3, 4, 5, 6, 7];
  const here = scoresAt({ ...head, rotary }, [6, 6], keys.map((key) => [key, key]));
  here.forEach((one, key) => assert.ok(Math.abs(one - Number(head.scores[6][key])) < 1e-12));
  const there = scoresAt({ ...head, rotary }, [6, 706], keys.map((key) => [key, key + 700]));
  here.forEach((one, key) => assert.ok(Math.abs(one - there[key]) < 1e-10));
  const [moved] = scoresAt({ ...head, rotary }, [6, 6], [[2, 3]]);
  assert.ok(Math.abs(moved - here[2]) > 0.01);
  // Turned back to one place, whatever place that is.
  const untold = [0, 55].map((place) => scoresAt({ ...head, rotary }, [6, place], [[2, place]])[0]);
  assert.ok(Math.abs(untold[0] - untold[1]) < 1e-12);
  assert.deepEqual(rotate([1, 2, 3, 4, 5, 6], 0, [1, 0.01]), [1, 2, 3, 4, 5, 6]);
});

test("rows meet in their mean where both see a key, and in one of them elsewhere", () => {
  assert.deepEqual(meanScores([[1, null, 4, null], [3, 5, null, null]]), [2, 5, 4, -Infinity]);
  assert.ok(Math.abs(joint([1, 1, 1]) - (1 + Math.log(3))) < 1e-12);
  assert.equal(joint([]), -Infinity);
  assert.equal(joint([-Infinity, 2]), 2);
  assert.equal(joint([900, -Infinity]), 900);
});

test("a browser without room keeps no older text in the place of the new one", () => {
  /** @type {Map<string, string>} */
  const kept = new Map();
  let room = 1e9;
  const storage = {
    getItem: (/** @type {string} */ name) => kept.get(name) ?? null,
    removeItem: (/** @type {string} */ name) => void kept.delete(name),
    setItem: (/** @type {string} */ name, /** @type {string} */ text) => {
      if (text.length > room) throw new Error("QuotaExceededError");
      kept.set(name, text);
    },
  };
  Object.assign(globalThis, { window: { sessionStorage: storage } });
  const of = (/** @type {number} */ size) => ({ from: { kind: /** @type {const} */ ("file"), text: "x".repeat(size) }, model: "m", layer: 0, head: 0, other: { layer: 0, head: 1 }, row: 3 });
  assert.equal(choose(of(10)), true);
  assert.equal(kept.size, 1);
  assert.equal(choose(of(4_000_000)), true, "some heads of 256 numbers");
  room = 3_000_000;
  assert.equal(choose(of(4_000_000)), false);
  assert.equal(kept.size, 0);
  room = 1e9;
  assert.equal(choose(of(10)), true);
  assert.equal(choose(of(5_000_000)), false);
  assert.equal(kept.size, 0);
  assert.equal(choice()?.from.kind, "file");
  Reflect.deleteProperty(globalThis, "window");
});
