/**
 * The row machine: eight numbers that a reader drags, and what layer norm makes of them.
 *
 * Traits: `x`, the row; `eps`; and `weight` and `bias`, one γ and one β for all features. The arithmetic
 * comes first and knows nothing of the page.
 */
import { fieldsOf, formatNumber, html, inLimits, linearSteps, logSteps, numberTable, remember, roundTo, set, sumByPairs, walk } from "./common_old.mjs";
import { frame } from "./frame.mjs";
import { rowChart } from "./row_charts.mjs";

// --- arithmetic ------------------------------------------------------------------------------

const book = Object.freeze([2, 4, 4, 4, 5, 5, 7, 9]); // mean 5, σ 2
export const defaults = Object.freeze({ x: book, eps: 1e-5, weight: 1, bias: 0 });
export const limits = Object.freeze({ x: [-1e7, 1e7], eps: [1e-12, 1], weight: [-5, 5], bias: [-8, 8] });

/** Every term of layer norm. */
export function terms(x, eps, weight, bias) {
  const mean = sumByPairs(x) / 8;
  const centered = x.map((v) => v - mean);
  const variance = sumByPairs(centered.map((v) => v * v)) / 8;
  const [std, denominator] = [Math.sqrt(variance), Math.sqrt(variance + eps)];
  const xHat = centered.map((v) => v / denominator);
  return { mean, centered, variance, std, denominator, spread: std / denominator, xHat, y: xHat.map((v) => weight * v + bias) };
}

const termsOf = remember(({ x, eps, weight, bias }) => terms(x, eps, weight, bias));

/** The row with the same shape around the same mean, and σ = 10⁻⁴; a constant one takes the book's shape. */
export function flatten(x) {
  const { mean, centered, std } = terms(x, 0, 1, 0);
  const shape = std > 0 ? centered.map((v) => v / std) : book.map((v) => (v - 5) / 2);
  return shape.map((v) => mean + 1e-4 * v);
}

/** What the buttons make of a row. */
export const deeds = Object.freeze({
  "×10": (x) => x.map((v) => roundTo(v * 10, 15)),
  "+100": (x) => x.map((v) => roundTo(v + 100, 15)),
  "One feature → 10⁶": (x) => x.with(x.indexOf(Math.max(...x)), 1e6),
  "Flatten to σ = 10⁻⁴": flatten,
});

/** What is seen, in a few words. */
export function verdict(state) {
  const { std, variance, spread, xHat } = termsOf(state);
  if (std === 0) return state.eps === 0 ? "0 ÷ 0: x̂ is NaN" : "All are equal: σ = 0, and x̂ = 0";
  if (spread < 0.995) return `ε ${variance < state.eps ? "decides" : "takes part"}: x̂ has spread ${formatNumber(spread)}`;
  const far = xHat.find((v) => Math.abs(v) > 2);
  if (!far) return "x̂ has mean 0 and spread 1";
  const others = xHat.filter((v) => v !== far);
  const [low, high] = [Math.min(...others), Math.max(...others)];
  if (high - low < 0.3) return `The others crowd near ${formatNumber(-far / 7)}`; // the mean of x̂ is 0
  return `The others lie from ${formatNumber(low)} to ${formatNumber(high)}`;
}

/** The numbers of the picture in a sentence. */
export function sentence(state) {
  const { mean, std, denominator, spread, xHat, y } = termsOf(state);
  const f = formatNumber;
  const reach = (values) => {
    const [low, high] = [f(Math.min(...values)), f(Math.max(...values))];
    return low === high ? `is ${low} throughout` : `goes from ${low} to ${high}`;
  };
  const start = `μ = ${f(mean)} and σ = ${f(std)}`;
  if (denominator === 0) return `${start}, and ε = 0 as well: x̂ = 0 ÷ 0 is not a number, and so is y.`;
  const root = spread < 0.995 ? `√(σ² + ε) = ${f(denominator)}, so ` : "";
  const plain = state.weight === 1 && state.bias === 0;
  const more = plain ? (root ? "" : ", and can never pass ±√7 = ±2.65") : `; y ${reach(y)}`;
  return `${start}; ${root}x̂ ${reach(xHat)}${more}.`;
}

/** Whether x̂ has stayed in its place while the row went to another, as a function of each state in turn. */
export function stillness() {
  let [before, still] = [null, false];
  const gap = (a, b) => Math.max(...a.map((v, i) => Math.abs(v - b[i])));
  return (state) => {
    const { std, xHat } = termsOf(state);
    if (!(before && gap(xHat, before.xHat) < 0.005)) still = false;
    else if (gap(state.x, before.x) > before.std / 2) still = true;
    before = { x: state.x, std, xHat };
    return still && std > 0;
  };
}

// --- the page --------------------------------------------------------------------------------

const starts = [
  ["The book’s row", { ...defaults }],
  ["One outlier", { x: [0, 0, 0, 0, 0, 0, 0, 8], eps: 0 }],
  ["Constant row", { x: Array(8).fill(5), eps: 1e-5 }],
  ["Two groups", { x: [1, 1, 1, 1, 9, 9, 9, 9], eps: 1e-5 }],
];

/** Every trait within its limits; ε may also be 0. */
export function settle(name, value) {
  return name === "eps" && value === 0 ? 0 : inLimits(value, limits[name]);
}

const steps = {
  eps: logSteps({ min: 1e-12, max: 1, zero: true }),
  weight: linearSteps({ min: -5, max: 5, step: 0.1 }),
  bias: linearSteps({ min: -8, max: 8, step: 0.1 }),
};
const nudges = Object.fromEntries(
  Object.entries(steps).map(([name, each]) => [name, walk(each, name === "eps" ? 0 : limits[name][0], limits[name][1])]),
);

/** Eight features, then mean and standard deviation, of each of the four. */
function numbersTable() {
  const names = [1, 2, 3, 4, 5, 6, 7, 8].map((i) => `feature ${i}`).concat("mean", "standard deviation");
  const { node, paint } = numberTable(["", "x", "x − μ", "x̂", "y"], names);
  return {
    node,
    paint({ x, weight, bias }, { mean, std, spread, centered, xHat, y }) {
      const zero = spread * 0; // or NaN
      const columns = [[...x, mean, std], [...centered, 0, std], [...xHat, zero, spread], [...y, zero + bias, Math.abs(weight) * spread]];
      paint(columns.map((values) => values.map((v) => formatNumber(v))));
    },
  };
}

function build({ change, commit, put, now }) {
  const chart = rowChart({ change, commit, now, limits });
  const table = numbersTable();
  const make = fieldsOf({ change, commit }, limits, steps);
  const fields = [
    ["eps", "ε", make("eps", { symbol: "ε", name: "Constant", unit: "units of x²", zero: true })],
    ["weight", "γ", make("weight", { symbol: "γ", name: "Scale", unit: "no units" })],
    ["bias", "β", make("bias", { symbol: "β", name: "Shift", unit: "no units" })],
  ];
  const buttons = Object.entries(deeds).map(([text, deed]) => {
    const button = set(html("button", { type: "button", class: "ln-button", ...ownKeys }), { text: text.replace(/ = /, "\u00a0=\u00a0") });
    button.addEventListener("click", () => put({ x: deed(now("x")) }));
    return { button, fits: (x) => deed(x).every((v) => Math.abs(v) <= limits.x[1]) };
  });
  return {
    charts: [chart],
    parts: [chart.node],
    row: buttons.map(({ button }) => button),
    fold: [html("div", { class: "ln-fields" }, ...fields.map(([, , made]) => made.node)), table.node],
    paint(state) {
      const shown = termsOf(state);
      chart.paint(state, shown);
      table.paint(state, shown);
      for (const [trait, symbol, made] of fields) made.paint(state[trait], `${symbol} = ${formatNumber(state[trait])}`);
      for (const { button, fits } of buttons) button.disabled = !fits(state.x);
    },
  };
}

function render(context) {
  const stays = stillness();
  const reading = (make) => (state) => formatNumber(make(termsOf(state)));
  return frame(context, {
    kind: "row",
    label: "a row and its layer norm",
    question: "Drag one bar far up. What happens to the others?",
    hint: "Take a bar of x by its ring, or move it with the arrow keys.",
    starts,
    defaults,
    settle,
    build,
    nudges,
    readings: {
      mean: reading(({ mean }) => mean),
      std: reading(({ std }) => std),
      spread: reading(({ spread }) => spread),
      largest: reading(({ xHat }) => Math.max(...xHat)),
    },
    verdict: (state) => (stays(state) ? "The row moved, x̂ did not" : verdict(state)),
    sentence,
  });
}

export default { render };
