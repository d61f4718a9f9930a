// @ts-check
/**
 * Which keys hold the weight: the fewest that reach a share, and the rest as one.
 *
 * Not here: asking for a row (data.js), showing it (panel.js).
 */

/**
 * @typedef {object} MassList
 * @property {{key: number, weight: number}[]} listed   the largest first
 * @property {number} reached    the share of the total that the listed keys hold
 * @property {{count: number, weight: number}} rest     the other keys of any weight
 * @property {number} total      of all weights; less than 1 with a learned sink or where keys were left out
 */

/**
 * The fewest keys whose weights reach `mass` of the total.
 *
 * Equal weights are taken in the order of the text. Keys before `from` are left out (a sink that is
 * not to be counted). Cost: a sort of the keys that have weight.
 *
 * @param {ArrayLike<number>} weights
 * @param {number} mass   0 to 1
 * @param {{from?: number}} [options]
 * @returns {MassList}
 */
export function massList(weights, mass, { from = 0 } = {}) {
  const keys = [];
  let total = 0;
  for (let key = from; key < weights.length; key++) {
    if (!(weights[key] > 0)) continue;
    keys.push(key);
    total += weights[key];
  }
  keys.sort((a, b) => weights[b] - weights[a] || a - b);
  const listed = [];
  let sum = 0;
  // A billionth is what the sum of a hundred thousand weights may lose in float64.
  const enough = total * mass - total * 1e-9;
  for (const key of keys) {
    if (sum >= enough) break;
    listed.push({ key, weight: weights[key] });
    sum += weights[key];
  }
  return {
    listed,
    reached: total > 0 ? sum / total : 0,
    rest: { count: keys.length - listed.length, weight: Math.max(0, total - sum) },
    total,
  };
}

/**
 * How strongly each token is shaded, 0 to 1: the square root of its share of the largest weight, since
 * most weights are small. The first `sink` keys do not set the scale: they would pale everything else.
 * @param {ArrayLike<number>} weights
 * @param {number} sink
 * @returns {Float32Array}
 */
export function shades(weights, sink) {
  let largest = 0;
  for (let key = sink; key < weights.length; key++) if (weights[key] > largest) largest = weights[key];
  if (largest === 0) for (let key = 0; key < weights.length; key++) if (weights[key] > largest) largest = weights[key];
  const made = new Float32Array(weights.length);
  for (let key = 0; key < weights.length; key++) {
    made[key] = weights[key] > 0 ? Math.sqrt(Math.min(1, weights[key] / largest)) : 0;
  }
  return made;
}

/**
 * The mean over layers and their heads of weights and of what arrived, as one row: both compare with
 * a single head's. What arrived is null where a layer among them does not know it.
 * @param {{layers: number[], keys: number, weights: Float32Array, arrived: Float32Array | null}} flow
 * @param {number | null} layer   one layer's own number, or null for all of them
 * @param {(layer: number) => number} heads   how many heads a layer has: its row of what arrived is their sum
 * @returns {{weights: Float32Array, arrived: Float32Array | null} | null}  null where the layer has no map
 */
export function overLayers({ layers, keys, weights, arrived }, layer, heads) {
  const wanted = layer === null ? layers.map((_, index) => index) : [layers.indexOf(layer)];
  if (wanted.length === 0 || wanted[0] < 0) return null;
  const mean = /** @param {Float32Array} from @param {(layer: number) => number} together */ (from, together) => {
    const sum = new Float64Array(keys);
    for (const index of wanted) {
      const part = 1 / (wanted.length * together(layers[index]));
      for (let key = 0; key < keys; key++) sum[key] += part * from[index * keys + key];
    }
    return Float32Array.from(sum);
  };
  const known = arrived !== null && wanted.every((index) => !Number.isNaN(arrived[index * keys]));
  return { weights: mean(weights, () => 1), arrived: known ? mean(arrived, heads) : null };
}

/**
 * One key's weight in each layer.
 * @param {{layers: number[], keys: number, weights: Float32Array}} flow
 * @param {number[]} keys
 * @returns {number[]}
 */
export function byLayer({ layers, keys: width, weights }, keys) {
  return layers.map((_, index) => keys.reduce((sum, key) => sum + weights[index * width + key], 0));
}

/**
 * The largest entries of a list, as indices, at most so many and none of zero.
 * @param {ArrayLike<number>} values
 * @param {number} most
 * @param {number} [from]
 * @returns {number[]}
 */
export function largest(values, most, from = 0) {
  /** @type {number[]} */
  const best = [];
  for (let index = from; index < values.length; index++) {
    if (!(values[index] > 0)) continue;
    if (best.length === most && values[index] <= values[best[most - 1]]) continue;
    let at = best.length;
    while (at > 0 && values[best[at - 1]] < values[index]) at--;
    best.splice(at, 0, index);
    if (best.length > most) best.pop();
  }
  return best;
}
