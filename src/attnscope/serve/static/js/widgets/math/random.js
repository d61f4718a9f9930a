// @ts-check
/**
 * Random numbers that a seed decides, the same in Python (attnscope.lessons.twins).
 *
 * The idea: mulberry32 gives 32 bits a step, Box and Muller make two normal numbers of two of them.
 * Whoever draws with the same seed sees the same picture, in a browser or in a test.
 */

/**
 * So many standard normal numbers.
 * @param {number} seed   a whole number; its low 32 bits count
 * @param {number} count
 * @returns {Float64Array}
 */
export function normals(seed, count) {
  const found = new Float64Array(count + (count % 2));
  const next = bits(seed);
  for (let at = 0; at < count; at += 2) {
    const radius = Math.sqrt(-2 * Math.log((next() + 0.5) / 4294967296));
    const angle = (2 * Math.PI * next()) / 4294967296;
    found[at] = radius * Math.cos(angle);
    found[at + 1] = radius * Math.sin(angle);
  }
  return found.subarray(0, count);
}

/** @param {number} seed @returns {() => number} whole numbers below 2^32 */
export function bits(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return (t ^ (t >>> 14)) >>> 0;
  };
}
