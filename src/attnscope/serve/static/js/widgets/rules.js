// @ts-check
/** Three ways from scores to weights, side by side on scores of the reader's own; what breaks. */

import { fill, h } from "../parts/dom.js";
import { percent, signed } from "../parts/numbers.js";
import { weigh } from "./math/softmax.js";
import { bars, numbersOf, output, slider } from "./parts.js";

/** @type {import("./math/softmax.js").Rule[]} */
const RULES = ["proportional", "shifted", "softmax"];
const SHIFT = 5;
const SMALL = 1e-9;

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options   scores, names, newcomer; claimed: percents to compare with
 * @param {object} _
 * @param {import("./parts.js").Say} t
 */
export function mountRules(place, options, _, t) {
  const first = numbersOf(options.scores);
  const names = options.names.split(",");
  const newcomer = Number(options.newcomer);
  const state = { scores: [...first], joined: false, shifted: false };
  const sliders = first.map((value, at) =>
    slider({ name: `score.${at}`, label: names[at], min: -12, max: 12, step: 0.5, value }, (now) => {
      state.scores[at] = now;
      update();
    }));
  const columns = RULES.map((rule) => column(rule, [...names, t("rules.newcomer")], t));
  const join = toggle("join", t("rules.join", { score: signed(newcomer, 0) }), (on) => {
    state.joined = on;
    update();
  });
  const shift = toggle("shift", t("rules.shift", { shift: SHIFT }), (on) => {
    state.shifted = on;
    update();
  });
  const reset = h("button", { type: "button", class: "quiet", data: { name: "reset" }, onclick: () => {
    state.scores = [...first];
    state.joined = state.shifted = false;
    for (const one of [join, shift]) one.setAttribute("aria-pressed", "false");
    sliders.forEach((one, at) => one.set(first[at]));
    update();
  } }, t("widget.reset"));

  function update() {
    const base = state.scores;
    const now = [...base, ...(state.joined ? [newcomer] : [])].map((s) => s + (state.shifted ? SHIFT : 0));
    columns.forEach((one) => one.update(now, base));
  }
  const claimed = numbersOf(options.claimed);
  fill(place,
    h("div", { class: "controls" }, sliders.map((one) => one.element), h("div", { class: "tools" }, join, shift, reset)),
    h("div", { class: "columns-of-bars" }, columns.map((one) => one.element), claimed.length ? claim(claimed, names, t) : null));
  update();
  return { dispose: () => fill(place) };
}

/** @param {string} name @param {string} label @param {(on: boolean) => void} onToggle */
function toggle(name, label, onToggle) {
  const button = h("button", { type: "button", "aria-pressed": false, data: { name }, onclick: () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    onToggle(on);
  } }, label);
  return button;
}

/** @param {number[]} percents @param {string[]} names @param {import("./parts.js").Say} t */
function claim(percents, names, t) {
  const chart = bars("claimed", names);
  chart.update(percents.map((one) => one / 100));
  return h("div", { class: "column claimed" }, h("h4", null, t("rules.claimed")), chart.element, h("p", { class: "verdict bad" }, t("rules.claimed.verdict")));
}

/**
 * One rule: bars, the sum, the ratio of the first two, and what is wrong on these scores.
 * @param {import("./math/softmax.js").Rule} rule @param {string[]} names @param {import("./parts.js").Say} t
 */
function column(rule, names, t) {
  const chart = bars(rule, names, { low: -0.5, high: 1.15 });
  const ratio = output(`${rule}.ratio`);
  const verdict = h("p", { class: "verdict", data: { name: `${rule}.verdict` } });
  const last = chart.element.lastElementChild;
  /** @param {number[]} now @param {number[]} before   without the newcomer and the shift */
  function update(now, before) {
    const weights = weigh(now, rule);
    const alone = weigh(before, rule);
    last?.toggleAttribute("hidden", now.length === before.length);
    chart.update(weights.length < names.length ? [...weights, NaN] : weights, percent);
    const share = weights[0] / weights[1];
    ratio.show(share, Number.isFinite(share) ? signed(share, 2) : "–");
    const faults = [];
    if (weights.some(Number.isNaN)) faults.push(t("rules.no_sum"));
    if (weights.some((one) => one < 0)) faults.push(t("rules.negative"));
    if (differ(share, alone[0] / alone[1])) faults.push(t(now.length > before.length ? "rules.moved" : "rules.shifted_row"));
    verdict.textContent = faults.join(" ") || t("rules.fine");
    verdict.classList.toggle("bad", faults.length > 0);
    verdict.classList.toggle("good", faults.length === 0);
  }
  return {
    element: h("div", { class: "column" }, h("h4", null, t(`rules.${rule}`)), chart.element, h("p", { class: "fact" }, t("rules.ratio"), " ", ratio.element), verdict),
    update,
  };
}

/** @param {number} a @param {number} b */
function differ(a, b) {
  if (!Number.isFinite(a) || !Number.isFinite(b)) return Number.isFinite(a) !== Number.isFinite(b);
  return Math.abs(a - b) > SMALL * Math.max(1, Math.abs(a));
}
