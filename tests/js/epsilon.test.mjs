// The ε explorer: three ways to normalize a row, against lnlib.formula and autograd's Jacobian.
import * as epsilon from "../../lnlib/book/explorers/epsilon.mjs";
import { close, each, says, test } from "./golden.mjs";

test("x̂, its variance and the largest factor on a gradient are those of the formula", each("epsilon", ({ state, ...ways }, where) => {
  const [variance, std, half] = epsilon.versions(state.spread, state.eps);
  close([variance, std], [ways.variance, ways.std], where, 1e-11);
  close(half, ways.half, `${where} half`, 1e-15, 0); // each step rounds once, in both
}));

test("the curves pass through the versions that are shown", each("epsilon", ({ state: { eps } }, where) => {
  const { grid, lines } = epsilon.curves(eps);
  const at = [0, 100, 137, 160, 320];
  const drawn = at.map((i) => lines.map((line) => ({ outputVariance: line.outputVariance[i], gradientSize: line.gradientSize[i] })));
  close(at.map((i) => epsilon.versions(grid[i], eps)), drawn, where, 0, 0);
  close([grid[0], grid.at(-1)], [1e-7, 10], "ends");
}));

const leaves = "√(σ² + ε) leaves a variance of";
test("words", says("epsilon", [
  [{ spread: 1, eps: 1e-5 }, "The data decide the output", `With σ = 1 and ε = 1e-5, ${leaves} 1, σ + ε one of 1, float16 of 1.`],
  [{ spread: 1e-3, eps: 1e-6 }, "ε and the data share the output", `With σ = 0.001 and ε = 1e-6, ${leaves} 0.5, σ + ε one of 0.998, float16 of 0.494.`],
  [{ spread: 2e-3, eps: 1e-6 }, "The data decide the output", `With σ = 0.002 and ε = 1e-6, ${leaves} 0.8, σ + ε one of 0.999, float16 of 0.8.`],
  [{ spread: 0.5, eps: 1 }, "ε decides the output", `With σ = 0.5 and ε = 1, ${leaves} 0.2, σ + ε one of 0.111, float16 of 0.2.`],
  [{ spread: 6.3e-5, eps: 1e-8 }, "ε and the data share; pure float16 fails", `With σ = 6.3e-5 and ε = 1e-8, ${leaves} 0.284, σ + ε one of 1; in float16, 6 values are ±∞, 2 NaN.`],
  [{ spread: 0, eps: 1e-8 }, "ε decides; pure float16 fails", `With a constant row (σ = 0) and ε = 1e-8, ${leaves} 0, σ + ε one of 0; in float16, all 8 values are NaN.`],
  [{ spread: 0, eps: 0 }, "0 ÷ 0: every version fails", "With a constant row (σ = 0) and ε = 0, every version divides 0 by 0: all 8 values are NaN."],
  [{ spread: 6.3e-5, left: 2 }, "ε and the data share the output", `With σ = 6.3e-5 and ε = 1e-8, ${leaves} 0.284.`],
], (state) => epsilon.verdict(state, state.left), (state) => epsilon.sentence(state, state.left)));
