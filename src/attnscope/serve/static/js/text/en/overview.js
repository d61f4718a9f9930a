// @ts-check
/** The words of the overview in English. */

/** @type {Record<string, import("../../i18n.js").Text>} */
export const enOverview = {};
