// @ts-check
/**
 * What a page keeps in the browser: the scheme and the reader's notes.
 *
 * A browser may forbid storage (a private window, a file from disk); then nothing is kept, and
 * `keep` says so.
 */

const PREFIX = "attnscope.course.";

/** @param {string} name @returns {string | null} */
export function kept(name) {
  try {
    return window.localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

/** @param {string} name @param {string} text @returns {boolean} whether it was kept */
export function keep(name, text) {
  try {
    window.localStorage.setItem(PREFIX + name, text);
    return true;
  } catch {
    return false;
  }
}

/** @returns {"light" | "dark" | null} */
export function keptScheme() {
  const found = kept("scheme");
  return found === "light" || found === "dark" ? found : null;
}
