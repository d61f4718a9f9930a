// The geometry of the map: laws of panning and zooming, the flight, the keys, the search, the exports.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Sections, nextWord, visibleLabel } from "../../../src/attnscope/serve/static/js/draw/sections.js";
import { escapeXml, fitText, shapesToSvg, textWidth } from "../../../src/attnscope/serve/static/js/draw/shapes.js";
import {
  alongOf, barOf, heightOf, labelShapes, numberShapes, sectionShapes, seenTokens, trackShapes, wrap,
} from "../../../src/attnscope/serve/static/js/draw/tracks.js";
import { Camera } from "../../../src/attnscope/serve/static/js/screens/map/camera.js";
import { footShapes, svgText } from "../../../src/attnscope/serve/static/js/screens/map/export.js";
import { layoutOf } from "../../../src/attnscope/serve/static/js/screens/map/figure.js";
import { meaningOf } from "../../../src/attnscope/serve/static/js/screens/map/keys.js";
import { partOf, wheelFactor } from "../../../src/attnscope/serve/static/js/screens/map/pointer.js";
import { largest, totalOf } from "../../../src/attnscope/serve/static/js/screens/map/rowtable.js";
import { addedLabels, joinedLabel } from "../../../src/attnscope/serve/static/js/parts/labels.js";
import { Haystack, nextHit } from "../../../src/attnscope/serve/static/js/screens/map/search.js";
import {
  LARGEST_CELL, clampView, fitView, flight, insideView, panBy, reveal, seenRect, toPixels, toTokens, zoomAt,
} from "../../../src/attnscope/serve/static/js/screens/map/view.js";

const size = { width: 800, height: 600 };
const extent = { keys: 32768, queries: 32768 };
const near = (/** @type {number} */ a, /** @type {number} */ b, within = 1e-9) =>
  assert.ok(Math.abs(a - b) <= within * Math.max(1, Math.abs(a), Math.abs(b)), `${a} is not ${b}`);

test("pixels and tokens are each other's inverse", () => {
  const view = { x: 12345.5, y: 777, pixels: 0.37 };
  const back = toTokens(view, size, toPixels(view, size, { key: 12000, query: 900.25 }));
  near(back.key, 12000);
  near(back.query, 900.25);
  const seen = seenRect(view, size);
  const start = toPixels(view, size, { key: seen.x, query: seen.y });
  near(start.left, 0);
  near(start.top, 0);
});

test("the whole map fits, from its corner", () => {
  for (const [keys, queries] of [[32768, 32768], [20, 20], [1, 1], [5000, 10]]) {
    const view = fitView({ keys, queries }, size);
    const end = toPixels(view, size, { key: keys, query: queries });
    assert.deepEqual(toPixels(view, size, { key: 0, query: 0 }), { left: 0, top: 0 });
    assert.ok(end.left <= size.width + 1e-6 && end.top <= size.height + 1e-6);
    assert.ok(view.pixels === LARGEST_CELL / 2 || Math.abs(end.left - 800) < 1e-6 || Math.abs(end.top - 600) < 1e-6);
  }
});

test("zooming keeps what is under the pointer there, and zooming back comes back", () => {
  const view = { x: 900, y: 800, pixels: 2 };
  const point = { left: 123, top: 456 };
  const before = toTokens(view, size, point);
  const near2 = zoomAt(view, size, { point, factor: 3, extent });
  const after = toTokens(near2, size, point);
  near(after.key, before.key);
  near(after.query, before.query);
  const back = zoomAt(near2, size, { point, factor: 1 / 3, extent });
  near(back.x, view.x);
  near(back.pixels, view.pixels);
  assert.equal(zoomAt(view, size, { point, factor: 1e9, extent }).pixels, LARGEST_CELL);
});

test("dragging moves the map with the hand, and never out of sight", () => {
  const view = { x: 900, y: 800, pixels: 2 };
  const moved = panBy(view, 10, -6);
  const [before, after] = [view, moved].map((one) => toPixels(one, size, { key: 850, query: 820 }));
  near(after.left - before.left, 10);
  near(after.top - before.top, -6);
  for (const [right, down] of [[1e7, 1e7], [-1e7, -1e7], [1e7, -1e7]]) {
    const far = clampView(panBy(view, right, down), extent, size);
    const [start, end] = [toPixels(far, size, { key: 0, query: 0 }), toPixels(far, size, { key: 32768, query: 32768 })];
    assert.ok(start.left < size.width - 50 && start.top < size.height - 50 && end.left > 50 && end.top > 50);
  }
  const fitted = fitView(extent, size);
  assert.deepEqual(clampView(fitted, extent, size), fitted);
});

test("what is gone to is seen without anything beyond the map", () => {
  for (const [key, query, pixels] of [[0, 0, 14], [32767, 32767, 14], [20000, 3, 30], [5, 32760, 96]]) {
    const view = insideView({ x: key + 0.5, y: query + 0.5, pixels }, extent, size);
    const seen = seenRect(view, size);
    assert.ok(seen.x >= -1e-6 && seen.y >= -1e-6 && seen.x + seen.width <= 32768 + 1e-6 && seen.y + seen.height <= 32768 + 1e-6);
    assert.ok(key >= seen.x && key + 1 <= seen.x + seen.width + 1e-6 && query >= seen.y && query + 1 <= seen.y + seen.height + 1e-6);
  }
  const few = { keys: 12, queries: 12 };
  const fitted = fitView(few, size);
  assert.deepEqual(insideView({ x: 11.5, y: 11.5, pixels: fitted.pixels }, few, size), fitted);
});

test("revealing moves only as far as it must", () => {
  const view = { x: 500, y: 500, pixels: 10 };
  assert.deepEqual(reveal(view, size, { key: 500, query: 500 }), view);
  const moved = reveal(view, size, { key: 545, query: 500 });
  assert.equal(moved.y, 500);
  near(toPixels(moved, size, { key: 545.5, query: 500 }).left, size.width - 40);
});

test("a flight starts and ends where it should, and zooms out on a long way", () => {
  const from = { x: 100, y: 100, pixels: 20 };
  const to = { x: 30000, y: 31000, pixels: 24 };
  const way = flight(from, to, size);
  near(way.at(0).x, from.x, 1e-6);
  near(way.at(0).pixels, from.pixels, 1e-6);
  assert.deepEqual(way.at(1), to);
  near(way.at(1 - 1e-9).x, to.x, 1e-3);
  near(way.at(1 - 1e-9).pixels, to.pixels, 1e-3);
  assert.ok(way.at(0.5).pixels < 1);
  let before = 0;
  for (let t = 0; t <= 1; t += 0.01) {
    const { x, pixels } = way.at(t);
    assert.ok(x >= before - 1e-6 && pixels > 0);
    before = x;
  }
  for (const pixels of [2, 90]) {
    const straight = flight(from, { ...from, pixels }, size);
    near(straight.at(0.5).pixels, Math.sqrt(20 * pixels), 1e-6);
    assert.ok(straight.length > 0);
  }
});

/** @param {boolean} still */
function cameraOf(still) {
  const state = { view: /** @type {any} */ (null) };
  let now = 0;
  const store = /** @type {any} */ ({ get: () => state, set: (/** @type {object} */ change) => Object.assign(state, change) });
  const camera = new Camera({ store, extent: () => extent, plot: () => size, ask: () => {}, now: () => now, still: () => still });
  return { camera, state, pass: (/** @type {number} */ ms) => (now += ms) };
}

test("a flight takes its time, unless the reader wants no movement", () => {
  const target = { x: 2000, y: 3000, pixels: 24 };
  const { camera, pass } = cameraOf(false);
  camera.take();
  camera.fly(target);
  assert.ok(camera.flying);
  assert.deepEqual(camera.target, target);
  pass(100);
  assert.ok(camera.frame().pixels < 24);
  pass(5000);
  assert.deepEqual(camera.frame(), target);
  assert.equal(camera.flying, false);
  camera.dispose();
  const quiet = cameraOf(true).camera;
  quiet.take();
  quiet.fly(target);
  assert.deepEqual([quiet.flying, quiet.frame()], [false, target]);
  quiet.dispose();
});

test("the camera writes its view once it rests, and does not take back what it wrote", async () => {
  const { camera, state } = cameraOf(true);
  camera.take();
  camera.pan(-50, -20);
  camera.pan(-50, -20);
  assert.equal(state.view, null);
  await new Promise((resolve) => setTimeout(resolve, 260));
  assert.deepEqual(state.view, camera.view);
  const { view } = camera;
  camera.take();
  assert.equal(camera.view, view);
  state.view = { x: 5, y: 6, pixels: 7 };
  camera.take();
  assert.deepEqual(camera.view, { x: 5, y: 6, pixels: 7 });
});

test("keys mean what the help says", () => {
  const mean = (/** @type {string} */ key, shiftKey = false) => meaningOf({ key, shiftKey });
  assert.deepEqual(mean("ArrowDown"), { do: "step", query: 1, key: 0, word: false });
  assert.deepEqual(mean("ArrowLeft", true), { do: "step", query: 0, key: -1, word: true });
  assert.deepEqual(mean("w"), { do: "pan", right: 0, down: 80 });
  assert.deepEqual(mean("D"), { do: "pan", right: -80, down: 0 });
  const [nearer, further] = [mean("+"), mean("-")];
  assert.ok(nearer?.do === "zoom" && further?.do === "zoom" && Math.abs(nearer.factor * further.factor - 1) < 1e-12);
  assert.deepEqual(["f", "F", "/", "c", "Enter", "Escape", " "].map((key) => mean(key)?.do), ["fit", "fit", "search", "compare", "fly", "unlock", "lock"]);
  assert.equal(mean("x"), null);
});

test("the wheel zooms by its turn, whatever its unit, and within reason", () => {
  const factor = (/** @type {number} */ deltaY, deltaMode = 0, ctrlKey = false) => wheelFactor({ deltaY, deltaMode, ctrlKey });
  near(factor(100) * factor(-100), 1);
  assert.ok(factor(-100) > 1 && factor(-100) < 1.5);
  near(factor(3, 1), factor(99));
  assert.ok(factor(1e9) > 0.4);
});

test("the figure's parts are told apart, and narrow ones leave room for the map", () => {
  for (const [width, height] of [[1400, 900], [360, 300]]) {
    const layout = layoutOf(width, height);
    const { plot } = layout;
    assert.ok(plot.width > width / 2 && plot.x + plot.width <= width && plot.y + plot.height <= height);
    const part = (/** @type {number} */ left, /** @type {number} */ top) => partOf(layout, { left, top });
    assert.deepEqual([part(plot.x, plot.y), part(plot.x, 3), part(3, plot.y), part(3, 3)], ["plot", "keys", "queries", "corner"]);
  }
});

const labels = ["Hello", " world", ".", "\n\n", "国", "王", "🍎", "🍎", " Ünd", "er", " end"];

/** Tokens whose spans follow one another. @param {string[]} labels */
function tableOf(labels) {
  const ends = labels.map((_, at) => labels.slice(0, at + 1).join("").length);
  return { labels, start: [0, ...ends.slice(0, -1)], end: ends };
}

test("words are found where they begin, in scripts with and without spaces", () => {
  const stops = [0];
  while (stops[stops.length - 1] < labels.length - 1) stops.push(nextWord(labels, stops[stops.length - 1], 1));
  assert.deepEqual(stops.map((at) => labels[at]), ["Hello", " world", ".", "\n\n", "国", "王", "🍎", " Ünd", " end"]);
  assert.equal(nextWord(labels, 10, -1), 8);
  assert.equal(nextWord(labels, 0, -1), 0);
  assert.equal(nextWord(labels, 10, 1), 10);
});

test("text is found across tokens, without case, and once for the pieces of one character", () => {
  const hay = new Haystack({ labels, start: [0, 5, 11, 12, 14, 17, 20, 20, 24, 28, 30], end: [5, 11, 12, 14, 17, 20, 24, 24, 28, 30, 34] });
  assert.deepEqual(hay.find("HELLO w"), [{ from: 0, to: 1 }]);
  assert.deepEqual(hay.find("国王"), [{ from: 4, to: 5 }]);
  assert.deepEqual(hay.find("🍎"), [{ from: 6, to: 6 }]);
  assert.deepEqual(hay.find("🍎 ünder"), [{ from: 6, to: 9 }]);
  assert.deepEqual(hay.find("o").length, 2);
  assert.deepEqual([hay.find(" "), hay.find(""), hay.find("xyz")], [[], [], []]);
});

test("sections cover the text without gaps at every zoom, and grow as it shrinks", () => {
  const text = Array.from({ length: 400 }, (_, i) => (i % 40 === 39 ? "\n\n" : i % 8 === 7 ? "." : ` w${i}`));
  const sections = new Sections(tableOf(text));
  let before = Infinity;
  for (const pixels of [11, 5, 2, 1, 0.5, 0.1, 0.01]) {
    const parts = sections.at(pixels);
    assert.equal(parts[0].from, 0);
    parts.forEach(({ from, to }, at) => assert.equal(to, parts[at + 1]?.from ?? 400, `${pixels}: ${from}`));
    assert.ok(parts.length <= before);
    before = parts.length;
  }
  assert.equal(sections.at(1)[1].title.slice(0, 7), "w40 w41");
  assert.deepEqual(new Sections(tableOf(["a"])).at(1), [{ from: 0, to: 1, title: "a" }]);
});

/** @type {import("../../../src/attnscope/serve/static/js/draw/tracks.js").Axis} */
const keys = { standing: false, start: 100, length: 200, first: 3.5, pixels: 20, count: 11 };
const style = { ink: "#111111", soft: "#555555", line: "#888888", accent: "#0000ff", wash: "#eeeeff", sunken: "#eeeeee", surface: "#ffffff", ground: "#fafafa" };

test("axes put tokens where the map puts their cells", () => {
  assert.equal(alongOf(keys, 3.5), 100);
  assert.deepEqual(seenTokens(keys), [3, 10]);
  const band = { at: 10, size: 50 };
  assert.deepEqual(barOf(keys, [4, 6], band), { x: 110, y: 10, width: 40, height: 50 });
  assert.deepEqual(barOf({ ...keys, standing: true }, [0, 4], band), { x: 10, y: 100, width: 50, height: 10 });
  const further = labels.map((_, at) => at === 7);
  const made = labelShapes(keys, band, { labels, further, chosen: [8, 8], style });
  assert.ok(made.kind === "group");
  const texts = made.shapes.flatMap((shape) => (shape.kind === "text" ? [shape] : []));
  assert.deepEqual(texts.map(({ text }) => text), ["↵↵", "国", "王", "🍎", "␣Ünd", "er", "␣end"]);
  // The apple stands once, in the middle over its two pieces, and a line joins them.
  assert.deepEqual(texts.map(({ x }) => x), [3, 4, 5, 6.5, 8, 9, 10].map((token) => 100 + 20 * (token - 3)));
  const lines = made.shapes.flatMap((shape) => (shape.kind === "line" ? [shape] : []));
  assert.deepEqual(lines.map(({ points }) => points), [[[152, 58], [188, 58]]]);
  assert.deepEqual(texts.filter(({ bold }) => bold).map(({ text }) => text), ["␣Ünd"]);
  assert.equal(visibleLabel("\ta\r\n"), "⇥a↵");
});

test("a track's steps stand over their tokens, as tall as their values", () => {
  const pieces = [{ name: "entropy", level: 1, x: 0, mean: Float32Array.of(0, 1, 0.5, NaN, 0, 1), max: Float32Array.of(0, 1, 1, NaN, 0, 1) }];
  const made = trackShapes({ ...keys, first: 0, length: 400 }, { at: 0, size: 42 }, { pieces, height: heightOf(1, false), style });
  assert.ok(made.kind === "group");
  const area = made.shapes.find((shape) => shape.kind === "area");
  assert.ok(area?.kind === "area");
  const tops = area.points.slice(0, -2);
  assert.deepEqual(tops.slice(2, 6), [[140, 2], [180, 2], [180, 22], [220, 22]]);
  assert.deepEqual(tops[6], [220, 42], "nothing known is no bar");
  assert.deepEqual(tops[11], [320, 2], "the last cell ends with the text: 11 tokens");
  const log = heightOf(100, true);
  assert.deepEqual([log(0), log(100), log(1000)], [0, 1, 1]);
  near(log(1), 0.5);
});

test("titles are broken at words, or at characters where there are no words", () => {
  assert.deepEqual(wrap("the quick brown fox", 56, 3), ["the quick", "brown fox"]);
  assert.ok(wrap("小明把苹果给了小王", 45, 2).every((line) => textWidth(line, 10) <= 45));
  assert.equal(fitText("abcdef", 10, 1), "");
  assert.equal(fitText("abc", 10, 100), "abc");
  const sections = [{ from: 0, to: 4, title: "one" }, { from: 4, to: 11, title: "two" }];
  const made = sectionShapes({ ...keys, first: 0, length: 300 }, { at: 0, size: 60 }, { sections, style });
  assert.ok(made.kind === "group" && made.shapes.some((shape) => shape.kind === "text" && shape.text === "two"));
});

test("shapes become XML that no text can break", () => {
  assert.equal(escapeXml("<b a='1'>&\u0000\""), "&lt;b a=&apos;1&apos;&gt;&amp;&quot;");
  const svg = shapesToSvg([
    { kind: "text", x: 1, y: 2, text: "</text><script>1</script>", size: 12, fill: "red\" onload=\"x", turned: true },
    { kind: "group", clip: [0, 0, 5, 5], shapes: [{ kind: "line", points: [[0, 0], [1, 1]], stroke: "#000" }] },
  ]);
  assert.ok(!svg.includes("<script") && !svg.includes('" onload'));
  assert.ok(svg.includes('clip-path="url(#clip-1)"') && svg.includes("rotate(-90 1 2)"));
});

test("an exported drawing holds its scale, its words and its view", () => {
  const tiles = /** @type {any} */ ({ toDataURL: () => "data:image/png;base64,AAAA" });
  const look = { scale: /** @type {const} */ ("log"), plane: /** @type {const} */ ("mean"), low: 1e-3, high: 1, palette: /** @type {const} */ ("cividis") };
  const saved = { layout: layoutOf(900, 700), shapes: [], look, style, lines: ["a <model>", "b"], font: "x", tiles, view: { screen: "map" } };
  const svg = svgText(saved);
  for (const part of ["a &lt;model&gt;", "0.001", "{&quot;screen&quot;:&quot;map&quot;}", "data:image/png;base64,AAAA"]) assert.ok(svg.includes(part), part);
  const texts = footShapes(saved).flatMap((shape) => (shape.kind === "text" ? [shape.text] : []));
  assert.deepEqual(texts, ["0.001", "0.01", "0.1", "1", "a <model>", "b"]);
});

test("the largest weights come in order, and totals are sums or means of pairs", () => {
  const row = Float32Array.of(0.25, 0, 0.5, 0.25, NaN, 0.125);
  assert.deepEqual(largest(row, 3), [2, 0, 3]);
  assert.deepEqual(largest(row, 10), [2, 0, 3, 5]);
  assert.equal(totalOf(row, [2, 3], "sum"), 0.75);
  assert.equal(totalOf(row, [2, 3], "mean"), 0.375);
});

test("zooming without a pointer is about the middle", () => {
  const { camera } = cameraOf(true);
  camera.take();
  const { x, y, pixels } = camera.view;
  camera.zoom(3);
  assert.deepEqual([camera.view.x, camera.view.y, camera.view.pixels], [x, y, 3 * pixels]);
});

test("a flight lasts a while, however short, and ends, however long", () => {
  for (const pixels of [1.05, 1e3]) {
    const { camera, pass } = cameraOf(false);
    camera.take();
    camera.fly({ ...camera.view, pixels: camera.view.pixels * pixels });
    pass(100);
    camera.frame();
    assert.ok(camera.flying, `${pixels}: it jumped`);
    pass(2000);
    camera.frame();
    assert.ok(!camera.flying, `${pixels}: it still flies`);
  }
});

test("an empty line that stands in tokens of its own ends a paragraph", () => {
  const labels = ["One", ".", "\n", "\n", "Two", ".", "\n", "\n", "Three", "."];
  assert.deepEqual(new Sections(tableOf(labels)).paragraphs.map(({ from }) => from), [0, 4, 8]);
});

test("the pieces of a character are said once, end no sentence between them, and are found", () => {
  // " 🍎" is a piece with the space before it and two further pieces; "。" is three pieces.
  const table = { labels: ["I", " 🍎", "🍎", "🍎", "。", "。", "。", "Two", "."], start: [0, 1, 2, 2, 6, 6, 6, 9, 12], end: [1, 6, 6, 6, 9, 9, 9, 12, 13] };
  const { sentences } = new Sections(table);
  assert.deepEqual(sentences, [{ from: 0, to: 7, title: "I 🍎。" }, { from: 7, to: 9, title: "Two." }]);
  assert.deepEqual(new Haystack(table).find("i 🍎。t"), [{ from: 0, to: 7 }]);
  assert.deepEqual(joinedLabel(table, 2, 5), "🍎。");
  assert.deepEqual(addedLabels(table, 1, 3), [" 🍎", "", ""]);
});

test("hits follow one another around the ends, from the first forwards and from the last backwards", () => {
  const walk = (/** @type {number} */ by) => [0, 1, 2, 3].reduce((seen) => [...seen, nextHit(seen[seen.length - 1], by, 3)], [-1]);
  assert.deepEqual(walk(1), [-1, 0, 1, 2, 0]);
  assert.deepEqual(walk(-1), [-1, 2, 1, 0, 2]);
});

test("a map smaller than the picture keeps 60 pixels of itself in sight, a small picture its middle", () => {
  const [extent, size] = [{ keys: 40, queries: 40 }, { width: 400, height: 100 }];
  const { x, y } = clampView({ x: 1e6, y: 1e6, pixels: 4 }, extent, size);
  assert.deepEqual([x, y], [40 + (200 - 60) / 4, 40]);
  const back = clampView({ x: -1e6, y: -1e6, pixels: 4 }, extent, size);
  assert.deepEqual([back.x, Math.abs(back.y)], [-(200 - 60) / 4, 0]);
});

test("revealing leaves what stands on the margin, at either side", () => {
  const view = { x: 100, y: 100, pixels: 10 };
  const at = (/** @type {number} */ left) => 100 + (left - 400) / 10 - 0.5;
  for (const left of [40, 760]) near(reveal(view, size, { key: at(left), query: 100 }).x, 100);
  near(reveal(view, size, { key: at(30), query: 100 }).x, 99);
  near(reveal(view, size, { key: at(770), query: 100 }).x, 101);
});

test("positions stand at round steps, their ticks against the map", () => {
  const band = { at: 10, size: 50 };
  const made = numberShapes({ ...keys, first: 0, pixels: 2, count: 100 }, band, style);
  assert.ok(made.kind === "group");
  const ticks = made.shapes.flatMap((shape) => (shape.kind === "line" ? [shape.points] : []));
  assert.deepEqual(ticks, [[[100, 56], [100, 60]], [[200, 56], [200, 60]]]);
  const texts = made.shapes.flatMap((shape) => (shape.kind === "text" ? [[shape.text, shape.x, shape.y]] : []));
  assert.deepEqual(texts, [["0", 102, 50], ["50", 200, 50]]);
});
