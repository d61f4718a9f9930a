// @ts-check
/** The teaching sentence with fewer numbers kept: one short latent, or one key and value for both heads. */

import { fill, h } from "../parts/dom.js";
import { percent, signed, significant } from "../parts/numbers.js";
import { readBy, sharedHead, squeezed } from "./math/latent.js";
import { multiply } from "./math/world.js";
import { bars, output, slider, switches } from "./parts.js";

/** @typedef {import("./math/world.js").World} World */

const BELOW = 5e-4;

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options
 * @param {World} world
 * @param {import("./parts.js").Say} t
 */
export function mountSqueeze(place, options, world, t) {
  const whole = 2 * world.W_K[0].length;
  const state = { numbers: Number(options.numbers ?? 3), row: Number(options.row ?? 3), scheme: options.scheme ?? "latent" };
  const exact = readBy(world, multiply(world.E, world.W_K), multiply(world.E, world.W_V));
  const charts = Array.from({ length: world.heads }, (_, head) => bars(`head.${head}`, world.tokens));
  const before = charts.map(() => h("p", { class: "fact" }));
  const facts = Object.fromEntries(["kept", "off"].map((name) => [name, output(name)]));
  const rows = h("p", { class: "fact", data: { name: "row" } });
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  const numbers = slider({ name: "numbers", label: t("squeeze.numbers"), min: 1, max: whole, step: 1, value: state.numbers }, (now) => {
    state.numbers = Math.round(now);
    update();
  });
  function update() {
    const shared = state.scheme === "shared";
    const latent = squeezed(world, state.numbers);
    const { K, V } = shared ? sharedHead(world) : latent;
    const found = readBy(world, K, V);
    charts.forEach((chart, head) => {
      chart.update(found.weights[head][state.row], percent);
      before[head].textContent = t("squeeze.before", { weights: exact.weights[head][state.row].slice(0, state.row + 1).map(percent).join(" / ") });
    });
    const off = Math.max(...found.outputs.flatMap((row, i) => row.map((one, j) => Math.abs(one - exact.outputs[i][j]))));
    const kept = shared ? whole / world.heads : state.numbers;
    facts.kept.show(kept, `${kept} / ${whole}`);
    facts.off.show(off, off < BELOW ? "0" : significant(off, 2));
    numbers.element.classList.toggle("idle", shared);
    rows.textContent = shared ? "" : t("squeeze.row", { numbers: latent.latents[state.row].map((one) => signed(one, 2)).join(", ") });
    verdict.textContent = t(off < BELOW ? "squeeze.same" : shared ? "squeeze.shared" : "squeeze.lost");
    verdict.classList.toggle("good", off < BELOW);
    verdict.classList.toggle("bad", off >= BELOW);
  }
  fill(place,
    h("div", { class: "controls" },
      switches(t("squeeze.scheme"), [["latent", t("squeeze.latent")], ["shared", t("squeeze.one_head")]], state.scheme, (scheme) => {
        state.scheme = scheme;
        update();
      }),
      switches(t("world.row"), world.tokens.map((token, at) => /** @type {const} */ ([String(at), token])), String(state.row), (row) => {
        state.row = Number(row);
        update();
      }),
      numbers.element),
    h("div", { class: "columns-of-bars two" }, charts.map((chart, head) =>
      h("div", { class: "column" }, h("h4", null, t("world.head", { letter: "AB"[head] })), chart.element, before[head]))),
    h("dl", { class: "facts" }, ["kept", "off"].map((name) => h("div", null, h("dt", null, t(`squeeze.${name}`)), h("dd", null, facts[name].element)))),
    rows, verdict);
  update();
  return { dispose: () => fill(place) };
}
