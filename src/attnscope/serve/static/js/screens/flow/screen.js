// @ts-check
/**
 * The flow into one token: the text shaded by where the token looks, and beside it what arrived.
 *
 * The idea: a token under the pointer is shown for as long as nothing is held; a click, an arrow or a
 * drag chooses tokens and holds them (locked), Esc lets go. The chosen tokens are the view's queries,
 * the key looked at is the view's keys, so a link has both. With no head chosen, the mean over heads
 * (and layers) is shown.
 *
 * Not here: asking (data.js), lines (text.js), lists (panel.js), moving by keys (moves.js).
 */

import { explain } from "../../source/errors.js";
import { eachFrame, fill, h } from "../../parts/dom.js";
import { percent } from "../../parts/numbers.js";
import { FlowData } from "./data.js";
import { byLayer, shades } from "./mass.js";
import { moved } from "./moves.js";
import { FlowPanel, rangeLabel, sumText } from "./panel.js";
import { stepper } from "./steps.js";
import { layerStrip } from "./strip.js";
import { TextView } from "./text.js";
import { find, visible, Words } from "./tokens.js";
import { halves, toolbar } from "./toolbar.js";

/**
 * @typedef {import("../../types.js").App} App
 * @typedef {import("../../types.js").ViewState} ViewState
 * @typedef {import("../../types.js").TraceInfo} TraceInfo
 * @typedef {import("../../types.js").TokenTable} TokenTable
 */

/** @type {import("../../types.js").KeyHelp[]} */
export const flowKeys = [
  { keys: ["←", "→"], text: "flow.key.token" },
  { keys: ["Shift+←", "Shift+→"], text: "flow.key.word" },
  { keys: ["↑", "↓"], text: "flow.key.line" },
  { keys: ["PgUp", "PgDn"], text: "flow.key.page" },
  { keys: ["Home", "End"], text: "flow.key.ends" },
  { keys: ["E"], text: "flow.key.extend" },
  { keys: [",", "."], text: "flow.key.step" },
  { keys: ["[", "]"], text: "flow.key.layer" },
  { keys: ["{", "}"], text: "flow.key.head" },
  { keys: ["M"], text: "flow.key.how" },
  { keys: ["/"], text: "flow.key.find" },
  { keys: ["Enter"], text: "flow.key.map" },
  { keys: ["Esc"], text: "flow.key.escape" },
];

/** @type {import("../../types.js").MountScreen} */
export function mountFlow(place, app) {
  return new Flow(place, app);
}

export class Flow {
  /**
   * @param {HTMLElement} place
   * @param {App} app
   */
  constructor(place, app) {
    this.app = app;
    /** @type {TraceInfo | null} */
    this.info = null;
    /** @type {TokenTable | null} */
    this.table = null;
    /** @type {Words | null} */
    this.words = null;
    /** @type {number | null} */
    this.pointed = null;
    this.extending = false;
    this.said = "";
    /** @type {import("./data.js").Got | null} */
    this.got = null;
    /** @type {import("./data.js").Flow | null} */
    this.flow = null;
    this.tools = toolbar(app, { find: (text) => this.find(text) });
    this.steps = stepper(app, (token) => this.step(token));
    this.lock = h("button", { class: "quiet lock", onclick: () => this.release() }, app.t("flow.release"));
    this.panel = new FlowPanel(app, { key: (key) => this.lookAt(key), all: (all) => this.listAll(all), choose: (token) => this.choose(token, token) });
    this.strip = layerStrip(app, (layer) => app.store.set({ layer }));
    this.panel.element.prepend(this.lock);
    fill(this.panel.strip, this.strip.element);
    this.strip.hide();
    this.text = new TextView(app.t("flow.text"), {
      point: (token) => this.point(token),
      press: (first, last, extend) => this.press(first, last, extend),
      drag: (first, last) => this.choose(first, last),
    });
    this.legend = legend(app);
    this.data = new FlowData(app.source, {
      row: (got) => this.row(got),
      layers: (flow) => this.layers(flow),
      later: (column) => this.later(column),
      failed: (error) => app.fail(explain(error, app.t)),
    });
    fill(place,
      h("div", { class: "bar" }, this.tools.element),
      h("div", { class: "split" }, h("div", { class: "reading" }, h("div", { class: "bar" }, this.legend, this.tools.search), this.text.element, this.steps.element), this.panel.element));
    this.resized = eachFrame(() => this.text.layout());
    this.sizes = new ResizeObserver(() => this.resized());
    this.sizes.observe(this.text.element);
  }

  /** @param {ViewState} now @param {ViewState | null} before */
  update(now, before) {
    if (now.trace !== before?.trace) this.load(now.trace);
    else if (this.info) this.refresh(now);
  }

  /** @param {string | null} trace */
  async load(trace) {
    this.info = this.table = this.words = this.got = this.flow = null;
    this.data.stop();
    this.text.clear();
    if (trace === null) return;
    try {
      const [info, table] = await Promise.all([this.app.source.info(trace), this.app.source.tokens(trace)]);
      if (this.app.store.get().trace !== trace) return;
      this.info = info;
      this.table = table;
      this.words = new Words(table, this.app.store.get().language);
      this.text.setTokens(table);
      this.text.show({ made: info.prompt_tokens });
      this.refresh(this.app.store.get());
      if (this.shownQueries) this.text.reveal(this.shownQueries[0]);
    } catch (error) {
      this.app.fail(explain(error, this.app.t));
    }
  }

  /** Where rows begin: how many tokens stand before the first query. */
  get offset() {
    const layer = this.info?.layers.find((one) => one.kind !== "none");
    return layer && !layer.cross ? layer.keys - layer.queries : 0;
  }

  /** The tokens shown now: under the pointer, or chosen, or the last. @returns {[number, number] | null} */
  get shownQueries() {
    const { queries, locked } = this.app.store.get();
    if (!locked && this.pointed !== null) return [this.pointed, this.pointed];
    const last = (this.table?.ids.length ?? 0) - 1;
    return queries ?? (last >= this.offset ? [last, last] : null);
  }

  /** @param {ViewState} now */
  refresh(now) {
    const { info, table } = this;
    if (!info || !table || now.trace === null) return;
    this.tools.update(now, info);
    this.lock.hidden = !now.locked;
    this.steps.update(table, info.prompt_tokens, now.queries);
    const queries = this.shownQueries;
    if (!queries) {
      this.data.stop();
      this.got = this.flow = null;
      this.strip.hide();
      this.panel.hint();
      this.text.show({ shade: null, bar: null, later: null, chosen: null, keys: null, shown: Infinity });
      return;
    }
    const bounded = this.bounded(queries);
    if (this.got && this.got.want.trace !== now.trace) this.got = null;
    this.panel.about(table, bounded, now.locked || now.queries !== null);
    this.text.show({ chosen: bounded, keys: now.keys, shown: this.stepping(now) ? bounded[1] + 1 : Infinity });
    this.data.ask({ trace: now.trace, layer: now.layer, head: now.head, queries: bounded, how: now.how, offset: this.offset });
    if (this.got) this.showRow();
    this.showStrip();
  }

  /** Whether a step of the generation is shown: then what came later is not there yet. @param {ViewState} now */
  stepping({ queries }) {
    const { info, table } = this;
    if (!info || !table || !queries || info.prompt_tokens >= table.ids.length) return false;
    return queries[0] === queries[1] && queries[1] >= info.prompt_tokens - 1;
  }

  /** @param {[number, number]} range @returns {[number, number]} */
  bounded([first, last]) {
    const most = (this.table?.ids.length ?? 1) - 1;
    const least = this.offset;
    return [Math.min(most, Math.max(least, first)), Math.min(most, Math.max(least, last))];
  }

  /** @param {import("./data.js").Got} got */
  row(got) {
    this.got = got;
    this.text.show({ later: null });
    this.showRow();
    if (got.want.head === null || got.want.layer === null) this.panel.listLater(/** @type {TokenTable} */ (this.table), null, { offset: 0, last: 0 });
  }

  /** Shades the text and lists the keys of the row that is here. */
  showRow() {
    const { got, table, info } = this;
    if (!got || !table || !info) return;
    const now = this.app.store.get();
    const { shade, noSink } = halves(now.measure);
    const sinks = info.sink_keys;
    const from = noSink ? sinks : 0;
    const listed = this.panel.list(table, got, { mass: now.mass, from, keys: now.keys, over: this.over(got.want) });
    const without = /** @param {Float32Array | null} values */ (values) => values && (noSink ? values.map((value, key) => (key < sinks ? 0 : value)) : values);
    const [weights, arrived] = [without(got.weights), without(got.arrived)];
    const main = shade === "arrived" && arrived ? arrived : weights;
    this.text.show({
      shade: main && shades(main, sinks),
      bar: shade === "arrived" ? weights && shades(weights, sinks) : arrived && shades(arrived, 0),
    });
    this.text.setShade(shade);
    this.announce(got, listed, from);
  }

  /** What a row is the mean of, in words. @param {import("./data.js").Want} want */
  over({ layer, head }) {
    const { t } = this.app;
    if (head !== null && layer !== null) return "";
    if (layer === null) return t("flow.over_all");
    return t("flow.over_layer", { count: this.info?.layers.find((one) => one.index === layer)?.query_heads ?? 0 });
  }

  /** Speaks a row once, when it is one that was chosen. @param {import("./data.js").Got} got @param {import("./mass.js").MassList | null} listed @param {number} from */
  announce({ want, sink }, listed, from) {
    const { t, store } = this.app;
    const { mass } = store.get();
    const name = JSON.stringify([want, mass, from]);
    if (!listed || !this.table || this.said === name || (this.pointed !== null && !store.get().locked) || store.get().queries === null) return;
    this.said = name;
    const top = listed.listed[0];
    if (!top) return;
    this.app.say(t("flow.said", {
      name: rangeLabel(this.table, ...want.queries), query: want.queries[0], sum: sumText(t, listed, { mass, from, sink }),
      key: visible(this.table.labels[top.key]), position: top.key, weight: percent(top.weight),
    }));
  }

  /** @param {import("./data.js").Flow} flow */
  layers(flow) {
    this.flow = flow;
    this.showStrip();
  }

  /** The layers of the key looked at, or of the one with the most weight beyond the sink. */
  showStrip() {
    const { flow, got, table, info } = this;
    if (!flow || !got?.weights || !table || !info) return;
    const { keys, layer } = this.app.store.get();
    const range = keys ?? this.strongest(got.weights, info.sink_keys);
    const all = Array.from({ length: range[1] - range[0] + 1 }, (_, index) => range[0] + index).filter((key) => key < flow.keys);
    this.strip.show(rangeLabel(table, ...range), flow.layers, byLayer(flow, all), layer);
    this.strip.unhide();
  }

  /** @param {Float32Array} weights @param {number} from @returns {[number, number]} */
  strongest(weights, from) {
    let best = Math.min(from, weights.length - 1);
    for (let key = from; key < weights.length; key++) if (weights[key] > weights[best]) best = key;
    return [best, best];
  }

  /** @param {Float32Array} column   by row */
  later(column) {
    if (!this.table || !this.got) return;
    const { queries, offset } = this.got.want;
    const later = new Float32Array(this.table.ids.length);
    for (let row = queries[1] + 1 - offset; row < column.length; row++) later[row + offset] = column[row];
    this.text.show({ later: shades(later, 0) });
    this.panel.listLater(this.table, column, { offset, last: queries[1] });
  }

  /** @param {number | null} token */
  point(token) {
    if (this.pointed === token) return;
    this.pointed = token;
    if (!this.app.store.get().locked) this.refresh(this.app.store.get());
  }

  /** @param {number} first @param {number} last @param {boolean} extend */
  press(first, last, extend) {
    const { queries } = this.app.store.get();
    if (extend && queries) this.choose(Math.min(first, queries[0]), Math.max(last, queries[1]));
    else this.choose(first, last);
  }

  /** @param {number} first @param {number} last */
  choose(first, last) {
    const queries = this.bounded([first, last]);
    this.app.store.set({ queries, locked: true });
    this.text.reveal(queries[1]);
  }

  /** @param {number} key */
  lookAt(key) {
    const { keys } = this.app.store.get();
    this.app.store.set({ keys: keys && keys[0] === key && keys[1] === key ? null : [key, key] });
    this.text.reveal(key);
  }

  /** @param {boolean} all */
  listAll(all) {
    this.panel.all = all;
    this.showRow();
    /** @type {HTMLElement | null} */ (this.panel.element.querySelector(".more"))?.focus();
  }

  release() {
    this.extending = false;
    this.app.store.set({ locked: false, keys: null });
  }

  /** @param {number} token   that was generated: the row before it chose it */
  step(token) {
    if (!this.info || !this.table) return;
    const at = Math.min(this.table.ids.length - 1, Math.max(this.info.prompt_tokens, token));
    this.choose(at - 1, at - 1);
  }

  /** @param {string} text */
  find(text) {
    if (!this.table) return;
    const found = find(this.table, text, this.app.store.get().queries?.[1] ?? -1);
    if (found) this.choose(found.first, found.last);
    else this.app.say(this.app.t("flow.not_found"));
    this.tools.search.setAttribute("aria-invalid", String(!found));
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    return moved(this, event);
  }

  dispose() {
    this.data.stop();
    this.resized.stop();
    this.sizes.disconnect();
  }
}

/** What the shades mean. @param {App} app */
function legend({ t }) {
  return h("ul", { class: "legend" },
    h("li", null, h("span", { class: "swatch w" }), t("flow.legend.weight")),
    h("li", null, h("span", { class: "swatch a" }), t("flow.legend.arrived")),
    h("li", null, h("span", { class: "swatch l" }), t("flow.legend.later")),
    h("li", null, h("span", { class: "swatch c" }), t("flow.legend.chosen")));
}
