/** The backward pass: the five small steps of layer norm of four features, gone back through arrow by arrow. */
import { explorer } from "./explorer.mjs";
import { backwardChart, inWords, letter } from "./backward_charts.mjs";
import { formatNumber, html, remember } from "./common.mjs";
import { layerNorm } from "./norm.mjs";
import { stepper } from "./stepper.mjs";

// --- arithmetic ------------------------------------------------------------------------------

/**
 * The arrows in the order in which the gradient passes them, from a step to what it uses: the number that the equation
 * for each has in chapter 05; its slope; the color of what it carries, that of the term of dx which it becomes a part
 * of; and which of the three terms come through it.
 */
export const arrows = Object.freeze({
  "y-weight": { equation: 4, slope: "x̃/s", road: "sum", lost: [] },
  "y-bias": { equation: 5, slope: "1", road: "sum", lost: [] },
  "y-s": { equation: 6, slope: "−γ x̃/s²", road: "hat", lost: [2] },
  "s-var": { equation: 7, slope: "1/(2s)", road: "hat", lost: [2] },
  "var-centered": { equation: 9, slope: "2x̃/4", road: "hat", lost: [2] },
  "y-centered": { equation: 9, slope: "γ/s", road: "g", lost: [0, 1] },
  "centered-mean": { equation: 10, slope: "−1", road: "mean", lost: [1] },
  "mean-x": { equation: 13, slope: "1/4", road: "mean", lost: [1] },
  "centered-x": { equation: 13, slope: "1", road: "both", lost: [0, 2] },
});
const names = Object.keys(arrows);
export const end = names.length + 1;
export const equationOfDx = 15;
const terms = ["g", "−ḡ", "−x̂·mean(g x̂)"]; // each times 1/s
const roads = ["g", "mean", "hat"];
const lostTo = (forget) => arrows[forget]?.lost ?? [];

const largest = (values) => Math.max(...values.map(Math.abs));

/** A sum, or 0 if it is only what roundings leave of its terms. */
const clean = (sum, added) => (Math.abs(sum) <= 1e-14 * largest(added) ? 0 : sum);
const sumOf = (values) => clean(values.reduce((a, b) => a + b), values);
const add = (a, b) => a.map((v, i) => clean(v + b[i], [...a, ...b]));
const four = (v) => [v, v, v, v];

/** Layer norm of one row forward and back; nothing passes `forget`. */
export function passes(x, weight, dy, eps, forget = "") {
  const { mean, centered: raw, variance, denominator: s } = layerNorm(x, eps);
  const centered = raw.map((a) => clean(a, x));
  const xHat = centered.map((a) => a / s);
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

  flow("y-weight", dy, xHat);
  flow("y-bias", dy, [1]);
  const square = s * s;
  const ds = gather("y-s", [sumOf(flow("y-s", dy, weight.map((w, i) => -(w * centered[i]) / square)))]);
  const dvar = flow("s-var", ds, [1 / (2 * s)]);
  const byVar = flow("var-centered", dvar, centered.map((a) => (2 * a) / 4));
  const byY = flow("y-centered", dy, weight.map((w) => w / s));
  const dcentered = gather("y-centered", add(byVar, byY));
  const dmean = gather("centered-mean", [sumOf(flow("centered-mean", dcentered, [-1]))]);
  const byMean = flow("mean-x", dmean, four(0.25));
  const dx = gather("centered-x", add(byMean, flow("centered-x", dcentered, [1])));

  const g = weight.map((w, i) => w * dy[i]);
  const meanG = sumOf(g) / 4;
  const meanGx = sumOf(g.map((a, i) => a * xHat[i])) / 4;
  const parts = [g.map((a) => a / s), four(-meanG / s), xHat.map((a) => -(a * meanGx) / s)];
  return { mean, centered, variance, s, xHat, y: weight.map((w, i) => w * xHat[i]), flows, meanG, meanGx, terms: parts, dx };
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
  if (gone.length === 0) return `${without}, ∂L/∂${inWords(state.forget).at(-1)} is missing, and dx is whole`;
  const parts = look(state).whole.terms;
  const [are, they] = gone.length > 1 ? ["are", "they are"] : ["is", "it is"];
  const none = gone.every((i) => isZero(parts[i], largest(parts[0]) || 1));
  return `${without}, ${gone.map((i) => terms[i]).join(" and ")} ${are} missing from dx${none ? `; here ${they} 0` : ""}`;
}

/** What is seen once all has arrived. */
function seenAtX(state) {
  const { variance, s, xHat, meanG, meanGx, terms: parts, dx } = look(state);
  const size = largest(parts[0]) || 1;
  if (isZero(dx, size)) return "Nothing arrives at x: dx is 0";
  if (variance === 0) return "x̂ is 0, and so is the third term";
  const share = state.eps / (s * s);
  const along = meanGx / (1 - share);
  const rest = parts[0].map((a, i) => a * s - meanG - along * xHat[i]);
  if (isZero(rest, size * s)) return `Along x̂ only ε/s² = ${formatNumber(share)} of g/s is left`;
  if (largest(xHat) > 1.73) return "The outlier gets nearly nothing"; // it can never pass √3
  return "Four paths back, three bring a term";
}

/** What is seen, in a few words. */
export function verdict(state) {
  if (state.forget) return missing(state);
  if (state.step === end) return seenAtX(state);
  return [
    "Forward is done; dy waits at y",
    "∂L/∂γ is dy times x̃/s",
    "∂L/∂β is dy itself",
    "Four products add up at s",
    "Only s uses σ²: one factor",
    "The first term of ∂L/∂x̃",
    "Two terms make ∂L/∂x̃",
    "Four numbers add up at μ",
    "The first term of dx",
    "Two terms make dx",
  ][state.step];
}

/** The numbers of the picture in a sentence. */
export function sentence(state) {
  const { step, forget } = state;
  const { mean, variance, s, y, flows, meanG, meanGx, dx, whole } = look(state);
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
  const [ds, dvar, dmean] = ["y-s", "s-var", "centered-mean"].map((name) => f(flows[name].gathered[0]));
  const slope = f(flows["s-var"].local[0]);
  return [
    `x gives μ = ${f(mean)}, σ² = ${f(variance)}, s = ${f(s)} and y = ${row(y)}. Each arrow takes dy a step back.`,
    "γ multiplies x̃/s, so that is the slope. In a batch, rows add up.",
    "β is only added, so the slope is 1. In a batch, rows add up.",
    `Each y is divided by the same s. The four products add up to ∂L/∂s = ${ds}.`,
    `s = √(σ² + ε) has the slope 1/(2s) = ${slope}: ∂L/∂σ² is ${slope} times ${ds}, which is ${dvar}.`,
    "σ² is the mean of x̃², so its slope is 2x̃/4. Four numbers wait at x̃ for those from y.",
    "y uses x̃ with the slope γ/s. x̃ has two consumers, so two terms add up.",
    `μ is subtracted from each x, so ∂L/∂μ = ${dmean} is minus the sum of ∂L/∂x̃. What came from σ² sums to 0, as x̃ does.`,
    `μ is the mean of x, so each x gets a quarter of ${dmean}, which is ${f(flows["mean-x"].carried[0])}.`,
    "Each x̃ has its own x, with the slope 1. x has two consumers, μ and x̃, so two terms add up.",
    `g comes straight from y, −ḡ through μ, −x̂·mean(g x̂) through s and σ², each over s = ${f(s)}. ` +
      `Here ḡ = ${f(meanG)}, mean(g x̂) = ${f(meanGx)}.`,
  ][step];
}

/** The arrow that came first where two end in one node. */
const before = { "y-centered": "var-centered", "centered-x": "mean-x" };

/** The work of one step: its title with the number of the equation, and rows of numbers with their letters and colors. */
export function work(state) {
  const { step, dy } = state;
  const { flows, dx, whole } = look(state);
  if (step === 0) return { title: "What the loss sends back", rows: [["∂L/∂y = dy", dy, "sum"]] };
  if (step === end) {
    return {
      title: `dx (5.${equationOfDx}), with g = γ dy and x̂ = x̃/s`,
      rows: [...arriving(state).map((values, i) => [`${terms[i]}/s`, values, roads[i]]), ["dx", dx, "sum"]],
      true: lostTo(state.forget).length ? whole.dx : [],
    };
  }
  const arrow = names[step - 1];
  const { equation, slope, road } = arrows[arrow];
  const { given, local, carried, gathered } = flows[arrow];
  const [from, to] = arrow.split("-").map(letter);
  const all = (values) => carried.map((_, i) => values[values.length === 1 ? 0 : i]);
  const said = (sign, way) => (way === state.forget ? `${sign} 0, forgotten` : `${sign} from ${letter(way.split("-")[0])}`);
  const rows = [[`∂L/∂${from}`, all(given), ""], [`× ${slope}`, all(local), ""], [said("=", arrow), carried, road]];
  const first = before[arrow];
  if (first) rows.push([said("+", first), flows[first].gathered, arrows[first].road]);
  if (first || gathered.length < carried.length) rows.push([`sum: ∂L/∂${to}`, gathered, first ? "sum" : ""]);
  return { title: `${from} → ${to} (5.${equation}): ∂L/∂${from} · ∂${from}/∂${to}`, rows };
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
const columns = ({ centered, y, flows, dx }, { x, dy }) => [x, centered, y, dy, flows["y-centered"].gathered, dx];

function build(tools) {
  const chart = backwardChart(tools, arrows);
  const weights = [0, 1, 2, 3].map((i) => tools.field("weight", { i }));
  const rows = [1, 2, 3, 4].map((i) => `feature ${i}`);
  return {
    charts: [chart],
    parts: [html("div", { class: "ln-stepped" }, stepper(tools, "step", moves, () => end, { ahead: -1 }), chart.node)],
    fold: [
      html("div", { class: "ln-fields" }, tools.field("eps"), ...weights),
      tools.table(["", "x", "x̃", "y", "dy", "dx̃", "dx"], rows, columns),
    ],
  };
}

export default explorer({
  kind: "backward",
  label: "the backward pass of layer norm",
  question: "What is dx made of?",
  hint: "Step back from y to x. Drag a ring of x or dy. Press × to forget an arrow, one at a time.",
  starts,
  look: (state) => ({ ...look(state), work: work(state), known: known(state) }),
  build,
  verdict,
  sentence,
});
