// @ts-check
/**
 * Lesson 6 on the reader's text: a real head's row when its tokens change places, and the score of a
 * real pair at every distance.
 *
 * The idea: a captured query or key was turned by its place; turned on, it is what it would be
 * elsewhere, and turned back, what it was before. The rest of the model stays as it was: a token is
 * moved within this head, and not in the text that the layers below have read.
 *
 * Not here: the turning (math/places.js), values (no trace holds them, so nothing is fetched).
 */

import { fill, h } from "../../parts/dom.js";
import { percent, significant, signed } from "../../parts/numbers.js";
import { COUNT, distanceChart } from "../distance.js";
import { scoresAt } from "../math/places.js";
import { weighed } from "../math/row.js";
import { dot } from "../math/softmax.js";
import { bars, output, slider, switches } from "../parts.js";
import { numbered, rowOf, windowOf } from "./subject.js";

/**
 * @typedef {import("./control.js").OwnMount} OwnMount
 * @typedef {import("./handout.js").Head} Head
 * @typedef {import("./handout.js").Rotary} Rotary
 * @typedef {import("../parts.js").Say} Say
 * @typedef {"none" | "rotated"} Way
 */

const WINDOW = 6;
const NAMES = 5;
const FURTHEST = 1000;
/** Below this a change is rounding: cosines of angles of some thousand radians are off by 1e-13. */
const NOTHING = 1e-9;

/** @param {Say} t @param {(way: Way) => void} onWay */
function waySwitch(t, onWay) {
  return switches(t("places.way"), /** @type {const} */ (["none", "rotated"]).map((way) => /** @type {const} */ ([way, t(`places.way.${way}`)])), /** @type {Way} */ ("rotated"), onWay);
}

/** @param {readonly (readonly [string | Element, Element])[]} rows */
function facts(rows) {
  return h("dl", { class: "facts" }, rows.map(([words, element]) => h("div", null, h("dt", null, words), h("dd", null, element))));
}

/**
 * The tokens before the one that asks in another order, and the whole text further down.
 * @type {OwnMount}
 */
export const order = (place, options, subject, t) => {
  const { handout, head, row } = subject;
  const plain = options.ways === "none";
  const seen = [...head.weights.keys()].filter((key) => head.weights[row][key] !== null && head.scores[row][key] !== null);
  const tokens = windowOf(subject, WINDOW).filter((key) => key === row || seen.includes(key));
  const others = seen.filter((key) => !tokens.includes(key));
  const rotary = /** @type {Rotary} */ (head.rotary);
  const still = rotary.turns.length === 0;
  const away = head.outside.keys[row];
  const state = { order: [...tokens], way: /** @type {Way} */ (plain ? "none" : "rotated"), move: 0 };
  const named = others.length > 0 || head.sink !== null || (away > 0 && (still || !plain));
  const chart = bars("weight", [...tokens.map((key) => numbered(handout, key)), ...(named ? [t("own.others")] : [])]);
  const sentence = h("p", { class: "sentence", "aria-live": "polite", data: { name: "sentence" } });
  const note = h("p", { class: "note", data: { name: "left" } });
  const outputs = { moved: output("moved"), shifted: output("shifted") };
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  /** @param {readonly number[]} tokensNow as they stand @param {number} move @returns {number[]} of the window's tokens, then of the rest */
  function weights(tokensNow, move) {
    const told = state.way === "rotated";
    const at = (/** @type {number} */ key) => {
      const stands = tokensNow.indexOf(key);
      return told ? (stands < 0 ? key : tokens[stands]) + move : 0;
    };
    const scores = scoresAt({ ...head, rotary }, [row, at(row)], [...tokens, ...others].map((key) => [key, at(key)]));
    const beyond = told || still ? head.outside.logsumexp[row] : null;
    const rest = [...scores.slice(tokens.length), ...(beyond === null ? [] : [beyond]), ...(head.sink === null ? [] : [head.sink])];
    return weighed(scores.slice(0, tokens.length), rest);
  }
  const swaps = tokens.slice(1).map((token, at) => ({ at, first: tokens[at], second: token, able: token === tokens[at] + 1 && token !== row && tokens[at] !== row }))
    .filter((one) => one.able)
    .map(({ at, first, second }) => ({ first, second, button: h("button", { type: "button", data: { name: `swap.${at}` }, onclick: () => {
      [state.order[at], state.order[at + 1]] = [state.order[at + 1], state.order[at]];
      update();
    } }) }));
  function update() {
    const { way, move } = state;
    const stands = (/** @type {number} */ at) => handout.start + at + 1 + move;
    fill(sentence, state.order.map((token, at) => h("span", { class: token === row ? "asks" : null }, h("small", null, String(stands(tokens[at]))), handout.names[token])));
    for (const { first, second, button } of swaps) {
      button.textContent = `${stands(first)} ⇄ ${stands(second)}`;
      button.setAttribute("aria-label", t("own.order.swap", { first: stands(first), second: stands(second) }));
    }
    const [before, here, now] = [weights(tokens, 0), weights(state.order, 0), weights(state.order, move)];
    chart.update(now, percent);
    const moved = furthest(now, before);
    const shifted = furthest(now, here);
    outputs.moved.show(moved, moved < NOTHING ? "0" : percent(moved));
    outputs.shifted.show(shifted, significant(shifted, 2));
    const left = head.outside.weights[row];
    note.textContent = still ? t("own.places.still") : way === "none" ? [t("own.order.none"), away ? t("own.order.left", { count: away, share: percent(left) }) : ""].join(" ").trim() : t("own.order.turned");
    const changed = move > 0 || state.order.some((token, at) => token !== tokens[at]);
    verdict.textContent = t(!changed ? "places.as_it_was" : moved < NOTHING ? "places.same" : "places.other");
  }
  const shift = slider({ name: "move", label: t("own.order.move"), min: 0, max: FURTHEST, step: 1, value: 0 }, (move) => {
    state.move = Math.round(move);
    update();
  });
  fill(place, sentence, h("div", { class: "controls" }, h("div", { class: "tools" }, swaps.map(({ button }) => [button, " "]),
    h("button", { type: "button", data: { name: "reset" }, onclick: () => {
      Object.assign(state, { order: [...tokens], move: 0 });
      shift.set(0);
      update();
    } }, t("widget.reset"))),
  plain ? null : waySwitch(t, (way) => {
    state.way = way;
    update();
  }), plain ? null : shift.element), note,
  h("h4", null, t("places.takes", { token: numbered(handout, row) })), chart.element,
  facts([[t("places.moved"), outputs.moved.element], ...(plain ? [] : [/** @type {const} */ ([t("own.order.shifted"), outputs.shifted.element])])]), verdict);
  update();
  return { dispose: () => fill(place) };
};

/** @param {readonly number[]} a @param {readonly number[]} b @returns {number} the largest difference */
const furthest = (a, b) => Math.max(...a.map((one, at) => Math.abs(one - b[at])));

/**
 * The query of the token that asks and a key of its row: the score at every distance, at two places.
 * @type {OwnMount}
 */
export const far = (place, _options, subject, t) => {
  const { head, row } = subject;
  const rotary = /** @type {Rotary} */ (head.rotary);
  const { keys, names } = rowOf(subject, NAMES, t);
  // The text's first token is a sink for many heads, and a sink scores much the same at every distance.
  const telling = keys.filter((key) => subject.handout.start + key > 0 && key !== row);
  const largest = (telling.length ? telling : keys).reduce((best, key) => (Number(head.weights[row][key]) > Number(head.weights[row][best]) ? key : best));
  const apartBy = (/** @type {number} */ key) => Math.max(0, row - key);
  const state = { way: /** @type {Way} */ ("rotated"), key: largest, start: 300, distance: apartBy(largest) };
  const chart = distanceChart(t);
  const outputs = { real: output("real"), here: output("here"), there: output("there"), apart: output("apart") };
  const real = h("span", null);
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  const note = h("p", { class: "note", data: { name: "left" } });
  /** @param {number} start @returns {number[]} */
  const line = (start) => Array.from({ length: COUNT }, (_, distance) => {
    const [query, key] = state.way === "none" ? [0, 0] : [start + distance, start];
    return scoresAt({ ...head, rotary }, [row, query], [[state.key, key]])[0];
  });
  function update() {
    const { key, distance } = state;
    const [here, there] = [line(0), line(state.start)];
    const { edge, decimals } = edgeOf([...here, ...there]);
    chart.draw([here, there], { distance, edge, decimals });
    const score = Number(head.scores[row][key]);
    real.textContent = t("own.far.real", { distance: row - key });
    outputs.real.show(score, signed(score, 3));
    outputs.here.show(here[distance], signed(here[distance], 3));
    outputs.there.show(there[distance], signed(there[distance], 3));
    const apart = furthest(here, there);
    const room = NOTHING * Math.max(1, Math.abs(head.scale) * Math.sqrt(dot(rotary.q[row], rotary.q[row]) * dot(rotary.k[key], rotary.k[key])));
    outputs.apart.show(apart, apart < room ? "0" : significant(apart, 3));
    const level = Math.max(...here) - Math.min(...here) < room;
    verdict.textContent = t(level ? "places.far.blind" : apart < room ? "places.far.law" : "places.far.apart");
    note.textContent = !rotary.turns.length ? t("own.places.still") : state.way === "none" ? t("own.far.none") : t("own.far.turned", { pairs: rotary.turns.length, turning: 2 * rotary.turns.length, width: rotary.q[row].length });
  }
  /** @param {"start" | "distance"} name @param {number} max */
  const control = (name, max) => slider({ name, label: t(`places.far.${name}`), min: 0, max, step: 1, value: state[name] }, (now) => {
    state[name] = Math.round(now);
    update();
  });
  const distance = control("distance", COUNT - 1);
  fill(place, h("div", { class: "controls" }, switches(t("own.far.key"), keys.map((key, at) => /** @type {const} */ ([String(key), names[at]])), String(largest), (key) => {
    state.key = Number(key);
    state.distance = apartBy(state.key);
    distance.set(state.distance);
    update();
  }), waySwitch(t, (way) => {
    state.way = way;
    update();
  }), control("start", FURTHEST).element, distance.element), note, chart.elements,
  facts([[real, outputs.real.element], .../** @type {const} */ (["here", "there", "apart"]).map((name) => /** @type {const} */ ([t(`places.${name}`), outputs[name].element]))]), verdict);
  update();
  return { dispose: () => fill(place) };
};

/**
 * Where an axis ends that holds these scores, a round number, and its decimals.
 * @param {readonly number[]} scores
 * @returns {{edge: number, decimals: number}}
 */
function edgeOf(scores) {
  const most = Math.max(...scores.map(Math.abs), 1e-6);
  const power = Math.floor(Math.log10(most));
  const edge = Math.ceil(most / 10 ** power) * 10 ** power;
  return { edge, decimals: Math.max(0, -power) };
}
