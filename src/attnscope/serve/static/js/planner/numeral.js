// @ts-check
/**
 * A number of the planner as a button, and the card that it opens: formula, inputs, source, kind.
 *
 * The idea: every number carries its explanation, so a click asks nobody. The buttons belong to an
 * answer; when another answer comes they go, and their card with them.
 */

import { h } from "../parts/dom.js";
import { after, figureCard } from "../widgets/cards.js";

/** @typedef {import("./types.js").Numeral} Numeral */

/**
 * @param {HTMLElement} root   where cards may open
 * @param {import("../widgets/parts.js").Say} t
 * @param {import("./words.js").Words} w   the planner's words in the page's language
 */
export function numerals(root, t, w) {
  /** @type {{button: HTMLElement, card: HTMLElement} | null} */
  let open = null;
  const close = () => {
    if (!open) return;
    open.card.remove();
    open.button.setAttribute("aria-expanded", "false");
    open = null;
  };
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !open) return;
    const { button } = open;
    close();
    button.focus();
  });
  /**
   * @param {string} title    what the number is
   * @param {Numeral} number
   * @param {{name?: string, short?: boolean}} [how]   name: for tests; short: the text in a unit
   */
  const show = (title, number, { name, short = false } = {}) => {
    const text = short ? number.text : number.exact;
    const button = h("button", {
      type: "button", class: "fig", "aria-expanded": false, data: { name, value: String(number.value ?? "") },
      onclick: () => {
        const again = open?.button === button;
        close();
        if (again) return;
        const shown = number.exact === number.text ? number.exact : `${number.exact} (${number.text})`;
        const inputs = number.inputs.map((one) => ({ name: w(one.name), value: w(one.value), source: w(one.source) }));
        const said = { formula: w(number.formula), source: w(number.source), note: w(number.note), inputs };
        const card = figureCard({ ...number, ...said, text: w(shown), title }, name ?? "", t);
        after(button, card);
        button.setAttribute("aria-expanded", "true");
        open = { button, card };
      },
    }, w(text));
    return button;
  };
  return { show, close };
}
