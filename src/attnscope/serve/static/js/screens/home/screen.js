// @ts-check
/**
 * The first screen: the captured texts that are open, and where the source can, a place to capture one.
 *
 * Not here: capturing itself (job.js and the source).
 */

import { explain } from "../../source/errors.js";
import { fill, h } from "../../parts/dom.js";
import { count } from "../../parts/numbers.js";
import { captureForm } from "./form.js";

/**
 * @typedef {import("../../types.js").App} App
 * @typedef {import("../../types.js").TraceEntry} TraceEntry
 * @typedef {import("../../types.js").ViewState} ViewState
 */

/** @type {import("../../types.js").KeyHelp[]} */
export const homeKeys = [
  { keys: ["N"], text: "home.key.new" },
  { keys: ["Esc"], text: "home.key.cancel" },
];

const DESCRIBED = 20;

/** @type {import("../../types.js").MountScreen} */
export function mountHome(place, app) {
  const { t, source } = app;
  const form = source.can.capture && source.capture ? captureForm(app) : null;
  const list = h("div", { class: "list" });
  fill(place, h("div", { class: "page" },
    h("section", null, h("h1", null, t("home.title")), h("p", { class: "lead" }, t("home.lead")), list),
    form ? h("section", { class: "panel" }, form.element) : null));
  let asked = 0;

  /** @param {ViewState} now */
  const update = async (now) => {
    const mine = ++asked;
    try {
      const entries = await source.traces();
      if (mine === asked) showList(app, list, entries, now.trace);
    } catch (error) {
      app.fail(explain(error, t));
    }
  };
  return {
    update: (now, before) => {
      if (!before || now.trace !== before.trace || now.screen !== before.screen) update(now);
    },
    key: (event) => {
      if (event.key === "Escape" && form?.busy) {
        form.cancel();
        return true;
      }
      if ((event.key === "n" || event.key === "N") && form) {
        form.focus();
        return true;
      }
      return false;
    },
    dispose: () => void asked++,
  };
}

/**
 * @param {App} app
 * @param {HTMLElement} list
 * @param {TraceEntry[]} entries
 * @param {string | null} current
 */
function showList(app, list, entries, current) {
  const { t, store } = app;
  if (entries.length === 0) return fill(list, h("p", { class: "note" }, t("home.none")));
  const rows = entries.map((entry) => {
    const more = h("td", { class: "note" });
    const row = h("tr", { class: entry.id === current ? "current" : null },
      h("th", { scope: "row" }, h("button", { class: "quiet", onclick: () => store.set({ trace: entry.id, screen: "overview" }) }, h("bdi", null, entry.name))),
      h("td", null, h("bdi", null, entry.model)),
      h("td", { class: "number" }, count(entry.tokens)), more);
    return { entry, row, more };
  });
  fill(list, h("table", { class: "panel" },
    h("thead", null, h("tr", null, ["home.text", "home.model", "home.tokens", "home.shape"].map((key, index) =>
      h("th", { scope: "col", class: index === 2 ? "number" : null }, t(key))))),
    h("tbody", null, rows.map((one) => one.row))));
  describe(app, rows.slice(0, DESCRIBED));
}

/**
 * Says layer by layer what each trace is, one trace after another.
 * @param {App} app
 * @param {{entry: TraceEntry, more: HTMLElement}[]} rows
 */
async function describe({ source, t }, rows) {
  for (const { entry, more } of rows) {
    try {
      const { model, layers, prompt_tokens: prompt } = await source.info(entry.id);
      const maps = layers.filter((one) => one.kind !== "none").length;
      const parts = [t("home.layers", { count: layers.length, maps }), t("home.heads", { count: model.query_heads, kv: model.kv_heads })];
      if (prompt < entry.tokens) parts.push(t("home.generated", { count: entry.tokens - prompt, shown: count(entry.tokens - prompt) }));
      more.textContent = parts.join(" · ");
    } catch (error) {
      more.textContent = explain(error, t);
    }
  }
}
