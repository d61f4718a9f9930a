// @ts-check
/**
 * The numbers of what is pointed at or chosen, in words that a screen reader reads too.
 *
 * The idea: what the tile says is shown at once; the exact number of a single pair is asked for and
 * takes its place, and says that it is exact. An answer for another pair than the one now shown is
 * dropped.
 *
 * Not here: the table of a row's largest keys (rowtable.js).
 */

import { fill, h } from "../../parts/dom.js";
import { significant } from "../../parts/numbers.js";
import { visibleLabel } from "../../draw/sections.js";
import { isAbort } from "../../source/errors.js";

/** @typedef {import("../../types.js").App} App */
/** @typedef {import("../../types.js").CellAnswer} CellAnswer */
/** @typedef {import("./subject.js").Subject} Subject */
/** @typedef {import("./subject.js").Spot} Spot */

const WAIT = 40;

/**
 * @param {[number, number]} range
 * @returns {string}
 */
export function rangeText([first, last]) {
  return first === last ? `${first}` : `${first}–${last}`;
}

export class Readout {
  /**
   * @param {App} app
   * @param {(pair: {query: number, key: number}) => void} onFly
   */
  constructor(app, onFly) {
    this.app = app;
    this.onFly = onFly;
    this.title = h("p", { class: "map-pair" });
    this.list = h("dl", { class: "map-numbers" });
    this.fly = h("button", { type: "button", class: "map-fly", hidden: true });
    this.fly.addEventListener("click", () => this.pair && this.onFly(this.pair));
    this.element = h("section", { class: "map-readout", "aria-label": app.t("map.readout") }, this.title, this.list, this.fly);
    /** @type {{query: number, key: number} | null} where Enter flies */
    this.pair = null;
    this.turn = 0;
    /** @type {ReturnType<typeof setTimeout> | null} */
    this.timer = null;
    this.clear();
  }

  clear() {
    this.stopTimer();
    this.turn += 1;
    this.pair = null;
    this.fly.hidden = true;
    this.element.removeAttribute("data-exact");
    fill(this.title, h("span", { class: "note" }, this.app.t("map.readout.empty")));
    fill(this.list);
  }

  stopTimer() {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
  }

  /**
   * Shows a cell.
   * @param {Subject} subject
   * @param {Spot} spot
   * @param {{second: boolean, measure: import("../../types.js").Measure}} how   second: of the comparison
   */
  show(subject, spot, how) {
    this.stopTimer();
    const turn = ++this.turn;
    this.element.removeAttribute("data-exact");
    const single = spot.queries[0] === spot.queries[1] && spot.keys[0] === spot.keys[1];
    this.tellPlace(subject, spot, how.second);
    if (single) this.tellSingle(subject, spot, null, how.measure);
    else this.tellBlock(subject, spot);
    const pair = single ? { query: spot.queries[0], key: spot.keys[0] } : spot.pair;
    this.pair = single ? null : pair;
    this.fly.hidden = true;
    if (!pair) return;
    const ask = async () => {
      try {
        const answer = await subject.options.source.cell({ ...subject.of, ...pair });
        if (turn !== this.turn) return;
        if (single) this.tellSingle(subject, spot, answer, how.measure);
        else this.tellPair(subject, pair, answer);
      } catch (error) {
        if (!isAbort(error) && turn === this.turn) subject.options.onError(error);
      }
    };
    this.timer = setTimeout(() => void ask(), WAIT);
  }

  /** @param {Subject} subject @param {Spot} spot @param {boolean} second */
  tellPlace(subject, spot, second) {
    fill(this.title, this.place("query", spot.queries, subject.queryLabels), h("span", { class: "map-arrow", "aria-hidden": "true" }, "→"),
      this.place("key", spot.keys, subject.labels), second ? h("span", { class: "map-second" }, headName(this.app.t, subject)) : null);
  }

  /**
   * @param {"query" | "key"} kind
   * @param {[number, number]} range
   * @param {string[]} labels
   * @returns {HTMLElement}
   */
  place(kind, range, labels) {
    return h("span", { class: "map-token" }, h("span", { class: "note" }, this.app.t(`map.${kind}`)), ` ${rangeText(range)} `,
      range[0] === range[1] ? h("bdi", { class: "map-word" }, visibleLabel(labels[range[0]] ?? "")) : null);
  }

  /**
   * @param {[string, string | null, string?][]} rows   key of a text, value, class
   */
  rows(rows) {
    const { t } = this.app;
    fill(this.list, rows.filter(([, value]) => value !== null).flatMap(([key, value, name]) =>
      [h("dt", null, t(key)), h("dd", { class: `number ${name ?? ""}` }, value)]));
  }

  /**
   * A single pair: first the tile's number, then the exact one.
   * @param {Subject} subject @param {Spot} spot @param {CellAnswer | null} exact
   * @param {import("../../types.js").Measure} measure
   */
  tellSingle(subject, spot, exact, measure) {
    const query = spot.queries[0];
    const hidden = exact ? !exact.visible : spot.masked && !measure.endsWith("no-sink");
    if (exact) this.element.dataset.exact = "true";
    if (hidden) return this.rows([["map.weight", this.app.t("map.masked"), "map-weight"]]);
    const guess = measure.startsWith("weight") && !Number.isNaN(spot.mean) ? spot.mean : null;
    const weight = exact ? exact.weight : guess;
    const seen = subject.sightKnown ? subject.norms.seenBy(query) : null;
    return this.rows([
      ["map.weight", weight === null ? "…" : significant(weight, 5), "map-weight"],
      ["map.times_uniform", weight === null || seen === null ? null : `× ${significant(weight * seen, 3)}`],
      ["map.arrived", exact && exact.arrived !== null ? significant(exact.arrived, 4) : null, "map-arrived"],
      ["map.score", exact && exact.score !== null ? significant(exact.score, 4) : null],
    ]);
  }

  /** @param {Subject} _subject @param {Spot} spot */
  tellBlock(_subject, spot) {
    const { masked } = spot;
    this.rows([
      ["map.block.mean", masked ? this.app.t("map.masked") : significant(spot.mean, 5), "map-mean"],
      ["map.block.norm", Number.isNaN(spot.norm) || masked ? null : `× ${significant(spot.mean / spot.norm, 3)}`],
      ["map.block.max", masked ? null : significant(spot.max, 5), "map-max"],
    ]);
  }

  /**
   * Several chosen tokens, joined; the number comes with the table (`tellTotal`).
   * @param {Subject} subject
   * @param {{queries: [number, number] | null, keys: [number, number] | null}} chosen
   */
  showRange(subject, { queries, keys }) {
    this.stopTimer();
    this.turn += 1;
    this.pair = null;
    this.fly.hidden = true;
    this.element.removeAttribute("data-exact");
    fill(this.title, queries ? this.place("query", queries, subject.queryLabels) : null,
      queries && keys ? h("span", { class: "map-arrow", "aria-hidden": "true" }, "→") : null,
      keys ? this.place("key", keys, subject.labels) : null);
    fill(this.list);
  }

  /** @param {"sum" | "mean"} how @param {number} value   exact, of the chosen block */
  tellTotal(how, value) {
    this.element.dataset.exact = "true";
    this.rows([[`map.total.${how}`, significant(value, 5), "map-weight"]]);
  }

  /**
   * The largest pair of a coarse cell.
   * @param {Subject} subject @param {{query: number, key: number}} pair @param {CellAnswer} exact
   */
  tellPair(subject, pair, exact) {
    const { t } = this.app;
    this.element.dataset.exact = "true";
    const word = (/** @type {string} */ text) => h("bdi", { class: "map-word" }, visibleLabel(text));
    fill(this.fly, h("span", null, t("map.fly.pair", { query: pair.query, key: pair.key })),
      word(subject.queryLabels[pair.query] ?? ""), "→", word(subject.labels[pair.key] ?? ""),
      h("output", { class: "map-weight" }, significant(exact.weight, 5)), h("kbd", null, "Enter"));
    this.fly.hidden = false;
  }
}

/**
 * "layer 3, head 2"; with the text's name where it is another.
 * @param {App["t"]} t
 * @param {Subject} subject
 * @returns {string}
 */
export function headName(t, subject) {
  return t("map.head_name", { layer: subject.of.layer, head: subject.of.head });
}
