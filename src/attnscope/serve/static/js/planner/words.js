// @ts-check
/**
 * What the planner says, in another language.
 *
 * The idea: the planner answers in one language, and its answer is the same object for everybody. A
 * page in another language knows the planner's sentences as patterns, each with its translation. What
 * stands in a gap is a number, a name that stays as it is, or a sentence in its turn.
 *
 *     {=name}   stays as it is: a field, a model, a value
 *     {#count}  a number
 *     {*kinds}  a list with commas, {;parts} one with semicolons: each of it is translated
 *     {words}   is translated in its turn
 *
 * A sentence that no pattern fits stays as it is; tests ask that there is none.
 */

/** @typedef {(text: string) => string} Words */

const GAP = /\{([=#*;]?)(\w+)\}/g;
const KINDS = /** @type {Record<string, string>} */ ({ "#": "([\\d.,/∞^]+)", "=": "(.+?)", "*": "(.+?)", ";": "(.+?)", "": "(.+?)" });
const DEEPEST = 8;

/**
 * @param {readonly (readonly [string, string])[]} pairs   patterns and translations; the first that fits
 * @param {readonly (readonly [string, string])[]} [phrases]   replaced in what no pattern fits: fields and their values
 * @returns {Words}
 */
export function wording(pairs, phrases = []) {
  /** @type {Map<string, string>} */
  const whole = new Map();
  /** @type {{pattern: RegExp, gaps: {kind: string, name: string}[], said: string}[]} */
  const patterns = [];
  for (const [text, said] of pairs) {
    const gaps = [...text.matchAll(GAP)].map(([, kind, name]) => ({ kind, name }));
    if (gaps.length) patterns.push({ pattern: new RegExp(`^${source(text)}$`, "s"), gaps, said });
    else whole.set(text, said);
  }
  /** @type {(text: string, depth: number) => string} */
  const say = (text, depth) => {
    const known = whole.get(text);
    if (known !== undefined) return known;
    if (depth === DEEPEST) return text;
    for (const { pattern, gaps, said } of patterns) {
      const found = pattern.exec(text);
      if (!found) continue;
      const gap = (/** @type {string} */ kind, /** @type {string} */ held) => {
        if (kind === "*" || kind === ";") {
          const [between, other] = kind === "*" ? [", ", "、"] : ["; ", "；"];
          return held.split(between).map((one) => say(one, depth + 1)).join(other);
        }
        return kind ? held : say(held, depth + 1);
      };
      const values = Object.fromEntries(gaps.map(({ kind, name }, at) => [name, gap(kind, found[at + 1])]));
      return said.replace(GAP, (_, __, name) => values[name]);
    }
    return phrases.reduce((done, [phrase, other]) => done.replaceAll(phrase, other), text);
  };
  return (text) => say(text, 0);
}

/** A pattern as a regular expression. @param {string} text */
function source(text) {
  let out = "";
  let from = 0;
  for (const gap of text.matchAll(GAP)) {
    out += literal(text.slice(from, gap.index)) + KINDS[gap[1]];
    from = gap.index + gap[0].length;
  }
  return out + literal(text.slice(from));
}

/** @param {string} text */
function literal(text) {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
}
