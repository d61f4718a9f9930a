// @ts-check
/**
 * The page's view as one object, and as the address's fragment: a link opens the same view again.
 *
 * The idea: only what differs from the start is written. A pasted config is in the address too, as
 * far as an address can be that long.
 *
 * Not here: the fields (form.js).
 */

/**
 * @typedef {{model: string, config: string, versus: string, other: string, context: string,
 *   batch: string, dtype: string, form: string, heads: string, room: string, weights: string,
 *   device: string, window: string, share: string, assume: boolean}} View
 *   every field as text, as the reader has left it; `config` and `other` are pasted, and then
 *   `model` and `versus` are what they are called; `dtype` is the cache's, `form` the activations'
 */

const NAMES = /** @type {const} */ ({
  model: "m", config: "mc", versus: "v", other: "vc", context: "c", batch: "b", dtype: "k", heads: "h", room: "r", weights: "w",
  form: "d", device: "e", window: "n", share: "s",
});
/** Browsers take addresses of some 64 thousand letters everywhere. */
const LONGEST = 60_000;

/** @type {View} */
export const START = {
  model: "qwen3.8-27b", config: "", versus: "", other: "", context: "32768", batch: "1", dtype: "", heads: "8", room: "h100", weights: "auto",
  form: "", device: "", window: "", share: "", assume: false,
};

/** @param {View} view @returns {{fragment: string, whole: boolean}} */
export function written(view) {
  const pairs = new URLSearchParams();
  for (const [field, name] of /** @type {[keyof typeof NAMES, string][]} */ (Object.entries(NAMES))) {
    const value = field === "config" || field === "other" ? compact(view[field]) : view[field];
    if (value !== START[field]) pairs.set(name, value);
  }
  if (view.assume) pairs.set("f", "1");
  const fragment = pairs.toString();
  if (fragment.length <= LONGEST) return { fragment, whole: true };
  for (const name of ["mc", "vc"]) if (pairs.has(name)) pairs.set(name, "");
  return { fragment: pairs.toString(), whole: false };
}

/** @param {string} fragment   with or without its # @returns {View} */
export function readView(fragment) {
  const pairs = new URLSearchParams(fragment.replace(/^#/, ""));
  const view = { ...START, assume: pairs.get("f") === "1" };
  for (const [field, name] of /** @type {[keyof typeof NAMES, string][]} */ (Object.entries(NAMES))) view[field] = pairs.get(name) ?? START[field];
  return view;
}

/** JSON without its spaces; what is no JSON stays as it is. @param {string} text @returns {string} */
export function compact(text) {
  // Only spaces between tokens go: a number must keep its digits, which parsing would round.
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[^\s"]+|"/g) ?? [];
  return tokens.join("");
}

/** @param {View} view @returns {import("./types.js").Question} */
export function question(view) {
  const named = (/** @type {string} */ name, /** @type {string} */ config) => (config ? { name, config } : { name });
  return {
    model: named(view.model, view.config),
    versus: view.versus ? named(view.versus, view.other) : null,
    context: whole(view.context),
    batch: whole(view.batch) ?? 1,
    dtype: view.form || null,
    kv_dtype: view.dtype || null,
    heads: view.heads,
    room: view.room,
    weights: view.weights,
    device: view.device,
    window: whole(view.window),
    share: view.share,
    assume_full: view.assume,
  };
}

/** A whole number, or null where nothing is written; NaN becomes 0, which the planner refuses. @param {string} text */
function whole(text) {
  if (text.trim() === "") return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : 0;
}
