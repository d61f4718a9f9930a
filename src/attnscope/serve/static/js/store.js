// @ts-check
/**
 * The whole view as one JSON object, and its place in the URL.
 *
 * The idea: a link reopens exactly what its sender saw, and reads like what it says:
 *
 *     #map/t1/12.3?q=812-815&k=37&scale=log&at=812,37,4&lang=en
 *
 * A field at its default is left out (except the language, whose default is the reader's). What comes
 * from a URL is a stranger's: each field is parsed with bounds, and what does not parse is its default.
 *
 * Not here: whether a layer or a head exists (`fit`'s callers know the trace), drawing, words.
 */

/**
 * @typedef {import("./types.js").ViewState} ViewState
 * @typedef {import("./types.js").Store} Store
 * @typedef {import("./types.js").TraceInfo} TraceInfo
 */

export const SCREENS = /** @type {const} */ (["home", "overview", "map", "flow"]);
export const MEASURES = /** @type {const} */ (["weight", "arrived", "weight-no-sink", "arrived-no-sink", "uniform"]);
export const SCALES = /** @type {const} */ (["raw", "log", "uniform", "expected"]);
export const PLANES = /** @type {const} */ (["mean", "max"]);
export const PALETTES = /** @type {const} */ (["viridis", "cividis"]);
export const SORTS = /** @type {const} */ (["layer", "statistic", "kind"]);
export const HOWS = /** @type {const} */ (["sum", "mean"]);
export const LANGUAGES = /** @type {const} */ (["en", "zh"]);
export const THEMES = /** @type {const} */ (["auto", "light", "dark"]);

const MOST = 2 ** 31 - 1;

/**
 * The view of an app that was just opened.
 * @param {import("./types.js").Language} [language]
 * @returns {ViewState}
 */
export function defaults(language = "en") {
  return {
    v: 1, screen: "overview", trace: null, layer: null, head: null, queries: null, keys: null,
    locked: false, how: "sum", statistic: "entropy", sort: "layer", top: null, measure: "weight",
    scale: "log", plane: "mean", range: null, palette: "viridis", view: null, compare: null, mass: 0.9, language, theme: "auto",
  };
}

/**
 * What belongs to a trace, and is meaningless in another.
 * @returns {Partial<ViewState>}
 */
function perTrace() {
  const { layer, head, queries, keys, view, compare, locked, range } = defaults();
  return { layer, head, queries, keys, view, compare, locked, range };
}

/**
 * The URL's part after #, without the #.
 * @param {ViewState} state
 * @returns {string}
 */
export function encodeView(state) {
  const base = defaults();
  const path = [state.screen];
  if (state.trace !== null) {
    path.push(/** @type {any} */ (state.trace));
    if (state.layer !== null) path.push(/** @type {any} */ (headText(state.layer, state.head)));
  }
  /** @type {[string, string | null][]} */
  const fields = [
    ["q", rangeText(state.queries)],
    ["k", rangeText(state.keys)],
    ["lock", state.locked ? "1" : null],
    ["view", state.view && [state.view.x, state.view.y, state.view.pixels].map(short).join(",")],
    ["range", state.range && state.range.map(short).join(",")],
    ["with", state.compare && `${state.compare.trace}/${headText(state.compare.layer, state.compare.head)}`],
    ["mass", state.mass === base.mass ? null : short(state.mass)],
    ["top", state.top === null ? null : String(state.top)],
  ];
  for (const name of /** @type {const} */ (["how", "statistic", "sort", "measure", "scale", "plane", "palette", "theme"])) {
    fields.push([name, state[name] === base[name] ? null : state[name]]);
  }
  fields.push(["lang", state.language]);
  const query = fields.filter(([, value]) => value !== null).map(([name, value]) => `${name}=${value}`);
  return `${path.join("/")}?${query.join("&")}`;
}

/**
 * The view a URL's hash holds; whatever in it makes no sense is the default.
 * @param {string} hash   with or without #
 * @param {import("./types.js").Language} [language]   where the hash names none
 * @returns {ViewState}
 */
export function decodeView(hash, language = "en") {
  const state = defaults(language);
  if (hash.length > 4096) return state;
  const [path, query = ""] = hash.replace(/^#/, "").split("?", 2);
  const [screen, trace, head] = path.split("/", 3);
  const fields = new Map(query.split("&").map((part) => /** @type {[string, string]} */ (splitOnce(part, "="))));
  state.screen = oneOf(SCREENS, screen) ?? state.screen;
  state.trace = traceName(trace);
  if (state.trace !== null) Object.assign(state, headOf(head));
  state.queries = rangeOf(fields.get("q"));
  state.keys = rangeOf(fields.get("k"));
  state.locked = fields.get("lock") === "1";
  state.view = viewOf(fields.get("view"));
  state.range = endsOf(fields.get("range"));
  state.compare = compareOf(fields.get("with"));
  state.mass = boundedNumber(fields.get("mass"), 0.01, 1) ?? state.mass;
  const top = wholeNumber(fields.get("top"));
  state.top = top === null || top === 0 ? null : top;
  state.how = oneOf(HOWS, fields.get("how")) ?? state.how;
  const statistic = fields.get("statistic") ?? "";
  if (/^[a-z][a-z0-9_]{0,39}$/.test(statistic)) state.statistic = statistic;
  state.sort = oneOf(SORTS, fields.get("sort")) ?? state.sort;
  state.measure = oneOf(MEASURES, fields.get("measure")) ?? state.measure;
  state.scale = oneOf(SCALES, fields.get("scale")) ?? state.scale;
  state.plane = oneOf(PLANES, fields.get("plane")) ?? state.plane;
  state.palette = oneOf(PALETTES, fields.get("palette")) ?? state.palette;
  state.language = oneOf(LANGUAGES, fields.get("lang")) ?? state.language;
  state.theme = oneOf(THEMES, fields.get("theme")) ?? state.theme;
  return state;
}

/**
 * The same view within what the trace has: a layer, a head or a token that is not there is none.
 * @param {ViewState} state
 * @param {TraceInfo} info
 * @returns {Partial<ViewState>}  the changes; empty where all fits
 */
export function fit(state, info) {
  /** @type {Partial<ViewState>} */
  const change = {};
  const layer = info.layers.find((one) => one.index === state.layer);
  if (state.layer !== null && (!layer || layer.kind === "none")) Object.assign(change, { layer: null, head: null });
  else if (layer && state.head !== null && state.head >= layer.query_heads) change.head = null;
  const keys = Math.max(0, ...info.layers.map((one) => one.keys));
  // On the map a query is a row; in the flow it is a token, and the first may have no row.
  const queries = state.screen === "flow" ? keys : Math.max(0, ...info.layers.map((one) => one.queries));
  if (state.queries && state.queries[1] >= queries) change.queries = null;
  if (state.keys && state.keys[1] >= keys) change.keys = null;
  if (info.statistics.length && !info.statistics.includes(state.statistic)) change.statistic = info.statistics[0];
  if (info.measures.length && !info.measures.includes(state.measure)) change.measure = info.measures[0];
  return change;
}

/**
 * Where a state may be kept: the browser's URL, or only in memory (a notebook cell).
 * @typedef {object} Place
 * @property {() => string} read
 * @property {(hash: string, push: boolean) => void} write
 * @property {(listener: () => void) => () => void} listen   told of back and forward
 */

/**
 * The URL of a window.
 * @param {Window} win
 * @returns {Place}
 */
export function urlPlace(win) {
  return {
    read: () => win.location.hash,
    write: (hash, push) => win.history[push ? "pushState" : "replaceState"](null, "", `#${hash}`),
    listen: (listener) => {
      win.addEventListener("popstate", listener);
      win.addEventListener("hashchange", listener);
      return () => {
        win.removeEventListener("popstate", listener);
        win.removeEventListener("hashchange", listener);
      };
    },
  };
}

/**
 * A place of its own, so that several apps on one page do not meet.
 * @param {string} [start]
 * @returns {Place & {history: string[]}}
 */
export function memoryPlace(start = "") {
  const history = [start];
  return {
    history,
    read: () => history[history.length - 1],
    write: (hash, push) => void (push ? history.push(hash) : (history[history.length - 1] = hash)),
    listen: () => () => {},
  };
}

/**
 * A store on a place. The URL is replaced a moment after a change (a browser allows few changes a
 * second, panning makes sixty); a new history entry is written at once.
 * @param {Place} place
 * @param {{language?: import("./types.js").Language, wait?: number}} [options]
 * @returns {Store & {flush: () => void, stop: () => void}}
 */
export function createStore(place, { language = "en", wait = 250 } = {}) {
  let state = Object.freeze(decodeView(place.read(), language));
  let written = "";
  /** @type {ReturnType<typeof setTimeout> | null} */
  let timer = null;
  /** @type {Set<(now: ViewState, before: ViewState, linked: boolean) => void>} */
  const listeners = new Set();
  const flush = () => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const hash = encodeView(state);
    if (hash !== written) place.write(hash, false);
    written = hash;
  };
  /** @type {(next: ViewState, linked: boolean) => void} */
  const become = (next, linked) => {
    const before = state;
    state = Object.freeze(next);
    for (const listener of [...listeners]) listener(state, before, linked);
  };
  const stop = place.listen(() => {
    const hash = place.read();
    if (hash.replace(/^#/, "") === encodeView(state)) return;
    if (timer !== null) clearTimeout(timer);
    timer = null;
    written = "";
    become(decodeView(hash, state.language), true);
  });
  return {
    get: () => state,
    set: (change, options) => {
      const moved = change.trace !== undefined && change.trace !== state.trace;
      const next = /** @type {ViewState} */ ({ ...state, ...(moved ? perTrace() : {}), ...change, v: 1 });
      if (same(next, state)) return;
      if (options?.push ?? (moved || next.screen !== state.screen)) {
        flush();
        written = encodeView(next);
        place.write(written, true);
      } else {
        if (timer !== null) clearTimeout(timer);
        timer = setTimeout(flush, wait);
      }
      become(next, false);
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    flush,
    stop: () => {
      flush();
      stop();
      listeners.clear();
    },
  };
}

/** @param {ViewState} one @param {ViewState} other */
function same(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** @param {string} text @param {string} mark */
function splitOnce(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

/** @param {number} value */
function short(value) {
  return String(Number(value.toPrecision(9)));
}

/** @param {[number, number] | null} range */
function rangeText(range) {
  return range && (range[0] === range[1] ? String(range[0]) : `${range[0]}-${range[1]}`);
}

/** @param {number} layer @param {number | null} head */
function headText(layer, head) {
  return head === null ? String(layer) : `${layer}.${head}`;
}

/**
 * @template {string} T
 * @param {readonly T[]} values
 * @param {string | undefined} text
 * @returns {T | null}
 */
function oneOf(values, text) {
  return values.find((value) => value === text) ?? null;
}

/** @param {string | undefined} text @returns {number | null} */
function wholeNumber(text) {
  const value = text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : NaN;
  return value <= MOST ? value : null;
}

/** @param {string | undefined} text @param {number} least @param {number} most @returns {number | null} */
function boundedNumber(text, least, most) {
  const value = text !== undefined && /^-?\d+(\.\d+)?(e-?\d{1,2})?$/.test(text) ? Number(text) : NaN;
  return value >= least && value <= most ? value : null;
}

/** @param {string | undefined} text @returns {string | null} */
function traceName(text) {
  return text !== undefined && /^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$/.test(text) ? text : null;
}

/** @param {string | undefined} text @returns {{layer: number | null, head: number | null}} */
function headOf(text) {
  const parts = (text ?? "").split(".");
  const layer = wholeNumber(parts[0]);
  const head = wholeNumber(parts[1]);
  const bad = layer === null || parts.length > 2 || (parts.length === 2 && head === null);
  return bad ? { layer: null, head: null } : { layer, head };
}

/** @param {string | undefined} text @returns {[number, number] | null} */
function rangeOf(text) {
  const parts = (text ?? "").split("-");
  const first = wholeNumber(parts[0]);
  const last = parts.length === 1 ? first : wholeNumber(parts[1]);
  return first === null || last === null || parts.length > 2 || first > last ? null : [first, last];
}

/** @param {string | undefined} text @returns {ViewState["view"]} */
function viewOf(text) {
  const parts = (text ?? "").split(",");
  const [x, y] = parts.map((part) => boundedNumber(part, -MOST, MOST));
  const pixels = boundedNumber(parts[2], 1e-6, 1024);
  return parts.length !== 3 || x === null || y === null || pixels === null ? null : { x, y, pixels };
}

/** @param {string | undefined} text @returns {[number, number] | null} */
function endsOf(text) {
  const parts = (text ?? "").split(",");
  const [low, high] = parts.map((part) => boundedNumber(part, -1e12, 1e12));
  return parts.length !== 2 || low === null || high === null || low >= high ? null : [low, high];
}

/** @param {string | undefined} text @returns {ViewState["compare"]} */
function compareOf(text) {
  const [name, place] = splitOnce(text ?? "", "/");
  const trace = traceName(name);
  const { layer, head } = headOf(place);
  return trace === null || layer === null || head === null ? null : { trace, layer, head };
}
