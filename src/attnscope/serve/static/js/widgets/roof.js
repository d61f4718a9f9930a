// @ts-check
/** FLOPs against bytes: a prefill and a decode step under a device's roof. */

import { fill, h } from "../parts/dom.js";
import { count, significant } from "../parts/numbers.js";
import { sized } from "./bytes.js";
import { atLeast, intensity, prefill, ridge, step } from "./math/cost.js";
import { output, slider, switches } from "./parts.js";

const KINDS = /** @type {const} */ (["prefill", "step", "weights"]);
const ROWS = /** @type {const} */ (["flops", "bytes", "intensity", "seconds", "waits"]);
const BOX = { width: 340, height: 190, left: 8, foot: 30 };
const X = [-1, 14]; // intensity, powers of 2
const Y = [-12, 1]; // share of the peak, powers of 2

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** @param {number} value @returns {string} "3.30·10¹²" */
export function powerOfTen(value) {
  const power = Math.floor(Math.log10(value));
  return `${(value / 10 ** power).toFixed(2)}·10${[...String(power)].map((digit) => RAISED[Number(digit)]).join("")}`;
}

/** @param {number} seconds @returns {string} */
export function timed(seconds) {
  if (seconds < 1e-3) return `${significant(seconds * 1e6, 3)} µs`;
  return seconds < 1 ? `${significant(seconds * 1e3, 3)} ms` : `${significant(seconds, 3)} s`;
}

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options   heads: the scheme at first (mha, gqa, mqa)
 * @param {{shape: import("./math/cost.js").Shape, devices: (import("./math/cost.js").Device & {title: string})[]}} data
 * @param {import("./parts.js").Say} t
 */
export function mountRoof(place, options, data, t) {
  const groups = { mha: data.shape.heads, gqa: data.shape.kv_heads, mqa: 1 };
  const state = { power: 12, batch: 1, scheme: /** @type {keyof typeof groups} */ (options.heads ?? "gqa"), device: data.devices[0] };
  const cells = Object.fromEntries(KINDS.map((kind) => [kind, ROWS.map((name) => output(`${kind}.${name}`))]));
  const facts = ["tokens", "ridge"].map((name) => output(name));
  const picture = roof(t);
  function update() {
    const tokens = 2 ** state.power;
    const { device, batch } = state;
    const one = { prefill: prefill(data.shape, groups[state.scheme], tokens), step: step(data.shape, groups[state.scheme], tokens) };
    const work = {
      prefill: { flops: one.prefill.flops * batch, bytes: one.prefill.bytes * batch },
      step: { flops: one.step.flops * batch, bytes: one.step.bytes * batch },
      // A million weights of 2 bytes, each read once and used in a multiply-add for every request.
      weights: { flops: 2e6 * batch, bytes: 2e6 },
    };
    facts[0].show(tokens, count(tokens));
    facts[1].show(ridge(device), significant(ridge(device), 3));
    for (const kind of KINDS) {
      const { flops, bytes } = work[kind];
      const { seconds, waits } = atLeast(work[kind], device);
      const [a, b, c, d, e] = cells[kind];
      a.show(flops, powerOfTen(flops));
      b.show(bytes, sized(bytes));
      c.show(intensity(work[kind]), significant(intensity(work[kind]), 3));
      d.show(seconds, timed(seconds));
      e.show(waits === "memory" ? 1 : 0, t(`roof.${waits}`));
      e.element.classList.toggle("bad", waits === "memory");
    }
    picture.update(KINDS.map((kind) => intensity(work[kind])), ridge(device));
  }
  const controls = [
    slider({ name: "power", label: t("bytes.power"), min: 4, max: 18, step: 1, value: state.power }, (now) => {
      state.power = Math.round(now);
      update();
    }),
    slider({ name: "batch", label: t("roof.batch"), min: 1, max: 512, step: 1, value: state.batch }, (now) => {
      state.batch = Math.round(now);
      update();
    }),
  ];
  const named = Object.fromEntries(data.devices.map((one) => [one.name, one]));
  fill(place, h("div", { class: "controls" }, controls.map((one) => one.element),
    switches(t("roof.heads"), [["mha", t("roof.head_count", { count: groups.mha })], ["gqa", t("roof.head_count", { count: groups.gqa })], ["mqa", t("roof.head_count", { count: 1 })]], state.scheme, (scheme) => {
      state.scheme = scheme;
      update();
    }),
    switches(t("roof.device"), data.devices.map((one) => /** @type {const} */ ([one.name, one.title])), state.device.name, (name) => {
      state.device = named[name];
      update();
    })),
    picture.element,
    h("dl", { class: "facts" }, ["tokens", "ridge"].map((name, at) => h("div", null, h("dt", null, t(`roof.${name}`)), h("dd", null, facts[at].element)))),
    h("div", { class: "scrolling" }, h("table", null,
      h("thead", null, h("tr", null, h("th", null, ""), KINDS.map((kind, at) => h("th", { scope: "col", class: "number" }, `${"ABC"[at]} `, t(`roof.${kind}`))))),
      h("tbody", null, ROWS.map((row, at) => h("tr", null, h("th", { scope: "row" }, t(`roof.${row}`)), KINDS.map((kind) => h("td", { class: "number" }, cells[kind][at].element))))))));
  update();
  return { dispose: () => fill(place) };
}

/** @param {import("./parts.js").Say} t */
function roof(t) {
  const x = (/** @type {number} */ value) => BOX.left + ((Math.min(X[1], Math.max(X[0], Math.log2(value))) - X[0]) / (X[1] - X[0])) * (BOX.width - 2 * BOX.left);
  const y = (/** @type {number} */ share) => BOX.height * (1 - (Math.log2(share) - Y[0]) / (Y[1] - Y[0]));
  const line = h("svg:path", { class: "law" });
  const drop = h("svg:path", { class: "axis dashed" });
  const points = KINDS.map(() => h("svg:path", { class: "spot" }));
  const labels = KINDS.map((_, at) => h("svg:text", { "text-anchor": "middle" }, "ABC"[at]));
  const ticks = [1, 16, 256, 4096].map((value) => h("svg:text", { x: x(value), y: BOX.height + 14, "text-anchor": "middle" }, count(value)));
  const element = h("svg:svg", { class: "plane roof", viewBox: `0 0 ${BOX.width} ${BOX.height + BOX.foot}`, role: "img", "aria-label": t("roof.picture") },
    h("svg:path", { class: "axis", d: `M${BOX.left} ${BOX.height}H${BOX.width - BOX.left}` }), drop, line, points, labels, ticks,
    h("svg:text", { x: BOX.width / 2, y: BOX.height + 28, "text-anchor": "middle" }, t("roof.axis")),
    h("svg:text", { x: BOX.left, y: 12 }, t("roof.speed")));
  /** @param {readonly number[]} intensities @param {number} corner */
  function update(intensities, corner) {
    const share = (/** @type {number} */ value) => Math.min(1, value / corner);
    const from = 2 ** X[0];
    line.setAttribute("d", `M${x(from)} ${y(Math.max(2 ** Y[0], share(from)))}L${x(corner)} ${y(1)}H${x(2 ** X[1])}`);
    drop.setAttribute("d", `M${x(corner)} ${y(1)}V${BOX.height}`);
    intensities.forEach((value, at) => {
      const [cx, cy] = [x(value), y(Math.max(2 ** Y[0], share(value)))];
      points[at].setAttribute("d", `M${cx - 5} ${cy}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z`);
      labels[at].setAttribute("x", String(cx));
      // Two points may coincide; their letters must not.
      labels[at].setAttribute("y", String(KINDS[at] === "weights" ? cy - 11 : cy + 20));
    });
  }
  return { element, update };
}
