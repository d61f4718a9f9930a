// @ts-check
/** The words of the flow in English. */

/** @type {Record<string, import("../../i18n.js").Text>} */
export const enFlow = {};
