// @ts-check
/** The overview. */

/** @type {import("../../types.js").KeyHelp[]} */
export const overviewKeys = [];

/** @type {import("../../types.js").MountScreen} */
export function mountOverview(place, app) {
  place.textContent = app.t("shell.opening");
  return { update: () => {}, key: () => false, dispose: () => {} };
}
