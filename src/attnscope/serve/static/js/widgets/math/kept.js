// @ts-check
/** Bytes of a cache by its length: a twin of attnscope.plan.model, whose stores a page carries. */

/** @typedef {{growth: string, span: number, bytes: number}} Store   bytes of one entry, all layers together */

/**
 * How many entries a store has after so many tokens.
 * @param {string} growth
 * @param {number} span
 * @param {number} tokens
 * @returns {number}
 */
export function entries(growth, span, tokens) {
  if (growth === "token") return tokens;
  if (growth === "window") return Math.min(tokens, span);
  if (growth === "fixed") return 1;
  return Math.floor(tokens / span);
}

/**
 * Bytes of one sequence after so many tokens.
 * @param {readonly Store[]} stores
 * @param {number} tokens
 * @returns {number}
 */
export function keptBytes(stores, tokens) {
  return stores.reduce((sum, { growth, span, bytes }) => sum + entries(growth, span, tokens) * bytes, 0);
}
