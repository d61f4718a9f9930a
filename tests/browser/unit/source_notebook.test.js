// Questions and answers over a notebook's channel, as docs/export.md says.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isAbort } from "../../../src/attnscope/serve/static/js/source/errors.js";
import { createHttpSource } from "../../../src/attnscope/serve/static/js/source/http.js";
import { channelFetch } from "../../../src/attnscope/serve/static/js/source/notebook.js";

function channel() {
  /** @type {any[]} */
  const sent = [];
  /** @type {((message: any, buffers: any[]) => void)[]} */
  const heard = [];
  const model = { send: (/** @type {any} */ message) => void sent.push(message), on: (/** @type {string} */ _, /** @type {any} */ call) => void heard.push(call) };
  const answer = (/** @type {any} */ message, /** @type {any[]} */ buffers = []) => heard.forEach((call) => call({ kind: "answer", status: 200, media: "application/json", more: false, ...message }, buffers));
  return { model, sent, answer };
}
const bytes = (/** @type {string} */ text) => new DataView(new TextEncoder().encode(text).buffer);

test("a question is the address below api/, and its pieces are joined in order", async () => {
  const { model, sent, answer } = channel();
  const source = createHttpSource({ base: "http://notebook.invalid/", fetch: channelFetch(model) });
  const cell = source.cell({ trace: "run", layer: 3, head: 5, query: 8, key: 1 });
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual(sent, [{ kind: "ask", id: 1, path: "/traces/run/cell", query: "layer=3&head=5&query=8&key=1" }]);
  answer({ id: 1, more: true }, [bytes('{"weight": 0.5, "arri')]);
  answer({ id: 1 }, [bytes('ved": null, "score": 1, "visible": true}')]);
  assert.deepEqual(await cell, { weight: 0.5, arrived: null, score: 1, visible: true });
});

test("answers find their questions in any order, and others' messages nobody", async () => {
  const { model, answer } = channel();
  const ask = channelFetch(model);
  const both = ["a", "b"].map((name) => ask(`http://notebook.invalid/api/${name}`).then((response) => response.text()));
  answer({ id: 2 }, [bytes("two")]);
  answer({ id: 9 }, [bytes("nobody's")]);
  answer({ kind: "other", id: 1 }, [bytes("not an answer")]);
  answer({ id: 1 }, [bytes("one")]);
  assert.deepEqual(await Promise.all(both), ["one", "two"]);
});

test("an error of the kernel is a refusal in its own words", async () => {
  const { model, answer } = channel();
  const source = createHttpSource({ base: "http://notebook.invalid/", fetch: channelFetch(model) });
  const info = source.info("run");
  await new Promise((resolve) => setTimeout(resolve));
  answer({ id: 1, status: 404 }, [bytes('{"error": "trace: no run here"}')]);
  await assert.rejects(info, /trace: no run here/);
});

test("what is no longer wanted is let go, before its answer and in the middle of it", async () => {
  const { model, answer, sent } = channel();
  const ask = channelFetch(model);
  const stop = new AbortController();
  const early = ask("http://notebook.invalid/api/a", { signal: stop.signal });
  const late = ask("http://notebook.invalid/api/b", { signal: stop.signal });
  answer({ id: 2, more: true }, [bytes("half")]);
  const body = (await late).text();
  stop.abort();
  await assert.rejects(early, isAbort);
  await assert.rejects(body, isAbort);
  answer({ id: 1 }, [bytes("too late")]);
  await assert.rejects(ask("http://notebook.invalid/api/c", { signal: AbortSignal.abort() }), isAbort);
  assert.equal(sent.length, 2);
});
