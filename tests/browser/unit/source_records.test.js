// Records are decoded as docs and attnscope.tiles write them, however the stream is cut; damage is caught.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SourceError } from "../../../src/attnscope/serve/static/js/source/errors.js";
import {
  HEADER, RecordReader, bytesOf, decodeColumn, decodeFlow, decodeRow, decodeTile, decodeTrack,
} from "../../../src/attnscope/serve/static/js/source/records.js";

/**
 * Bytes written by hand from the contract, not by the code under test.
 * @param {string} magic
 * @param {[number, "u16" | "u32" | "f32", number][]} fields   offset, type, value
 * @param {ArrayBufferView[]} planes
 */
function record(magic, fields, planes = []) {
  const size = planes.reduce((sum, plane) => sum + plane.byteLength, 0);
  const bytes = new Uint8Array(32 + size);
  bytes.set([...magic].map((c) => c.charCodeAt(0)));
  const view = new DataView(bytes.buffer);
  view.setUint16(4, 1, true);
  for (const [at, type, value] of fields) {
    if (type === "u16") view.setUint16(at, value, true);
    else if (type === "u32") view.setUint32(at, value, true);
    else view.setFloat32(at, value, true);
  }
  let at = 32;
  for (const plane of planes) {
    bytes.set(new Uint8Array(plane.buffer, plane.byteOffset, plane.byteLength), at);
    at += plane.byteLength;
  }
  return bytes;
}

const mean = Float32Array.of(0.25, NaN, 0, 1, 0.5, 0.125);
const max = Float32Array.of(0.5, NaN, 0, 1, 0.75, 0.25);
const argmax = Int32Array.of(3, -1, 0, 15, 7, 2);
/** @param {number} state @param {number} level @param {ArrayBufferView[]} planes */
const tile = (state, level, planes) => record("ATTL", [
  [6, "u16", state], [8, "u16", planes.length], [10, "u16", level], [12, "u16", 3], [14, "u16", 2],
  [16, "u32", 70000], [20, "u32", 5], [24, "u32", planes.length * 24],
], planes);

test("a tile's planes are where the contract puts them", () => {
  const got = decodeTile(tile(0, 2, [mean, max, argmax]).buffer);
  assert.deepEqual([got.state, got.level, got.x, got.y, got.width, got.height], ["values", 2, 70000, 5, 3, 2]);
  assert.deepEqual(got.mean, mean);
  assert.deepEqual(got.max, max);
  assert.deepEqual(got.argmax, argmax);
  assert.equal(bytesOf(got), HEADER + 3 * 24);
});

test("at level 0 the maximum is the value itself, without a copy", () => {
  const got = decodeTile(tile(0, 0, [mean]).buffer);
  assert.equal(got.max, got.mean);
  assert.equal(got.argmax, null);
});

test("masked and missing tiles are states of their own", () => {
  assert.equal(decodeTile(tile(1, 1, []).buffer).state, "masked");
  const missing = decodeTile(tile(2, 1, []).buffer);
  assert.deepEqual([missing.state, missing.mean], ["missing", null]);
});

test("an error that comes late in a stream is the server's own sentence", () => {
  const said = new TextEncoder().encode("layer 3 is damaged: 密.");
  const sent = new Uint8Array(record("ATER", [[6, "u16", 422], [24, "u32", said.length]], [said]));
  const reader = new RecordReader(() => assert.fail("it is no answer"));
  reader.push(sent.subarray(0, 40));
  assert.throws(() => reader.push(sent.subarray(40)), { name: "SourceError", message: "layer 3 is damaged: 密.", status: 422, code: "refused" });
});

test("tracks, rows, columns and flows are decoded", () => {
  const two = [Float32Array.of(1, 2), Float32Array.of(3, 4)];
  const track = record("ATTR", [[8, "u16", 2], [10, "u16", 3], [12, "u16", 2], [14, "u16", 1], [16, "u32", 9], [24, "u32", 16]], two);
  assert.deepEqual(decodeTrack(track.buffer, ["received", "entropy"]), { name: "entropy", level: 3, x: 9, mean: two[0], max: two[1] });
  const row = record("ATRW", [[6, "u16", 1], [8, "u32", 2], [12, "f32", 0.125]], two);
  assert.deepEqual(decodeRow(row.buffer), { weights: two[0], arrived: two[1], sink: 0.125 });
  const bare = record("ATRW", [[8, "u32", 2]], [two[0]]);
  assert.equal(decodeRow(bare.buffer).arrived, null);
  assert.deepEqual(decodeColumn(record("ATCL", [[8, "u32", 2]], [two[1]]).buffer), two[1]);
  const flow = record("ATFL", [[6, "u16", 1], [8, "u32", 2], [12, "u32", 1]], [Int32Array.of(3, 7), ...two]);
  assert.deepEqual(decodeFlow(flow.buffer), { layers: [3, 7], keys: 1, weights: two[0], arrived: two[1] });
});

test("a stream is cut into records wherever its chunks end", () => {
  const parts = [tile(0, 2, [mean, max, argmax]), tile(1, 0, []), tile(0, 0, [mean])];
  const whole = Uint8Array.from(parts.flatMap((part) => [...part]));
  for (const step of [1, 7, 31, 32, 33, 104, whole.length]) {
    /** @type {ArrayBuffer[]} */
    const got = [];
    const reader = new RecordReader((one) => got.push(one));
    for (let at = 0; at < whole.length; at += step) reader.push(whole.subarray(at, at + step));
    reader.end();
    assert.deepEqual(got.map((one) => [...new Uint8Array(one)]), parts.map((part) => [...part]), `chunks of ${step}`);
  }
});

test("a broken stream is an error and never a picture", () => {
  const good = () => tile(0, 2, [mean, max, argmax]);
  /** @param {(bytes: Uint8Array) => Uint8Array} spoil @param {RegExp} message */
  const fails = (spoil, message) => assert.throws(() => {
    const reader = new RecordReader((one) => void decodeTile(one));
    reader.push(spoil(good()));
    reader.end();
  }, (error) => error instanceof SourceError && error.code === "broken" && message.test(error.message));
  fails((b) => (b[3] = 88, b), /ATTX/);
  fails((b) => (b[4] = 2, b), /version 2/);
  fails((b) => b.subarray(0, 50), /middle/);
  fails((b) => b.subarray(0, 10), /middle/);
  fails((b) => (b[6] = 7, b), /state 7/);
  fails((b) => (b[8] = 2, b), /2 planes/);
  fails((b) => (b[12] = 4, b), /do not fit/);
  fails((b) => (new DataView(b.buffer).setUint32(24, 0xffffffff, true), b), /more than/);
  fails((b) => (b[6] = 1, b), /state masked/);
  assert.throws(() => decodeTrack(record("ATTR", [[14, "u16", 4]]).buffer, ["received"]), /track number 4/);
  assert.throws(() => decodeRow(good().buffer), /expected a record ATRW/);
});
