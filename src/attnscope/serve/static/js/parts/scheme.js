// @ts-check
/**
 * Light or dark: the reader's choice, else that of what surrounds the app, else the system's.
 *
 * A notebook has a theme of its own, which the system does not know; there the first ground behind
 * the app that is not transparent decides.
 */

/**
 * Writes data-scheme on the root and keeps it true.
 * @param {HTMLElement} root
 * @param {import("../types.js").Store} store
 * @returns {() => void}
 */
export function watchScheme(root, store) {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const write = () => {
    const { theme } = store.get();
    const auto = surrounding(root.parentElement) ?? (system.matches ? "dark" : "light");
    root.dataset.scheme = theme === "auto" ? auto : theme;
  };
  const stop = store.subscribe((now, before) => {
    if (now.theme !== before.theme) write();
  });
  system.addEventListener("change", write);
  write();
  return () => {
    stop();
    system.removeEventListener("change", write);
  };
}

/** @param {Element | null} element @returns {"light" | "dark" | null} */
function surrounding(element) {
  for (let one = element; one; one = one.parentElement) {
    const parts = /^rgba?\(([\d.]+)[, ]+([\d.]+)[, ]+([\d.]+)(?:[,/ ]+([\d.]+))?\)$/.exec(getComputedStyle(one).backgroundColor);
    if (parts && Number(parts[4] ?? 1) > 0.5) {
      const [red, green, blue] = parts.slice(1, 4).map(Number);
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 128 ? "dark" : "light";
    }
  }
  return null;
}
