// @ts-check
/**
 * Where a reader chooses what a widget is run on: a text, a layer, a head, a token that asks.
 *
 * The idea: native controls alone, so the keyboard and screen readers need no code of ours. A page
 * with a server lists its texts and captures new ones; every page opens a handout's file, chosen or
 * dropped. Whatever goes wrong is a sentence, and what the widget showed stays.
 *
 * Not here: the button and the switch of the widget (control.js), what was chosen (state.js).
 */

import { fill, h } from "../../parts/dom.js";
import { SourceError, isAbort } from "../../source/errors.js";
import { captureForm } from "./capture.js";
import { HandoutError, MOST_BYTES, MOST_TOKENS } from "./handout.js";
import { choice, choose, forget } from "./state.js";
import { firstHead } from "./source.js";
import { hiddenFrom, numbered } from "./subject.js";
import { openText } from "./texts.js";

/**
 * @typedef {import("./subject.js").Subject} Subject
 * @typedef {import("./texts.js").Text} Text
 * @typedef {import("./state.js").Choice} Choice
 * @typedef {object} Needs
 * @property {boolean} row     whether a token must be chosen
 * @property {boolean} [two]   whether two heads are compared
 * @property {boolean} [apart] whether they must not be one and the same
 * @property {number} [least]  keys that the row must see
 * @property {number} [near]   keys that it must see among the tokens here
 * @property {boolean} [hides] whether the row must hide a token that is here
 * @property {boolean} [rotary]      whether it must be known how the head's queries and keys were turned
 * @property {boolean} [embeddings]  whether the embeddings are all that is looked at: no head
 */

const FILE = "file";
const AFTER = 4;

/**
 * @param {{t: import("../parts.js").Say, source: import("./source.js").Source | null, needs: Needs, onSubject: (subject: Subject) => void}} about
 */
export function ownPanel({ t, source, needs, onSubject }) {
  /** @type {Text | null} */
  let text = null;
  /** @type {AbortController | null} */
  let control = null;
  /** @type {Choice | null} */
  let shown = null;
  /** What is asked for, also while it is on its way: who changes two fields quickly gets both. @type {Partial<Choice>} */
  let wanted = {};
  const fault = h("p", { class: "fault", role: "alert" });
  const select = (/** @type {string} */ name, /** @type {() => void} */ onchange) => h("select", { data: { name: `own.${name}` }, onchange });
  const fields = {
    trace: select("trace", () => fields.trace.value !== FILE && fields.trace.value !== "" && open({ from: { kind: "trace", id: fields.trace.value, start: 0 } })),
    layer: select("layer", () => again({ layer: Number(fields.layer.value), head: -1 })),
    head: select("head", () => again({ head: Number(fields.head.value) })),
    other: select("other", () => {
      const [layer, head] = fields.other.value.split(".").map(Number);
      again({ other: { layer, head } });
    }),
    row: select("row", () => again({ row: Number(fields.row.value) })),
  };
  const start = h("input", { type: "number", min: 1, step: 1, data: { name: "own.start" }, onchange: () => {
    const from = text?.from;
    const at = start.valueAsNumber - 1;
    if (from?.kind !== "trace" || !text?.starts || !Number.isInteger(at)) return;
    const held = Math.min(text.starts.count - 1, Math.max(text.starts.least, at));
    open({ ...wanted, from: { ...from, start: held }, row: MOST_TOKENS - 1 });
  } });
  const label = (/** @type {string} */ key, /** @type {HTMLElement} */ field) => h("label", null, h("span", null, t(key)), field);
  const labels = {
    layer: label("own.layer", fields.layer), head: label("own.head", fields.head), other: label("own.other", fields.other),
    start: label("own.start", start), row: label("own.row", fields.row),
  };
  const heads = h("div", { class: "own-fields", hidden: true }, Object.values(labels));
  const file = h("input", { type: "file", accept: ".json,application/json", data: { name: "own.file" }, onchange: () => {
    const [given] = file.files ?? [];
    if (given) take(given);
    file.value = "";
  } });
  const capture = source ? captureForm(source, t, async (entry) => {
    await list(entry.id);
    open({ from: { kind: "trace", id: entry.id, start: 0 } });
  }) : null;

  /** @param {Partial<Choice>} change */
  function again(change) {
    if (text) open({ ...wanted, ...change, from: text.from });
  }
  /** @param {Partial<Choice> & {from: Choice["from"]}} want */
  async function open(want) {
    control?.abort();
    const mine = (control = new AbortController());
    wanted = want;
    try {
      const found = sameText(text, want.from) ? /** @type {Text} */ (text) : await openText(want.from, source);
      const at = headOf(found, want.layer, want.head);
      const other = needs.two || (want.other && has(found, want.other)) ? headOf(found, want.other?.layer, want.other?.head, at) : at;
      const handout = await found.heads(needs.two ? [at, other] : [at], mine.signal);
      if (mine.signal.aborted) return;
      const [head] = handout.heads;
      const second = needs.two ? handout.heads[1] ?? head : head;
      const rows = rowsOf([head, second], needs);
      if (!rows.length) throw new HandoutError(needs.hides ? "own.fault.hides" : "own.fault.no_row", { least: needs.near ?? needs.least ?? 1 });
      // Where something must be hidden, a few tokens stand behind the one that asks.
      const row = rows.includes(want.row ?? -1) ? Number(want.row) : rows[Math.max(0, rows.length - (needs.hides ? AFTER : 1))];
      const lacks = lackOf(handout, [head, second], needs);
      text = found;
      fault.textContent = lacks ? t(lacks, { layer: head.layer, head: head.head }) : "";
      const now = { from: found.from, model: found.model, ...at, other, row };
      wanted = now;
      choose(now);
      show(handout, { at, other, rows, row });
      if (lacks) return; // another head may have it, so the fields stand open
      shown = now;
      onSubject({ handout, head, other: second, row });
    } catch (error) {
      if (isAbort(error) || mine.signal.aborted) return;
      fault.textContent = sentence(error, t);
      wanted = shown ?? {};
      if (error instanceof SourceError && error.status === 404) forget();
    }
  }
  /**
   * @param {import("./handout.js").Handout} handout
   * @param {{at: {layer: number, head: number}, other: {layer: number, head: number}, rows: number[], row: number}} now
   */
  function show(handout, { at, other, rows, row }) {
    const { layers, starts, from } = /** @type {Text} */ (text);
    const kind = (/** @type {string} */ one) => t(KINDS.has(one) ? `kind.${one}` : "kind.unknown");
    const options = (/** @type {HTMLSelectElement} */ field, /** @type {[string, string][]} */ list, /** @type {string} */ value) => {
      fill(field, list.map(([each, words]) => h("option", { value: each }, words)));
      field.value = value;
    };
    options(fields.layer, layers.map((one) => [String(one.index), `${one.index} ${ATTENTION.has(one.kind) ? t(`own.layer.${one.kind}`) : one.kind}`]), String(at.layer));
    const here = layers.find((one) => one.index === at.layer);
    options(fields.head, (here?.heads ?? []).map((one) => [String(one.head), `${one.head} ${kind(one.kind)}`]), String(at.head));
    if (needs.two) options(fields.other, layers.flatMap((one) => one.heads.map((each) => /** @type {[string, string]} */ ([`${one.index}.${each.head}`, `${one.index}.${each.head} ${kind(each.kind)}`]))), `${other.layer}.${other.head}`);
    options(fields.row, rows.map((one) => [String(one), numbered(handout, one)]), String(row));
    labels.layer.hidden = labels.head.hidden = needs.embeddings === true;
    labels.other.hidden = !needs.two;
    labels.row.hidden = !needs.row;
    labels.start.hidden = !starts || starts.count <= MOST_TOKENS;
    if (starts) {
      start.min = String(starts.least + 1);
      start.max = String(starts.count);
      start.value = String(handout.start + 1);
    }
    heads.hidden = false;
    if (from.kind === "file" && ![...fields.trace.options].some((one) => one.value === FILE)) {
      fields.trace.append(h("option", { value: FILE }, t("own.from_file")));
    }
    fields.trace.value = from.kind === "file" ? FILE : from.id;
  }
  /** @param {File} given */
  async function take(given) {
    if (given.size > MOST_BYTES) {
      fault.textContent = t("own.fault.large", { most: MOST_BYTES / 2 ** 20 });
      return;
    }
    let read;
    try {
      read = await given.text();
    } catch {
      fault.textContent = t("own.fault.unreadable");
      return;
    }
    open({ from: { kind: "file", text: read } });
  }
  /** @param {string} [wanted] */
  async function list(wanted = "") {
    if (!source) return;
    try {
      const [traces] = await Promise.all([source.traces(), capture?.list()]);
      fill(fields.trace, h("option", { value: "" }, t(traces.length ? "own.choose" : "own.none")),
        traces.map((one) => h("option", { value: one.id }, t("own.trace", { name: one.name, count: one.tokens }))));
      fields.trace.value = wanted;
    } catch (error) {
      fault.textContent = sentence(error, t);
    }
  }
  const element = h("div", { class: "own-panel", hidden: true,
    ondragover: (/** @type {DragEvent} */ event) => {
      event.preventDefault();
      element.classList.add("over");
    },
    ondragleave: () => element.classList.remove("over"),
    ondrop: (/** @type {DragEvent} */ event) => {
      event.preventDefault();
      element.classList.remove("over");
      const [given] = event.dataTransfer?.files ?? [];
      if (given) take(given);
    } },
  source ? h("div", { class: "own-fields" }, label("own.text", fields.trace)) : null,
  capture ? h("details", null, h("summary", null, t("own.type")), capture.element) : null,
  h("div", { class: "own-file" }, h("label", null, h("span", null, t("own.open_file")), file),
    h("p", { class: "note" }, t("own.file.how"), " ", h("code", null, `attnscope look "${t("own.example")}" --handout mine.json`))),
  fault, heads);
  let listed = false;
  return {
    element,
    /**
     * Shows itself, asks at the first time which texts there are, and opens the one that was chosen.
     * @param {boolean} mounted   whether the widget stands on the reader's text already
     */
    open: async (mounted) => {
      element.hidden = false;
      if (!listed) await list();
      listed = true;
      const known = choice();
      if (known && !(mounted && known === shown)) await open(known);
    },
  };
}

const ATTENTION = new Set(["full", "sliding", "chunked"]);
const KINDS = new Set(["previous-token", "induction", "sink", "local", "uniform", "mixed"]);

/** @param {Text | null} text @param {Choice["from"]} from */
function sameText(text, from) {
  return text !== null && JSON.stringify(text.from) === JSON.stringify(from);
}

/** @param {Text} text @param {{layer: number, head: number}} at */
function has(text, at) {
  return text.layers.some((one) => one.index === at.layer && one.heads.some((each) => each.head === at.head));
}

/**
 * A head that is there: the one that is wanted, or the one of its layer or of all that says most.
 * @param {Text} text
 * @param {number} [layer]
 * @param {number} [head]
 * @param {{layer: number, head: number}} [but]   not this one, if there is another
 * @returns {{layer: number, head: number}}
 */
function headOf(text, layer = -1, head = -1, but) {
  if (has(text, { layer, head }) && !(but && but.layer === layer && but.head === head)) return { layer, head };
  const all = text.layers.flatMap((one) => one.heads.map((each) => ({ layer: one.index, ...each })));
  const rest = all.filter((one) => !(but && one.layer === but.layer && one.head === but.head));
  if (layer < 0 && !but) return text.first;
  const near = rest.filter((one) => one.layer === (but ? but.layer : layer));
  const found = firstHead(near.length ? near : rest.length ? rest : all);
  return { layer: found.layer, head: found.head };
}

/** @param {readonly import("./handout.js").Head[]} both @param {Needs} needs @returns {number[]} the tokens that may ask */
function rowsOf([head, other], { least = 1, near = 1, hides = false, embeddings = false }) {
  return [...head.weights.keys()].filter((row) => {
    const [here, there] = [head, other].map((one) => one.weights[row].filter((weight) => weight !== null).length);
    return embeddings || (here >= near && there > 0 && here + (head.outside.keys[row] > 0 ? 1 : 0) >= least && (!hides || hiddenFrom(head, row) !== null));
  });
}

/**
 * What a text or a head does not have and a widget needs: the key of a sentence.
 * @param {import("./handout.js").Handout} handout
 * @param {readonly import("./handout.js").Head[]} both
 * @param {Needs} needs
 * @returns {string | null}
 */
function lackOf(handout, [head, other], needs) {
  const old = (/** @type {unknown} */ value) => (value === undefined ? "old" : "none");
  if (needs.embeddings && !handout.embeddings) return `own.fault.embeddings.${old(handout.embeddings)}`;
  if (needs.rotary && !head.rotary) return `own.fault.rotary.${old(head.rotary)}`;
  if (needs.rotary && head.biased) return "own.fault.rotary.biased";
  return needs.apart && head === other ? "own.fault.one_head" : null;
}

/** @param {unknown} error @param {import("../parts.js").Say} t @returns {string} */
function sentence(error, t) {
  if (error instanceof HandoutError) return t(error.key, error.values);
  if (error instanceof SourceError && error.code !== "refused") return t("own.fault.offline");
  return error instanceof Error ? error.message : String(error);
}
