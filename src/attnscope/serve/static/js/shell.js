// @ts-check
/**
 * The frame around the screens: header, help, messages, live region, and the one place that hears keys.
 *
 * The idea: a screen is mounted once, hidden while another is shown, and told of every change while it
 * is shown. A change of language mounts everything anew, so no screen needs to know of it.
 *
 * Not here: what the screens show (screens/), where numbers come from (source/), the words (text/).
 */

import { translator } from "./i18n.js";
import { helpDialog } from "./parts/help.js";
import { h } from "./parts/dom.js";
import { takesKeys } from "./parts/focus.js";
import { header } from "./parts/header.js";
import { messageList } from "./parts/messages.js";
import { watchScheme } from "./parts/scheme.js";
import { explain, isAbort } from "./source/errors.js";
import { fit, SCREENS } from "./store.js";

/**
 * @typedef {import("./types.js").App} App
 * @typedef {import("./types.js").Screen} Screen
 * @typedef {import("./types.js").ScreenName} ScreenName
 * @typedef {import("./types.js").TraceEntry} TraceEntry
 * @typedef {import("./types.js").ViewState} ViewState
 * @typedef {Record<ScreenName, {mount: import("./types.js").MountScreen, keys: import("./types.js").KeyHelp[]}>} Screens
 * @typedef {{screen: Screen, box: HTMLElement, seen: ViewState | null}} Mounted
 */

/**
 * Builds the app in an element and keeps it up to date until it is stopped.
 * @param {HTMLElement} root
 * @param {import("./types.js").DataSource} source
 * @param {import("./types.js").Store} store
 * @param {{screens: Screens, page: boolean}} options   page: the app has the document to itself
 * @returns {() => void}  the way to stop
 */
export function runShell(root, source, store, { screens, page }) {
  const shell = new Shell(root, source, store, { screens, page });
  shell.open();
  return () => shell.stop();
}

class Shell {
  /**
   * @param {HTMLElement} root
   * @param {import("./types.js").DataSource} source
   * @param {import("./types.js").Store} store
   * @param {{screens: Screens, page: boolean}} options
   */
  constructor(root, source, store, { screens, page }) {
    this.root = root;
    this.source = source;
    this.store = store;
    this.screens = screens;
    this.page = page;
    /** @type {TraceEntry[]} */
    this.traces = [];
    /** @type {Map<ScreenName, Mounted>} */
    this.mounted = new Map();
    this.ready = false;
    this.t = translator(store.get().language);
    this.live = h("div", { class: "unseen", role: "status", "aria-live": "polite" });
    this.messages = messageList((key, values) => this.t(key, values));
    this.stage = h("main", { class: "stage", tabindex: "-1" });
    this.head = header(this.frame());
    this.help = helpDialog(this.t, screens);
    /** @type {App} */
    this.app = {
      source, store, root,
      t: (key, values) => this.t(key, values),
      say: (text) => this.say(text),
      fail: (message) => this.messages.add(message),
    };
    this.stops = [
      store.subscribe((now, before, linked) => this.changed(now, before, linked)),
      watchScheme(root, store),
      this.listen(),
    ];
    this.build();
  }

  /** What the header may see and do. */
  frame() {
    return {
      t: /** @type {App["t"]} */ ((key, values) => this.t(key, values)),
      set: this.store.set,
      openHelp: () => this.help.showModal(),
    };
  }

  /** The keys: those of the app's own elements, and on a page those that nobody else has. */
  listen() {
    const key = /** @param {KeyboardEvent} event */ (event) => this.key(event);
    const stray = /** @param {KeyboardEvent} event */ (event) => {
      if (event.target === document.body || event.target === document.documentElement) this.key(event);
    };
    this.root.addEventListener("keydown", key);
    if (this.page) document.addEventListener("keydown", stray);
    return () => {
      this.root.removeEventListener("keydown", key);
      document.removeEventListener("keydown", stray);
    };
  }

  /** Makes the frame in the current language. */
  build() {
    const { language } = this.store.get();
    this.root.lang = language === "zh" ? "zh-Hans" : "en";
    if (this.page) document.documentElement.lang = this.root.lang;
    this.stage.replaceChildren();
    this.stage.id ||= `attnscope-stage-${Math.random().toString(36).slice(2, 8)}`;
    const skip = h("button", { class: "skip", onclick: () => this.stage.focus() }, this.t("shell.skip"));
    this.root.replaceChildren(
      skip,
      h("div", { class: "frame" }, this.head.element, this.stage),
      this.messages.element, this.live, this.help,
    );
    this.head.update(this.store.get(), this.traces, this.stage.id);
  }

  /** Asks what there is, then shows the screen the URL names. */
  async open() {
    this.stage.replaceChildren(h("p", { class: "waiting" }, this.t("shell.opening")));
    try {
      this.traces = await this.source.traces();
    } catch (error) {
      this.failed(error);
    }
    this.ready = true;
    this.stage.replaceChildren();
    const state = this.store.get();
    const known = this.traces.some((one) => one.id === state.trace);
    if (state.trace !== null && !known) this.messages.add(this.t("shell.no_trace", { name: state.trace }));
    if (!known) {
      const first = this.traces[0]?.id ?? null;
      this.store.set({ trace: first, ...(first === null ? { screen: "home" } : {}) }, { push: false });
    }
    await this.settle(known);
    this.show(this.store.get());
  }

  /** Brings the view inside what the trace has. @param {boolean} linked   whether a link named it: then it is said what is not there */
  async settle(linked) {
    const { trace } = this.store.get();
    if (trace === null) return;
    try {
      const info = await this.source.info(trace);
      const state = this.store.get();
      if (state.trace !== trace) return;
      const change = fit(state, info);
      const absent = linked ? this.absent(state, change) : [];
      if (absent.length) this.messages.add(this.t("shell.absent", { names: absent.join(this.t("shell.absent.join")) }));
      this.store.set(change, { push: false });
    } catch (error) {
      this.failed(error);
    }
  }

  /**
   * What a link names and the text does not have, in words.
   * @param {ViewState} state
   * @param {Partial<ViewState>} change   by `fit`
   * @returns {string[]}
   */
  absent({ layer, head, queries, keys }, change) {
    const range = (/** @type {[number, number] | null} */ one) => one && (one[0] === one[1] ? String(one[0]) : `${one[0]}–${one[1]}`);
    return [
      change.layer === null ? this.t("shell.absent.layer", { layer: String(layer) })
        : change.head === null ? this.t("shell.absent.head", { layer: String(layer), head: String(head) }) : "",
      change.queries === null ? this.t("shell.absent.query", { at: String(range(queries)) }) : "",
      change.keys === null ? this.t("shell.absent.key", { at: String(range(keys)) }) : "",
    ].filter(Boolean);
  }

  /** @param {ViewState} now @param {ViewState} before @param {boolean} linked   whether the URL changed it */
  async changed(now, before, linked) {
    if (!this.ready) return;
    if (now.language !== before.language) {
      this.unmount();
      this.t = translator(now.language);
      this.head = header(this.frame());
      this.help = helpDialog(this.t, this.screens);
      this.build();
      this.head.focusLanguage();
    }
    if (now.trace !== before.trace) {
      if (!this.traces.some((one) => one.id === now.trace)) await this.refresh();
      await this.settle(linked);
    } else if (linked || (now.screen === "map" && before.screen !== "map")) await this.settle(linked);
    this.show(this.store.get());
  }

  /** Reads the list of traces again: one was captured. */
  async refresh() {
    try {
      this.traces = await this.source.traces();
    } catch (error) {
      this.failed(error);
    }
  }

  /** @param {ViewState} now */
  show(now) {
    const name = now.trace === null ? "home" : now.screen;
    this.head.update({ ...now, screen: name }, this.traces, this.stage.id);
    if (this.page) document.title = this.title(name);
    for (const [other, { box }] of this.mounted) box.hidden = other !== name;
    let one = this.mounted.get(name);
    if (!one) {
      const box = h("div", { class: `screen ${name}` });
      this.stage.append(box);
      one = { box, seen: null, screen: this.screens[name].mount(box, this.app) };
      this.mounted.set(name, one);
    }
    this.stage.setAttribute("aria-labelledby", this.head.tabId(name));
    if (one.seen === now) return;
    const before = one.seen;
    one.seen = now;
    one.screen.update(now, before);
  }

  /** @param {ScreenName} screen */
  title(screen) {
    const entry = this.traces.find((one) => one.id === this.store.get().trace);
    return [entry?.name, this.t(`shell.screen.${screen}`), "attnscope"].filter(Boolean).join(" · ");
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const { target, key } = event;
    if (takesKeys(target) || this.help.open) return;
    const presses = key === "Enter" || key === " ";
    if (presses && target instanceof Element && target.closest("button, a[href], summary, [role=tab]")) return;
    if (this.used(event)) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  used(event) {
    if (event.key === "?") {
      this.help.showModal();
      return true;
    }
    const state = this.store.get();
    const digit = ["1", "2", "3", "4"].indexOf(event.key);
    if (digit >= 0 && this.head.can(SCREENS[digit])) {
      this.store.set({ screen: SCREENS[digit] });
      return true;
    }
    const name = state.trace === null ? "home" : state.screen;
    if (this.mounted.get(name)?.screen.key(event)) return true;
    return event.key === "Escape" && this.messages.closeLast();
  }

  /** @param {string} text */
  say(text) {
    // The same words twice are spoken twice only if the region was empty in between.
    this.live.textContent = "";
    setTimeout(() => (this.live.textContent = text), 30);
  }

  /** @param {unknown} error */
  failed(error) {
    if (!isAbort(error)) this.messages.add(explain(error, this.t));
  }

  unmount() {
    for (const { screen } of this.mounted.values()) screen.dispose();
    this.mounted.clear();
  }

  stop() {
    this.unmount();
    for (const stop of this.stops) stop();
    this.root.replaceChildren();
  }
}
