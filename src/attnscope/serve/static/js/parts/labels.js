// @ts-check
/**
 * What tokens say where several stand together: each character once, also where it is several pieces.
 *
 * The idea: a token's span holds whole characters, so pieces of one character have spans that overlap
 * (the first may hold the space before it). Of a token only what lies behind the span before it is new.
 *
 * Not here: words, units, how white space is shown.
 */

/** @typedef {import("../types.js").TokenTable} TokenTable */

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * What each token adds to those before it; "" for a further piece of the same character.
 * @param {Pick<TokenTable, "start" | "end" | "labels">} table
 * @param {number} [first]
 * @param {number} [last]
 * @returns {string[]}   of the tokens first..last
 */
export function addedLabels({ start, end, labels }, first = 0, last = labels.length - 1) {
  const added = [];
  let covered = -1;
  for (let token = first; token <= last; token++) {
    const bytes = end[token] > start[token];
    if (!bytes || start[token] >= covered) added.push(labels[token]);
    else if (end[token] <= covered) added.push("");
    else added.push(decoder.decode(encoder.encode(labels[token]).slice(covered - start[token])));
    covered = bytes ? Math.max(covered, end[token]) : -1;
  }
  return added;
}

/**
 * What some tokens say together.
 * @param {Pick<TokenTable, "start" | "end" | "labels">} table
 * @param {number} first
 * @param {number} last
 * @returns {string}
 */
export function joinedLabel(table, first, last) {
  return addedLabels(table, first, last).join("");
}
