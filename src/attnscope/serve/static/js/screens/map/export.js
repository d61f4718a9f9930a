// @ts-check
/**
 * The figure as a file: PNG and SVG with the scale, the labels and where it comes from in it, and the
 * numbers of what is seen as CSV or Parquet.
 *
 * The idea: the file holds the same shapes as the screen, and below them the colour bar and two lines
 * that say what it is; an SVG also holds the whole view as JSON. The page's address is not in it: it
 * holds the server's secret.
 *
 * Not here: the figure itself (figure.js).
 */

import { cssColour, paletteTable } from "../../draw/palettes.js";
import { tickText } from "../../draw/colourbar.js";
import { placeOf, ticksOf, valueAt } from "../../draw/scale.js";
import { escapeXml, paintShapes, shapesToSvg } from "../../draw/shapes.js";
import { seenRect } from "./view.js";

/** @typedef {import("../../draw/scale.js").Look} Look */
/** @typedef {import("../../draw/shapes.js").Shape} Shape */
/** @typedef {import("../../draw/tracks.js").Style} Style */
/** @typedef {import("./figure.js").Layout} Layout */
/** @typedef {import("./subject.js").Subject} Subject */

/** The server gives no larger table. */
export const MOST_CELLS = 4_000_000;
const FOOT = 84;
const BAR = { width: 280, height: 12 };
const STEPS = 64;

/**
 * @typedef {object} Saved
 * @property {Layout} layout
 * @property {Shape[]} shapes     of the figure
 * @property {Look} look
 * @property {Style} style
 * @property {string[]} lines     what it is, in words
 * @property {string} font
 * @property {HTMLCanvasElement} tiles
 * @property {object} view        the whole view, for whoever wants to see it again
 */

/**
 * The colour bar and the words under the figure.
 * @param {Pick<Saved, "layout" | "look" | "style" | "lines">} saved
 * @returns {Shape[]}
 */
export function footShapes({ layout, look, style, lines }) {
  const { plot } = layout;
  const top = layout.height + 14;
  const table = paletteTable(look.palette);
  const width = Math.min(BAR.width, plot.width);
  /** @type {Shape[]} */
  const shapes = [];
  for (let step = 0; step < STEPS; step++) {
    const fill = cssColour(table, Math.round((step / (STEPS - 1)) * 255));
    shapes.push({ kind: "rect", x: plot.x + (step * width) / STEPS, y: top, width: width / STEPS + 0.5, height: BAR.height, fill });
  }
  shapes.push({ kind: "rect", x: plot.x, y: top, width, height: BAR.height, stroke: style.line });
  for (const value of ticksOf(look)) {
    const x = plot.x + placeOf(look, value) * width;
    shapes.push({ kind: "line", points: [[x, top + BAR.height], [x, top + BAR.height + 4]], stroke: style.line });
    shapes.push({ kind: "text", x, y: top + BAR.height + 11, text: tickText(value, look.scale), size: 10, fill: style.soft, anchor: "middle" });
  }
  lines.forEach((text, at) =>
    shapes.push({ kind: "text", x: plot.x, y: top + BAR.height + 30 + 14 * at, text, size: 11, fill: at ? style.soft : style.ink }));
  return shapes;
}

/**
 * @param {Saved} saved
 * @returns {string}
 */
export function svgText(saved) {
  const { layout, style, font, tiles, view, lines } = saved;
  const { plot, width } = layout;
  const height = layout.height + FOOT;
  const image = tiles.toDataURL("image/png");
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="${escapeXml(font)}">`,
    `<title>${escapeXml(lines[0] ?? "attnscope")}</title>`,
    `<desc>${escapeXml(lines.join(" "))}</desc>`,
    `<metadata>${escapeXml(JSON.stringify(view))}</metadata>`,
    `<rect width="${width}" height="${height}" fill="${escapeXml(style.ground)}"/>`,
    `<image x="${plot.x}" y="${plot.y}" width="${plot.width}" height="${plot.height}" preserveAspectRatio="none" style="image-rendering:pixelated" xlink:href="${image}" href="${image}"/>`,
    shapesToSvg([...saved.shapes, ...footShapes(saved)]),
    "</svg>",
  ].join("\n");
}

/**
 * @param {Saved} saved
 * @param {number} scale   pixels of the file per css pixel
 * @returns {Promise<Blob>}
 */
export function pngBlob(saved, scale) {
  const { layout, style, font, tiles } = saved;
  const canvas = tiles.ownerDocument.createElement("canvas");
  canvas.width = Math.round(layout.width * scale);
  canvas.height = Math.round((layout.height + FOOT) * scale);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.scale(scale, scale);
  context.fillStyle = style.ground;
  context.fillRect(0, 0, layout.width, layout.height + FOOT);
  context.imageSmoothingEnabled = false;
  const { x, y, width, height } = layout.plot;
  context.drawImage(tiles, x, y, width, height);
  paintShapes(context, [...saved.shapes, ...footShapes(saved)], font);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large to save"))), "image/png"));
}

/**
 * The whole tokens that are seen, first and last; null where nothing of the map is.
 * @param {Subject} subject
 * @param {import("./view.js").View} view
 * @param {Layout} layout
 * @returns {{rows: [number, number], keys: [number, number], cells: number} | null}
 */
export function seenWindow({ layer }, view, { plot }) {
  const { x, y, width, height } = seenRect(view, plot);
  const cut = (/** @type {number} */ low, /** @type {number} */ high, /** @type {number} */ count) =>
    /** @type {[number, number]} */ ([Math.max(0, Math.floor(low)), Math.min(count, Math.ceil(high)) - 1]);
  const [rows, keys] = [cut(y, y + height, layer.queries), cut(x, x + width, layer.keys)];
  if (rows[1] < rows[0] || keys[1] < keys[0]) return null;
  return { rows, keys, cells: (rows[1] - rows[0] + 1) * (keys[1] - keys[0] + 1) };
}

/**
 * What a saved figure says of itself.
 * @param {import("../../types.js").App["t"]} t
 * @param {{subject: Subject, compare: Subject | null, look: Look, measure: string, window: {rows: [number, number], keys: [number, number]} | null, level: number}} what
 * @returns {string[]}
 */
export function provenance(t, { subject, compare, look, measure, window, level }) {
  const { info, of, name } = subject;
  const values = { model: info.model.name, text: name, layer: of.layer, head: of.head };
  const first = t("map.saved.what", values);
  const cell = 2 ** level;
  const scale = t("map.saved.scale", { measure: t(`map.saved.${measure}`), scale: t(`map.scale.${look.scale}`), plane: t(`map.plane.${look.plane}`),
    low: tickText(valueAt(look, 0), look.scale), high: tickText(valueAt(look, 1), look.scale) });
  const where = window ? t("map.saved.window", { rows: `${window.rows[0]}–${window.rows[1]}`, keys: `${window.keys[0]}–${window.keys[1]}`, cell }) : "";
  const second = compare ? ` ${t("map.saved.compare", { model: compare.info.model.name, text: compare.name, layer: compare.of.layer, head: compare.of.head })}` : "";
  return [`${first}${second}`, `${scale} ${where} · attnscope`];
}

/**
 * A name for a file, of characters that every system takes.
 * @param {Subject} subject
 * @param {string} measure
 * @param {string} kind
 * @returns {string}
 */
export function fileName({ of, name }, measure, kind) {
  const safe = name.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|[-.]+$/g, "").slice(0, 60) || "trace";
  return `${safe}-layer${of.layer}-head${of.head}-${measure}.${kind}`;
}

/**
 * Gives a file to the reader.
 * @param {HTMLElement} root
 * @param {Blob} blob
 * @param {string} name
 */
export function offer(root, blob, name) {
  const url = URL.createObjectURL(blob);
  const link = root.ownerDocument.createElement("a");
  link.href = url;
  link.download = name;
  link.hidden = true;
  root.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
