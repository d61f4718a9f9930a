// @ts-check
/** The help dialog: every key, by screen. Each screen lists its own. */

import { h } from "./dom.js";
import { icon } from "./icons.js";

/** @type {import("../types.js").KeyHelp[]} */
const EVERYWHERE = [
  { keys: ["1", "2", "3", "4"], text: "shell.key.screens" },
  { keys: ["Tab", "Shift+Tab"], text: "shell.key.tab" },
  { keys: ["Esc"], text: "shell.key.escape" },
  { keys: ["?"], text: "shell.key.help" },
];

/**
 * @param {import("../types.js").App["t"]} t
 * @param {import("../shell.js").Screens} screens
 * @returns {HTMLDialogElement}
 */
export function helpDialog(t, screens) {
  const own = `attnscope-help-${Math.random().toString(36).slice(2, 8)}`;
  const group = (/** @type {string} */ title, /** @type {import("../types.js").KeyHelp[]} */ keys) =>
    keys.length === 0 ? null : h("section", null, h("h3", null, title), h("dl", null, keys.map((one) => [
      h("dt", null, one.keys.map((key) => h("kbd", null, key))), h("dd", null, t(one.text)),
    ]).flat()));
  const dialog = h("dialog", { class: "help", "aria-labelledby": own },
    h("header", null, h("h2", { id: own }, t("shell.help.title")),
      h("button", { class: "quiet", "aria-label": t("shell.close"), title: t("shell.close"), onclick: () => dialog.close() }, icon("close"))),
    h("div", { class: "groups" },
      group(t("shell.help.everywhere"), EVERYWHERE),
      Object.entries(screens).map(([name, { keys }]) => group(t(`shell.screen.${name}`), keys))),
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  return dialog;
}
