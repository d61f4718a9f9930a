// @ts-check
/**
 * Every head of the reader's text by kind, or by its weight on the first token.
 *
 * What a head's silence costs takes a run of the model for each head; the lesson measured it once,
 * and no trace holds it.
 */

import { fill, h } from "../../parts/dom.js";
import { percent, signed } from "../../parts/numbers.js";
import { LETTERS } from "../census.js";
import { ASKED } from "../math/reading.js";
import { output, slider, switches } from "../parts.js";

const CELL = 20;
const LEFT = 24;
const TOP = 16;
const EVERY = 5;

/** @type {import("./control.js").OwnMount} */
export const census = (place, options, { handout, head }, t) => {
  const { all } = handout;
  const [layers, width] = [1 + Math.max(...all.map((one) => one.layer)), 1 + Math.max(...all.map((one) => one.head))];
  const kinds = [...ASKED, "mixed"];
  const cost = options.by === "cost";
  const state = { by: cost ? "first" : "kind", layer: head.layer, head: head.head };
  const squares = all.map((one) => h("svg:rect", {
    x: LEFT + one.layer * CELL + 1, y: TOP + one.head * CELL + 1, width: CELL - 2, height: CELL - 2, rx: 2,
    onclick: () => choose(one.layer, one.head),
  }));
  const letters = all.map((one) => h("svg:text", {
    x: LEFT + (one.layer + 0.5) * CELL, y: TOP + (one.head + 0.72) * CELL, "text-anchor": "middle", class: "letter",
  }));
  const ring = h("svg:rect", { width: CELL, height: CELL, rx: 3, class: "ring" });
  const svg = h("svg:svg", { viewBox: `0 0 ${LEFT + layers * CELL + 2} ${TOP + width * CELL + 2}`, role: "img", "aria-label": t("census.picture", { layers, heads: width }), class: "census" },
    Array.from({ length: Math.ceil(layers / EVERY) }, (_, at) => h("svg:text", { x: LEFT + (at * EVERY + 0.5) * CELL, y: 11, "text-anchor": "middle" }, String(at * EVERY))),
    Array.from({ length: width }, (_, at) => h("svg:text", { x: LEFT - 6, y: TOP + (at + 0.72) * CELL, "text-anchor": "end" }, String(at))),
    squares, letters, ring);
  const which = h("p", { class: "fact", "aria-live": "polite", data: { name: "which" } });
  const facts = { share: output("chosen.share"), first: output("chosen.first") };

  function update() {
    all.forEach((one, at) => {
      const known = kinds.includes(one.kind) ? one.kind : "mixed";
      squares[at].setAttribute("class", state.by === "kind" ? `kind-${known}` : "above");
      squares[at].setAttribute("fill-opacity", state.by === "kind" ? "1" : (one.first ?? 0).toFixed(3));
      letters[at].textContent = state.by === "kind" ? LETTERS[known] : "";
    });
    ring.setAttribute("x", String(LEFT + state.layer * CELL));
    ring.setAttribute("y", String(TOP + state.head * CELL));
    const one = all.find((each) => each.layer === state.layer && each.head === state.head);
    which.textContent = one ? t("census.which", { layer: one.layer, head: one.head, kind: t(`kind.${kinds.includes(one.kind) ? one.kind : "unknown"}`) }) : t("own.census.none", { layer: state.layer });
    facts.share.show(one?.share ?? NaN, one ? signed(one.share, 2) : "–");
    facts.first.show(one?.first ?? NaN, percent(one?.first));
  }
  /** @param {number} layer @param {number} at */
  function choose(layer, at) {
    Object.assign(state, { layer, head: at });
    places[0].set(layer);
    places[1].set(at);
    update();
  }
  const places = /** @type {const} */ (["layer", "head"]).map((name) => slider({ name, label: t(`census.${name}`), min: 0, max: (name === "layer" ? layers : width) - 1, step: 1, value: state[name] }, (now) => {
    state[name] = Math.round(now);
    update();
  }));
  fill(place, cost ? h("p", { class: "note" }, t("own.census.cost")) : null,
    h("div", { class: "controls" }, switches(t("census.by"), [["kind", t("census.kind")], ["first", t("census.first")]], state.by, (by) => {
      state.by = by;
      update();
    })), svg, h("p", { class: "note" }, t("census.axes")),
    h("div", { class: "scrolling" }, h("table", null,
      h("thead", null, h("tr", null, h("th", null, t("census.kind")), h("th", { class: "number", scope: "col" }, t("census.count")))),
      h("tbody", null, kinds.map((kind) => {
        const number = all.filter((one) => one.kind === kind).length;
        const out = output(`count.${kind}`);
        out.show(number, String(number));
        return h("tr", null, h("th", { scope: "row" }, h("svg:svg", { class: "sample", viewBox: "0 0 12 12", "aria-hidden": "true" }, h("svg:rect", { width: 12, height: 12, rx: 2, class: `kind-${kind}` })), " ", t(`kind.${kind}`), " ", h("small", null, LETTERS[kind])), h("td", { class: "number" }, out.element));
      })))),
    h("div", { class: "controls" }, places.map((one) => one.element)), which,
    h("dl", { class: "facts" }, /** @type {const} */ (["share", "first"]).map((name) => h("div", null, h("dt", null, t(`census.fact.${name}`)), h("dd", null, facts[name].element)))));
  update();
  return { dispose: () => fill(place) };
};
