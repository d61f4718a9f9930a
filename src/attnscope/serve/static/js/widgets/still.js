// @ts-check
/** Tokens arrive one by one: do earlier rows move? With the mask they do not, so they can be kept. */

import { fill, h } from "../parts/dom.js";
import { significant, signed } from "../parts/numbers.js";
import { outputs } from "./math/world.js";
import { output, slider, switches } from "./parts.js";

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {import("./math/world.js").World} world
 * @param {import("./parts.js").Say} t
 */
export function mountStill(place, _options, world, t) {
  const state = { tokens: 4, mask: /** @type {"none" | "before"} */ ("before") };
  const table = h("tbody", null);
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  const worst = output("moved");
  const rowsOf = (/** @type {number} */ tokens) =>
    outputs({ ...world, tokens: world.tokens.slice(0, tokens), E: world.E.slice(0, tokens) }, { mask: state.mask });
  function update() {
    const now = rowsOf(state.tokens);
    const before = rowsOf(state.tokens - 1);
    const moves = before.map((row, at) => Math.max(...row.map((one, column) => Math.abs(one - now[at][column]))));
    fill(table, now.map((row, at) => h("tr", null, h("th", { scope: "row" }, world.tokens[at]), moved(moves, at),
      row.map((value, column) => {
        const cell = output(`o.${at}.${column}`);
        cell.show(value, signed(value, 2));
        return h("td", { class: "number" }, cell.element);
      }))));
    const most = Math.max(...moves);
    worst.show(most, significant(most, 2));
    verdict.textContent = t(most === 0 ? "still.none" : "still.some", { token: world.tokens[state.tokens - 1] });
    verdict.classList.toggle("good", most === 0);
    verdict.classList.toggle("bad", most > 0);
  }
  /** @param {readonly number[]} moves @param {number} at */
  function moved(moves, at) {
    if (at >= moves.length) return h("td", { class: "number" }, t("still.new"));
    const cell = output(`moved.${at}`);
    cell.show(moves[at], significant(moves[at], 2));
    cell.element.classList.add(moves[at] === 0 ? "good" : "bad");
    return h("td", { class: "number" }, cell.element);
  }
  const length = slider({ name: "tokens", label: t("still.tokens"), min: 2, max: world.tokens.length, step: 1, value: state.tokens }, (now) => {
    state.tokens = Math.round(now);
    update();
  });
  fill(place, h("div", { class: "controls" }, length.element,
    switches(t("world.mask"), [["before", t("world.mask.before")], ["none", t("world.mask.none")]], state.mask, (mask) => {
      state.mask = mask;
      update();
    })),
    h("div", { class: "scrolling" }, h("table", null,
      h("thead", null, h("tr", null, h("th", { scope: "col" }, t("still.row")), h("th", { scope: "col", class: "number" }, t("still.moved")),
        world.W_V[0].map((_, at) => h("th", { scope: "col", class: "number", "aria-label": t("world.coordinate", { number: at + 1 }) }, at + 1)))), table)),
    h("p", { class: "fact" }, t("still.worst"), " ", worst.element), verdict);
  update();
  return { dispose: () => fill(place) };
}
