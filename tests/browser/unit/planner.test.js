// @ts-check
/** The planner's page without a page: its view in the address, its axes, its words. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { axes, different, places } from "../../../src/attnscope/serve/static/js/planner/plot.js";
import { compact, question, readView, START, written } from "../../../src/attnscope/serve/static/js/planner/view.js";
import { wording } from "../../../src/attnscope/serve/static/js/planner/words.js";
import { enPlanner } from "../../../src/attnscope/serve/static/js/text/en/planner.js";
import { zhPlanner } from "../../../src/attnscope/serve/static/js/text/zh/planner.js";

const ROOT = join(import.meta.dirname, "../../../src/attnscope/serve/static/js");

test("a view is written into the address and read again", () => {
  assert.equal(written(START).fragment, "");
  assert.deepEqual(readView(""), START);
  const config = '{ "model_type": "llama", "name": "a \\" b  c",\n "hidden_size": 12345678901234567890 }';
  for (const part of [
    { model: "gemma-3-27b", room: "80GiB", heads: "4,8" },
    { model: "config.json", config, versus: "国&=#.json", other: config, assume: true },
    { context: "", batch: "", weights: "", room: "" },
    { context: "1000000", dtype: "int4" },
    { form: "fp16", device: "b200", window: "512", share: "1/6" },
  ]) {
    const view = { ...START, ...part };
    const { fragment, whole } = written(view);
    assert.ok(whole);
    const again = readView(`#${fragment}`);
    assert.deepEqual(again, { ...view, config: compact(view.config), other: compact(view.other) });
  }
});

test("a config loses its spaces in the address and nothing else", () => {
  assert.equal(compact('{ "a b" : [1.50, 12345678901234567890,\n\t"x \\" \\\\ y"] }'), '{"a b":[1.50,12345678901234567890,"x \\" \\\\ y"]}');
  assert.equal(compact('{"a": "no end'), '{"a":"noend');
});

test("a config that is too long for an address is left out, and that is said", () => {
  const { fragment, whole } = written({ ...START, model: "config.json", config: `{"a": "${"x".repeat(70_000)}"}` });
  assert.equal(whole, false);
  assert.ok(fragment.length < 100);
});

test("fields become a question; what is no number is left for the planner to refuse", () => {
  assert.deepEqual(question(START), {
    model: { name: "qwen3.8-27b" }, versus: null, context: 32768, batch: 1, dtype: null, kv_dtype: null, heads: "8", room: "h100", weights: "auto",
    device: "", window: null, share: "", assume_full: false,
  });
  const asked = question({ ...START, config: "{}", model: "c", versus: "v", other: "{}", context: "", batch: "x", dtype: "int8" });
  assert.deepEqual(asked.model, { name: "c", config: "{}" });
  assert.deepEqual(asked.versus, { name: "v", config: "{}" });
  assert.equal(asked.context, null);
  assert.equal(asked.batch, 0);
  assert.equal(asked.kv_dtype, "int8");
  const what = question({ ...START, form: "fp32", device: "a100", window: "4096", share: "1/4" });
  assert.deepEqual([what.dtype, what.device, what.window, what.share], ["fp32", "a100", 4096, "1/4"]);
});

const PICTURE = {
  lengths: [1, 4, 1024], rooms: [null],
  lines: [
    { label: "a", model: 0, sizes: [1, 4, 1024] }, { label: "b", model: 0, sizes: [2, 8, "2048"] },
    { label: "c", model: 0, sizes: [1, 4, 1024] }, { label: "a", model: 1, sizes: [1, 4, 1024] },
  ],
  bytes: [{ power: 0, text: "1 B" }, { power: 11, text: "2 KiB" }],
  tokens: [{ tokens: 1, text: "1" }],
};

test("schemes whose bytes are the same everywhere are one line; another model is a line of its own", () => {
  assert.deepEqual(different(PICTURE).map((one) => [one.labels, one.model]), [[["a", "c"], 0], [["b"], 0], [["a"], 1]]);
  assert.deepEqual(different(PICTURE)[1].sizes, [2, 8, 2048]);
});

test("axes are logarithmic, and a click finds the tokens that stand there", () => {
  const at = axes(PICTURE, { width: 800, height: 400 });
  assert.ok(Math.abs(at.x(32) - (at.x(1) + at.x(1024)) / 2) < 1e-9);
  assert.ok(at.y(2048) < at.y(1));
  assert.ok(Math.abs(at.y(2) - at.y(1) - (at.y(4) - at.y(2))) < 1e-9);
  for (const tokens of [1, 7, 300, 1024]) assert.ok(Math.abs(at.tokens(at.x(tokens)) / tokens - 1) < 1e-9);
  assert.equal(at.y(0.001), at.y(1));
});

test("labels of the rooms stand at their lines, and never on one another", () => {
  assert.deepEqual(places([200]), [194]);
  assert.deepEqual(places([14]), [29]);
  assert.deepEqual(places([200, 300]), [194, 315]);
  assert.deepEqual(places([300, 200]), [315, 194]);
  for (const lines of [[14, 16], [16, 14], [100, 101], [20, 50], [60, 60]]) {
    const found = places(lines);
    assert.ok(Math.abs(found[0] - found[1]) >= 15, `${lines}: ${found}`);
  }
});

test("patterns are translated gap by gap; what no pattern fits stays, but for phrases", () => {
  const w = wording([["keys", "K"], ["{=name}: {what}", "{name}：{what}"], ["{#n} of {*list}", "{n} 个{list}"], ["a {;parts}", "甲{parts}"]], [[" or ", " 或 "]]);
  assert.equal(w("keys"), "K");
  assert.equal(w("x: keys"), "x：K");
  assert.equal(w("1,024 of keys, keys, else"), "1,024 个K、K、else");
  assert.equal(w("many of keys"), "many of keys");
  assert.equal(w("a keys; 3 of keys"), "甲K；3 个K");
  assert.equal(w("this or that"), "this 或 that");
  assert.equal(w("$&: $1"), "$&：$1");
  const deep = "x: ".repeat(30) + "keys";
  assert.ok(w(deep).startsWith("x：x：x："));
});

test("both languages have the same words with the same values, and every one is used", () => {
  assert.deepEqual(Object.keys(zhPlanner), Object.keys(enPlanner));
  const values = (/** @type {unknown} */ text) => new Set([...JSON.stringify(text).matchAll(/\{(\w+)\}/g)].map((one) => one[1]));
  for (const key of Object.keys(enPlanner)) assert.deepEqual(values(zhPlanner[key]), values(enPlanner[key]), key);
  const program = readdirSync(join(ROOT, "planner")).map((name) => readFileSync(join(ROOT, "planner", name), "utf8")).join("\n")
    + readFileSync(join(ROOT, "widgets/cards.js"), "utf8");
  const used = (/** @type {string} */ key) => program.includes(`"${key}"`)
    || program.includes(`\`${key.split(".").slice(0, -1).join(".")}.\${`);
  assert.deepEqual(Object.keys(enPlanner).filter((key) => !used(key)), []);
  assert.equal(used("planner.nothing.here"), false);
});
