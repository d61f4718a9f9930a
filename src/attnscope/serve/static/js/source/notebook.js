// @ts-check
/**
 * `fetch` over a notebook's own channel, so that the server's source works in a cell, offline.
 *
 * The idea: a question is a message with a number; its answer comes as one or more messages with that
 * number, whose buffers are the body, piece by piece (docs/export.md). Each becomes a Response that
 * streams, so tiles are drawn as they arrive here too.
 *
 * Not here: what is asked (http.js), the kernel's side (widget.py).
 */

import { abortError } from "./errors.js";

/** @typedef {{kind: "answer", id: number, status: number, media: string, more: boolean}} Answer */
/** @typedef {DataView | ArrayBuffer | Uint8Array} Piece */
/**
 * What is used of anywidget's model.
 * @typedef {object} Channel
 * @property {(message: object) => void} send
 * @property {(name: "msg:custom", call: (message: any, buffers: Piece[]) => void) => void} on
 */

/**
 * An answer on its way.
 * @typedef {object} Waiting
 * @property {(response: Response) => void} resolve
 * @property {(error: unknown) => void} reject
 * @property {ReadableStreamDefaultController<Uint8Array> | null} body   from the first message on
 */

const MARK = "/api/";

/**
 * @param {Piece} piece
 * @returns {Uint8Array}
 */
function bytesIn(piece) {
  if (piece instanceof ArrayBuffer) return new Uint8Array(piece);
  return new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength);
}

/**
 * @param {Channel} model
 * @returns {typeof fetch}
 */
export function channelFetch(model) {
  /** @type {Map<number, Waiting>} */
  const waiting = new Map();
  let last = 0;

  /** @param {Answer} answer @param {Piece[]} buffers */
  const hear = (answer, buffers) => {
    const one = answer?.kind === "answer" ? waiting.get(answer.id) : undefined;
    if (!one) return; // another's message, or an answer that nobody wants any more
    if (!one.body) begin(one, answer);
    for (const piece of buffers ?? []) if (piece.byteLength) one.body?.enqueue(bytesIn(piece));
    if (answer.more) return;
    waiting.delete(answer.id);
    one.body?.close();
  };
  model.on("msg:custom", hear);

  return (address, init = {}) => {
    const { signal } = init;
    if (signal?.aborted) return Promise.reject(abortError());
    const url = new URL(String(address));
    const id = ++last;
    return new Promise((resolve, reject) => {
      const one = /** @type {Waiting} */ ({ resolve, reject, body: null });
      waiting.set(id, one);
      signal?.addEventListener("abort", () => {
        if (!waiting.delete(id)) return;
        reject(abortError());
        one.body?.error(abortError());
      }, { once: true });
      const path = url.pathname.slice(url.pathname.indexOf(MARK) + MARK.length - 1);
      model.send({ kind: "ask", id, path, query: url.search.slice(1) });
    });
  };
}

/**
 * The first message of an answer: the Response exists from now on.
 * @param {Waiting} one
 * @param {Answer} answer
 */
function begin(one, { status, media }) {
  const body = new ReadableStream({
    start: (controller) => {
      one.body = controller;
    },
  });
  one.resolve(new Response(body, { status, headers: { "Content-Type": media } }));
}
