// The backward pass: values, gradients and forgotten arrows, against autograd with arrows detached.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as back from "../../lnlib/book/explorers/backward.mjs";
import { scaleOf, short } from "../../lnlib/book/explorers/backward_charts.mjs";
import { close, each, says } from "./golden.mjs";

const passes = ({ x, weight, dy, eps, forget }) => back.passes(x, weight, dy, eps, forget);
const last = { gamma: "y-gamma", beta: "y-beta", sigma: "y-sigma", v: "sigma-v", mu: "y-mu", m: "mu-m", x: "mu-x" };
/** x − m is off by some roundings of the largest x, which 1/σ enlarges; |γ dy| goes to 50, and ∂l/∂v has 1/σ². */
const within = ({ x, sigma }, node) => (1e-14 * (1 + Math.max(...x.map(Math.abs)) / sigma) * 50) / sigma ** ({ gamma: 0, beta: 0, v: 2 }[node] ?? 1);

test("each number is autograd's, and the work of a step is gradient times slope", each("backward", ({ state, values, carried, gathered, terms }, where) => {
  const [shown, size] = [passes(state), (node) => within({ x: state.x, sigma: values.sigma }, node)];
  close(shown, values, where, 1e-13, 1e-13);
  for (const name of back.arrows) close(shown.flows[name].carried, carried[name], `${where} ${name}`, 0, size(name.split("-")[1]));
  for (const [node, name] of Object.entries(last)) close(shown.flows[name].gathered, gathered[node], `${where} ${node}`, 0, size(node));
  close([...shown.terms, shown.dx], [...terms, gathered.x], `${where} terms`, 0, size("x"));
  const kept = terms.filter((_, i) => !back.lost[state.forget]?.includes(i));
  close(shown.dx, state.x.map((_, i) => kept.reduce((sum, term) => sum + term[i], 0)), `${where} what is lost`, 0, 3 * size("x"));
  const [rows, arrow] = [back.work(state).rows.map(([, row]) => row), back.arrows[state.step - 1]];
  if (!arrow) return;
  close(rows[2], arrow === state.forget ? rows[0].map(() => 0) : rows[0].map((v, i) => v * rows[1][i]), where, 0, 0);
  close([rows[2], rows.at(-1)], [shown.flows[arrow].carried, back.known(state)[arrow.split("-")[1]].sum], where, 0, 0);
}));

test("each step has the number of its equation in the chapter", () => {
  const chapter = readFileSync(new URL("../../notebooks/05_index_notation.ipynb", import.meta.url), "utf8");
  const labels = [...chapter.matchAll(/":label: ((?:eq|def)-.*?)\\n/g)].map(([, label]) => label);
  const named = Object.values(back.equations).map((number) => labels[number - 1].replace("eq-batch-", ""));
  assert.deepEqual(named, ["dgamma", "dbeta", "dsigma", "dv", "dmu", "dmu", "dm", "dx", "dx", "meet"]);
});

test("a card has short numbers, and a scale with 0", () => {
  assert.deepEqual([1, -0.16666, 316.2, 1.234e-6, -0.00222].map((v) => short(v)), ["1", "−0.17", "316", "1e-6", "−2e-3"]);
  assert.deepEqual([scaleOf([1, 3]), scaleOf([-1, 3], 2), scaleOf([0, 0])], [{ low: 0, high: 3 }, { low: -2, high: 6 }, { low: 0, high: 1 }]);
});

const [ones, third, end] = [[1, 1, 1, 1], "−x̂·mean(g x̂)", 10];
const made = (sigma, g, gx) => `g comes straight from y, −ḡ through m, and ${third} through σ and v, each divided by σ = ${sigma}. Here ḡ = ${g} and mean(g x̂) = ${gx}.`;
test("words", says([
  ...[
    ["Forward is done; dy waits at y", "x gives m = 4, v = 9, σ = 3 and y = (−1, −0.667, −0.333, 2.5). Each arrow takes dy a step back."],
    ["∂l/∂γ is dy times μ/σ", "γ multiplies μ/σ, so that is the slope. In a batch, rows add up."],
    ["∂l/∂β is dy itself", "β is only added, so the slope is 1. In a batch, rows add up."],
    ["Four products add up at σ", "Each y is divided by the same σ. The four products add up to ∂l/∂σ = −2."],
    ["Only σ uses v: one factor", "σ = √(v + ε) has the slope 1/(2σ) = 0.167: ∂l/∂v is 0.167 times −2, which is −0.333."],
    ["The first addend of ∂l/∂μ", "v is the mean of μ², so its slope is 2μ/4. Four numbers wait at μ for those from y."],
    ["Two addends make ∂l/∂μ", "y uses μ with the slope γ/σ. μ has two users, so two addends add up."],
    ["Four numbers add up at m", "m is subtracted from each x, so ∂l/∂m = −1.33 is minus the sum of ∂l/∂μ. What came from v sums to 0, as μ does."],
    ["The first addend of dx", "m is the mean of x, so each x gets a quarter of −1.33, which is −0.333."],
    ["Two addends make dx", "Each μ has its own x, with the slope 1. x has two users, m and μ, so two addends add up."],
    ["Three roads back, three terms", made("3", "1", "1.5")],
  ].map((said, step) => [{ step }, ...said]),
  [{ step: end, x: [0, 0, 0, 8], weight: ones }, "The outlier gets nearly nothing", made("3.46", "0.25", "1.01")],
  [{ step: end, x: [5, 5, 5, 5] }, "x̂ is 0, and so is the third term", made("0.00316", "1", "0")],
  [{ step: end, weight: ones, dy: ones }, "Nothing arrives at x: dx is 0", made("3", "1", "0")],
  [{ step: end, weight: ones, dy: [-3, -1, -1, 5], eps: 1 }, "Along x̂ only ε’s share is left: ε/σ² = 0.1", made("3.16", "0", "2.85")],
  [{ step: 1, forget: "y-gamma" }, "Without y → γ, ∂l/∂γ is missing, and dx is whole", "y → γ carries nothing back here. It would carry (2, −0.667, 0.333, 3.33)."],
  [{ step: end, forget: "y-beta" }, "Without y → β, ∂l/∂β is missing, and dx is whole", "What arrives at x is (−0.5, 1.17, −0.5, −0.167)."],
  [{ step: 4, forget: "sigma-v" }, `Without σ → v, ${third} is missing from dx`, "σ → v carries nothing back here. It would carry −0.333."],
  [{ step: end, forget: "mu-x" }, `Without μ → x, g and ${third} are missing from dx`, "What arrives at x is (−0.333, −0.333, −0.333, −0.333); the true dx is (−0.5, 1.17, −0.5, −0.167)."],
  [{ step: 5, forget: "v-mu", weight: ones, dy: ones }, `Without v → μ, ${third} is missing from dx; here it is 0`, "v → μ carries nothing back here. It would carry (0, 0, 0, 0)."],
  [{ step: 1, forget: "y-mu", dy: [0, 0, 0, 0] }, "Without y → μ, g and −ḡ are missing from dx; here they are 0", "γ multiplies μ/σ, so that is the slope. In a batch, rows add up."],
], (state) => back.verdict({ ...back.defaults, ...state }), (state) => back.sentence({ ...back.defaults, ...state })));
