// @ts-check
/** The number of KV heads in the reader's hand: who reads whose keys, and what is kept. */

import { fill, h } from "../parts/dom.js";
import { count, percent, significant } from "../parts/numbers.js";
import { sized } from "./bytes.js";
import { divisors, intensity, perToken, step } from "./math/cost.js";
import { output, slider } from "./parts.js";
import { powerOfTen } from "./roof.js";

const FACTS = /** @type {const} */ (["sharing", "per_token", "total", "of_all", "flops", "intensity", "fit"]);
const CELL = 14;
const HIGH = 92;

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} options   groups: KV heads at first
 * @param {{shape: import("./math/cost.js").Shape, devices: {name: string, memory: number}[]}} data
 * @param {import("./parts.js").Say} t
 */
export function mountGroups(place, options, { shape, devices }, t) {
  const state = { groups: Number(options.groups ?? shape.kv_heads), power: 18 };
  const fits = divisors(shape.heads);
  const facts = Object.fromEntries(FACTS.map((name) => [name, output(name)]));
  const lines = h("svg:path", { class: "ties" });
  const queries = h("svg:path", { class: "queries" });
  const keys = h("svg:path", { class: "computed" });
  const picture = h("svg:svg", { class: "cells ties-picture", viewBox: `0 0 ${shape.heads * CELL} ${HIGH}`, role: "img", "aria-label": t("groups.picture") }, lines, queries, keys);
  const verdict = h("p", { class: "verdict", "aria-live": "polite", data: { name: "verdict" } });
  const tokens = output("tokens");

  function update() {
    const { groups } = state;
    const length = 2 ** state.power;
    tokens.show(length, count(length));
    const even = fits.includes(groups);
    const each = shape.heads / groups;
    draw(even ? groups : 0);
    verdict.textContent = even
      ? t(groups === shape.heads ? "groups.mha" : groups === 1 ? "groups.mqa" : "groups.gqa", { groups, each })
      : t("groups.uneven", { heads: shape.heads, groups });
    verdict.classList.toggle("bad", !even);
    const work = step(shape, groups, length);
    const total = work.bytes;
    /** @type {Record<typeof FACTS[number], [number, string]>} */
    const shown = {
      sharing: [each, count(each)],
      per_token: [perToken(shape, groups), sized(perToken(shape, groups))],
      total: [total, sized(total)],
      of_all: [groups / shape.heads, percent(groups / shape.heads)],
      flops: [work.flops, powerOfTen(work.flops)],
      intensity: [intensity(work), significant(intensity(work), 3)],
      fit: [Math.floor(devices[0].memory / total), count(Math.floor(devices[0].memory / total))],
    };
    for (const name of FACTS) facts[name].show(...(even ? shown[name] : /** @type {[number, string]} */ ([NaN, "–"])));
  }
  /** @param {number} groups */
  function draw(groups) {
    const middle = (/** @type {number} */ at, /** @type {number} */ of) => ((at + 0.5) / of) * shape.heads * CELL;
    const box = (/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ size) => `M${(x - size / 2).toFixed(2)} ${y}h${size}v${size}h${-size}z`;
    const heads = Array.from({ length: shape.heads }, (_, head) => head);
    queries.setAttribute("d", heads.map((head) => box(middle(head, shape.heads), 1, CELL - 4)).join(""));
    keys.setAttribute("d", Array.from({ length: groups }, (_, group) => box(middle(group, groups), HIGH - CELL, CELL - 2)).join(""));
    lines.setAttribute("d", groups ? heads.map((head) =>
      `M${middle(head, shape.heads)} ${CELL - 3}L${middle(Math.floor(head / (shape.heads / groups)), groups).toFixed(2)} ${HIGH - CELL}`).join("") : "");
  }
  const controls = [
    slider({ name: "groups", label: t("groups.groups"), min: 1, max: shape.heads, step: 1, value: state.groups }, (now) => {
      state.groups = Math.round(now);
      update();
    }),
    slider({ name: "power", label: t("bytes.power"), min: 10, max: 20, step: 1, value: state.power }, (now) => {
      state.power = Math.round(now);
      update();
    }),
  ];
  fill(place, h("div", { class: "controls" }, controls.map((one) => one.element)),
    h("p", { class: "note" }, t("groups.above", { heads: shape.heads })), picture, verdict,
    h("dl", { class: "facts" }, h("div", null, h("dt", null, t("bytes.tokens")), h("dd", null, tokens.element)),
      FACTS.map((name) => h("div", null, h("dt", null, t(`groups.fact.${name}`)), h("dd", null, facts[name].element)))));
  update();
  return { dispose: () => fill(place) };
}
