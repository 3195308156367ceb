// The Jacobian explorer: the row, the three paths and the matrix, against lnlib.formula and autograd.
import { readFileSync } from "node:fs";

import * as jacobian from "../../lnlib/book/explorers/jacobian.mjs";
import { layerNorm } from "../../lnlib/book/explorers/norm.mjs";
import { assert, close, each, says, test } from "./golden.mjs";

test("row, paths and matrix are those of the formula and autograd", each("jacobian", ({ state, row, paths, matrix }, where) => {
  const size = (1e-14 * Math.max(...state.x, 1)) / row.denominator; // x − μ is off by a rounding of x, x̂ by that divided by s
  const [shown, { most, reach, matrix: sums }] = [layerNorm(state.x, state.eps), jacobian.look(state)];
  close(shown, row, where, 1e-13, size);
  const found = state.x.map((_, k) => state.x.map((_, i) => jacobian.paths(shown, state.weight, k, i)));
  const off = most * (1e-14 + size);
  paths.forEach((path, j) => close(found.map((line) => line.map((one) => one[j])), path, `${where} path ${j}`, 0, off));
  close(sums, matrix, where, 0, 3 * off);
  assert.deepEqual(jacobian.zeros(jacobian.look(state)), matrix.flat().flatMap((v, nth) => (Math.abs(v) <= 1e-12 * most ? nth : [])), where);
  for (const v of found.flat().flatMap(jacobian.sums)) assert.ok(!(v < reach[0] || v > reach[1] || Math.abs(v) > most * (1 + 1e-9)), where);
}));

test("each path has the number of its equation in the chapter", () => {
  const chapter = readFileSync(new URL("../../notebooks/04_scalar_jacobian.ipynb", import.meta.url), "utf8");
  const labels = [...chapter.matchAll(/":label: ([a-z-]+)/g)].map(([, label]) => label);
  for (const [label, number] of Object.entries(jacobian.equations)) assert.equal(number, `4.${labels.indexOf(label) + 1}`);
});

const even = { x: [1, 1, 5, 5] };
const outlier = { x: [1, 2, 3, 10], weight: [1, -2, 1, 1], output: 2, input: 1 };
const terms = (name) => (state) => jacobian.look(state).told.map((one) => one[name]).join("; ");
test("terms in letters and in numbers, and the sum as far as it goes", says("jacobian", [
  [outlier, "γ₂ δ₂₁ / s; −γ₂ / (H s); −γ₂ x̂₂ x̂₁ / (H s); ∂y₂/∂x₁", "−2 · 0 / 3.54; −(−2) / (4 · 3.54); −(−2) · (−0.566) · (−0.849) / (4 · 3.54); 0 + 0.141 + 0.0679"],
  [{ x: [5, 5, 5, 5] }, "γ₄ δ₄₄ / s; −γ₄ / (H s); −γ₄ x̂₄ x̂₄ / (H s); ∂y₄/∂x₄", "1 · 1 / 0; −1 / (4 · 0); −1 · (0/0) · (0/0) / (4 · 0); 0/0"],
  [{ ...even, step: 1 }, "γ₄ δ₄₄ / s; −γ₄ / (H s); −γ₄ x̂₄ x̂₄ / (H s); ", "1 · 1 / 2; −1 / (4 · 2); −1 · 1 · 1 / (4 · 2); 0.5 − 0.125"],
], terms("letters"), terms("numbers")));
test("words", says("jacobian", [
  [even, "∂y₄/∂x₄ = 0.25; directly 0.5", "With ε = 0, s is 2: 0.5 directly, −0.125 through μ and −0.125 through s make 0.25."],
  [{ ...even, input: 3 }, "∂y₄/∂x₃ = −0.25, like its mirror", "With ε = 0, s is 2: 0 directly, −0.125 through μ and −0.125 through s make −0.25."],
  [{ ...even, input: 1 }, "∂y₄/∂x₁ = 0: the two paths cancel", "With ε = 0, s is 2: 0 directly, −0.125 through μ and 0.125 through s make 0."],
  [{ x: [0, 0, 0, 8] }, "∂y₄/∂x₄ = 0: the three paths cancel", "With ε = 0, s is 3.46: 0.289 directly, −0.0722 through μ and −0.217 through s make 0."],
  [outlier, "γ₂ ≠ γ₁: 0.209, its mirror −0.105", "With ε = 0, s is 3.54: 0 directly, 0.141 through μ and 0.0679 through s make 0.209."],
  [{ ...even, weight: [1, 2, -1, 0] }, "γ₄ = 0: no path leads to y₄", "With ε = 0, s is 2: 0 directly, 0 through μ and 0 through s make 0."],
  [{ ...even, step: 1, eps: 12 }, "With the path through μ: 0.188", "With ε = 12, s is 4: 0.25 directly and −0.0625 through μ make 0.188. The path through s is left out."],
  [{ ...even, step: 0, input: 2 }, "The direct path alone: 0", "With ε = 0, s is 2: 0 directly. The paths through μ and s are left out."],
  [{ x: [5, 5, 5, 5] }, "0 ÷ 0: there is no derivative", "All features are equal and ε = 0: s is 0, and x̂ = 0 ÷ 0 has no derivative."],
], jacobian.verdict, jacobian.sentence));
