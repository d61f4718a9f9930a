// @ts-check
/** Messages of what went wrong: each is announced, can be read as long as wanted, and closed. */

import { h } from "./dom.js";
import { icon } from "./icons.js";

const MOST = 3;

/**
 * @param {import("../types.js").App["t"]} t
 * @returns {{element: HTMLElement, add: (text: string) => void, closeLast: () => boolean}}
 */
export function messageList(t) {
  const element = h("div", { class: "messages" });
  /** @param {string} text */
  const add = (text) => {
    const shown = [...element.children];
    for (const old of shown) if (old.querySelector("p")?.textContent === text) old.remove();
    while (element.children.length >= MOST) element.firstChild?.remove();
    const close = h("button", { class: "quiet", "aria-label": t("shell.close"), title: t("shell.close"), onclick: () => one.remove() }, icon("close"));
    const one = h("div", { class: "message", role: "alert" }, h("p", null, text), close);
    element.append(one);
  };
  const closeLast = () => {
    const last = element.lastElementChild;
    last?.remove();
    return last !== null;
  };
  return { element, add, closeLast };
}
