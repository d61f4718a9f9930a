// @ts-check
/**
 * The app in a notebook's cell, by anywidget: `render` is called with the widget's model.
 *
 * The idea: a notebook is a server whose wire is the notebook's own channel, so the source is the
 * server's with another fetch.
 *
 * Not here: the channel (source/notebook.js). The default export is added when the file is joined.
 */

import { start } from "./main.js";
import { createHttpSource } from "./source/http.js";
import { channelFetch } from "./source/notebook.js";

/** No such host: the path alone is asked of the kernel. */
const BASE = "http://notebook.invalid/";

/**
 * @param {{model: any, el: HTMLElement}} given
 * @returns {() => void}
 */
export function render({ model, el }) {
  const place = document.createElement("div");
  place.style.height = `${Number(model.get("height")) || 640}px`;
  el.append(place);
  const source = createHttpSource({ base: BASE, fetch: channelFetch(model) });
  const can = { capture: false, generate: false, export: true };
  const app = start(place, { ...source, can, capture: null }, { view: model.get("view") ?? {} });
  return () => {
    app.stop();
    place.remove();
  };
}
