// The arithmetic of the backward pass against Python's, and its words.
//
// tests/test_explorer_backward.py writes the golden cases, which it compares with autograd, and runs this
// file with LN_GOLDEN set. Python counts the tests, so none can be lost.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as back from "../../lnlib/book/explorers/backward.mjs";
import { scaleOf, short } from "../../lnlib/book/explorers/backward_charts.mjs";

const path = process.env.LN_GOLDEN;
const skip = path ? false : "LN_GOLDEN is not set: run pytest tests/test_explorer_backward.py";
const golden = path ? JSON.parse(readFileSync(path, "utf8")) : null;
const each = (check) => () => golden.cases.forEach((c) => check(c, JSON.stringify([c.x, c.weight, c.dy, c.eps, c.step, c.forget])));
const names = { mean_g: "meanG", mean_gx: "meanGx", x_hat: "xHat" };
const plain = (value) => JSON.parse(JSON.stringify(value));

test("defaults, limits, arrows and tables are Python's", { skip }, () => {
  assert.deepEqual(plain(back.defaults), golden.defaults);
  assert.deepEqual(plain(back.limits), golden.limits);
  for (const name of ["arrows", "lost", "equations"]) assert.deepEqual(plain(back[name]), golden[name]);
});

test("both passes are Python's, to the last bit", { skip }, each((c, where) => {
  const expected = Object.fromEntries(Object.entries(c.passes).map(([name, value]) => [names[name] ?? name, value]));
  assert.deepEqual(plain(back.passes(c.x, c.weight, c.dy, c.eps, c.forget)), plain(expected), where);
}));

test("the words are Python's, letter for letter", { skip }, each((c, where) => {
  assert.deepEqual([back.verdict(c), back.sentence(c)], [c.verdict, c.sentence], where);
}));

test("the work of a step multiplies, collects and adds up", { skip }, each((c, where) => {
  if (c.step === 0) return;
  const { rows } = back.work(c);
  if (c.step === back.end) {
    const [g, mean, hat, dx] = rows.map(([, values]) => values);
    const size = 1e-13 * (1 + Math.max(...c.x.map(Math.abs)) / c.passes.sigma) * Math.max(...[...g, ...mean, ...hat].map(Math.abs), 1);
    dx.forEach((v, i) => assert.ok(Math.abs(g[i] + mean[i] + hat[i] - v) <= size, where));
    return;
  }
  const [[, given], [, local], [, carried]] = rows;
  carried.forEach((v, i) => assert.equal(v, c.forget === back.arrows[c.step - 1] ? 0 : given[i] * local[i], where));
  assert.deepEqual(rows.at(-1)[1], back.known(c)[back.arrows[c.step - 1].split("-")[1]].sum, where);
}));

test("a constant row has v = 0, whatever it is", () => {
  for (const v of [0, 0.1, -1 / 3, 99.99]) assert.equal(back.passes([v, v, v, v], [1, 1, 1, 1], [1, 2, 3, 4], 1e-5).v, 0);
});

test("what is known grows by a node or an addend with each step", () => {
  const sizes = Array.from({ length: back.end + 1 }, (_, step) => {
    const nodes = back.known({ ...back.defaults, step });
    return [Object.keys(nodes).length, nodes.mu?.bars.length ?? 0, nodes.x?.bars.length ?? 0];
  });
  assert.deepEqual(sizes, [[1, 0, 0], [2, 0, 0], [3, 0, 0], [4, 0, 0], [5, 0, 0], [6, 1, 0], [6, 2, 0], [7, 2, 0], [8, 2, 1], [8, 2, 2], [8, 2, 3]]);
});

test("an address cannot set what Python would refuse", () => {
  assert.deepEqual(["v-mu", "", "mu-v"].map((v) => back.settle("forget", v)), ["v-mu", "", undefined]);
  assert.deepEqual([-3, 2.4, 99].map((v) => back.settle("step", v)), [0, 2, 10]);
  assert.deepEqual(back.settle("dy", [-99, 99, 1, 0]), [-10, 10, 1, 0]);
  assert.deepEqual([0, 7].map((v) => back.settle("eps", v)), [1e-12, 1]);
});

test("a card has short numbers, and a scale with 0", () => {
  assert.deepEqual([1, -0.16666, 0.16666, 316.2, 1.234e-6, -0.00222].map((v) => short(v)), ["1", "−0.17", "0.167", "316", "1e-6", "−2e-3"]);
  assert.deepEqual([scaleOf([1, 3]), scaleOf([-1, 3], 2), scaleOf([0, 0])], [{ low: 0, high: 3 }, { low: -2, high: 6 }, { low: 0, high: 1 }]);
});
