// @ts-check
/** The words of the overview in Chinese. */

/** @type {Record<string, import("../../i18n.js").Text>} */
export const zhOverview = {};
