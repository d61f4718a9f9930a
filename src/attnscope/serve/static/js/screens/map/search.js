// @ts-check
/**
 * Finding a piece of text among the tokens and going there.
 *
 * The idea: the labels are joined into one string with the place where each begins, so a word is found
 * though it is cut into several tokens. Case and white space do not matter.
 *
 * Not here: what going there means (screen.js).
 */

import { h } from "../../parts/dom.js";
import { addedLabels } from "../../parts/labels.js";

/** @typedef {{from: number, to: number}} Hit   first and last token */

export class Haystack {
  /**
   * @param {Pick<import("../../types.js").TokenTable, "start" | "end" | "labels">} tokens
   */
  constructor(tokens) {
    this.starts = new Uint32Array(tokens.labels.length + 1);
    let text = "";
    addedLabels(tokens).forEach((label, at) => {
      this.starts[at] = text.length;
      text += fold(label);
    });
    this.starts[tokens.labels.length] = text.length;
    this.text = text;
  }

  /**
   * @param {string} needle
   * @returns {Hit[]}
   */
  find(needle) {
    const wanted = fold(needle);
    /** @type {Hit[]} */
    const hits = [];
    if (!wanted.trim()) return hits;
    for (let at = this.text.indexOf(wanted); at >= 0 && hits.length < 1000; at = this.text.indexOf(wanted, at + 1)) {
      hits.push({ from: this.tokenAt(at), to: this.tokenAt(at + wanted.length - 1) });
    }
    return hits;
  }

  /**
   * The token that a place in the text belongs to.
   * @param {number} place
   * @returns {number}
   */
  tokenAt(place) {
    let [low, high] = [0, this.starts.length - 2];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= place) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/**
 * Without case; every white space is a space. Keeps the length.
 * @param {string} text
 * @returns {string}
 */
export function fold(text) {
  return [...text.replace(/\s/g, " ")].map((c) => (c.toLowerCase().length === c.length ? c.toLowerCase() : c)).join("");
}

/**
 * The hit before or after one, around the ends.
 * @param {number} at   -1 where none is shown yet
 * @param {number} by   1 or -1
 * @param {number} count
 * @returns {number}
 */
export function nextHit(at, by, count) {
  if (at < 0) return by < 0 ? count - 1 : 0;
  return (at + by + count) % count;
}

export class SearchBox {
  /**
   * @param {object} options
   * @param {import("../../types.js").App["t"]} options.t
   * @param {(hit: Hit) => void} options.onGo
   * @param {() => void} options.onClose
   */
  constructor({ t, onGo, onClose }) {
    this.t = t;
    this.onGo = onGo;
    this.onClose = onClose;
    this.input = h("input", { type: "search", "aria-label": t("map.search.label"), placeholder: t("map.search.placeholder") });
    this.said = h("output", { class: "note" });
    const step = (/** @type {number} */ by, /** @type {string} */ key, /** @type {string} */ sign) =>
      h("button", { class: "quiet", type: "button", "aria-label": t(key), title: t(key), onclick: () => this.go(by) }, sign);
    this.element = h("form", { class: "map-search", role: "search", hidden: true }, this.input, this.said,
      step(-1, "map.search.before", "↑"), step(1, "map.search.next", "↓"));
    /** @type {Haystack | null} */
    this.hay = null;
    /** @type {Hit[]} */
    this.hits = [];
    this.at = -1;
    this.input.addEventListener("input", () => this.look());
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.go(1);
    });
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close(event);
      else if (event.key === "Enter" && event.shiftKey) this.before(event);
    });
  }

  /** @param {import("../../types.js").TokenTable} tokens */
  setTokens(tokens) {
    this.hay = null;
    this.tokens = tokens;
  }

  open() {
    this.element.hidden = false;
    this.input.focus();
    this.input.select();
  }

  /** @param {Event} event */
  close(event) {
    event.preventDefault();
    event.stopPropagation();
    this.element.hidden = true;
    this.onClose();
  }

  /** @param {Event} event */
  before(event) {
    event.preventDefault();
    this.go(-1);
  }

  look() {
    this.hay ??= new Haystack(this.tokens ?? { start: [], end: [], labels: [] });
    this.hits = this.hay.find(this.input.value);
    this.at = -1;
    this.tell();
  }

  /** @param {number} by */
  go(by) {
    if (!this.hits.length) return this.look();
    this.at = nextHit(this.at, by, this.hits.length);
    this.tell();
    return this.onGo(this.hits[this.at]);
  }

  tell() {
    const { length } = this.hits;
    if (!this.input.value.trim()) this.said.textContent = "";
    else if (!length) this.said.textContent = this.t("map.search.none");
    else this.said.textContent = this.t("map.search.count", { at: this.at + 1, all: length });
  }
}
