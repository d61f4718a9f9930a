// @ts-check
/**
 * Lines, areas and words of a picture as plain data, painted on a canvas or written as SVG.
 *
 * The idea: axes and tracks are described once; the screen paints the description sixty times a
 * second, and the export writes the same description into a file.
 *
 * Units: css pixels, y downwards.
 */

/** @typedef {[number, number]} Point */
/**
 * @typedef {{kind: "rect", x: number, y: number, width: number, height: number, fill?: string, stroke?: string, line?: number}
 *   | {kind: "text", x: number, y: number, text: string, size: number, fill: string, anchor?: "start" | "middle" | "end", turned?: boolean, bold?: boolean}
 *   | {kind: "line", points: Point[], stroke: string, line?: number, dash?: number[]}
 *   | {kind: "area", points: Point[], fill: string}
 *   | {kind: "group", clip: [number, number, number, number], shapes: Shape[]}} Shape
 *   turned: read from bottom to top. clip: x, y, width, height.
 */

/**
 * A width that needs no font: near enough to decide what fits.
 * @param {string} text
 * @param {number} size   of the font, pixels
 * @returns {number}
 */
export function textWidth(text, size) {
  let ems = 0;
  for (const character of text) {
    const code = /** @type {number} */ (character.codePointAt(0));
    if (code >= 0x1100 && !(code >= 0x2000 && code < 0x2e80)) ems += 1;
    else if (/[ilj.,:;'|!]/.test(character)) ems += 0.3;
    else ems += /[mwMW@%]/.test(character) ? 0.85 : 0.56;
  }
  return ems * size;
}

/**
 * The text, or its beginning and "…" where it is wider than there is room.
 * @param {string} text
 * @param {number} size
 * @param {number} room   pixels
 * @returns {string}      empty where not even one character fits
 */
export function fitText(text, size, room) {
  if (textWidth(text, size) <= room) return text;
  const characters = [...text];
  while (characters.length && textWidth(`${characters.join("")}…`, size) > room) characters.pop();
  return characters.length ? `${characters.join("")}…` : "";
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Shape[]} shapes
 * @param {string} font   family
 */
export function paintShapes(context, shapes, font) {
  for (const shape of shapes) paint(context, shape, font);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Shape} shape
 * @param {string} font
 */
function paint(context, shape, font) {
  if (shape.kind === "text") return paintText(context, shape, font);
  if (shape.kind === "group") {
    context.save();
    context.beginPath();
    context.rect(...shape.clip);
    context.clip();
    paintShapes(context, shape.shapes, font);
    return context.restore();
  }
  if (shape.kind === "rect") {
    const { x, y, width, height } = shape;
    if (shape.fill) {
      context.fillStyle = shape.fill;
      context.fillRect(x, y, width, height);
    }
    if (shape.stroke) {
      context.strokeStyle = shape.stroke;
      context.lineWidth = shape.line ?? 1;
      context.strokeRect(x, y, width, height);
    }
    return undefined;
  }
  context.beginPath();
  shape.points.forEach(([x, y], at) => (at ? context.lineTo(x, y) : context.moveTo(x, y)));
  if (shape.kind === "area") {
    context.fillStyle = shape.fill;
    return context.fill();
  }
  context.strokeStyle = shape.stroke;
  context.lineWidth = shape.line ?? 1;
  context.setLineDash(shape.dash ?? []);
  context.stroke();
  return context.setLineDash([]);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Shape & {kind: "text"}} shape
 * @param {string} font
 */
function paintText(context, { x, y, text, size, fill, anchor = "start", turned = false, bold = false }, font) {
  context.font = `${bold ? 600 : 400} ${size}px ${font}`;
  context.fillStyle = fill;
  context.textAlign = anchor === "middle" ? "center" : anchor;
  context.textBaseline = "middle";
  if (!turned) return context.fillText(text, x, y);
  context.save();
  context.translate(x, y);
  context.rotate(-Math.PI / 2);
  context.fillText(text, 0, 0);
  return context.restore();
}

/**
 * What may stand in XML; characters that XML forbids are left out.
 * @param {string} text
 * @returns {string}
 */
export function escapeXml(text) {
  const names = /** @type {Record<string, string>} */ ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;" });
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "").replace(/[&<>"']/g, (c) => names[c]);
}

/** @param {number} value */
function number(value) {
  return String(Math.round(value * 100) / 100);
}

/** @param {Point[]} points */
function path(points) {
  return points.map(([x, y], at) => `${at ? "L" : "M"}${number(x)} ${number(y)}`).join("");
}

/**
 * The shapes as SVG elements.
 * @param {Shape[]} shapes
 * @param {string} [clipName]   start of the ids of clip paths
 * @returns {string}
 */
export function shapesToSvg(shapes, clipName = "clip") {
  return shapes.map((shape, at) => svgOf(shape, `${clipName}-${at}`)).join("\n");
}

/**
 * @param {Shape} shape
 * @param {string} name
 * @returns {string}
 */
function svgOf(shape, name) {
  const quoted = (/** @type {string | undefined} */ text) => escapeXml(text ?? "none");
  switch (shape.kind) {
    case "rect": {
      const place = `x="${number(shape.x)}" y="${number(shape.y)}" width="${number(shape.width)}" height="${number(shape.height)}"`;
      const stroke = shape.stroke ? ` stroke="${quoted(shape.stroke)}" stroke-width="${shape.line ?? 1}"` : "";
      return `<rect ${place} fill="${quoted(shape.fill)}"${stroke}/>`;
    }
    case "text": {
      const { x, y, size, fill, anchor = "start", bold, turned } = shape;
      const turn = turned ? ` transform="rotate(-90 ${number(x)} ${number(y)})"` : "";
      const style = `font-size="${size}" fill="${quoted(fill)}" text-anchor="${anchor}"${bold ? ' font-weight="600"' : ""}`;
      return `<text x="${number(x)}" y="${number(y)}" dy="0.35em" ${style}${turn} xml:space="preserve">${escapeXml(shape.text)}</text>`;
    }
    case "line": {
      const dash = shape.dash ? ` stroke-dasharray="${shape.dash.join(" ")}"` : "";
      return `<path d="${path(shape.points)}" fill="none" stroke="${quoted(shape.stroke)}" stroke-width="${shape.line ?? 1}"${dash}/>`;
    }
    case "area":
      return `<path d="${path(shape.points)}Z" fill="${quoted(shape.fill)}"/>`;
    default: {
      const [x, y, width, height] = shape.clip.map(number);
      const clip = `<clipPath id="${name}"><rect x="${x}" y="${y}" width="${width}" height="${height}"/></clipPath>`;
      return `${clip}<g clip-path="url(#${name})">\n${shapesToSvg(shape.shapes, name)}\n</g>`;
    }
  }
}
