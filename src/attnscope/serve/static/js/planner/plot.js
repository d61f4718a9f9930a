// @ts-check
/**
 * Bytes of the cache against context, both axes logarithmic; one line per scheme, the room across.
 *
 * The idea: a line is drawn through the planner's own values; what stands at an axis is its text
 * too. Lines differ in colour and in dashes. The picture has no number of its own to read: what it
 * shows is in the tables, and a click on it asks for that context.
 *
 * Not here: the values (attnscope.plan.page).
 */

import { fill, h } from "../parts/dom.js";

/** @typedef {import("./types.js").Picture} Picture */

export const DASHES = ["", "8 3", "2 3", "10 3 2 3", "5 2", "14 3 3 3", "12 4", "3 5"];
const LEFT = 64;
const RIGHT = 14;
const TOP = 12;
const BOTTOM = 42;
const ROOM_LABEL = 15;

/**
 * The lines that differ, with the labels of those that are the same.
 * @param {Picture} picture
 * @returns {{labels: string[], model: number, sizes: number[]}[]}
 */
export function different(picture) {
  /** @type {Map<string, {labels: string[], model: number, sizes: number[]}>} */
  const found = new Map();
  for (const { label, model, sizes } of picture.lines) {
    const key = `${model} ${sizes.join()}`;
    const one = found.get(key);
    if (one) one.labels.push(label);
    else found.set(key, { labels: [label], model, sizes: sizes.map(Number) });
  }
  return [...found.values()];
}

/**
 * Where values stand in the picture.
 * @param {Picture} picture
 * @param {{width: number, height: number}} size
 */
export function axes(picture, { width, height }) {
  const most = Math.log2(picture.lengths[picture.lengths.length - 1]);
  const low = picture.bytes[0].power;
  const high = picture.bytes[picture.bytes.length - 1].power;
  const right = width - RIGHT;
  const bottom = height - BOTTOM;
  return {
    right,
    bottom,
    x: (/** @type {number} */ tokens) => LEFT + (Math.log2(tokens) / most) * (right - LEFT),
    y: (/** @type {number} */ bytes) => bottom - ((Math.log2(Math.max(bytes, 2 ** low)) - low) / (high - low)) * (bottom - TOP),
    tokens: (/** @type {number} */ x) => 2 ** (((x - LEFT) / (right - LEFT)) * most),
  };
}

/**
 * @param {import("../widgets/parts.js").Say} t
 * @param {import("./words.js").Words} w
 * @param {(tokens: number) => void} onTokens   a context is asked for
 */
export function makePlot(t, w, onTokens) {
  const place = h("div", { class: "plot" });
  const legend = h("ul", { class: "legend" });
  /** @type {{picture: Picture, context: number, rooms: string[], label: string} | null} */
  let now = null;
  const paint = () => {
    if (!now) return;
    const width = Math.max(300, place.clientWidth);
    const height = Math.round(Math.min(430, Math.max(280, width * 0.55)));
    fill(place, drawn(now, { width, height }, t));
  };
  new ResizeObserver(paint).observe(place);
  place.addEventListener("click", (event) => {
    const svg = place.querySelector("svg");
    if (!now || !svg) return;
    const box = svg.getBoundingClientRect();
    const at = axes(now.picture, { width: box.width, height: box.height });
    const tokens = Math.round(at.tokens(Math.min(at.right, Math.max(LEFT, event.clientX - box.left))));
    onTokens(Math.max(1, tokens));
  });
  return {
    element: h("div", { class: "picture" }, place, legend),
    /**
     * @param {Picture} picture
     * @param {number} context
     * @param {string[]} rooms   what stands at each model's line of room
     * @param {string} label     of the whole
     */
    update: (picture, context, rooms, label) => {
      now = { picture, context, rooms, label };
      paint();
      fill(legend, different(picture).map((line, at) => h("li", { class: `line-${at % 8}` },
        h("svg:svg", { width: 34, height: 10, "aria-hidden": "true" }, h("svg:path", { d: "M1 5H33", "stroke-dasharray": DASHES[at % 8] || null })),
        h("span", null, line.labels.map(w).join(" = ")))));
    },
  };
}

/**
 * @param {{picture: Picture, context: number, rooms: string[], label: string}} what
 * @param {{width: number, height: number}} size
 * @param {import("../widgets/parts.js").Say} t
 */
function drawn({ picture, context, rooms, label }, { width, height }, t) {
  const at = axes(picture, { width, height });
  const lines = different(picture);
  const shown = picture.rooms.map((room, model) => ({ room: Number(room), model })).filter(({ room, model }) =>
    room > 0 && picture.rooms.indexOf(picture.rooms[model]) === model);
  const labels = places(shown.map(({ room }) => at.y(room)));
  return h("svg:svg", { role: "img", "aria-label": label, width, height, viewBox: `0 0 ${width} ${height}` },
    ...grid(picture, at, width),
    h("svg:path", { class: "here", d: `M${at.x(context)} ${TOP}V${at.bottom}` }),
    shown.map(({ room, model }, number) => h("svg:g", { class: `room of-${model}` },
      h("svg:path", { d: `M${LEFT} ${at.y(room)}H${at.right}` }),
      h("svg:text", { x: LEFT + 6, y: labels[number] }, rooms[model]))),
    lines.map((line, number) => h("svg:polyline", {
      class: `scheme line-${number % 8}`, "stroke-dasharray": DASHES[number % 8] || null,
      points: line.sizes.map((size, i) => (size > 0 ? `${at.x(picture.lengths[i]).toFixed(1)},${at.y(size).toFixed(1)}` : "")).filter(Boolean).join(" "),
    })),
    h("svg:text", { class: "name", x: (LEFT + at.right) / 2, y: height - 6, "text-anchor": "middle" }, t("planner.plot.tokens")));
}

/**
 * Where the labels of lines stand: above the highest, if there is room, below the others, and none
 * on another.
 * @param {number[]} lines   heights, downwards
 * @returns {number[]}
 */
export function places(lines) {
  const found = new Array(lines.length);
  let free = 0; // what is above is taken
  const order = lines.map((_, line) => line).sort((a, b) => lines[a] - lines[b]);
  for (const [rank, line] of order.entries()) {
    const above = rank === 0 && lines[line] > TOP + ROOM_LABEL + 5;
    found[line] = above ? lines[line] - 6 : Math.max(lines[line] + ROOM_LABEL, free);
    free = found[line] + ROOM_LABEL;
  }
  return found;
}

/** @param {Picture} picture @param {ReturnType<typeof axes>} at @param {number} width */
function grid(picture, at, width) {
  const every = Math.max(1, Math.ceil(picture.bytes.length / 8));
  const across = Math.max(1, Math.ceil((picture.tokens.length * 42) / (width - LEFT - RIGHT)));
  return [
    picture.bytes.filter((_, i) => i % every === 0).map(({ power, text }) => [
      h("svg:path", { class: "grid", d: `M${LEFT} ${at.y(2 ** power)}H${at.right}` }),
      h("svg:text", { x: LEFT - 8, y: at.y(2 ** power) + 4, "text-anchor": "end" }, text)]),
    picture.tokens.filter((_, i) => i % across === 0).map(({ tokens, text }) => [
      h("svg:path", { class: "grid", d: `M${at.x(tokens)} ${TOP}V${at.bottom}` }),
      h("svg:text", { x: at.x(tokens), y: at.bottom + 18, "text-anchor": "middle" }, text)]),
    h("svg:path", { class: "axis", d: `M${LEFT} ${TOP}V${at.bottom}H${at.right}` }),
  ];
}
