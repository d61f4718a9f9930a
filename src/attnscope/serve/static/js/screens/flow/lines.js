// @ts-check
/**
 * Breaks a text into lines by arithmetic, so that only the lines in view need to exist.
 *
 * The idea: the width of each unit is measured once per distinct label; a line is filled until it is
 * full, and broken where a word begins if it can be. All lines are equally high.
 *
 * Units: CSS pixels.
 *
 * Not here: measuring (the caller gives widths), elements (text.js).
 */

/**
 * @typedef {object} Lines
 * @property {Int32Array} first   the first unit of each line
 * @property {Float32Array} x     of each unit, from the line's beginning
 * @property {Int32Array} line    of each unit
 */

/**
 * Whether a line may be broken before a unit.
 * @param {string} before   the unit before it
 * @param {string} label
 * @returns {boolean}
 */
export function breaks(before, label) {
  if (/^\s/u.test(label) || /[\s\-–—/]$/u.test(before)) return true;
  // Chinese, Japanese and Korean break between any two characters, but not before closing punctuation.
  if (/^[\p{Pe}\p{Pf}\p{Po}]/u.test(label) || /[\p{Ps}\p{Pi}]$/u.test(before)) return false;
  const wide = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3000-\u303f\uff00-\uffef]/u;
  return wide.test(label[0] ?? "") || wide.test(before.at(-1) ?? "");
}

/**
 * @param {string[]} labels       of the units
 * @param {ArrayLike<number>} widths
 * @param {number} room           the width of a line
 * @returns {Lines}
 */
export function breakLines(labels, widths, room) {
  const count = labels.length;
  const line = new Int32Array(count);
  const x = new Float32Array(count);
  const first = count ? [0] : [];
  let at = 0;
  let may = 0;
  for (let unit = 0; unit < count; unit++) {
    const start = first[first.length - 1];
    const ended = unit > start && labels[unit - 1].endsWith("\n");
    if (ended) {
      first.push(unit);
      [at, may] = [0, unit];
    } else if (unit > start) {
      if (breaks(labels[unit - 1], labels[unit])) may = unit;
      if (at + widths[unit] > room) {
        const cut = may > start ? may : unit;
        first.push(cut);
        // What moves down with the word begins the new line.
        at = 0;
        for (let moved = cut; moved < unit; moved++) {
          line[moved] = first.length - 1;
          x[moved] = at;
          at += widths[moved];
        }
        may = cut;
      }
    }
    line[unit] = first.length - 1;
    x[unit] = at;
    at += widths[unit];
  }
  return { first: Int32Array.from(first), x, line };
}

/**
 * The unit a line up or down that stands nearest to the same place.
 * @param {Lines} lines
 * @param {number} unit
 * @param {number} down   lines, negative for up
 * @returns {number}
 */
export function vertically({ first, x, line }, unit, down) {
  const to = Math.max(0, Math.min(first.length - 1, line[unit] + down));
  const end = to + 1 < first.length ? first[to + 1] : x.length;
  let best = first[to];
  for (let other = first[to]; other < end; other++) if (Math.abs(x[other] - x[unit]) < Math.abs(x[best] - x[unit])) best = other;
  return best;
}
