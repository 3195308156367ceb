/**
 * The backward pass: the five small steps of layer norm of four features, gone back through arrow by arrow.
 *
 * Traits: `x`, `weight` (γ), `dy` and `eps`; `step`, how many arrows the gradient has passed, and at the end
 * the three terms of dx; `forget`, an arrow that carries nothing back. The arithmetic comes first and
 * knows nothing of the page.
 */
import { fieldsOf, formatNumber, html, inLimits, linearSteps, numberTable, ownKeys, remember, sumByPairs } from "./common_old.mjs";
import { frame } from "./frame.mjs";
import { backwardChart, inWords, letter } from "./backward_charts.mjs";

// --- arithmetic ------------------------------------------------------------------------------

/** The arrows in the order in which the gradient passes them, from a step to what it uses. */
export const arrows = Object.freeze(["y-gamma", "y-beta", "y-sigma", "sigma-v", "v-mu", "y-mu", "mu-m", "m-x", "mu-x"]);
export const end = arrows.length + 1;
export const defaults = Object.freeze({
  ...{ x: Object.freeze([1, 3, 3, 9]), weight: Object.freeze([1, 2, 1, 1.5]), dy: Object.freeze([-2, 2, -1, 2]) },
  ...{ eps: 1e-5, step: 0, forget: "" },
});
export const limits = Object.freeze({ x: [-100, 100], weight: [-5, 5], dy: [-10, 10], eps: [1e-12, 1], step: [0, end] });
const terms = ["g", "−ḡ", "−x̂·mean(g x̂)"];
/** Which of the three terms of dx come through an arrow. */
export const lost = Object.freeze({
  ...{ "y-gamma": [], "y-beta": [], "y-sigma": [2], "sigma-v": [2], "v-mu": [2] },
  ...{ "y-mu": [0, 1], "mu-m": [1], "m-x": [1], "mu-x": [0, 2] },
});
/** The number that the equation behind each step has in chapter 05. */
export const equations = Object.freeze({
  ...{ "y-gamma": 7, "y-beta": 8, "y-sigma": 10, "sigma-v": 12, "v-mu": 14, "y-mu": 14 },
  ...{ "mu-m": 16, "m-x": 21, "mu-x": 21, "": 28 },
});

const largest = (values) => Math.max(...values.map(Math.abs));

/** A sum, or 0 if it is only what roundings leave of its addends. */
const clean = (sum, addends) => (Math.abs(sum) <= 1e-14 * largest(addends) ? 0 : sum);
const sumOf = (values) => clean(sumByPairs(values), values);
const add = (a, b) => a.map((v, i) => clean(v + b[i], [...a, ...b]));
const four = (v) => [v, v, v, v];

/** Layer norm of one row forward and back; nothing passes `forget`. */
export function passes(x, weight, dy, eps, forget = "") {
  const m = sumByPairs(x) / 4;
  const mu = x.map((a) => a - m);
  const v = sumByPairs(mu.map((a) => a * a)) / 4;
  const sigma = Math.sqrt(v + eps);
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

const passesOf = remember(passes);
const wholeOf = remember(passes);
const shownOf = ({ x, weight, dy, eps, forget }) => passesOf(x, weight, dy, eps, forget);
const trueOf = ({ x, weight, dy, eps }) => wholeOf(x, weight, dy, eps);

const row = (values) => `(${values.map((v) => formatNumber(v)).join(", ")})`;
const isZero = (values, size) => largest(values) <= 1e-9 * size;

/** What is missing from dx while an arrow is forgotten. */
function missing(state) {
  const [without, gone] = [`Without ${inWords(state.forget)}`, lost[state.forget]];
  if (gone.length === 0) return `${without}, ∂l/∂${inWords(state.forget).at(-1)} is missing, and dx is whole`;
  const parts = trueOf(state).terms;
  const [are, they] = gone.length > 1 ? ["are", "they are"] : ["is", "it is"];
  const none = gone.every((i) => isZero(parts[i], largest(parts[0]) || 1));
  return `${without}, ${gone.map((i) => terms[i]).join(" and ")} ${are} missing from dx${none ? `; here ${they} 0` : ""}`;
}

/** What is seen once all has arrived. */
function seenAtX({ eps, ...state }) {
  const { v, sigma, xHat, meanG, meanGx, terms: parts, dx } = shownOf({ eps, ...state });
  const size = largest(parts[0]) || 1;
  if (isZero(dx, size)) return "Nothing arrives at x: dx is 0";
  if (v === 0) return "x̂ is 0, and so is the third term";
  const share = eps / (sigma * sigma);
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
  const { m, v, sigma, y, flows, meanG, meanGx, dx } = shownOf(state);
  const f = (value) => formatNumber(value);
  const arrow = arrows[step - 1] ?? "";
  if (arrow && arrow === forget) {
    const { carried } = trueOf(state).flows[arrow];
    return `${inWords(arrow)} carries nothing back here. It would carry ${carried.length === 4 ? row(carried) : f(carried[0])}.`;
  }
  if (step === end && forget) {
    const whole = lost[forget].length ? `; the true dx is ${row(trueOf(state).dx)}` : "";
    return `What arrives at x is ${row(dx)}${whole}.`;
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

const slopes = {
  ...{ "y-gamma": "μ/σ", "y-beta": "1", "y-sigma": "−γ μ/σ²", "sigma-v": "1/(2σ)", "v-mu": "2μ/4" },
  ...{ "y-mu": "γ/σ", "mu-m": "−1", "m-x": "1/4", "mu-x": "1" },
};
/** The color of what each arrow carries: that of the term of dx which it becomes a part of. */
const roads = {
  ...{ "y-gamma": "sum", "y-beta": "sum", "y-sigma": "hat", "sigma-v": "hat", "v-mu": "hat" },
  ...{ "y-mu": "g", "mu-m": "mean", "m-x": "mean", "mu-x": "both" },
};
/** The arrow that came first where two end in one node. */
const before = { "y-mu": "v-mu", "mu-x": "m-x" };

/** The work of one step: its title with the number of the equation, and rows of numbers with their letters and colors. */
export function work(state) {
  const { step, dy } = state;
  const { flows, dx } = shownOf(state);
  if (step === 0) return { title: "What the loss sends back", rows: [["∂l/∂y = dy", dy, "sum"]] };
  if (step === end) {
    const [g, mean, hat] = arriving(state);
    return {
      title: `dx (5.${equations[""]}), with g = γ dy and x̂ = μ/σ`,
      rows: [["g/σ", g, "g"], ["−ḡ/σ", mean, "mean"], ["−x̂·mean(g x̂)/σ", hat, "hat"], ["dx", dx, "sum"]],
      true: lost[state.forget]?.length ? trueOf(state).dx : [],
    };
  }
  const arrow = arrows[step - 1];
  const { given, local, carried, gathered } = flows[arrow];
  const [from, to] = arrow.split("-").map(letter);
  const all = (values) => carried.map((_, i) => values[values.length === 1 ? 0 : i]);
  const said = (sign, way) => (way === state.forget ? `${sign} 0, forgotten` : `${sign} from ${letter(way.split("-")[0])}`);
  const rows = [[`∂l/∂${from}`, all(given), ""], [`× ${slopes[arrow]}`, all(local), ""], [said("=", arrow), carried, roads[arrow]]];
  const first = before[arrow];
  if (first) rows.push([said("+", first), flows[first].gathered, roads[first]]);
  if (first || gathered.length < carried.length) rows.push([`sum: ∂l/∂${to}`, gathered, first ? "sum" : ""]);
  return { title: `${from} → ${to} (5.${equations[arrow]}): ∂l/∂${from} · ∂${from}/∂${to}`, rows };
}

/** The three terms of dx, as far as they arrive. */
const arriving = (state) => shownOf(state).terms.map((values, i) => (lost[state.forget]?.includes(i) ? four(0) : values));

/** The bars of each node's gradient, as far as it is known: node -> [color, values], and the sum as numbers. */
export function known(state) {
  const { step } = state;
  const { flows } = shownOf(state);
  const nodes = { y: { bars: [["sum", state.dy]], sum: state.dy } };
  for (const arrow of arrows.slice(0, step)) {
    const { carried, gathered } = flows[arrow];
    const node = arrow.split("-")[1];
    const bars = gathered.length === 1 ? [] : [[roads[arrow], carried]];
    nodes[node] = { bars: [...(nodes[node]?.bars ?? []), ...bars], sum: gathered };
  }
  if (step === end) nodes.x.bars = arriving(state).map((values, i) => [["g", "mean", "hat"][i], values]);
  return nodes;
}

// --- the page --------------------------------------------------------------------------------

const ones = four(1);
const fresh = { weight: ones, eps: 1e-5, step: end, forget: "" };
const starts = [
  ["The book’s row", { ...defaults }],
  ["dy = 1, γ = 1", { ...fresh, x: defaults.x, dy: ones }],
  ["dy = y, γ = 1", { ...fresh, x: defaults.x, eps: 1, dy: passes(defaults.x, ones, ones, 1).y }],
  ["One outlier", { ...fresh, x: [0, 0, 0, 8], dy: defaults.dy }],
  ["Constant row", { ...fresh, x: four(5), dy: defaults.dy }],
];

/** Every trait within its limits; an arrow that does not exist is none. */
export function settle(name, value) {
  if (name === "forget") return value === "" || arrows.includes(value) ? value : undefined;
  return inLimits(name === "step" ? Math.round(value) : value, limits[name]);
}

const scales = linearSteps({ min: -5, max: 5, step: 0.1 });

/** The features, forward and back. */
function numbersTable() {
  const { node, paint } = numberTable(["", "x", "μ", "y", "dy", "∂l/∂μ", "dx"], [1, 2, 3, 4].map((i) => `feature ${i}`));
  return {
    node,
    paint({ x, dy }, { mu, y, flows, dx }) {
      paint([x, mu, y, dy, flows["y-mu"].gathered, dx].map((values) => values.map((v) => formatNumber(v))));
    },
  };
}

/** The row of buttons; arrow keys on them step too. */
function stepper({ put, now }) {
  const go = (step) => put({ step: settle("step", step) });
  const button = (text, onward, words = text) => {
    const node = html("button", { type: "button", class: "ln-button", text, "aria-label": words, ...ownKeys });
    node.addEventListener("click", () => go(onward(now("step"))));
    return node;
  };
  const [forth, back, all] = [
    button("→", (step) => step - 1, "Undo a step"),
    button("← Step back", (step) => step + 1, "Step back"),
    button("All", () => end, "Step back all the way"),
  ];
  const count = html("span", { class: "ln-count" });
  const keys = { ArrowLeft: 1, ArrowRight: -1, Home: end, End: -end };
  const node = html("div", { class: "ln-steps", "data-trait": "step" }, back, forth, all, count);
  node.addEventListener("keydown", (event) => {
    if (keys[event.key] === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    go(now("step") + keys[event.key]);
  });
  return {
    node,
    paint({ step }) {
      // A button that is disabled loses the focus, and with it the keys.
      for (const [one, stuck] of [[forth, step === 0], [back, step === end], [all, step === end]]) one.setAttribute("aria-disabled", stuck);
      count.textContent = `${step} of ${end}`;
    },
  };
}

function build(tools) {
  const { change, now } = tools;
  const chart = backwardChart({ ...tools, limits, roads });
  const buttons = stepper(tools);
  const table = numbersTable();
  const make = fieldsOf(tools, limits, { weight: scales });
  const eps = make("eps", { symbol: "ε", name: "Constant", unit: "units of x²" });
  const weights = [0, 1, 2, 3].map((i) => make("weight", { symbol: `γ${"₁₂₃₄"[i]}`, name: "Scale", change: (v) => change("weight", now("weight").with(i, v)) }));
  return {
    charts: [chart],
    parts: [chart.node],
    row: [buttons.node],
    fold: [html("div", { class: "ln-fields" }, ...[eps, ...weights].map(({ node }) => node)), table.node],
    paint(state) {
      const shown = shownOf(state);
      chart.paint(state, shown, work(state), known(state));
      buttons.paint(state);
      table.paint(state, shown);
      eps.paint(state.eps, `ε = ${formatNumber(state.eps)}`);
      weights.forEach((one, i) => one.paint(state.weight[i], `γ = ${formatNumber(state.weight[i])}`));
    },
  };
}

function render(context) {
  return frame(context, {
    kind: "backward",
    label: "the backward pass of layer norm",
    question: "What is dx made of?",
    hint: "Step back from y to x. Drag a ring of x or dy. Press × on an arrow to forget it.",
    starts,
    defaults,
    settle,
    build,
    verdict,
    sentence,
  });
}

export default { render };
