// @ts-check
/**
 * The controls beside the map: what is measured, on which scale it is shown, and the colour bar.
 *
 * Not here: the bar's inside (draw/colourbar.js), which head (toolbar.js).
 */

import { ColourBar } from "../../draw/colourbar.js";
import { scaleFits } from "../../draw/scale.js";
import { h } from "../../parts/dom.js";

/** @typedef {import("../../types.js").App} App */
/** @typedef {import("../../types.js").Measure} Measure */
/** @typedef {import("../../types.js").ViewState} ViewState */
/** @typedef {import("./subject.js").Subject} Subject */

/**
 * A row of buttons of which one is pressed.
 * @param {App["t"]} t
 * @param {string} label
 * @param {{value: string, text: string, title?: string}[]} choices   keys of texts
 * @param {(value: string) => void} onChoose
 */
export function choiceRow(t, label, choices, onChoose) {
  const buttons = choices.map(({ value, text, title }) =>
    h("button", { type: "button", "data-value": value, title: title ? t(title) : null, onclick: () => onChoose(value) }, t(text)));
  const element = h("div", { class: "choices", role: "group", "aria-label": t(label) }, buttons);
  /** @param {string} now @param {(value: string) => string | null} [whyNot]   the reason a choice is off */
  const update = (now, whyNot = () => null) => {
    buttons.forEach((button, at) => {
      const { value, title } = choices[at];
      const reason = whyNot(value);
      button.setAttribute("aria-pressed", String(value === now));
      button.disabled = reason !== null;
      button.title = reason ?? (title ? t(title) : "");
    });
  };
  return { element, update };
}

export class Controls {
  /** @param {App} app */
  constructor({ store, t }) {
    this.t = t;
    const set = store.set;
    const scale = (/** @type {string} */ value) => set({ scale: /** @type {ViewState["scale"]} */ (value), range: null });
    this.scale = choiceRow(t, "map.scale.label", ["raw", "log", "uniform", "expected"].map((value) => (
      { value, text: `map.scale.${value}`, title: `map.scale.${value}.about` })), scale);
    this.measure = choiceRow(t, "map.measure.label", [
      { value: "weight", text: "map.measure.weight", title: "map.measure.weight.about" },
      { value: "arrived", text: "map.measure.arrived", title: "map.measure.arrived.about" },
    ], (value) => this.setMeasure(store, value, store.get().measure.endsWith("no-sink")));
    this.plane = choiceRow(t, "map.plane.label", [
      { value: "mean", text: "map.plane.mean", title: "map.plane.mean.about" },
      { value: "max", text: "map.plane.max", title: "map.plane.max.about" },
    ], (value) => set({ plane: /** @type {ViewState["plane"]} */ (value) }));
    this.sink = h("input", { type: "checkbox", onchange: () =>
      this.setMeasure(store, store.get().measure.split("-")[0], this.sink.checked) });
    this.sinkNote = h("p", { class: "note map-sink", role: "status" });
    this.palette = h("select", { onchange: () => set({ palette: /** @type {ViewState["palette"]} */ (this.palette.value) }) },
      h("option", { value: "viridis" }, "viridis"), h("option", { value: "cividis" }, "cividis"));
    this.reset = h("button", { type: "button", class: "quiet", onclick: () => set({ range: null }) }, t("map.bar.reset"));
    this.bar = new ColourBar({ t, onRange: (range) => set({ range }) });
    this.unit = h("p", { class: "note map-unit" });
    const field = (/** @type {string} */ label, /** @type {HTMLElement} */ control) =>
      h("div", { class: "map-control" }, h("span", { class: "note", "aria-hidden": "true" }, t(label)), control);
    this.element = h("section", { class: "map-controls", "aria-label": t("map.controls") },
      this.scale.element, this.bar.element, this.unit, this.sinkNote,
      field("map.measure.label", this.measure.element), field("map.plane.label", this.plane.element),
      h("div", { class: "map-row" },
        h("label", { class: "field" }, this.sink, h("span", null, t("map.sink.remove"))),
        h("label", { class: "field" }, h("span", null, t("map.palette")), this.palette), this.reset));
  }

  /** @param {App["store"]} store @param {string} base @param {boolean} noSink */
  setMeasure(store, base, noSink) {
    const measure = /** @type {Measure} */ (`${base === "arrived" ? "arrived" : "weight"}${noSink ? "-no-sink" : ""}`);
    store.set({ measure, range: null });
  }

  /**
   * @param {ViewState} state
   * @param {Subject} subject
   * @param {{look: import("../../draw/scale.js").Look, natural: [number, number]}} shown
   */
  update(state, subject, { look, natural }) {
    const { t } = this;
    const plain = subject.layer.causal && !subject.layer.cross;
    this.scale.update(look.scale, (value) => {
      if (!scaleFits(/** @type {any} */ (value), state.measure)) return t("map.scale.only_weight");
      return value === "expected" && !plain ? t("map.scale.only_causal") : null;
    });
    const known = subject.layer.arrived;
    this.measure.update(state.measure.split("-")[0], (value) => (value === "arrived" && !known ? t("map.measure.unknown") : null));
    this.plane.update(look.plane);
    const removed = state.measure.endsWith("no-sink");
    this.sink.checked = removed;
    this.sinkNote.hidden = !removed;
    this.sinkNote.textContent = removed ? t("map.sink.removed", { count: subject.info.sink_keys }) : "";
    this.palette.value = state.palette;
    this.reset.hidden = state.range === null;
    this.unit.textContent = t(`map.unit.${look.scale === "log" || look.scale === "raw" ? state.measure.split("-")[0] : look.scale}`);
    this.bar.update(look, natural);
  }
}
