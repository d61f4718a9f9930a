// @ts-check
/** Widgets of lesson 6: where tokens stand, told to nobody, added, or turned into q and k. */

import { fill, h } from "../parts/dom.js";
import { percent, significant, signed } from "../parts/numbers.js";
import { frequencies, movedOutputs, placedRow, scoresByDistance } from "./math/places.js";
import { dot } from "./math/softmax.js";
import { COUNT, distanceChart } from "./distance.js";
import { bars, output, slider, switches } from "./parts.js";

/** @typedef {import("./math/places.js").Way} Way @typedef {import("./parts.js").Say} Say */

/** Below this a change is rounding: cosines of angles of some hundred radians are off by 1e-14. */
const NOTHING = 1e-9;

/** @param {Say} t @param {Way} first @param {(way: Way) => void} onWay */
function waySwitch(t, first, onWay) {
  return switches(t("places.way"), /** @type {const} */ (["none", "added", "rotated"]).map((way) => /** @type {const} */ ([way, t(`places.way.${way}`)])), first, onWay);
}

/** @param {Say} t @param {readonly string[]} names @param {Record<string, {element: Element}>} facts */
function list(t, names, facts) {
  return h("dl", { class: "facts" }, names.map((name) => h("div", null, h("dt", null, t(`places.${name}`)), h("dd", null, facts[name].element))));
}

/** @param {readonly string[]} names */
const outputsOf = (names) => Object.fromEntries(names.map((name) => [name, output(name)]));

/**
 * The teaching sentence in another order, or further down: what "gave" takes.
 * @param {HTMLElement} place
 * @param {Record<string, string>} options   ways=none leaves positions out
 * @param {import("./math/world.js").World} world
 * @param {Say} t
 */
export function mountOrder(place, options, world, t) {
  const row = Number(options.row ?? 3);
  const first = world.tokens.map((_, at) => at);
  const plain = options.ways === "none";
  const state = { order: [...first], way: /** @type {Way} */ (plain ? "none" : "rotated"), start: 0 };
  const sentence = h("p", { class: "sentence", "aria-live": "polite", data: { name: "sentence" } });
  const chart = bars("weight", world.tokens);
  const facts = outputsOf(["moved", "fetched"]);
  const verdict = h("p", { class: "verdict", data: { name: "verdict" } });
  function update() {
    const { order, way, start } = state;
    fill(sentence, order.map((token, at) => h("span", { class: token === row ? "asks" : null }, h("small", null, String(start + at)), world.tokens[token])));
    const before = placedRow(world, first, row, { way, start: 0 });
    const now = placedRow(world, order, row, { way, start });
    chart.update(now.weights, percent);
    const moved = Math.max(...now.weights.map((one, at) => Math.abs(one - before.weights[at])));
    const apart = now.output.map((one, at) => one - before.output[at]);
    const fetched = Math.sqrt(dot(apart, apart));
    facts.moved.show(moved, moved < NOTHING ? "0" : percent(moved));
    facts.fetched.show(fetched, fetched < NOTHING ? "0" : significant(fetched, 3));
    const changed = order.some((token, at) => token !== at) || start > 0;
    const same = moved < NOTHING && fetched < NOTHING;
    verdict.textContent = t(!changed ? "places.as_it_was" : same ? "places.same" : "places.other");
  }
  const swap = (/** @type {number} */ at) => h("button", { type: "button", data: { name: `swap.${at}` }, onclick: () => {
    [state.order[at], state.order[at + 1]] = [state.order[at + 1], state.order[at]];
    update();
  } }, t(`places.swap.${at}`));
  const shift = slider({ name: "start", label: t("places.start"), min: 0, max: 200, step: 1, value: 0 }, (start) => {
    state.start = Math.round(start);
    update();
  });
  fill(place, sentence, h("div", { class: "controls" }, h("div", { class: "tools" }, swap(0), " ", swap(1), " ",
    h("button", { type: "button", data: { name: "reset" }, onclick: () => {
      Object.assign(state, { order: [...first], start: 0 });
      shift.set(0);
      update();
    } }, t("widget.reset"))),
    plain ? null : waySwitch(t, state.way, (way) => {
      state.way = way;
      update();
    }), plain ? null : shift.element),
    h("h4", null, t("places.takes", { token: world.tokens[row] })), chart.element, list(t, ["moved", "fetched"], facts), verdict);
  update();
  return { dispose: () => fill(place) };
}

const LENGTHS = [1.5, 2];

/**
 * One pair of numbers of q and of k as arrows, each turned by its position.
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {object} _data
 * @param {Say} t
 */
export function mountTurn(place, _options, _data, t) {
  const state = { i: 2, j: 0, degrees: 20, between: 20 };
  const facts = outputsOf(["turned_q", "turned_k", "between", "product"]);
  const [q, k] = ["law", "second"].map((name) => ({
    line: h("svg:path", { class: name }),
    still: h("svg:path", { class: `${name} faint` }),
    name: h("svg:text", { "text-anchor": "middle" }, name === "law" ? "q" : "k"),
  }));
  /** @param {{line: Element, still: Element, name: Element}} arrow @param {number} length @param {number} from @param {number} by */
  function draw(arrow, length, from, by) {
    arrow.still.setAttribute("d", path(length, from));
    arrow.line.setAttribute("d", path(length, from + by));
    const [x, y] = at(length + 0.35, from + by);
    arrow.name.setAttribute("x", x.toFixed(1));
    arrow.name.setAttribute("y", (y + 4).toFixed(1));
  }
  function update() {
    const [turnQ, turnK] = [state.i * state.degrees, state.j * state.degrees];
    draw(q, LENGTHS[0], state.between, turnQ);
    draw(k, LENGTHS[1], 0, turnK);
    const between = state.between + turnQ - turnK;
    const around = ((between % 360) + 360) % 360;
    const product = LENGTHS[0] * LENGTHS[1] * Math.cos((between * Math.PI) / 180);
    facts.turned_q.show(turnQ, `${turnQ}°`);
    facts.turned_k.show(turnK, `${turnK}°`);
    facts.between.show(around, `${around}°`);
    facts.product.show(product, signed(product, 2));
  }
  /** @param {"i" | "j" | "degrees" | "between"} name @param {number} min @param {number} max */
  const control = (name, min, max) => slider({ name, label: t(`places.turn.${name}`), min, max, step: 1, value: state[name] }, (now) => {
    state[name] = Math.round(now);
    update();
  });
  const sliders = { i: control("i", 0, 60), j: control("j", 0, 60), degrees: control("degrees", 1, 60), between: control("between", -180, 180) };
  const both = (/** @type {number} */ by) => {
    if (Math.min(state.i, state.j) + by < 0 || Math.max(state.i, state.j) + by > 60) return;
    for (const name of /** @type {const} */ (["i", "j"])) {
      state[name] += by;
      sliders[name].set(state[name]);
    }
    update();
  };
  fill(place, h("div", { class: "controls" }, Object.values(sliders).map((one) => one.element),
    h("div", { class: "tools" }, h("button", { type: "button", data: { name: "both" }, onclick: () => both(1) }, t("places.turn.both")), " ",
      h("button", { type: "button", data: { name: "back" }, onclick: () => both(-1) }, t("places.turn.back")))),
  h("svg:svg", { class: "plane", viewBox: "-150 -92 300 184", role: "img", "aria-label": t("places.turn.picture") },
    h("svg:circle", { r: 1.5 * UNIT, class: "ring" }), h("svg:circle", { r: 2 * UNIT, class: "ring" }),
    [k, q].map((one) => [one.still, one.line, one.name])),
  list(t, ["turned_q", "turned_k", "between", "product"], facts));
  update();
  return { dispose: () => fill(place) };
}

const UNIT = 36;

/** @param {number} length @param {number} degrees @returns {[number, number]} */
function at(length, degrees) {
  const angle = (degrees * Math.PI) / 180;
  return [UNIT * length * Math.cos(angle), -UNIT * length * Math.sin(angle)];
}

/** @param {number} length @param {number} degrees @returns {string} an arrow from the middle */
function path(length, degrees) {
  const [x, y] = at(length, degrees);
  const angle = Math.atan2(y, x);
  const head = [2.7, -2.7].map((turn) => `M${x.toFixed(1)} ${y.toFixed(1)}l${(7 * Math.cos(angle + turn)).toFixed(1)} ${(7 * Math.sin(angle + turn)).toFixed(1)}`);
  return `M0 0L${x.toFixed(1)} ${y.toFixed(1)}${head.join("")}`;
}

const WIDTH = 64;

/**
 * One random query and key: the score against their distance, at two places of a text.
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {object} _data
 * @param {Say} t
 */
export function mountFar(place, _options, _data, t) {
  const state = { way: /** @type {Way} */ ("added"), seed: 1, rotary: WIDTH, start: 300, distance: 5 };
  const chart = distanceChart(t);
  const facts = outputsOf(["here", "there", "apart"]);
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  function update() {
    const about = { rotary: state.rotary, theta: 10000, way: state.way, count: COUNT };
    const [here, there] = [0, state.start].map((start) => scoresByDistance(state.seed, WIDTH, { ...about, start }));
    chart.draw([here, there], { distance: state.distance, edge: 10 * Math.ceil(Math.max(...here.map(Math.abs), ...there.map(Math.abs), 1) / 10) });
    facts.here.show(here[state.distance], signed(here[state.distance], 3));
    facts.there.show(there[state.distance], signed(there[state.distance], 3));
    const apart = Math.max(...here.map((one, at) => Math.abs(one - there[at])));
    facts.apart.show(apart, apart < NOTHING ? "0" : significant(apart, 3));
    const level = Math.max(...here) - Math.min(...here) < NOTHING;
    verdict.textContent = t(level ? "places.far.blind" : apart < NOTHING ? "places.far.law" : "places.far.apart");
  }
  /** @param {"seed" | "start" | "distance"} name @param {number} min @param {number} max */
  const control = (name, min, max) => slider({ name, label: t(`places.far.${name}`), min, max, step: 1, value: state[name] }, (now) => {
    state[name] = Math.round(now);
    update();
  }).element;
  fill(place, h("div", { class: "controls" }, waySwitch(t, state.way, (way) => {
    state.way = way;
    update();
  }), switches(t("places.far.share"), [["64", t("places.far.all")], ["16", t("places.far.quarter")]], "64", (rotary) => {
    state.rotary = Number(rotary);
    update();
  }), control("seed", 1, 99), control("start", 0, 1000), control("distance", 0, COUNT - 1)),
  chart.elements,
  list(t, ["here", "there", "apart"], facts), verdict);
  update();
  return { dispose: () => fill(place) };
}

const CLOCKS = 8;

/**
 * Every pair of a head as a clock: the first runs fast, the last one slowly.
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {object} _data
 * @param {Say} t
 */
export function mountClocks(place, _options, _data, t) {
  const state = { position: 5, power: 4 };
  const clocks = Array.from({ length: CLOCKS }, (_, at) => {
    const [hand, degrees, circle] = [h("svg:path", { class: "law" }), output(`angle.${at}`), output(`circle.${at}`)];
    return { hand, degrees, circle, element: h("figure", null,
      h("svg:svg", { class: "clock", viewBox: "-22 -22 44 44", "aria-hidden": "true" }, h("svg:circle", { r: 20, class: "ring" }), hand),
      h("figcaption", null, h("b", null, t("places.clocks.pair", { number: at + 1 })), h("span", null, degrees.element), h("small", null, t("places.clocks.circle"), " ", circle.element))) };
  });
  function update() {
    frequencies(2 * CLOCKS, 10 ** state.power).forEach((turn, at) => {
      const angle = state.position * turn;
      const degrees = ((angle * 180) / Math.PI) % 360;
      clocks[at].hand.setAttribute("d", `M0 0L${(18 * Math.cos(angle)).toFixed(2)} ${(-18 * Math.sin(angle)).toFixed(2)}`);
      clocks[at].degrees.show(degrees, `${signed(degrees, 1)}°`);
      clocks[at].circle.show((2 * Math.PI) / turn, significant((2 * Math.PI) / turn, 3));
    });
  }
  const controls = [
    slider({ name: "position", label: t("places.clocks.position"), min: 0, max: 1000, step: 1, value: state.position }, (now) => {
      state.position = Math.round(now);
      update();
    }),
    slider({ name: "power", label: t("places.clocks.power"), min: 1, max: 8, step: 0.5, value: state.power }, (now) => {
      state.power = now;
      update();
    }),
  ];
  fill(place, h("div", { class: "controls" }, controls.map((one) => one.element)), h("div", { class: "clocks" }, clocks.map((one) => one.element)));
  update();
  return { dispose: () => fill(place) };
}

const WAYS_OF_V = ["plain", "turned", "back"];

/**
 * A random sequence moved further down: what becomes of what it fetches, with v turned and not.
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {object} _data
 * @param {Say} t
 */
export function mountMoved(place, _options, _data, t) {
  const state = { move: 1, seed: 1 };
  const chart = bars("change", WAYS_OF_V.map((way) => t(`places.moved.${way}`)), { low: 0, high: 2 });
  chart.element.classList.add("wordy");
  function update() {
    const found = movedOutputs(state.seed, { width: 16, tokens: 8, move: state.move });
    chart.update(found, (value) => (value < NOTHING ? "0 %" : percent(value)));
  }
  /** @param {"move" | "seed"} name @param {number} min @param {number} max */
  const control = (name, min, max) => slider({ name, label: t(`places.moved.${name}`), min, max, step: 1, value: state[name] }, (now) => {
    state[name] = Math.round(now);
    update();
  }).element;
  fill(place, h("div", { class: "controls" }, control("move", 0, 1000), control("seed", 1, 99)), h("h4", null, t("places.moved.change")), chart.element);
  update();
  return { dispose: () => fill(place) };
}
