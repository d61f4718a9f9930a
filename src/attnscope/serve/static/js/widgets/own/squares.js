// @ts-check
/**
 * Widgets of the teaching sentence, on the reader's: a row under three masks, a window of the
 * square, what arrives, two heads side by side, rows while tokens come, fewer numbers for a key.
 *
 * The idea: the lesson computes all of it from a world of five tokens; here scores, weights and
 * norms are what the model had. Values themselves are in no trace, so where the lesson shows a
 * fetched vector, this shows the lengths that arrive.
 *
 * Not here: rows with sliders (rows.js).
 */

import { fill, h, setStyle } from "../../parts/dom.js";
import { percent, signed, significant } from "../../parts/numbers.js";
import { maskedRow } from "../math/seen.js";
import { squeezedScores } from "../math/squeeze.js";
import { bars, output, slider, switches } from "../parts.js";
import { numbered, rowOf, windowOf } from "./subject.js";

/**
 * @typedef {import("./control.js").OwnMount} OwnMount
 * @typedef {import("./subject.js").Subject} Subject
 * @typedef {import("../parts.js").Say} Say
 * @typedef {import("../math/world.js").Mask} Mask
 */

const WINDOW = 12;
const NAMES = 8;
const LATER = 4; // tokens that the mask hides

/** @param {Say} t @param {Mask} first @param {(mask: Mask) => void} onMask */
function maskSwitch(t, first, onMask) {
  return switches(t("world.mask"), [["none", t("world.mask.none")], ["before", t("world.mask.before")], ["after", t("world.mask.after")]], first, onMask);
}

/** @param {readonly number[]} values */
const sum = (values) => values.reduce((a, b) => a + b, 0);

/** @param {[string, Element][]} rows */
function facts(rows) {
  return h("dl", { class: "facts" }, rows.map(([words, element]) => h("div", null, h("dt", null, words), h("dd", null, element))));
}

/** @param {HTMLElement} place */
const mounted = (place) => ({ dispose: () => fill(place) });

/**
 * A row, with the mask nowhere, before or after the softmax; of two heads where the lesson has two.
 * @type {OwnMount}
 */
export const weights = (place, options, subject, t) => {
  const { handout, row } = subject;
  const heads = subject.other === subject.head ? [subject.head] : [subject.head, subject.other];
  const keys = windowOf(subject, WINDOW, heads.length > 1 ? 0 : LATER);
  const labels = [...keys.map((key) => numbered(handout, key)), t("own.elsewhere")];
  const columns = heads.map((head, at) => {
    const prefix = at ? "other." : "";
    return { head, chart: bars(`${prefix}weight`, labels), sum: output(`${prefix}sum`), future: output(`${prefix}future`) };
  });
  /** @param {Mask} mask */
  function update(mask) {
    for (const { head, chart, sum: all, future } of columns) {
      const found = maskedRow(head, row, mask);
      const rest = sum(found.weights.filter((_, key) => !keys.includes(key))) + found.outside;
      chart.update([...keys.map((key) => found.weights[key]), rest], percent);
      const whole = sum(found.weights) + found.outside;
      all.show(whole, percent(whole));
      const later = sum(found.weights.slice(row + 1));
      future.show(later, percent(later));
    }
  }
  const first = /** @type {Mask} */ (options.mask ?? "before");
  fill(place, h("div", { class: "controls" }, maskSwitch(t, first, update)),
    h("div", { class: "columns-of-bars two" }, columns.map(({ head, chart, sum: all, future }) => h("div", { class: "column" },
      h("h4", null, t("own.head.of", { layer: head.layer, head: head.head })), chart.element,
      h("dl", null, h("dt", null, t("world.sum")), h("dd", null, all.element), h("dt", null, t("world.future")), h("dd", null, future.element))))));
  update(first);
  return mounted(place);
};

/**
 * A window of the square, ending with the token that asks.
 * @type {OwnMount}
 */
export const grid = (place, options, subject, t) => {
  const { handout, head } = subject;
  const keys = windowOf(subject, WINDOW);
  const names = keys.map((key) => numbered(handout, key));
  const score = options.of === "score";
  let mask = /** @type {Mask} */ (options.mask ?? "before");
  const cells = keys.map((i) => keys.map((j) => output(`g.${i}.${j}`)));
  const others = keys.map((i) => output(`g.${i}.rest`));
  const asked = h("p", { class: "fact", "aria-live": "polite", data: { name: "pair" } }, t("world.pick"));
  const sizes = keys.flatMap((i) => keys.map((j) => Math.abs(head.scores[i][j] ?? 0)));
  const largest = Math.max(...sizes, 1e-9);
  /** @param {import("../parts.js").Say} _ */
  function update(_) {
    keys.forEach((i, row) => {
      const found = score ? null : maskedRow(head, i, mask);
      keys.forEach((j, column) => {
        const value = found ? found.weights[j] : head.scores[i][j] ?? NaN;
        const heat = score ? Math.abs(value) / largest : value;
        cells[row][column].show(value, found ? percent(value) : Number.isNaN(value) ? "–" : signed(value, 2));
        setStyle(cells[row][column].element, { "--heat": `${Math.round(100 * (heat || 0))}%` });
        cells[row][column].element.classList.toggle("negative", value < 0);
      });
      if (found) {
        const rest = sum(found.weights.filter((__, key) => !keys.includes(key))) + found.outside;
        others[row].show(rest, percent(rest));
      }
    });
  }
  const pair = (/** @type {number} */ i, /** @type {number} */ j) => {
    asked.textContent = t(`world.pair.${score ? "score" : "weight"}`, { query: names[i], key: names[j], there: String(cells[i][j].element.textContent), back: String(cells[j][i].element.textContent) });
  };
  fill(place,
    score ? h("p", { class: "note" }, t("own.grid.scores")) : h("div", { class: "controls" }, maskSwitch(t, mask, (now) => {
      mask = now;
      update(t);
    })),
    h("div", { class: "scrolling" }, h("table", { class: "heat" },
      h("thead", null, h("tr", null, h("th", null, t("world.corner")), names.map((name) => h("th", { scope: "col", class: "number" }, name)), score ? null : h("th", { scope: "col", class: "number" }, t("own.elsewhere")))),
      h("tbody", null, names.map((name, i) => h("tr", null, h("th", { scope: "row" }, name), cells[i].map((cell, j) =>
        h("td", { class: "number" }, h("button", { type: "button", class: "cell", "aria-label": `${name}, ${names[j]}`, onclick: () => pair(i, j) }, cell.element))),
      score ? null : h("td", { class: "number" }, others[i].element)))))), asked);
  update(t);
  return mounted(place);
};

/**
 * The query against the keys, and what becomes of it when the query grows.
 * @type {OwnMount}
 */
export const pairs = (place, _options, subject, t) => {
  const row = rowOf(subject, WINDOW, t);
  const edge = Math.max(1, ...row.scores.map(Math.abs)) * 2;
  const chart = bars("score", row.names, { low: -edge, high: edge });
  const order = h("p", { class: "fact", data: { name: "order" } });
  /** @param {number} factor */
  function update(factor) {
    const found = row.scores.map((one) => one * factor);
    chart.update(found, (value) => signed(value, 2));
    const sorted = [...found.keys()].sort((a, b) => found[b] - found[a]);
    order.textContent = t("world.order", { order: sorted.map((at) => row.names[at]).join(t("world.and")) });
  }
  fill(place, h("p", { class: "note" }, t("own.pairs.scaled", { scale: significant(subject.head.scale, 3) })),
    h("div", { class: "controls" }, slider({ name: "length", label: t("own.pairs.length"), min: -2, max: 2, step: 0.1, value: 1 }, update).element), chart.element, order);
  update(1);
  return mounted(place);
};

/**
 * What arrives from each key: its weight, the length of its projected value, and both multiplied.
 * @type {OwnMount}
 */
export const mixture = (place, _options, subject, t) => {
  const { handout, head, row } = subject;
  const named = rowOf(subject, NAMES, t);
  const all = head.weights[row].reduce((/** @type {number} */ a, one, key) => a + (one ?? 0) * (head.norms?.[key] ?? NaN), 0) + (head.outside.keys[row] ? head.outside.arrived?.[row] ?? NaN : 0);
  const number = (/** @type {string} */ name, /** @type {number} */ value, /** @type {string} */ text) => {
    const out = output(name);
    out.show(value, Number.isFinite(value) ? text : "–");
    return h("td", { class: "number" }, out.element);
  };
  const line = (/** @type {number} */ key) => {
    const weight = Number(head.weights[row][key]);
    const norm = head.norms?.[key] ?? NaN;
    return h("tr", null, h("th", { scope: "row" }, numbered(handout, key)), number(`weight.${key}`, weight, percent(weight)),
      number(`norm.${key}`, norm, significant(norm, 3)), number(`arrived.${key}`, weight * norm, significant(weight * norm, 3)), number(`share.${key}`, (weight * norm) / all, percent((weight * norm) / all)));
  };
  const shown = sum(named.keys.map((key) => Number(head.weights[row][key])));
  const brought = sum(named.keys.map((key) => Number(head.weights[row][key]) * (head.norms?.[key] ?? NaN)));
  const whole = output("all");
  whole.show(all, Number.isFinite(all) ? significant(all, 3) : "–");
  const rest = named.rest.length ? h("tr", null, h("th", { scope: "row" }, named.restName), number("weight.rest", 1 - shown, percent(1 - shown)), h("td", { class: "number" }, ""),
    number("arrived.rest", all - brought, significant(Math.max(0, all - brought), 3)), number("share.rest", 1 - brought / all, percent(Math.max(0, 1 - brought / all)))) : null;
  fill(place, h("p", { class: "note" }, t(head.norms ? "own.mixture" : "own.no_norms")),
    h("div", { class: "scrolling" }, h("table", null,
      h("thead", null, h("tr", null, ["reading.key", "reading.weight", "own.norm", "own.arrived", "own.share"].map((key, at) => h("th", { scope: "col", class: at ? "number" : null }, t(key))))),
      h("tbody", null, named.keys.map(line), rest))),
    facts([[t("own.size"), whole.element]]));
  return mounted(place);
};

/**
 * Two heads on one row: do they read the same keys, and do they look at the same tokens?
 * @type {OwnMount}
 */
export const share = (place, _options, subject, t) => {
  const { head, other, row } = subject;
  const charts = [head, other].map((one, at) => {
    const found = rowOf({ ...subject, head: one, other: one }, NAMES, t);
    const letter = "AB"[at];
    const chart = bars(`weight.${letter}`, found.rest.length ? [...found.names, found.restName] : found.names);
    const seen = found.keys.map((key) => Number(one.weights[row][key]));
    chart.update(found.rest.length ? [...seen, 1 - sum(seen)] : seen, percent);
    const group = output(`group.${letter}`);
    group.show(one.kv_head, String(one.kv_head));
    return h("div", { class: "column" }, h("h4", null, t("own.head.of", { layer: one.layer, head: one.head })), chart.element,
      h("dl", null, h("dt", null, t("own.share.group")), h("dd", null, group.element)));
  });
  const overlap = output("overlap");
  const common = sum(head.weights[row].map((one, key) => Math.min(one ?? 0, other.weights[row][key] ?? 0)));
  overlap.show(common, percent(common));
  const same = head.layer === other.layer && head.kv_head === other.kv_head;
  fill(place, h("div", { class: "columns-of-bars two" }, charts), facts([[t("own.share.overlap"), overlap.element]]),
    h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } }, t(same ? "own.share.same" : "own.share.apart")));
  return mounted(place);
};

/**
 * Tokens come one by one: do the rows of the earlier ones move?
 * @type {OwnMount}
 */
export const still = (place, _options, { handout, head }, t) => {
  const n = handout.names.length;
  const state = { tokens: n, mask: /** @type {"none" | "before"} */ ("before") };
  const table = h("tbody", null);
  const worst = output("moved");
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  function update() {
    const moves = Array.from({ length: state.tokens - 1 }, (_, row) => {
      const [before, now] = [state.tokens - 1, state.tokens].map((tokens) => maskedRow(head, row, state.mask, tokens));
      return Math.max(Math.abs(now.outside - before.outside), ...before.weights.map((one, key) => Math.abs(one - now.weights[key])));
    });
    const most = Math.max(0, ...moves);
    const first = Math.max(0, state.tokens - WINDOW);
    fill(table, Array.from({ length: state.tokens - first }, (_, at) => {
      const row = first + at;
      const cell = output(`moved.${row}`);
      const fresh = row >= moves.length;
      if (!fresh) cell.show(moves[row], significant(moves[row], 2));
      return h("tr", null, h("th", { scope: "row" }, numbered(handout, row)), h("td", { class: "number" }, fresh ? t("still.new") : cell.element));
    }));
    worst.show(most, significant(most, 2));
    verdict.textContent = t(most === 0 ? "still.none" : "still.some", { token: handout.names[state.tokens - 1] });
    verdict.classList.toggle("good", most === 0);
    verdict.classList.toggle("bad", most > 0);
  }
  const length = n > 1 ? slider({ name: "tokens", label: t("still.tokens"), min: 2, max: n, step: 1, value: n }, (now) => {
    state.tokens = Math.round(now);
    update();
  }).element : null;
  fill(place, h("div", { class: "controls" }, length, switches(t("world.mask"), [["before", t("world.mask.before")], ["none", t("world.mask.none")]], "before", (mask) => {
    state.mask = mask;
    update();
  })), h("p", { class: "note" }, t("own.still")),
  h("div", { class: "scrolling" }, h("table", null, h("thead", null, h("tr", null, h("th", { scope: "col" }, t("still.row")), h("th", { scope: "col", class: "number" }, t("own.still.moved")))), table)),
  facts([[t("still.worst"), worst.element]]), verdict);
  update();
  return mounted(place);
};

/**
 * Fewer numbers for a key than the head has: the best that any table could keep for this text.
 * @type {OwnMount}
 */
export const squeeze = (place, options, subject, t) => {
  const { handout, head, row } = subject;
  const n = handout.names.length;
  const named = rowOf(subject, NAMES, t);
  const labels = [...named.names, t("own.elsewhere")];
  const charts = { real: bars("weight", labels), made: bars("made", labels) };
  const outputs = { kept: output("kept"), off: output("off") };
  const shown = (/** @type {readonly number[]} */ found) => {
    const seen = named.keys.map((key) => found[key]);
    return [...seen, 1 - sum(seen)];
  };
  /** @param {number} numbers */
  function update(numbers) {
    const made = squeezedScores(head, numbers);
    const rows = made.map((_, query) => maskedRow({ ...head, scores: made }, query, "before"));
    charts.real.update(shown(maskedRow(head, row, "before").weights), percent);
    charts.made.update(shown(rows[row].weights), percent);
    const off = Math.max(...rows.flatMap((found, query) => found.weights.map((one, key) => Math.abs(one - (head.weights[query][key] ?? 0)))));
    outputs.kept.show(numbers, `${numbers}`);
    outputs.off.show(off, percent(off));
  }
  const first = Math.min(n, Number(options.numbers ?? 4));
  fill(place, h("p", { class: "note" }, t("own.squeeze")),
    h("div", { class: "controls" }, slider({ name: "numbers", label: t("squeeze.numbers"), min: 1, max: n, step: 1, value: first }, (now) => update(Math.round(now))).element),
    h("div", { class: "columns-of-bars two" }, /** @type {const} */ (["real", "made"]).map((name) => h("div", { class: "column" }, h("h4", null, t(`own.squeeze.${name}`)), charts[name].element))),
    facts([[t("own.squeeze.kept"), outputs.kept.element], [t("own.squeeze.off"), outputs.off.element]]));
  update(first);
  return mounted(place);
};
