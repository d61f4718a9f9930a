// @ts-check
/**
 * The map's keys, as a table from what is pressed to what it means.
 *
 * Not here: what the meanings do (screen.js), keys of all screens (shell.js).
 */

/** @type {import("../../types.js").KeyHelp[]} */
export const mapKeys = [
  { keys: ["↑", "↓"], text: "map.key.query" },
  { keys: ["←", "→"], text: "map.key.key" },
  { keys: ["Shift+←", "Shift+→", "Shift+↑", "Shift+↓"], text: "map.key.word" },
  { keys: ["W", "A", "S", "D"], text: "map.key.pan" },
  { keys: ["+", "−"], text: "map.key.zoom" },
  { keys: ["F"], text: "map.key.fit" },
  { keys: ["Enter"], text: "map.key.fly" },
  { keys: ["Space"], text: "map.key.lock" },
  { keys: ["/"], text: "map.key.search" },
  { keys: ["C"], text: "map.key.compare" },
  { keys: ["Esc"], text: "map.key.unlock" },
];

/**
 * @typedef {{do: "step", query: number, key: number, word: boolean}
 *   | {do: "pan", right: number, down: number}
 *   | {do: "zoom", factor: number}
 *   | {do: "fit" | "fly" | "search" | "compare" | "unlock" | "lock"}} Meaning
 */

const STEPS = /** @type {Record<string, [number, number]>} */ ({
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
});
const PANS = /** @type {Record<string, [number, number]>} */ ({ w: [0, 1], a: [1, 0], s: [0, -1], d: [-1, 0] });
const OTHERS = /** @type {Record<string, "fit" | "fly" | "search" | "compare" | "unlock" | "lock">} */ ({
  f: "fit",
  Enter: "fly",
  "/": "search",
  c: "compare",
  Escape: "unlock",
  " ": "lock",
});
const PAN_PIXELS = 80;

/**
 * @param {{key: string, shiftKey: boolean}} event
 * @returns {Meaning | null}
 */
export function meaningOf({ key, shiftKey }) {
  const step = STEPS[key];
  if (step) return { do: "step", query: step[0], key: step[1], word: shiftKey };
  const small = key.length === 1 ? key.toLowerCase() : key;
  const pan = PANS[small];
  if (pan) return { do: "pan", right: pan[0] * PAN_PIXELS, down: pan[1] * PAN_PIXELS };
  if (small === "+" || small === "=") return { do: "zoom", factor: Math.SQRT2 };
  if (small === "-" || small === "_" || small === "−") return { do: "zoom", factor: Math.SQRT1_2 };
  return OTHERS[small] ? { do: OTHERS[small] } : null;
}
