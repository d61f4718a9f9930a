// @ts-check
/**
 * The map of one head: the screen that joins view, figure, controls and numbers.
 *
 * The idea: what lasts is in the view's state and so in the URL; what moves (the view while it is
 * dragged, what is under the pointer) lives here and is written into the state when it rests.
 *
 * Not here: the parts themselves, one file each in this folder.
 */

import { isRatio } from "../../draw/scale.js";
import { h } from "../../parts/dom.js";
import { explain, isAbort } from "../../source/errors.js";
import { transposed } from "../../source/pyramid.js";
import { Camera } from "./camera.js";
import { Chooser } from "./chooser.js";
import { Controls } from "./controls.js";
import { MapExport } from "./save.js";
import { figureShapes } from "./figure.js";
import { mapKeys, meaningOf } from "./keys.js";
import { lookOf } from "./look.js";
import { itemsOf } from "./picture.js";
import { Pointers } from "./pointer.js";
import { Readout } from "./readout.js";
import { RowTable } from "./rowtable.js";
import { SearchBox } from "./search.js";
import { Stage } from "./stage.js";
import { Subject, nearestHead } from "./subject.js";
import { Toolbar } from "./toolbar.js";
import { seenRect, toTokens } from "./view.js";


/** @typedef {import("../../types.js").App} App */
/** @typedef {import("../../types.js").HeadRef} HeadRef */
/** @typedef {import("../../types.js").Screen} Screen */
/** @typedef {import("../../types.js").ViewState} ViewState */
/** @typedef {import("./subject.js").Spot} Spot */

/**
 * Where a cell lies on the colour bar, as a value of its scale.
 * @param {Spot} spot
 * @param {import("../../draw/scale.js").Look} look
 * @returns {number | null}
 */
function barValue(spot, look) {
  const value = look.plane === "max" && spot.level ? spot.max : spot.mean;
  const shown = isRatio(look.scale) ? value / spot.norm : value;
  return Number.isNaN(shown) ? null : shown;
}

/** @type {import("../../types.js").MountScreen} */
export function mountMap(place, app) {
  return new MapScreen(place, app);
}

export { mapKeys };

/** @implements {Screen} */
class MapScreen {
  /**
   * @param {HTMLElement} place
   * @param {App} app
   */
  constructor(place, app) {
    const { t, root } = app;
    this.app = app;
    this.state = app.store.get();
    /** @type {Subject | null} */
    this.subject = null;
    /** @type {Subject | null} */
    this.compare = null;
    /** @type {import("../../types.js").TraceEntry[]} */
    this.traces = [];
    /** @type {{left: number, top: number} | null} */
    this.pointer = null;
    /** @type {Spot | null} */
    this.hover = null;
    this.controlsLater = false;
    this.hoverSwapped = false;
    this.shownSpot = "";
    this.turn = 0;
    this.lastError = { text: "", at: 0 };
    const { draw } = root.dataset;
    const prefer = draw === "canvas2d" || draw === "webgl2" ? draw : "auto";
    this.stage = new Stage(root, { label: t("map.proxy"), help: t("map.proxy.help"), prefer, onFrame: () => this.paint() });
    this.camera = new Camera({ store: app.store, extent: () => this.extent, plot: () => this.stage.layout.plot, ask: () => this.stage.ask() });
    this.chooser = new Chooser(app, { subject: () => this.subject, camera: this.camera, fail: (error) => this.fail(error) });
    this.toolbar = new Toolbar(t, {
      onHead: ({ layer, head }) => this.goToHead(layer, head),
      onCompare: (compare) => void this.setCompare(compare),
      onToggleCompare: () => this.toggleCompare(),
      onSearch: () => this.search.open(),
      onFit: () => this.camera.fit(),
      onZoom: (factor) => this.camera.zoom(factor),
      onExport: (kind) => void this.saver.save(kind),
    });
    this.controls = new Controls(app);
    this.readout = new Readout(app, (pair) => this.chooser.flyTo(pair));
    this.table = new RowTable(app, { onGo: (pair) => this.chooser.choose(pair), onHow: (how) => app.store.set({ how }), onTotal: (how, value) => this.readout.tellTotal(how, value) });
    this.search = new SearchBox({ t, onGo: (hit) => this.chooser.goToHit(hit), onClose: () => this.stage.proxy.focus() });
    this.saver = new MapExport(this);
    this.none = h("p", { class: "map-none", hidden: true });
    this.figure = h("div", { class: "map-main" }, this.search.element, this.stage.element, this.none);
    this.side = h("aside", { class: "map-side" }, this.readout.element, this.controls.element, this.table.element);
    place.append(this.toolbar.element, h("div", { class: "map-body" }, this.figure, this.side));
    this.pointers = new Pointers(this.stage.proxy, this.meanings());
  }

  /** @returns {import("./pointer.js").Meanings} */
  meanings() {
    return {
      layout: () => this.stage.layout,
      pan: (right, down) => this.camera.pan(right, down),
      zoom: (point, factor) => this.camera.zoom(factor, point),
      hover: (point) => {
        this.pointer = point;
        this.stage.ask();
      },
      click: (point) => this.click(point),
      choose: (axis, from, to) => this.chooser.range(axis, from, to),
      rest: () => this.camera.rest(),
    };
  }

  /** @param {ViewState} now @param {ViewState | null} before */
  update(now, before) {
    this.state = now;
    const of = (/** @type {ViewState | null} */ state) => state && JSON.stringify([state.trace, state.layer, state.head]);
    if (of(now) !== of(before) || !this.subject) void this.openSubject();
    else if (now.measure !== before?.measure) this.subject.setMeasure(now.measure);
    const second = (/** @type {ViewState | null} */ state) => JSON.stringify(state?.compare ?? null);
    if (second(now) !== second(before) || (now.compare && !this.compare)) void this.openCompare();
    else if (now.measure !== before?.measure) this.compare?.setMeasure(now.measure);
    if (!before || now.view !== before.view) this.camera.take();
    this.refresh();
  }

  /** Opens the head that the state names; where it names none, the first that has a map. */
  async openSubject() {
    const turn = ++this.turn;
    const { trace, layer, head, measure } = this.state;
    if (trace === null) return;
    try {
      this.traces = await this.app.source.traces();
      const info = await this.app.source.info(trace);
      if (turn !== this.turn) return;
      if (layer === null || head === null) return this.chooseFirst(info);
      const subject = await Subject.open(this.options({ trace, layer, head }, measure));
      if (turn !== this.turn) return subject.close();
      const sameText = this.subject?.of.trace === trace;
      this.subject?.close();
      this.subject = subject;
      this.search.setTokens(subject.tokens);
      if (!sameText) this.camera.take();
      this.shownSpot = "";
      this.refresh();
    } catch (error) {
      if (turn === this.turn) this.fail(error);
    }
  }

  /** @param {import("../../types.js").TraceInfo} info */
  chooseFirst(info) {
    const { layer } = this.state;
    const first = info.layers.find((one) => one.index === layer) ?? info.layers.find((one) => one.kind !== "none") ?? info.layers[0];
    if (first) this.app.store.set({ layer: first.index, head: 0 }, { push: false });
  }

  /** @param {HeadRef} of */
  async setCompare(of) {
    try {
      this.app.store.set({ compare: nearestHead(of, await this.app.source.info(of.trace)) });
    } catch (error) {
      this.fail(error);
    }
  }

  async openCompare() {
    const { compare, measure } = this.state;
    this.compare?.close();
    this.compare = null;
    if (!compare) return this.refresh();
    try {
      const subject = await Subject.open(this.options(compare, measure));
      if (this.state.compare !== compare) return subject.close();
      this.compare = subject;
      this.refresh();
    } catch (error) {
      this.fail(error);
      this.app.store.set({ compare: null });
    }
  }

  /**
   * @param {HeadRef} of
   * @param {import("../../types.js").Measure} measure
   * @returns {import("./subject.js").SubjectOptions}
   */
  options({ trace, layer, head }, measure) {
    return { source: this.app.source, of: { trace, layer, head }, measure, onArrive: () => this.arrived(), onError: (error) => this.fail(error) };
  }

  arrived() {
    this.shownSpot = "";
    this.controlsLater = true;
    this.stage.ask();
  }

  /** @param {unknown} error   the same sentence once in ten seconds: a hundred tiles may fail alike */
  fail(error) {
    if (isAbort(error)) return;
    const text = explain(error, this.app.t);
    const now = Date.now();
    if (text === this.lastError.text && now - this.lastError.at < 10_000) return;
    this.lastError = { text, at: now };
    this.app.fail(text);
  }

  /** Brings controls, numbers and figure to what the state says. */
  refresh() {
    const { subject } = this;
    if (!subject) return;
    this.toolbar.update(subject, this.compare, this.traces);
    this.controls.update(this.state, subject, lookOf(this.state, subject));
    this.none.hidden = subject.hasMap;
    this.stage.element.hidden = !subject.hasMap;
    this.side.hidden = !subject.hasMap;
    if (!subject.hasMap) this.none.textContent = this.app.t("map.none", { layer: subject.of.layer, reason: subject.layer.reason ?? "" });
    this.shownSpot = "";
    this.stage.measure();
    this.stage.ask();
  }

  /** Of both maps: the comparison may be longer. */
  get extent() {
    const layers = [this.subject?.layer, this.compare?.layer].filter((one) => one !== undefined);
    const most = (/** @type {"keys" | "queries"} */ name) => Math.max(1, ...layers.map((layer) => layer[name]));
    if (layers.length < 2) return { keys: most("keys"), queries: most("queries") };
    const all = Math.max(most("keys"), most("queries"));
    return { keys: all, queries: all };
  }

  /** @param {number} layer @param {number} head */
  goToHead(layer, head) {
    const found = this.subject?.info.layers.find((one) => one.index === layer);
    this.app.store.set({ layer, head: Math.min(head, Math.max(0, (found?.query_heads ?? 1) - 1)) }, { push: true });
  }

  toggleCompare() {
    const { subject } = this;
    if (!subject || !subject.layer.causal || subject.layer.cross) return;
    const { trace, layer, head } = subject.of;
    const next = { trace, layer, head: (head + 1) % Math.max(1, subject.layer.query_heads) };
    const on = this.state.compare === null;
    this.app.store.set({ compare: on ? next : null });
    this.app.say(this.app.t(on ? "map.compare.on" : "map.compare.off", next));
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    const meaning = meaningOf(event);
    if (!meaning || !this.subject) return false;
    const hover = this.hoverSwapped ? null : this.hover;
    if (meaning.do === "step") this.chooser.step(meaning, hover);
    else if (meaning.do === "pan") this.camera.pan(meaning.right, meaning.down);
    else if (meaning.do === "zoom") this.camera.zoom(meaning.factor);
    else if (meaning.do === "fit") this.camera.fit();
    else if (meaning.do === "search") this.search.open();
    else if (meaning.do === "compare") this.toggleCompare();
    else if (meaning.do === "unlock") return this.chooser.unlock();
    else if (meaning.do === "lock") return this.chooser.lock(hover);
    else return this.flyThere();
    return true;
  }

  /** @returns {boolean} */
  flyThere() {
    const pair = this.readout.pair ?? this.chooser.pair;
    if (!pair || this.hoverSwapped) return false;
    this.chooser.flyTo(pair);
    return true;
  }

  /** @param {{left: number, top: number}} point */
  click(point) {
    const spot = this.spotAt(point);
    this.stage.proxy.focus();
    if (spot && !this.hoverSwapped) this.chooser.click(spot);
  }

  /** @param {{left: number, top: number}} point @returns {Spot | null} */
  spotAt(point) {
    const { subject, compare, stage } = this;
    if (!subject) return null;
    const place = toTokens(this.camera.view, stage.layout.plot, point);
    const [query, key] = [Math.floor(place.query), Math.floor(place.key)];
    const how = { pixels: this.camera.view.pixels * stage.dot, look: lookOf(this.state, subject).look };
    this.hoverSwapped = compare !== null && key > subject.tokenOf(query);
    return this.hoverSwapped && compare ? compare.spot(key, query, how) : subject.spot(query, key, how);
  }

  /** One frame. @returns {boolean} whether another is needed */
  paint() {
    const { subject, compare, stage, state } = this;
    if (!subject?.hasMap) return false;
    const { plot } = stage.layout;
    const view = this.camera.frame();
    const { look, natural } = lookOf(state, subject);
    if (this.controlsLater) this.controls.update(state, subject, { look, natural });
    this.controlsLater = false;
    const seen = seenRect(view, plot);
    const pixels = view.pixels * stage.dot;
    this.want(look.scale);
    for (const one of [subject, compare]) if (one) Object.assign(one.norms, { allowance: 2, owing: false });
    const frame = { seen, pixels, look };
    const items = [...(compare ? itemsOf(compare, frame, true) : []), ...itemsOf(subject, frame, false)];
    const left = stage.paintTiles({ items, look });
    this.point();
    stage.paintOver(figureShapes(stage.layout, this.figureState()));
    stage.element.dataset.pending = String(subject.tiles.pending + (compare?.tiles.pending ?? 0) + left);
    return left > 0 || subject.norms.owing || (compare?.norms.owing ?? false) || this.camera.flying;
  }

  /** @param {import("../../draw/scale.js").ScaleName} scale */
  want(scale) {
    const { subject, compare, stage } = this;
    // While it flies, the tiles of where it lands are fetched, not those on the way.
    const view = this.camera.target;
    const seen = seenRect(view, stage.layout.plot);
    subject?.want(seen, view.pixels * stage.dot, scale);
    compare?.want(transposed(seen), view.pixels * stage.dot, scale);
  }

  figureState() {
    const { subject, compare, hover, hoverSwapped, state, stage } = this;
    const { view } = this.camera;
    return {
      ...{ view, compare, hover, hoverSwapped, dot: stage.dot, style: stage.style, t: this.app.t },
      ...{ subject: /** @type {Subject} */ (subject), queries: state.queries, keys: state.keys },
    };
  }

  /** Finds what is pointed at or chosen, and shows its numbers where it is another than before. */
  point() {
    const { subject, compare, state } = this;
    if (!subject) return;
    const free = this.pointer && !state.locked && !this.camera.flying;
    this.hover = free && this.pointer ? this.spotAt(this.pointer) : null;
    const { look } = lookOf(state, subject);
    const { pair, single } = this.chooser;
    const spot = this.hover ?? (pair && single ? subject.spotOfPair(pair.query, pair.key, look) : null);
    const of = this.hover && this.hoverSwapped && compare ? compare : subject;
    const chosen = spot ? [spot.queries, spot.keys, spot.mean, spot.norm] : [state.queries, state.keys, state.how];
    const name = JSON.stringify([chosen, of.of, state.measure]);
    if (name === this.shownSpot) return;
    this.shownSpot = name;
    if (spot) this.readout.show(of, spot, { second: of === compare, measure: state.measure });
    else if (state.queries || state.keys) this.readout.showRange(subject, state);
    else this.readout.clear();
    this.controls.bar.point(spot && barValue(spot, look));
    // The table follows the pointer where it is over single pairs; else it keeps to what is chosen.
    const follow = this.hover && this.hover.level === 0 && of === subject;
    const rows = follow && this.hover ? { queries: this.hover.queries, keys: null } : state;
    this.table.update(subject, { queries: rows.queries, keys: rows.keys, how: state.how });
  }

  dispose() {
    this.turn += 1;
    this.pointers.dispose();
    this.camera.dispose();
    this.table.dispose();
    this.subject?.close();
    this.compare?.close();
    this.stage.dispose();
  }
}
