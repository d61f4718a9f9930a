// @ts-check
import assert from "node:assert/strict";
import test from "node:test";

import { readings } from "../../../src/attnscope/serve/static/js/widgets/asking.js";
import { additiveBytes, sized } from "../../../src/attnscope/serve/static/js/widgets/bytes.js";
import { mixed } from "../../../src/attnscope/serve/static/js/widgets/mix.js";
import { enWidgets } from "../../../src/attnscope/serve/static/js/text/en/widgets.js";
import { zhWidgets } from "../../../src/attnscope/serve/static/js/text/zh/widgets.js";

test("a number is read as people type it, and nothing else is", () => {
  for (const [text, ...values] of /** @type {[string, ...number[]][]} */ ([
    ["66.5", 66.5], [" 66,5 % ", 66.5], ["−44.4", -44.4], ["–3", -3], ["1,024", 1024, 1.024], ["1,024.5", 1024.5],
    ["6e-8", 6e-8], [".5", 0.5], ["5.", 5], ["+2", 2], ["1 000", 1000], ["0,906", 0.906], ["-0,906", -0.906],
    ["６６．５％", 66.5], ["－４４．４", -44.4], ["389，120", 389120, 389.12], ["66。5", 66.5], ["1,024,000", 1024000], ["−1,024", -1024, -1.024],
    [""], ["-"], ["1.2.3"], ["0x10"], ["Infinity"], ["two"], ["½"], ["64 KiB"], ["1,02,3"],
  ])) assert.deepEqual(readings(text), values, text);
  assert.deepEqual(readings("64 kib", "KiB"), [64]);
  assert.deepEqual(readings("89,856B", "B"), [89856, 89.856]);
  assert.deepEqual(readings("64 GiB", "KiB"), []);
});

test("bytes are those of the course's figures", () => {
  assert.equal(sized(additiveBytes(4096, 256)), "8 GiB");
  assert.equal(sized(additiveBytes(4096, 1)), "32 MiB");
  assert.equal(sized(0), "0 B");
  assert.equal(sized(1536), "1.5 KiB");
  assert.equal(sized(2 ** 45), "32 TiB");
});

test("a mixture of weights that sum to one stays in the triangle, and leaves it with a negative one", () => {
  for (let a = 0; a <= 1; a += 0.25) {
    for (let b = 0; b <= 1 - a; b += 0.25) {
      const [x, y] = mixed([a, b, 1 - a - b]);
      assert.ok(y <= 50 + 1e-9 && y >= -80 - 1e-9 && Math.abs(x) <= (80 * (y + 80)) / 130 + 1e-9);
    }
  }
  assert.ok(mixed([1.5, -0.5, 0])[0] < -80);
});

test("both languages say the same things with the same values", () => {
  assert.deepEqual(Object.keys(zhWidgets), Object.keys(enWidgets));
  const values = (/** @type {unknown} */ text) => [...JSON.stringify(text).matchAll(/\{(\w+)\}/g)].map((one) => one[1]).sort();
  for (const key of Object.keys(enWidgets)) {
    assert.deepEqual([...new Set(values(zhWidgets[key]))], [...new Set(values(enWidgets[key]))], key);
  }
});
