// @ts-check
/** The words of the flow in Chinese. */

/** @type {Record<string, import("../../i18n.js").Text>} */
export const zhFlow = {};
