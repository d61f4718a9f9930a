// @ts-check
/**
 * The axes of the map as shapes: token labels or section bars, and tracks of one number per token.
 *
 * The idea: an axis is a line of tokens, lying (keys) or standing (queries); everything here is
 * written once in (along, across) and turned into (x, y) at the end.
 *
 * Units: css pixels; tokens where a name says so.
 *
 * Not here: painting (shapes.js), fetching.
 */

import { TILE } from "../source/pyramid.js";
import { fitText, textWidth } from "./shapes.js";
import { roundUp } from "./scale.js";
import { visibleLabel } from "./sections.js";

/** @typedef {import("./shapes.js").Shape} Shape */
/** @typedef {import("./shapes.js").Point} Point */
/** @typedef {import("../types.js").TrackTile} TrackTile */

/**
 * A line of tokens on the screen.
 * @typedef {object} Axis
 * @property {boolean} standing   queries, downwards; otherwise keys, to the right
 * @property {number} start       pixel where the axis begins
 * @property {number} length      pixels
 * @property {number} first       token at the start (with a fraction)
 * @property {number} pixels      per token
 * @property {number} count       tokens
 */

/** @typedef {{at: number, size: number}} Band   across the axis */
/** @typedef {{ink: string, soft: string, line: string, accent: string, wash: string, sunken: string, surface: string, ground: string}} Style */

/** A token is written where it has this many pixels. */
export const LABEL_PIXELS = 12;
const FONT = 12;
const SMALL = 10;
/** Room for the numbers of positions beside the map. */
const NUMBERS = 30;

/**
 * Pixel of a token's beginning.
 * @param {Axis} axis
 * @param {number} token
 * @returns {number}
 */
export function alongOf(axis, token) {
  return axis.start + (token - axis.first) * axis.pixels;
}

/**
 * Tokens that can be seen, first and last.
 * @param {Axis} axis
 * @returns {[number, number]}
 */
export function seenTokens(axis) {
  const last = axis.first + axis.length / axis.pixels;
  return [Math.max(0, Math.floor(axis.first)), Math.min(axis.count, Math.ceil(last)) - 1];
}

/** @param {Axis} axis @param {number} along @param {number} across @returns {Point} */
function pointOf({ standing }, along, across) {
  return standing ? [across, along] : [along, across];
}

/**
 * A rectangle from..to along the axis, within it, across a band.
 * @param {Axis} axis
 * @param {[number, number]} tokens   from, to (not included)
 * @param {Band} band
 * @returns {{x: number, y: number, width: number, height: number}}
 */
export function barOf(axis, [from, to], band) {
  const begin = Math.max(axis.start, alongOf(axis, from));
  const end = Math.min(axis.start + axis.length, alongOf(axis, to));
  const [x, y] = pointOf(axis, begin, band.at);
  const long = Math.max(0, end - begin);
  return axis.standing ? { x, y, width: band.size, height: long } : { x, y, width: long, height: band.size };
}

/** @param {Axis} axis @param {Band} band @returns {[number, number, number, number]} */
function clipOf(axis, band) {
  return axis.standing ? [band.at, axis.start, band.size, axis.length] : [axis.start, band.at, axis.length, band.size];
}

/**
 * Token labels, right beside the map; a character stands once over all its pieces. Keys stand on end
 * where their words are wider than a cell.
 * @param {Axis} axis
 * @param {Band} band
 * @param {{labels: string[], further: boolean[], chosen: [number, number] | null, style: Style}} what
 *     further: whether a token is a further piece of the character before it
 * @returns {Shape}
 */
export function labelShapes(axis, band, { labels, further, chosen, style }) {
  const runs = pieceRuns(further, seenTokens(axis));
  const texts = runs.map(([token]) => visibleLabel(labels[token] ?? ""));
  const lying = !axis.standing && texts.every((text) => textWidth(text, FONT) <= axis.pixels - 4);
  const edge = band.at + band.size - 5;
  const shapes = texts.map((text, at) => {
    const [token, end] = runs[at];
    const inside = chosen !== null && end > chosen[0] && token <= chosen[1];
    const along = alongOf(axis, (token + end) / 2);
    const [x, y] = pointOf(axis, along, lying ? edge - FONT / 2 : edge);
    /** @type {Shape} */
    const shape = {
      ...{ kind: "text", x, y, text: fitText(text, FONT, lying ? axis.pixels - 2 : band.size - 8), size: FONT },
      ...{ fill: inside ? style.accent : style.ink, bold: inside },
      anchor: axis.standing ? "end" : lying ? "middle" : "start",
      turned: !axis.standing && !lying,
    };
    return shape;
  });
  const brackets = runs.filter(([token, end]) => end - token > 1).map(([token, end]) => bracketShape(axis, band, [token, end], style));
  return { kind: "group", clip: clipOf(axis, band), shapes: [...shapes, ...brackets] };
}

/**
 * Tokens in runs of the pieces of one character.
 * @param {boolean[]} further
 * @param {[number, number]} seen   first and last
 * @returns {[number, number][]}    first, and the one behind the last
 */
function pieceRuns(further, [first, last]) {
  /** @type {[number, number][]} */
  const runs = [];
  for (let token = first; token <= last; token++) {
    if (further[token] && runs.length) runs[runs.length - 1][1] = token + 1;
    else runs.push([token, token + 1]);
  }
  return runs;
}

/** @param {Axis} axis @param {Band} band @param {[number, number]} run @param {Style} style @returns {Shape} */
function bracketShape(axis, band, [token, end], style) {
  const edge = band.at + band.size - 2;
  const ends = [alongOf(axis, token) + 2, alongOf(axis, end) - 2];
  return { kind: "line", points: ends.map((along) => pointOf(axis, along, edge)), stroke: style.soft, line: 1.5 };
}

/**
 * Section bars, in turn light and lighter, with their first words where there is room.
 * @param {Axis} axis
 * @param {Band} band
 * @param {{sections: import("./sections.js").Section[], style: Style}} what
 * @returns {Shape}
 */
export function sectionShapes(axis, band, { sections, style }) {
  /** @type {Shape[]} */
  const shapes = [];
  const [first, last] = seenTokens(axis);
  sections.forEach(({ from, to, title }, at) => {
    if (to <= first || from > last) return;
    const bar = barOf(axis, [from, to], band);
    if (at % 2) shapes.push({ kind: "rect", ...bar, fill: style.sunken });
    const [begin] = pointOf(axis, bar.x, bar.y);
    const long = axis.standing ? bar.height : bar.width;
    const edge = axis.standing ? [[bar.x, bar.y], [bar.x + bar.width, bar.y]] : [[bar.x, bar.y], [bar.x, bar.y + bar.height]];
    if (alongOf(axis, from) >= axis.start) shapes.push({ kind: "line", points: /** @type {Point[]} */ (edge), stroke: style.line });
    shapes.push(...titleShapes(axis, band, { title, begin: axis.standing ? bar.y : begin, long, style }));
  });
  return { kind: "group", clip: clipOf(axis, band), shapes };
}

/**
 * Positions at round steps, right beside the map.
 * @param {Axis} axis
 * @param {Band} band
 * @param {Style} style
 * @returns {Shape}
 */
export function numberShapes(axis, band, style) {
  const [first, last] = seenTokens(axis);
  const step = Math.max(1, roundUp((axis.standing ? 48 : 80) / axis.pixels));
  const edge = band.at + band.size;
  /** @type {Shape[]} */
  const shapes = [];
  for (let token = Math.ceil(first / step) * step; token <= last; token += step) {
    const along = alongOf(axis, token);
    shapes.push({ kind: "line", points: [pointOf(axis, along, edge - 4), pointOf(axis, along, edge)], stroke: style.soft });
    const [x, y] = axis.standing ? [edge - 7, Math.max(along, axis.start + 6)] : [Math.max(along, axis.start + 2), edge - 10];
    shapes.push({ kind: "text", x, y, text: String(token), size: SMALL, fill: style.ink, anchor: axis.standing ? "end" : token ? "middle" : "start" });
  }
  return { kind: "group", clip: clipOf(axis, band), shapes };
}

/**
 * The words of a section, over several lines where the bar is wide across the words.
 * @param {Axis} axis
 * @param {Band} band
 * @param {{title: string, begin: number, long: number, style: Style}} what
 * @returns {Shape[]}
 */
function titleShapes(axis, band, { title, begin, long, style }) {
  const [room, lines] = axis.standing ? [band.size - 12 - NUMBERS, long] : [long - 8, band.size - 14];
  if (lines < SMALL + 3 || room < 26) return [];
  const most = Math.max(1, Math.min(4, Math.floor((lines - 6) / (SMALL + 3))));
  return wrap(title, room, most).map((text, at) => {
    const across = axis.standing ? begin + 9 + at * (SMALL + 3) : band.at + 9 + at * (SMALL + 3);
    const x = axis.standing ? band.at + 5 : begin + 5;
    return { kind: "text", x, y: across, text, size: SMALL, fill: style.soft };
  });
}

/**
 * @param {string} text
 * @param {number} room
 * @param {number} most   lines
 * @returns {string[]}
 */
export function wrap(text, room, most) {
  const pieces = text.match(/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[^\s\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]+\s*|\s+/gu) ?? [];
  /** @type {string[]} */
  const lines = [""];
  for (const piece of pieces) {
    const longer = lines[lines.length - 1] + piece;
    if (textWidth(longer.trimEnd(), SMALL) <= room || lines[lines.length - 1] === "") lines[lines.length - 1] = longer;
    else if (lines.length < most) lines.push(piece);
    else {
      lines[lines.length - 1] = longer + "…";
      break;
    }
  }
  return lines.map((line) => fitText(line.trim(), SMALL, room)).filter(Boolean);
}

/**
 * How tall a value is in its track, 0 to 1.
 * @typedef {(value: number) => number} Height
 */

/**
 * A scale from 0 to `top`, or in decades up to it.
 * @param {number} top
 * @param {boolean} log
 * @returns {Height}
 */
export function heightOf(top, log) {
  const cut = (/** @type {number} */ t) => Math.min(1, Math.max(0, t));
  if (!log) return (value) => cut(value / top);
  const low = Math.min(1e-2, top / 10);
  return (value) => (value > 0 ? cut(Math.log(value / low) / Math.log(top / low)) : 0);
}

/**
 * One track: the mean of each cell as an area, its maximum as a line.
 * @param {Axis} axis
 * @param {Band} band
 * @param {{pieces: TrackTile[], height: Height, style: Style}} what
 * @returns {Shape}
 */
export function trackShapes(axis, band, { pieces, height, style }) {
  /** @type {Shape[]} */
  const shapes = [];
  for (const piece of pieces) {
    const size = 2 ** piece.level;
    const first = Math.max(0, Math.floor((axis.first - piece.x * TILE * size) / size) - 1);
    const end = Math.min(piece.mean.length, Math.ceil((axis.first + axis.length / axis.pixels - piece.x * TILE * size) / size) + 1);
    if (first >= end) continue;
    const steps = (/** @type {Float32Array} */ values) => stepsOf(axis, band, { values, piece, first, end, height });
    const mean = steps(piece.mean);
    const foot = (/** @type {number} */ cell) =>
      pointOf(axis, Math.round(alongOf(axis, Math.min((piece.x * TILE + cell) * size, axis.count))), edgeOf(band));
    const base = [foot(end), foot(first)];
    if (size > 1) shapes.push({ kind: "line", points: steps(piece.max), stroke: style.line, line: 1 });
    shapes.push({ kind: "area", points: [...mean, ...base], fill: style.soft });
  }
  return { kind: "group", clip: clipOf(axis, band), shapes };
}

/**
 * The side of the band that is nearest to the map: tracks grow away from it.
 * @param {Band} band
 * @returns {number}
 */
function edgeOf(band) {
  return band.at + band.size;
}

/**
 * @param {Axis} axis
 * @param {Band} band
 * @param {{values: Float32Array, piece: TrackTile, first: number, end: number, height: Height}} what
 * @returns {Point[]}
 */
function stepsOf(axis, band, { values, piece, first, end, height }) {
  const size = 2 ** piece.level;
  const points = [];
  for (let at = first; at < end; at++) {
    const value = values[at];
    const across = edgeOf(band) - (Number.isNaN(value) ? 0 : height(value)) * (band.size - 2);
    const from = (piece.x * TILE + at) * size;
    const to = Math.min(from + size, axis.count);
    // On whole pixels, so that no hairline shows where two pieces meet.
    for (const token of [from, to]) points.push(pointOf(axis, Math.round(alongOf(axis, token)), across));
  }
  return points;
}
