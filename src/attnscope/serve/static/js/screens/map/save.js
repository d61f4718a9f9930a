// @ts-check
/**
 * Saves what the map shows: gathers what a file needs and hands it to the reader.
 *
 * Not here: how a file is made (export.js).
 */

import { levelFor } from "../../source/pyramid.js";
import { MOST_CELLS, fileName, offer, pngBlob, provenance, seenWindow, svgText } from "./export.js";
import { figureShapes } from "./figure.js";
import { lookOf } from "./look.js";

/** @typedef {import("./toolbar.js").ExportKind} ExportKind */
/**
 * What is needed of the screen.
 * @typedef {object} Screenful
 * @property {import("../../types.js").App} app
 * @property {import("../../types.js").ViewState} state
 * @property {import("./subject.js").Subject | null} subject
 * @property {import("./subject.js").Subject | null} compare
 * @property {import("./stage.js").Stage} stage
 * @property {() => import("./figure.js").FigureState} figureState
 * @property {() => boolean} paint
 * @property {(error: unknown) => void} fail
 */

const PNG_SCALE = 2;

export class MapExport {
  /** @param {Screenful} screen */
  constructor(screen) {
    this.screen = screen;
  }

  /** @param {ExportKind} kind */
  async save(kind) {
    const { screen } = this;
    const { app, subject, state } = screen;
    if (!subject?.hasMap) return;
    try {
      const blob = kind === "csv" || kind === "parquet" ? await this.table(kind) : await this.picture(kind);
      if (!blob) return;
      const name = fileName(subject, state.measure, kind);
      offer(app.root, blob, name);
      app.say(app.t("map.export.done", { name }));
    } catch (error) {
      screen.fail(error);
    }
  }

  /**
   * @param {"png" | "svg"} kind
   * @returns {Promise<Blob>}
   */
  async picture(kind) {
    const { app, subject: one, compare, state, stage } = this.screen;
    const subject = /** @type {import("./subject.js").Subject} */ (one);
    const { look } = lookOf(state, subject);
    const figure = { ...this.screen.figureState(), hover: null };
    const window = seenWindow(subject, figure.view, stage.layout);
    const level = levelFor(figure.view.pixels * stage.dot, subject.layer.levels);
    const lines = provenance(app.t, { subject, compare, look, measure: state.measure, window, level });
    // What WebGL has drawn lasts only until the task ends: paint, and take the picture at once.
    this.screen.paint();
    const saved = {
      ...{ layout: stage.layout, shapes: figureShapes(stage.layout, figure), look, style: stage.style },
      ...{ lines, font: stage.font, tiles: stage.tiles, view: { ...state, view: figure.view } },
    };
    if (kind === "svg") return new Blob([svgText(saved)], { type: "image/svg+xml" });
    return pngBlob(saved, Math.max(PNG_SCALE, stage.dot));
  }

  /**
   * @param {"csv" | "parquet"} format
   * @returns {Promise<Blob | null>}
   */
  async table(format) {
    const { app, subject: one, state, stage } = this.screen;
    const subject = /** @type {import("./subject.js").Subject} */ (one);
    const window = seenWindow(subject, this.screen.figureState().view, stage.layout);
    if (!window || window.cells > MOST_CELLS) {
      app.fail(app.t("map.export.too_many", { cells: (window?.cells ?? 0).toLocaleString("en-US"), most: MOST_CELLS.toLocaleString("en-US") }));
      return null;
    }
    const { rows, keys } = window;
    return app.source.table({ ...subject.of, measure: state.measure, rows, keys, format });
  }
}
