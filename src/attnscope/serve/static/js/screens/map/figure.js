// @ts-check
/**
 * The figure around and over the tiles, as shapes: axes, tracks, what is chosen, what is pointed at.
 *
 * The idea: the same shapes are painted on the screen and written into an exported SVG, so a saved
 * figure is what was seen.
 *
 * Layout (css pixels)
 *     above the map: received mass, then key labels; left of it: entropy, sink mass, query labels
 *
 * Not here: the tiles (picture.js), the canvas elements (stage.js).
 */

import { LABEL_PIXELS, alongOf, barOf, heightOf, labelShapes, numberShapes, sectionShapes, trackShapes } from "../../draw/tracks.js";
import { fitText, textWidth } from "../../draw/shapes.js";
import { levelFor } from "../../source/pyramid.js";
import { seenRect } from "./view.js";

/** @typedef {import("../../draw/shapes.js").Shape} Shape */
/** @typedef {import("../../draw/tracks.js").Axis} Axis */
/** @typedef {import("../../draw/tracks.js").Band} Band */
/** @typedef {import("../../draw/tracks.js").Style} Style */
/** @typedef {import("./subject.js").Subject} Subject */
/** @typedef {import("./view.js").View} View */

/**
 * @typedef {object} Layout
 * @property {number} width
 * @property {number} height
 * @property {{x: number, y: number, width: number, height: number}} plot   the map itself
 * @property {Record<"received" | "keys" | "entropy" | "sink" | "queries", Band>} bands
 */

/**
 * @typedef {object} FigureState
 * @property {View} view
 * @property {number} dot               device pixels per css pixel
 * @property {Subject} subject
 * @property {Subject | null} compare
 * @property {[number, number] | null} queries
 * @property {[number, number] | null} keys
 * @property {import("./subject.js").Spot | null} hover
 * @property {boolean} hoverSwapped     the pointer is over the comparison
 * @property {Style} style
 * @property {(key: string, values?: Record<string, string | number>) => string} t
 */

/**
 * Room for axes and map; narrow screens get narrow axes.
 * @param {number} width
 * @param {number} height
 * @returns {Layout}
 */
export function layoutOf(width, height) {
  const small = width < 560 || height < 420;
  const [track, labels, over] = small ? [14, 58, 48] : [26, 112, 92];
  const entropy = { at: 0, size: track };
  const sink = { at: track + 2, size: track };
  const queries = { at: 2 * track + 4, size: labels };
  const received = { at: 0, size: track + 4 };
  const keys = { at: track + 6, size: over };
  const [x, y] = [queries.at + queries.size, keys.at + keys.size];
  const plot = { x, y, width: Math.max(40, width - x - 1), height: Math.max(40, height - y - 1) };
  return { width, height, plot, bands: { received, keys, entropy, sink, queries } };
}

/**
 * The axis of keys or of queries under a view.
 * @param {Layout} layout
 * @param {View} view
 * @param {{standing: boolean, count: number}} what
 * @returns {Axis}
 */
export function axisOf({ plot }, view, { standing, count }) {
  const seen = seenRect(view, plot);
  const [start, length, first] = standing ? [plot.y, plot.height, seen.y] : [plot.x, plot.width, seen.x];
  return { standing, start, length, first, pixels: view.pixels, count };
}

/**
 * @param {Layout} layout
 * @param {FigureState} state
 * @returns {Shape[]}
 */
export function figureShapes(layout, state) {
  const { subject, view } = state;
  const { layer } = subject;
  const keys = axisOf(layout, view, { standing: false, count: layer.keys });
  const queries = axisOf(layout, view, { standing: true, count: layer.queries });
  return [
    ...plotShapes(layout, state, keys, queries),
    ...axisShapes(layout.bands.keys, keys, { labels: subject.labels, further: subject.further, chosen: state.keys, state }),
    ...axisShapes(layout.bands.queries, queries, { labels: subject.queryLabels, further: subject.queryFurther, chosen: state.queries, state }),
    ...tracksOf(layout, state, keys, queries),
    ...cornerShapes(layout, state),
  ];
}

/**
 * Labels where there is room for them, sections where there is not, and what is chosen.
 * @param {Band} band
 * @param {Axis} axis
 * @param {{labels: string[], further: boolean[], chosen: [number, number] | null, state: FigureState}} what
 * @returns {Shape[]}
 */
function axisShapes(band, axis, { labels, further, chosen, state }) {
  const { style, subject, view } = state;
  /** @type {Shape[]} */
  const shapes = [];
  const hover = axis.standing === state.hoverSwapped ? state.hover?.keys : state.hover?.queries;
  if (hover) shapes.push({ kind: "rect", ...barOf(axis, [hover[0], hover[1] + 1], band), fill: style.wash });
  if (chosen) shapes.push({ kind: "rect", ...barOf(axis, [chosen[0], chosen[1] + 1], band), fill: style.wash });
  if (view.pixels >= LABEL_PIXELS) return [...shapes, labelShapes(axis, band, { labels, further, chosen, style })];
  const shift = axis.standing ? subject.tokenOf(0) : 0;
  const sections = subject.sections.at(view.pixels).map(({ from, to, title }) => ({ from: from - shift, to: to - shift, title }));
  shapes.push(sectionShapes(axis, band, { sections, style }));
  shapes.push(numberShapes(axis, band, style));
  const grown = subject.info.prompt_tokens - shift;
  if (grown > 0 && grown < axis.count) shapes.push(...generatedShapes(band, axis, grown, style));
  if (chosen) shapes.push(markShape(axis, band, chosen, style));
  return shapes;
}

/**
 * Where the generated tokens begin.
 * @param {Band} band @param {Axis} axis @param {number} from @param {Style} style
 * @returns {Shape[]}
 */
function generatedShapes(band, axis, from, style) {
  const bar = barOf(axis, [from, axis.count], { at: band.at + band.size - 3, size: 3 });
  return bar.width > 0 && bar.height > 0 ? [{ kind: "rect", ...bar, fill: style.accent }] : [];
}

/**
 * A mark that can be seen however small the chosen tokens are.
 * @param {Axis} axis @param {Band} band @param {[number, number]} chosen @param {Style} style
 * @returns {Shape}
 */
function markShape(axis, band, [first, last], style) {
  const begin = alongOf(axis, first);
  const long = Math.max(2, (last + 1 - first) * axis.pixels);
  const at = band.at + band.size - 8;
  const clip = /** @type {[number, number, number, number]} */ (
    axis.standing ? [band.at, axis.start, band.size, axis.length] : [axis.start, band.at, axis.length, band.size]
  );
  const place = axis.standing ? { x: at, y: begin, width: 8, height: long } : { x: begin, y: at, width: long, height: 8 };
  return { kind: "group", clip, shapes: [{ kind: "rect", ...place, fill: style.accent }] };
}

/**
 * What lies over the tiles: the frame, what is chosen, what is pointed at.
 * @param {Layout} layout
 * @param {FigureState} state
 * @param {Axis} keys
 * @param {Axis} queries
 * @returns {Shape[]}
 */
function plotShapes({ plot }, state, keys, queries) {
  const { style, subject, compare, hover, hoverSwapped } = state;
  const left = alongOf(keys, 0);
  const top = alongOf(queries, 0);
  const [right, bottom] = [alongOf(keys, subject.layer.keys), alongOf(queries, subject.layer.queries)];
  /** @type {Shape[]} */
  const shapes = [{ kind: "rect", x: left, y: top, width: right - left, height: bottom - top, stroke: style.line }];
  if (compare) {
    const shift = subject.tokenOf(0);
    const end = Math.max(subject.layer.queries, subject.layer.keys);
    const points = /** @type {import("../../draw/shapes.js").Point[]} */ ([[alongOf(keys, shift), top], [alongOf(keys, end), alongOf(queries, end - shift)]]);
    shapes.push({ kind: "line", points, stroke: style.accent, line: 1 });
    shapes.push(...compareLabel({ right: Math.min(plot.x + plot.width, right), top: Math.max(plot.y, top) }, plot, compare, state));
  }
  const lines = (/** @type {[number, number] | null} */ range, /** @type {Axis} */ axis, /** @type {string} */ stroke) => {
    if (!range) return;
    // One line where two would touch.
    const narrow = (range[1] + 1 - range[0]) * axis.pixels < 3;
    for (const token of narrow ? [(range[0] + range[1] + 1) / 2] : [range[0], range[1] + 1]) {
      const at = Math.round(alongOf(axis, token)) + 0.5;
      const ends = axis.standing ? [[left, at], [right, at]] : [[at, top], [at, bottom]];
      shapes.push({ kind: "line", points: /** @type {any} */ (ends), stroke });
    }
  };
  lines(state.queries, queries, style.accent);
  lines(state.keys, keys, style.accent);
  if (hover) {
    const [across, down] = hoverSwapped ? [hover.queries, hover.keys] : [hover.keys, hover.queries];
    shapes.push(hoverShape(keys, queries, across, down, style));
  }
  const clip = /** @type {[number, number, number, number]} */ ([plot.x, plot.y, plot.width, plot.height]);
  return [{ kind: "group", clip, shapes }];
}

/**
 * What the upper triangle shows, in its corner.
 * @param {{right: number, top: number}} corner   of the map, as far as it is in sight
 * @param {Layout["plot"]} plot @param {Subject} compare @param {FigureState} state
 * @returns {Shape[]}
 */
function compareLabel(corner, plot, { of, name }, { style, t }) {
  const text = fitText(t("map.compare.label", { text: name, layer: of.layer, head: of.head }), 12, plot.width - 24);
  const width = textWidth(text, 12) * 1.08 + 14;
  const [x, y] = [Math.max(plot.x + 6, corner.right - width - 6), corner.top + 6];
  return [
    { kind: "rect", x, y, width, height: 20, fill: style.surface, stroke: style.accent },
    { kind: "text", x: x + width / 2, y: y + 10, text, size: 12, fill: style.ink, anchor: "middle" },
  ];
}

/**
 * A box around the cell, white within dark, so that it shows on every colour.
 * @param {Axis} keys @param {Axis} queries
 * @param {[number, number]} across @param {[number, number]} down @param {Style} style
 * @returns {Shape}
 */
function hoverShape(keys, queries, across, down, style) {
  const x = alongOf(keys, across[0]);
  const y = alongOf(queries, down[0]);
  const width = Math.max(3, alongOf(keys, across[1] + 1) - x);
  const height = Math.max(3, alongOf(queries, down[1] + 1) - y);
  const box = { kind: /** @type {const} */ ("rect"), x: x - 1, y: y - 1, width: width + 2, height: height + 2 };
  const shapes = [
    { ...box, stroke: style.ground, line: 4 },
    { ...box, stroke: style.ink, line: 1.5 },
  ];
  return { kind: "group", clip: [x - 6, y - 6, width + 12, height + 12], shapes };
}

/**
 * @param {Layout} layout
 * @param {FigureState} state
 * @param {Axis} keys
 * @param {Axis} queries
 * @returns {Shape[]}
 */
function tracksOf({ bands }, state, keys, queries) {
  const { subject, view, dot, style } = state;
  const level = levelFor(view.pixels * dot, Math.max(1, subject.layer.levels));
  const one = (/** @type {string} */ name, /** @type {Axis} */ axis, /** @type {Band} */ band) => {
    const last = axis.first + axis.length / axis.pixels;
    const tokens = /** @type {[number, number]} */ ([Math.max(0, Math.floor(axis.first)), Math.min(axis.count, Math.ceil(last)) - 1]);
    const pieces = subject.track(name, level, tokens);
    return trackShapes(axis, band, { pieces, height: trackHeight(subject, name), style });
  };
  return [
    one("received", keys, bands.received),
    one("entropy", queries, bands.entropy),
    one("sink_mass", queries, bands.sink),
  ];
}

/**
 * The scale of a track, which does not change while one pans: a share for the sink, the largest
 * possible entropy, and decades up to the head's largest received mass.
 * @param {Subject} subject
 * @param {string} name
 * @returns {import("../../draw/tracks.js").Height}
 */
export function trackHeight(subject, name) {
  return heightOf(trackTop(subject, name), name === "received");
}

/**
 * @param {Subject} subject
 * @param {string} name
 * @returns {number}
 */
export function trackTop(subject, name) {
  if (name === "sink_mass") return 1;
  if (name === "entropy") return Math.max(1, Math.log(Math.min(subject.layer.keys, subject.layer.window ?? Infinity)));
  const top = subject.layer.levels - 1;
  let most = 0;
  for (const piece of subject.track(name, top, [0, subject.layer.keys - 1])) for (const value of piece.max) most = Math.max(most, value || 0);
  return most || 1;
}

/**
 * Names of the tracks and of the axes, in the corner.
 * @param {Layout} layout
 * @param {FigureState} state
 * @returns {Shape[]}
 */
function cornerShapes({ plot, bands }, { style, t }) {
  if (plot.x < 120) return [];
  const small = { size: 11, fill: style.soft };
  const beside = (/** @type {Band} */ band) => ({ x: band.at + band.size / 2 + 1, y: plot.y - 6 });
  return [
    { kind: "text", x: plot.x - 6, y: bands.received.at + bands.received.size / 2 + 2, text: t("map.track.received"), anchor: "end", ...small },
    { kind: "text", ...beside(bands.entropy), text: t("map.track.entropy"), turned: true, ...small },
    { kind: "text", ...beside(bands.sink), text: t("map.track.sink_mass"), turned: true, ...small },
    { kind: "text", x: plot.x - 6, y: plot.y - 24, text: t("map.axis.keys"), anchor: "end", ...small },
    { kind: "text", x: plot.x - 6, y: plot.y - 8, text: t("map.axis.queries"), anchor: "end", ...small },
  ];
}
