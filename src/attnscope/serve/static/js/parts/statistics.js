// @ts-check
/** The names of statistics in the reader's language; what a trace has beyond ours keeps its own name. */

export const STATISTICS = /** @type {const} */ ([
  "entropy", "sink_mass", "previous_mass", "induction_mass", "max_weight", "mean_distance", "jacobian_norm",
  "self_mass", "local_mass", "effective_keys", "participation", "max_logit", "logsumexp",
]);

/**
 * @param {import("../types.js").App["t"]} t
 * @param {string} name
 * @returns {string}
 */
export function statisticName(t, name) {
  return STATISTICS.some((one) => one === name) ? t(`stat.${name}`) : name;
}

/**
 * A trace's statistics, those a reader asks for most first.
 * @param {string[]} names
 * @returns {string[]}
 */
export function inOrder(names) {
  const known = STATISTICS.filter((name) => names.includes(name));
  return [...known, ...names.filter((name) => !known.some((one) => one === name))];
}
