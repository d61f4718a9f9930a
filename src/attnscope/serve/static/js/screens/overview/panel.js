// @ts-check
/**
 * What is beside the overview's grid: one head, small, with its numbers, and the heads like it.
 *
 * Not here: which head (screen.js).
 */

import { isAbort } from "../../source/errors.js";
import { fill, h } from "../../parts/dom.js";
import { kindIcon, kindName } from "../../parts/kinds.js";
import { signed, statisticText } from "../../parts/numbers.js";
import { inOrder, statisticName } from "../../parts/statistics.js";
import { drawThumbnail } from "./draw.js";
import { kvHead } from "./layout.js";

/**
 * @typedef {import("../../types.js").App} App
 * @typedef {import("../../types.js").HeadRow} HeadRow
 * @typedef {import("../../types.js").TraceInfo} TraceInfo
 */

const WAIT = 80;
const LIKE = 8;

export class HeadPanel {
  /**
   * @param {App} app
   * @param {{open: (screen: "map" | "flow", head: HeadRow) => void, choose: (head: {layer: number, head: number}) => void, similar: (heads: {layer: number, head: number}[]) => void}} hooks
   */
  constructor(app, hooks) {
    this.app = app;
    this.hooks = hooks;
    /** @type {HeadRow | null} */
    this.head = null;
    /** @type {TraceInfo | null} */
    this.info = null;
    /** @type {AbortController | null} */
    this.asked = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.canvas = h("canvas", { class: "thumbnail" });
    this.body = h("div", { class: "body" });
    this.like = h("div", { class: "like" });
    this.element = h("aside", { class: "panel detail", "aria-label": app.t("overview.detail") }, this.body, this.like);
  }

  /**
   * @param {HeadRow | null} head
   * @param {TraceInfo} info
   */
  show(head, info) {
    if (head === this.head && info === this.info) return;
    this.head = head;
    this.info = info;
    if (!head) {
      this.stop();
      fill(this.body, h("p", { class: "note hint" }, this.app.t("overview.hint")));
      return;
    }
    const { t } = this.app;
    const layer = info.layers.find((one) => one.index === head.layer);
    fill(this.body,
      h("h2", null, t("overview.head", { layer: head.layer, head: head.head })),
      h("p", { class: "kind-line" }, kindIcon(head.kind), h("span", null, kindName(t, head.kind)),
        layer && layer.kv_heads < layer.query_heads ? h("span", { class: "note" }, t("overview.kv_head", { kv: kvHead(layer, head.head) })) : null),
      layer?.window ? h("p", { class: "note" }, t("overview.window", { count: layer.window })) : null,
      h("div", { class: "picture" }, this.canvas),
      h("div", { class: "tools" },
        h("button", { class: "primary", onclick: () => this.hooks.open("map", head) }, t("overview.open_map")),
        h("button", { onclick: () => this.hooks.open("flow", head) }, t("overview.open_flow")),
        h("button", { onclick: () => this.askSimilar() }, t("overview.similar"))),
      this.numbers(head));
    this.askPicture(head, layer?.levels ?? 1);
  }

  /** @param {HeadRow} head */
  numbers(head) {
    const { t } = this.app;
    return h("table", null,
      h("caption", { class: "note" }, t("overview.means")),
      h("tbody", null, inOrder(Object.keys(head.statistics)).map((name) => h("tr", null,
        h("th", { scope: "row" }, statisticName(t, name)),
        h("td", { class: "number", data: { statistic: name } }, statisticText(name, head.statistics[name]))))));
  }

  /** @param {HeadRow} head @param {number} levels */
  askPicture(head, levels) {
    this.stop();
    const { source, store, t } = this.app;
    const { trace, palette } = store.get();
    const asked = (this.asked = new AbortController());
    const context = this.canvas.getContext("2d");
    context?.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", t("overview.picture", { layer: head.layer, head: head.head }));
    if (trace === null) return;
    // A pointer that passes over a hundred heads asks for the one it stays on.
    this.timer = setTimeout(async () => {
      try {
        const want = { trace, layer: head.layer, head: head.head, measure: /** @type {const} */ ("weight"), level: Math.max(0, levels - 1), at: /** @type {[number, number][]} */ ([[0, 0]]) };
        const [tile] = await source.tiles(want, asked.signal);
        if (!asked.signal.aborted) drawThumbnail(this.canvas, tile, palette);
      } catch (error) {
        if (!isAbort(error)) this.app.fail(error instanceof Error ? error.message : String(error));
      }
    }, WAIT);
  }

  async askSimilar() {
    const { source, store, t } = this.app;
    const { trace } = store.get();
    const head = this.head;
    if (!head || trace === null) return;
    fill(this.like, h("p", { class: "note" }, t("overview.searching")));
    try {
      const found = await source.similar({ trace, layer: head.layer, head: head.head, count: LIKE });
      fill(this.like,
        h("h3", null, t("overview.like", { layer: head.layer, head: head.head })),
        h("ol", null, found.map((one) => h("li", null, h("button", { class: "quiet", onclick: () => this.hooks.choose(one) },
          h("span", null, t("overview.head", { layer: one.layer, head: one.head })),
          h("span", { class: "note" }, t("overview.likeness", { value: signed(one.similarity, 3) })))))),
        h("button", { class: "quiet", onclick: () => this.forget() }, t("overview.forget")));
      this.hooks.similar(found);
      this.app.say(t("overview.found", { count: found.length }));
    } catch (error) {
      this.forget();
      this.app.fail(error instanceof Error ? error.message : String(error));
    }
  }

  forget() {
    fill(this.like);
    this.hooks.similar([]);
  }

  stop() {
    clearTimeout(this.timer);
    this.asked?.abort();
  }
}
