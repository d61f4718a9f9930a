// @ts-check
/** The flow. */

/** @type {import("../../types.js").KeyHelp[]} */
export const flowKeys = [];

/** @type {import("../../types.js").MountScreen} */
export function mountFlow(place, app) {
  place.textContent = app.t("shell.opening");
  return { update: () => {}, key: () => false, dispose: () => {} };
}
