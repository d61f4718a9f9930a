// @ts-check
/** The words of the map in Chinese. */

/** @type {Record<string, import("../../i18n.js").Text>} */
export const zhMap = {};
