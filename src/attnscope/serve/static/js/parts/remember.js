// @ts-check
/**
 * A data source that asks once for what never changes: info, tokens and heads of a trace.
 *
 * A question that failed is asked again; the oldest trace is forgotten when there are many.
 */

/** @typedef {import("../types.js").DataSource} DataSource */

const KEPT = 8;

/**
 * @param {DataSource} source
 * @returns {DataSource}
 */
export function remembering(source) {
  return {
    can: source.can,
    traces: () => source.traces(),
    info: once((trace) => source.info(trace)),
    tokens: once((trace) => source.tokens(trace)),
    heads: once((trace) => source.heads(trace)),
    tiles: (want, signal) => source.tiles(want, signal),
    tracks: (want, signal) => source.tracks(want, signal),
    row: (want, signal) => source.row(want, signal),
    column: (want, signal) => source.column(want, signal),
    flow: (want, signal) => source.flow(want, signal),
    cell: (want) => source.cell(want),
    similar: (want) => source.similar(want),
    expected: (want) => source.expected(want),
    table: (want) => source.table(want),
    capture: source.capture && ((want, onEvent, signal) => /** @type {NonNullable<DataSource["capture"]>} */ (source.capture)(want, onEvent, signal)),
    models: () => source.models(),
  };
}

/**
 * @template T
 * @param {(trace: string) => Promise<T>} ask
 * @returns {(trace: string) => Promise<T>}
 */
export function once(ask) {
  /** @type {Map<string, Promise<T>>} */
  const kept = new Map();
  return (trace) => {
    const have = kept.get(trace);
    if (have) return have;
    const answer = ask(trace);
    kept.set(trace, answer);
    answer.catch(() => kept.delete(trace));
    if (kept.size > KEPT) kept.delete(/** @type {string} */ (kept.keys().next().value));
    return answer;
  };
}
