// The arithmetic of the row machine against lnlib.formula, and its words against Python's.
//
// tests/test_explorer_row.py writes the golden cases and runs this file with LN_GOLDEN set; NaN is a
// string there. Python counts the tests, so none can be lost.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as row from "../../lnlib/book/explorers/row.mjs";
import { axisOf, stretched } from "../../lnlib/book/explorers/row_charts.mjs";

const path = process.env.LN_GOLDEN;
const skip = path ? false : "LN_GOLDEN is not set: run pytest tests/test_explorer_row.py";
const golden = path ? JSON.parse(readFileSync(path, "utf8")) : null;
const each = (check) => () => golden.cases.forEach((c) => check(c, `${c.x}; ε ${c.eps}, γ ${c.weight}, β ${c.bias}`));
const termsOf = ({ x, eps, weight, bias }) => row.terms(x, eps, weight, bias);
const numbers = (v) => [v].flat().map(Number);
const book = [...row.defaults.x];

test("the defaults and the limits are Python's", { skip }, () => {
  assert.deepEqual({ ...row.defaults, x: book }, golden.defaults);
  assert.deepEqual({ ...row.limits }, golden.limits);
});

// Both round each of a dozen operations once: 1e-12. The mean is off by at most 8 roundings of the largest
// |x|, 8.9e-16 of it; by as much each x − μ is, and so is σ.
test("every term agrees with lnlib.formula", { skip }, each((c, where) => {
  const ours = termsOf(c);
  const size = 2e-15 * Math.max(...c.x.map(Math.abs));
  const hat = (4 * size) / c.formula.denominator;
  const slack = { mean: size, centered: size, std: size, denominator: size, xHat: hat, y: hat * Math.abs(c.weight) + 1e-11 };
  for (const [name, extra] of Object.entries(slack)) {
    const theirs = numbers(c.formula[name]);
    assert.equal(numbers(ours[name]).length, theirs.length);
    numbers(ours[name]).forEach((v, i) => {
      const near = Math.abs(v - theirs[i]) <= 1e-12 * Math.abs(theirs[i]) + extra;
      assert.ok(near || (Number.isNaN(v) && Number.isNaN(theirs[i])), `${where}: ${name}[${i}] is ${v}, expected ${theirs[i]}`);
    });
  }
}));

test("every term is Python's, to the last bit", { skip }, each((c, where) => {
  const ours = termsOf(c);
  for (const [name, theirs] of Object.entries(c.terms)) assert.deepEqual(numbers(ours[name]).map(String), numbers(theirs).map(String), `${where}: ${name}`);
}));

test("sentence and verdict are Python's, letter for letter", { skip }, each((c) => {
  assert.deepEqual([row.sentence(c), row.verdict(c)], [c.sentence, c.verdict]);
}));

test("a constant row has σ = 0, whatever it is", () => {
  for (const v of [0, 0.1, -1 / 3, 1e7, 9999999.9, 1e-7]) assert.equal(row.terms(Array(8).fill(v), 0, 1, 0).std, 0, `${v}`);
});

test("×10 and +100 leave x̂ in its place, without a tail of digits", () => {
  assert.deepEqual(row.deeds["×10"]([1.1, 0.3, -0.7, 0, 2, 5, 7, 9]), [11, 3, -7, 0, 20, 50, 70, 90]);
  assert.deepEqual(row.deeds["+100"]([1.1, 0.3, -0.7, 0, 2, 5, 7, 9]), [101.1, 100.3, 99.3, 100, 102, 105, 107, 109]);
  assert.deepEqual(row.deeds["One feature → 10⁶"]([1, 2, 9, 4, 9, 6, 7, 8]), [1, 2, 1e6, 4, 9, 6, 7, 8]);
});

test("a flattened row has σ = 10⁻⁴ around the same mean; a constant one takes the book's shape", () => {
  for (const x of [book, [0, 0, 0, 0, 0, 0, 0, 8], Array(8).fill(5)]) {
    const { mean, std } = row.terms(row.flatten(x), 0, 1, 0);
    assert.ok(Math.abs(std - 1e-4) < 1e-14 && Math.abs(mean - row.terms(x, 0, 1, 0).mean) < 1e-14);
  }
  row.flatten(Array(8).fill(5)).forEach((v, i) => assert.ok(Math.abs(v - row.flatten(book)[i]) < 1e-14));
});

test("x̂ is told to stay where it is while the row moves, and only then", () => {
  const told = (...states) => states.map(([x, traits]) => ({ ...row.defaults, x, ...traits })).map(row.stillness());
  const [tens, raised] = [row.deeds["×10"](book), row.deeds["+100"](book)];
  assert.deepEqual(told([book], [tens], [tens, { weight: 2 }], [raised], [book.with(7, 9.4)], [book]), [false, true, true, true, false, false]);
  for (const [by, still] of [[0.5, false], [1.5, true]]) assert.deepEqual(told([book], [book.map((v) => v + by)]), [false, still]); // σ is 2
  assert.deepEqual(told([book], [tens, { eps: 1e4 }], [row.flatten(book)]), [false, false, false]);
  for (const eps of [0, 1e-5]) assert.deepEqual(told([Array(8).fill(5), { eps }], [Array(8).fill(6), { eps }]), [false, false]);
});

test("an address cannot set what Python would refuse", () => {
  assert.deepEqual(row.settle("x", [1e9, -1e9, 0, 1, 2, 3, 4, 5]), [1e7, -1e7, 0, 1, 2, 3, 4, 5]);
  assert.deepEqual([0, 1e-20, 7, -3].map((v) => row.settle("eps", v)), [0, 1e-12, 1, 1e-12]);
  assert.deepEqual([-9, 0, 9].flatMap((v) => [row.settle("weight", v), row.settle("bias", v)]), [-5, -8, 0, 0, 5, 8]);
});

test("an axis starts at 0, leaves room to grow and ends at ticks; it is stretched by no more than needed", () => {
  const ticks = [book, book.map((v) => v * 10), book.with(7, 1e6), Array(8).fill(0), Array(8).fill(-5)].map((x) => axisOf(x).ticks);
  assert.deepEqual(ticks, [[0, 5, 10, 15], [0, 50, 100, 150], [0, 5e5, 1e6, 1.5e6, 2e6], [0, 5, 10], [-8, -6, -4, -2, 0]]);
  assert.deepEqual(stretched(axisOf(book), book), { low: 0, high: 15, ticks: ticks[0] });
  assert.deepEqual(stretched(axisOf(book), book.with(3, 23)), { low: 0, high: 23, ticks: [0, 10, 20] });
  assert.deepEqual(stretched(axisOf(book), book.with(3, -6)), { low: -6, high: 15, ticks: [0, 10] });
});
