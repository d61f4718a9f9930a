// @ts-check
/**
 * The planner's page: what is asked, the answer, and the address that says both.
 *
 * The idea: one view object. A change writes the address, asks, and draws what comes back; an answer
 * that comes after a later question is dropped. The page carries the answer to its first question, so
 * that it is whole before anybody is asked.
 *
 * Not here: the planner (attnscope.plan), who answers (source.js).
 */

import { translator } from "../i18n.js";
import { debounce, fill, h } from "../parts/dom.js";
import { count } from "../parts/numbers.js";
import { enPlanner } from "../text/en/planner.js";
import { enWidgets } from "../text/en/widgets.js";
import { EN_ERRORS } from "../text/en/plan_errors.js";
import { PHRASES, PLAN } from "../text/zh/plan.js";
import { zhPlanner } from "../text/zh/planner.js";
import { zhWidgets } from "../text/zh/widgets.js";
import { mountContents, mountScheme, mountScrolling } from "../widgets/chrome.js";
import { headline, sections } from "./answer.js";
import { makeForm } from "./form.js";
import { numerals } from "./numeral.js";
import { makePlot } from "./plot.js";
import { inPage, server } from "./source.js";
import { question, readView, written } from "./view.js";
import { wording } from "./words.js";

/** Milliseconds that a reader who types is waited for. */
const PAUSE = 350;

/** @param {HTMLElement} root */
function begin(root) {
  const data = JSON.parse(root.querySelector("script.carried")?.textContent ?? "{}");
  const t = translator(data.language, { en: { ...enWidgets, ...enPlanner }, zh: { ...zhWidgets, ...zhPlanner } });
  const w = data.language === "zh" ? wording(PLAN, PHRASES) : wording(EN_ERRORS);
  const main = /** @type {HTMLElement} */ (root.querySelector("main"));
  const source = data.api ? server(data.api) : inPage(data.script);
  mountScheme(root);

  const error = h("p", { class: "error", id: "planner-error", role: "alert", hidden: true });
  const status = h("p", { class: "note status", role: "status" });
  const heads = h("div", { class: "headlines" });
  const line = h("p", { class: "note command" });
  const tables = h("div", { class: "parts" });
  const { show, close } = numerals(main, t, w);
  const plot = makePlot(t, w, (tokens) => change({ context: String(tokens) }, false));
  const form = makeForm(data.known, t, (part, soon) => change(part, soon));
  const results = h("div", { class: "results" }, heads, line, h("section", { class: "part" }, h("h2", { id: "plot" }, t("planner.plot")), h("p", { class: "note" }, t("planner.plot.about")), plot.element), tables);
  fill(/** @type {HTMLElement} */ (main.querySelector(".planner")), form.element, error, status, results);

  let view = readView(location.hash);
  let asked = 0;

  /** @param {import("./types.js").Answer} answer */
  function draw(answer) {
    close();
    error.hidden = !answer.error;
    error.textContent = w(answer.error?.sentence ?? "");
    form.mark(answer.error?.field ?? null, error.id);
    results.classList.toggle("stale", Boolean(answer.error));
    results.removeAttribute("aria-busy");
    if (answer.error) return;
    fill(heads, answer.models.map((model, at) => headline(model, at, answer, { t, w, show })));
    fill(line, t("planner.command"), " ", h("code", null, answer.command.split(" ").map((word, at) => [at ? " " : "", word.startsWith("--") ? h("span", { class: "option" }, word) : word])));
    fill(tables, sections(answer, { t, w, show }));
    const rooms = answer.models.map((model) => t(model.weights ? "planner.plot.beside" : "planner.plot.room", { room: answer.asked.room, model: model.name }));
    const label = t("planner.plot.label", { models: answer.models.map((one) => one.name).join(", "), tokens: count(answer.asked.context) });
    plot.update(answer.picture, answer.asked.context, rooms, label);
    mountContents(root);
  }

  /** What is shown answers another question than the form now asks. */
  function wait() {
    results.classList.add("stale");
    results.setAttribute("aria-busy", "true");
  }

  async function ask() {
    asked += 1;
    const mine = asked;
    const wanted = question(view);
    if (JSON.stringify(wanted) === JSON.stringify(data.first.question)) {
      status.textContent = "";
      draw(data.first.answer);
      return;
    }
    status.textContent = t(data.api ? "planner.asking" : "planner.asking.page");
    root.setAttribute("aria-busy", "true");
    wait();
    try {
      const answer = await source.ask(wanted);
      if (mine !== asked) return;
      draw(answer);
      status.textContent = written(view).whole ? "" : t("planner.long");
    } catch (problem) {
      if (mine !== asked) return;
      status.textContent = "";
      draw({ .../** @type {any} */ ({}), error: { field: "", sentence: t(data.api ? "planner.failed" : "planner.failed.page", { reason: problem instanceof Error ? problem.message : String(problem) }) } });
    } finally {
      if (mine === asked) root.removeAttribute("aria-busy");
    }
  }
  const later = debounce(() => void ask(), PAUSE);

  /** @param {Partial<import("./view.js").View>} part @param {boolean} soon */
  function change(part, soon) {
    view = { ...view, ...part };
    source.begin();
    const { fragment } = written(view);
    history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname + location.search);
    link();
    form.set(view);
    wait();
    if (soon) later();
    else {
      later.stop();
      void ask();
    }
  }
  /** The same view in the other language. */
  function link() {
    const other = root.querySelector("a.language");
    const [page] = (other?.getAttribute("href") ?? "").split("#");
    other?.setAttribute("href", `${page}${location.hash}`);
  }
  window.addEventListener("hashchange", () => {
    if (written(view).fragment === location.hash.slice(1)) return; // a link within the page, or our own
    if (location.hash && !location.hash.includes("=")) return;
    view = readView(location.hash);
    link();
    form.set(view);
    void ask();
  });
  form.element.addEventListener("pointerdown", () => source.begin(), { once: true });
  form.element.addEventListener("focusin", () => source.begin(), { once: true });
  form.set(view);
  link();
  void ask();
  mountScrolling(root);
  root.classList.add("live");
}

const root = document.getElementById("course");
if (root) begin(root);
