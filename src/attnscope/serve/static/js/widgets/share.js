// @ts-check
/** Two heads on the same keys and values: they still look at different tokens. */

import { fill, h } from "../parts/dom.js";
import { count, percent, signed } from "../parts/numbers.js";
import { shared } from "./math/share.js";
import { bars, output, switches } from "./parts.js";

/** @typedef {import("./math/share.js").Sharing} Sharing */

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options   row
 * @param {import("./math/world.js").World} world
 * @param {import("./parts.js").Say} t
 */
export function mountShare(place, options, world, t) {
  const state = { row: Number(options.row ?? 3), how: /** @type {Sharing} */ ("own") };
  const letters = Array.from({ length: world.heads }, (_, head) => "AB"[head]);
  const charts = letters.map((letter) => bars(`weight.${letter}`, world.tokens));
  const fetched = letters.map((letter) => world.W_V[0].slice(0, world.W_V[0].length / world.heads).map((_, at) => output(`fetched.${letter}.${at}`)));
  const moves = letters.map((letter) => output(`moved.${letter}`));
  const kept = output("kept");
  const own = shared(world, "own");
  function update() {
    const found = shared(world, state.how);
    letters.forEach((_, head) => {
      const weights = found.weights[head][state.row];
      charts[head].update(weights, percent);
      const move = Math.max(...weights.map((one, at) => Math.abs(one - own.weights[head][state.row][at])));
      moves[head].show(move, signed(100 * move, 1));
      found.outputs[head][state.row].forEach((value, at) => fetched[head][at].show(value, signed(value, 2)));
    });
    const width = world.W_K[0].length / world.heads;
    const numbers = 2 * width * (state.how === "own" ? world.heads : 1);
    kept.show(numbers, count(numbers));
  }
  const choices = /** @type {[Sharing, string][]} */ (["own", "mean", "first", "last"].map((how) => [how, t(`share.${how}`)]));
  fill(place, h("div", { class: "controls" },
    switches(t("share.how"), choices, state.how, (how) => {
      state.how = how;
      update();
    }),
    switches(t("world.row"), world.tokens.map((token, at) => /** @type {const} */ ([String(at), token])), String(state.row), (row) => {
      state.row = Number(row);
      update();
    })),
    h("div", { class: "columns-of-bars two" }, letters.map((letter, head) => h("div", { class: "column" }, h("h4", null, t("world.head", { letter })), charts[head].element,
      h("dl", null, h("dt", null, t("share.fetched")), h("dd", null, fetched[head].map((one, at) => [at ? ", " : "", one.element])),
        h("dt", null, t("share.moved")), h("dd", null, moves[head].element))))),
    h("p", { class: "fact" }, t("share.kept"), " ", kept.element));
  update();
  return { dispose: () => fill(place) };
}
