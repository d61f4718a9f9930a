// @ts-check
/**
 * Brings a page of the course to life: cards, predictions, formulas, exercises, widgets, notes.
 *
 * The idea: the page is whole without a script (text, formulas, tables); what it carries as JSON is
 * all that the script needs, so a page works from disk.
 *
 * Not here: any widget.
 */

import { h } from "../parts/dom.js";
import { translator } from "../i18n.js";
import { enWidgets } from "../text/en/widgets.js";
import { zhWidgets } from "../text/zh/widgets.js";
import { mountExercises, mountFormulas, mountPredictions } from "./asking.js";
import { mountCards } from "./cards.js";
import { mountContents, mountFlow, mountPrinting, mountScheme, mountScrolling } from "./chrome.js";
import { mountNotes } from "./notes.js";
import { mountOwn } from "./own/control.js";
import { ownOf } from "./own/registry.js";
import { sourceAt } from "./own/source.js";
import { WIDGETS } from "./registry.js";

/** @param {HTMLElement} root */
function begin(root) {
  const carried = root.querySelector("script.carried");
  const data = JSON.parse(carried?.textContent ?? "{}");
  const t = translator(data.language, { en: enWidgets, zh: zhWidgets });
  mountScheme(root);
  mountContents(root);
  mountFlow(root);
  mountPrinting(root);
  mountPredictions(root, t);
  mountExercises(root, t);
  mountFormulas(root, t);
  mountCards(root, data.figures ?? {}, data.terms ?? {}, t);
  mountNotes(root, data, t);
  const source = data.server ? sourceAt(new URL(data.server, location.href).href) : null;
  for (const { id, name, options, data: given } of data.widgets) {
    const section = root.querySelector(`[id="${id}"]`);
    const place = section?.querySelector(":scope > .stand");
    if (!(section instanceof HTMLElement && place instanceof HTMLElement)) continue;
    const lesson = () => WIDGETS[name](place, options, given ?? {}, t);
    const own = ownOf(name, options);
    try {
      if (own) mountOwn(section, place, { own, options, lesson }, { t, source });
      else lesson();
    } catch (error) {
      place.append(h("p", { class: "verdict bad" }, t("widget.failed")));
      console.error(error);
    }
  }
  mountScrolling(root);
  root.classList.add("live");
}

const root = document.getElementById("course");
if (root) begin(root);
