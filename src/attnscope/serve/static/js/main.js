// @ts-check
/**
 * Starts the app in an element: the same for the local server, a notebook cell and a stand-alone page.
 *
 * Not here: where numbers come from; the host gives a DataSource (page.js: the local server's).
 */

import { preferred } from "./i18n.js";
import { remembering } from "./parts/remember.js";
import { flowKeys, mountFlow } from "./screens/flow/screen.js";
import { homeKeys, mountHome } from "./screens/home/screen.js";
import { mapKeys, mountMap } from "./screens/map/screen.js";
import { mountOverview, overviewKeys } from "./screens/overview/screen.js";
import { runShell } from "./shell.js";
import { createStore, memoryPlace, urlPlace } from "./store.js";

/**
 * Starts the app.
 *
 * @param {HTMLElement} place   its content is replaced; give it a height
 * @param {import("./types.js").DataSource} source
 * @param {{page?: boolean, view?: Partial<import("./types.js").ViewState>}} [options]
 *     page: the app has the document to itself, so the view is in its URL and stray keys are heard;
 *     view: what to show first, where no URL says so
 * @returns {{store: import("./types.js").Store, stop: () => void}}
 */
export function start(place, source, { page = false, view = {} } = {}) {
  const language = preferred(navigator.languages ?? [navigator.language]);
  const store = createStore(page ? urlPlace(window) : memoryPlace(), { language });
  if (!page || window.location.hash.length < 2) store.set(view, { push: false });
  place.classList.add("attnscope");
  const stop = runShell(place, remembering(source), store, {
    page,
    screens: {
      home: { mount: mountHome, keys: homeKeys },
      overview: { mount: mountOverview, keys: overviewKeys },
      map: { mount: mountMap, keys: mapKeys },
      flow: { mount: mountFlow, keys: flowKeys },
    },
  });
  return {
    store,
    stop: () => {
      stop();
      store.stop();
      place.classList.remove("attnscope");
    },
  };
}
