// @ts-check
/** Who reads whom under four schemes: a map of queries and keys, and what each scheme reads, scans and keeps. */

import { fill, h } from "../parts/dom.js";
import { count, percent } from "../parts/numbers.js";
import { sightOf } from "./math/sight.js";
import { output, slider, switches } from "./parts.js";

/** @typedef {import("./math/sight.js").Scheme} Scheme */

const SCHEMES = /** @type {const} */ (["full", "window", "chosen", "entries"]);
/** @type {Record<string, readonly Scheme[]>} which schemes a slider matters to, where not to all */
const USED = { window: ["window", "entries"], count: ["chosen", "entries"], ratio: ["entries"], seed: ["chosen", "entries"] };
const FACTS = ["read", "scanned", "kept"];

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options
 * @param {object} _data
 * @param {import("./parts.js").Say} t
 */
export function mountSight(place, options, _data, t) {
  /** @type {import("./math/sight.js").Plan} */
  const state = { scheme: SCHEMES.find((one) => one === options.scheme) ?? "entries", tokens: 32, window: 6, count: 3, ratio: 4, seed: 1 };
  const facts = Object.fromEntries(FACTS.map((name) => [name, output(name)]));
  const verdict = h("p", { class: "fact", "aria-live": "polite", data: { name: "verdict" } });
  const cells = [0, 1, 2].map((kind) => h("svg:path", { class: `cells cells-${kind}` }));
  const frame = h("svg:path", { class: "axis" });
  const picture = h("svg:svg", { class: "sight-map", role: "img", "aria-label": t("sight.picture") }, cells, frame);
  function update() {
    const { map, read, scanned, kept } = sightOf(state);
    const n = state.tokens;
    picture.setAttribute("viewBox", `-0.5 -0.5 ${n + 1} ${n + 1}`);
    frame.setAttribute("d", `M0 0V${n}H${n}`);
    cells.forEach((path, kind) => path.setAttribute("d", map.flatMap((row, t) => row.slice(0, t + 1).map((one, key) =>
      (one === kind ? `M${key + 0.06} ${t + 0.06}h.88v.88h-.88z` : ""))).join("")));
    const all = (n * (n + 1)) / 2;
    facts.read.show(read, t("sight.of", { part: count(read), whole: count(all), share: percent(read / all) }));
    facts.scanned.show(scanned, count(scanned));
    facts.kept.show(kept, count(kept));
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
  const show = () => fill(used, Object.entries(sliders).filter(([name]) => (USED[name] ?? SCHEMES).includes(state.scheme)).map(([, each]) => each.element));
  fill(place,
    h("div", { class: "controls" },
      switches(t("sight.scheme"), SCHEMES.map((scheme) => /** @type {const} */ ([scheme, t(`sight.scheme.${scheme}`)])), state.scheme, (scheme) => {
        state.scheme = scheme;
        show();
        update();
      }), used),
    h("div", { class: "sight-side" }, picture,
      h("ul", { class: "legend" }, [1, 2, 0].map((kind) => h("li", null, h("i", { class: `cells-${kind}`, "aria-hidden": "true" }), t(`sight.legend.${kind}`))))),
    h("dl", { class: "facts" }, FACTS.map((name) => h("div", null, h("dt", null, t(`sight.${name}`)), h("dd", null, facts[name].element)))), verdict);
  show();
  update();
  return { dispose: () => fill(place) };
}
