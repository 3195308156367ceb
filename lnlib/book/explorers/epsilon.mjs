/**
 * The ε explorer: what ε does to a row whose values lie close together.
 *
 * A row of eight numbers with mean 0 and standard deviation σ ("spread") is normalized three ways:
 * divided by √(σ² + ε), as PyTorch does; by σ + ε; and by √(σ² + ε) with every step in float16.
 * Traits: `eps` and `spread`. The arithmetic comes first and knows nothing of the page.
 */
import { explorer } from "./explorer.mjs";
import { formatNumber, html, remember, toHalf } from "./common.mjs";
import { gradientChart, keyOf, kinds, stripChart, varianceChart } from "./epsilon_charts.mjs";

// --- arithmetic ------------------------------------------------------------------------------

/** The book's row, 2, 4, 4, 4, 5, 5, 7, 9, less its mean and over its σ: halves, which binary holds. */
export const pattern = Object.freeze([-3, -1, -1, -1, 0, 0, 2, 4].map((n) => n / 2));

/** The row: the pattern times `spread`, so its biased standard deviation is `spread`. */
export function row(spread) {
  return pattern.map((z) => spread * z);
}

/** Mean and biased variance of a row. */
export function statistics(values) {
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
  const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / values.length;
  return { mean, variance, std: Math.sqrt(variance) };
}

/** What a centered row is divided by: √(σ² + ε) for "variance" (PyTorch), σ + ε for "std". */
export function denominator(std, eps, convention = "variance") {
  return convention === "std" ? std + eps : Math.sqrt(std * std + eps);
}

/** x̂, the row normalized. */
export function normalize(values, eps, { convention = "variance" } = {}) {
  const { mean, std } = statistics(values);
  return values.map((x) => (x - mean) / denominator(std, eps, convention));
}

/** Biased variance of x̂: σ² over the squared denominator. */
export function outputVariance(spread, eps, convention = "variance") {
  return (spread / denominator(spread, eps, convention)) ** 2;
}

/**
 * The largest factor by which a gradient is multiplied on its way back from x̂ to the row: the
 * spectral norm of the Jacobian. On directions orthogonal to x̂ and to (1, …, 1) the Jacobian is
 * the identity over the denominator; on those two it is smaller. At σ = 0 it is the limit.
 */
export function gradientSize(spread, eps, convention = "variance") {
  return 1 / denominator(spread, eps, convention);
}

/** Mean, deviations from it and their mean square, each step rounded to float16. */
export function statisticsHalf(values) {
  const half = values.map(toHalf);
  // PyTorch adds float16 numbers up in float32, where eight of one row add up without rounding.
  const mean = toHalf(toHalf(half.reduce((sum, x) => sum + x, 0)) / half.length);
  const centered = half.map((x) => toHalf(x - mean));
  const squares = centered.map((x) => toHalf(x * x));
  const variance = toHalf(toHalf(squares.reduce((sum, x) => sum + x, 0)) / squares.length);
  return { mean, centered, variance };
}

/** 1 / √(σ² + ε), each step rounded to float16; ε below 3e-8 is 0 there, and 1/0 is ∞. */
export function rstdHalf(variance, eps) {
  return toHalf(1 / toHalf(Math.sqrt(toHalf(variance + toHalf(eps)))));
}

/** x̂ with every step in float16, ∞ and NaN included. */
export function normalizeHalf(values, eps) {
  const { centered, variance } = statisticsHalf(values);
  const rstd = rstdHalf(variance, eps);
  return centered.map((x) => toHalf(x * rstd));
}

/** Three versions of the row, in the order in which they are drawn and told. */
export const versions = remember((spread, eps) => {
  const values = row(spread);
  const exact = ["variance", "std"].map((convention) => ({
    convention,
    xHat: normalize(values, eps, { convention }),
    outputVariance: outputVariance(spread, eps, convention),
    gradientSize: gradientSize(spread, eps, convention),
  }));
  const xHat = normalizeHalf(values, eps);
  const half = {
    convention: "half",
    xHat,
    outputVariance: statistics(xHat).variance, // measured, so not rounded to float16
    gradientSize: rstdHalf(statisticsHalf(values).variance, eps),
  };
  return [...exact, half];
});

/** What a division by zero made of a float16 row, in words; "" if all its values are numbers. */
export function wreckage(xHat) {
  const infinite = xHat.filter((x) => Math.abs(x) === Infinity).length;
  const nan = xHat.filter(Number.isNaN).length;
  if (nan === xHat.length) return `all ${nan} values are NaN`;
  return infinite + nan === 0 ? "" : `${infinite} values are ±∞, ${nan} NaN`;
}

/** What is seen, in a few words. */
export function verdict({ spread, eps }) {
  if (spread === 0 && eps === 0) return "0 ÷ 0: every version fails";
  const [{ outputVariance: left }, , half] = versions(spread, eps);
  const who = left < 0.25 ? "ε decides" : left > 0.75 ? "The data decide" : "ε and the data share";
  return who + (wreckage(half.xHat) ? "; pure float16 fails" : " the output");
}

/** The numbers of the picture in a sentence. */
export function sentence({ spread, eps }) {
  const [pytorch, rival, half] = versions(spread, eps);
  const f = formatNumber;
  const wreck = wreckage(half.xHat);
  const last = wreck ? `; in float16, ${wreck}` : `, float16 of ${f(half.outputVariance)}`;
  const subject = spread === 0 ? "With a constant row (σ = 0)" : `With σ = ${f(spread)}`;
  if (spread === 0 && eps === 0) return `${subject} and ε = 0, every version divides 0 by 0: ${wreck}.`;
  return (
    `${subject} and ε = ${f(eps)}, √(σ² + ε) leaves a variance of ${f(pytorch.outputVariance)}, ` +
    `σ + ε of ${f(rival.outputVariance)}${last}.`
  );
}

/** The σ at which half of the variance is left: √ε. */
export const knee = (eps) => Math.sqrt(eps);

// Spreads at which the curves are drawn: 40 a decade, fine enough for the steps of float16.
const grid = Array.from({ length: 321 }, (_, i) => 10 ** (-7 + i / 40));
const gridHalf = grid.map((spread) => statisticsHalf(row(spread)));

/** The three curves over `grid`, with what a constant row gives ahead of it. */
export const curves = remember((eps) => {
  const exact = ["variance", "std"].map((convention) => ({
    outputVariance: grid.map((spread) => outputVariance(spread, eps, convention)),
    gradientSize: grid.map((spread) => gradientSize(spread, eps, convention)),
    gradientAtZero: gradientSize(0, eps, convention),
  }));
  const rstds = gridHalf.map(({ variance }) => rstdHalf(variance, eps));
  const half = {
    outputVariance: gridHalf.map(
      ({ centered }, i) => statistics(centered.map((x) => toHalf(x * rstds[i]))).variance,
    ),
    gradientSize: rstds,
    gradientAtZero: rstdHalf(0, eps),
  };
  return { grid, lines: [...exact, half] };
});

/** All that is drawn of a state. */
function look({ spread, eps }) {
  const shown = versions(spread, eps);
  return { shown, pattern, wrecks: shown.map(({ xHat }) => wreckage(xHat)), curves: curves(eps) };
}

// --- the page --------------------------------------------------------------------------------

const starts = () => ({
  "Ordinary row": { eps: 1e-5, spread: 1 },
  "Constant row": { eps: 1e-5, spread: 0 },
  "0 ÷ 0 in float16": { eps: 1e-8, spread: 0 },
  "No ε": { eps: 0, spread: 1e-3 },
  "σ² = 4e-9, ε = 1e-8": { eps: 1e-8, spread: 6.3245553e-5 },
  "BERT’s ε = 1e-12": { eps: 1e-12, spread: 1e-6 },
});

const heads = ["divided by", "output variance", "largest gradient factor"];
const columns = ({ shown }) => [shown.map((one) => one.outputVariance), shown.map((one) => `× ${formatNumber(one.gradientSize)}`)];

function build(tools) {
  const charts = [varianceChart(tools), stripChart(), gradientChart(tools)];
  const [variance, strip, gradient] = charts.map(({ node }) => node);
  const says = (v) => (v === 0 ? "σ = 0, a constant row" : `σ = ${formatNumber(v)}`);
  return {
    charts,
    parts: [html("div", { class: "ln-scene" }, variance, strip)],
    row: [tools.field("spread", { says }), tools.field("eps")],
    fold: [tools.table(heads, kinds.map(keyOf), columns), gradient],
  };
}

export default explorer({
  kind: "epsilon",
  label: "ε and the spread of a row",
  question: "When does ε decide the output, and not the data?",
  hint: "Drag σ, the spread of the row, and ε, the knee of the curve.",
  starts,
  look,
  build,
  guess: {
    ask: ({ eps }) => eps !== 0 && `ε is ${formatNumber(eps)}. Drag the marker to the σ at which half of the variance is left.`,
    answer: ({ eps }, said) => `You said σ = ${formatNumber(said)}; it is √ε = ${formatNumber(knee(eps))}.`,
    others: [{ eps: 1e-5 }, { eps: 1e-12 }, { eps: 1e-8 }],
  },
  readings: {
    variance: ({ shown: [{ outputVariance }] }) => outputVariance,
    factor: ({ shown: [{ gradientSize }] }) => gradientSize,
    knee: (_, { eps }) => knee(eps),
  },
  verdict,
  sentence,
});
