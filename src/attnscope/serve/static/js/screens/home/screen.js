// @ts-check
/** The home. */

/** @type {import("../../types.js").KeyHelp[]} */
export const homeKeys = [];

/** @type {import("../../types.js").MountScreen} */
export function mountHome(place, app) {
  place.textContent = app.t("shell.opening");
  return { update: () => {}, key: () => false, dispose: () => {} };
}
