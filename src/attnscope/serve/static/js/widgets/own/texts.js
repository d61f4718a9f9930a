// @ts-check
/**
 * A text that was chosen, whether the server has it or a file: its layers, and heads of it on demand.
 *
 * Not here: what is asked of the server (source.js), the controls (panel.js).
 */

import { HandoutError, readHandout } from "./handout.js";
import { firstHead } from "./source.js";

/**
 * @typedef {import("./handout.js").Handout} Handout
 * @typedef {import("./handout.js").Head} Head
 * @typedef {import("./source.js").Source} Source
 * @typedef {{layer: number, head: number}} At
 * @typedef {{index: number, kind: string, heads: {head: number, kind: string, score: number}[]}} Layer
 * @typedef {object} Text
 * @property {import("./state.js").From} from
 * @property {string} model
 * @property {Layer[]} layers
 * @property {At} first   the head that is shown unless another was chosen
 * @property {{least: number, count: number} | null} starts   where a part may begin; null in a file, which is a part
 * @property {(wanted: readonly At[], signal?: AbortSignal) => Promise<Handout>} heads
 *   gives at least these heads, first of all, and those that were asked for before
 */

/**
 * @param {import("./state.js").From} from
 * @param {Source | null} source
 * @returns {Promise<Text>}
 */
export async function openText(from, source) {
  if (from.kind === "file") return fileText(from.text);
  if (!source) throw new HandoutError("own.fault.no_server");
  return traceText(from, source);
}

/** @param {string} text @returns {Text} */
function fileText(text) {
  const handout = readHandout(text);
  const layers = [...new Set(handout.heads.map((one) => one.layer))].sort((a, b) => a - b);
  return {
    from: { kind: "file", text },
    model: handout.model,
    starts: null,
    first: { layer: handout.heads[0].layer, head: handout.heads[0].head },
    layers: layers.map((index) => {
      const heads = handout.heads.filter((one) => one.layer === index);
      return { index, kind: heads[0].attention, heads: heads.map(({ head, kind }) => ({ head, kind, score: 0 })) };
    }),
    heads: async (wanted) => firstOf(handout, wanted),
  };
}

/** @param {Handout} handout @param {readonly At[]} wanted @returns {Handout} */
function firstOf(handout, wanted) {
  const first = wanted.map(({ layer, head }) => handout.heads.find((one) => one.layer === layer && one.head === head));
  if (first.some((one) => !one)) throw new HandoutError("own.fault.head");
  const found = /** @type {Head[]} */ (first);
  return { ...handout, heads: [...new Set([...found, ...handout.heads])] };
}

/** Heads that were fetched, by text and start. @type {Map<string, Handout>} */
const fetched = new Map();
const KEPT = 8;

/**
 * @param {{kind: "trace", id: string, start: number}} from
 * @param {Source} source
 * @returns {Promise<Text>}
 */
async function traceText(from, source) {
  const layers = await source.layers(from.id);
  if (!layers.length) throw new HandoutError("own.fault.no_map");
  const entry = (await source.traces()).find((one) => one.id === from.id);
  const key = `${from.id} ${from.start}`;
  const sizes = layers.map(({ layer }) => layer);
  return {
    from,
    model: entry?.model ?? from.id,
    starts: { least: Math.max(...sizes.map((one) => one.keys - one.queries)), count: sizes[0].keys },
    first: firstHead(layers.flatMap((one) => one.heads)),
    layers: layers.map(({ layer, heads }) => ({ index: layer.index, kind: layer.kind, heads })),
    heads: async (wanted, signal) => {
      for (const { layer, head } of wanted) {
        const have = fetched.get(key);
        if (have?.heads.some((one) => one.layer === layer && one.head === head)) continue;
        const found = await source.head(from.id, layer, head, from.start, signal);
        fetched.set(key, { ...found, heads: [...(have?.heads ?? []), ...found.heads].slice(-KEPT) });
      }
      return firstOf(/** @type {Handout} */ (fetched.get(key)), wanted);
    },
  };
}
