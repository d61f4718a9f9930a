// @ts-check
/**
 * From the view's words to what the drawing needs: which scale holds, and between which values.
 *
 * Not here: the formulas of the scales (draw/scale.js).
 */

import { naturalRange, scaleFits } from "../../draw/scale.js";

/** @typedef {import("../../draw/scale.js").Look} Look */
/** @typedef {import("../../types.js").ViewState} ViewState */
/** @typedef {import("./subject.js").Subject} Subject */

/**
 * The scale that is shown: one that has no meaning for the measure or the layer is shown as it is.
 * @param {ViewState} state
 * @param {Subject | null} subject
 * @returns {import("../../draw/scale.js").ScaleName}
 */
export function scaleOf(state, subject) {
  if (!scaleFits(state.scale, state.measure)) return "raw";
  if (state.scale === "expected" && subject && !(subject.layer.causal && !subject.layer.cross)) return "raw";
  return state.scale;
}

/**
 * @param {ViewState} state
 * @param {Subject | null} subject
 * @returns {{look: Look, natural: [number, number]}}
 */
export function lookOf(state, subject) {
  const scale = scaleOf(state, subject);
  const natural = naturalRange(scale, state.measure, subject?.largest ?? 1);
  const usable = state.range && (scale === "raw" || state.range[0] > 0);
  const [low, high] = usable && state.range ? state.range : natural;
  const plane = subject && scale === "uniform" && !subject.sightKnown ? "mean" : state.plane;
  return { look: { scale, plane, low, high, palette: state.palette }, natural };
}
