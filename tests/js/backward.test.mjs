// The backward pass: values, gradients and forgotten arrows, against autograd with hooks on the arrows.
import { readFileSync } from "node:fs";

import * as back from "../../lnlib/book/explorers/backward.mjs";
import { short } from "../../lnlib/book/explorers/backward_charts.mjs";
import { assert, close, each, says, test } from "./golden.mjs";

test("numbers are autograd's, a step is gradient times slope", each("backward", ({ state, values, carried, dx }, where) => {
  const { s } = values; // x − μ is off by roundings of the largest x, which 1/s enlarges; |γ dy| goes to 50, and ∂L/∂σ² has 1/s²
  const size = (node) => (5e-13 * (1 + Math.max(...state.x.map(Math.abs)) / s)) / s ** ({ weight: 0, bias: 0, var: 2 }[node] ?? 1);
  const shown = back.passes(state.x, state.weight, state.dy, state.eps, state.forget);
  close(shown, values, where, 1e-13, 1e-13);
  for (const name of Object.keys(back.arrows)) close(shown.flows[name].carried, carried[name], `${where} ${name}`, 0, size(name.split("-")[1]));
  const kept = shown.terms.filter((_, i) => !back.arrows[state.forget]?.lost.includes(i));
  close([shown.dx, state.x.map((_, i) => kept.reduce((sum, term) => sum + term[i], 0))], [dx, dx], `${where} dx`, 0, 3 * size("x"));
  const [arrow, rows] = [Object.keys(back.arrows)[state.step - 1], back.work(state).rows.map(([, row]) => row)];
  if (arrow && arrow !== state.forget) close(rows[2], rows[0].map((v, i) => v * rows[1][i]), where, 0, 0);
  if (arrow) close([rows[2], rows.at(-1)], [shown.flows[arrow].carried, back.known(state)[arrow.split("-")[1]].sum], where, 0, 0);
}));

test("each step has the number of its equation in the chapter", () => {
  const chapter = readFileSync(new URL("../../notebooks/05_index_notation.ipynb", import.meta.url), "utf8");
  const named = [...Object.values(back.arrows).map((one) => one.equation), back.equationOfDx].map((number) => [...chapter.matchAll(/":label: ((?:eq|def)-.*?)\\n/g)][number - 1][1]);
  assert.equal(named.join(" ").replaceAll("eq-batch-", ""), "dgamma dbeta ds dvar dcentered dcentered dmean dx dx meet");
});
test("numbers of cards", () => assert.equal([-0.16666, 316.2, 1.234e-6, -0.00222].map((v) => short(v)).join(), "−0.17,316,1e-6,−2e-3"));

const made = (s, g, gx) => `g comes straight from y, −ḡ through μ, −x̂·mean(g x̂) through s and σ², each over s = ${s}. Here ḡ = ${g} and mean(g x̂) = ${gx}.`;
test("words", says("backward", [
  [{}, "Forward is done; dy waits at y", "x gives μ = 4, σ² = 9, s = 3 and y = (−1, −0.667, −0.333, 2.5). Each arrow takes dy a step back."],
  [{ step: 4 }, "Only s uses σ²: one factor", "s = √(σ² + ε) has the slope 1/(2s) = 0.167: ∂L/∂σ² is 0.167 times −2, which is −0.333."],
  [{ step: 10 }, "Four paths back, three bring a term", made("3", "1", "1.5")],
  [{ step: 10, x: [0, 0, 0, 8], weight: [1, 1, 1, 1] }, "The outlier gets nearly nothing", made("3.46", "0.25", "1.01")],
  [{ step: 10, x: [5, 5, 5, 5] }, "x̂ is 0, and so is the third term", made("0.00316", "1", "0")],
  [{ step: 10, weight: [1, 1, 1, 1], dy: [1, 1, 1, 1] }, "Nothing arrives at x: dx is 0", made("3", "1", "0")],
  [{ step: 10, weight: [1, 1, 1, 1], dy: [-3, -1, -1, 5], eps: 1 }, "Along x̂ only ε/s² = 0.1 of g/s is left", made("3.16", "0", "2.85")],
  [{ step: 10, forget: "y-bias" }, "Without y → β, ∂L/∂β is missing, and dx is whole", "What arrives at x is (−0.5, 1.17, −0.5, −0.167)."],
  [{ step: 4, forget: "s-var" }, "Without s → σ², −x̂·mean(g x̂) is missing from dx", "s → σ² carries nothing back here. It would carry −0.333."],
  [{ step: 10, forget: "centered-x" }, "Without x̃ → x, g and −x̂·mean(g x̂) are missing from dx", "What arrives at x is (−0.333, −0.333, −0.333, −0.333); the true dx is (−0.5, 1.17, −0.5, −0.167)."],
  [{ step: 5, forget: "var-centered", weight: [1, 1, 1, 1], dy: [1, 1, 1, 1] }, "Without σ² → x̃, −x̂·mean(g x̂) is missing from dx; here it is 0", "σ² → x̃ carries nothing back here. It would carry (0, 0, 0, 0)."],
  [{ step: 8, forget: "y-centered", dy: [0, 0, 0, 0] }, "Without y → x̃, g and −ḡ are missing from dx; here they are 0", "μ is the mean of x, so each x gets a quarter of 0, which is 0."],
], back.verdict, back.sentence));
