/** The explorer of the layer-normalized LSTM: its cell, with a digit that is read row by row. */
import { explorer } from "./explorer.mjs";
import { cellChart } from "./cell_charts.mjs";
import { formatNumber, html, range, remember } from "./common.mjs";
import { backThrough, dot, layerNorm, sizeOf } from "./norm.mjs";

// --- arithmetic ------------------------------------------------------------------------------

const [size, rows, columns] = [16, 14, 10];

// A five, with quarters of ink. It has nine rows; the other five are blank, above or below it.
const ink = [
  "0444444440", "0440000000", "0440000000", "0444444300", "0120002440", "0000000440", "0000000440", "0430002440",
  "0144444310",
].map((line) => [...line].map((v) => Number(v) / 4));

/** The rows of the digit, with so many blank ones above it. */
export function digit(blank) {
  const empty = range(rows - ink.length, () => Array(columns).fill(0));
  return [...empty.slice(0, blank), ...ink, ...empty.slice(blank)];
}

/** The weights of the network, which every reader has: those of a generator of integers. */
function drawWeights(seed = 1) {
  const one = () => {
    seed = (Math.imul(1664525, seed) + 1013904223) >>> 0;
    return (seed / 2 ** 32 - 0.5) / 2;
  };
  const matrix = (width) => range(4 * size, () => range(width, one));
  return { hh: matrix(size), ih: matrix(columns), bias: matrix(1).flat(), back: range(size, one) };
}

export const weights = drawWeights();
const fromState = range(size, (k) => weights.hh.map((line) => line[k])); // its columns

const sigmoid = (x) => 0.5 + 0.5 * Math.tanh(0.5 * x);
const add = (a, b) => a.map((v, k) => v + b[k]);

/** What one row makes of the state: all that is on the wires. */
function step(x, h, c, { scale, norm, eps, bias }) {
  const times = (matrix, v) => matrix.map((line) => scale * dot(line, v));
  const pass = (a) => (norm === "none" ? { xHat: a, denominator: 1 } : layerNorm(a, eps));
  const [fromH, fromX] = [times(weights.hh, h), times(weights.ih, x)];
  const [normH, normX] = [pass(fromH), pass(fromX)];
  const sums = normH.xHat.map((v, k) => v + normX.xHat[k] + (bias === "random" ? weights.bias[k] : 0));
  const ways = [sigmoid, sigmoid, Math.tanh, sigmoid];
  const gates = ways.map((way, k) => sums.slice(k * size, (k + 1) * size).map(way));
  const [i, f, candidate, o] = gates;
  const fresh = c.map((v, k) => f[k] * v + i[k] * candidate[k]);
  const normC = pass(fresh);
  const tanhC = normC.xHat.map(Math.tanh);
  const shown = tanhC.map((v, k) => o[k] * v);
  const carried = norm === "normalized" ? normC.xHat : fresh;
  const divisors = [normH, normX, normC].map(({ denominator }) => denominator);
  return { x, hBefore: h, cBefore: c, fromH, fromX, normH, gates, c: fresh, normC, tanhC, h: shown, carried, divisors };
}

/** The size of the gradient of each row's 4H sums, from a gradient of the last h. */
function back(steps, scale, norm) {
  const through = norm === "none" ? (dy) => dy : backThrough;
  const sizes = [];
  let [dh, dc] = [weights.back, Array(size).fill(0)];
  for (const { gates: [i, f, candidate, o], normH, normC, tanhC, cBefore } of steps.toReversed()) {
    const dn = dh.map((v, k) => v * o[k] * (1 - tanhC[k] * tanhC[k]));
    dc = norm === "normalized" ? through(add(dn, dc), normC) : add(dc, through(dn, normC));
    const dSums = [
      ...dc.map((v, k) => v * candidate[k] * i[k] * (1 - i[k])),
      ...dc.map((v, k) => v * cBefore[k] * f[k] * (1 - f[k])),
      ...dc.map((v, k) => v * i[k] * (1 - candidate[k] * candidate[k])),
      ...dh.map((v, k) => v * tanhC[k] * o[k] * (1 - o[k])),
    ];
    sizes.unshift(Math.sqrt(dot(dSums, dSums)));
    const da = through(dSums, normH);
    dh = fromState.map((line) => scale * dot(line, da));
    dc = dc.map((v, k) => v * f[k]);
  }
  return sizes;
}

/** All rows, one after the other, and the gradient of each row's sums beside that of the last row's. */
const run = remember((scale, norm, eps, blank, bias) => {
  const steps = [];
  let [h, c] = [Array(size).fill(0), Array(size).fill(0)];
  for (const x of digit(blank)) {
    steps.push(step(x, h, c, { scale, norm, eps, bias }));
    ({ h, carried: c } = steps.at(-1));
  }
  const gradients = back(steps, scale, norm);
  return { steps, gradients: gradients.map((v) => v / gradients.at(-1)), sizes: steps.map(({ carried }) => sizeOf(carried)) };
});

/** Whether a gate is nearly open or nearly closed: within 0.05 of 1 or of 0. */
export const saturated = (gate) => Math.abs(2 * gate - 1) > 0.9;

/** The run of a state, the step of its row, and how many of its 48 gates are saturated. */
export function look({ scale, norm, eps, blank, bias, row }) {
  const all = run(scale, norm, eps, blank, bias);
  const now = all.steps[row - 1];
  const [i, f, , o] = now.gates;
  return { ...all, now, count: [...i, ...f, ...o].filter(saturated).length };
}

/** What is seen, in a few words. */
export function verdict(state) {
  const { gradients, sizes, count } = look(state);
  const most = Math.max(...gradients);
  if (most >= 1e4) return `The gradient explodes to ${formatNumber(most)}`;
  if (count >= 12) return `${count} of 48 gates are saturated`;
  if (gradients[0] < 0.01) return `The gradient fades to ${formatNumber(gradients[0])}`;
  if (state.norm === "normalized" && Math.min(...sizes) > 0.99) return "The cell has size 1 at every row";
  return count > 1 ? `${count} of 48 gates are saturated` : "Hardly a gate is saturated";
}

/** The numbers of the picture in words. */
export function sentence(state) {
  const { gradients, sizes, now, count } = look(state);
  const { row, norm, bias, eps } = state;
  const some = (values) => values.some((v) => v !== 0);
  const sources = [some(now.hBefore) && "state", bias === "random" && "bias"].filter(Boolean);
  const alone = sources.length > 1 ? "state and bias alone set" : `the ${sources[0]} alone sets`;
  const known = `${count} of 48 gates ${count === 1 ? "is" : "are"} saturated, and the cell goes on with size ${formatNumber(sizes[row - 1])}`;
  const divisor = norm === "none" ? "" : `, and each norm divides by √ε = ${formatNumber(Math.sqrt(eps))}`;
  const still = `Row ${row} is blank, and state and bias are 0: all gates are half open${divisor}`;
  const blank = sources.length > 0 ? `Row ${row} is blank: ${alone} the gates; ${known}` : still;
  return `${some(now.x) ? `At row ${row}, ${known}` : blank}. Row 1 gets ${formatNumber(gradients[0])} times the last row’s gradient.`;
}

// --- the page --------------------------------------------------------------------------------

const starts = (first) => ({
  "Weights × 8": { ...first, scale: 8 },
  "Weights × 8, no norm": { ...first, scale: 8, norm: "none" },
  "Plain LSTM × 0.5": { ...first, norm: "none", scale: 0.5 },
  "Blank rows, zero bias": { ...first, blank: 5, bias: "zero", row: 3 },
  "Normalized carry": { ...first, norm: "normalized" },
});

const wires = ["W h", "W x", "gate i", "gate f", "candidate c̃", "gate o", "cell c", "cell after its norm", "state h"];

/** The columns of the table: what is on each wire of the step, in numbers. */
function columnsOf({ now: { fromH, fromX, gates, c, normC, h } }) {
  const all = [fromH, fromX, ...gates, c, normC.xHat, h];
  return [(a) => Math.min(...a), (a) => Math.max(...a), (a) => layerNorm(a).std].map((tell) => all.map(tell));
}

function build(tools) {
  const scale = tools.field("scale", { unit: "", says: (v) => `weights times ${formatNumber(v)}` });
  return {
    charts: [cellChart(tools, saturated)],
    row: [tools.choice("norm", "Norm", { raw: "Raw carry", normalized: "Normalized carry", none: "No norm" }), scale],
    fold: [
      html("div", { class: "ln-fields" }, tools.field("eps"), tools.field("blank", { says: (v) => `${v} blank rows` })),
      tools.choice("bias", "Bias", { random: "As PyTorch starts", zero: "Zero" }),
      html("p", { text: "A gate is saturated within 0.05 of 0 or of 1. The gradient is that of a row’s 4H sums, beside the last row’s." }),
      tools.table(["", "smallest", "largest", "spread σ"], wires, columnsOf),
    ],
  };
}

export default explorer({
  kind: "cell",
  label: "one step of the layer-normalized LSTM",
  question: "Do weights × 8 saturate the gates?",
  hint: "Raise the weights, take the norms away, and drag the ring down the rows of the digit.",
  starts,
  look,
  build,
  readings: {
    saturated: ({ count }) => count,
    size: ({ sizes }, { row }) => sizes[row - 1],
    first: ({ gradients }) => gradients[0],
    divisor: ({ now }) => now.divisors[2],
  },
  verdict,
  sentence,
});
