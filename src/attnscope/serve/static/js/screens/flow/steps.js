// @ts-check
/** For a generated text: one token after another, and the row that chose it. */

import { fill, h } from "../../parts/dom.js";
import { count } from "../../parts/numbers.js";
import { visible } from "./tokens.js";

/**
 * @param {import("../../types.js").App} app
 * @param {(token: number) => void} go   to the step that made a token
 */
export function stepper({ t }, go) {
  const slider = h("input", { type: "range", step: 1, "aria-label": t("flow.step"), oninput: () => go(Number(slider.value)) });
  const back = h("button", { onclick: () => go(Number(slider.value) - 1), "aria-label": t("flow.step_back"), title: t("flow.step_back") }, "‹");
  const on = h("button", { onclick: () => go(Number(slider.value) + 1), "aria-label": t("flow.step_on"), title: t("flow.step_on") }, "›");
  const text = h("p", { class: "note" });
  const element = h("div", { class: "steps", hidden: true }, back, slider, on, text);
  /**
   * @param {import("../../types.js").TokenTable} table
   * @param {number} prompt   tokens before the generated ones
   * @param {[number, number] | null} queries
   */
  const update = (table, prompt, queries) => {
    const total = table.ids.length;
    element.hidden = prompt >= total;
    if (element.hidden) return;
    slider.min = String(prompt);
    slider.max = String(total - 1);
    const made = queries && queries[0] === queries[1] ? queries[0] + 1 : -1;
    const stands = made >= prompt && made < total;
    slider.value = String(stands ? made : prompt);
    back.disabled = stands && made <= prompt;
    on.disabled = stands && made >= total - 1;
    const label = stands ? t("flow.step_at", { step: count(made - prompt + 1), steps: count(total - prompt), query: count(made - 1), token: visible(table.labels[made]) })
      : t("flow.step_none", { count: total - prompt, shown: count(total - prompt) });
    slider.setAttribute("aria-valuetext", label);
    fill(text, label);
  };
  return { element, update };
}
