// The arithmetic of the depth explorer against Python's, which torch's autograd has proved, and its words.
//
// tests/test_explorer_depth.py writes the golden cases and runs this file with LN_GOLDEN set. Python
// counts the tests, so none can be lost.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as depth from "../../lnlib/book/explorers/depth.mjs";
import { reach, ticksOf } from "../../lnlib/book/explorers/depth_charts.mjs";

const path = process.env.LN_GOLDEN;
const skip = path ? false : "LN_GOLDEN is not set: run pytest tests/test_explorer_depth.py";
const golden = path ? JSON.parse(readFileSync(path, "utf8")) : null;
const each = (check) => () => golden.cases.forEach((c) => check(c, `${c.order}, s = ${c.scale}, ${c.depth} layers`));

test("the defaults and the limits are Python's", { skip }, () => {
  assert.deepEqual({ ...depth.defaults }, golden.defaults);
  assert.deepEqual({ ...depth.limits }, golden.limits);
  assert.deepEqual(Object.keys(depth.orders), golden.orders);
});

test("the drawn numbers are Python's, to the last bit", { skip }, () => {
  for (const [i, value] of golden.drawn) assert.equal(depth.draw(i), value, `${i}`);
});

test("what is measured is Python's, to the last bit", { skip }, each((c, where) => {
  assert.deepEqual(depth.measured(c.order, c.scale, c.depth), c.measured, where);
}));

test("the law is Python's, to the last bit", { skip }, each((c, where) => {
  assert.deepEqual(depth.law(c.order, c.scale, c.depth), c.law, where);
}));

test("sentence and verdict are Python's, letter for letter", { skip }, each((c) => {
  assert.deepEqual([depth.sentence(c), depth.verdict(c)], [c.sentence, c.verdict]);
}));

test("a guess is asked for where the size changes with depth, and nowhere else", () => {
  const asks = (order, scale) => depth.question({ order, scale });
  assert.match(asks("none", 1.2), /^There is no norm, and the weights are 20 % too large to keep the size\./);
  assert.match(asks("none", 0.408), /59\.2 % too small/);
  assert.deepEqual([asks("none", 1), asks("norm_first", 2), asks("relu_first", 0.5)], [null, null, null]);
});

test("the answer says how far off a guess was, whichever side it is on", () => {
  const state = { order: "none", scale: 1.2, depth: 50 };
  assert.equal(depth.answer(state, 10), "You said 10 at layer 50. It is 1.2⁵⁰ = 9100: you were off by a factor of 910.");
  assert.equal(depth.answer(state, 1e6), "You said 1e6 at layer 50. It is 1.2⁵⁰ = 9100: you were off by a factor of 110.");
  assert.equal(depth.answer(state, 5600), "You said 5600 at layer 50. It is 1.2⁵⁰ = 9100: you were close.");
  assert.equal(depth.answer({ ...state, depth: 3 }, 1), "You said 1 at layer 3. It is 1.2³ = 1.73: you were close.");
});

test("an address cannot set what Python would refuse", () => {
  assert.deepEqual([-3, 0.1, 1.2, 99].map((v) => depth.settle("scale", v)), [0.25, 0.25, 1.2, 4]);
  assert.deepEqual([-3, 0, 1.4, 17.6, 51, Infinity].map((v) => depth.settle("depth", v)), [1, 1, 1, 18, 50, 50]);
  assert.deepEqual(["none", "relu_first", "nowhere", "toString"].map((v) => depth.settle("order", v)), ["none", "relu_first", undefined, undefined]);
});

test("the axis is the smallest of five that has room, the same up and down", () => {
  assert.deepEqual([[1], [2, 0.001], [1e3, 1], [1001], [1e-7], [1e13, 1], [1e30], [1e-31]].map(reach), [3, 3, 3, 6, 12, 24, 36, 36]);
  assert.deepEqual(ticksOf(6), [-6, -4, -2, 0, 2, 4, 6]);
  for (const decades of [3, 6, 12, 24, 36]) assert.ok(ticksOf(decades).every(Number.isInteger), `${decades}`);
});

test("what can be set never leaves the widest axis", () => {
  for (const order of Object.keys(depth.orders)) {
    for (const scale of depth.limits.scale) {
      const sizes = [depth.law, depth.measured].flatMap((make) => Object.values(make(order, scale, 50)).flat());
      assert.ok(sizes.every((v) => v > 1e-36 && v < 1e36), `${order}, ${scale}`);
    }
  }
});
