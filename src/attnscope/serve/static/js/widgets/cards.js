// @ts-check
/**
 * Cards that open below the text: what stands behind a figure, what a term means.
 *
 * The idea: a card is put after the block that its button stands in, so nothing is covered and a
 * narrow screen needs no other way. One card is open at a time; Escape closes it.
 */

import { h } from "../parts/dom.js";

const BLOCKS = "p, table, ol, ul, dl, h1, h2, h3, h4, figure, summary";

/**
 * @typedef {{title: string, text: string, kind: string, formula: string, source: string, note: string,
 *   inputs: {name: string, value: string, source: string}[]}} Figure
 * @typedef {{name: string, meaning: string}} Term
 */

/**
 * @param {HTMLElement} root
 * @param {Record<string, Figure>} figures
 * @param {Record<string, Term>} terms
 * @param {import("./parts.js").Say} t
 */
export function mountCards(root, figures, terms, t) {
  /** @type {{button: HTMLElement, card: HTMLElement} | null} */
  let open = null;
  const close = () => {
    if (!open) return;
    open.card.remove();
    open.button.setAttribute("aria-expanded", "false");
    open = null;
  };
  /** @param {HTMLElement} button @param {HTMLElement} card */
  const show = (button, card) => {
    const again = open?.button === button;
    close();
    if (again) return;
    after(button, card);
    button.setAttribute("aria-expanded", "true");
    open = { button, card };
  };
  for (const button of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(".fig, .term"))) {
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", (event) => {
      event.preventDefault(); // a title's figure must not fold what the title opens
      const { figure, term } = button.dataset;
      if (figure) show(button, figureCard(figures[figure], figure, t));
      else if (term) show(button, termCard(terms[term]));
    });
  }
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !open) return;
    const { button } = open;
    close();
    button.focus();
  });
}

/** Puts a card behind the block that its button stands in. @param {HTMLElement} button @param {HTMLElement} card */
export function after(button, card) {
  let block = button.closest(BLOCKS) ?? button;
  const item = block.closest("li");
  if (block.matches("ol, ul") && item) item.append(card);
  else if (block.matches("summary")) block.parentElement?.after(card);
  else {
    const table = block.closest("table");
    if (table) block = table.closest(".scrolling") ?? table;
    block.after(card);
  }
}

/** @param {Figure} figure @param {string} id @param {import("./parts.js").Say} t */
export function figureCard(figure, id, t) {
  const row = (/** @type {string} */ label, /** @type {any[]} */ ...what) => [h("dt", null, t(label)), h("dd", null, what)];
  return h("div", { class: "card note-card", role: "note", data: { card: id } },
    h("p", { class: "card-title" }, h("b", null, figure.text), " ", figure.title, " ", h("span", { class: `kind ${figure.kind}` }, t(`figure.${figure.kind}`))),
    h("dl", null,
      figure.formula ? row("figure.formula", h("code", null, figure.formula)) : null,
      figure.inputs.length ? row("figure.inputs", h("ul", null, figure.inputs.map((one) =>
        h("li", null, h("code", null, one.name), " = ", one.value, " ", h("small", null, one.source))))) : null,
      figure.source ? row("figure.source", figure.source) : null,
      figure.note ? row("figure.note", figure.note) : null));
}

/** @param {Term} term */
function termCard(term) {
  return h("div", { class: "card note-card", role: "note" }, h("p", { class: "card-title" }, h("b", null, term.name)), h("p", null, term.meaning));
}
