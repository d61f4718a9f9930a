// @ts-check
/** The words of the shell in English. */

/** @type {Record<string, import("../../i18n.js").Text>} */
export const enShell = {};
