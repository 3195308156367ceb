// The sphere explorer: its terms and geometry against lnlib.formula and autograd, its words, and its hands.
import * as sphere from "../../lnlib/book/explorers/sphere.mjs";
import * as geometry from "../../lnlib/book/explorers/sphere_charts.mjs";
import { assert, close, each, says, test } from "./golden.mjs";

const times = (matrix, v) => matrix.map((line) => line.reduce((sum, a, i) => sum + a * v[i], 0));
test("terms, Jacobian and camera are those of Python, and J makes each direction longer by its factor", each("sphere", ({ state: { weight, bias, eps, turn }, rows }, where) => {
  for (const { x, ofX, xHat, y, jacobian, affine, seen } of rows) {
    const [ours, eigen, size] = [sphere.terms(x, weight, bias, eps), sphere.eigen(x, eps), 4e-16 * Math.max(...x.map(Math.abs))];
    const slack = 3 * (1e-12 + size / ours.s); // both round x − μ by `size`, which 1/s makes larger; |γ| is at most 3
    close({ ...ours, seen: geometry.project(x, turn) }, { ...ofX, seen }, where, 1e-12, 10 * size); // a dozen roundings
    close(ours, { xHat, y }, where, 1e-12, slack);
    close([sphere.jacobian(x, eps), sphere.jacobian(x, eps, weight)], [jacobian, affine], where, 0, slack / ours.s);
    for (const { value, direction } of eigen) close(times(jacobian, direction), direction.map((v) => v * value), where, 0, slack / ours.s);
    close(eigen.map(({ direction }) => Math.hypot(...direction)), [1, 1, 1], where);
  }
}));
const ordinary = `x = (0, 2, 4): μ = 2, σ = 1.63. J multiplies a step along (1, 1, 1) by 0, along x̂ by ε/s³ = 2.3e-6 and along the circle by 1/s = 0.612; s = √(σ² + ε).`;
test("words", says("sphere", [
  [{}, "x̂ stays on the circle of radius √3", ordinary],
  [{ x: [1000, 1001, 1003] }, "x̂ stays on the circle of radius √3", `x = (1000, 1001, 1003): μ = 1001.33, σ = 1.25. J multiplies a step along (1, 1, 1) by 0, along x̂ by ε/s³ = 5.15e-6 and along the circle by 1/s = 0.802; s = √(σ² + ε).`],
  [{ eps: 1 }, "ε pulls x̂ inside the circle", `x = (0, 2, 4): μ = 2, σ = 1.63. J multiplies a step along (1, 1, 1) by 0, along x̂ by ε/s³ = 0.142 and along the circle by 1/s = 0.522; s = √(σ² + ε).`],
  [{ x: [2, 2, 2], bias: [0, 1, 0] }, "A constant row: x̂ is 0", `x = (2, 2, 2): μ = 2, σ = 0. J multiplies a step along (1, 1, 1) by 0 and any step in the plane by 1/√ε = 316. y = (0, 1, 0).`],
  [{ bias: [0, 0, 1] }, "β moves the circle", `${ordinary} y = (−1.22, 0, 2.22).`],
  [{ weight: [2, 2, 2] }, "γ scales the circle", `${ordinary} y = (−2.45, 0, 2.45).`],
  [{ weight: [2, 1, 0.5], bias: [0, 1, 0] }, "γ makes an ellipse; β moves it", `${ordinary} y = (−2.45, 1, 0.612).`],
], sphere.verdict, sphere.sentence));
test("what is dragged is under the hand and keeps x̂ or the mean; beyond the frame it is at the rim until it is pulled inward", () => {
  const [view, of] = [geometry.view(440), (x) => sphere.terms(x, [1, 1, 1], [0, 0, 0], 1e-5)];
  const [near, far, ...wide] = [[0.3, 0.8, 1.7], [1000, 1001, 1003], [-600, 500, 100], [-600, 1500, 100]].map(of);
  const beyond = [near, far, ...wide].map((x) => geometry.place(x, 0, view)).map(({ reach, cut }) => [reach < 1, cut]);
  assert.deepEqual(beyond, [[false, false], [false, true], [true, false], [true, true]]);
  for (const [drag, part, x, turn, right, down, kept] of [
    ["dragX", "x", near, -170, 40, 20, "constant"], ["dragX", "x", near, 31, 0, -60, "xHat"], ["dragShadow", "shadow", near, 31, 40, 20, "mean"],
    ["dragX", "x", far, 0, 50, -40, "mean"], ["dragX", "x", far, 0, 0, 60, "xHat"]]) {
    const [px, py] = geometry.place(x, turn, view)[part];
    const moved = of(geometry[drag](x, turn, view, [px + right, py + down]));
    close([geometry.place(moved, turn, view)[part], moved[kept]], [[px + right, Math.max(py + down, view.top)], x[kept]], `${drag} ${down}`);
  }
});
