// @ts-check
/** The Jacobian of a softmax as a table: how far each weight moves when a score is nudged. */

import { fill, h, setStyle } from "../parts/dom.js";
import { percent, significant, signed } from "../parts/numbers.js";
import { barNames, gathered, plainRow } from "./math/row.js";
import { jacobian, jacobianNorm, softmax } from "./math/softmax.js";
import { bars, output, slider } from "./parts.js";

const SCORES = [1.1, 0.4, -0.3, -1.2];

/**
 * @param {HTMLElement} place
 * @param {Record<string, string>} _options
 * @param {{row?: import("./math/row.js").Row}} data   a row in the place of the lesson's
 * @param {import("./parts.js").Say} t
 */
export function mountJacobian(place, _options, data, t) {
  let spread = 1;
  let nudge = 0.2;
  const row = data.row ?? plainRow(SCORES.map((_, at) => `${at + 1}`), SCORES);
  const names = barNames(row);
  const chart = bars("weight", names.map((name) => t("jacobian.weight", { name })));
  const cells = names.map((_, i) => names.map((__, j) => output(`J.${i}.${j}`)));
  const norm = output("norm");
  const moves = names.map((_, i) => ({ predicted: output(`predicted.${i}`), actual: output(`actual.${i}`) }));

  function update() {
    const scores = [...row.scores, ...row.rest].map((s) => s * spread);
    const whole = softmax(scores);
    // The rest moves with a named score as one token of its whole weight would.
    const w = gathered(whole, row.names.length);
    const J = jacobian(w);
    chart.update(w, percent);
    J.forEach((row, i) => row.forEach((value, j) => {
      cells[i][j].show(value, signed(value, 3));
      setStyle(cells[i][j].element, { "--heat": `${Math.round(Math.min(1, Math.abs(value) * 4) * 100)}%` });
      cells[i][j].element.classList.toggle("negative", value < 0);
    }));
    norm.show(jacobianNorm(whole), significant(jacobianNorm(whole), 3));
    const after = gathered(softmax(scores.map((s, at) => s + (at === 0 ? nudge : 0))), row.names.length);
    moves.forEach(({ predicted, actual }, i) => {
      predicted.show(J[i][0] * nudge, signed(100 * J[i][0] * nudge, 2));
      actual.show(after[i] - w[i], signed(100 * (after[i] - w[i]), 2));
    });
  }
  const controls = [
    slider({ name: "spread", label: t("jacobian.spread"), min: 0.1, max: 16, step: 0.1, value: spread }, (now) => {
      spread = now;
      update();
    }),
    slider({ name: "nudge", label: t("jacobian.nudge"), min: -1, max: 1, step: 0.05, value: nudge }, (now) => {
      nudge = now;
      update();
    }),
  ];
  const heads = names.map((name) => h("th", { scope: "col" }, t("jacobian.score", { name })));
  fill(place,
    h("div", { class: "controls" }, controls.map((one) => one.element)),
    chart.element,
    h("div", { class: "scrolling" }, h("table", { class: "heat" },
      h("thead", null, h("tr", null, h("th", null, t("jacobian.table")), heads, h("th", { class: "number" }, t("jacobian.predicted")), h("th", { class: "number" }, t("jacobian.actual")))),
      h("tbody", null, names.map((name, i) => h("tr", null,
        h("th", { scope: "row" }, t("jacobian.weight", { name })),
        cells[i].map((one) => h("td", { class: "number" }, one.element)),
        h("td", { class: "number" }, moves[i].predicted.element),
        h("td", { class: "number" }, moves[i].actual.element)))))),
    h("p", { class: "fact" }, t("jacobian.norm"), " ", norm.element));
  update();
  return { dispose: () => fill(place) };
}
