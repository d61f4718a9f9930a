// @ts-check
/** The words of the frame and of the first screen, in English. */

/** @type {Record<string, import("../../i18n.js").Text>} */
export const enShell = {
  "shell.skip": "Skip to the content",
  "shell.opening": "Opening…",
  "shell.screens": "Screens",
  "shell.screen.home": "Texts",
  "shell.screen.overview": "Overview",
  "shell.screen.map": "Map",
  "shell.screen.flow": "Flow",
  "shell.trace": "Captured text",
  "shell.tokens": { one: "{shown} token", other: "{shown} tokens" },
  "shell.no_trace": "The link names a captured text that is not open here: {name}.",
  "shell.theme.auto": "Theme: as the system",
  "shell.theme.light": "Theme: light",
  "shell.theme.dark": "Theme: dark",
  "shell.help": "Keyboard help",
  "shell.help.title": "Keyboard",
  "shell.help.everywhere": "Everywhere",
  "shell.key.screens": "Texts, overview, map, flow",
  "shell.key.tab": "Next or previous control",
  "shell.key.escape": "Unlock, go back, close a message",
  "shell.key.help": "This help",
  "shell.close": "Close",
};
