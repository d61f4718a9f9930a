// @ts-check
/** Which attention the flow shows, and how: the controls above the text. */

import { choices } from "../../parts/choices.js";
import { fill, h } from "../../parts/dom.js";
import { HOWS } from "../../store.js";
import { shareText } from "./panel.js";

const SHADES = /** @type {const} */ (["weight", "arrived"]);

/**
 * Weight or what arrived, with or without the sink: the two halves of a measure.
 * @param {import("../../types.js").Measure} measure
 * @returns {{shade: "weight" | "arrived", noSink: boolean}}
 */
export function halves(measure) {
  return { shade: measure.startsWith("arrived") ? "arrived" : "weight", noSink: measure.endsWith("-no-sink") };
}

/**
 * @param {"weight" | "arrived"} shade
 * @param {boolean} noSink
 * @returns {import("../../types.js").Measure}
 */
export function measureOf(shade, noSink) {
  return noSink ? `${shade}-no-sink` : shade;
}

/**
 * @param {import("../../types.js").App} app
 * @param {{find: (text: string) => void}} hooks
 */
export function toolbar({ t, store }, hooks) {
  const set = store.set;
  const layer = h("select", { onchange: () => set({ layer: layer.value === "" ? null : Number(layer.value), ...(layer.value === "" ? { head: null } : {}) }) });
  const head = h("select", { onchange: () => set({ head: head.value === "" ? null : Number(head.value) }) });
  const shade = choices(SHADES, (name) => t(`flow.shade.${name}`), (name) => set({ measure: measureOf(name, halves(store.get().measure).noSink) }), t("flow.shade"));
  const sink = h("input", { type: "checkbox", onchange: () => set({ measure: measureOf(halves(store.get().measure).shade, sink.checked) }) });
  const how = choices(HOWS, (name) => t(`flow.how.${name}`), (name) => set({ how: name }), t("flow.how"));
  const mass = h("input", { type: "range", min: 0.5, max: 0.99, step: 0.01, oninput: () => set({ mass: Number(mass.value) }) });
  const massText = h("output");
  const search = h("input", {
    type: "search", placeholder: t("flow.find"), "aria-label": t("flow.find"),
    onkeydown: /** @param {KeyboardEvent} event */ (event) => {
      if (event.key === "Enter" && !event.isComposing) hooks.find(search.value);
    },
  });
  const element = h("div", { class: "tools" },
    h("label", { class: "field" }, h("span", null, t("flow.layer")), layer),
    h("label", { class: "field" }, h("span", null, t("flow.head")), head),
    h("div", { class: "field" }, h("span", null, t("flow.shade")), shade.element),
    h("label", { class: "field" }, sink, h("span", null, t("flow.no_sink"))),
    h("div", { class: "field" }, h("span", null, t("flow.how")), how.element),
    h("label", { class: "field mass" }, h("span", null, t("flow.mass")), mass, massText));
  /** @type {import("../../types.js").TraceInfo | null} */
  let listed = null;
  /**
   * @param {import("../../types.js").ViewState} now
   * @param {import("../../types.js").TraceInfo} info
   */
  const update = (now, info) => {
    if (listed !== info) {
      listed = info;
      fill(layer, h("option", { value: "" }, t("flow.all_layers")),
        info.layers.map((one) => h("option", { value: one.index, disabled: one.kind === "none" }, one.kind === "none" ? t("flow.layer_without", { layer: one.index }) : one.index)));
    }
    const heads = info.layers.find((one) => one.index === now.layer)?.query_heads ?? 0;
    if (head.dataset.many !== String(heads)) {
      head.dataset.many = String(heads);
      fill(head, h("option", { value: "" }, t("flow.all_heads")), Array.from({ length: heads }, (_, index) => h("option", { value: index }, index)));
    }
    layer.value = now.layer === null ? "" : String(now.layer);
    head.value = now.head === null ? "" : String(now.head);
    head.disabled = heads === 0;
    const half = halves(now.measure);
    shade.update(half.shade);
    sink.checked = half.noSink;
    how.update(now.how);
    mass.value = String(now.mass);
    massText.value = shareText(now.mass);
  };
  return { element, update, search };
}
