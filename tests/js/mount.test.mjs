// book/assets/explorers.js, run against a page of a dozen lines: only what the script touches.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { beforeEach, test } from "node:test";

const source = readFileSync(new URL("../../book/assets/explorers.js", import.meta.url), "utf8");
let made = 0;
const settled = () => new Promise((done) => setTimeout(done, 30));

function fakeScript(json) {
  const [classes, mounts] = [new Set(), []];
  const container = { classList: classes, getBoundingClientRect: () => ({ top: 400, bottom: 800 }) };
  return { textContent: JSON.stringify(json), mounts, classes, before: (el) => mounts.push(el), closest: () => container };
}

/** A page with these models and views; returns what the mount script did to it. */
async function open(models, ids, { loading = false } = {}) {
  const views = ids.map((id) => fakeScript({ model_id: id }));
  const state = fakeScript({ state: Object.fromEntries(Object.entries(models).map(([id, s]) => [id, { state: s }])) });
  const page = { views, styles: [], errors: [], listeners: {} };
  globalThis.document = {
    readyState: loading ? "loading" : "complete",
    querySelectorAll: (selector) => (selector.includes("widget-state") ? [state] : views),
    createElement: (tag) => ({ tag, remove() { this.removed = true; } }),
    documentElement: { style: {} },
    head: { append: (style) => page.styles.push(style.textContent) },
    addEventListener: (name, callback) => (page.listeners[name] = callback),
  };
  globalThis.innerHeight = 900;
  globalThis.requestAnimationFrame = (callback) => setTimeout(callback);
  globalThis.scrollBy = () => {};
  globalThis.dispatchEvent = () => {};
  console.error = (...words) => page.errors.push(words.join(" "));
  (0, eval)(source);
  await settled();
  return page;
}

beforeEach(() => {
  globalThis.log = [];
  // Node cannot import a blob URL; a data URL holds the same text, its number keeps each one new.
  globalThis.Blob = class { constructor(parts) { this.text = parts.join(""); } };
  URL.createObjectURL = (blob) => `data:text/javascript,${encodeURIComponent(blob.text)}#${made++}`;
  URL.revokeObjectURL = () => {};
});

const plain = "export default { render({ model, el }) { log.push([model, el]); } };";

test("each view is mounted before its script and its container goes live, once the page is loaded", async () => {
  const page = await open({ a: { _esm: plain, _css: ".x {}", eps: 1 } }, ["a"], { loading: true });
  assert.equal(log.length, 0);
  page.listeners.DOMContentLoaded();
  await settled();
  assert.equal(log.length, 1);
  assert.equal(log[0][0].get("eps"), 1);
  assert.equal(page.views[0].mounts[0], log[0][1]);
  assert.ok(page.views[0].classes.has("ln-live"));
  assert.deepEqual(page.errors, []);
});

test("two views share a model; a sheet of two models is added once", async () => {
  const page = await open({ a: { _esm: plain, _css: ".x {}" }, b: { _esm: plain, _css: ".x {}" } }, ["a", "a", "b"]);
  assert.equal(log.length, 3);
  const [first, second, other] = log.map(([model]) => model);
  assert.equal(first, second);
  assert.notEqual(first, other);
  assert.deepEqual(page.styles, [".x {}"]);
});

test("set tells listeners what changed, once, and only if it did", async () => {
  await open({ a: { _esm: plain, eps: 1 } }, ["a"]);
  const [[model]] = log;
  const heard = [];
  const listener = () => heard.push("change:eps");
  model.on("change:eps", listener);
  model.on("change", () => heard.push("change"));
  model.set("eps", 1);
  assert.deepEqual(heard, []);
  model.set("eps", 2);
  model.save_changes();
  assert.deepEqual(heard, ["change:eps", "change"]);
  model.off("change:eps", listener);
  model.set("eps", 3);
  assert.deepEqual(heard, ["change:eps", "change", "change"]);
});

test("initialize comes before render, once a model; a function may be the default", async () => {
  const esm = `export default () => ({ initialize: () => { log.push("initialize"); }, render: () => { log.push("render"); } });`;
  await open({ a: { _esm: esm } }, ["a", "a"]);
  assert.deepEqual(log, ["initialize", "render", "render"]);
});

for (const [what, esm] of [
  ["render throws", `export default { render() { throw new Error("no luck"); } };`],
  ["the module cannot be parsed", "export default {{{"],
]) {
  test(`when ${what} the fallback stays and the console says why`, async () => {
    const page = await open({ a: { _esm: esm }, b: { _esm: plain } }, ["a", "b"]);
    assert.ok(!page.views[0].classes.has("ln-live"));
    assert.ok(page.views[0].mounts.every((el) => el.removed));
    assert.match(page.errors.join(), /could not be shown.*Error/);
    assert.ok(page.views[1].classes.has("ln-live"), "the other explorer is shown");
  });
}

test("widgets that are no anywidgets, and views without a model, are left alone", async () => {
  const page = await open({ slider: { value: 1 } }, ["slider", "missing"]);
  assert.deepEqual(page.errors, []);
  assert.ok(page.views.every((view) => view.mounts.length === 0 && view.classes.size === 0));
});
