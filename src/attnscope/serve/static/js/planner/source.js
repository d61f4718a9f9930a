// @ts-check
/**
 * Whom the planner's page asks: the course's server, or our own Python in a worker of the page.
 *
 * The idea: both take the same question and give the same answer (attnscope.plan.page). A page from
 * disk has no server; its worker is made from a text, which a script brings when it is first needed.
 *
 * Not here: what is asked and shown.
 */

/**
 * @typedef {import("./types.js").Question} Question
 * @typedef {import("./types.js").Answer} Answer
 * @typedef {{begin: () => void, ask: (question: Question) => Promise<Answer>}} Source
 *   `begin` makes ready what takes time; `ask` fails with an Error where nobody answers
 */

/** @param {string} address @returns {Source} */
export function server(address) {
  return {
    begin: () => {},
    ask: async (question) => {
      const answer = await fetch(address, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(question),
      });
      const said = await answer.json();
      if (!answer.ok) throw new Error(said.error);
      return said;
    },
  };
}

/** @param {string} script @returns {Source} */
export function inPage(script) {
  /** @type {Promise<(question: Question) => Promise<Answer>> | null} */
  let starting = null;
  const begin = () => {
    starting ??= brought(script).then(started);
    starting.catch(() => {
      starting = null; // a later question may try again
    });
    return starting;
  };
  return { begin: () => void begin().catch(() => {}), ask: async (question) => (await begin())(question) };
}

/** Loads the script that holds the worker's text. @param {string} script @returns {Promise<string>} */
function brought(script) {
  return new Promise((resolve, reject) => {
    const element = document.createElement("script");
    element.src = script;
    element.onload = () => {
      element.remove();
      resolve(/** @type {any} */ (window).attnscopePlanner);
    };
    element.onerror = () => {
      element.remove();
      reject(new Error(`${script} cannot be loaded`));
    };
    document.head.append(element);
  });
}

/**
 * Starts the worker; the promise waits until its Python answers.
 * @param {string} text
 * @returns {Promise<(question: Question) => Promise<Answer>>}
 */
function started(text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const worker = new Worker(address);
  /** @type {Map<number, {resolve: (answer: Answer) => void, reject: (error: Error) => void}>} */
  const waiting = new Map();
  let next = 0;
  return new Promise((resolve, reject) => {
    const fail = (/** @type {Error} */ error) => {
      worker.terminate();
      reject(error);
      for (const one of waiting.values()) one.reject(error);
    };
    worker.onerror = (event) => fail(new Error(event.message));
    worker.onmessage = ({ data }) => {
      if (data.ready) {
        URL.revokeObjectURL(address);
        resolve((question) => new Promise((answered, failed) => {
          next += 1;
          waiting.set(next, { resolve: answered, reject: failed });
          worker.postMessage({ id: next, question: JSON.stringify(question) });
        }));
        return;
      }
      const one = waiting.get(data.id);
      waiting.delete(data.id);
      if (data.failed === undefined) one?.resolve(JSON.parse(data.answer));
      else one?.reject(new Error(data.failed));
    };
  });
}
