// @ts-check
/** Who reads whom under four schemes: a map of queries and keys, and what each scheme reads, scans and keeps. */

import { fill, h } from "../parts/dom.js";
import { count, percent } from "../parts/numbers.js";
import { covered } from "./math/seen.js";
import { sightOf } from "./math/sight.js";
import { output, slider, switches } from "./parts.js";

/** @typedef {import("./math/sight.js").Scheme} Scheme */

const SCHEMES = /** @type {const} */ (["full", "window", "chosen", "entries"]);
/** @type {Record<string, readonly Scheme[]>} which schemes a slider matters to, where not to all */
const USED = { window: ["window", "entries"], count: ["chosen", "entries"], ratio: ["entries"], seed: ["chosen", "entries"] };
const FACTS = ["read", "scanned", "kept"];
/** A weight that a reader would miss. */
const MUCH = 0.05;

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options
 * @param {{head?: import("./own/handout.js").Head}} data   a real head: an indexer chooses by its scores, and its weight is counted
 * @param {import("./parts.js").Say} t
 */
export function mountSight(place, options, { head }, t) {
  /** @type {import("./math/sight.js").Plan} */
  const state = { scheme: SCHEMES.find((one) => one === options.scheme) ?? "entries", tokens: head?.weights.length ?? 32, window: 6, count: 3, ratio: 4, seed: 1 };
  const names = head ? [...FACTS, "covered"] : FACTS;
  const facts = Object.fromEntries(names.map((name) => [name, output(name)]));
  const verdict = h("p", { class: "fact", "aria-live": "polite", data: { name: "verdict" } });
  const cells = [0, 1, 2].map((kind) => h("svg:path", { class: `cells cells-${kind}` }));
  const missed = h("svg:path", { class: "missed" });
  const frame = h("svg:path", { class: "axis" });
  const picture = h("svg:svg", { class: "sight-map", role: "img", "aria-label": t("sight.picture") }, cells, missed, frame);
  function update() {
    const { map, read, scanned, kept } = sightOf(state, head?.scores);
    const n = state.tokens;
    picture.setAttribute("viewBox", `-0.5 -0.5 ${n + 1} ${n + 1}`);
    frame.setAttribute("d", `M0 0V${n}H${n}`);
    cells.forEach((path, kind) => path.setAttribute("d", map.flatMap((row, t) => row.slice(0, t + 1).map((one, key) =>
      (one === kind ? `M${key + 0.06} ${t + 0.06}h.88v.88h-.88z` : ""))).join("")));
    const all = (n * (n + 1)) / 2;
    facts.read.show(read, t("sight.of", { part: count(read), whole: count(all), share: percent(read / all) }));
    facts.scanned.show(scanned, count(scanned));
    facts.kept.show(kept, count(kept));
    const lost = head?.weights.flatMap((row, query) => row.flatMap((one, key) => ((one ?? 0) >= MUCH && !map[query][key] ? `M${key + 0.28} ${query + 0.28}h.44v.44h-.44z` : [])));
    missed.setAttribute("d", lost?.join("") ?? "");
    if (head) facts.covered.show(covered(head, map), percent(covered(head, map)));
    verdict.textContent = t(`sight.verdict.${state.scheme}`);
  }
  /** @param {"tokens" | "window" | "count" | "ratio" | "seed"} name @param {number} min @param {number} max */
  const one = (name, min, max) => slider({ name, label: t(name === "seed" ? "spread.seed" : `sight.${name}`), min, max, step: 1, value: state[name] }, (now) => {
    state[name] = Math.round(now);
    update();
  });
  /** @type {Record<string, ReturnType<typeof slider>>} */
  const sliders = { tokens: one("tokens", 8, 64), window: one("window", 1, 32), count: one("count", 1, 16), ratio: one("ratio", 2, 16), seed: one("seed", 1, 99) };
  const used = h("div", { class: "controls" });
  const left = head ? ["tokens", "seed"] : [];
  const show = () => fill(used, Object.entries(sliders).filter(([name]) => !left.includes(name) && (USED[name] ?? SCHEMES).includes(state.scheme)).map(([, each]) => each.element));
  fill(place,
    h("div", { class: "controls" },
      switches(t("sight.scheme"), SCHEMES.map((scheme) => /** @type {const} */ ([scheme, t(`sight.scheme.${scheme}`)])), state.scheme, (scheme) => {
        state.scheme = scheme;
        show();
        update();
      }), used),
    h("div", { class: "sight-side" }, picture,
      h("ul", { class: "legend" }, [1, 2, 0].map((kind) => h("li", null, h("i", { class: `cells-${kind}`, "aria-hidden": "true" }), t(`sight.legend.${kind}`))),
        head ? h("li", null, h("i", { class: "missed", "aria-hidden": "true" }), t("own.sight.missed", { share: percent(MUCH) })) : null)),
    h("dl", { class: "facts" }, names.map((name) => h("div", null, h("dt", null, t(`sight.${name}`)), h("dd", null, facts[name].element)))), verdict);
  show();
  update();
  return { dispose: () => fill(place) };
}
