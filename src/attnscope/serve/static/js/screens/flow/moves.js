// @ts-check
/** What each key does in the flow. */

import { vertically } from "./lines.js";

/** @typedef {import("./screen.js").Flow} Flow */

const PAGE = 15;

/**
 * @param {Flow} flow
 * @param {KeyboardEvent} event
 * @returns {boolean} whether the key was used
 */
export function moved(flow, event) {
  if (!flow.table || !flow.info) return false;
  const action = ACTIONS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  return action ? action(flow, event) !== false : false;
}

/** The tokens that a move starts from. @param {Flow} flow @returns {[number, number]} */
function here(flow) {
  const { queries } = flow.app.store.get();
  return flow.bounded(queries ?? flow.shownQueries ?? [flow.offset, flow.offset]);
}

/** Chooses what a move leads to; while a range is being made only its far end moves. @param {Flow} flow @param {{first: number, last: number} | null} to */
function go(flow, to) {
  if (!to) return;
  const [first] = here(flow);
  if (flow.extending && to.last >= first) flow.choose(Math.min(first, to.first), to.last);
  else flow.choose(to.first, to.last);
}

/** @param {Flow} flow @param {KeyboardEvent} event @param {-1 | 1} way */
function along(flow, event, way) {
  const [first, last] = here(flow);
  if (event.shiftKey) {
    const from = flow.extending && way < 0 ? { first: last, last } : { first, last };
    return go(flow, flow.words?.next(from, way) ?? null);
  }
  const edge = flow.extending ? last : way < 0 ? first : last;
  const token = Math.max(0, Math.min(/** @type {any} */ (flow.table).ids.length - 1, edge + way));
  go(flow, { first: token, last: token });
}

/** @param {Flow} flow @param {number} lines */
function upDown(flow, lines) {
  const { units, lines: text } = flow.text;
  const unit = vertically(text, units.of[here(flow)[1]], lines);
  go(flow, { first: units.first[unit], last: units.first[unit] });
}

/** @param {Flow} flow @param {number} by */
function layer(flow, by) {
  const maps = /** @type {any} */ (flow.info).layers.filter((/** @type {any} */ one) => one.kind !== "none").map((/** @type {any} */ one) => one.index);
  const { layer: now } = flow.app.store.get();
  const at = now === null ? (by > 0 ? -1 : maps.length) : maps.indexOf(now);
  const next = maps[at + by];
  flow.app.store.set(next === undefined ? { layer: null, head: null } : { layer: next });
}

/** @param {Flow} flow @param {number} by */
function head(flow, by) {
  const { layer: now, head: current } = flow.app.store.get();
  const heads = flow.info?.layers.find((one) => one.index === now)?.query_heads ?? 0;
  if (heads === 0) return;
  const next = (current ?? (by > 0 ? -1 : heads)) + by;
  flow.app.store.set({ head: next < 0 || next >= heads ? null : next });
}

/** @type {Record<string, (flow: Flow, event: KeyboardEvent) => boolean | void>} */
const ACTIONS = {
  ArrowLeft: (flow, event) => along(flow, event, -1),
  ArrowRight: (flow, event) => along(flow, event, 1),
  ArrowUp: (flow) => upDown(flow, -1),
  ArrowDown: (flow) => upDown(flow, 1),
  PageUp: (flow) => upDown(flow, -PAGE),
  PageDown: (flow) => upDown(flow, PAGE),
  Home: (flow) => go(flow, { first: flow.offset, last: flow.offset }),
  End: (flow) => {
    const last = /** @type {any} */ (flow.table).ids.length - 1;
    go(flow, { first: last, last });
  },
  e: (flow) => {
    flow.extending = !flow.extending;
    flow.app.say(flow.app.t(flow.extending ? "flow.extending" : "flow.extended"));
  },
  m: (flow) => flow.app.store.set({ how: flow.app.store.get().how === "sum" ? "mean" : "sum" }),
  ",": (flow) => stepBy(flow, -1),
  ".": (flow) => stepBy(flow, 1),
  "[": (flow) => layer(flow, -1),
  "]": (flow) => layer(flow, 1),
  "{": (flow) => head(flow, -1),
  "}": (flow) => head(flow, 1),
  "/": (flow) => flow.tools.search.focus(),
  Enter: (flow) => {
    const { layer: now, head: current } = flow.app.store.get();
    if (now === null || current === null) return false;
    flow.app.store.set({ screen: "map", locked: false });
    return true;
  },
  Escape: (flow) => {
    if (!flow.app.store.get().locked && !flow.extending) return false;
    flow.release();
    return true;
  },
};

/** @param {Flow} flow @param {number} by */
function stepBy(flow, by) {
  const { info, table } = flow;
  if (!info || !table || info.prompt_tokens >= table.ids.length) return false;
  const { queries } = flow.app.store.get();
  const made = queries ? queries[1] + 1 : -1;
  flow.step(made >= info.prompt_tokens ? made + by : info.prompt_tokens);
  return true;
}
