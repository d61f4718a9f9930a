// @ts-check
/** The words of the shell in Chinese. */

/** @type {Record<string, import("../../i18n.js").Text>} */
export const zhShell = {};
