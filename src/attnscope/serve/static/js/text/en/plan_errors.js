// @ts-check
/** The planner's sentences that speak of the command line, for its page, in English; see planner/words.js. */

/** @type {[string, string][]} */
export const EN_ERRORS = [
  ["{=what} If all its layers are ordinary attention, --assume-full (assume_full=True) plans it so, marked.", "{what} If all its layers are ordinary attention, tick “Take an unknown architecture for ordinary attention in every layer”, under “What if: other heads, windows and formats”; the answer is then marked."],
];
