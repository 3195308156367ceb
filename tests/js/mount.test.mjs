// book/assets/explorers.js, run against a page of a dozen lines: only what the script touches.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const source = readFileSync(new URL("../../book/assets/explorers.js", import.meta.url), "utf8");
let made = 0;
// Node cannot import a blob URL; a data URL holds the same text, its number keeps each one new.
globalThis.Blob = class { constructor(parts) { this.text = parts.join(""); } };
URL.createObjectURL = (blob) => `data:text/javascript,${encodeURIComponent(blob.text)}#${made++}`;
URL.revokeObjectURL = () => {};
Object.assign(globalThis, { innerHeight: 900, requestAnimationFrame: setTimeout, scrollBy() {}, dispatchEvent() {} });

function fakeScript(json) {
  const [classes, mounts] = [new Set(), []];
  const container = { classList: classes, getBoundingClientRect: () => ({ top: 400, bottom: 800 }) };
  return { textContent: JSON.stringify(json), mounts, classes, before: (el) => mounts.push(el), closest: () => container };
}

/** A page with these models and views; returns what the mount script did to it once it was loaded. */
async function open(models, ids) {
  const views = ids.map((id) => fakeScript({ model_id: id }));
  const state = fakeScript({ state: Object.fromEntries(Object.entries(models).map(([id, s]) => [id, { state: s }])) });
  const page = { views, styles: [], errors: [], log: (globalThis.log = []) };
  let load;
  globalThis.document = {
    readyState: "loading",
    querySelectorAll: (selector) => (selector.includes("widget-state") ? [state] : views),
    createElement: (tag) => ({ tag, remove() { this.removed = true; } }),
    documentElement: { style: {} },
    head: { append: (style) => page.styles.push(style.textContent) },
    addEventListener: (_, callback) => (load = callback),
  };
  console.error = (...words) => page.errors.push(words.join(" "));
  (0, eval)(source);
  load();
  await new Promise((done) => setTimeout(done, 30));
  return page;
}

const plain = "export default { render({ model, el }) { log.push([model, el]); } };";

test("views of a model share it, each is mounted before its script and goes live, and a sheet is added once", async () => {
  const { log, views, styles, errors } = await open({ a: { _esm: plain, _css: ".x {}", eps: 1 }, b: { _esm: plain, _css: ".x {}" } }, ["a", "a", "b"]);
  const [first, second, other] = log.map(([model]) => model);
  assert.ok(first === second && first !== other);
  assert.equal(first.get("eps"), 1);
  assert.deepEqual(views.map(({ mounts }) => mounts), log.map(([, el]) => [el]));
  assert.ok(views.every(({ classes }) => classes.has("ln-live")));
  assert.deepEqual([styles, errors], [[".x {}"], []]);
});

test("set tells listeners what changed, once, and only if it did", async () => {
  const { log: [[model]] } = await open({ a: { _esm: plain, eps: 1 } }, ["a"]);
  const heard = [];
  const listener = () => heard.push("change:eps");
  model.on("change:eps", listener);
  model.on("change", () => heard.push("change"));
  for (const eps of [1, 2]) model.set("eps", eps);
  model.save_changes();
  assert.deepEqual(heard, ["change:eps", "change"]);
  model.off("change:eps", listener);
  model.set("eps", 3);
  assert.deepEqual(heard, ["change:eps", "change", "change"]);
});

test("initialize comes before render, once a model; a function may be the default; other widgets are left alone", async () => {
  const esm = `export default () => ({ initialize: () => { log.push("initialize"); }, render: () => { log.push("render"); } });`;
  const { log, views, errors } = await open({ a: { _esm: esm }, slider: { value: 1 } }, ["a", "a", "slider", "missing"]);
  assert.deepEqual([log, errors], [["initialize", "render", "render"], []]);
  assert.deepEqual(views.map(({ mounts, classes }) => mounts.length + classes.size), [2, 2, 0, 0]);
});

test("what cannot be parsed or throws keeps its fallback, the console says why, and the others are shown", async () => {
  const throws = `export default { render() { throw new Error("no luck"); } };`;
  const { views, errors } = await open({ a: { _esm: throws }, b: { _esm: "export default {{{" }, c: { _esm: plain } }, ["a", "b", "c"]);
  assert.deepEqual(views.map(({ classes }) => classes.has("ln-live")), [false, false, true]);
  assert.deepEqual(views.map(({ mounts }) => mounts.every((el) => el.removed)), [true, true, false]);
  assert.deepEqual(errors.map((error) => /could not be shown.*Error/.test(error)), [true, true]);
});
