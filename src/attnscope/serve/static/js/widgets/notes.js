// @ts-check
/**
 * The reader's notes: kept as they are typed, in the browser or in a file by the server that the
 * page names, and given as a Markdown file.
 *
 * The idea: a file may hold more than the page has seen. It can be typed into once it has been read,
 * and each writing names what was read, so that a file changed elsewhere is never replaced.
 *
 * Not here: what the server does (serve/notes.py).
 */

import { debounce, h } from "../parts/dom.js";
import { keep, kept } from "./keep.js";

const WAIT = 400;
/** What an answer of the server means. @type {Record<number, string>} */
const REFUSED = { 409: "notes.no_file", 412: "notes.changed", 413: "notes.too_long", 415: "notes.no_text" };

/**
 * @param {HTMLElement} root
 * @param {{page: string, title: string, language: string, notes?: string}} about
 * @param {import("./parts.js").Say} t
 */
export function mountNotes(root, about, t) {
  const place = root.querySelector(".notes");
  const field = place?.querySelector("textarea");
  if (!place || !field) return;
  const said = h("p", { class: "note", role: "status" });
  place.append(said);
  if (about.notes) inFile(field, about.notes, (key) => (said.textContent = t(key)));
  else inBrowser(field, `notes.${about.language}.${about.page}`, (key) => (said.textContent = t(key)));
  place.querySelector(".download")?.addEventListener("click", () => {
    const text = `# ${about.title}\n\n${field.value.trimEnd()}\n`;
    const address = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
    const link = h("a", { href: address, download: `attnscope-${about.page}.md` });
    place.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  });
}

/** @param {HTMLTextAreaElement} field @param {string} name @param {(key: string) => void} say */
function inBrowser(field, name, say) {
  field.value = kept(name) ?? "";
  field.addEventListener("input", () => say(keep(name, field.value) ? "notes.kept" : "notes.not_kept"));
}

/** @param {HTMLTextAreaElement} field @param {string} address @param {(key: string) => void} say */
async function inFile(field, address, say) {
  field.readOnly = true;
  const found = await fetch(address).catch(() => null);
  if (!found?.ok) {
    say((found && REFUSED[found.status]) || "notes.not_read");
    return;
  }
  let mark = found.headers.get("etag") ?? "";
  let written = await found.text();
  field.value = written;
  field.readOnly = false;
  /** @type {Promise<void>} */
  let before = Promise.resolve();
  const write = async () => {
    const text = field.value;
    if (text === written) return;
    // What goes out as the page is left must still arrive.
    const answer = await fetch(address, { method: "PUT", body: text, headers: { "if-match": mark }, keepalive: text.length < 10_000 }).catch(() => null);
    if (answer?.ok) {
      mark = answer.headers.get("etag") ?? "";
      written = text;
    }
    say(answer?.ok ? "notes.written" : (answer && REFUSED[answer.status]) || "notes.not_written");
  };
  // One after the other: each names what the one before has written.
  const later = debounce(() => {
    before = before.then(write);
  }, WAIT);
  field.addEventListener("input", () => later());
  for (const leaving of ["blur", "pagehide"]) (leaving === "blur" ? field : window).addEventListener(leaving, () => later.now());
}
