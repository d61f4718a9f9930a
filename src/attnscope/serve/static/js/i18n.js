// @ts-check
/**
 * The words of the app in a language: `t("flow.rest", {count: 3})`.
 *
 * The idea: a table of texts per language with the same keys (a test compares). `{name}` in a text is
 * a value; a text that depends on a number is an object by plural category of `count`
 * ("one", "other": Intl.PluralRules). An unknown key or a missing value throws: a hole in the words is
 * a fault of ours, never something to show a reader.
 *
 * Not here: how numbers are written (parts/numbers.js).
 */

import { enShell } from "./text/en/shell.js";
import { enOverview } from "./text/en/overview.js";
import { enMap } from "./text/en/map.js";
import { enFlow } from "./text/en/flow.js";
import { zhShell } from "./text/zh/shell.js";
import { zhOverview } from "./text/zh/overview.js";
import { zhMap } from "./text/zh/map.js";
import { zhFlow } from "./text/zh/flow.js";

/** @typedef {string | Partial<Record<Intl.LDMLPluralRule, string>> & {other: string}} Text */

/** @type {Record<import("./types.js").Language, Record<string, Text>>} */
export const TEXTS = {
  en: { ...enShell, ...enOverview, ...enMap, ...enFlow },
  zh: { ...zhShell, ...zhOverview, ...zhMap, ...zhFlow },
};

/**
 * The way to say things in one language.
 * @param {import("./types.js").Language} language
 * @param {typeof TEXTS} [texts]
 * @returns {(key: string, values?: Record<string, string | number>) => string}
 */
export function translator(language, texts = TEXTS) {
  const table = texts[language];
  const plural = new Intl.PluralRules(language);
  return (key, values = {}) => {
    if (!Object.hasOwn(table, key)) throw new Error(`t: no text ${JSON.stringify(key)} in ${language}`);
    const entry = table[key];
    const text = typeof entry === "string" ? entry : (entry[plural.select(Number(values.count))] ?? entry.other);
    return text.replace(/\{(\w+)\}/g, (_, name) => {
      if (!Object.hasOwn(values, name)) throw new Error(`t: ${key}: no value for {${name}}`);
      return String(values[name]);
    });
  };
}

/**
 * The first of a reader's languages that the app speaks.
 * @param {readonly string[]} languages   as navigator.languages
 * @returns {import("./types.js").Language}
 */
export function preferred(languages) {
  for (const one of languages) {
    const short = one.toLowerCase().split("-")[0];
    if (short === "zh" || short === "en") return short;
  }
  return "en";
}
