// The arithmetic of the Jacobian explorer against autograd's, and its words against Python's.
//
// tests/test_explorer_jacobian.py writes the golden cases and runs this file with LN_GOLDEN set; NaN is a
// string there. Python counts the tests, so none can be lost.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as jacobian from "../../lnlib/book/explorers/jacobian.mjs";
import { places } from "../../lnlib/book/explorers/jacobian_charts.mjs";

const path = process.env.LN_GOLDEN;
const skip = path ? false : "LN_GOLDEN is not set: run pytest tests/test_explorer_jacobian.py";
const golden = path ? JSON.parse(readFileSync(path, "utf8")) : null;
const each = (check) => () => golden.cases.forEach((c) => check(c, `${c.x}; γ ${c.weight}, ε ${c.eps}, k ${c.output}, i ${c.input}, step ${c.step}`));
const bits = (v) => [v].flat(3).map((x) => (Object.is(Number(x), -0) ? "-0" : String(Number(x)))).join();
const { defaults } = jacobian;
const waysOf = ({ x, weight, eps }) => [0, 1, 2, 3].map((k) => [0, 1, 2, 3].map((i) => jacobian.ways(jacobian.row(x, eps), weight, k, i)));

test("the defaults and the limits are Python's", { skip }, () => {
  assert.deepEqual({ ...defaults, x: [...defaults.x], weight: [...defaults.weight] }, golden.defaults);
  for (const [name, limits] of Object.entries(golden.limits)) assert.deepEqual(jacobian.limits[name], limits);
});

test("each way has the number of its equation on the page", { skip }, () => {
  assert.deepEqual({ ...jacobian.equations }, golden.equations);
});

// A dozen operations are rounded, each of an intermediate that is at most 3 γ/s: 1e-14 of γ/s is plenty.
test("each way is what autograd finds if it holds the other two, and their sum is its Jacobian", { skip }, each((c, where) => {
  if (!c.autograd) return; // a constant row at ε = 0
  const size = 1e-14 * (1 + c.slack) * Math.max(1e-9, ...c.weight.map(Math.abs)) / jacobian.row(c.x, c.eps).denominator;
  waysOf(c).forEach((line, k) => line.forEach((found, i) => {
    const theirs = c.autograd.map((way) => way[k][i]);
    [...found, jacobian.sums(found)[2]].forEach((v, j) => {
      if (!(Math.abs(v - theirs[j]) <= size)) assert.fail(`${where}: ${k}, ${i}, way ${j} is ${v}, expected ${theirs[j]}`);
    });
  }));
}));

test("row and ways are Python's, to the last bit", { skip }, each((c, where) => {
  const { mean, std, denominator, xHat } = jacobian.row(c.x, c.eps);
  for (const [ours, theirs] of [[[mean, std, denominator, ...xHat], c.row], [waysOf(c), c.ways], [jacobian.look(c).matrix, c.matrix]]) {
    assert.equal(bits(ours), bits(theirs), where);
  }
}));

test("sentence, verdict and cells are Python's, letter for letter", { skip }, each((c) => {
  assert.deepEqual([jacobian.sentence(c), jacobian.verdict(c)], [c.sentence, c.verdict]);
  const { matrix, inCell } = jacobian.look(c);
  assert.deepEqual(matrix.flat().map((v) => inCell(v)), c.cells);
}));

test("the matrix is symmetric if all γ are equal, and to the last bit", { skip }, each((c, where) => {
  const matrix = waysOf(c).map((line) => line.map((ways) => jacobian.sums(ways)[2]));
  if (jacobian.row(c.x, c.eps).denominator === 0) return;
  const mirrored = matrix.map((_, i) => matrix.map((line) => line[i]));
  const equal = c.weight.every((v) => v === c.weight[0]);
  assert.equal(String(matrix) === String(mirrored), equal, where);
}));

test("no number of the matrix is larger than `most`, and no sum of ways leaves the axis", { skip }, each((c, where) => {
  const { most, reach: [low, high] } = jacobian.look(c);
  for (const ways of waysOf(c).flat()) {
    for (const v of jacobian.sums(ways)) if (Math.abs(v) > most * (1 + 1e-9) || v < low || v > high) assert.fail(where);
  }
}));

test("a constant row has σ = 0, whatever it is, and no way through σ", () => {
  for (const v of [0, 0.1, 1 / 3, 9.9, 1e-7]) {
    const row = jacobian.row(Array(4).fill(v), 0.25);
    assert.deepEqual([row.std, row.denominator], [0, 0.5]);
    assert.deepEqual(jacobian.ways(row, [1, 1, 1, 1], 2, 2), [2, -0.5, -0]);
  }
});

test("a term in letters and in numbers, and the sum as far as it goes", () => {
  const state = { ...defaults, x: [1, 2, 3, 10], weight: [1, -2, 1, 1], output: 2, input: 1 };
  const said = (state) => jacobian.expressions(jacobian.look(state)).map(({ name, letters, numbers, equation }) => `${name}: ${letters} = ${numbers} ${equation}`);
  assert.deepEqual(said(state), [
    "directly: γ₂ δ₂₁ / s = −2 · 0 / 3.54 4.5",
    "through μ: −γ₂ / (H s) = −(−2) / (4 · 3.54) 4.7",
    "through σ: −γ₂ x̂₂ x̂₁ / (H s) = −(−2) · (−0.566) · (−0.849) / (4 · 3.54) 4.8",
    "in all: ∂y₂/∂x₁ = 0 + 0.141 + 0.0679 4.10",
  ]);
  assert.equal(said({ ...state, output: 1, step: 1 })[3], "so far:  = 0.283 − 0.0707 ");
  assert.equal(said({ ...state, output: 1, step: 0 })[3], "so far:  = 0.283 ");
});

test("an address cannot set what Python would refuse", () => {
  const { settle } = jacobian;
  assert.deepEqual(settle("x", [11, -1, 0, 10]), [10, 0, 0, 10]);
  assert.deepEqual(settle("weight", [3, -3, 0, 1]), [2, -2, 0, 1]);
  assert.deepEqual([0, 1e-20, 700, -3].map((v) => settle("eps", v)), [0, 1e-12, 100, 1e-12]);
  assert.deepEqual([-9, 2.4, 9].flatMap((v) => ["output", "input", "step"].map((name) => settle(name, v))), [1, 1, 0, 2, 2, 2, 4, 4, 2]);
});

test("each number of the matrix is as large as a finger wherever there is room", () => {
  for (const width of [270, 320, 348, 700]) {
    const { left, size, track, height, top } = places(width);
    assert.ok(left + 4 * size[0] <= width && height >= top + 4 * size[1] && track[1] - track[0] >= 40);
    assert.ok(size[1] === 44 && (size[0] >= 44 || width < 300));
  }
});
