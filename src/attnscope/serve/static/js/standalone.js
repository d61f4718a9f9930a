// @ts-check
/**
 * The app in a file of its own: unpacks the numbers that the file holds, and starts.
 *
 * Not here: what the data blocks hold (docs/export.md), answers from them (source/embedded.js).
 */

import { start } from "./main.js";
import { createEmbeddedSource } from "./source/embedded.js";

/**
 * Bytes of a block of base64, inflated.
 * @param {string} text
 * @returns {Promise<ArrayBuffer>}
 */
async function unpack(text) {
  const packed = Uint8Array.from(atob(text.replace(/\s/g, "")), (one) => one.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/**
 * The text of a data block; the block then goes, so that a long text is not kept twice.
 * @param {string} id
 * @returns {string}
 */
function take(id) {
  const block = document.getElementById(id);
  const text = block?.textContent ?? "";
  block?.remove();
  return text;
}

async function open() {
  const place = document.getElementById("attnscope");
  if (!place) return;
  const page = JSON.parse(take("attnscope-page"));
  const source = createEmbeddedSource(page, await unpack(take("attnscope-data")));
  start(place, source, { page: true, view: page.view });
}

void open();
