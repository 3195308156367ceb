/** The backward pass: the five small steps of layer norm of four features, gone back through arrow by arrow. */
import { explorer } from "./explorer.mjs";
import { backwardChart, inWords, letter } from "./backward_charts.mjs";
import { formatNumber, html, remember } from "./common.mjs";
import { layerNorm } from "./norm.mjs";
import { stepper } from "./stepper.mjs";

// --- arithmetic ------------------------------------------------------------------------------

/**
 * The arrows in the order in which the gradient passes them, from a step to what it uses: the number that the equation
 * behind each has in chapter 05; its slope; the color of what it carries, that of the term of dx which it becomes a part
 * of; and which of the three terms come through it.
 */
export const arrows = Object.freeze({
  "y-gamma": { equation: 7, slope: "μ/σ", road: "sum", lost: [] },
  "y-beta": { equation: 8, slope: "1", road: "sum", lost: [] },
  "y-sigma": { equation: 10, slope: "−γ μ/σ²", road: "hat", lost: [2] },
  "sigma-v": { equation: 12, slope: "1/(2σ)", road: "hat", lost: [2] },
  "v-mu": { equation: 14, slope: "2μ/4", road: "hat", lost: [2] },
  "y-mu": { equation: 14, slope: "γ/σ", road: "g", lost: [0, 1] },
  "mu-m": { equation: 16, slope: "−1", road: "mean", lost: [1] },
  "m-x": { equation: 21, slope: "1/4", road: "mean", lost: [1] },
  "mu-x": { equation: 21, slope: "1", road: "both", lost: [0, 2] },
});
const names = Object.keys(arrows);
export const end = names.length + 1;
export const equationOfDx = 28;
const terms = ["g", "−ḡ", "−x̂·mean(g x̂)"]; // each times 1/σ
const roads = ["g", "mean", "hat"];
const lostTo = (forget) => arrows[forget]?.lost ?? [];

const largest = (values) => Math.max(...values.map(Math.abs));

/** A sum, or 0 if it is only what roundings leave of its addends. */
const clean = (sum, addends) => (Math.abs(sum) <= 1e-14 * largest(addends) ? 0 : sum);
const sumOf = (values) => clean(values.reduce((a, b) => a + b), values);
const add = (a, b) => a.map((v, i) => clean(v + b[i], [...a, ...b]));
const four = (v) => [v, v, v, v];

/** Layer norm of one row forward and back; nothing passes `forget`. */
export function passes(x, weight, dy, eps, forget = "") {
  const { mean: m, centered, variance: v, denominator: sigma } = layerNorm(x, eps);
  const mu = centered.map((a) => clean(a, x));
  const xHat = mu.map((a) => a / sigma);
  const flows = {};
  /** Send a gradient through an arrow; what arrives alone is all that is gathered. */
  const flow = (arrow, given, local) => {
    const longer = given.length > local.length ? given : local;
    const at = (values, i) => values[values.length === 1 ? 0 : i];
    const carried = longer.map((_, i) => (arrow === forget ? 0 : at(given, i) * at(local, i)));
    flows[arrow] = { given: [...given], local, carried, gathered: carried };
    return carried;
  };
  const gather = (arrow, gathered) => (flows[arrow].gathered = gathered);

  flow("y-gamma", dy, xHat);
  flow("y-beta", dy, [1]);
  const square = sigma * sigma;
  const dsigma = gather("y-sigma", [sumOf(flow("y-sigma", dy, weight.map((w, i) => -(w * mu[i]) / square)))]);
  const dv = flow("sigma-v", dsigma, [1 / (2 * sigma)]);
  const byV = flow("v-mu", dv, mu.map((a) => (2 * a) / 4));
  const byY = flow("y-mu", dy, weight.map((w) => w / sigma));
  const dmu = gather("y-mu", add(byV, byY));
  const dm = gather("mu-m", [sumOf(flow("mu-m", dmu, [-1]))]);
  const byM = flow("m-x", dm, four(0.25));
  const dx = gather("mu-x", add(byM, flow("mu-x", dmu, [1])));

  const g = weight.map((w, i) => w * dy[i]);
  const meanG = sumOf(g) / 4;
  const meanGx = sumOf(g.map((a, i) => a * xHat[i])) / 4;
  const parts = [g.map((a) => a / sigma), four(-meanG / sigma), xHat.map((a) => -(a * meanGx) / sigma)];
  return { m, mu, v, sigma, xHat, y: weight.map((w, i) => w * xHat[i]), flows, meanG, meanGx, terms: parts, dx };
}

/** All that is drawn and told of a state; `whole` is what it would be if nothing were forgotten. */
const look = remember(({ x, weight, dy, eps, forget }) => {
  const whole = passes(x, weight, dy, eps);
  return { ...(forget ? passes(x, weight, dy, eps, forget) : whole), whole };
});

const row = (values) => `(${values.map((v) => formatNumber(v)).join(", ")})`;
const isZero = (values, size) => largest(values) <= 1e-9 * size;

/** What is missing from dx while an arrow is forgotten. */
function missing(state) {
  const [without, gone] = [`Without ${inWords(state.forget)}`, lostTo(state.forget)];
  if (gone.length === 0) return `${without}, ∂l/∂${inWords(state.forget).at(-1)} is missing, and dx is whole`;
  const parts = look(state).whole.terms;
  const [are, they] = gone.length > 1 ? ["are", "they are"] : ["is", "it is"];
  const none = gone.every((i) => isZero(parts[i], largest(parts[0]) || 1));
  return `${without}, ${gone.map((i) => terms[i]).join(" and ")} ${are} missing from dx${none ? `; here ${they} 0` : ""}`;
}

/** What is seen once all has arrived. */
function seenAtX(state) {
  const { v, sigma, xHat, meanG, meanGx, terms: parts, dx } = look(state);
  const size = largest(parts[0]) || 1;
  if (isZero(dx, size)) return "Nothing arrives at x: dx is 0";
  if (v === 0) return "x̂ is 0, and so is the third term";
  const share = state.eps / (sigma * sigma);
  const along = meanGx / (1 - share);
  const rest = parts[0].map((a, i) => a * sigma - meanG - along * xHat[i]);
  if (isZero(rest, size * sigma)) return `Along x̂ only ε’s share is left: ε/σ² = ${formatNumber(share)}`;
  if (largest(xHat) > 1.73) return "The outlier gets nearly nothing"; // it can never pass √3
  return "Three roads back, three terms";
}

/** What is seen, in a few words. */
export function verdict(state) {
  if (state.forget) return missing(state);
  if (state.step === end) return seenAtX(state);
  return [
    "Forward is done; dy waits at y",
    "∂l/∂γ is dy times μ/σ",
    "∂l/∂β is dy itself",
    "Four products add up at σ",
    "Only σ uses v: one factor",
    "The first addend of ∂l/∂μ",
    "Two addends make ∂l/∂μ",
    "Four numbers add up at m",
    "The first addend of dx",
    "Two addends make dx",
  ][state.step];
}

/** The numbers of the picture in a sentence. */
export function sentence(state) {
  const { step, forget } = state;
  const { m, v, sigma, y, flows, meanG, meanGx, dx, whole } = look(state);
  const f = (value) => formatNumber(value);
  const arrow = names[step - 1] ?? "";
  if (arrow && arrow === forget) {
    const { carried } = whole.flows[arrow];
    return `${inWords(arrow)} carries nothing back here. It would carry ${carried.length === 4 ? row(carried) : f(carried[0])}.`;
  }
  if (step === end && forget) {
    const rest = lostTo(forget).length ? `; the true dx is ${row(whole.dx)}` : "";
    return `What arrives at x is ${row(dx)}${rest}.`;
  }
  const [dsigma, dv, dm] = ["y-sigma", "sigma-v", "mu-m"].map((name) => f(flows[name].gathered[0]));
  const slope = f(flows["sigma-v"].local[0]);
  return [
    `x gives m = ${f(m)}, v = ${f(v)}, σ = ${f(sigma)} and y = ${row(y)}. Each arrow takes dy a step back.`,
    "γ multiplies μ/σ, so that is the slope. In a batch, rows add up.",
    "β is only added, so the slope is 1. In a batch, rows add up.",
    `Each y is divided by the same σ. The four products add up to ∂l/∂σ = ${dsigma}.`,
    `σ = √(v + ε) has the slope 1/(2σ) = ${slope}: ∂l/∂v is ${slope} times ${dsigma}, which is ${dv}.`,
    "v is the mean of μ², so its slope is 2μ/4. Four numbers wait at μ for those from y.",
    "y uses μ with the slope γ/σ. μ has two users, so two addends add up.",
    `m is subtracted from each x, so ∂l/∂m = ${dm} is minus the sum of ∂l/∂μ. What came from v sums to 0, as μ does.`,
    `m is the mean of x, so each x gets a quarter of ${dm}, which is ${f(flows["m-x"].carried[0])}.`,
    "Each μ has its own x, with the slope 1. x has two users, m and μ, so two addends add up.",
    `g comes straight from y, −ḡ through m, and −x̂·mean(g x̂) through σ and v, each divided by σ = ${f(sigma)}. ` +
      `Here ḡ = ${f(meanG)} and mean(g x̂) = ${f(meanGx)}.`,
  ][step];
}

/** The arrow that came first where two end in one node. */
const before = { "y-mu": "v-mu", "mu-x": "m-x" };

/** The work of one step: its title with the number of the equation, and rows of numbers with their letters and colors. */
export function work(state) {
  const { step, dy } = state;
  const { flows, dx, whole } = look(state);
  if (step === 0) return { title: "What the loss sends back", rows: [["∂l/∂y = dy", dy, "sum"]] };
  if (step === end) {
    return {
      title: `dx (5.${equationOfDx}), with g = γ dy and x̂ = μ/σ`,
      rows: [...arriving(state).map((values, i) => [`${terms[i]}/σ`, values, roads[i]]), ["dx", dx, "sum"]],
      true: lostTo(state.forget).length ? whole.dx : [],
    };
  }
  const arrow = names[step - 1];
  const { equation, slope, road } = arrows[arrow];
  const { given, local, carried, gathered } = flows[arrow];
  const [from, to] = arrow.split("-").map(letter);
  const all = (values) => carried.map((_, i) => values[values.length === 1 ? 0 : i]);
  const said = (sign, way) => (way === state.forget ? `${sign} 0, forgotten` : `${sign} from ${letter(way.split("-")[0])}`);
  const rows = [[`∂l/∂${from}`, all(given), ""], [`× ${slope}`, all(local), ""], [said("=", arrow), carried, road]];
  const first = before[arrow];
  if (first) rows.push([said("+", first), flows[first].gathered, arrows[first].road]);
  if (first || gathered.length < carried.length) rows.push([`sum: ∂l/∂${to}`, gathered, first ? "sum" : ""]);
  return { title: `${from} → ${to} (5.${equation}): ∂l/∂${from} · ∂${from}/∂${to}`, rows };
}

/** The three terms of dx, as far as they arrive. */
const arriving = (state) => look(state).terms.map((values, i) => (lostTo(state.forget).includes(i) ? four(0) : values));

/** The bars of each node's gradient, as far as it is known: node -> [color, values], and the sum as numbers. */
export function known(state) {
  const { step } = state;
  const { flows } = look(state);
  const nodes = { y: { bars: [["sum", state.dy]], sum: state.dy } };
  for (const arrow of names.slice(0, step)) {
    const { carried, gathered } = flows[arrow];
    const node = arrow.split("-")[1];
    const bars = gathered.length === 1 ? [] : [[arrows[arrow].road, carried]];
    nodes[node] = { bars: [...(nodes[node]?.bars ?? []), ...bars], sum: gathered };
  }
  if (step === end) nodes.x.bars = arriving(state).map((values, i) => [roads[i], values]);
  return nodes;
}

// --- the page --------------------------------------------------------------------------------

const ones = four(1);
const fresh = { weight: ones, eps: 1e-5, step: end, forget: "" };
const starts = (first) => ({
  "The book’s row": first,
  "dy = 1, γ = 1": { ...fresh, x: first.x, dy: ones },
  "dy = y, γ = 1": { ...fresh, x: first.x, eps: 1, dy: passes(first.x, ones, ones, 1).y },
  "One outlier": { ...fresh, x: [0, 0, 0, 8], dy: first.dy },
  "Constant row": { ...fresh, x: four(5), dy: first.dy },
});

const moves = [["← Step back", 1, "Step back"], ["→", -1, "Undo a step"], ["All", Infinity, "Step back all the way"]];
const columns = ({ mu, y, flows, dx }, { x, dy }) => [x, mu, y, dy, flows["y-mu"].gathered, dx];

function build(tools) {
  const chart = backwardChart(tools, arrows);
  const weights = [0, 1, 2, 3].map((i) => tools.field("weight", { i }));
  const rows = [1, 2, 3, 4].map((i) => `feature ${i}`);
  return {
    charts: [chart],
    parts: [html("div", { class: "ln-stepped" }, stepper(tools, "step", moves, () => end, { ahead: -1 }), chart.node)],
    fold: [
      html("div", { class: "ln-fields" }, tools.field("eps"), ...weights),
      tools.table(["", "x", "μ", "y", "dy", "∂l/∂μ", "dx"], rows, columns),
    ],
  };
}

export default explorer({
  kind: "backward",
  label: "the backward pass of layer norm",
  question: "What is dx made of?",
  hint: "Step back from y to x. Drag a ring of x or dy. Press × on an arrow to forget it.",
  starts,
  look: (state) => ({ ...look(state), work: work(state), known: known(state) }),
  build,
  verdict,
  sentence,
});
