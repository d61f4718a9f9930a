// @ts-check
/**
 * Lesson 7 on the reader's text: two real heads want two tokens; one row of weights or two.
 *
 * The idea: what arrives of a wanted token's value is its weight, so no values are needed: one row
 * shares out 100 % once, two rows twice.
 *
 * Not here: values themselves (no trace holds them).
 */

import { fill, h } from "../../parts/dom.js";
import { percent } from "../../parts/numbers.js";
import { ends, joint, meanScores, toStep } from "../math/row.js";
import { softmax, total } from "../math/softmax.js";
import { bars, output, slider, switches } from "../parts.js";
import { numbered } from "./subject.js";

/** @typedef {import("./handout.js").Head} Head */

const NAMES = 3; // of each head
const EDGE = 12;
const STEP = 0.01;
/** As near to all that a row or two can bring as a hand gets with sliders. */
const NEARLY = 0.02;

/**
 * A head's scores of a row: of every token here, of what lies outside, of the sink; null where it does not see it.
 * @param {Head} head
 * @param {number} row
 * @returns {(number | null)[]}
 */
const rowScores = (head, row) => [...head.scores[row].map((one, key) => (head.weights[row][key] === null ? null : one)), head.outside.logsumexp[row], head.sink];

/** @type {import("./control.js").OwnMount} */
export const jobs = (place, _options, { handout, head, other, row }, t) => {
  const heads = [head, other];
  const n = handout.names.length;
  const most = heads.map((one) => [...Array(n).keys()].filter((key) => one.weights[row][key] !== null && one.scores[row][key] !== null)
    .sort((a, b) => Number(one.weights[row][b]) - Number(one.weights[row][a]) || a - b).slice(0, NAMES));
  const keys = [...new Set(most.flat())].sort((a, b) => a - b);
  const names = keys.map((key) => numbered(handout, key));
  // Each head's own largest; where both have the same, the second takes its next: one wish for two needs no second row.
  const wishes = [most[0][0], most[1].find((key) => key !== most[0][0]) ?? most[1][0]].map((key) => keys.indexOf(key));
  const rows = heads.map((one) => rowScores(one, row));
  /** The named scores, and the joint one of the rest. @param {readonly (number | null)[]} scores */
  const parted = (scores) => {
    const whole = scores.map((one) => one ?? -Infinity);
    return { named: keys.map((key) => whole[key]), rest: joint(whole.filter((_, at) => !keys.includes(at))) };
  };
  const first = { one: [parted(meanScores(rows))], two: rows.map(parted) };
  const fresh = (/** @type {"one" | "two"} */ how) => first[how].map(({ named, rest }) => ({ named: [...named], rest }));
  const state = { how: /** @type {"one" | "two"} */ ("one"), scores: fresh("one"), wants: wishes };
  const real = first.two.map(({ named, rest }) => softmax([...named, rest]));
  const title = (/** @type {number} */ which) => t("own.jobs.head", { letter: "AB"[which], layer: heads[which].layer, head: heads[which].head });
  const got = ["A", "B"].map((letter) => output(`got.${letter}`));
  const outputs = { together: output("together"), best: output("best"), real: output("real") };
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  const columns = h("div", { class: "columns-of-bars two" });
  /** @type {ReturnType<typeof bars>[]} */
  let charts = [];
  const restless = first.one[0].rest === -Infinity && first.two.every((one) => one.rest === -Infinity);
  const whole = (/** @type {readonly number[][]} */ weights) => state.wants.map((at, which) => weights[weights.length === 1 ? 0 : which][at]);
  function update() {
    const weights = state.scores.map(({ named, rest }) => softmax([...named, rest]));
    charts.forEach((chart, at) => chart.update(restless ? weights[at].slice(0, -1) : weights[at], percent));
    const found = whole(weights);
    found.forEach((share, at) => got[at].show(share, percent(share)));
    const together = total(found);
    const same = state.wants[0] === state.wants[1];
    const best = state.how === "two" || same ? 2 : 1;
    outputs.together.show(together, percent(together));
    outputs.best.show(best, percent(best));
    outputs.real.show(total(whole(real)), percent(total(whole(real))));
    const there = together > best - NEARLY;
    const one = state.how === "one";
    verdict.textContent = same ? t("own.jobs.same", { token: names[state.wants[0]] }) : t(there ? (one ? "own.jobs.wall" : "own.jobs.done") : one ? "own.jobs.shared" : "own.jobs.apart");
    verdict.classList.toggle("good", there && !one && !same);
    verdict.classList.toggle("bad", there && one && !same);
  }
  function rebuild() {
    const labels = restless ? names : [...names, t("own.others")];
    charts = state.scores.map((_, which) => bars(`weight.${which}`, labels));
    fill(columns, state.scores.map(({ named }, which) => {
      const { min, max } = ends(named.filter(Number.isFinite), -EDGE, EDGE);
      const sliders = named.map((score, at) => (Number.isFinite(score) ? slider({ name: `score.${which}.${at}`, label: t("heads.jobs.score", { token: names[at] }), min, max, step: STEP, value: toStep(score, STEP) }, (now) => {
        named[at] = now;
        update();
      }).element : null));
      return h("div", { class: "column" }, h("h4", null, state.how === "one" ? t("heads.jobs.row") : title(which)), h("div", { class: "controls" }, sliders), charts[which].element);
    }));
    update();
  }
  const set = (/** @type {"one" | "two"} */ how) => {
    Object.assign(state, { how, scores: fresh(how) });
    rebuild();
  };
  const pickers = heads.map((one, which) => switches(t("own.jobs.wants", { head: title(which) }), keys.flatMap((key, at) => (one.weights[row][key] === null ? [] : [/** @type {const} */ ([String(at), names[at]])])), String(state.wants[which]), (at) => {
    state.wants[which] = Number(at);
    update();
  }));
  fill(place, h("p", { class: "note" }, t("own.jobs")), h("div", { class: "controls" }, pickers),
    h("div", { class: "tools" }, switches(t("heads.jobs.how"), [["one", t("heads.jobs.one")], ["two", t("heads.jobs.two")]], state.how, set), " ",
      h("button", { type: "button", data: { name: "reset" }, onclick: () => set(state.how) }, t("own.jobs.own"))),
    columns,
    h("dl", { class: "facts" }, [
      [t("own.jobs.got", { letter: "A" }), got[0].element], [t("own.jobs.got", { letter: "B" }), got[1].element],
      [t("own.jobs.together"), outputs.together.element], [t("own.jobs.best"), outputs.best.element], [t("own.jobs.real"), outputs.real.element],
    ].map(([words, element]) => h("div", null, h("dt", null, words), h("dd", null, element)))), verdict);
  rebuild();
  return { dispose: () => fill(place) };
};
