// @ts-check
/** All heads of a real model by kind, by what their silence costs, or by their weight on the first token. */

import { fill, h } from "../parts/dom.js";
import { percent, signed } from "../parts/numbers.js";
import { ASKED, counts, kindOf } from "./math/reading.js";
import { output, slider, switches } from "./parts.js";

const CELL = 20;
const LEFT = 24;
const TOP = 16;
/** @type {Record<string, string>} */
export const LETTERS = { "previous-token": "P", induction: "I", sink: "S", local: "L", uniform: "U", mixed: "" };

/** @typedef {{layer: number, head: number, shares: (number | null)[], entropy: number, first: number, first_arrived: number, cost: number}} Head */

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options   by: kind, cost or first
 * @param {{layers: number, per_layer: number, heads: Head[]}} data
 * @param {import("./parts.js").Say} t
 */
export function mountCensus(place, options, data, t) {
  const most = Math.max(...data.heads.map((one) => Math.abs(one.cost)));
  const state = { half: 0.5, by: options.by ?? "kind", layer: 18, head: 6 };
  const kinds = [...ASKED, "mixed"];
  const squares = data.heads.map((one) => h("svg:rect", {
    x: LEFT + one.layer * CELL + 1, y: TOP + one.head * CELL + 1, width: CELL - 2, height: CELL - 2, rx: 2,
    onclick: () => choose(one.layer, one.head),
  }));
  const letters = data.heads.map((one) => h("svg:text", {
    x: LEFT + (one.layer + 0.5) * CELL, y: TOP + (one.head + 0.72) * CELL, "text-anchor": "middle", class: "letter",
  }));
  const ring = h("svg:rect", { width: CELL, height: CELL, rx: 3, class: "ring" });
  const svg = h("svg:svg", { viewBox: `0 0 ${LEFT + data.layers * CELL + 2} ${TOP + data.per_layer * CELL + 2}`, role: "img", "aria-label": t("census.picture", { layers: data.layers, heads: data.per_layer }), class: "census" },
    [0, 5, 10, 15, 20, 25].filter((at) => at < data.layers).map((at) => h("svg:text", { x: LEFT + (at + 0.5) * CELL, y: 11, "text-anchor": "middle" }, String(at))),
    Array.from({ length: data.per_layer }, (_, at) => h("svg:text", { x: LEFT - 6, y: TOP + (at + 0.72) * CELL, "text-anchor": "end" }, String(at))),
    squares, letters, ring);
  const totals = kinds.map((kind) => output(`count.${kind}`));
  const means = kinds.map((kind) => output(`cost.${kind}`));
  const chosen = Object.fromEntries(["kind", "share", "first", "arrived", "cost"].map((name) => [name, output(`chosen.${name}`)]));
  const which = h("p", { class: "fact", "aria-live": "polite", data: { name: "which" } });

  function update() {
    counts(data.heads, state.half).forEach((number, at) => totals[at].show(number, String(number)));
    kinds.forEach((kind, at) => {
      const costs = data.heads.filter((one) => kindOf(one.shares, state.half) === kind).map((one) => one.cost);
      const mean = costs.reduce((a, b) => a + b, 0) / costs.length;
      means[at].show(mean, costs.length ? signed(mean, 3) : "–");
    });
    data.heads.forEach((one, at) => {
      const kind = kindOf(one.shares, state.half);
      const strength = state.by === "cost" ? Math.sqrt(Math.abs(one.cost) / most) : one.first;
      squares[at].setAttribute("class", state.by === "kind" ? `kind-${kind}` : one.cost < 0 && state.by === "cost" ? "below" : "above");
      squares[at].setAttribute("fill-opacity", state.by === "kind" ? "1" : strength.toFixed(3));
      letters[at].textContent = state.by === "kind" ? LETTERS[kind] : "";
    });
    const one = data.heads[state.layer * data.per_layer + state.head];
    ring.setAttribute("x", String(LEFT + state.layer * CELL));
    ring.setAttribute("y", String(TOP + state.head * CELL));
    const kind = kindOf(one.shares, state.half);
    const shares = one.shares.map((share) => share ?? -Infinity);
    const share = kind === "mixed" ? Math.max(...shares) : shares[ASKED.indexOf(kind)];
    which.textContent = t("census.which", { layer: state.layer, head: state.head, kind: t(`kind.${kind}`) });
    chosen.kind.show(kinds.indexOf(kind), t(`kind.${kind}`));
    chosen.share.show(share, signed(share, 2));
    chosen.first.show(one.first, percent(one.first));
    chosen.arrived.show(one.first_arrived, percent(one.first_arrived));
    chosen.cost.show(one.cost, signed(one.cost, 3));
  }
  /** @param {number} layer @param {number} head */
  function choose(layer, head) {
    state.layer = layer;
    state.head = head;
    places[0].set(layer);
    places[1].set(head);
    update();
  }
  const half = slider({ name: "half", label: t("census.half"), min: 0.2, max: 0.9, step: 0.05, value: state.half }, (now) => {
    state.half = now;
    update();
  });
  const places = [
    slider({ name: "layer", label: t("census.layer"), min: 0, max: data.layers - 1, step: 1, value: state.layer }, (now) => {
      state.layer = Math.round(now);
      update();
    }),
    slider({ name: "head", label: t("census.head"), min: 0, max: data.per_layer - 1, step: 1, value: state.head }, (now) => {
      state.head = Math.round(now);
      update();
    }),
  ];
  fill(place,
    h("div", { class: "controls" }, switches(t("census.by"), [["kind", t("census.kind")], ["first", t("census.first")], ["cost", t("census.cost")]], state.by, (by) => {
      state.by = by;
      update();
    })),
    svg,
    h("p", { class: "note" }, t("census.axes")),
    h("div", { class: "controls" }, half.element),
    h("div", { class: "scrolling" }, h("table", null,
      h("thead", null, h("tr", null, h("th", null, t("census.kind")), h("th", { class: "number", scope: "col" }, t("census.count")), h("th", { class: "number", scope: "col" }, t("census.mean")))),
      h("tbody", null, kinds.map((kind, at) => h("tr", null, h("th", { scope: "row" }, t(`kind.${kind}`), " ", h("small", null, LETTERS[kind])),
        h("td", { class: "number" }, totals[at].element), h("td", { class: "number" }, means[at].element)))))),
    h("div", { class: "controls" }, places.map((one) => one.element)),
    which,
    h("dl", { class: "facts" }, ["share", "first", "arrived", "cost"].map((name) => h("div", null, h("dt", null, t(`census.fact.${name}`)), h("dd", null, chosen[name].element)))));
  update();
  return { dispose: () => fill(place) };
}
