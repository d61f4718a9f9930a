// @ts-check
/**
 * Scores of a head whose keys are kept in fewer numbers: the best approximation of its square of
 * scores by a product of so many columns. A twin of numpy's singular value decomposition.
 *
 * Formula: S_r = S V_r V_r^T, V_r the eigenvectors of S^T S with the r largest eigenvalues. The rows
 * of V_r are what is kept of each key, S V_r is the query merged with the table that reads them.
 *
 * Not here: the teaching world's latents (latent.js).
 */

import { eigenvectors, transpose } from "./latent.js";
import { multiply } from "./world.js";

/** The last head's eigenvectors, which cost most. @type {WeakMap<object, number[][]>} */
const known = new WeakMap();

/**
 * @param {import("../own/handout.js").Head} head
 * @param {number} numbers
 * @returns {(number | null)[][]}   null where the head's own score is
 */
export function squeezedScores(head, numbers) {
  const scores = head.scores.map((row) => row.map((one) => one ?? 0));
  const all = known.get(head) ?? eigenvectors(multiply(transpose(scores), scores));
  known.set(head, all);
  const up = all.slice(0, numbers);
  return multiply(multiply(scores, transpose(up)), up).map((row, i) => row.map((one, j) => (head.scores[i][j] === null ? null : one)));
}
