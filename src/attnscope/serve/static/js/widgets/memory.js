// @ts-check
/** A table of fixed size as a memory: random pairs are written, then every key is read again. */

import { fill, h } from "../parts/dom.js";
import { signed } from "../parts/numbers.js";
import { offBy, pairsOf, recalled, written } from "./math/linear.js";
import { bars, checkbox, output, slider, switches } from "./parts.js";

/** @typedef {import("./math/linear.js").Rule} Rule */

const MOST = 24;
const WRONG = 0.5;
const RULES = /** @type {const} */ (["add", "delta", "gated"]);

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options
 * @param {object} _data
 * @param {import("./parts.js").Say} t
 */
export function mountMemory(place, options, _data, t) {
  const state = { seed: 1, pairs: 12, width: 16, rate: 1, decay: 0.9, again: false, rule: RULES.find((one) => one === options.rule) ?? "add" };
  const facts = Object.fromEntries(["numbers", "mean", "right", "newest", "again"].map((name) => [name, output(name)]));
  const chart = h("div", null);
  function update() {
    const drawn = pairsOf(state.seed, state.pairs, state.width);
    // The same key once more, with the opposite of its value.
    const keys = state.again ? [...drawn.keys, drawn.keys[0]] : drawn.keys;
    const values = state.again ? [...drawn.values, drawn.values[0].map((one) => -one)] : drawn.values;
    const S = written(keys, values, { rule: state.rule, rate: state.rate, decay: state.decay });
    const off = offBy(S, keys, values).slice(state.again ? 1 : 0);
    const labels = off.map((_, at) => t("memory.pair", { number: at + 1 + (state.again ? 1 : 0) }));
    const all = bars("off", labels, { high: 2 });
    all.update(off, (value) => signed(value, 2));
    fill(chart, all.element);
    facts.numbers.show(state.width ** 2, String(state.width ** 2));
    const mean = Math.sqrt(off.reduce((sum, one) => sum + one * one, 0) / off.length);
    facts.mean.show(mean, signed(mean, 2));
    const right = off.filter((one) => one < WRONG).length;
    facts.right.show(right, `${right} / ${off.length}`);
    facts.newest.show(off[off.length - 1], signed(off[off.length - 1], 2));
    const found = recalled(S, keys[0]);
    const share = found.reduce((sum, one, at) => sum + one * drawn.values[0][at], 0) / drawn.values[0].reduce((sum, one) => sum + one * one, 0);
    facts.again.show(share, signed(share, 2));
  }
  /** @param {"pairs" | "width" | "rate" | "decay" | "seed"} name @param {number} min @param {number} max @param {number} step */
  const one = (name, min, max, step) => slider({ name, label: t(name === "seed" ? "spread.seed" : `memory.${name}`), min, max, step, value: state[name] }, (now) => {
    state[name] = now;
    update();
  });
  const rate = one("rate", 0, 1, 0.05);
  const decay = one("decay", 0.5, 1, 0.01);
  const only = h("div", { class: "controls" });
  const show = () => fill(only, state.rule === "add" ? null : rate.element, state.rule === "gated" ? decay.element : null);
  fill(place,
    h("div", { class: "controls" },
      switches(t("memory.rule"), RULES.map((rule) => /** @type {const} */ ([rule, t(`memory.rule.${rule}`)])), state.rule, (rule) => {
        state.rule = rule;
        show();
        update();
      }),
      one("pairs", 1, MOST, 1).element, one("width", 2, 32, 1).element, only, one("seed", 1, 99, 1).element,
      checkbox("again", t("memory.write_again"), (on) => {
        state.again = on;
        update();
      })),
    h("h4", null, t("memory.off")), chart,
    h("dl", { class: "facts" }, ["numbers", "mean", "right", "newest", "again"].map((name) => h("div", null, h("dt", null, t(`memory.fact.${name}`)), h("dd", null, facts[name].element)))));
  show();
  update();
  return { dispose: () => fill(place) };
}
