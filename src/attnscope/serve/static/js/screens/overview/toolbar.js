// @ts-check
/** What the overview shows and in which order: the controls above the grid. */

import { fill, h } from "../../parts/dom.js";
import { choices } from "../../parts/choices.js";
import { inOrder, statisticName } from "../../parts/statistics.js";
import { PALETTES, SORTS } from "../../store.js";

/**
 * @param {import("../../types.js").App} app
 */
export function toolbar({ t, store }) {
  const statistic = h("select", { onchange: () => store.set({ statistic: statistic.value }) });
  const sort = choices(SORTS, (name) => t(`overview.sort.${name}`), (name) => store.set({ sort: name }), t("overview.sort"));
  const top = h("input", {
    type: "number", min: 1, step: 1, placeholder: t("overview.top.all"),
    onchange: () => {
      const wanted = Math.floor(Number(top.value));
      store.set({ top: wanted >= 1 ? Math.min(wanted, 1e6) : null });
    },
  });
  const palette = choices(PALETTES, (name) => t(`palette.${name}`), (name) => store.set({ palette: name }), t("overview.palette"));
  const element = h("div", { class: "tools" },
    h("label", { class: "field" }, h("span", null, t("overview.colour")), statistic),
    h("div", { class: "field" }, h("span", null, t("overview.sort")), sort.element),
    h("label", { class: "field top" }, h("span", null, t("overview.top")), top),
    h("div", { class: "field" }, h("span", null, t("overview.palette")), palette.element));
  /** @type {string[] | null} */
  let names = null;
  /**
   * @param {import("../../types.js").ViewState} now
   * @param {import("../../types.js").TraceInfo} info
   * @param {number} heads
   */
  const update = (now, info, heads) => {
    if (names !== info.statistics) {
      names = info.statistics;
      fill(statistic, inOrder(names).map((name) => h("option", { value: name }, statisticName(t, name))));
    }
    statistic.value = now.statistic;
    top.value = now.top === null ? "" : String(now.top);
    top.max = String(heads);
    sort.update(now.sort);
    palette.update(now.palette);
  };
  return { element, update };
}
