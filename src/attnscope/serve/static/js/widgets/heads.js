// @ts-check
/** Widgets of lesson 7: one row of weights or two, what heads cost, and ways to take nothing. */

import { fill, h } from "../parts/dom.js";
import { count, percent, significant, signed } from "../parts/numbers.js";
import { headCosts, rowOf, takingNothing, twoJobs } from "./math/heads.js";
import { barNames, ends, gathered, plainRow } from "./math/row.js";
import { products } from "./math/world.js";
import { bars, output, slider, switches } from "./parts.js";

/** @typedef {import("./math/world.js").World} World @typedef {import("./parts.js").Say} Say */

/** @param {Say} t @param {readonly string[]} names @param {Record<string, {element: Element}>} facts */
function list(t, names, facts) {
  return h("dl", { class: "facts" }, names.map((name) => h("div", null, h("dt", null, t(`heads.${name}`)), h("dd", null, facts[name].element))));
}

/** @param {readonly string[]} names */
const outputsOf = (names) => Object.fromEntries(names.map((name) => [name, output(name)]));

/** @param {number} value @returns {number} as a slider's field shows it */
const round = (value) => Math.round(value * 100) / 100;

const EDGE = 12;

/**
 * Scores by hand: what one row of weights brings, or one for each head, against what is wanted.
 * @param {HTMLElement} place
 * @param {Record<string, string>} options   giver and thing: the numbers of the tokens, row: who asks
 * @param {World & {nearest: number}} world
 * @param {Say} t
 */
export function mountJobs(place, options, world, t) {
  const row = Number(options.row ?? 3);
  const tokens = { giver: Number(options.giver ?? 0), thing: Number(options.thing ?? 2) };
  const seen = world.tokens.slice(0, row + 1);
  const own = (/** @type {number | null} */ head) => {
    const scale = Math.sqrt(world.W_Q[0].length / (head === null ? 1 : world.heads));
    return products(world, head)[row].slice(0, row + 1).map((one) => round(one / scale));
  };
  const first = { one: [own(null)], two: [own(0), own(1)] };
  const state = { how: /** @type {"one" | "two"} */ ("one"), scores: first.one.map((one) => [...one]) };
  const facts = outputsOf(["distance", "best"]);
  const coordinates = world.W_V[0].map((_, at) => ({ wanted: output(`wanted.${at}`), fetched: output(`fetched.${at}`) }));
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  const controls = h("div", { class: "columns-of-bars two" });
  /** @type {ReturnType<typeof bars>[]} */
  let charts = [];
  /** @type {ReturnType<typeof slider>[][]} */
  let sliders = [];
  function update() {
    const found = twoJobs(world, state.scores, tokens);
    charts.forEach((chart, at) => chart.update(found.weights[at], percent));
    coordinates.forEach(({ wanted, fetched }, at) => {
      wanted.show(found.wanted[at], signed(found.wanted[at], 2));
      fetched.show(found.fetched[at], signed(found.fetched[at], 2));
    });
    const best = state.how === "one" ? world.nearest : 0;
    facts.distance.show(found.distance, signed(found.distance, 3));
    facts.best.show(best, signed(best, 3));
    const there = found.distance < best + 0.02;
    verdict.textContent = t(there ? (state.how === "one" ? "heads.jobs.wall" : "heads.jobs.done") : "heads.jobs.further");
    verdict.classList.toggle("good", there && state.how === "two");
    verdict.classList.toggle("bad", there && state.how === "one");
  }
  function rebuild() {
    charts = state.scores.map((_, which) => bars(`weight.${which}`, seen));
    sliders = state.scores.map((scores, which) => scores.map((value, at) =>
      slider({ name: `score.${which}.${at}`, label: t("heads.jobs.score", { token: seen[at] }), min: -EDGE, max: EDGE, step: 0.01, value }, (now) => {
        scores[at] = now;
        update();
      })));
    fill(controls, charts.map((chart, which) => h("div", { class: "column" },
      h("h4", null, state.how === "one" ? t("heads.jobs.row") : t("world.head", { letter: "AB"[which] })),
      h("div", { class: "controls" }, sliders[which].map((one) => one.element)), chart.element)));
    update();
  }
  const set = (/** @type {"one" | "two"} */ how) => {
    state.how = how;
    state.scores = first[how].map((one) => [...one]);
    rebuild();
  };
  fill(place, h("div", { class: "tools" }, switches(t("heads.jobs.how"), [["one", t("heads.jobs.one")], ["two", t("heads.jobs.two")]], state.how, set), " ",
    h("button", { type: "button", data: { name: "reset" }, onclick: () => set(state.how) }, t("heads.jobs.own"))),
  controls,
  h("div", { class: "scrolling" }, h("table", null,
    h("thead", null, h("tr", null, h("th", { scope: "col" }, t("heads.jobs.number")), coordinates.map((_, at) => h("th", { scope: "col", class: "number" }, String(at + 1))))),
    h("tbody", null, /** @type {const} */ (["wanted", "fetched"]).map((name) => h("tr", null, h("th", { scope: "row" }, t(`heads.jobs.${name}`)),
      coordinates.map((one) => h("td", { class: "number" }, one[name].element))))))),
  list(t, ["distance", "best"], facts), verdict);
  rebuild();
  return { dispose: () => fill(place) };
}

const TOKENS = 4096;
const SHAPES = /** @type {const} */ ([["published", [1024, 16, 128]], ["one", [1024, 1, 2048]], ["quotient", [1024, 16, 64]]]);

/**
 * Model width, heads and head width, each by itself: shapes and costs.
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {object} _data
 * @param {Say} t
 */
export function mountWidths(place, _options, _data, t) {
  const state = { model: 1024, heads: 16, width: 128 };
  const names = ["joined", "q_proj", "o_proj", "root", "parameters", "projections", "pairs", "softmaxes"];
  const facts = outputsOf(names);
  function update() {
    const { model, heads, width } = state;
    const found = headCosts(model, heads, width, TOKENS);
    facts.joined.show(found.joined, `${count(heads)} × ${count(width)} = ${count(found.joined)}`);
    facts.q_proj.show(model * found.joined, `${count(model)} → ${count(found.joined)}`);
    facts.o_proj.show(model * found.joined, `${count(found.joined)} → ${count(model)}`);
    facts.root.show(Math.sqrt(width), significant(Math.sqrt(width), 3));
    for (const name of /** @type {const} */ (["parameters", "projections", "pairs", "softmaxes"])) {
      const value = found[name];
      facts[name].show(value, name === "parameters" || name === "softmaxes" ? count(value) : t("heads.billion", { count: significant(value / 1e9, 3) }));
    }
  }
  /** @param {"model" | "heads" | "width"} name @param {number} min @param {number} max @param {number} step */
  const control = (name, min, max, step) => slider({ name, label: t(`heads.widths.${name}`), min, max, step, value: state[name] }, (now) => {
    state[name] = Math.round(now);
    update();
  });
  const sliders = { model: control("model", 256, 8192, 256), heads: control("heads", 1, 64, 1), width: control("width", 16, 2048, 16) };
  const buttons = SHAPES.map(([name, [model, heads, width]]) => h("button", { type: "button", data: { name }, onclick: () => {
    Object.assign(state, { model, heads, width });
    for (const key of /** @type {const} */ (["model", "heads", "width"])) sliders[key].set(state[key]);
    update();
  } }, t(`heads.widths.${name}`)));
  fill(place, h("div", { class: "controls" }, Object.values(sliders).map((one) => one.element), h("div", { class: "tools" }, buttons.flatMap((one) => [one, " "]))),
    list(t, names, facts), h("p", { class: "note" }, t("heads.widths.note", { tokens: count(TOKENS) })));
  update();
  return { dispose: () => fill(place) };
}

/** @typedef {import("./math/heads.js").Way} Way */

/**
 * A row whose scores hardly differ: what it takes, and four ways to take less.
 * @param {HTMLElement} place
 * @param {Record<string, string>} options   row: who asks
 * @param {World} world
 * @param {Say} t
 */
export function mountNothing(place, options, world, t) {
  const row = Number(options.row ?? 2);
  const { scores, values } = rowOf(world, row);
  return takeNothing(place, { ...plainRow(world.tokens.slice(0, row + 1), scores.map(round)), values, words: ["kept", "open", "size", "plain"] }, t);
}

/**
 * The same on any row.
 * @param {HTMLElement} place
 * @param {import("./math/row.js").Row & {values: number[][], words: string[]}} row   values of the named, then of the rest; what the four facts are called
 * @param {Say} t
 */
export function takeNothing(place, row, t) {
  const { names, values, words } = row;
  const state = { scores: [...row.scores], way: /** @type {Way} */ ("sink"), number: -6 };
  const beside = h("span", null, t("heads.nothing.beside.sink"));
  const chart = bars("weight", [...barNames(row), ""]);
  const last = chart.element.lastElementChild;
  last?.querySelector(".name")?.replaceChildren(beside);
  const facts = outputsOf(words);
  const [kept, open, size, without] = words.map((word) => facts[word]);
  function update() {
    const all = [...state.scores, ...row.rest];
    const found = takingNothing(all, values, state.way, state.number);
    const plain = takingNothing(all, values, "none", 0);
    chart.update([...gathered(found.weights, names.length), found.beside], percent);
    const named = state.way === "first" || state.way === "zero" ? state.way : "sink";
    beside.textContent = t(`heads.nothing.beside.${named}`);
    last?.toggleAttribute("hidden", state.way === "none" || state.way === "gate");
    kept.show(found.kept, percent(found.kept));
    const gate = state.way === "gate" ? found.open : NaN;
    open.show(gate, percent(gate));
    const [now, before] = [found, plain].map((one) => Math.hypot(...one.fetched));
    size.show(now, Number.isFinite(now) ? signed(now, 3) : "–");
    without.show(before, Number.isFinite(before) ? signed(before, 3) : "–");
  }
  const number = slider({ name: "number", label: t("heads.nothing.number"), min: -10, max: 10, step: 0.1, value: state.number }, (now) => {
    state.number = now;
    update();
  });
  const sliders = state.scores.map((value, at) => slider({ name: `score.${at}`, label: t("heads.jobs.score", { token: names[at] }), ...ends(row.scores, -6, 10), step: 0.01, value: round(value) }, (now) => {
    state.scores[at] = now;
    update();
  }));
  const ways = /** @type {const} */ (["none", "first", "sink", "zero", "gate"]);
  fill(place, h("div", { class: "controls" }, switches(t("heads.nothing.way"), ways.map((way) => /** @type {const} */ ([way, t(`heads.nothing.${way}`)])), state.way, (way) => {
    state.way = way;
    update();
  }), number.element, sliders.map((one) => one.element)), chart.element, list(t, words, facts));
  update();
  return { dispose: () => fill(place) };
}
