// @ts-check
/**
 * What can go wrong where numbers come from.
 *
 * The idea: a reader gets the server's own sentence where there is one, and otherwise a sentence of
 * the interface in the reader's language, chosen by `code`.
 *
 * Not here: how a message is shown (App.fail).
 */

/** @typedef {"refused" | "offline" | "broken"} SourceCode */

/** A request that was refused, got no answer, or got an answer that makes no sense. */
export class SourceError extends Error {
  /**
   * @param {string} message
   * @param {{code?: SourceCode, status?: number}} [more]
   */
  constructor(message, { code = "refused", status = 0 } = {}) {
    super(message);
    this.name = "SourceError";
    /** @type {SourceCode} */
    this.code = code;
    this.status = status;
  }
}

/**
 * The reason of an abort, as fetch gives it.
 * @returns {DOMException}
 */
export function abortError() {
  return new DOMException("no longer wanted", "AbortError");
}

/**
 * Whether a rejection only says that the answer is no longer wanted.
 * @param {unknown} error
 * @returns {boolean}
 */
export function isAbort(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/**
 * The sentence to show for an error.
 * @param {unknown} error
 * @param {(key: string, values?: Record<string, string | number>) => string} t
 * @returns {string}
 */
export function explain(error, t) {
  if (error instanceof SourceError && error.code !== "refused") {
    return t(`map.error.${error.code}`, { detail: error.message });
  }
  return error instanceof Error ? error.message : String(error);
}
