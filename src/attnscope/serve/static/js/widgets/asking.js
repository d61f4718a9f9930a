// @ts-check
/** Predictions, exercises, and formulas whose terms explain themselves. */

/** @param {HTMLElement} root @param {import("./parts.js").Say} t */
export function mountPredictions(root, t) {
  for (const place of root.querySelectorAll(".predict")) {
    const choices = /** @type {HTMLInputElement[]} */ ([...place.querySelectorAll("input[type=radio]")]);
    const settle = /** @type {HTMLButtonElement} */ (place.querySelector(".settle"));
    const reveal = /** @type {HTMLElement} */ (place.querySelector(".reveal"));
    for (const one of choices) one.addEventListener("change", () => (settle.disabled = false));
    settle.addEventListener("click", () => {
      const chosen = choices.find((one) => one.checked);
      if (!chosen) return;
      for (const one of choices) {
        one.disabled = true;
        const label = one.closest("label");
        label?.classList.toggle("right", "right" in one.dataset);
        label?.classList.toggle("wrong", one === chosen && !("right" in one.dataset));
      }
      const title = reveal.querySelector("h4");
      if (title) title.textContent = t("right" in chosen.dataset ? "predict.right" : "predict.wrong");
      settle.hidden = true;
      reveal.hidden = false;
      reveal.focus({ preventScroll: true });
    });
  }
}

/** @param {HTMLElement} root @param {import("./parts.js").Say} t */
export function mountExercises(root, t) {
  for (const place of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(".exercise"))) {
    const form = place.querySelector("form");
    const field = place.querySelector("input");
    const verdict = place.querySelector("output");
    if (!form || !field || !verdict) continue;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = readings(field.value, place.querySelector(".unit")?.textContent ?? "");
      const right = given.some((one) => Math.abs(one - Number(place.dataset.answer)) <= Number(place.dataset.within));
      verdict.textContent = t(given.length === 0 ? "exercise.no_number" : right ? "exercise.right" : "exercise.wrong");
      verdict.classList.toggle("good", right);
      verdict.classList.toggle("bad", !right);
    });
  }
}

/**
 * What a number as people type it may mean: with a comma or a point, in full-width digits, a minus of
 * either kind, a percent sign or the answer's own unit. "1,024" may be either of two; "two" is none.
 * @param {string} text
 * @param {string} [unit]
 * @returns {number[]}
 */
export function readings(text, unit = "") {
  let bare = text.normalize("NFKC").replace(/[−–]/g, "-").replace(/。/g, ".").trim();
  if (unit && bare.toLowerCase().endsWith(unit.toLowerCase())) bare = bare.slice(0, -unit.length);
  bare = bare.replace(/[%\s]/g, "");
  const found = [];
  if (/^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$/.test(bare)) found.push(Number(bare.replace(/,/g, "")));
  const point = bare.replace(",", ".");
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(point)) found.push(Number(point));
  return found;
}

/** @param {HTMLElement} root @param {import("./parts.js").Say} t */
export function mountFormulas(root, t) {
  for (const place of root.querySelectorAll(".formula")) {
    const terms = /** @type {(Element & HTMLOrSVGElement)[]} */ (/** @type {unknown} */ ([...place.querySelectorAll(".ask")]));
    const cards = /** @type {HTMLElement[]} */ ([...place.querySelectorAll(".cards > .card")]);
    // As "math" all inside would be one image to a screen reader; its terms are buttons here.
    const math = place.querySelector(":scope > math");
    math?.setAttribute("role", "group");
    math?.setAttribute("aria-label", place.querySelector("h3")?.textContent ?? "");
    place.querySelector(".cards")?.setAttribute("aria-live", "polite");
    for (const card of cards) card.hidden = true;
    /** @param {Element & HTMLOrSVGElement} term */
    const choose = (term) => {
      for (const one of terms) one.setAttribute("aria-expanded", String(one === term));
      for (const card of cards) card.hidden = card.dataset.term !== term.dataset.ask;
    };
    terms.forEach((term, at) => {
      const card = cards.find((one) => one.dataset.term === term.dataset.ask);
      term.setAttribute("role", "button");
      term.setAttribute("tabindex", "0");
      term.setAttribute("aria-expanded", "false");
      term.setAttribute("aria-label", card?.querySelector("h4")?.textContent ?? t("formula.term"));
      if (card) term.setAttribute("aria-controls", card.id);
      term.addEventListener("click", () => choose(term));
      term.addEventListener("keydown", (event) => {
        const { key } = /** @type {KeyboardEvent} */ (event);
        const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
        if (key === "Enter" || key === " ") choose(term);
        else if (step) terms[(at + step + terms.length) % terms.length].focus();
        else return;
        event.preventDefault();
      });
    });
  }
}
