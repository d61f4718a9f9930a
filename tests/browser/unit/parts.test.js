// @ts-check
/** Numbers, links, focus and the other small parts. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { debounce, safeLink } from "../../../src/attnscope/serve/static/js/parts/dom.js";
import { along } from "../../../src/attnscope/serve/static/js/parts/focus.js";
import { count, DASH, percent, signed, significant, statisticText } from "../../../src/attnscope/serve/static/js/parts/numbers.js";
import { once } from "../../../src/attnscope/serve/static/js/parts/remember.js";
import { inOrder } from "../../../src/attnscope/serve/static/js/parts/statistics.js";
import { faultOf } from "../../../src/attnscope/serve/static/js/screens/home/job.js";

test("shares are written as percent that line up", () => {
  const cases = /** @type {[number, string][]} */ ([[0, "0 %"], [1, "100 %"], [0.2137, "21.4 %"], [0.12, "12.0 %"], [0.0021, "0.21 %"], [0.00003, "<0.01 %"], [0.9999, "100.0 %"], [NaN, DASH], [Infinity, DASH]]);
  for (const [value, text] of cases) assert.equal(percent(value), text);
  assert.equal(percent(null), DASH);
});

test("numbers keep three digits and a true minus sign", () => {
  const cases = /** @type {[number, string][]} */ ([[0, "0"], [1.2345, "1.23"], [-12.345, "−12.3"], [1234.5, "1,235"], [0.01234, "0.0123"], [0.0000123, "1.23e−5"], [-0, "0"], [1e12, "1.00e12"]]);
  for (const [value, text] of cases) assert.equal(significant(value), text);
  assert.equal(signed(-0.001, 2), "0.00");
  assert.equal(count(32768), "32,768");
  assert.equal(count(undefined), DASH);
  assert.deepEqual([1e-4, 9.99e-5, 999999999, 1e9].map((value) => significant(value)), ["0.000100", "9.99e−5", "999,999,999", "1.00e9"]);
});

test("a statistic is written in its own unit", () => {
  assert.equal(statisticText("sink_mass", 0.5), "50.0 %");
  assert.equal(statisticText("max_weight", 0.5), "50.0 %");
  assert.equal(statisticText("entropy", 0.5), "0.500");
});

test("a link that would run a script is refused, however it is written", () => {
  for (const link of ["javascript:alert(1)", " JAVASCRIPT:x", "java\nscript:x", "\u0001javascript:x", "vbscript:x", "data:text/html,<script>", "file:///etc/passwd"]) {
    assert.equal(safeLink(link), false, link);
  }
  for (const link of ["#map/t", "./x", "/a:b", "https://x", "blob:http://x/1", "data:image/png;base64,AA", "?a=b:c"]) assert.equal(safeLink(link), true, link);
});

test("arrows, Home and End move in a line, other keys do not", () => {
  assert.deepEqual(["ArrowRight", "ArrowLeft", "Home", "End", "x"].map((key) => along(key, 0, 4)), [1, 3, 0, 3, null]);
  assert.equal(along("Home", 0, 0), null);
});

test("a debounced call is made once, with the last arguments, and can be hurried or dropped", async () => {
  /** @type {number[]} */
  const calls = [];
  const later = debounce((/** @type {number} */ value) => calls.push(value), 5);
  later(1);
  later(2);
  await new Promise((done) => setTimeout(done, 30));
  assert.deepEqual(calls, [2]);
  later(3);
  later.now();
  later(4);
  later.stop();
  await new Promise((done) => setTimeout(done, 30));
  assert.deepEqual(calls, [2, 3]);
});

test("what never changes is asked once, and again only where it failed", async () => {
  let asked = 0;
  const ask = once(async (trace) => {
    asked++;
    if (trace === "bad" && asked < 3) throw new Error("not yet");
    return trace;
  });
  assert.equal(await ask("a"), "a");
  assert.equal(await ask("a"), "a");
  assert.equal(asked, 1);
  await assert.rejects(ask("bad"));
  assert.equal(await ask("bad"), "bad");
  assert.equal(asked, 3);
});

test("statistics that readers ask for come first, and none of the trace's is lost", () => {
  assert.deepEqual(inOrder(["mine", "logsumexp", "entropy"]), ["entropy", "logsumexp", "mine"]);
});

test("what cannot be captured is said before it is sent", () => {
  const good = { text: "a", model: "m", generate: 0 };
  assert.equal(faultOf(good), null);
  assert.equal(faultOf({ ...good, text: " \n" }), "home.fault.empty");
  assert.equal(faultOf({ ...good, text: "国".repeat(333_334) }), "home.fault.long");
  assert.equal(faultOf({ ...good, model: "" }), "home.fault.model");
  for (const generate of [-1, 0.5, NaN, 5000]) assert.equal(faultOf({ ...good, generate }), "home.fault.generate");
});
