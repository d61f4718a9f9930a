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
      const given = readNumber(field.value);
      const right = given !== null && Math.abs(given - Number(place.dataset.answer)) <= Number(place.dataset.within);
      verdict.textContent = t(given === null ? "exercise.no_number" : right ? "exercise.right" : "exercise.wrong");
      verdict.classList.toggle("good", right);
      verdict.classList.toggle("bad", !right);
    });
  }
}

/**
 * A number as people type it: with a comma or a point, a minus of either kind, a percent sign.
 * @param {string} text
 * @returns {number | null}
 */
export function readNumber(text) {
  let bare = text.trim().replace(/[−–]/g, "-").replace(/[%％\s]/g, "");
  if (/^-?\d{1,3}(,\d{3})+(\.\d+)?$/.test(bare)) bare = bare.replace(/,/g, "");
  bare = bare.replace(",", ".");
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(bare) ? Number(bare) : null;
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
