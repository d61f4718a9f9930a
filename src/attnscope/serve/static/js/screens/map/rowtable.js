// @ts-check
/**
 * The largest keys of the chosen query, or the largest queries of chosen keys, as a real table.
 *
 * The idea: what the canvas shows in colours is here in words and numbers, for whoever reads rather
 * than looks. Several chosen tokens are joined, as a sum or a mean, by the data source.
 *
 * Not here: a single pair's numbers (readout.js).
 */

import { fill, h } from "../../parts/dom.js";
import { percent, significant } from "../../parts/numbers.js";
import { visibleLabel } from "../../draw/sections.js";
import { isAbort } from "../../source/errors.js";
import { rangeText } from "./readout.js";

/** @typedef {import("../../types.js").App} App */
/** @typedef {import("./subject.js").Subject} Subject */
/** @typedef {{queries: [number, number] | null, keys: [number, number] | null, how: "sum" | "mean"}} Chosen */

const ROWS = 10;
const WAIT = 90;

/**
 * The places of the largest values, the largest first; equal ones by place.
 * @param {Float32Array} values
 * @param {number} count
 * @returns {number[]}
 */
export function largest(values, count) {
  /** @type {number[]} */
  const best = [];
  for (let at = 0; at < values.length; at++) {
    if (!(values[at] > 0)) continue;
    if (best.length === count && values[at] <= values[best[count - 1]]) continue;
    let place = best.length;
    while (place > 0 && values[best[place - 1]] < values[at]) place--;
    best.splice(place, 0, at);
    if (best.length > count) best.pop();
  }
  return best;
}

/**
 * @param {[number, number]} range
 * @returns {number[]}
 */
export function numbersIn([first, last]) {
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}

/**
 * What a row, already joined over queries, gives a range of keys.
 * @param {Float32Array} weights
 * @param {[number, number]} keys
 * @param {"sum" | "mean"} how   mean: of a pair
 * @returns {number}
 */
export function totalOf(weights, keys, how) {
  let total = 0;
  for (let key = keys[0]; key <= keys[1]; key++) total += weights[key];
  return how === "sum" ? total : total / (keys[1] - keys[0] + 1);
}

export class RowTable {
  /**
   * @param {App} app
   * @param {{onGo: (pair: {query: number | null, key: number | null}) => void, onHow: (how: "sum" | "mean") => void,
   *   onTotal: (how: "sum" | "mean", value: number) => void}} options   onTotal: what chosen queries give chosen keys
   */
  constructor(app, { onGo, onHow, onTotal }) {
    this.app = app;
    this.onGo = onGo;
    this.onTotal = onTotal;
    const { t } = app;
    const how = (/** @type {"sum" | "mean"} */ value) =>
      h("button", { type: "button", title: t(`map.how.${value}.about`), onclick: () => onHow(value) }, t(`map.how.${value}`));
    this.hows = { sum: how("sum"), mean: how("mean") };
    this.howRow = h("div", { class: "choices", role: "group", "aria-label": t("map.how.label"), hidden: true }, this.hows.sum, this.hows.mean);
    this.caption = h("caption");
    this.head = h("tr");
    this.body = h("tbody");
    this.table = h("table", null, this.caption, h("thead", null, this.head), this.body);
    this.element = h("section", { class: "map-row-table", "aria-label": t("map.table") }, this.howRow, this.table);
    this.shown = "";
    /** @type {{how: "sum" | "mean", value: number} | null} */
    this.told = null;
    /** @type {AbortController | null} */
    this.stop = null;
    /** @type {ReturnType<typeof setTimeout> | null} */
    this.timer = null;
    this.table.hidden = true;
  }

  /**
   * @param {Subject} subject
   * @param {Chosen} chosen
   */
  update(subject, chosen) {
    const several = [chosen.queries, chosen.keys].some((range) => range && range[1] > range[0]);
    this.howRow.hidden = !several;
    for (const how of /** @type {const} */ (["sum", "mean"])) this.hows[how].setAttribute("aria-pressed", String(how === chosen.how));
    const wanted = JSON.stringify([subject.of, chosen]);
    if (wanted === this.shown) {
      this.tellTotal();
      return;
    }
    this.shown = wanted;
    this.told = null;
    this.stop?.abort();
    if (this.timer !== null) clearTimeout(this.timer);
    if (!chosen.queries && !chosen.keys) {
      this.table.hidden = true;
      return;
    }
    const stop = new AbortController();
    this.stop = stop;
    this.timer = setTimeout(() => void this.ask(subject, chosen, stop.signal), WAIT);
  }

  /** What chosen queries give chosen keys, where it is known. */
  tellTotal() {
    if (this.told) this.onTotal(this.told.how, this.told.value);
  }

  /** @param {Subject} subject @param {Chosen} chosen @param {AbortSignal} signal */
  async ask(subject, chosen, signal) {
    const { source, onError } = subject.options;
    try {
      if (chosen.queries) {
        const want = { ...subject.of, queries: numbersIn(chosen.queries), how: chosen.how };
        const answer = await source.row(want, signal);
        if (!signal.aborted) this.showRow(subject, chosen, answer);
      } else if (chosen.keys) {
        const want = { ...subject.of, keys: numbersIn(chosen.keys), how: chosen.how };
        const column = await source.column(want, signal);
        if (!signal.aborted) this.showColumn(subject, chosen.keys, column);
      }
    } catch (error) {
      if (!isAbort(error)) onError(error);
    }
  }

  /**
   * @param {Subject} subject @param {Chosen} chosen @param {import("../../types.js").RowAnswer} answer
   */
  showRow(subject, { queries, keys, how }, { weights, arrived, sink }) {
    const { t } = this.app;
    const range = /** @type {[number, number]} */ (queries);
    fill(this.caption, t("map.table.row", { queries: rangeText(range) }));
    this.heads(["map.key", arrived ? "map.arrived" : null]);
    fill(this.body, largest(weights, ROWS).map((key) => this.row(key, subject.labels[key], weights[key],
      arrived ? significant(arrived[key], 3) : null, () => this.onGo({ query: range[0] === range[1] ? range[0] : null, key }))));
    if (sink > 0) this.body.append(h("tr", null, h("td", { colspan: 2 }, t("map.table.sink")), h("td", { class: "number" }, percent(sink))));
    const single = keys && keys[0] === keys[1] && range[0] === range[1];
    if (keys && !single) {
      this.told = { how, value: totalOf(weights, keys, how) };
      this.app.say(`${t(`map.total.${how}`)}: ${significant(this.told.value, 2)}`);
    }
    this.tellTotal();
    this.table.hidden = false;
  }

  /** @param {Subject} subject @param {[number, number]} keys @param {Float32Array} column */
  showColumn(subject, keys, column) {
    fill(this.caption, this.app.t("map.table.column", { keys: rangeText(keys) }));
    this.heads(["map.query", null]);
    fill(this.body, largest(column, ROWS).map((query) => this.row(query, subject.queryLabels[query], column[query], null,
      () => this.onGo({ query, key: keys[0] === keys[1] ? keys[0] : null }))));
    this.table.hidden = false;
  }

  /** @param {[string, string | null]} names */
  heads([first, last]) {
    const { t } = this.app;
    fill(this.head, h("th", { scope: "col", colspan: 2 }, t(first)), h("th", { scope: "col", class: "number" }, t("map.weight")),
      last ? h("th", { scope: "col", class: "number" }, t(last)) : null);
  }

  /**
   * @param {number} token @param {string} label @param {number} weight @param {string | null} more
   * @param {() => void} onGo
   * @returns {HTMLElement}
   */
  row(token, label, weight, more, onGo) {
    return h("tr", { "data-token": token },
      h("th", { scope: "row", class: "number" }, h("button", { type: "button", class: "quiet", onclick: onGo }, token)),
      h("td", null, h("bdi", { class: "map-word" }, visibleLabel(label ?? ""))),
      h("td", { class: "number" }, significant(weight, 4)), more === null ? null : h("td", { class: "number" }, more));
  }

  dispose() {
    this.stop?.abort();
    if (this.timer !== null) clearTimeout(this.timer);
  }
}
