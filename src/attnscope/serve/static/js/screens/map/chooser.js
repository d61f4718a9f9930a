// @ts-check
/**
 * What is chosen on the map: a pair, a range of tokens, by mouse or by arrows; locking and unlocking.
 *
 * The idea: what is chosen is in the view's state. A choice is spoken with its exact weight.
 *
 * Not here: how it is drawn (figure.js) or told (readout.js).
 */

import { nextWord } from "../../draw/sections.js";
import { joinedLabel } from "../../parts/labels.js";
import { significant } from "../../parts/numbers.js";
import { toTokens } from "./view.js";

/** @typedef {{query: number, key: number}} Pair */
/** @typedef {import("./subject.js").Spot} Spot */

const NEAR_PIXELS = 24;
/** So large a token's label can be read. */
const READ_PIXELS = 14;

export class Chooser {
  /**
   * @param {import("../../types.js").App} app
   * @param {object} of
   * @param {() => import("./subject.js").Subject | null} of.subject
   * @param {import("./camera.js").Camera} of.camera
   * @param {(error: unknown) => void} of.fail
   */
  constructor({ store, t, say }, { subject, camera, fail }) {
    this.store = store;
    this.t = t;
    this.say = say;
    this.of = subject;
    this.camera = camera;
    this.fail = fail;
    this.speaking = 0;
  }

  get subject() {
    return this.of();
  }

  /** The chosen pair, where a query and a key are chosen. @returns {Pair | null} */
  get pair() {
    const { queries, keys } = this.store.get();
    return queries && keys ? { query: queries[0], key: keys[0] } : null;
  }

  /** Whether no more than one query and one key are chosen. */
  get single() {
    const { queries, keys } = this.store.get();
    return [queries, keys].every((range) => range === null || range[0] === range[1]);
  }

  /**
   * Where the arrows start from: what is chosen, else what is pointed at, else the middle.
   * @param {Spot | null} hover
   * @returns {Pair | null}
   */
  start(hover) {
    const { subject, pair } = this;
    if (!subject?.hasMap) return null;
    if (pair) return pair;
    if (hover?.pair) return hover.pair;
    const { queries, keys } = this.store.get();
    const within = (/** @type {number} */ at, /** @type {number} */ last) => Math.max(0, Math.min(last, Math.floor(at)));
    const query = queries?.[0] ?? within(this.camera.view.y, subject.layer.queries - 1);
    const last = subject.layer.causal ? Math.min(subject.tokenOf(query), subject.layer.keys - 1) : subject.layer.keys - 1;
    return { query, key: keys?.[0] ?? within(this.camera.view.x, last) };
  }

  /** @param {Spot} spot */
  click(spot) {
    const single = spot.queries[0] === spot.queries[1] && spot.keys[0] === spot.keys[1];
    const pair = single ? { query: spot.queries[0], key: spot.keys[0] } : spot.pair;
    if (pair) this.choose(pair, false);
  }

  /**
   * Chooses the tokens between two places on an axis.
   * @param {"keys" | "queries"} axis
   * @param {number} from   css pixels within the plot
   * @param {number} to
   */
  range(axis, from, to) {
    const token = (/** @type {number} */ at) => {
      const place = toTokens(this.camera.view, this.camera.plot(), { left: at, top: at });
      const count = this.subject?.layer[axis] ?? 1;
      return Math.max(0, Math.min(count - 1, Math.floor(axis === "keys" ? place.key : place.query)));
    };
    const range = /** @type {[number, number]} */ ([token(from), token(to)].sort((a, b) => a - b));
    this.store.set({ [axis]: range, locked: true });
  }

  /**
   * Chooses a pair, or only one side of it.
   * @param {{query: number | null, key: number | null}} pair
   * @param {boolean} [show]   bring it into sight
   */
  choose({ query, key }, show = true) {
    const { queries, keys } = this.store.get();
    this.store.set({
      queries: query === null ? queries : [query, query],
      keys: key === null ? keys : [key, key],
      locked: true,
    });
    if (query === null || key === null) return;
    if (show) this.camera.reveal({ query, key });
    void this.speak({ query, key });
  }

  /** @param {Pair} pair */
  flyTo(pair) {
    this.choose(pair, false);
    this.camera.flyTo(pair, NEAR_PIXELS);
  }

  /** @param {import("./search.js").Hit} hit */
  goToHit({ from, to }) {
    const { subject } = this;
    if (!subject) return;
    this.store.set({ keys: [from, to], locked: true });
    const query = Math.max(0, from - subject.tokenOf(0));
    this.camera.flyTo({ query, key: from }, READ_PIXELS);
    this.say(this.t("map.search.at", { from, text: joinedLabel(subject.tokens, from, to) }));
  }

  /**
   * @param {{query: number, key: number, word: boolean}} by   -1, 0 or 1
   * @param {Spot | null} hover
   */
  step({ query, key, word }, hover) {
    const { subject } = this;
    const start = this.start(hover);
    if (!subject || !start) return;
    const go = (/** @type {number} */ at, /** @type {number} */ step, /** @type {string[]} */ labels, /** @type {number} */ count) => {
      if (!step) return at;
      const next = word ? nextWord(labels, at, /** @type {1 | -1} */ (step)) : at + step;
      return Math.max(0, Math.min(count - 1, next));
    };
    const { layer } = subject;
    const next = { query: go(start.query, query, subject.queryLabels, layer.queries), key: go(start.key, key, subject.labels, layer.keys) };
    if (layer.causal && !layer.cross) next.key = Math.min(next.key, subject.tokenOf(next.query));
    this.choose(next);
  }

  /** @param {Pair} pair */
  async speak({ query, key }) {
    const { subject } = this;
    if (!subject) return;
    const turn = ++this.speaking;
    try {
      const { weight, visible } = await subject.options.source.cell({ ...subject.of, query, key });
      if (turn !== this.speaking) return;
      const value = visible ? significant(weight, 2) : this.t("map.masked");
      this.say(this.t("map.say", { query, key, value }));
    } catch (error) {
      this.fail(error);
    }
  }

  /** @returns {boolean} whether there was something to unlock */
  unlock() {
    const { locked, queries, keys } = this.store.get();
    if (locked) this.store.set({ locked: false });
    else if (queries || keys) this.store.set({ queries: null, keys: null });
    else return false;
    return true;
  }

  /** @param {Spot | null} hover @returns {boolean} */
  lock(hover) {
    const pair = hover?.pair ?? this.start(hover);
    if (!pair || this.store.get().locked) return this.unlock();
    this.choose(pair, false);
    return true;
  }
}
