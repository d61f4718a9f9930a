// @ts-check
/**
 * The planner's answer as tables: what it takes, what fits, what engines allocate, how it comes about.
 *
 * The idea: a column for each model. Every number is a button that opens its formula; nothing is
 * computed here. What the planner says in words (kinds, formulas, notes) goes through `w`.
 *
 * Not here: the picture (plot.js), the cards (numeral.js).
 */

import { h } from "../parts/dom.js";
import { count } from "../parts/numbers.js";

/**
 * @typedef {import("./types.js").Answer} Answer
 * @typedef {import("./types.js").Model} Model
 * @typedef {import("./types.js").Numeral} Numeral
 * @typedef {import("./types.js").Fit} Fit
 * @typedef {import("../widgets/parts.js").Say} Say
 * @typedef {ReturnType<typeof import("./numeral.js").numerals>["show"]} Show
 * @typedef {{t: Say, w: import("./words.js").Words, show: Show}} Tools
 */

/** The rows of the table of FLOPs, as far as a model has them. */
const FLOPS = [
  "prefill", "prefill_dense", "decode_step", "decode_expanded", "decode_reexpansion", "indexer_prefill",
  "indexer_decode", "recurrence_prefill", "recurrence_decode", "decode_bytes", "intensity",
];

/**
 * @param {Answer} answer
 * @param {Tools} tools
 * @returns {(HTMLElement | null)[]}
 */
export function sections(answer, tools) {
  const { t, w } = tools;
  const { models } = answer;
  const part = (/** @type {string} */ name, /** @type {(HTMLElement | null)[]} */ ...children) =>
    h("section", { class: "part", data: { part: name } }, h("h2", { id: name }, t(`planner.${name}`)), children);
  return [
    part("schemes", note(t("planner.schemes.about")), schemes(answer, tools)),
    part("fits", ...models.map((one) => (one.weights_unknown ? note(w(one.weights_unknown)) : null)), devices(models, tools)),
    part("engines", note(t("planner.engines.about")), engines(models, tools)),
    part("layers", ...models.map((one) => layers(one, models.length > 1, tools))),
    part("formats", formats(models, tools)),
    part("flops", flops(answer, tools)),
    models.some((one) => one.weighed) ? part("weighed", note(t("planner.weighed.about")), ...models.map((one, at) => weighed(one, at, tools))) : null,
    models.some((one) => one.notes.length) ? part("notes", notes(models, tools)) : null,
  ];
}

/**
 * One model in a few lines: who it is and what it takes.
 * @param {Model} model
 * @param {number} at
 * @param {Answer} answer
 * @param {Tools} tools
 */
export function headline(model, at, { asked }, { t, w, show }) {
  const { cache } = model;
  const beyond = model.context_limit !== null && asked.context > model.context_limit;
  const own = model.context_limit === null ? null : t("planner.limit", { tokens: count(model.context_limit) });
  const fact = (/** @type {string} */ key, /** @type {(Node | string | null)[]} */ ...what) => h("div", null, h("dt", null, t(key)), h("dd", null, what));
  const number = (/** @type {string} */ key, /** @type {Numeral} */ value) => show(t(key), value, { name: `${key.slice(8)}.${at}` });
  return h("article", { class: "headline", data: { model: model.name } },
    h("h2", null, model.name),
    h("p", { class: "who" }, [model.architecture, t("planner.layers.count", { count: model.layers }), t("planner.width", { width: count(model.width) }), own].filter(Boolean).join(" · ")),
    beyond ? h("p", { class: "beyond", role: "status" }, t("planner.beyond", { what: w(model.notes[0]) })) : null,
    model.assumed.map((one) => h("p", { class: "assumed" }, t("planner.assumed", { what: w(one) }))),
    h("p", { class: "total" }, show(t("planner.total"), cache.total, { name: `total.${at}`, short: true }),
      h("span", null, t("planner.total.of", { tokens: count(asked.context), batch: count(asked.batch), format: model.kv_dtype }))),
    h("dl", { class: "facts" },
      fact("planner.bytes", number("planner.bytes", cache.total)),
      fact("planner.per_token", number("planner.per_token", cache.per_token)),
      cache.within.value === cache.per_token.value ? null : fact("planner.within", number("planner.within", cache.within)),
      cache.capped.value ? fact("planner.capped", number("planner.capped", cache.capped)) : null,
      cache.fixed.value ? fact("planner.fixed", number("planner.fixed", cache.fixed)) : null,
      asked.batch > 1 ? fact("planner.sequence", number("planner.sequence", cache.sequence)) : null,
      fact("planner.weights.of", model.weights ? number("planner.weights.of", model.weights) : t("planner.unknown")),
      model.fit ? fact("planner.fit", ...fits(model.fit, `fit.${at}`, { t, w, show })) : null));
}

/** A largest context, and what holds it back. @param {Fit | null} fit @param {string} name @param {Tools} tools @returns {Node[]} */
function fits(fit, name, { t, show }) {
  if (!fit) return [document.createTextNode("–")];
  const beyond = fit.limit !== null && (fit.value === null || Number(fit.value) > fit.limit);
  const why = fit.why ? t(`planner.fit.${fit.why}`) : beyond ? t("planner.fit.beyond", { tokens: count(fit.limit) }) : "";
  return [show(t("planner.fit"), fit, { name }), ...(why ? [h("small", null, ` ${why}`)] : [])];
}

/**
 * @param {string} label
 * @param {(string | null)[]} head   a column without a name is set as a number's
 * @param {(Node | string | null | Node[])[][]} rows
 * @param {number} [words]           columns of words, at the left
 */
function table(label, head, rows, words = 1) {
  const numeric = (/** @type {number} */ at) => (at >= words ? "number" : null);
  return h("div", { class: "scrolling", role: "region", "aria-label": label },
    h("table", null, h("thead", null, h("tr", null, head.map((one, at) => h("th", { scope: "col", class: numeric(at) }, one)))),
      h("tbody", null, rows.map((row) => h("tr", null, row.map((cell, at) =>
        (at === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: numeric(at) }, cell))))))));
}

/** What of whom. @param {string} name @param {string} what @param {Say} t */
function ofWhom(name, what, t) {
  return t("planner.named", { name, what });
}

/** @param {string} text */
function note(text) {
  return h("p", { class: "note" }, text);
}

/** @param {Answer} answer @param {Tools} tools */
function schemes({ models, asked }, { t, w, show }) {
  const rows = models.flatMap((model, at) => (at ? model.schemes.slice(0, 1) : model.schemes).map((one, number) => [
    models.length > 1 && !number ? ofWhom(model.name, w(one.scheme), t) : w(one.scheme),
    show(ofWhom(w(one.scheme), t("planner.per_token"), t), one.per_token, { name: `scheme.${at}.${number}.per_token` }),
    show(ofWhom(w(one.scheme), t("planner.total"), t), one.total, { name: `scheme.${at}.${number}.total` }),
    one.total.text,
    at ? "" : `${one.times}×`,
    ...(asked.room ? [fits(one.fit, `scheme.${at}.${number}.fit`, { t, w, show })] : []),
  ]));
  return table(t("planner.schemes"), [t("planner.scheme"), t("planner.per_token"), t("planner.total"), "", "", ...(asked.room ? [t("planner.fit.in", { room: asked.room })] : [])], rows);
}

/** What fits on each device. @param {Model[]} models @param {Tools} tools */
function devices(models, tools) {
  const { t, show } = tools;
  const rows = models[0].devices.map(({ device, memory }, row) => [
    device,
    show(ofWhom(device, t("planner.memory"), t), memory, { name: `memory.${device}`, short: true }),
    ...models.map((model, at) => fits(model.devices[row].fit, `fit.${device}.${at}`, tools)),
  ]);
  return table(t("planner.fits"), [t("planner.device"), t("planner.memory"), ...models.map((one) => (models.length > 1 ? ofWhom(one.name, t("planner.fit"), t) : t("planner.fit")))], rows);
}

/** @param {Model[]} models @param {Tools} tools */
function engines(models, { t, w, show }) {
  const rows = models[0].engines.map((first, row) => [
    first.engine,
    h("small", null, w(first.version), h("br"), t(`planner.evidence.${first.evidence}`)),
    ...models.flatMap((model, at) => {
      const one = model.engines[row];
      if (!one.total) return [h("small", { class: "reason" }, w(one.reason)), "–"];
      return [show(`${one.engine}, ${model.name}`, one.total, { name: `engine.${one.engine}.${at}` }), `${one.times}×`];
    }),
  ]);
  return table(t("planner.engines"), [t("planner.engine"), t("planner.engine.version"), ...models.flatMap((one) => [models.length > 1 ? one.name : t("planner.engine.allocates"), ""])], rows, 2);
}

/** Sorts of layers; a number opens what one of them keeps. @param {Model} model @param {boolean} named @param {Tools} tools */
function layers(model, named, { t, w, show }) {
  const rows = model.groups.map((one, at) => [
    h("span", { title: one.numbers.join(", ") }, w(one.layers)),
    h("span", { title: one.kind }, w(one.kind)),
    one.window === null ? "–" : count(one.window),
    show(ofWhom(w(one.kind), t("planner.per_token"), t), one.per_token, { name: `group.${at}.per_token` }),
    show(ofWhom(w(one.kind), t("planner.capped"), t), one.capped, { name: `group.${at}.capped` }),
    show(ofWhom(w(one.kind), t("planner.fixed"), t), one.fixed, { name: `group.${at}.fixed` }),
  ]);
  const made = table(ofWhom(t("planner.layers"), model.name, t), [t("planner.layers.which"), t("planner.kind"), t("planner.window"), t("planner.per_token"), t("planner.capped"), t("planner.fixed")], rows, 2);
  return h("div", null, named ? h("h3", null, model.name) : null, made);
}

/** @param {Model[]} models @param {Tools} tools */
function formats(models, { t, show }) {
  const rows = models[0].formats.map(({ format }, row) => [
    h("code", null, format),
    ...models.flatMap((model, at) => {
      const { per_token: each, total } = model.formats[row];
      return [show(ofWhom(`${format}, ${model.name}`, t("planner.per_token"), t), each, { name: `format.${format}.${at}.per_token` }), show(`${format}, ${model.name}`, total, { name: `format.${format}.${at}` }), total.text];
    }),
  ]);
  return table(t("planner.formats"), [t("planner.format"), ...models.flatMap((one) => [models.length > 1 ? ofWhom(one.name, t("planner.per_token"), t) : t("planner.per_token"), models.length > 1 ? one.name : t("planner.total"), ""])], rows);
}

/** What real tensors weigh, beside the plan. @param {Model} model @param {number} at @param {Tools} tools */
function weighed(model, at, { t, show }) {
  if (!model.weighed) return note(t("planner.weighed.not", { model: model.name }));
  const rows = model.weighed.rows.map(({ tokens, measured, planned }) => [
    t("planner.tokens", { tokens: count(tokens) }),
    show(ofWhom(model.name, t("planner.weighed.tensors"), t), measured, { name: `weighed.${at}.${tokens}` }),
    show(ofWhom(model.name, t("planner.weighed.planned"), t), planned, { name: `planned.${at}.${tokens}` }),
  ]);
  return table(ofWhom(t("planner.weighed"), model.name, t), [model.name, t("planner.weighed.tensors"), t("planner.weighed.planned")], rows);
}

/** @param {Answer} answer @param {Tools} tools */
function flops({ models, asked }, { t, show }) {
  const there = new Set(models.flatMap((one) => one.flops.map(({ what }) => what)));
  const whats = FLOPS.filter((one) => there.has(one));
  const rows = whats.map((what) => [
    t(`planner.flops.${what}`),
    ...models.flatMap((model, at) => {
      const found = model.flops.find((one) => one.what === what);
      if (!found) return ["–", ""];
      const { number } = found;
      return [show(t(`planner.flops.${what}`), number, { name: `flops.${what}.${at}` }), number.exact.startsWith(number.text) ? "" : number.text];
    }),
  ]);
  const made = table(t("planner.flops"), [t("planner.flops.of", { tokens: count(asked.context) }), ...models.flatMap((one) => [models.length > 1 ? one.name : "FLOPs", ""])], rows);
  const bounds = models.map((model, at) => {
    if (!model.device || !asked.device) return null;
    return h("p", { class: "note" }, models.length > 1 ? ofWhom(model.name, "", t) : null, ofWhom(asked.device, "", t),
      t("planner.peak"), " ", show(t("planner.peak"), model.device.peak, { name: `peak.${at}`, short: true }), t("planner.comma"),
      t("planner.bandwidth"), " ", show(t("planner.bandwidth"), model.device.bandwidth, { name: `bandwidth.${at}`, short: true }), t("planner.comma"),
      t("planner.ridge"), " ", show(t("planner.ridge"), model.device.ridge, { name: `ridge.${at}` }), t("planner.stop"),
      t(`planner.bound.${model.device.bound}`), t("planner.stop"),
      t("planner.reads"), " ", show(t("planner.reads"), model.device.reads, { name: `reads.${at}` }), t("planner.stop"));
  });
  return h("div", null, made, bounds);
}

/** @param {Model[]} models @param {Tools} tools */
function notes(models, { t, w }) {
  const said = models.flatMap((model) => model.notes.map((one) => (models.length > 1 ? ofWhom(model.name, w(one), t) : w(one))));
  return h("ul", null, said.map((one) => h("li", null, one)));
}
