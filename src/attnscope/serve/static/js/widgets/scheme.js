// @ts-check
/**
 * Light or dark before the first paint: a script that stands right inside the root it writes to.
 *
 * Not here: the button that changes it (chrome.js).
 */

import { keptScheme } from "./keep.js";

const root = document.currentScript?.parentElement;
if (root) {
  root.dataset.scheme = keptScheme() ?? (window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}
