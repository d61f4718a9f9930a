// @ts-check
/**
 * The overview: all heads of a captured text at once, coloured by a statistic, marked by kind.
 *
 * The idea: the chosen head is the view's layer and head, so the map and the flow open on it; hovering
 * shows another for as long as nothing is locked.
 *
 * Not here: where cells are (layout.js), how they are drawn (draw.js, grid.js), one head (panel.js).
 */

import { COLOURS, cssColour, paletteTable } from "../../draw/palettes.js";
import { explain } from "../../source/errors.js";
import { fill, eachFrame, h } from "../../parts/dom.js";
import { kindIcon, kindName, KINDS } from "../../parts/kinds.js";
import { count, statisticText } from "../../parts/numbers.js";
import { statisticName } from "../../parts/statistics.js";
import { toolbar } from "./toolbar.js";
import { HeadGrid } from "./grid.js";
import { ends, ranked, sections } from "./layout.js";
import { HeadPanel } from "./panel.js";

/**
 * @typedef {import("../../types.js").App} App
 * @typedef {import("../../types.js").HeadRow} HeadRow
 * @typedef {import("../../types.js").ViewState} ViewState
 * @typedef {import("../../types.js").TraceInfo} TraceInfo
 */

/** @type {import("../../types.js").KeyHelp[]} */
export const overviewKeys = [
  { keys: ["←", "→", "↑", "↓"], text: "overview.key.move" },
  { keys: ["Home", "End"], text: "overview.key.ends" },
  { keys: ["PgUp", "PgDn"], text: "overview.key.page" },
  { keys: ["Enter"], text: "overview.key.open" },
  { keys: ["Shift+Enter"], text: "overview.key.flow" },
  { keys: ["L"], text: "overview.key.like" },
  { keys: ["Esc"], text: "overview.key.escape" },
];

const ARROWS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];

/** @type {import("../../types.js").MountScreen} */
export function mountOverview(place, app) {
  return new Overview(place, app);
}

class Overview {
  /**
   * @param {HTMLElement} place
   * @param {App} app
   */
  constructor(place, app) {
    this.app = app;
    /** @type {TraceInfo | null} */
    this.info = null;
    /** @type {HeadRow[]} */
    this.heads = [];
    /** @type {HeadRow | null} */
    this.hovered = null;
    this.tools = toolbar(app);
    this.kinds = h("ul", { class: "legend", "aria-label": app.t("overview.kinds") });
    this.scale = h("div", { class: "scale" });
    this.note = h("p", { class: "note status" });
    this.grid = new HeadGrid(app.t("overview.grid"), {
      label: (head) => this.label(head),
      title: (section) => this.title(section),
      reason: (section) => section.layer?.reason ?? app.t("overview.no_map"),
      hover: (head) => this.hover(head),
      choose: (head) => this.choose(head),
      press: (head) => this.press(head),
      open: (head) => this.open("map", head),
    });
    this.panel = new HeadPanel(app, {
      open: (screen, head) => this.open(screen, head),
      choose: ({ layer, head }) => this.choose({ layer, head }, true),
      similar: (heads) => this.grid.outline(heads),
    });
    this.lock = h("button", { class: "quiet lock", onclick: () => this.unlock() }, app.t("overview.unlock"));
    this.scroll = h("div", { class: "scroll" }, this.grid.element);
    fill(place,
      h("div", { class: "bar" }, this.tools.element, this.note, this.lock),
      h("div", { class: "legends" }, this.scale, this.kinds),
      h("div", { class: "split" }, this.scroll, this.panel.element));
    this.redraw = eachFrame(() => this.draw());
    this.sizes = new ResizeObserver(() => this.redraw());
    this.sizes.observe(this.scroll);
    this.schemes = new MutationObserver(() => this.redraw());
    this.schemes.observe(app.root, { attributes: true, attributeFilter: ["data-scheme"] });
  }

  /** @param {ViewState} now @param {ViewState | null} before */
  update(now, before) {
    if (now.trace !== before?.trace) this.load(now.trace);
    else if (this.info) this.refresh(now, before);
  }

  /** @param {string | null} trace */
  async load(trace) {
    this.info = null;
    this.heads = [];
    this.hovered = null;
    this.note.textContent = this.app.t("overview.loading");
    if (trace === null) return;
    try {
      const [info, heads] = await Promise.all([this.app.source.info(trace), this.app.source.heads(trace)]);
      if (this.app.store.get().trace !== trace) return;
      this.info = info;
      this.heads = heads;
      this.grid.outline([]);
      this.panel.forget();
      this.refresh(this.app.store.get(), null);
    } catch (error) {
      this.note.textContent = this.app.t("overview.failed");
      this.app.fail(explain(error, this.app.t));
    }
  }

  /** @param {ViewState} now @param {ViewState | null} before */
  refresh(now, before) {
    if (!this.info) return;
    this.tools.update(now, this.info, this.heads.length);
    const looks = /** @type {const} */ (["statistic", "sort", "top", "palette"]);
    if (!before || looks.some((name) => now[name] !== before[name])) this.draw();
    else if (now.layer !== before.layer || now.head !== before.head) this.grid.select(now.layer, now.head, this.grid.focusedHere);
    this.lock.hidden = !now.locked;
    this.showPanel();
  }

  draw() {
    const { info, app, heads } = this;
    const width = this.scroll.clientWidth;
    if (!info || width === 0) return;
    const now = app.store.get();
    const style = getComputedStyle(app.root);
    const colour = /** @param {string} name */ (name) => style.getPropertyValue(name).trim();
    const best = now.top === null ? null : new Set(ranked(heads, now.statistic).slice(0, now.top));
    const scale = ends(heads, now.statistic);
    const parts = sections(info.layers, heads, now);
    this.grid.draw(parts, { width: width - 12, height: this.scroll.clientHeight - 34, label: this.labelWidth(parts) }, {
      statistic: now.statistic, ends: scale, palette: now.palette,
      bright: (head) => !best || best.has(head),
      ink: colour("--ink"), bracket: colour("--line-strong"), line: colour("--line"), font: style.fontFamily,
      caption: ({ head }) => (now.sort === "layer" ? null : `${head.layer}.${head.head}`),
    });
    this.grid.select(now.layer, now.head, this.grid.focusedHere);
    this.legends(now, scale);
  }

  /** @param {import("./layout.js").Section[]} parts */
  labelWidth(parts) {
    const longest = Math.max(...parts.map((part) => [...this.title(part)].reduce((sum, c) => sum + (c > "ÿ" ? 13 : 7), 0)), 0);
    return Math.min(132, longest + 18);
  }

  /** @param {ViewState} now @param {[number, number]} scale */
  legends(now, [low, high]) {
    const { t } = this.app;
    const table = paletteTable(now.palette);
    const stops = Array.from({ length: 17 }, (_, i) => cssColour(table, Math.round((i / 16) * (COLOURS - 1))));
    fill(this.scale,
      h("span", { class: "name" }, statisticName(t, now.statistic)),
      h("span", { class: "end" }, statisticText(now.statistic, low)),
      h("span", { class: "ramp", style: { background: `linear-gradient(to right, ${stops.join(",")})` } }),
      h("span", { class: "end" }, statisticText(now.statistic, high)));
    const kinds = [...new Set([...KINDS, ...this.heads.map((one) => one.kind)])];
    fill(this.kinds, kinds.map((kind) => {
      const many = this.heads.filter((one) => one.kind === kind).length;
      return many ? h("li", null, kindIcon(kind), h("span", null, kindName(t, kind)), h("span", { class: "count" }, count(many))) : null;
    }));
    const maps = this.info?.layers.filter((one) => one.kind !== "none").length ?? 0;
    this.note.textContent = t("overview.count", { count: this.heads.length, shown: count(this.heads.length), layers: maps });
  }

  /** @param {HeadRow} head */
  label(head) {
    const { t, store } = this.app;
    const { statistic } = store.get();
    return t("overview.cell", {
      layer: head.layer, head: head.head, kind: kindName(t, head.kind),
      name: statisticName(t, statistic), value: statisticText(statistic, head.statistics[statistic]),
    });
  }

  /** @param {import("./layout.js").Section} section */
  title({ layer, kind }) {
    const { t } = this.app;
    if (kind !== null) return kindName(t, kind);
    if (!layer) return "";
    return layer.window && this.info?.layers.some((one) => one.window !== layer.window)
      ? t("overview.layer_window", { layer: layer.index, window: layer.window }) : t("overview.layer", { layer: layer.index });
  }

  showPanel() {
    const { info, heads } = this;
    if (!info) return;
    const { layer, head, locked } = this.app.store.get();
    const chosen = heads.find((one) => one.layer === layer && one.head === head) ?? null;
    this.panel.show((locked ? null : this.hovered) ?? chosen, info);
  }

  /** @param {HeadRow | null} head */
  hover(head) {
    if (this.hovered === head) return;
    this.hovered = head;
    this.showPanel();
  }

  /** @param {{layer: number, head: number}} head @param {boolean} [focus] */
  choose({ layer, head }, focus = false) {
    this.hovered = null;
    this.app.store.set({ layer, head });
    if (focus) this.grid.select(layer, head, true);
  }

  /** A click holds a head, a second click lets it go. @param {HeadRow} row */
  press({ layer, head }) {
    const now = this.app.store.get();
    const same = now.layer === layer && now.head === head;
    this.app.store.set({ layer, head, locked: !(same && now.locked) });
  }

  /** @param {"map" | "flow"} screen @param {HeadRow} row */
  open(screen, { layer, head }) {
    this.app.store.set({ screen, layer, head, locked: false, view: null });
  }

  unlock() {
    this.app.store.set({ locked: false });
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    const cell = this.grid.layout.cells[this.grid.current];
    if (event.key === "Escape") {
      if (!this.app.store.get().locked) return false;
      this.unlock();
      return true;
    }
    if (!cell) return false;
    if (event.key === "l" || event.key === "L") {
      this.choose(cell.head);
      this.panel.askSimilar();
      return true;
    }
    if (event.key === "Enter" && event.shiftKey && this.grid.focusedHere) {
      this.open("flow", cell.head);
      return true;
    }
    if (this.grid.key(event)) return true;
    const free = event.target instanceof Element && !event.target.closest("button, a, aside, [role=tab]");
    if (!free || this.grid.focusedHere || !ARROWS.includes(event.key)) return false;
    this.grid.stand(this.grid.current, true);
    this.choose(cell.head);
    return true;
  }

  dispose() {
    this.panel.stop();
    this.grid.stop();
    this.redraw.stop();
    this.sizes.disconnect();
    this.schemes.disconnect();
  }
}
