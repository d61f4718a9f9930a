// @ts-check
/** Where a text is typed and captured: model, tokens to generate, progress, cancel, what went wrong. */

import { fill, h } from "../../parts/dom.js";
import { count } from "../../parts/numbers.js";
import { faultOf, jobOf, MOST_GENERATED } from "./job.js";

/**
 * @typedef {import("../../types.js").App} App
 * @typedef {import("./job.js").JobState} JobState
 */

const STAGES = ["loading", "reading", "generating", "saving"];

/**
 * @param {App} app
 */
export function captureForm(app) {
  const { t, source, store } = app;
  const job = jobOf(app);
  const text = h("textarea", { rows: 6, spellcheck: "false", placeholder: t("home.placeholder"), "aria-label": t("home.text") });
  const model = h("select");
  const generate = h("input", { type: "number", min: 0, max: MOST_GENERATED, step: 1, value: "0" });
  const go = h("button", { class: "primary", type: "submit" }, t("home.capture"));
  const cancel = h("button", { type: "button", onclick: () => job.cancel() }, t("home.cancel"));
  const bar = h("progress", { "aria-label": t("home.progress") });
  const what = h("p", { class: "note" });
  const made = h("p", { class: "made" });
  const fault = h("p", { class: "fault", role: "alert" });
  const running = h("div", { class: "running" }, bar, what, made);
  const start = async () => {
    const want = { text: text.value, model: model.value, generate: generate.value === "" ? 0 : Number(generate.value) };
    const wrong = faultOf(want);
    fault.textContent = wrong ? t(wrong, { most: count(MOST_GENERATED) }) : "";
    if (wrong) return;
    const entry = await job.run(app, want);
    if (entry) store.set({ trace: entry.id, screen: want.generate > 0 ? "flow" : "overview" });
  };
  const element = h("form", {
    class: "capture", novalidate: true, onsubmit: /** @param {SubmitEvent} event */ (event) => {
      event.preventDefault();
      start();
    },
  }, h("h2", null, t("home.new")), text,
  h("div", { class: "tools" },
    h("label", { class: "field" }, h("span", null, t("home.model")), model),
    source.can.generate ? h("label", { class: "field" }, h("span", null, t("home.generate")), generate) : null,
    go, cancel),
  fault, running);

  /** @param {JobState} state */
  const show = (state) => {
    const busy = state.phase !== "idle";
    for (const one of [text, model, generate, go]) one.disabled = busy;
    cancel.hidden = !busy;
    cancel.disabled = state.phase === "cancelling";
    running.hidden = !busy;
    fault.textContent = state.failed ?? (state.cancelled ? t("home.cancelled") : "");
    showProgress(state);
    fill(made, h("span", { class: "prompt" }, tail(state.prompt, 240)), state.made.map((piece) => h("span", { class: "token" }, piece)));
    made.hidden = state.made.length === 0;
  };
  /** @param {JobState} state */
  const showProgress = ({ progress, phase }) => {
    if (progress && progress.total > 0) {
      bar.max = progress.total;
      bar.value = progress.done;
    } else bar.removeAttribute("value");
    if (phase === "cancelling") what.textContent = t("home.cancelling");
    else if (!progress) what.textContent = t("home.starting");
    else {
      const stage = STAGES.includes(progress.what) ? t(`home.stage.${progress.what}`) : progress.what;
      what.textContent = progress.total > 0 ? t("home.of", { stage, done: count(progress.done), total: count(progress.total) }) : stage;
    }
  };
  job.changed = show;
  if (job.state.phase !== "idle") text.value = job.state.prompt;
  show(job.state);
  listModels(app, model);
  return { element, focus: () => text.focus(), cancel: () => job.cancel(), get busy() { return job.state.phase !== "idle"; } };
}

/**
 * @param {App} app
 * @param {HTMLSelectElement} select
 */
async function listModels({ source, t, fail }, select) {
  try {
    const models = await source.models();
    fill(select, models.map((one) => h("option", { value: one.name, disabled: !one.installed },
      one.installed ? one.name : t("home.not_installed", { name: one.name }))));
    const first = models.find((one) => one.installed);
    select.value = first?.name ?? "";
  } catch (error) {
    fail(error instanceof Error ? error.message : String(error));
  }
}

/** @param {string} text @param {number} most */
function tail(text, most) {
  const letters = [...text];
  return letters.length > most ? `…${letters.slice(-most).join("")}` : text;
}
