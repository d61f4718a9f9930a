// @ts-check
/**
 * Reads a handout: heads of a captured text as attnscope writes them (docs/handout.md).
 *
 * The idea: a file is a stranger's. Every field has a kind and a range here, what is not asked for
 * is dropped, and the weights must be the softmax of the scores; so a widget that gets a handout
 * can rest on it, and a reader whose file is not one hears which field is wrong.
 *
 * Not here: where a handout comes from (source.js, panel.js), what widgets make of it.
 */

import { addedLabels } from "../../parts/labels.js";
import { capped } from "../math/places.js";
import { dot } from "../math/softmax.js";

export const SCHEMA = "attnscope.head/1";
export const MOST_BYTES = 16 * 2 ** 20;
export const MOST_TOKENS = 64;
export const MOST_HEADS = 16;
const MOST_LAYERS = 1024;
const MOST_LINES = 65536;
const MOST_LABEL = 4096;
const MOST_WIDTH = 4096;
const ROUNDING = 1e-5;
/** Between scores and the products they are made of, for the longest of them. */
const DIGITS = 1e-6;

/**
 * @typedef {object} Outside
 * @property {number[]} keys          how many keys each row sees beyond the tokens here
 * @property {(number | null)[]} logsumexp
 * @property {number[]} weights
 * @property {number[] | null} arrived
 * @typedef {object} Rotary
 * @property {number[]} turns   angle per position of each pair (m, m + r/2); none where nothing is turned
 * @property {number[][]} q     the query of each token, behind positions
 * @property {number[][]} k
 * @typedef {{norms: number[], cosines: (number | null)[][]}} Embeddings   null with one of length 0
 * @typedef {object} Head
 * @property {number} layer
 * @property {number} head
 * @property {number} kv_head
 * @property {string} kind
 * @property {string} attention
 * @property {boolean} causal
 * @property {number | null} window
 * @property {number} scale
 * @property {number | null} softcap
 * @property {number | null} sink
 * @property {(number | null)[][]} scores    every pair; null where it is minus infinity
 * @property {(number | null)[][]} weights   null where the pair is out of sight
 * @property {number[] | null} norms
 * @property {Outside} outside
 * @property {number[]} sink_weights
 * @property {Rotary | null | undefined} rotary   null where it is not known; undefined in older files
 * @property {boolean} biased   whether the scores are not made of these queries and keys alone
 * @typedef {{layer: number, head: number, kind: string, share: number, first: number | null}} Line
 * @typedef {object} Handout
 * @property {string} model
 * @property {number} count     tokens of the whole text
 * @property {number} start     the first one here
 * @property {string[]} names   what each token here is called
 * @property {string[]} words   what each token adds to the text before it; "" for a further piece
 * @property {Head[]} heads
 * @property {Line[]} all       every head of the trace, on the whole text
 * @property {Embeddings | null | undefined} embeddings   null where the capture has none; undefined in older files
 */

/** What is wrong with a file: the key of a sentence, and what it names. */
export class HandoutError extends Error {
  /** @param {string} key @param {Record<string, string | number>} [values] */
  constructor(key, values = {}) {
    super(key);
    this.name = "HandoutError";
    this.key = key;
    this.values = values;
  }
}

/**
 * @param {string} text
 * @returns {Handout}
 */
export function readHandout(text) {
  if (text.length > MOST_BYTES) throw new HandoutError("own.fault.large", { most: MOST_BYTES / 2 ** 20 });
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new HandoutError("own.fault.json");
  }
  return checked(value);
}

/**
 * The same of a value that is parsed already.
 * @param {any} value
 * @returns {Handout}
 */
export function checked(value) {
  const schema = isObject(value) ? value.schema : undefined;
  if (typeof schema !== "string" || !schema.startsWith("attnscope.head/")) throw new HandoutError("own.fault.foreign");
  if (schema !== SCHEMA) throw new HandoutError("own.fault.version", { schema: schema.slice(0, 40) });
  const tokens = value.tokens;
  need(isObject(tokens) && Array.isArray(tokens.labels), "tokens");
  const n = tokens.labels.length;
  need(n >= 1 && n <= MOST_TOKENS && tokens.labels.every(isLabel), "tokens.labels");
  need(isCount(tokens.count) && isCount(tokens.start) && tokens.start + n <= tokens.count, "tokens.start");
  need(isList(tokens.spans, n, (/** @type {any} */ one) => isList(one, 2, isCount) && one[0] <= one[1]), "tokens.spans");
  need(isLabel(value.model), "model");
  need(Array.isArray(value.heads) && value.heads.length >= 1 && value.heads.length <= MOST_HEADS, "heads");
  need(Array.isArray(value.all) && value.all.length <= MOST_LINES && value.all.every(isLine), "all");
  return {
    model: value.model,
    count: tokens.count,
    start: tokens.start,
    names: namesOf(tokens.labels, tokens.spans),
    words: addedLabels({
      labels: tokens.labels,
      start: tokens.spans.map((/** @type {number[]} */ one) => one[0]),
      end: tokens.spans.map((/** @type {number[]} */ one) => one[1]),
    }),
    heads: value.heads.map((/** @type {any} */ one, /** @type {number} */ at) => headOf(one, n, `heads[${at}]`)),
    all: value.all.map((/** @type {Line} */ { layer, head, kind, share, first }) => ({ layer, head, kind, share, first })),
    embeddings: embeddingsOf(value.embeddings, n),
  };
}

/**
 * @param {any} given
 * @param {number} n
 * @param {string} where
 * @returns {Head}
 */
function headOf(given, n, where) {
  const check = (/** @type {boolean} */ good, /** @type {string} */ field) => need(good, `${where}.${field}`);
  need(isObject(given), where);
  for (const field of ["layer", "head", "kv_head"]) check(isCount(given[field]), field);
  for (const field of ["kind", "attention"]) check(isWord(given[field]), field);
  check(typeof given.causal === "boolean", "causal");
  check(given.window === null || (isCount(given.window) && given.window > 0), "window");
  check(isNumber(given.scale), "scale");
  check(given.softcap === null || (isNumber(given.softcap) && given.softcap > 0), "softcap");
  check(given.sink === null || isNumber(given.sink), "sink");
  check(isSquare(given.scores, n, isMaybe), "scores");
  check(isSquare(given.weights, n, (/** @type {unknown} */ one) => one === null || isShare(one)), "weights");
  check(given.norms === null || isList(given.norms, n, isSize), "norms");
  const { outside } = given;
  check(isObject(outside) && isList(outside.keys, n, isCount), "outside.keys");
  check(isList(outside.logsumexp, n, isMaybe), "outside.logsumexp");
  check(isList(outside.weights, n, isShare), "outside.weights");
  check(outside.arrived === null || isList(outside.arrived, n, isSize), "outside.arrived");
  check(isList(given.sink_weights, n, isShare), "sink_weights");
  const { layer, head, kv_head, kind, attention, causal, window, scale, softcap, sink, scores, weights, norms, sink_weights } = given;
  const found = {
    layer, head, kv_head, kind, attention, causal, window, scale, softcap, sink, scores, weights, norms, sink_weights,
    outside: { keys: outside.keys, logsumexp: outside.logsumexp, weights: outside.weights, arrived: outside.arrived },
    rotary: rotaryOf(given.rotary, n, check),
    biased: false,
  };
  scores.forEach((/** @type {any} */ _, /** @type {number} */ row) => check(agrees(found, row), `weights[${row}]`));
  check(!found.rotary || Number.isFinite(scale * longest(found.rotary.q) * longest(found.rotary.k)), "rotary");
  return { ...found, biased: !!found.rotary && !made(found, found.rotary) };
}

/**
 * @param {any} given
 * @param {number} n
 * @returns {Embeddings | null | undefined}
 */
function embeddingsOf(given, n) {
  if (given === null || given === undefined) return given;
  need(isObject(given) && isList(given.norms, n, isSize), "embeddings.norms");
  const { norms, cosines } = given;
  need(isSquare(cosines, n, (/** @type {unknown} */ one) => one === null || isCosine(one)), "embeddings.cosines");
  for (let i = 0; i < n; i++) {
    need(norms[i] === 0 || Math.abs(cosines[i][i] - 1) <= ROUNDING, `embeddings.cosines[${i}]`);
    for (let j = 0; j < n; j++) {
      const empty = norms[i] === 0 || norms[j] === 0;
      need(empty === (cosines[i][j] === null) && Math.abs(cosines[i][j] - cosines[j][i]) <= ROUNDING, `embeddings.cosines[${i}]`);
    }
  }
  return { norms, cosines };
}

/**
 * @param {any} given
 * @param {number} n
 * @param {(good: boolean, field: string) => void} check
 * @returns {Rotary | null | undefined}
 */
function rotaryOf(given, n, check) {
  if (given === null || given === undefined) return given;
  check(isObject(given) && isRow(given.q?.[0], given.q?.[0]?.length), "rotary.q");
  const { turns, q, k } = given;
  const width = q[0].length;
  check(Array.isArray(turns) && 2 * turns.length <= width && turns.every(isNumber), "rotary.turns");
  check(isList(q, n, (row) => isRow(row, width)), "rotary.q");
  check(isList(k, n, (row) => isRow(row, width)), "rotary.k");
  return { turns, q, k };
}

/** @param {readonly (readonly number[])[]} rows @returns {number} */
const longest = (rows) => Math.max(...rows.map((one) => Math.sqrt(dot(one, one))));

/**
 * Whether the scores are made of these queries and keys: not so where the model adds a bias to them.
 * @param {Head} head
 * @param {Rotary} rotary
 * @returns {boolean}
 */
function made({ scores, scale, softcap }, { q, k }) {
  const room = DIGITS * Math.max(1, Math.abs(scale) * longest(q) * longest(k));
  return q.every((query, i) => k.every((key, j) => {
    const score = scores[i][j];
    return score === null || Math.abs(capped(scale * dot(query, key), softcap) - score) <= room;
  }));
}

/**
 * Whether a row's weights are the softmax of what it sees.
 * @param {Head} head
 * @param {number} row
 * @returns {boolean}
 */
function agrees(head, row) {
  const seen = head.weights[row].flatMap((weight, key) => (weight === null ? [] : [{ weight, score: head.scores[row][key] }]));
  const parts = [...seen, { weight: head.outside.weights[row], score: head.outside.logsumexp[row] }, { weight: head.sink_weights[row], score: head.sink }];
  const top = Math.max(...parts.map((one) => one.score ?? -Infinity));
  if (top === -Infinity) return parts.every((one) => one.weight === 0);
  const raised = parts.map((one) => (one.score === null ? 0 : Math.exp(one.score - top)));
  const sum = raised.reduce((a, b) => a + b, 0);
  return parts.every((one, at) => Math.abs(one.weight - raised[at] / sum) <= ROUNDING);
}

/**
 * What to call tokens side by side: white space that can be seen, and pieces of one character counted.
 * @param {readonly string[]} labels
 * @param {readonly (readonly number[])[]} spans
 * @returns {string[]}
 */
export function namesOf(labels, spans) {
  const overlap = (/** @type {number} */ at) => at > 0 && at < spans.length && spans[at][0] < spans[at - 1][1] && spans[at][1] > spans[at][0];
  /** @type {string[]} */
  const names = [];
  for (let at = 0; at < labels.length; ) {
    let end = at + 1;
    while (overlap(end)) end++;
    for (let piece = at; piece < end; piece++) {
      const shown = visible(labels[piece]);
      names.push(end - at > 1 ? `${shown} ${piece - at + 1}/${end - at}` : shown);
    }
    at = end;
  }
  return names;
}

/** @param {string} label @returns {string} */
function visible(label) {
  const shown = label.replace(/\r\n|[\n\r]/g, "⏎").replace(/\t/g, "⇥").replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length));
  return shown === "" ? "∅" : shown;
}

/** @param {boolean} good @param {string} field */
function need(good, field) {
  if (!good) throw new HandoutError("own.fault.field", { field });
}

/** @param {unknown} one @returns {one is Record<string, any>} */
const isObject = (one) => typeof one === "object" && one !== null && !Array.isArray(one);
/** @param {unknown} one @returns {one is number} */
const isNumber = (one) => typeof one === "number" && Number.isFinite(one);
/** @param {unknown} one */
const isWord = (one) => typeof one === "string" && /^[a-z_-]{1,40}$/.test(one);
/** @param {any} one */
const isLine = (one) => isObject(one) && isCount(one.layer) && one.layer < MOST_LAYERS && isCount(one.head) && one.head < MOST_LAYERS &&
  isWord(one.kind) && isNumber(one.share) && (one.first === null || isShare(one.first));
/** @param {unknown} one */
const isMaybe = (one) => one === null || isNumber(one);
/** @param {unknown} one */
const isSize = (one) => isNumber(one) && one >= 0;
/** @param {unknown} one */
const isShare = (one) => isNumber(one) && one >= 0 && one <= 1 + ROUNDING;
/** @param {unknown} one */
const isCosine = (one) => isNumber(one) && Math.abs(one) <= 1 + ROUNDING;
/** @param {unknown} row @param {number} width */
const isRow = (row, width) => width > 0 && width <= MOST_WIDTH && isList(row, width, isNumber);
/** @param {unknown} one */
const isCount = (one) => Number.isSafeInteger(one) && /** @type {number} */ (one) >= 0;
/** @param {unknown} one */
const isLabel = (one) => typeof one === "string" && one.length <= MOST_LABEL && !one.includes("\ufffd");
/** @param {unknown} list @param {number} n @param {(one: any) => boolean} good */
const isList = (list, n, good) => Array.isArray(list) && list.length === n && list.every(good);
/** @param {unknown} rows @param {number} n @param {(one: any) => boolean} good */
const isSquare = (rows, n, good) => isList(rows, n, (row) => isList(row, n, good));
