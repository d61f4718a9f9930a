// @ts-check
/** A few choices side by side, one of them pressed; each is a button, so that Tab and Enter do. */

import { h } from "./dom.js";

/**
 * @template {string} T
 * @param {readonly T[]} values
 * @param {(value: T) => string} text
 * @param {(value: T) => void} choose
 * @param {string} label   of the group
 * @returns {{element: HTMLElement, update: (value: T) => void}}
 */
export function choices(values, text, choose, label) {
  const buttons = values.map((value) => h("button", { data: { value }, onclick: () => choose(value) }, text(value)));
  return {
    element: h("div", { class: "choices", role: "group", "aria-label": label }, buttons),
    update: (value) => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value));
    },
  };
}
