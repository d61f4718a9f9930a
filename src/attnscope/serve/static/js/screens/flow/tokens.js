// @ts-check
/**
 * From the table of tokens to what a reader sees: characters over their pieces, words over tokens.
 *
 * The idea: a token is a span of bytes in whole characters. Neighbours whose spans overlap are pieces
 * of one character or cluster (the first may hold the space before it): one unit. A word is what the language's own rules say
 * (Intl.Segmenter), asked for one paragraph at a time, so that a long text costs nothing at first.
 *
 * Not here: where units stand on a line (lines.js).
 */

/**
 * @typedef {import("../../types.js").TokenTable} TokenTable
 * @typedef {{first: number, last: number}} Range   of tokens, both included
 */

/**
 * The first token of each unit, and of each token its unit.
 * @param {TokenTable} table
 * @returns {{first: Int32Array, of: Int32Array}}
 */
export function unitsOf({ start, end }) {
  const of = new Int32Array(start.length);
  const first = [];
  let covered = -1;
  for (let token = 0; token < start.length; token++) {
    const bytes = end[token] > start[token];
    if (!bytes || start[token] >= covered) first.push(token);
    covered = bytes ? Math.max(covered, end[token]) : -1;
    of[token] = first.length - 1;
  }
  return { first: Int32Array.from(first), of };
}

/**
 * The tokens of a unit.
 * @param {{first: Int32Array, of: Int32Array}} units
 * @param {number} unit
 * @returns {Range}
 */
export function unitRange({ first, of }, unit) {
  return { first: first[unit], last: (unit + 1 < first.length ? first[unit + 1] : of.length) - 1 };
}

/**
 * Of each byte offset in `at` (rising) the offset in UTF-16 units, which is what strings count in.
 * @param {string} text
 * @param {ArrayLike<number>} at
 * @returns {Int32Array}
 */
export function unitOffsets(text, at) {
  const made = new Int32Array(at.length);
  let bytes = 0;
  let place = 0;
  for (let i = 0; i < at.length; i++) {
    while (bytes < at[i] && place < text.length) {
      const code = /** @type {number} */ (text.codePointAt(place));
      bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
      place += code < 0x10000 ? 1 : 2;
    }
    made[i] = place;
  }
  return made;
}

/**
 * Words over tokens: each token belongs to the word that its first letter stands in; spaces belong to
 * the word that follows them.
 */
export class Words {
  /**
   * @param {TokenTable} table
   * @param {string} locale
   */
  constructor(table, locale) {
    this.table = table;
    this.segmenter = new Intl.Segmenter(locale, { granularity: "word" });
    this.from = unitOffsets(table.text, table.start);
    this.to = unitOffsets(table.text, table.end);
    /** @type {Map<number, Int32Array>} first letters of the words of a paragraph, by its beginning */
    this.known = new Map();
  }

  /**
   * Where the words of the paragraph around a place begin.
   * @param {number} place
   * @returns {Int32Array}
   */
  starts(place) {
    const { text } = this.table;
    const begin = place === 0 ? 0 : text.lastIndexOf("\n", place - 1) + 1;
    const known = this.known.get(begin);
    if (known) return known;
    const stop = text.indexOf("\n", begin);
    const found = [];
    for (const one of this.segmenter.segment(text.slice(begin, stop < 0 ? text.length : stop + 1))) {
      if (one.segment.trim() !== "") found.push(begin + one.index);
    }
    const made = Int32Array.from(found);
    this.known.set(begin, made);
    return made;
  }

  /**
   * The beginning of the word a token belongs to, or of its own span where it is in none.
   * @param {number} token
   * @returns {number}
   */
  begins(token) {
    const { text } = this.table;
    let place = this.from[token];
    // A token that is a space and a word belongs to the word.
    while (place < this.to[token] && /\s/.test(text[place])) place++;
    if (place >= this.to[token]) return this.from[token];
    const starts = this.starts(place);
    let low = 0;
    let high = starts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (starts[middle] <= place) low = middle + 1;
      else high = middle;
    }
    return low > 0 ? starts[low - 1] : place;
  }

  /**
   * All tokens of the word that a token belongs to.
   * @param {number} token
   * @returns {Range}
   */
  around(token) {
    const count = this.from.length;
    const begin = this.begins(token);
    let first = token;
    let last = token;
    // A special token has no bytes of its own and is a word alone.
    if (this.to[token] === this.from[token]) return { first, last };
    while (first > 0 && this.to[first - 1] > this.from[first - 1] && this.begins(first - 1) === begin) first--;
    while (last + 1 < count && this.to[last + 1] > this.from[last + 1] && this.begins(last + 1) === begin) last++;
    return { first, last };
  }

  /**
   * The word before or after a range of tokens, or null at the end of the text.
   * @param {Range} range
   * @param {-1 | 1} way
   * @returns {Range | null}
   */
  next({ first, last }, way) {
    const token = way < 0 ? first - 1 : last + 1;
    return token < 0 || token >= this.from.length ? null : this.around(token);
  }
}

/**
 * The tokens over the next place where a text is found, after a token; from the beginning where there
 * is none behind. Upper and lower case are the same.
 * @param {TokenTable} table
 * @param {string} wanted
 * @param {number} after
 * @returns {Range | null}
 */
export function find(table, wanted, after) {
  if (wanted === "") return null;
  const from = unitOffsets(table.text, table.start);
  const to = unitOffsets(table.text, table.end);
  const pattern = new RegExp(wanted.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
  pattern.lastIndex = after + 1 < from.length ? from[after + 1] : table.text.length;
  const hit = pattern.exec(table.text) ?? pattern.exec(table.text);
  if (!hit) return null;
  const end = hit.index + hit[0].length;
  const first = to.findIndex((stop) => stop > hit.index);
  if (first < 0) return null;
  let last = first;
  while (last + 1 < from.length && from[last + 1] < end) last++;
  return { first, last };
}

const encoder = new TextEncoder();

const SIGNS = /** @type {Record<string, string>} */ ({ "\n": "↵", "\r": "↵", "\t": "⇥", " ": "␣", "\u00a0": "⍽" });

/**
 * A token in a list, where nothing may be invisible: spaces at its ends and controls as signs.
 * @param {string} label
 * @returns {string}
 */
export function visible(label) {
  if (label === "") return "∅";
  // A mark that belongs on a letter of another token stands on a dotted circle.
  return [...(/^\p{M}/u.test(label) ? `◌${label}` : label)].map((char, index, all) => {
    const inside = index > 0 && index < all.length - 1 && char === " ";
    if (inside) return char;
    if (SIGNS[char]) return SIGNS[char];
    return /[\p{Cc}\p{Cf}\p{Zs}\p{Zl}\p{Zp}]/u.test(char) && !"\u200d\u200c".includes(char) ? code(char) : char;
  }).join("");
}

/** @param {string} char */
function code(char) {
  return `U+${/** @type {number} */ (char.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}`;
}

/**
 * The bytes of a span in hexadecimal: "E5 9B BD".
 * @param {string} text
 * @param {number} start   bytes
 * @param {number} end
 * @returns {string}
 */
export function bytesText(text, start, end) {
  // A piece may begin or end inside a character: the characters around it are cut as bytes.
  const [from, to] = unitOffsets(text, [Math.max(0, start - 3), end]);
  const before = encoder.encode(text.slice(0, from)).length;
  return [...encoder.encode(text.slice(from, to)).slice(start - before, end - before)].map((byte) => byte.toString(16).toUpperCase().padStart(2, "0")).join(" ");
}
