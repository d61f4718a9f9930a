// @ts-check
/** A text typed on the page and captured by the server: model, progress, cancel, what went wrong. */

import { fill, h } from "../../parts/dom.js";
import { faultOfText } from "../../source/capture.js";
import { isAbort } from "../../source/errors.js";

const STAGES = ["loading", "reading", "saving"];

/**
 * @param {import("./source.js").Source} source
 * @param {import("../parts.js").Say} t
 * @param {(entry: import("../../types.js").TraceEntry) => void} onDone
 */
export function captureForm(source, t, onDone) {
  /** @type {AbortController | null} */
  let control = null;
  const text = h("textarea", { rows: 3, spellcheck: "false", "aria-label": t("own.typed"), placeholder: t("own.typed.placeholder"), data: { name: "own.text" } });
  const model = h("select", { data: { name: "own.model" } });
  const go = h("button", { type: "submit", data: { name: "own.capture" } }, t("own.capture"));
  const cancel = h("button", { type: "button", hidden: true, data: { name: "own.cancel" }, onclick: () => control?.abort() }, t("own.cancel"));
  const bar = h("progress", { "aria-label": t("own.progress"), hidden: true });
  const said = h("p", { class: "note", role: "status" });
  const none = h("p", { class: "note", hidden: true }, t("own.no_model"), " ", h("code", null, "attnscope models pull smollm2"));
  const rows = h("div", { class: "own-fields" }, h("label", null, h("span", null, t("own.model")), model), go, cancel);

  /** @param {boolean} on */
  function busy(on) {
    text.disabled = model.disabled = go.disabled = on;
    cancel.hidden = bar.hidden = !on;
    bar.removeAttribute("value");
  }
  /** @param {import("../../types.js").CaptureEvent} event */
  function heard(event) {
    if (event.kind !== "progress" || !STAGES.includes(event.what)) return;
    if (event.total > 0) {
      bar.max = event.total;
      bar.value = event.done;
    }
    said.textContent = t(`own.stage.${event.what}`);
  }
  async function start() {
    const wrong = faultOfText(text.value);
    said.textContent = t(wrong ? `own.fault.${wrong}` : "own.starting");
    if (wrong || control) return;
    control = new AbortController();
    busy(true);
    try {
      const entry = await source.capture({ text: text.value, model: model.value, generate: 0 }, heard, control.signal);
      said.textContent = "";
      onDone(entry);
    } catch (error) {
      said.textContent = isAbort(error) ? t("own.cancelled") : error instanceof Error ? error.message : String(error);
    } finally {
      control = null;
      busy(false);
    }
  }
  const element = h("form", { class: "own-capture", novalidate: true, onsubmit: (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    start();
  } }, text, rows, none, bar, said);
  return {
    element,
    /** Asks which models are installed. */
    list: async () => {
      const models = await source.models();
      const here = models.filter((one) => one.installed);
      fill(model, here.map((one) => h("option", { value: one.name }, one.name)));
      none.hidden = here.length > 0;
      rows.hidden = here.length === 0;
      text.hidden = here.length === 0;
    },
  };
}
