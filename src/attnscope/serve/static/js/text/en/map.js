// @ts-check
/** The words of the map in English. */

/** @type {Record<string, import("../../i18n.js").Text>} */
export const enMap = {};
