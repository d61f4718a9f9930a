// @ts-check
/** Every widget by the name that a lesson gives it; the same names as in Python (site/widgets.py). */

import { mountGrowth } from "./growth.js";
import { mountJacobian } from "./jacobian.js";
import { mountProperties } from "./properties.js";
import { mountRules } from "./rules.js";
import { mountSpread } from "./spread.js";
import { mountTemperature } from "./temperature.js";

/**
 * @typedef {(place: HTMLElement, options: Record<string, string>, data: any, t: import("./parts.js").Say) => {dispose: () => void}} Mount
 */

/** @type {Record<string, Mount>} */
export const WIDGETS = {
  rules: mountRules,
  properties: mountProperties,
  spread: mountSpread,
  jacobian: mountJacobian,
  temperature: mountTemperature,
  growth: mountGrowth,
};
