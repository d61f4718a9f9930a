// @ts-check
/**
 * Makes elements without ever parsing text as markup.
 *
 * The idea: token text and model names come from strangers, so text only enters a page as text
 * nodes. `h` refuses every way around that (innerHTML, srcdoc, on… as a string, javascript: links).
 *
 * Not here: what the elements mean (screens), how they look (css).
 */

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "selected", "indeterminate", "scrollTop"]);
const FORBIDDEN = new Set(["innerhtml", "outerhtml", "srcdoc", "insertadjacenthtml"]);
const LINKS = new Set(["href", "src", "action", "formaction", "xlink:href"]);

/**
 * @typedef {Node | string | number | null | undefined | false} One
 * @typedef {One | One[] | One[][] | One[][][]} Child   lists may hold lists
 * @typedef {Record<string, any>} Props
 */

/**
 * An element: `h("button", {class: "quiet", onclick: go, "aria-pressed": true}, "Go")`.
 *
 * `svg:path` makes an SVG element. In `props`, a function under on… is a listener; `style` and
 * `data` are objects; null, undefined and false leave an attribute out (except aria-…, where false
 * is written), true writes it empty. A child that is null, undefined or false is left out, an array
 * is opened.
 *
 * @template {keyof HTMLElementTagNameMap | `svg:${keyof SVGElementTagNameMap}`} T
 * @param {T} tag
 * @param {Props | null} [props]
 * @param {...Child} children
 * @returns {T extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[T] : T extends `svg:${infer S extends keyof SVGElementTagNameMap}` ? SVGElementTagNameMap[S] : never}
 */
export function h(tag, props, ...children) {
  const element = tag.startsWith("svg:")
    ? document.createElementNS(SVG, tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) setProp(element, name, value);
  append(element, children);
  return /** @type {any} */ (element);
}

/**
 * Sets one attribute, listener, style or data object as `h` does.
 * @param {Element} element
 * @param {string} name
 * @param {any} value
 */
export function setProp(element, name, value) {
  const lower = name.toLowerCase();
  if (FORBIDDEN.has(lower)) throw new TypeError(`h: ${name} would parse text as markup; give children instead`);
  if (lower.startsWith("on")) {
    if (value === null || value === undefined) return;
    if (typeof value !== "function") throw new TypeError(`h: ${name}: expected a function, got ${typeof value}`);
    element.addEventListener(lower.slice(2), value);
  } else if (name === "style" || name === "data") {
    if (typeof value !== "object") throw new TypeError(`h: ${name}: expected an object, got ${typeof value}`);
    if (name === "style") setStyle(/** @type {HTMLElement} */ (element), value);
    else Object.assign(/** @type {HTMLElement} */ (element).dataset, value);
  } else if (PROPERTIES.has(name)) {
    /** @type {any} */ (element)[name] = value;
  } else if (name.startsWith("aria-") && typeof value === "boolean") {
    element.setAttribute(name, String(value));
  } else if (value === null || value === undefined || value === false) {
    element.removeAttribute(name);
  } else {
    if (LINKS.has(lower) && !safeLink(String(value))) throw new TypeError(`h: ${name}: this link would run a script`);
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * Whether a link cannot run a script. Browsers drop spaces and control characters in a scheme.
 * @param {string} link
 * @returns {boolean}
 */
export function safeLink(link) {
  const bare = link.replace(/[\u0000-\u0020]+/g, "").toLowerCase();
  const scheme = /^([a-z][a-z0-9+.-]*):/.exec(bare);
  return !scheme || ["http", "https", "blob", "mailto"].includes(scheme[1]) || bare.startsWith("data:image/png");
}

/**
 * @param {HTMLElement} element
 * @param {Record<string, string | number | null>} style   custom properties too
 */
export function setStyle(element, style) {
  for (const [name, value] of Object.entries(style)) {
    const dashed = name.startsWith("--") ? name : name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`);
    if (value === null) element.style.removeProperty(dashed);
    else element.style.setProperty(dashed, String(value));
  }
}

/**
 * @param {Node} parent
 * @param {Child[]} children
 */
function append(parent, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(parent, /** @type {Child[]} */ (child));
    else parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/**
 * Takes away what an element holds and puts this in its place.
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/**
 * Calls once things have been quiet for a while; `now` calls what waits at once, `stop` drops it.
 * @template {any[]} A
 * @param {(...args: A) => void} call
 * @param {number} wait   milliseconds
 * @returns {((...args: A) => void) & {now: () => void, stop: () => void}}
 */
export function debounce(call, wait) {
  /** @type {ReturnType<typeof setTimeout> | null} */
  let timer = null;
  /** @type {A | null} */
  let last = null;
  const stop = () => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    last = null;
  };
  const now = () => {
    const args = last;
    stop();
    if (args) call(...args);
  };
  /** @param {A} args */
  const later = (...args) => {
    if (timer !== null) clearTimeout(timer);
    last = args;
    timer = setTimeout(now, wait);
  };
  return Object.assign(later, { now, stop });
}

/**
 * Calls at most once a frame, with the last arguments.
 * @template {any[]} A
 * @param {(...args: A) => void} call
 * @returns {((...args: A) => void) & {stop: () => void}}
 */
export function eachFrame(call) {
  let asked = 0;
  /** @type {A | null} */
  let last = null;
  const run = () => {
    asked = 0;
    if (last) call(...last);
  };
  /** @param {A} args */
  const later = (...args) => {
    last = args;
    if (!asked) asked = requestAnimationFrame(run);
  };
  return Object.assign(later, {
    stop: () => {
      if (asked) cancelAnimationFrame(asked);
      asked = 0;
    },
  });
}
