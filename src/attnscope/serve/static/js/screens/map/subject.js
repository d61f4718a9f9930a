// @ts-check
/**
 * One head as the map needs it: its layer, its tokens, its tiles, what its cells are compared with,
 * and its tracks. The map has one, and a second in the upper triangle.
 *
 * Not here: drawing, the view.
 */

import { Norms, sightIsKnown } from "../../draw/norms.js";
import { Sections } from "../../draw/sections.js";
import { addedLabels } from "../../parts/labels.js";
import { isAbort } from "../../source/errors.js";
import { TILE, largestPair, levelFor } from "../../source/pyramid.js";
import { TileSet } from "../../source/tiles.js";

/** @typedef {import("../../types.js").DataSource} DataSource */
/** @typedef {import("../../types.js").HeadRef} HeadRef */
/** @typedef {import("../../types.js").LayerInfo} LayerInfo */
/** @typedef {import("../../types.js").Measure} Measure */
/** @typedef {import("../../types.js").Tile} Tile */
/** @typedef {import("../../types.js").TrackTile} TrackTile */

/**
 * What a cell of the map says.
 * @typedef {object} Spot
 * @property {number} level
 * @property {[number, number]} queries   first and last
 * @property {[number, number]} keys
 * @property {boolean} masked   no pair of it is in sight
 * @property {number} mean      NaN where masked, or not here yet
 * @property {number} max
 * @property {number} norm      what its mean is compared with; NaN where there is nothing
 * @property {{query: number, key: number} | null} pair   of its largest weight
 */

/**
 * @typedef {object} SubjectOptions
 * @property {DataSource} source
 * @property {HeadRef} of
 * @property {Measure} measure
 * @property {() => void} onArrive
 * @property {(error: unknown) => void} onError
 */

/**
 * The head that is meant, or the nearest that a trace has: another text may have other layers.
 * @param {HeadRef} of
 * @param {import("../../types.js").TraceInfo} info
 * @returns {HeadRef | null}   null where no layer has a map
 */
export function nearestHead({ trace, layer, head }, info) {
  const mapped = info.layers.filter(({ kind }) => kind !== "none");
  const far = (/** @type {LayerInfo} */ one) => Math.abs(one.index - layer);
  const found = info.layers.find(({ index }) => index === layer) ?? mapped.sort((a, b) => far(a) - far(b))[0];
  return found ? { trace, layer: found.index, head: Math.max(0, Math.min(head, found.query_heads - 1)) } : null;
}

export class Subject {
  /**
   * @param {SubjectOptions} options
   * @param {{info: import("../../types.js").TraceInfo, layer: LayerInfo, tokens: import("../../types.js").TokenTable, name: string}} about
   */
  constructor(options, { info, layer, tokens, name }) {
    this.options = options;
    this.of = options.of;
    this.info = info;
    this.layer = layer;
    this.name = name;
    this.measure = options.measure;
    this.tokens = tokens;
    this.labels = tokens.labels;
    this.further = addedLabels(tokens).map((label) => label === "");
    this.sections = new Sections(tokens);
    this.norms = new Norms(layer, null);
    this.tiles = this.tileSet(options.measure);
    /** @type {TileSet | null} fetched only where sight does not follow from the layer */
    this.uniform = null;
    this.askedExpected = false;
    /** @type {{top: Tile, known: boolean} | null} */
    this.judged = null;
    /** @type {{top: Tile, most: number} | null} */
    this.measured = null;
    /** @type {Map<string, TrackTile[]>} */
    this.tracks = new Map();
    this.closed = false;
  }

  /**
   * Asks what there is to know about a head.
   * @param {SubjectOptions} options
   * @returns {Promise<Subject>}
   */
  static async open(options) {
    const { source, of } = options;
    const [info, tokens, entries] = await Promise.all([source.info(of.trace), source.tokens(of.trace), source.traces()]);
    const layer = info.layers.find(({ index }) => index === of.layer);
    if (!layer) throw new Error(`layer ${of.layer}`);
    const name = entries.find(({ id }) => id === of.trace)?.name ?? of.trace;
    return new Subject(options, { info, layer, tokens, name });
  }

  /** Whether there is a map at all. */
  get hasMap() {
    return this.layer.kind !== "none" && this.layer.levels > 0 && this.layer.queries > 0;
  }

  /**
   * @param {Measure} measure
   * @returns {TileSet}
   */
  tileSet(measure) {
    const { source, of, onArrive, onError } = this.options;
    return new TileSet({ source, of, measure, layer: this.layer, onArrive, onError });
  }

  /**
   * The number on a query's axis that belongs to it: where its own token stands among the keys.
   * @param {number} query
   * @returns {number}
   */
  tokenOf(query) {
    return query + this.shift;
  }

  /** How many keys stand before the first query's own token. */
  get shift() {
    return this.layer.cross ? 0 : this.layer.keys - this.layer.queries;
  }

  /** Labels along the queries. */
  get queryLabels() {
    return this.shift ? this.labels.slice(this.shift) : this.labels;
  }

  /** Which queries are further pieces of the character before them. */
  get queryFurther() {
    return this.shift ? this.further.slice(this.shift) : this.further;
  }

  /**
   * @param {Measure} measure
   */
  setMeasure(measure) {
    if (measure === this.measure) return;
    this.measure = measure;
    this.tiles.close();
    this.tiles = this.tileSet(measure);
  }

  /**
   * Tells what is seen, so that it is fetched.
   * @param {import("../../source/pyramid.js").Rect} rect   in this head's keys and queries
   * @param {number} pixels   device pixels per token
   * @param {import("../../draw/scale.js").ScaleName} scale
   */
  want(rect, pixels, scale) {
    if (!this.hasMap) return;
    const level = this.level(pixels);
    this.tiles.want(level, rect);
    if (scale === "uniform" && !this.sightKnown) {
      this.uniform ??= this.tileSet("uniform");
      this.uniform.want(level, rect);
    }
    if (scale === "expected") this.wantExpected();
  }

  /** @param {number} pixels */
  level(pixels) {
    return levelFor(pixels, this.layer.levels);
  }

  /**
   * Whether what rows see follows from the layer. Documents packed into one sequence, or a mask, hide
   * cells that the layer's kind would show; the top tile tells.
   */
  get sightKnown() {
    const top = this.tiles.topTile;
    if (!top || top === this.judged?.top) return this.judged?.known ?? sightIsKnown(this.layer);
    const known = sightIsKnown(this.layer) && !this.norms.contradicts(top, this.measure.endsWith("no-sink") ? this.info.sink_keys : 0);
    this.judged = { top, known };
    return known;
  }

  wantExpected() {
    if (this.askedExpected) return;
    this.askedExpected = true;
    const { source, onArrive, onError } = this.options;
    source.expected(this.of).then(
      (expected) => {
        if (this.closed) return;
        this.norms = new Norms(this.layer, expected);
        onArrive();
      },
      (error) => (isAbort(error) || this.closed ? undefined : onError(error)),
    );
  }

  /**
   * What a tile's cells are compared with; null where it is not known (yet).
   * @param {Tile} tile
   * @param {import("../../draw/scale.js").Look} look
   * @returns {Float32Array | null}
   */
  normsOf(tile, { scale, plane }) {
    if (scale !== "uniform" && scale !== "expected") return null;
    if (scale === "uniform" && !this.sightKnown) return this.uniform?.get(tile)?.mean ?? null;
    return this.norms.of(tile, scale, plane);
  }

  /**
   * The cell that holds a pair, at the level that is shown, or the nearest coarser one that is here.
   * @param {number} query
   * @param {number} key
   * @param {{pixels: number, look: import("../../draw/scale.js").Look}} how   device pixels per token
   * @returns {Spot | null}
   */
  spot(query, key, { pixels, look }) {
    if (query < 0 || key < 0 || query >= this.layer.queries || key >= this.layer.keys || !this.hasMap) return null;
    const level = this.level(pixels);
    const span = TILE * 2 ** level;
    const tile = this.tiles.find({ level, x: Math.floor(key / span), y: Math.floor(query / span) });
    return tile ? this.spotIn(tile, query, key, look) : null;
  }

  /**
   * @param {Tile} tile
   * @param {number} query
   * @param {number} key
   * @param {import("../../draw/scale.js").Look} look
   * @returns {Spot}
   */
  spotIn(tile, query, key, look) {
    const size = 2 ** tile.level;
    const [row, column] = [Math.floor(query / size) - tile.y * TILE, Math.floor(key / size) - tile.x * TILE];
    const block = (/** @type {number} */ at, /** @type {number} */ end) =>
      /** @type {[number, number]} */ ([Math.floor(at / size) * size, Math.min(Math.floor(at / size) * size + size, end) - 1]);
    const at = row * tile.width + column;
    return {
      level: tile.level,
      queries: block(query, this.layer.queries),
      keys: block(key, this.layer.keys),
      masked: tile.state === "masked" || (tile.mean !== null && Number.isNaN(tile.mean[at])),
      mean: tile.mean ? tile.mean[at] : NaN,
      max: tile.max ? tile.max[at] : NaN,
      norm: this.normsOf(tile, { ...look, plane: "mean" })?.[at] ?? NaN,
      pair: tile.mean && !Number.isNaN(tile.mean[at]) ? largestPair(tile, column, row) : null,
    };
  }

  /**
   * A single pair as a cell of level 0, whatever level is shown.
   * @param {number} query
   * @param {number} key
   * @param {import("../../draw/scale.js").Look} look
   * @returns {Spot}
   */
  spotOfPair(query, key, look) {
    const place = { level: 0, x: Math.floor(key / TILE), y: Math.floor(query / TILE) };
    const tile = this.layer.levels > 0 ? this.tiles.get(place) : null;
    if (tile) return this.spotIn(tile, query, key, look);
    const pair = { query, key };
    return { level: 0, queries: [query, query], keys: [key, key], masked: false, mean: NaN, max: NaN, norm: NaN, pair };
  }

  /** The largest value of the whole head, as far as the top tile says; 0 while it is not here. */
  get largest() {
    const top = this.tiles.topTile;
    if (!top?.mean || !top.max) return 0;
    if (this.measured?.top === top) return this.measured.most;
    let most = 0;
    for (let i = 0; i < top.mean.length; i++) most = Math.max(most, top.max[i] || 0, top.mean[i] || 0);
    this.measured = { top, most };
    return most;
  }

  /**
   * Pieces of a track over some tokens; asked for where they are not here.
   * @param {string} name
   * @param {number} level
   * @param {[number, number]} tokens   first and last
   * @returns {TrackTile[]}
   */
  track(name, level, [first, last]) {
    if (!this.info.tracks.includes(name) || last < first || !this.hasMap) return [];
    const span = TILE * 2 ** level;
    const pieces = [];
    for (let x = Math.floor(first / span); x <= Math.floor(last / span); x++) {
      const key = `${name}/${level}/${x}`;
      const found = this.tracks.get(key);
      if (!found) this.askTrack(key, name, level, x);
      else pieces.push(...found);
    }
    return pieces;
  }

  /** @param {string} key @param {string} name @param {number} level @param {number} x */
  askTrack(key, name, level, x) {
    this.tracks.set(key, []);
    const { source, onArrive, onError } = this.options;
    source.tracks({ ...this.of, names: [name], level, at: [x] }).then(
      (found) => {
        this.tracks.set(key, found);
        if (!this.closed) onArrive();
      },
      (error) => {
        if (!this.closed && !isAbort(error)) onError(error);
      },
    );
  }

  close() {
    this.closed = true;
    this.tiles.close();
    this.uniform?.close();
    this.tracks.clear();
  }
}
