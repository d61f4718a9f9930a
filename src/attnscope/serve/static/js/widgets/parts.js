// @ts-check
/**
 * What several widgets are made of: sliders with a number beside them, bars, outputs, switches.
 *
 * The idea: every input is a native control, so the keyboard works without code of ours; every
 * number that a widget shows is an <output> with its name and its exact value, for tests and for
 * whoever reads the page by script.
 *
 * Not here: what they stand for (the widgets).
 */

import { h, setStyle } from "../parts/dom.js";
import { percent } from "../parts/numbers.js";

/** @typedef {(key: string, values?: Record<string, string | number>) => string} Say */

/**
 * A labelled slider with a number field of the same value.
 * @param {{name: string, label: string, min: number, max: number, step: number, value: number}} about
 * @param {(value: number) => void} onInput
 */
export function slider({ name, label, min, max, step, value }, onInput) {
  const range = h("input", { type: "range", min, max, step, value, data: { name } });
  const field = h("input", { type: "number", min, max, step, value, "aria-label": label, data: { name: `${name}.number` } });
  /** @param {HTMLInputElement} from */
  const take = (from) => {
    const given = from.valueAsNumber;
    if (!Number.isFinite(given)) return;
    const held = Math.min(max, Math.max(min, given));
    for (const one of [range, field]) if (one !== from || held !== given) one.value = String(held);
    onInput(held);
  };
  range.addEventListener("input", () => take(range));
  field.addEventListener("input", () => take(field));
  const element = h("div", { class: "slider" }, h("label", null, h("span", null, label), range), field);
  return {
    element,
    /** @param {number} now */
    set: (now) => {
      range.value = String(now);
      field.value = String(now);
    },
  };
}

/**
 * A place for one number.
 * @param {string} name
 * @returns {{element: HTMLOutputElement, show: (value: number, text: string) => void}}
 */
export function output(name) {
  const element = h("output", { data: { name } });
  return {
    element,
    show: (value, text) => {
      element.dataset.value = String(value);
      element.textContent = text;
    },
  };
}

/**
 * Horizontal bars from zero, to either side where values may be negative.
 * @param {string} name   outputs are called name.0, name.1, …
 * @param {readonly string[]} labels
 * @param {{low?: number, high?: number}} [ends]   what the track spans
 */
export function bars(name, labels, ends = {}) {
  let { low = 0, high = 1 } = ends;
  const rows = labels.map((label, at) => {
    const fill = h("i", null);
    const out = output(`${name}.${at}`);
    const track = h("span", { class: "track", "aria-hidden": "true" }, fill);
    return { fill, out, element: h("div", { class: "bar" }, h("span", { class: "name" }, label), track, out.element) };
  });
  let zero = (0 - low) / (high - low);
  const element = h("div", { class: "bars", style: { "--zero": `${100 * zero}%` } }, rows.map((row) => row.element));
  return {
    element,
    /** Spans other ends from the next values on, and marks 1. @param {number} least @param {number} most */
    span: (least, most) => {
      [low, high] = [least, most];
      zero = (0 - low) / (high - low);
      setStyle(element, { "--zero": `${100 * zero}%`, "--one": `${(100 * (1 - low)) / (high - low)}%` });
    },
    /** @param {readonly number[]} values @param {(value: number) => string} [text] */
    update: (values, text = percent) => {
      rows.forEach(({ fill, out, element }, at) => {
        const value = values[at];
        const there = Number.isFinite(value);
        const end = there ? Math.min(1, Math.max(0, (value - low) / (high - low))) : zero;
        setStyle(fill, { left: `${100 * Math.min(zero, end)}%`, width: `${100 * Math.abs(end - zero)}%` });
        element.classList.toggle("negative", there && value < 0);
        out.show(value, text(value));
      });
    },
  };
}

/**
 * Buttons of which one is chosen.
 * @template {string} T
 * @param {string} label
 * @param {readonly (readonly [T, string])[]} choices
 * @param {T} chosen
 * @param {(choice: T) => void} onChoice
 */
export function switches(label, choices, chosen, onChoice) {
  const buttons = choices.map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": value === chosen, data: { choice: value }, onclick: () => {
      buttons.forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.choice === value)));
      onChoice(value);
    } }, text));
  return h("div", { class: "switch" }, h("span", null, label), h("span", { class: "choices", role: "group", "aria-label": label }, buttons));
}

/**
 * A checkbox with its words.
 * @param {string} name
 * @param {string} label
 * @param {(on: boolean) => void} onChange
 */
export function checkbox(name, label, onChange) {
  const box = h("input", { type: "checkbox", data: { name }, onchange: () => onChange(box.checked) });
  return h("label", { class: "check" }, box, h("span", null, label));
}

/** @param {string | undefined} list @returns {number[]} */
export function numbersOf(list) {
  return (list ?? "").split(",").filter(Boolean).map(Number);
}
