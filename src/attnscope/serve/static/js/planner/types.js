// @ts-check
/**
 * What the planner's page and attnscope.plan.page say to each other; see that module's contract.
 *
 * @typedef {{name: string, config?: string}} Named   a built-in name, or a name and a config's text
 * @typedef {{model: Named, versus: Named | null, context: number | null, batch: number,
 *   dtype: string | null, kv_dtype: string | null, heads: string, room: string, weights: string,
 *   device: string, window: number | null, share: string, assume_full: boolean}} Question
 *
 * @typedef {{name: string, value: string, source: string}} Input
 * @typedef {{value: number | string | null, text: string, exact: string, kind: string, formula: string,
 *   inputs: Input[], source: string, note: string}} Numeral   a number with what stands behind it
 * @typedef {Numeral & {used: number | string, limit: number | null, usable: number | null, why: string}} Fit
 * @typedef {{scheme: string, per_token: Numeral, total: Numeral, times: string, fit: Fit | null}} Scheme
 * @typedef {{layers: string, numbers: number[], count: number, kind: string, window: number | null, per_token: Numeral,
 *   capped: Numeral, fixed: Numeral}} Group
 * @typedef {{engine: string, version: string, evidence: string, total: Numeral | null, times: string,
 *   reason: string}} Engine   evidence: "measured" where its rule was checked by running, or "source"
 * @typedef {{tokens: number, measured: Numeral, planned: Numeral}} Weighed
 * @typedef {{name: string, architecture: string, layers: number, width: number, source: string,
 *   vocabulary: number | null,
 *   context_limit: number | null, dtype: string, kv_dtype: string, cache: Record<string, Numeral>,
 *   weights: Numeral | null, weights_unknown: string | null, fit: Fit | null, schemes: Scheme[],
 *   groups: Group[], formats: {format: string, per_token: Numeral, total: Numeral}[], engines: Engine[],
 *   flops: {what: string, number: Numeral}[],
 *   devices: {device: string, memory: Numeral, fit: Fit | null}[],
 *   device: {peak: Numeral, bandwidth: Numeral, ridge: Numeral, bound: string, reads: Numeral} | null,
 *   weighed: {rows: Weighed[]} | null,
 *   notes: string[], assumed: string[]}} Model
 * @typedef {{lengths: number[], lines: {label: string, model: number, sizes: (number | string)[]}[],
 *   rooms: (number | string | null)[], bytes: {power: number, text: string}[],
 *   tokens: {tokens: number, text: string}[]}} Picture
 * @typedef {{context: number, batch: number, dtype: string | null, kv_dtype: string | null,
 *   heads: string, room: string, weights: string, device: string | null, window: number | null,
 *   share: string | null}} Asked
 * @typedef {{error: {field: string, sentence: string} | null, asked: Asked, models: Model[],
 *   picture: Picture, command: string}} Answer   command: the line that asks `attnscope plan` the same
 */

export {};
