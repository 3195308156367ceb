/**
 * The ε explorer: what ε does to a row whose values lie close together.
 *
 * A row of eight numbers with mean 0 and standard deviation σ ("spread") is normalized three ways:
 * divided by √(σ² + ε), as PyTorch does; by σ + ε; and by √(σ² + ε) with every step in float16.
 */
import { explorer } from "./explorer.mjs";
import { formatNumber, html, range, remember } from "./common.mjs";
import { layerNorm } from "./norm.mjs";
import { keyOf, kinds, stripChart, varianceChart } from "./epsilon_charts.mjs";

// --- arithmetic ------------------------------------------------------------------------------

/**
 * Round to the nearest float16, ties to even, as one operation of half-precision hardware does.
 *
 * `2 ** (exponent - 10)` is the gap between neighbors: a power of two, so scaling by it is exact.
 * Should log2 round up to the next integer, x is within 2^-52 of a power of two, and both gaps
 * round it to that power.
 */
export function toHalf(x) {
  const size = Math.abs(x);
  if (!(size > 0 && size < Infinity)) return x; // 0, -0, ±∞ and NaN are themselves
  if (size >= 65520) return x > 0 ? Infinity : -Infinity; // halfway from 65504 to 65536
  const gap = 2 ** (Math.max(Math.floor(Math.log2(size)), -14) - 10);
  const below = Math.floor(size / gap);
  const rest = size / gap - below;
  const up = rest > 0.5 || (rest === 0.5 && below % 2 === 1);
  return Math.sign(x) * (below + (up ? 1 : 0)) * gap;
}

/** The book's row, 2, 4, 4, 4, 5, 5, 7, 9, less its mean and over its σ: halves, which binary holds. */
export const pattern = Object.freeze([-3, -1, -1, -1, 0, 0, 2, 4].map((n) => n / 2));

/** What the deviations of a row are divided by: PyTorch’s way, and with ε outside of the root. */
const divisors = [(std, eps) => Math.sqrt(std * std + eps), (std, eps) => std + eps];

/**
 * The row normalized, the variance of that, and the largest factor by which a gradient is multiplied on its way
 * back: the spectral norm of the Jacobian. On directions orthogonal to x̂ and to (1, …, 1) the Jacobian is
 * the identity over the divisor; on those two it is smaller. At σ = 0 it is the limit.
 */
function exactly(spread, divisor) {
  const xHat = pattern.map((z) => (spread * z) / divisor);
  return { xHat, outputVariance: (spread / divisor) ** 2, gradientSize: 1 / divisor };
}

/** The deviations of the row, and their mean square, each step rounded to float16. */
function inHalf(spread) {
  // PyTorch adds float16 numbers up in float32, where eight of one row add up without rounding.
  const average = (values) => toHalf(toHalf(values.reduce((sum, v) => sum + v, 0)) / 8);
  const x = pattern.map((z) => toHalf(spread * z));
  const mean = average(x);
  const centered = x.map((v) => toHalf(v - mean));
  return { centered, variance: average(centered.map((v) => toHalf(v * v))) };
}

/** The same normalized, ∞ and NaN included; ε below 3e-8 is 0 there, and 1/0 is ∞. */
function halfly({ centered, variance }, eps) {
  const gradientSize = toHalf(1 / toHalf(Math.sqrt(toHalf(variance + toHalf(eps)))));
  const xHat = centered.map((v) => toHalf(v * gradientSize));
  return { xHat, outputVariance: layerNorm(xHat).variance, gradientSize }; // measured, so not rounded
}

/** Three versions of the row, in the order in which they are drawn and told. */
const versionsOf = (spread, eps, half) => [...divisors.map((by) => exactly(spread, by(spread, eps))), halfly(half, eps)];
export const versions = remember((spread, eps) => versionsOf(spread, eps, inHalf(spread)));

// Spreads at which the curves are drawn: 40 a decade, fine enough for the steps of float16.
const grid = range(321, (i) => 10 ** (-7 + i / 40));
const halves = grid.map(inHalf);

/** The three curves over `grid`. */
export const curves = remember((eps) => {
  const all = grid.map((spread, i) => versionsOf(spread, eps, halves[i]));
  const line = (k) => ({ outputVariance: all.map((each) => each[k].outputVariance), gradientSize: all.map((each) => each[k].gradientSize) });
  return { grid, lines: [0, 1, 2].map(line) };
});

/** The σ at which half of the variance is left: √ε. */
export const knee = (eps) => Math.sqrt(eps);

/** What a division by zero made of a float16 row, in words; "" if all its values are numbers. */
export function wreckage(xHat) {
  const infinite = xHat.filter((x) => Math.abs(x) === Infinity).length;
  const nan = xHat.filter(Number.isNaN).length;
  if (nan === xHat.length) return `all ${nan} values are NaN`;
  return infinite + nan === 0 ? "" : `${infinite} values are ±∞, ${nan} NaN`;
}

/** What is seen, in a few words; `left` of the three versions are not shown yet. */
export function verdict({ spread, eps }, left = 0) {
  if (spread === 0 && eps === 0) return "0 ÷ 0: every version fails";
  const [{ outputVariance: kept }, , half] = versions(spread, eps);
  const who = kept < 0.25 ? "ε decides" : kept > 0.75 ? "The data decide" : "ε and the data share";
  return who + (left === 0 && wreckage(half.xHat) ? "; pure float16 fails" : " the output");
}

/** The numbers of the picture in a sentence. */
export function sentence({ spread, eps }, left = 0) {
  const [pytorch, rival, half] = versions(spread, eps);
  const f = formatNumber;
  const wreck = wreckage(half.xHat);
  const last = wreck ? `; in float16, ${wreck}` : `, float16 of ${f(half.outputVariance)}`;
  const subject = spread === 0 ? "With a constant row (σ = 0)" : `With σ = ${f(spread)}`;
  if (spread === 0 && eps === 0) return `${subject} and ε = 0, every version divides 0 by 0: ${wreck}.`;
  const parts = [`√(σ² + ε) leaves a variance of ${f(pytorch.outputVariance)}`, `, σ + ε one of ${f(rival.outputVariance)}`, last];
  return `${subject} and ε = ${f(eps)}, ${parts.slice(0, 3 - left).join("")}.`;
}

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
  const charts = [varianceChart(tools), stripChart()];
  const says = (v) => (v === 0 ? "σ = 0, a constant row" : `σ = ${formatNumber(v)}`);
  return {
    charts,
    parts: [html("div", { class: "ln-scene" }, ...charts.map(({ node }) => node))],
    row: [tools.field("spread", { says }), tools.field("eps")],
    fold: [tools.table(heads, kinds.map(keyOf), columns)],
  };
}

export default explorer({
  kind: "epsilon",
  label: "ε and the spread of a row",
  question: "When does ε, rather than the data, decide the output?",
  hint: "Drag σ, the spread of the row, and ε, the knee of the curve.",
  starts,
  look,
  build,
  guess: {
    ask: ({ eps }) => eps !== 0 && `ε is ${formatNumber(eps)}. Drag the marker to the σ at which half of the variance is left.`,
    answer: ({ eps }, said) => `You said σ = ${formatNumber(said)}; it is √ε = ${formatNumber(knee(eps))}.`,
    others: [{ eps: 1e-5 }, { eps: 1e-12 }, { eps: 1e-8 }],
    beats: ["And with σ + ε?", "And in float16?"],
  },
  readings: {
    variance: ({ shown: [{ outputVariance }] }) => outputVariance,
    factor: ({ shown: [{ gradientSize }] }) => gradientSize,
    knee: (_, { eps }) => knee(eps),
  },
  verdict,
  sentence,
});
