// @ts-check
/**
 * What the reader chose: one text for the whole page, remembered while the browser's tab is open.
 *
 * The idea: the choice outlives the page (the next lesson offers it), so it is kept as text and
 * read again with every check; a browser that keeps nothing loses it with the page, no more.
 *
 * Not here: the controls (panel.js), reading files (handout.js).
 */

/**
 * @typedef {{kind: "file", text: string} | {kind: "trace", id: string, start: number}} From
 * @typedef {object} Choice
 * @property {From} from
 * @property {string} model
 * @property {number} layer
 * @property {number} head
 * @property {{layer: number, head: number}} other
 * @property {number} row
 */

const NAME = "attnscope.course.own";
/** Characters; browsers give a page some five million, and say so if it is less. */
const MOST_KEPT = 5_000_000;

/** @type {Choice | null | undefined} */
let chosen;
/** @type {Set<(choice: Choice) => void>} */
const listeners = new Set();

/** @returns {Choice | null} */
export function choice() {
  if (chosen === undefined) chosen = restored();
  return chosen;
}

/** @param {Choice} now @returns {boolean} whether the next page will know it too */
export function choose(now) {
  chosen = now;
  for (const hear of listeners) hear(now);
  const text = JSON.stringify(now);
  try {
    if (text.length <= MOST_KEPT) {
      window.sessionStorage.setItem(NAME, text);
      return true;
    }
  } catch {
    // a browser with less room, or none
  }
  erase(); // the next page must not offer the text before this one
  return false;
}

/** Forgets a choice that cannot be opened any more. */
export function forget() {
  chosen = null;
  erase();
}

function erase() {
  try {
    window.sessionStorage.removeItem(NAME);
  } catch {
    // a browser that keeps nothing has nothing to forget
  }
}

/** @param {(choice: Choice) => void} hear */
export function onChoice(hear) {
  listeners.add(hear);
}

/** @returns {Choice | null} */
function restored() {
  try {
    const found = JSON.parse(window.sessionStorage.getItem(NAME) ?? "null");
    return isChoice(found) ? found : null;
  } catch {
    return null;
  }
}

/** @param {any} one @returns {one is Choice} */
export function isChoice(one) {
  const whole = (/** @type {any} */ value) => Number.isSafeInteger(value) && value >= 0;
  const from = one?.from;
  return (
    (from?.kind === "file" ? typeof from.text === "string" : from?.kind === "trace" && typeof from.id === "string" && whole(from.start)) &&
    typeof one.model === "string" && [one.layer, one.head, one.other?.layer, one.other?.head, one.row].every(whole)
  );
}
