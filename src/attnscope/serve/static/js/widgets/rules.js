// @ts-check
/** Three ways from scores to weights, side by side on scores of the reader's own; what breaks. */

import { fill, h } from "../parts/dom.js";
import { percent, signed } from "../parts/numbers.js";
import { barNames, ends, gathered, plainRow, toStep } from "./math/row.js";
import { weigh } from "./math/softmax.js";
import { bars, numbersOf, output, slider } from "./parts.js";

/** @type {import("./math/softmax.js").Rule[]} */
const RULES = ["proportional", "shifted", "softmax"];
const SHIFT = 5;
const SMALL = 1e-9;
/** What the bars span at least: the lesson's own numbers do not move the scale at every touch. */
const ENDS = [-0.5, 1.15];
const AROUND = 1.05;

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options   scores, names, newcomer; claimed: percents to compare with
 * @param {{row?: import("./math/row.js").Row}} data   a row in the place of the options' scores
 * @param {import("./parts.js").Say} t
 */
export function mountRules(place, options, data, t) {
  const row = data.row ?? plainRow(options.names.split(","), numbersOf(options.scores));
  const { scores: first, names, rest } = row;
  const step = data.row ? 0.1 : 0.5;
  const newcomer = Number(options.newcomer);
  const state = { scores: [...first], joined: false, shifted: false };
  const sliders = first.map((value, at) =>
    slider({ name: `score.${at}`, label: names[at], ...ends(first, -12, 12), step, value: toStep(value, step) }, (now) => {
      state.scores[at] = now;
      update();
    }));
  const columns = RULES.map((rule) => column(rule, row, t));
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
    sliders.forEach((one, at) => one.set(toStep(first[at], step)));
    update();
  } }, t("widget.reset"));

  function update() {
    const base = [...state.scores, ...rest];
    const now = [...base, ...(state.joined ? [newcomer] : [])].map((s) => s + (state.shifted ? SHIFT : 0));
    const reached = RULES.flatMap((rule) => weigh(now, rule)).concat(RULES.flatMap((rule) => gathered(weigh(now, rule).slice(0, base.length), names.length))).filter(Number.isFinite);
    const low = Math.min(ENDS[0], AROUND * Math.min(...reached));
    const high = Math.max(ENDS[1], AROUND * Math.max(...reached));
    columns.forEach((one) => one.update(now, base, low, high));
    said?.span(low, high);
  }
  const claimed = data.row ? [] : numbersOf(options.claimed);
  const said = claimed.length ? claim(claimed, names, t) : null;
  fill(place,
    h("div", { class: "controls" }, sliders.map((one) => one.element), h("div", { class: "tools" }, join, shift, reset)),
    h("div", { class: "columns-of-bars" }, columns.map((one) => one.element), said ? said.element : null),
    h("p", { class: "note" }, t("rules.scale")));
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
  return {
    element: h("div", { class: "column claimed" }, h("h4", null, t("rules.claimed")), chart.element, h("p", { class: "verdict bad" }, t("rules.claimed.verdict"))),
    /** @param {number} low @param {number} high */
    span: (low, high) => {
      chart.span(low, high);
      chart.update(percents.map((one) => one / 100));
    },
  };
}

/**
 * One rule: bars, the sum, the ratio of the first two, and what is wrong on these scores.
 * @param {import("./math/softmax.js").Rule} rule @param {import("./math/row.js").Row} row @param {import("./parts.js").Say} t
 */
function column(rule, row, t) {
  const chart = bars(rule, [...barNames(row), t("rules.newcomer")]);
  const ratio = output(`${rule}.ratio`);
  const verdict = h("p", { class: "verdict", data: { name: `${rule}.verdict` } });
  const last = chart.element.lastElementChild;
  /**
   * @param {number[]} now
   * @param {number[]} before   without the newcomer and the shift
   * @param {number} low @param {number} high   the ends that all rules share
   */
  function update(now, before, low, high) {
    chart.span(low, high);
    const weights = weigh(now, rule);
    const alone = weigh(before, rule);
    last?.toggleAttribute("hidden", now.length === before.length);
    const shown = gathered(weights.slice(0, before.length), row.names.length);
    chart.update([...shown, weights[before.length] ?? NaN], percent);
    const share = weights[0] / weights[1];
    ratio.show(share, Number.isFinite(share) ? signed(share, 2) : "–");
    const faults = [];
    if (weights.some(Number.isNaN)) faults.push(t("rules.no_sum"));
    if (weights.some((one) => one < 0)) faults.push(t("rules.negative"));
    const never = row.names.findIndex((_, at) => weights[at] === 0);
    if (never >= 0) faults.push(t("rules.never", { name: row.names[never] }));
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
