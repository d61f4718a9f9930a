// @ts-check
/**
 * Beside the text: the chosen tokens, the keys that hold the weight, who looks at them later.
 *
 * Not here: asking (data.js), the layers (strip.js).
 */

import { fill, h } from "../../parts/dom.js";
import { count, percent, significant } from "../../parts/numbers.js";
import { largest, massList } from "./mass.js";
import { joinedLabel } from "../../parts/labels.js";
import { bytesText, visible } from "./tokens.js";

/**
 * @typedef {import("../../types.js").App} App
 * @typedef {import("../../types.js").TokenTable} TokenTable
 * @typedef {import("./data.js").Got} Got
 */

const MOST = 200;
const FEW = 10;
const LATER = 5;

export class FlowPanel {
  /**
   * @param {App} app
   * @param {{key: (key: number) => void, all: (all: boolean) => void, choose: (token: number) => void}} hooks
   */
  constructor(app, hooks) {
    this.app = app;
    this.hooks = hooks;
    this.all = false;
    this.head = h("div", { class: "about" });
    this.keys = h("div", { class: "keys" });
    this.strip = h("div", { class: "strip-place" });
    this.later = h("div", { class: "later" });
    this.element = h("aside", { class: "panel side", "aria-label": app.t("flow.panel") }, this.head, this.keys, this.strip, this.later);
  }

  /** Where no token has a row. */
  hint() {
    fill(this.head, h("p", { class: "note" }, this.app.t("flow.no_map")));
    fill(this.keys);
    fill(this.later);
  }

  /**
   * Says which tokens are chosen: their characters, pieces and bytes.
   * @param {TokenTable} table
   * @param {[number, number]} queries
   * @param {boolean} chosen   by the reader; otherwise it is said how
   */
  about(table, [first, last], chosen) {
    const { t } = this.app;
    fill(this.head,
      chosen ? null : h("p", { class: "note hint" }, t("flow.hint")),
      h("h2", { class: "token-name" }, h("bdi", null, rangeLabel(table, first, last))),
      h("p", { class: "note" }, first === last ? t("flow.token", { token: count(first) })
        : t("flow.tokens", { first: count(first), last: count(last), count: last - first + 1 })),
      h("details", null, h("summary", { class: "note" }, t("flow.bytes")), this.pieces(table, first, last)));
  }

  /** @param {TokenTable} table @param {number} first @param {number} last */
  pieces(table, first, last) {
    const { t } = this.app;
    const end = Math.min(last, first + 15);
    const rows = [];
    for (let token = first; token <= end; token++) {
      const bytes = bytesText(table.text, (table.own_start ?? table.start)[token], (table.own_end ?? table.end)[token]);
      rows.push(h("tr", null, h("td", { class: "number" }, count(token)), h("td", null, h("bdi", null, visible(table.labels[token]))),
        h("td", { class: "number mono" }, table.ids[token]), h("td", { class: "mono" }, bytes || t("flow.no_bytes"))));
    }
    return h("table", null,
      h("thead", null, h("tr", null, h("th", { scope: "col", class: "number" }, t("flow.position")), h("th", { scope: "col" }, t("flow.character")),
        h("th", { scope: "col", class: "number" }, t("flow.id")), h("th", { scope: "col" }, t("flow.utf8")))),
      h("tbody", null, rows));
  }

  /**
   * Lists the keys up to the mass.
   * @param {TokenTable} table
   * @param {Got} got
   * @param {{mass: number, from: number, keys: [number, number] | null, over: string}} look   from: keys
   *     before it are left out; over: what the numbers are the mean of, in words; "" where they are one head's
   * @returns {import("./mass.js").MassList | null}
   */
  list(table, got, { mass, from, keys, over }) {
    const { t } = this.app;
    if (!got.weights) {
      fill(this.keys, h("p", { class: "note" }, t("flow.no_map")));
      return null;
    }
    const { weights, arrived } = got;
    const found = massList(weights, mass, { from });
    const top = found.listed[0]?.weight ?? 0;
    const most = arrived ? found.listed.reduce((best, { key }) => Math.max(best, arrived[key]), 0) : 0;
    const shown = found.listed.slice(0, this.all ? MOST : FEW);
    const hidden = found.listed.length - shown.length;
    const rest = found.rest.weight + found.listed.slice(shown.length).reduce((sum, one) => sum + one.weight, 0);
    const rows = shown.map(({ key, weight }) => h("tr", { class: keys && key >= keys[0] && key <= keys[1] ? "current" : null },
      h("th", { scope: "row" }, h("button", { class: "quiet token-button", data: { key }, onclick: () => this.hooks.key(key) },
        h("bdi", null, visible(table.labels[key])), h("span", { class: "note" }, count(key)))),
      bar("weight", weight / top, percent(weight)),
      arrived ? bar("arrived", most > 0 ? arrived[key] / most : 0, significant(arrived[key])) : null));
    const others = found.rest.count + hidden;
    fill(this.keys,
      h("p", { class: "sum" }, sumText(t, found, { mass, from, sink: got.sink })),
      h("table", null, over ? h("caption", { class: "note" }, over) : null,
        h("thead", null, h("tr", null, h("th", { scope: "col" }, t("flow.key")), h("th", { scope: "col" }, t("flow.weight")),
          arrived ? h("th", { scope: "col" }, t("flow.arrived")) : null)),
        h("tbody", null, rows,
          others ? plain(t("flow.rest", { count: others, shown: count(others) }), bar("rest", rest / top, percent(rest)), arrived) : null,
          got.sink > 0 ? plain(t("flow.sink_logit"), bar("rest", got.sink / top, percent(got.sink)), arrived) : null)),
      found.listed.length > FEW ? h("button", { class: "quiet more", "aria-expanded": this.all, onclick: () => this.hooks.all(!this.all) },
        this.all ? t("flow.fewer") : t("flow.more", { count: Math.min(MOST, found.listed.length) })) : null,
      from > 0 ? h("p", { class: "note left-out" }, t("flow.left_out", { count: from, share: percent(sumOf(weights, from)) })) : null);
    return found;
  }

  /**
   * The later tokens that look most at the chosen ones.
   * @param {TokenTable} table
   * @param {Float32Array | null} column   by row
   * @param {{offset: number, last: number}} place
   */
  listLater(table, column, { offset, last }) {
    const { t } = this.app;
    if (!column) return fill(this.later, h("p", { class: "note" }, t("flow.later_needs_head")));
    const rows = largest(column, LATER, last + 1 - offset);
    if (rows.length === 0) return fill(this.later, h("p", { class: "note" }, t("flow.nobody_later")));
    const top = column[rows[0]];
    fill(this.later,
      h("h3", null, t("flow.later")),
      h("table", null, h("tbody", null, rows.map((row) => h("tr", null,
        h("th", { scope: "row" }, h("button", { class: "quiet token-button", onclick: () => this.hooks.choose(row + offset) },
          h("bdi", null, visible(table.labels[row + offset] ?? "")), h("span", { class: "note" }, count(row + offset)))),
        bar("later", column[row] / top, percent(column[row])))))));
  }
}

/**
 * A number with a bar behind it.
 * @param {string} kind
 * @param {number} share
 * @param {string} text
 */
function bar(kind, share, text) {
  const width = `${(100 * Math.max(0, Math.min(1, share || 0))).toFixed(1)}%`;
  return h("td", { class: `bar ${kind}` }, h("span", { class: "fill", style: { width } }), h("span", { class: "value" }, text));
}

/** @param {string} name @param {HTMLElement} cell @param {unknown} third */
function plain(name, cell, third) {
  return h("tr", { class: "plain" }, h("th", { scope: "row" }, name), cell, third ? h("td", null) : null);
}

/** @param {ArrayLike<number>} weights @param {number} end */
function sumOf(weights, end) {
  let sum = 0;
  for (let key = 0; key < end && key < weights.length; key++) sum += weights[key];
  return sum;
}

/**
 * In how many tokens the listed share is, and of what it is a share: "90 % in 2 tokens".
 * @param {App["t"]} t
 * @param {import("./mass.js").MassList} found
 * @param {{mass: number, from: number, sink: number}} of   from: keys left out; sink: a learned sink's share
 * @returns {string}
 */
export function sumText(t, { listed }, { mass, from, sink }) {
  const name = from > 0 ? "flow.sum_left" : sink > 0 ? "flow.sum_tokens" : "flow.sum";
  return t(name, { count: listed.length, shown: count(listed.length), share: shareText(mass) });
}

/**
 * A round share without decimals: "90 %".
 * @param {number} share
 * @returns {string}
 */
export function shareText(share) {
  return `${Number((share * 100).toFixed(1))} %`;
}

/**
 * The characters of a range of tokens, each once, shortened in the middle.
 * @param {TokenTable} table
 * @param {number} first
 * @param {number} last
 * @returns {string}
 */
export function rangeLabel(table, first, last) {
  const near = Math.min(last, first + 60);
  const begin = [...visible(joinedLabel(table, first, near))];
  if (near === last && begin.length <= 48) return begin.join("");
  const stop = [...visible(joinedLabel(table, Math.max(first, last - 20), last))];
  return `${begin.slice(0, 30).join("")}…${stop.slice(-14).join("")}`;
}
