// @ts-check
/**
 * What the reader asks: models, context, batch, the cache's format, room.
 *
 * The idea: native controls, each of which writes one field of the view as text; nothing is judged
 * here, so that what is wrong with a field is always the planner's own sentence.
 *
 * Not here: the answer (answer.js), the address (view.js).
 */

import { h } from "../parts/dom.js";
import { count } from "../parts/numbers.js";
import { START } from "./view.js";

const PASTED = "…";
/** The configs that the planner takes from a page, in bytes of a file. */
const MOST_FILE = 1 << 20;
const MOST_POWER = 24;
/** The fields of the folded part: it opens where one of them asks for something. @type {(keyof View)[]} */
const FOLDED = ["heads", "window", "share", "form", "device", "assume"];

/**
 * @typedef {import("./view.js").View} View
 * @typedef {{builtIn: string[], devices: string[], formats: string[], dtypes: string[]}} Known
 * @typedef {(change: Partial<View>, soon: boolean) => void} OnChange   soon: the reader still types
 */

/**
 * @param {Known} known
 * @param {import("../widgets/parts.js").Say} t
 * @param {OnChange} onChange
 */
export function makeForm(known, t, onChange) {
  const first = chooser({ field: "model", text: "config", label: t("planner.model"), known, none: null }, t, onChange);
  const second = chooser({ field: "versus", text: "other", label: t("planner.versus"), known, none: t("planner.versus.none") }, t, onChange);
  const context = contextField(t, onChange);
  const batch = field("batch", t("planner.batch"), { type: "number", min: 1, step: 1 }, onChange);
  const heads = field("heads", t("planner.heads"), { type: "text", inputmode: "numeric" }, onChange);
  const weights = field("weights", t("planner.weights"), { type: "text" }, onChange);
  const dtype = choice("dtype", t("planner.dtype"), [["", t("planner.dtype.own")], ...same(known.formats)], onChange);
  const form = choice("form", t("planner.form"), [["", t("planner.form.own")], ...same(known.dtypes)], onChange);
  const device = choice("device", t("planner.ridge.of"), [["", t("planner.ridge.room")], ...same(known.devices)], onChange);
  const window = field("window", t("planner.window.if"), { type: "number", min: 1, step: 1, placeholder: t("planner.as") }, onChange);
  const share = field("share", t("planner.share.if"), { type: "text", placeholder: t("planner.as") }, onChange);
  const room = roomField(known.devices, t, onChange);
  const assume = h("input", { type: "checkbox", data: { field: "assume" }, onchange: () => onChange({ assume: assume.checked }, false) });
  const fields = [first, second, context, batch, heads, weights, dtype, form, room, device, window, share];
  const more = h("details", { class: "more" }, h("summary", null, t("planner.more")),
    h("p", { class: "note" }, t("planner.more.about")),
    h("div", { class: "asked" }, heads.element, window.element, share.element, form.element, device.element),
    h("label", { class: "check assume" }, assume, h("span", null, t("planner.assume"))));
  const element = h("form", { class: "planner-form", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    h("div", { class: "models" }, first.element, second.element),
    h("div", { class: "asked" }, context.element, batch.element, dtype.element, room.element, weights.element), more);
  mountDrop(element, (name, text) => {
    onChange({ model: name, config: text }, false);
  }, (sentence) => first.say(sentence), t);
  return {
    element,
    /** Writes a view into the fields; the one that is being typed in is left alone. @param {View} view */
    set: (view) => {
      for (const one of fields) one.set(view);
      assume.checked = view.assume;
      if (FOLDED.some((name) => view[name] !== START[name])) more.open = true;
    },
    /** Marks the field that an error is about. @param {string | null} name @param {string} by   the error's id */
    mark: (name, by) => {
      const named = { kv_dtype: "dtype", dtype: "form" }[name ?? ""] ?? name;
      for (const one of element.querySelectorAll("[data-field]")) {
        const wrong = /** @type {HTMLElement} */ (one).dataset.field === named;
        if (wrong) {
          one.setAttribute("aria-invalid", "true");
          one.setAttribute("aria-describedby", by);
          if (more.contains(one)) more.open = true;
        } else {
          one.removeAttribute("aria-invalid");
          one.removeAttribute("aria-describedby");
        }
      }
    },
  };
}

/** Choices that are called what they are. @param {string[]} names @returns {[string, string][]} */
function same(names) {
  return names.map((one) => [one, one]);
}

/** @param {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} input @param {string} value */
function write(input, value) {
  if (document.activeElement !== input && input.value !== value) input.value = value;
}

/**
 * @param {keyof View} name
 * @param {string} label
 * @param {Record<string, any>} props
 * @param {OnChange} onChange
 */
function field(name, label, props, onChange) {
  const input = h("input", { ...props, autocomplete: "off", spellcheck: "false", data: { field: name }, oninput: () => onChange({ [name]: input.value }, true) });
  return {
    element: h("label", { class: "asked-field" }, h("span", null, label), input),
    set: (/** @type {View} */ view) => write(input, String(view[name])),
  };
}

/**
 * @param {keyof View} name
 * @param {string} label
 * @param {[string, string][]} choices
 * @param {OnChange} onChange
 */
function choice(name, label, choices, onChange) {
  const select = h("select", { data: { field: name }, onchange: () => onChange({ [name]: select.value }, false) },
    choices.map(([value, text]) => h("option", { value }, text)));
  return {
    element: h("label", { class: "asked-field" }, h("span", null, label), select),
    set: (/** @type {View} */ view) => {
      select.value = String(view[name]);
    },
  };
}

/** Tokens, as a number and as a slider of powers of two. @param {import("../widgets/parts.js").Say} t @param {OnChange} onChange */
function contextField(t, onChange) {
  const input = h("input", { type: "number", min: 1, step: 1, placeholder: t("planner.context.own"), data: { field: "context" }, oninput: () => {
    range.value = String(power(input.value));
    onChange({ context: input.value }, true);
  } });
  const range = h("input", { type: "range", min: 0, max: MOST_POWER, step: 1, "aria-label": t("planner.context.power"), oninput: () => {
    input.value = String(2 ** range.valueAsNumber);
    onChange({ context: input.value }, true);
  } });
  return {
    element: h("div", { class: "asked-field wide-field" }, h("label", null, h("span", null, t("planner.context")), input), range),
    set: (/** @type {View} */ view) => {
      write(input, view.context);
      write(range, String(power(view.context)));
    },
  };
}

/** @param {string} text @returns {number} */
function power(text) {
  const value = Number(text);
  return value >= 1 ? Math.min(MOST_POWER, Math.round(Math.log2(value))) : 0;
}

/** A device, or bytes of one's own. @param {string[]} devices @param {import("../widgets/parts.js").Say} t @param {OnChange} onChange */
function roomField(devices, t, onChange) {
  let mine = false; // the reader is about to write bytes
  const own = h("input", { type: "text", placeholder: "80GiB", "aria-label": t("planner.room.bytes"), autocomplete: "off", data: { field: "room" }, oninput: () => onChange({ room: own.value }, true) });
  const select = h("select", { data: { choice: "room" }, onchange: () => {
    mine = select.value === PASTED;
    onChange({ room: mine ? own.value : select.value }, false);
    if (mine) own.focus();
  } }, h("option", { value: "" }, t("planner.room.none")), devices.map((one) => h("option", { value: one }, one)), h("option", { value: PASTED }, t("planner.room.own")));
  return {
    element: h("div", { class: "asked-field" }, h("label", null, h("span", null, t("planner.room")), select), own),
    set: (/** @type {View} */ view) => {
      const known = devices.includes(view.room) || (view.room === "" && !mine);
      select.value = known ? view.room : PASTED;
      own.hidden = known;
      if (!known) write(own, view.room);
    },
  };
}

/**
 * A model: one of the built-in ones, or a config that is pasted or read from a file.
 * @param {{field: "model" | "versus", text: "config" | "other", label: string, known: Known, none: string | null}} about
 * @param {import("../widgets/parts.js").Say} t
 * @param {OnChange} onChange
 */
function chooser({ field: name, text, label, known, none }, t, onChange) {
  const note = h("p", { class: "note", role: "status" });
  const area = h("textarea", { rows: 7, spellcheck: "false", "aria-label": t("planner.config"), placeholder: t("planner.config.hint"), data: { field: `${name}.config` }, oninput: () => {
    note.textContent = "";
    onChange({ [text]: area.value || " " }, true); // a space keeps an emptied config a config
  } });
  const file = h("input", { type: "file", accept: ".json,application/json", hidden: true, tabindex: -1, "aria-hidden": true, onchange: async () => {
    const [one] = file.files ?? [];
    file.value = "";
    if (one) await take(one, (called, held) => onChange({ [name]: called, [text]: held }, false), say, t);
  } });
  const say = (/** @type {string} */ sentence) => {
    note.textContent = sentence;
  };
  const paste = h("div", { class: "paste", hidden: true }, area, h("div", { class: "tools" },
    h("button", { type: "button", onclick: () => file.click() }, t("planner.file")), file, h("span", { class: "note" }, t("planner.drop"))), note);
  const select = h("select", { data: { field: name }, onchange: () => {
    paste.hidden = select.value !== PASTED;
    if (paste.hidden) onChange({ [name]: select.value, [text]: "" }, false);
    else {
      area.focus();
      onChange({ [name]: "config.json", [text]: area.value || " " }, false);
    }
  } }, none === null ? null : h("option", { value: "" }, none), known.builtIn.map((one) => h("option", { value: one }, one)), h("option", { value: PASTED }, t("planner.paste")));
  return {
    element: h("div", { class: "chooser" }, h("label", { class: "asked-field" }, h("span", null, label), select), paste),
    say,
    /** @param {View} view */
    set: (view) => {
      const pasted = view[text] !== "";
      paste.hidden = !pasted;
      select.value = pasted ? PASTED : view[name];
      if (!select.value && !pasted) select.value = none === null ? START.model : "";
      if (pasted) write(area, view[text] === " " ? "" : view[text]);
    },
  };
}

/**
 * @param {File} file
 * @param {(name: string, text: string) => void} taken
 * @param {(sentence: string) => void} say
 * @param {import("../widgets/parts.js").Say} t
 */
async function take(file, taken, say, t) {
  if (/\.(gguf|safetensors|bin)$/i.test(file.name)) {
    say(t("planner.file.not", { name: file.name }));
    return;
  }
  if (file.size > MOST_FILE) {
    say(t("planner.file.large", { name: file.name, size: count(file.size), most: count(MOST_FILE) }));
    return;
  }
  say("");
  taken(file.name, (await file.text()) || " ");
}

/**
 * A file that is dropped anywhere on the form becomes the first model's config.
 * @param {HTMLElement} place
 * @param {(name: string, text: string) => void} taken
 * @param {(sentence: string) => void} say
 * @param {import("../widgets/parts.js").Say} t
 */
function mountDrop(place, taken, say, t) {
  let depth = 0;
  const over = (/** @type {number} */ by) => {
    depth = Math.max(0, depth + by);
    place.classList.toggle("dropping", depth > 0);
  };
  place.addEventListener("dragenter", () => over(1));
  place.addEventListener("dragleave", () => over(-1));
  place.addEventListener("dragover", (event) => event.preventDefault());
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    over(-depth);
    const file = event.dataTransfer?.files[0];
    if (file) void take(file, taken, say, t);
  });
}

