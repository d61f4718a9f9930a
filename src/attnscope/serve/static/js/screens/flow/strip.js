// @ts-check
/**
 * One key's weight layer by layer, as columns that can be chosen: one tab stop, arrows move.
 *
 * Not here: which key (screen.js).
 */

import { fill, h } from "../../parts/dom.js";
import { along, rove } from "../../parts/focus.js";
import { percent } from "../../parts/numbers.js";

/**
 * @param {import("../../types.js").App} app
 * @param {(layer: number) => void} choose
 */
export function layerStrip({ t }, choose) {
  const title = h("h3");
  const group = h("div", { class: "strip", role: "radiogroup", "aria-label": t("flow.by_layer") });
  const note = h("p", { class: "note strip-note", "aria-hidden": "true" });
  const element = h("div", { class: "by-layer" }, title, group, note);
  /** @type {HTMLElement[]} */
  let columns = [];
  /** @type {HTMLElement | null} */
  let stop = null;
  /** @param {KeyboardEvent} event @param {number} index */
  const key = (event, index) => {
    const to = event.ctrlKey || event.metaKey || event.altKey ? null : along(event.key, index, columns.length);
    if (to === null) return;
    event.preventDefault();
    columns[to].click();
    columns[to].focus();
  };
  /**
   * @param {string} name    of the key
   * @param {number[]} layers
   * @param {number[]} values
   * @param {number | null} current
   */
  const show = (name, layers, values, current) => {
    const most = Math.max(...values, 0);
    const held = group.contains(group.ownerDocument.activeElement);
    fill(title, t("flow.by_layer_of", { name }));
    columns = layers.map((layer, index) => {
      const label = t("flow.layer_weight", { layer, weight: percent(values[index]) });
      return h("span", {
        role: "radio", tabindex: "-1", "aria-checked": layer === current, "aria-label": label, title: label, data: { layer },
        onclick: () => choose(layer), onkeydown: /** @param {KeyboardEvent} event */ (event) => key(event, index),
        onpointerenter: () => (note.textContent = label),
      }, h("span", { class: "level", style: { height: `${most > 0 ? ((100 * values[index]) / most).toFixed(1) : 0}%` } }));
    });
    fill(group, columns);
    const at = current === null ? -1 : layers.indexOf(current);
    stop = columns[Math.max(0, at)] ?? null;
    if (stop) rove(null, stop, held);
    note.textContent = at >= 0 ? t("flow.layer_weight", { layer: layers[at], weight: percent(values[at]) })
      : t("flow.layers_ends", { first: layers[0] ?? 0, last: layers[layers.length - 1] ?? 0 });
  };
  return { element, show, hide: () => (element.hidden = true), unhide: () => (element.hidden = false) };
}
