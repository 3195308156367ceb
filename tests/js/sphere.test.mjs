// The sphere explorer: its terms and geometry against lnlib.formula and autograd, its words, and its hands.
import assert from "node:assert/strict";
import { test } from "node:test";

import * as sphere from "../../lnlib/book/explorers/sphere.mjs";
import * as geometry from "../../lnlib/book/explorers/sphere_charts.mjs";
import { close, each, says } from "./golden.mjs";

const times = (matrix, v) => matrix.map((line) => line.reduce((sum, a, i) => sum + a * v[i], 0));

test("terms, Jacobian and camera are those of Python, and J makes each direction longer by its factor", each("sphere", ({ state, rows, seen }, where) => {
  const { weight, bias, eps, turn } = state;
  for (const { x, ofX, xHat, y, jacobian, affine } of rows) {
    const [ours, eigen] = [sphere.terms(x, weight, bias, eps), sphere.eigen(x, eps)];
    const size = 4e-16 * Math.max(...x.map(Math.abs)); // both round x − μ to as much, which 1/s makes larger
    const slack = 3 * (1e-12 + size * ours.rstd); // |γ| is at most 3
    close(ours, ofX, where, 1e-12, size);
    close(ours, { xHat, y }, where, 1e-12, slack);
    close([sphere.jacobian(x, eps), sphere.jacobian(x, eps, weight)], [jacobian, affine], where, 0, slack * ours.rstd);
    for (const { value, direction } of eigen) close(times(jacobian, direction), direction.map((v) => v * value), where, 0, slack * ours.rstd);
    close(eigen.map(({ direction }) => Math.hypot(...direction)), [1, 1, 1], where);
  }
  close(geometry.project(state.x, turn), seen, where, 0, 4e-15 * Math.max(...state.x.map(Math.abs))); // a dozen roundings
}));

const factors = (radial, around) => `along x̂ by ε/s³ = ${radial} and along the circle by 1/s = ${around}; s = √(σ² + ε).`;
const [row, step] = ["x = (0, 2, 4): μ = 2, σ = 1.63.", "J multiplies a step along (1, 1, 1) by 0"];
const ordinary = `${row} ${step}, ${factors("2.3e-6", 0.612)}`;
test("words", says([
  [{}, "x̂ stays on the circle of radius √3", ordinary],
  [{ x: [1000, 1001, 1003] }, "x̂ stays on the circle of radius √3", `x = (1000, 1001, 1003): μ = 1001.33, σ = 1.25. ${step}, ${factors("5.15e-6", 0.802)}`],
  [{ eps: 1 }, "ε pulls x̂ inside the circle", `${row} ${step}, ${factors(0.142, 0.522)}`],
  [{ x: [2, 2, 2], bias: [0, 1, 0] }, "A constant row: x̂ is 0", `x = (2, 2, 2): μ = 2, σ = 0. ${step} and any step in the plane by 1/√ε = 316. y = (0, 1, 0).`],
  [{ bias: [0, 0, 1] }, "β moves the circle", `${ordinary} y = (−1.22, 0, 2.22).`],
  [{ weight: [2, 2, 2] }, "γ scales the circle", `${ordinary} y = (−2.45, 0, 2.45).`],
  [{ weight: [2, 1, 0.5], bias: [0, 1, 0] }, "γ makes an ellipse; β moves it", `${ordinary} y = (−2.45, 1, 0.612).`],
].map(([state, ...words]) => [{ ...sphere.defaults, ...state }, ...words]), sphere.verdict, sphere.sentence));

const [view, of] = [geometry.view(440), (x) => sphere.terms(x, [1, 1, 1], [0, 0, 0], 1e-5)];
const seenAt = (x, turn) => geometry.place(of(x), turn, view);
test("x and its shadow stay under the hand; x straight up keeps x̂, its shadow keeps the mean", () => {
  for (const turn of [-170, 0, 31]) {
    const [before, [px, py]] = [of([0.3, 0.8, 1.7]), seenAt([0.3, 0.8, 1.7], turn).x];
    const [x, shadow] = [geometry.dragX, geometry.dragShadow].map((drag) => drag(before, turn, view, [300, 230]));
    close([seenAt(x, turn).x, seenAt(shadow, turn).shadow], [[300, 230], [300, 230]], `${turn}`);
    close(of(geometry.dragX(before, turn, view, [px, py - 60])).xHat, before.xHat, `up at ${turn}`);
    close(of(shadow).mean, before.mean, `${turn}`);
  }
});
test("what lies beyond the frame is drawn at its rim, and kept until it is pulled inward", () => {
  const placed = [[0.3, 0.8, 1.7], [1000, 1001, 1003], [-600, 500, 100], [-600, 1500, 100]].map((x) => seenAt(x, 0));
  assert.deepEqual(placed.map(({ reach, cut }) => [reach < 1, cut]), [[false, false], [false, true], [true, false], [true, true]]);
  const [far, [px, py]] = [of([1000, 1001, 1003]), placed[1].x];
  close(of(geometry.dragX(far, 0, view, [px + 50, py - 40])).mean, far.mean, "sideways");
  close(seenAt(geometry.dragX(far, 0, view, [px, py + 60]), 0).x, [px, view.top + 60], "down");
});
test("a turn past half a circle comes in at the other end", () => {
  assert.deepEqual([190, -200, 45].map((turn) => sphere.settle("turn", turn)), [-170, 160, 45]);
});
