// @ts-check
/** What stands around a lesson: the scheme's button, the list of sections, the notes, printing. */

import { fill, h } from "../parts/dom.js";
import { keep, keptScheme } from "./keep.js";

/** @param {HTMLElement} root */
export function mountScheme(root) {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", () => {
    if (!keptScheme()) root.dataset.scheme = system.matches ? "dark" : "light";
  });
  root.querySelector(".scheme")?.addEventListener("click", () => {
    const now = root.dataset.scheme === "dark" ? "light" : "dark";
    root.dataset.scheme = now;
    keep("scheme", now);
  });
}

/**
 * The sections of the page as links; the one that is being read is marked.
 * @param {HTMLElement} root
 */
export function mountContents(root) {
  const place = root.querySelector(".contents");
  const heads = [...root.querySelectorAll("main h2[id]")];
  if (!place || heads.length < 2) return;
  const links = heads.map((head) => h("a", { href: `#${head.id}` }, head.textContent));
  fill(place, h("p", null, place.getAttribute("aria-label")), h("ol", null, links.map((link) => h("li", null, link))));
  const mark = () => {
    const passed = heads.filter((head) => head.getBoundingClientRect().top < 140).length;
    links.forEach((link, at) => {
      if (at === passed - 1) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  };
  window.addEventListener("scroll", mark, { passive: true });
  mark();
}

/**
 * What is wider than its place scrolls, and can be reached by keyboard then.
 * @param {HTMLElement} root
 */
export function mountScrolling(root) {
  const look = () => {
    // Looked up each time: a widget that is mounted anew has new tables.
    for (const one of root.querySelectorAll(".scrolling, math[display=block], figure.code pre")) {
      // A formula whose terms can be reached scrolls with them.
      if (one.scrollWidth > one.clientWidth && !one.querySelector("[tabindex]")) one.setAttribute("tabindex", "0");
      else one.removeAttribute("tabindex");
    }
  };
  new ResizeObserver(look).observe(root);
  look();
}

/**
 * On paper nothing can be unfolded: what a lesson folds is open while it is printed, but for the way
 * to an exercise's answer.
 * @param {HTMLElement} root
 */
export function mountPrinting(root) {
  /** @type {HTMLDetailsElement[]} */
  let opened = [];
  window.addEventListener("beforeprint", () => {
    const folded = ".deeper, .question, .design > details";
    opened = [.../** @type {NodeListOf<HTMLDetailsElement>} */ (root.querySelectorAll(folded))].filter((one) => !one.open);
    for (const one of opened) one.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
    opened = [];
  });
}

/**
 * The data flow's two sets of shapes.
 * @param {HTMLElement} root
 */
export function mountFlow(root) {
  for (const flow of root.querySelectorAll(".flow")) {
    const buttons = [...flow.querySelectorAll("button")];
    for (const button of buttons) {
      button.addEventListener("click", () => {
        /** @type {HTMLElement} */ (flow).dataset.shape = button.dataset.shape;
        buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      });
    }
  }
}
