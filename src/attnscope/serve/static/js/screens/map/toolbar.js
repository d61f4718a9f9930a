// @ts-check
/**
 * The line above the map: which head, compared with which, and what one can do with the figure.
 *
 * Not here: what the buttons do (screen.js), the scale (controls.js).
 */

import { fill, h } from "../../parts/dom.js";

/** @typedef {import("../../types.js").App} App */
/** @typedef {import("../../types.js").HeadRef} HeadRef */
/** @typedef {import("../../types.js").TraceInfo} TraceInfo */
/** @typedef {"png" | "svg" | "csv" | "parquet"} ExportKind */

/**
 * @param {HTMLSelectElement} select
 * @param {{value: string, text: string, off?: boolean}[]} options
 * @param {string} value
 */
function setOptions(select, options, value) {
  const known = JSON.stringify(options);
  if (select.dataset.options !== known) {
    select.dataset.options = known;
    fill(select, options.map(({ value: one, text, off }) => h("option", { value: one, disabled: off ?? false }, text)));
  }
  select.value = value;
}

/** Choosing a head: a layer, a head, and for the comparison a text. */
export class HeadChoice {
  /**
   * @param {App["t"]} t
   * @param {{label: string, withTrace: boolean, onChange: (of: HeadRef) => void}} options
   */
  constructor(t, { label, withTrace, onChange }) {
    this.t = t;
    /** @type {HeadRef | null} */
    this.of = null;
    const change = () => this.of && onChange({ trace: this.trace.value || this.of.trace, layer: Number(this.layer.value), head: Number(this.head.value) });
    this.trace = h("select", { class: "map-trace", "aria-label": t("shell.trace"), onchange: change });
    this.layer = h("select", { "aria-label": t("map.layer"), onchange: change });
    this.head = h("select", { "aria-label": t("map.head"), onchange: change });
    this.element = h("div", { class: "map-head", role: "group", "aria-label": t(label) },
      withTrace ? this.trace : null,
      h("label", { class: "field" }, h("span", null, t("map.layer")), this.layer),
      h("label", { class: "field" }, h("span", null, t("map.head")), this.head));
  }

  /**
   * @param {HeadRef} of
   * @param {TraceInfo} info
   * @param {import("../../types.js").TraceEntry[]} traces
   */
  update(of, info, traces) {
    this.of = of;
    setOptions(this.trace, traces.map(({ id, name }) => ({ value: id, text: name })), of.trace);
    const layers = info.layers.map(({ index, kind }) => ({ value: String(index), text: `${index} · ${this.kind(kind)}` }));
    setOptions(this.layer, layers, String(of.layer));
    const heads = info.layers.find(({ index }) => index === of.layer)?.query_heads ?? 1;
    setOptions(this.head, Array.from({ length: Math.max(heads, 1) }, (_, at) => ({ value: String(at), text: String(at) })), String(of.head));
  }

  /** @param {string} kind */
  kind(kind) {
    const known = ["full", "sliding", "chunked", "none"];
    return known.includes(kind) ? this.t(`map.kind.${kind}`) : kind;
  }
}

export class Toolbar {
  /**
   * @param {App["t"]} t
   * @param {{onHead: (of: HeadRef) => void, onCompare: (of: HeadRef) => void, onSearch: () => void, onFit: () => void,
   *   onZoom: (factor: number) => void, onExport: (kind: ExportKind) => void, onToggleCompare: () => void}} on
   */
  constructor(t, on) {
    this.t = t;
    this.head = new HeadChoice(t, { label: "map.head.choose", withTrace: false, onChange: on.onHead });
    this.second = new HeadChoice(t, { label: "map.compare.choose", withTrace: true, onChange: on.onCompare });
    this.compare = h("button", { type: "button", title: t("map.key.compare"), onclick: on.onToggleCompare }, t("map.compare"));
    const tool = (/** @type {string} */ key, /** @type {string} */ sign, /** @type {() => void} */ act) =>
      h("button", { type: "button", class: "quiet", "aria-label": t(key), title: t(key), onclick: act }, sign);
    this.menu = this.exportMenu(on.onExport);
    this.seconds = h("div", { class: "map-compare", hidden: true }, h("span", { class: "note" }, t("map.compare.above")), this.second.element);
    this.element = h("div", { class: "map-toolbar", role: "toolbar", "aria-label": t("map.toolbar") },
      this.head.element, this.compare, this.seconds,
      h("div", { class: "map-tools" },
        h("button", { type: "button", class: "quiet", title: t("map.key.search"), onclick: on.onSearch }, t("map.search"), h("kbd", null, "/")),
        tool("map.zoom_in", "+", () => on.onZoom(Math.SQRT2)), tool("map.zoom_out", "−", () => on.onZoom(Math.SQRT1_2)),
        h("button", { type: "button", class: "quiet", title: t("map.key.fit"), onclick: on.onFit }, t("map.fit"), h("kbd", null, "F")),
        this.menu));
  }

  /** @param {(kind: ExportKind) => void} onExport */
  exportMenu(onExport) {
    const { t } = this;
    const summary = h("summary", null, t("map.export"));
    const menu = h("details", { class: "map-export" }, summary, h("div", { class: "map-menu panel" },
      (/** @type {ExportKind[]} */ (["png", "svg", "csv", "parquet"])).map((kind) =>
        h("button", { type: "button", class: "quiet", "data-export": kind, onclick: () => {
          menu.open = false;
          onExport(kind);
        } }, t(`map.export.${kind}`)))));
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      event.stopPropagation();
      menu.open = false;
      summary.focus();
    });
    menu.addEventListener("focusout", (event) => {
      if (!menu.contains(/** @type {Node | null} */ (event.relatedTarget))) menu.open = false;
    });
    return menu;
  }

  /**
   * @param {import("./subject.js").Subject} subject
   * @param {import("./subject.js").Subject | null} compare
   * @param {import("../../types.js").TraceEntry[]} traces
   */
  update(subject, compare, traces) {
    this.head.update(subject.of, subject.info, traces);
    if (compare) this.second.update(compare.of, compare.info, traces);
    this.seconds.hidden = !compare;
    this.compare.setAttribute("aria-pressed", String(compare !== null));
    const possible = subject.layer.causal && !subject.layer.cross;
    this.compare.disabled = !possible;
    this.compare.title = this.t(possible ? "map.key.compare" : "map.compare.impossible");
  }
}
