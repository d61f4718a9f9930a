// @ts-check
/**
 * One head of a stand-alone page: weights from queries, keys and one log-sum-exp per row, in float64.
 *
 * Formula
 *     s_ij = softcap(scale * q_i . k_j) + b_ij        w_ij = exp(s_ij - lse_i), 0 where not in sight
 *
 * Shapes
 *     q [T, D], k [S, D], logsumexp [T], norms [S], first, end, origin [T]; query r stands at S - T + r.
 *
 * Not here: the file's form (embedded_arrays.js), tiles (embedded_tiles.js).
 */

/** @typedef {import("../types.js").Measure} Measure */
/**
 * @typedef {object} HeadArrays
 * @property {Float32Array} q
 * @property {Float32Array} k
 * @property {Float32Array} logsumexp
 * @property {Float32Array | null} norms
 * @property {number} sink          logit of a learned sink, or -Infinity
 * @property {Int32Array} first
 * @property {Int32Array} end
 * @property {Int32Array} origin
 * @property {Uint8Array | null} mask           a bit for each pair, where sight is no interval
 * @property {Float32Array | null} bias
 * @property {Float32Array | null} biasByOffset
 */

export class EmbeddedHead {
  /**
   * @param {HeadArrays} arrays
   * @param {{scale: number, softcap: number | null, width: number, sinkKeys: number}} about
   */
  constructor(arrays, { scale, softcap, width, sinkKeys }) {
    this.arrays = arrays;
    this.scale = scale;
    this.softcap = softcap;
    this.width = width;
    this.sinkKeys = sinkKeys;
    this.queries = arrays.logsumexp.length;
    this.keys = arrays.k.length / width;
  }

  /**
   * The first key that a row's measure counts.
   * @param {number} query
   * @param {boolean} noSink
   * @returns {number}
   */
  from(query, noSink) {
    const { first, origin } = this.arrays;
    return noSink ? Math.max(first[query], Math.min(origin[query] + this.sinkKeys, this.keys)) : first[query];
  }

  /** @param {number} query @param {number} key @returns {number} */
  biasOf(query, key) {
    const { bias, biasByOffset } = this.arrays;
    const whole = bias ? bias[query * this.keys + key] : 0;
    return biasByOffset ? whole + biasByOffset[key - query + this.queries - 1] : whole;
  }

  /** @param {number} query @param {number} key @returns {boolean} */
  sees(query, key) {
    const { first, end, mask } = this.arrays;
    if (key < first[query] || key >= end[query]) return false;
    const row = Math.ceil(this.keys / 8);
    if (mask && !((mask[query * row + (key >> 3)] >> (7 - (key & 7))) & 1)) return false;
    return this.biasOf(query, key) > -Infinity;
  }

  /**
   * The score of a pair as it enters the softmax.
   * @param {number} query
   * @param {number} key
   * @returns {number}
   */
  score(query, key) {
    const { q, k } = this.arrays;
    const [a, b] = [query * this.width, key * this.width];
    let dot = 0;
    for (let d = 0; d < this.width; d++) dot += q[a + d] * k[b + d];
    const scaled = dot * this.scale;
    const capped = this.softcap === null ? scaled : this.softcap * Math.tanh(scaled / this.softcap);
    return capped + this.biasOf(query, key);
  }

  /** @param {number} query @param {number} key @returns {number} */
  weight(query, key) {
    return this.sees(query, key) ? Math.exp(this.score(query, key) - this.arrays.logsumexp[query]) : 0;
  }

  /**
   * How many keys a query sees.
   * @param {number} query
   * @returns {number}
   */
  sight(query) {
    const { first, end, mask, bias, biasByOffset } = this.arrays;
    if (!mask && !bias && !biasByOffset) return Math.max(0, end[query] - first[query]);
    let count = 0;
    for (let key = first[query]; key < end[query]; key++) if (this.sees(query, key)) count += 1;
    return count;
  }

  /**
   * One row of a measure over some keys; NaN where masked.
   * @param {number} query
   * @param {number} start
   * @param {number} stop
   * @param {{measure: Measure, out: Float64Array}} how   out: of stop - start values
   */
  row(query, start, stop, { measure, out }) {
    out.fill(NaN, 0, stop - start);
    const noSink = measure.endsWith("no-sink");
    const low = Math.max(start, this.from(query, noSink));
    const high = Math.min(stop, this.arrays.end[query]);
    const even = measure === "uniform" ? 1 / this.sight(query) : 0;
    const { norms } = this.arrays;
    const arrived = measure.startsWith("arrived");
    for (let key = low; key < high; key++) {
      if (!this.sees(query, key)) continue;
      const weight = even || Math.exp(this.score(query, key) - this.arrays.logsumexp[query]);
      out[key - start] = arrived ? weight * (norms ? norms[key] : NaN) : weight;
    }
  }

  /**
   * The share of the learned sink in a row.
   * @param {number} query
   * @returns {number}
   */
  sinkShare(query) {
    return this.arrays.sink === -Infinity ? 0 : Math.exp(this.arrays.sink - this.arrays.logsumexp[query]);
  }
}
