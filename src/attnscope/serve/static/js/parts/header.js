// @ts-check
/**
 * The header: the mark, the screens as tabs, the trace picker, and the switches.
 *
 * Not here: what happens on a change (the store), the help dialog (help.js).
 */

import { fill, h } from "./dom.js";
import { along } from "./focus.js";
import { count } from "./numbers.js";
import { icon } from "./icons.js";
import { LANGUAGES, SCREENS, THEMES } from "../store.js";

/**
 * @typedef {import("../types.js").ViewState} ViewState
 * @typedef {import("../types.js").TraceEntry} TraceEntry
 * @typedef {import("../types.js").ScreenName} ScreenName
 * @typedef {{t: import("../types.js").App["t"], set: import("../types.js").Store["set"], openHelp: () => void}} Frame
 */

/**
 * @param {Frame} frame
 */
export function header({ t, set, openHelp }) {
  const own = Math.random().toString(36).slice(2, 8);
  const tabId = /** @param {ScreenName} name */ (name) => `attnscope-${own}-${name}`;
  const tabs = SCREENS.map((name, index) =>
    h("button", {
      role: "tab", id: tabId(name), data: { screen: name }, onclick: () => set({ screen: name }),
      onkeydown: /** @param {KeyboardEvent} event */ (event) => moveTab(event, tabs, index),
    }, t(`shell.screen.${name}`)));
  const select = h("select", {
    "aria-label": t("shell.trace"),
    onchange: () => set({ trace: select.value, ...(current.trace === null ? { screen: "overview" } : {}) }),
  });
  const picker = h("div", { class: "picker" }, select);
  const theme = h("button", { class: "quiet theme", onclick: () => set({ theme: after(THEMES, current.theme) }) });
  const language = h("button", { class: "quiet language", onclick: () => set({ language: after(LANGUAGES, current.language) }) });
  const help = h("button", { class: "quiet", "aria-label": t("shell.help"), title: t("shell.help"), onclick: openHelp }, "?");
  const element = h("header", { class: "head" },
    h("div", { class: "mark" }, icon("mark"), h("span", null, "attnscope")),
    h("div", { class: "tabs", role: "tablist", "aria-label": t("shell.screens") }, tabs),
    picker,
    h("div", { class: "switches" }, language, theme, help));
  /** @type {ViewState} */
  let current;
  /** @type {TraceEntry[] | null} */
  let listed = null;

  /** @param {ViewState} now @param {TraceEntry[]} traces @param {string} panel */
  const update = (now, traces, panel) => {
    current = now;
    for (const tab of tabs) {
      const on = tab.dataset.screen === now.screen;
      tab.setAttribute("aria-selected", String(on));
      tab.setAttribute("aria-controls", panel);
      tab.tabIndex = on ? 0 : -1;
      tab.hidden = now.trace === null && tab.dataset.screen !== "home";
    }
    if (listed !== traces) {
      listed = traces;
      fill(select, traces.map((one) => h("option", { value: one.id }, entryText(one, t))));
    }
    picker.hidden = traces.length === 0;
    select.value = now.trace ?? "";
    const themeText = t(`shell.theme.${now.theme}`);
    fill(theme, icon(now.theme));
    theme.title = themeText;
    theme.setAttribute("aria-label", themeText);
    const other = after(LANGUAGES, now.language);
    fill(language, h("span", { lang: other === "zh" ? "zh-Hans" : "en" }, other === "zh" ? "中文" : "English"));
  };
  return {
    element, update, tabId,
    can: /** @param {ScreenName} name */ (name) => name === "home" || (current?.trace ?? null) !== null,
    focusLanguage: () => language.focus(),
  };
}

/** @param {TraceEntry} entry @param {Frame["t"]} t */
function entryText(entry, t) {
  return `${entry.name} · ${entry.model} · ${t("shell.tokens", { count: entry.tokens, shown: count(entry.tokens) })}`;
}

/** @param {KeyboardEvent} event @param {HTMLElement[]} tabs @param {number} index */
function moveTab(event, tabs, index) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const shown = tabs.filter((tab) => !tab.hidden);
  const to = along(event.key, shown.indexOf(tabs[index]), shown.length);
  if (to === null) return;
  event.preventDefault();
  shown[to].click();
  shown[to].focus();
}

/**
 * @template T
 * @param {readonly T[]} values
 * @param {T} value
 * @returns {T}
 */
function after(values, value) {
  return values[(values.indexOf(value) + 1) % values.length];
}
