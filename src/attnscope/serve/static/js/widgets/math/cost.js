// @ts-check
/**
 * FLOPs and bytes of attention in a model's full layers, and what a device waits for: twins of
 * attnscope.plan (flops.py, devices.py, what_if.py).
 *
 * Units: FLOPs (a multiply-add is 2), bytes (BF16, 2 a number), seconds.
 */

/**
 * @typedef {{heads: number, kv_heads: number, width: number, layers: number}} Shape
 * @typedef {{name: string, peak: number, bandwidth: number}} Device
 * @typedef {{flops: number, bytes: number}} Work
 */

const BYTES = 2;

/** @param {Shape} shape @param {number} [groups] @returns {number} bytes kept for every token */
export function perToken(shape, groups = shape.kv_heads) {
  return shape.layers * 2 * groups * shape.width * BYTES;
}

/** One new token with so many keys in sight. @param {Shape} shape @param {number} groups @param {number} tokens @returns {Work} */
export function step(shape, groups, tokens) {
  return { flops: shape.layers * 4 * shape.heads * shape.width * tokens, bytes: perToken(shape, groups) * tokens };
}

/** All tokens at once, each number read or written once. @param {Shape} shape @param {number} groups @param {number} tokens @returns {Work} */
export function prefill(shape, groups, tokens) {
  const ends = shape.layers * 2 * shape.heads * shape.width * BYTES;
  return {
    flops: shape.layers * 2 * shape.heads * shape.width * tokens * (tokens + 1),
    bytes: (perToken(shape, groups) + ends) * tokens,
  };
}

/** @param {Work} work @returns {number} FLOPs for each byte */
export function intensity(work) {
  return work.flops / work.bytes;
}

/** @param {Device} device @returns {number} */
export function ridge(device) {
  return device.peak / device.bandwidth;
}

/**
 * The least time that a device needs, and for what: its memory, or its arithmetic.
 * @param {Work} work @param {Device} device
 * @returns {{seconds: number, waits: "memory" | "arithmetic"}}
 */
export function atLeast(work, device) {
  const reading = work.bytes / device.bandwidth;
  const working = work.flops / device.peak;
  return { seconds: Math.max(reading, working), waits: reading > working ? "memory" : "arithmetic" };
}

/** @param {number} heads @returns {number[]} the numbers of KV heads that serve equally many query heads */
export function divisors(heads) {
  return Array.from({ length: heads }, (_, at) => at + 1).filter((one) => heads % one === 0);
}
