// @ts-check
/** The words: the same keys and values in both languages, each used, none missing. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { preferred, TEXTS, translator } from "../../../src/attnscope/serve/static/js/i18n.js";

const ROOT = fileURLToPath(new URL("../../../src/attnscope/serve/static/js/", import.meta.url));

/** The program's own text, without the words themselves. */
function program() {
  const files = /** @type {string[]} */ (readdirSync(ROOT, { recursive: true })).filter((name) => name.endsWith(".js") && !name.startsWith("text"));
  return files.map((name) => readFileSync(join(ROOT, name), "utf8")).join("\n");
}

/** @param {import("../../../src/attnscope/serve/static/js/i18n.js").Text} text */
function forms(text) {
  return typeof text === "string" ? [text] : Object.values(text);
}

/** @param {string} text */
function values(text) {
  return [...new Set([...text.matchAll(/\{(\w+)\}/g)].map((hit) => hit[1]))].sort();
}

/** Whether a key is written in the program, whole or as a template with one hole. @param {string} key @param {string} text */
function isUsed(key, text) {
  if (text.includes(`"${key}"`) || text.includes(`'${key}'`)) return true;
  const parts = key.split(".");
  for (let length = 1; length < parts.length; length++) {
    const before = parts.slice(0, length).join(".");
    const after = parts.slice(length + 1).map((part) => `.${part}`).join("");
    if (text.includes(`\`${before}.\${`) && new RegExp(`\`${before.replace(/\./g, "\\.")}\\.\\$\\{[^}]*\\}${after.replace(/\./g, "\\.")}\``).test(text)) return true;
  }
  return false;
}

test("both languages have the same keys", () => {
  assert.deepEqual(Object.keys(TEXTS.zh).sort(), Object.keys(TEXTS.en).sort());
  assert.ok(Object.keys(TEXTS.en).length > 150);
});

test("no two parts claim the same key", () => {
  for (const language of ["en", "zh"]) {
    const files = /** @type {string[]} */ (readdirSync(join(ROOT, "text", language))).filter((name) => /^(shell|overview|map|flow)\.js$/.test(name));
    const all = files.flatMap((name) => [...readFileSync(join(ROOT, "text", language, name), "utf8").matchAll(/^ {2}"([^"]+)":/gm)].map((hit) => hit[1]));
    assert.equal(new Set(all).size, all.length);
    assert.equal(all.length, Object.keys(TEXTS.en).length);
  }
});

test("both languages use the same values in each text", () => {
  for (const key of Object.keys(TEXTS.en)) {
    const english = values(forms(TEXTS.en[key]).join(" "));
    const chinese = values(forms(TEXTS.zh[key]).join(" "));
    // Only what is not a plural's number must be in both: "sees only itself" needs no count.
    assert.deepEqual(chinese, english, key);
  }
});

test("every text is used", () => {
  const text = program();
  const unused = Object.keys(TEXTS.en).filter((key) => !isUsed(key, text));
  assert.deepEqual(unused, []);
});

test("a text that nobody uses is found", () => {
  assert.equal(isUsed("overview.grid", 't("overview.grid")'), true);
  assert.equal(isUsed("overview.sort.kind", "t(`overview.sort.${name}`)"), true);
  assert.equal(isUsed("overview.sort", "t(`overview.sort.${name}`)"), false);
  assert.equal(isUsed("overview.nothing", 't("overview.grid")'), false);
});

test("every text that is asked for is there", () => {
  const asked = [...program().matchAll(/\bt\(\s*"([\w.-]+)"|\btext: "((?:shell|home|overview|map|flow)\.[\w.-]+)"|return "((?:shell|home|overview|map|flow)\.[\w.-]+)"/g)]
    .map((hit) => hit[1] ?? hit[2] ?? hit[3]);
  assert.ok(asked.length > 100);
  // Lessons have words of their own.
  const missing = asked.filter((key) => /^(shell|home|overview|map|flow|kind|stat|palette)\./.test(key) && !Object.hasOwn(TEXTS.en, key));
  assert.deepEqual(missing, []);
});

test("no text is empty, and Chinese texts are in Chinese", () => {
  // Query and key are what engineers say in Chinese too.
  const terms = ["query", "key"];
  const latin = /^[A-Za-z0-9 ().,·|{}_%×\-–/]+$/;
  for (const key of Object.keys(TEXTS.en)) {
    for (const form of [...forms(TEXTS.en[key]), ...forms(TEXTS.zh[key])]) assert.ok(form.trim() !== "", key);
  }
  const same = Object.keys(TEXTS.zh).filter((key) => forms(TEXTS.zh[key]).every((form) => latin.test(form)) && forms(TEXTS.zh[key]).join() !== forms(TEXTS.en[key]).join());
  assert.deepEqual(same.filter((key) => !terms.includes(key.split(".")[1])), []);
});

const SAMPLE = {
  en: { plain: "Open", hello: "Layer {layer} of {model}", some: { one: "{count} token", other: "{count} tokens" } },
  zh: { plain: "打开", hello: "{model} 的第 {layer} 层", some: { other: "{count} 个 token" } },
};

test("values are put in by name, and plurals chosen by count", () => {
  const t = translator("en", SAMPLE);
  assert.equal(t("hello", { model: "m", layer: 3 }), "Layer 3 of m");
  assert.deepEqual([t("some", { count: 1 }), t("some", { count: 2 }), t("some", { count: 0 })], ["1 token", "2 tokens", "0 tokens"]);
  assert.equal(translator("zh", SAMPLE)("some", { count: 1 }), "1 个 token");
});

test("a value with braces or dollars stays what it is", () => {
  assert.equal(translator("en", SAMPLE)("hello", { model: "{layer} $& $1", layer: 3 }), "Layer 3 of {layer} $& $1");
});

test("an unknown key and a missing value throw", () => {
  const t = translator("en", SAMPLE);
  assert.throws(() => t("nothing"), /no text "nothing" in en/);
  assert.throws(() => t("toString"), /no text "toString"/);
  assert.throws(() => t("hello", { model: "m" }), /hello: no value for \{layer\}/);
});

test("the reader's first known language is taken", () => {
  assert.equal(preferred(["fr-FR", "zh-TW", "en"]), "zh");
  assert.equal(preferred(["de", "en-GB", "zh"]), "en");
  assert.equal(preferred(["fr"]), "en");
});
