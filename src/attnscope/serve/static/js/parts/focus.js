// @ts-check
/**
 * One tab stop for many things: the arrows move inside a group, Tab leaves it (roving tabindex).
 *
 * Not here: what the arrows mean in a grid of uneven rows (screens/overview/layout.js).
 */

/**
 * Makes `next` the group's one tab stop, and focuses it where the group has the focus or is told to.
 * @param {HTMLElement | null} before
 * @param {HTMLElement} next
 * @param {boolean} focus
 */
export function rove(before, next, focus) {
  if (before && before !== next) before.tabIndex = -1;
  next.tabIndex = 0;
  if (focus) next.focus({ preventScroll: false });
}

/**
 * The index an arrow, Home or End leads to in a line of `length`, or null for any other key.
 * @param {string} key
 * @param {number} index
 * @param {number} length
 * @returns {number | null}
 */
export function along(key, index, length) {
  if (length === 0) return null;
  if (key === "ArrowRight" || key === "ArrowDown") return (index + 1) % length;
  if (key === "ArrowLeft" || key === "ArrowUp") return (index + length - 1) % length;
  if (key === "Home") return 0;
  return key === "End" ? length - 1 : null;
}

/**
 * Whether keys typed here belong to the element itself: a field, a list, an editor.
 * @param {EventTarget | null} target
 * @returns {boolean}
 */
export function takesKeys(target) {
  if (!(target instanceof Element)) return false;
  if (target instanceof HTMLElement && target.isContentEditable) return true;
  if (target instanceof HTMLInputElement) return !["button", "checkbox", "radio", "submit", "reset"].includes(target.type);
  return target.matches("textarea, select, [contenteditable]:not([contenteditable=false])");
}
