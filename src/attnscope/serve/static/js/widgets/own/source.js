// @ts-check
/**
 * The course's server as widgets ask it: which texts there are, their heads, and new captures.
 *
 * The idea: the server is the app's, so its questions and captures are asked as the app asks them.
 *
 * Not here: what is done with a head (subject.js), the file that a page from disk opens (panel.js).
 */

import { captureOver } from "../../source/capture.js";
import { Api } from "../../source/http.js";
import { checked } from "./handout.js";

/**
 * @typedef {import("../../types.js").TraceEntry} TraceEntry
 * @typedef {import("../../types.js").LayerInfo} LayerInfo
 * @typedef {{layer: number, head: number, kind: string, score: number}} HeadLine
 * @typedef {{name: string, installed: boolean}} Model
 * @typedef {ReturnType<typeof sourceAt>} Source
 */

/** @param {string} base   address of the server's root, ending in "/" */
export function sourceAt(base) {
  const api = new Api({ base });
  const way = (/** @type {string} */ id, /** @type {string} */ what) => `traces/${encodeURIComponent(id)}/${what}`;
  return {
    /** @returns {Promise<TraceEntry[]>} */
    traces: async () => (await api.json("traces")).traces,
    /** @returns {Promise<Model[]>} */
    models: async () => (await api.json("models")).models,
    /**
     * The layers that have a map of the text, each with its heads.
     * @param {string} id
     * @returns {Promise<{layer: LayerInfo, heads: HeadLine[]}[]>}
     */
    layers: async (id) => {
      const [info, heads] = await Promise.all([api.json(way(id, "info")), api.json(way(id, "heads"))]);
      return info.layers
        .filter((/** @type {LayerInfo} */ one) => one.kind !== "none" && !one.cross)
        .map((/** @type {LayerInfo} */ layer) => ({ layer, heads: heads.filter((/** @type {HeadLine} */ one) => one.layer === layer.index) }));
    },
    /**
     * One head on the tokens from one of them on.
     * @param {string} id @param {number} layer @param {number} head @param {number} start @param {AbortSignal} [signal]
     */
    head: async (id, layer, head, start, signal) => checked(await api.json(way(id, "head"), { layer, head, from: start }, { signal })),
    capture: captureOver(api),
  };
}

const LIKED = ["induction", "previous-token", "local", "mixed", "sink", "uniform"];

/**
 * The head that is shown first: the clearest of the kind that says most.
 * @param {readonly HeadLine[]} heads
 * @returns {HeadLine}
 */
export function firstHead(heads) {
  const rank = (/** @type {HeadLine} */ one) => (LIKED.indexOf(one.kind) + LIKED.length + 1) % (LIKED.length + 1);
  return [...heads].sort((a, b) => rank(a) - rank(b) || b.score - a.score)[0];
}
