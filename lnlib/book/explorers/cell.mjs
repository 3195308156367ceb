/**
 * The explorer of the layer-normalized LSTM: its cell, with a digit that is read row by row.
 *
 * Traits: `scale` of the weights; `norm`; `row`, whose step is drawn; `eps`; `blank` rows above the digit;
 * `bias`. The arithmetic comes first and knows nothing of the page.
 */
import { cellChart } from "./cell_charts.mjs";
import { choice, clamp, fieldsOf, formatNumber, html, linearSteps, logSteps, nativeList, numberTable, remember, set, walk } from "./common_old.mjs";
import { frame } from "./frame.mjs";
import { backThrough, dot, normalize, sizeOf, spreadOf } from "./vectors.mjs";

// --- arithmetic ------------------------------------------------------------------------------

export const [size, rows, pixels] = [16, 14, 10];
export const defaults = Object.freeze({ scale: 1, norm: "raw", row: 6, eps: 1e-5, blank: 2, bias: "random" });
export const limits = Object.freeze({ scale: [0.1, 100], row: [1, rows], eps: [1e-12, 1], blank: [0, 5] });
const options = {
  norm: [["raw", "Raw carry"], ["normalized", "Normalized carry"], ["none", "No norm"]],
  bias: [["random", "As PyTorch starts"], ["zero", "Zero"]],
};

// A five, with quarters of ink. It has nine rows; the other five are blank, above or below it.
const ink = [
  "0444444440", "0440000000", "0440000000", "0444444300", "0120002440", "0000000440", "0000000440", "0430002440",
  "0144444310",
].map((line) => [...line].map((v) => Number(v) / 4));
const list = (count, make) => Array.from({ length: count }, (_, i) => make(i));

/** The rows of the digit, with so many blank ones above it. */
export function digit(blank) {
  const empty = list(rows - ink.length, () => Array(pixels).fill(0));
  return [...empty.slice(0, blank), ...ink, ...empty.slice(blank)];
}

/** The weights of the network, which every reader has: those of a generator of integers. */
function drawWeights(seed = 1) {
  const one = () => {
    seed = (Math.imul(1664525, seed) + 1013904223) >>> 0;
    return (seed / 2 ** 32 - 0.5) / 2;
  };
  const matrix = (width) => list(4 * size, () => list(width, one));
  return { hh: matrix(size), ih: matrix(pixels), bias: matrix(1).flat(), back: list(size, one) };
}

export const weights = drawWeights();
const noBias = Array(4 * size).fill(0);
const columns = list(size, (k) => weights.hh.map((line) => line[k]));

/** tanh(x): Lambert's continued fraction of tanh(x / 32), doubled five times, which every machine rounds alike. */
export function tanh(x) {
  if (Math.abs(x) > 20) return Math.sign(x);
  const y = x / 32;
  const q = y * y;
  let t = y / (1 + q / (3 + q / (5 + q / (7 + q / (9 + q / 11)))));
  for (let i = 0; i < 5; i++) t = (2 * t) / (1 + t * t);
  return t;
}

/** sigmoid(x), likewise. */
export const sigmoid = (x) => 0.5 + 0.5 * tanh(0.5 * x);

/** What one row makes of the state: all that is on the wires. */
function step(x, h, c, { scale, norm, eps, bias }) {
  const fromH = weights.hh.map((line) => scale * dot(line, h));
  const fromX = weights.ih.map((line) => scale * dot(line, x));
  const pass = norm === "none" ? (a) => [a, 1] : (a) => normalize(a, eps);
  const [[hatH, byH], [hatX, byX]] = [pass(fromH), pass(fromX)];
  const b = bias === "random" ? weights.bias : noBias;
  const sums = hatH.map((v, k) => v + hatX[k] + b[k]);
  const ways = [sigmoid, sigmoid, tanh, sigmoid];
  const gates = ways.map((way, k) => sums.slice(k * size, (k + 1) * size).map(way));
  const [i, f, candidate, o] = gates;
  const fresh = c.map((v, k) => f[k] * v + i[k] * candidate[k]);
  const [n, byC] = pass(fresh);
  const tanhN = n.map(tanh);
  const shown = tanhN.map((v, k) => o[k] * v);
  const carried = norm === "normalized" ? n : fresh;
  return { x, hBefore: h, cBefore: c, fromH, fromX, hatH, gates, c: fresh, n, tanhN, h: shown, carried, divisors: [byH, byX, byC] };
}

/** The size of the gradient of each row's 4H sums, from a gradient of the last h. */
function back(steps, { scale, norm }) {
  const sizes = [];
  let [dh, dc] = [weights.back, Array(size).fill(0)];
  for (const now of steps.toReversed()) {
    const [i, f, candidate, o] = now.gates;
    const [byH, , byC] = now.divisors;
    const dn = dh.map((v, k) => v * o[k] * (1 - now.tanhN[k] * now.tanhN[k]));
    if (norm === "normalized") dc = backThrough(dn.map((v, k) => v + dc[k]), now.n, byC);
    else {
      const through = norm === "raw" ? backThrough(dn, now.n, byC) : dn;
      dc = dc.map((v, k) => v + through[k]);
    }
    const dv = [
      ...dc.map((v, k) => v * candidate[k] * i[k] * (1 - i[k])),
      ...dc.map((v, k) => v * now.cBefore[k] * f[k] * (1 - f[k])),
      ...dc.map((v, k) => v * i[k] * (1 - candidate[k] * candidate[k])),
      ...dh.map((v, k) => v * now.tanhN[k] * o[k] * (1 - o[k])),
    ];
    sizes.unshift(Math.sqrt(dot(dv, dv)));
    const da = norm === "none" ? dv : backThrough(dv, now.hatH, byH);
    dh = columns.map((line) => scale * dot(line, da));
    dc = dc.map((v, k) => v * f[k]);
  }
  return sizes;
}

/** All rows, one after the other, and the gradient of each row's sums beside that of the last row's. */
export function run(traits) {
  const steps = [];
  let [h, c] = [Array(size).fill(0), Array(size).fill(0)];
  for (const x of digit(traits.blank)) {
    steps.push(step(x, h, c, traits));
    ({ h, carried: c } = steps.at(-1));
  }
  const sizes = back(steps, traits);
  return { steps, gradients: sizes.map((v) => v / sizes.at(-1)), sizes: steps.map(({ carried }) => sizeOf(carried)) };
}

const runOf = remember((scale, norm, eps, blank, bias) => run({ scale, norm, eps, blank, bias }));

/** The run of a state, and the step of its row. */
export function look({ scale, norm, eps, blank, bias, row }) {
  const all = runOf(scale, norm, eps, blank, bias);
  return { ...all, now: all.steps[row - 1] };
}

/** Whether a gate is nearly open or nearly closed: within 0.05 of 1 or of 0. */
export const saturated = (gate) => Math.abs(2 * gate - 1) > 0.9;

/** How many of a step's 48 gates are. */
export const countSaturated = ({ gates: [i, f, , o] }) => [...i, ...f, ...o].filter(saturated).length;

/** What is seen, in a few words. */
export function verdict(state) {
  const { gradients, sizes, now } = look(state);
  const [most, count] = [Math.max(...gradients), countSaturated(now)];
  if (most >= 1e4) return `The gradient explodes to ${formatNumber(most)}`;
  if (count >= 12) return `${count} of 48 gates are saturated`;
  if (gradients[0] < 0.01) return `The gradient fades to ${formatNumber(gradients[0])}`;
  if (state.norm === "normalized" && Math.min(...sizes) > 0.99) return "The cell has size 1 at every row";
  return count > 1 ? `${count} of 48 gates are saturated` : "Hardly a gate is saturated";
}

/** The numbers of the picture in words. */
export function sentence(state) {
  const { gradients, now } = look(state);
  const { row, norm, bias, eps } = state;
  const some = (values) => values.some((v) => v !== 0);
  const sources = [some(now.hBefore) && "state", bias === "random" && "bias"].filter(Boolean);
  let start = `At row ${row}, `;
  const count = countSaturated(now);
  let known = `${count} of 48 gates ${count === 1 ? "is" : "are"} saturated, and the cell goes on with size ${formatNumber(sizeOf(now.carried))}`;
  if (!some(now.x) && sources.length > 0) {
    const alone = sources.length > 1 ? "state and bias alone set" : `the ${sources[0]} alone sets`;
    start = `Row ${row} is blank: ${alone} the gates; `;
  } else if (!some(now.x)) {
    start = `Row ${row} is blank, and state and bias are 0: `;
    known = `all gates are half open${norm === "none" ? "" : `, and each norm divides by √ε = ${formatNumber(Math.sqrt(eps))}`}`;
  }
  return `${start}${known}. Row 1 gets ${formatNumber(gradients[0])} times the last row’s gradient.`;
}

// --- the page --------------------------------------------------------------------------------

const starts = [
  ["Weights × 8", { ...defaults, scale: 8 }],
  ["Weights × 8, no norm", { ...defaults, scale: 8, norm: "none" }],
  ["Plain LSTM × 0.5", { ...defaults, norm: "none", scale: 0.5 }],
  ["Blank rows, zero bias", { ...defaults, blank: 5, bias: "zero", row: 3 }],
  ["Normalized carry", { ...defaults, norm: "normalized" }],
];

/** A number within the limits of its trait, whole where that is, or one of its options. */
export function settle(name, value) {
  if (name in options) return options[name].some(([option]) => option === value) ? value : undefined;
  const within = clamp(value, ...limits[name]);
  return name === "row" || name === "blank" ? Math.round(within) : within;
}

const steps = {
  scale: logSteps({ min: 0.1, max: 100 }),
  row: linearSteps({ min: 1, max: rows, step: 1 }),
  eps: logSteps({ min: 1e-12, max: 1 }),
  blank: linearSteps({ min: 0, max: 5, step: 1 }),
};
const nudges = Object.fromEntries(Object.entries(steps).map(([name, each]) => [name, walk(each, ...limits[name])]));

/** What is on the wires of the step, in numbers. */
function numbersTable() {
  const names = ["W h", "W x", "gate i", "gate f", "candidate c̃", "gate o", "cell c", "cell behind its norm", "state h"];
  const { node, paint } = numberTable(["", "smallest", "largest", "spread σ"], names);
  return {
    node,
    paint({ fromH, fromX, gates, c, n, h }) {
      const all = [fromH, fromX, ...gates, c, n, h];
      paint([(a) => Math.min(...a), (a) => Math.max(...a), spreadOf].map((tell) => all.map((a) => formatNumber(tell(a)))));
    },
  };
}

function build({ change, commit, put, now }) {
  const chart = cellChart({ digit, change, commit, now, rows, pixels, saturated });
  const norm = nativeList({ trait: "norm", label: "Norm", options: options.norm, change: (value) => put({ norm: value }) });
  const bias = choice({ legend: "Bias", options: options.bias, change: (value) => put({ bias: value }) });
  const make = fieldsOf({ change, commit }, limits, steps);
  const scale = make("scale", { symbol: "Weights ×", name: "" });
  const eps = make("eps", { symbol: "ε", name: "Constant", unit: "units of x²" });
  const blank = make("blank", { symbol: "Blank rows above", name: "", page: 2 });
  const table = numbersTable();
  norm.node.classList.add("ln-norm");
  return {
    charts: [chart],
    parts: [chart.node],
    row: [norm.node, scale.node],
    fold: [
      html("div", { class: "ln-fields" }, eps.node, blank.node),
      set(bias.node, { "data-trait": "bias" }),
      html("p", { text: "A gate is saturated within 0.05 of 0 or of 1. The gradient is that of a row’s 4H sums, beside the last row’s." }),
      table.node,
    ],
    paint(state) {
      const seen = look(state);
      norm.paint(state.norm);
      bias.paint(state.bias);
      scale.paint(state.scale, `weights times ${formatNumber(state.scale)}`);
      eps.paint(state.eps, `ε = ${formatNumber(state.eps)}`);
      blank.paint(state.blank, `${state.blank} blank rows`);
      chart.paint(state, seen);
      table.paint(seen.now);
    },
  };
}

function render(context) {
  return frame(context, {
    kind: "cell",
    label: "one step of the layer-normalized LSTM",
    question: "Do weights × 8 saturate the gates?",
    hint: "Raise the weights, take the norms away, and drag the ring down the rows of the digit.",
    starts,
    defaults,
    settle,
    build,
    nudges,
    readings: {
      saturated: (state) => `${countSaturated(look(state).now)}`,
      size: (state) => formatNumber(sizeOf(look(state).now.carried)),
      first: (state) => formatNumber(look(state).gradients[0]),
      divisor: (state) => formatNumber(look(state).now.divisors[2]),
    },
    verdict,
    sentence,
  });
}

export default { render };
