// @ts-check
/** What stands around a lesson: the scheme's button, the list of sections, the notes, printing. */

import { debounce, fill, h } from "../parts/dom.js";
import { keep, kept, keptScheme } from "./keep.js";

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
 * The reader's notes: kept as they are typed, in the browser or by the server that `notes` names,
 * and given as a Markdown file.
 * @param {HTMLElement} root
 * @param {{page: string, title: string, language: string, notes?: string}} about
 * @param {import("./parts.js").Say} t
 */
export function mountNotes(root, about, t) {
  const place = root.querySelector(".notes");
  const field = place?.querySelector("textarea");
  if (!place || !field) return;
  const name = `notes.${about.language}.${about.page}`;
  const said = h("p", { class: "note", role: "status" });
  place.append(said);
  const { notes } = about;
  if (notes) {
    fetch(notes).then((answer) => answer.text()).then((text) => {
      if (!field.value) field.value = text;
    }, () => {});
  } else field.value = kept(name) ?? "";
  const send = debounce(async (/** @type {string} */ address) => {
    const answer = await fetch(address, { method: "PUT", body: field.value }).catch(() => null);
    said.textContent = t(answer?.ok ? "notes.written" : "notes.not_written");
  }, 400);
  field.addEventListener("input", () => {
    if (notes) send(notes);
    else said.textContent = t(keep(name, field.value) ? "notes.kept" : "notes.not_kept");
  });
  place.querySelector(".download")?.addEventListener("click", () => {
    const text = `# ${about.title}\n\n${field.value.trimEnd()}\n`;
    const address = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
    const link = h("a", { href: address, download: `attnscope-${about.page}.md` });
    place.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  });
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
