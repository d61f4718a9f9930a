// @ts-check
/**
 * "Try this on your own text": a button on every widget that shows a row, a head or a mask.
 *
 * The idea: a widget has two ways to be mounted in the same place, on the lesson's example and on
 * the reader's text; this changes between them. The widgets know nothing of texts and files.
 *
 * Not here: the choosing (panel.js), the widgets' second way (registry.js).
 */

import { h } from "../../parts/dom.js";
import { ownPanel } from "./panel.js";
import { choice, onChoice } from "./state.js";
import { numbered } from "./subject.js";

/**
 * @typedef {import("../parts.js").Say} Say
 * @typedef {(place: HTMLElement, options: Record<string, string>, subject: import("./subject.js").Subject, t: Say) => {dispose: () => void}} OwnMount
 * @typedef {{mount: OwnMount, needs: import("./panel.js").Needs, unless?: Record<string, string>}} Own
 */

let numbers = 0;

/**
 * @param {HTMLElement} section   the widget's box
 * @param {HTMLElement} stand     where it is mounted
 * @param {{own: Own, options: Record<string, string>, lesson: () => {dispose: () => void}}} about
 * @param {{t: Say, source: import("./source.js").Source | null}} around
 */
export function mountOwn(section, stand, { own, options, lesson }, { t, source }) {
  let mounted = lesson();
  const id = `own-${(numbers += 1)}`;
  const said = h("p", { class: "own-said", role: "status" });
  // The guide speaks of the lesson's example, and of controls that a real text has no use for.
  const guide = section.querySelector(":scope > .guide");
  const about = h("details", { hidden: true, data: { name: "own.guide" } }, h("summary", null, t("own.guide")));
  guide?.before(about);
  const swap = (/** @type {() => {dispose: () => void}} */ make, /** @type {boolean} */ active) => {
    mounted.dispose();
    mounted = make();
    section.classList.toggle("of-own", active);
    about.hidden = !active;
    if (active && guide) about.append(guide);
    else if (guide) about.after(guide);
    back.hidden = !active;
    name();
  };
  const panel = ownPanel({ t, source, needs: own.needs, onSubject: (subject) => {
    swap(() => own.mount(stand, options, subject, t), true);
    said.textContent = told(subject, own.needs, t);
  } });
  panel.element.id = id;
  const open = h("button", { type: "button", class: "own-open", "aria-expanded": false, "aria-controls": id, data: { name: "own" }, onclick: () => {
    const closing = open.getAttribute("aria-expanded") === "true";
    open.setAttribute("aria-expanded", String(!closing));
    if (closing) panel.element.hidden = true;
    else panel.open(section.classList.contains("of-own"));
  } });
  const back = h("button", { type: "button", class: "quiet", hidden: true, data: { name: "own.back" }, onclick: () => {
    swap(lesson, false);
    panel.element.hidden = true;
    open.setAttribute("aria-expanded", "false");
    said.textContent = t("own.lesson");
    open.focus();
  } }, t("own.back"));
  const name = () => {
    const known = choice();
    const active = section.classList.contains("of-own");
    const way = active ? "own.change" : known ? "own.offer" : "own.try";
    const headless = own.needs.embeddings && way !== "own.try";
    open.textContent = t(headless ? `${way}.text` : way, { model: known?.model ?? "", layer: known?.layer ?? "", head: known?.head ?? "" });
  };
  onChoice(name);
  name();
  stand.before(h("div", { class: "own" }, h("div", { class: "tools" }, open, " ", back), said, panel.element));
}

/** @param {import("./subject.js").Subject} subject @param {import("./panel.js").Needs} needs @param {Say} t */
function told({ handout, head, other, row }, needs, t) {
  const last = handout.start + handout.names.length;
  const which = needs.two ? `${head.layer}.${head.head}, ${other.layer}.${other.head}` : `${head.layer}.${head.head}`;
  const words = t(needs.embeddings ? "own.now.text" : "own.now", { model: handout.model, which, first: handout.start + 1, last, count: handout.count });
  if (needs.embeddings) return [words, t("own.now.row", { token: numbered(handout, row) })].join(" ");
  if (!needs.row) return words;
  const outside = head.outside.keys[row];
  return [words, t("own.now.row", { token: numbered(handout, row) }), outside ? t("own.now.outside", { count: outside }) : ""].join(" ").trim();
}
