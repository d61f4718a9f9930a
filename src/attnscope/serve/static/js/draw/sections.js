// @ts-check
/**
 * A text's own parts, for axes where a token is too small to be written: sentences, paragraphs, or
 * so many paragraphs that a bar can be seen.
 *
 * Not here: drawing them (tracks.js).
 */

import { addedLabels } from "../parts/labels.js";

/** @typedef {{from: number, to: number, title: string}} Section   tokens from..to-1 */

const SENTENCE_END = /[.!?。！？…]["'”’)）」』]?\s*$/;
/** A bar narrower than this, in pixels, says nothing. */
const NARROWEST = 30;
const TITLE = 60;

/**
 * How a token is written on an axis: white space can be seen.
 * @param {string} label
 * @returns {string}
 */
export function visibleLabel(label) {
  return label.replace(/\r?\n/g, "↵").replace(/\t/g, "⇥").replace(/ /g, "␣");
}

/**
 * Cuts tokens where `ends` says that a part ends with this one.
 * @param {string[]} labels
 * @param {(at: number) => boolean} ends
 * @returns {Section[]}
 */
function cut(labels, ends) {
  const sections = [];
  let from = 0;
  for (let at = 0; at < labels.length; at++) {
    if (at + 1 < labels.length && !ends(at)) continue;
    sections.push({ from, to: at + 1, title: titleOf(labels, from, at + 1) });
    from = at + 1;
  }
  return sections;
}

/**
 * The first words of a part.
 * @param {string[]} labels
 * @param {number} from
 * @param {number} to
 * @returns {string}
 */
function titleOf(labels, from, to) {
  let title = "";
  for (let at = from; at < to && title.length < TITLE; at++) title += labels[at];
  return title.replace(/^[\s#>*\-–—]+/, "").replace(/\s+/g, " ").trim();
}

export class Sections {
  /** @param {Pick<import("../types.js").TokenTable, "start" | "end" | "labels">} tokens */
  constructor(tokens) {
    // A character in several pieces is one unit: it says its label once and ends with its last piece.
    const added = addedLabels(tokens);
    const places = added.flatMap((label, at) => (label === "" && at > 0 ? [] : [at]));
    const labels = places.map((at) => added[at]);
    const inTokens = (/** @type {Section[]} */ parts) =>
      parts.map(({ from, to, title }) => ({ from: places[from], to: places[to] ?? added.length, title }));
    const blank = (/** @type {number} */ at) => /\n\s*\n\s*$/.test((labels[at - 1] ?? "") + labels[at]);
    const starts = (/** @type {number} */ at) => /^\s*\n/.test(labels[at + 1] ?? "") || /^\s+$/.test(labels[at + 1] ?? "");
    const paragraphs = cut(labels, (at) => blank(at) && !/^\s*$/.test(labels[at + 1] ?? "x"));
    const lines = cut(labels, (at) => /\n\s*$/.test(labels[at]) && !/^\s*$/.test(labels[at + 1] ?? "x"));
    const sentences = cut(labels, (at) => (SENTENCE_END.test(labels[at]) && !starts(at)) || /\n\s*$/.test(labels[at]));
    this.sentences = inTokens(sentences);
    this.paragraphs = inTokens(paragraphs.length > 1 ? paragraphs : lines.length > 1 ? lines : sentences);
    this.length = added.length;
  }

  /**
   * The parts that can be seen at so many pixels per token.
   * @param {number} pixels
   * @returns {Section[]}
   */
  at(pixels) {
    const width = (/** @type {Section[]} */ parts) => (this.length * pixels) / Math.max(parts.length, 1);
    if (width(this.sentences) >= 2 * NARROWEST) return this.sentences;
    if (width(this.paragraphs) >= NARROWEST) return this.paragraphs;
    // Powers of two, so that zooming splits bars and never shifts them.
    const together = 2 ** Math.ceil(Math.log2(NARROWEST / width(this.paragraphs)));
    const joined = [];
    for (let at = 0; at < this.paragraphs.length; at += together) {
      const last = this.paragraphs[Math.min(at + together, this.paragraphs.length) - 1];
      joined.push({ from: this.paragraphs[at].from, to: last.to, title: this.paragraphs[at].title });
    }
    return joined;
  }
}

/**
 * Where the next word begins, or the one before: a token that starts with a space, or follows white
 * space, begins a word; so does each character of a script without spaces.
 * @param {string[]} labels
 * @param {number} at
 * @param {1 | -1} step
 * @returns {number}
 */
export function nextWord(labels, at, step) {
  let place = at + step;
  while (place > 0 && place < labels.length - 1 && !startsWord(labels, place)) place += step;
  return Math.max(0, Math.min(labels.length - 1, place));
}

/**
 * @param {string[]} labels
 * @param {number} at
 * @returns {boolean}
 */
export function startsWord(labels, at) {
  const label = labels[at] ?? "";
  if (at === 0 || /^\s/.test(label) || /\s$/.test(labels[at - 1] ?? "")) return true;
  if (label === labels[at - 1] && !/^[\p{L}\p{N}]/u.test(label)) return false; // pieces of one character
  return /^[^\p{L}\p{N}]/u.test(label) || /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u.test(label);
}
