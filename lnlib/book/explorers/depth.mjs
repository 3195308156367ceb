/**
 * The depth explorer: what a stack of linear layers and ReLUs makes of the size of a signal, and of the
 * gradient on its way back, without a norm, with one before each ReLU, and with one after it.
 */
import { explorer } from "./explorer.mjs";
import { formatNumber, html, range, remember, superscript } from "./common.mjs";
import { button } from "./controls.mjs";
import { depthChart, layersOf } from "./depth_charts.mjs";
import { backThrough, dot, layerNorm, sizeOf } from "./norm.mjs";

// --- arithmetic ------------------------------------------------------------------------------

export const orders = Object.freeze({ none: "no norm", norm_first: "norm → ReLU", relu_first: "ReLU → norm" });

const [DEEPEST, WIDTH] = [50, 128]; // layers, and features of each

/**
 * The i-th of many numbers that look like chance, uniform from −√3 to √3: mean 0, variance 1. It stirs
 * the bits of i as the last step of MurmurHash3 does, in whole numbers, so every language has the same.
 */
export function draw(i, which) {
  let bits = Math.imul(((4 + which) << 20) + i, 0x9e3779b9);
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (((bits ^ (bits >>> 16)) >>> 0) / 2 ** 31 - 1) * Math.sqrt(3);
}

/** The weights of all layers, with the spread √(2/n); then a row and a gradient, each with RMS 1. */
const networkOf = remember((which) => {
  const vector = (k, by = 1) => new Float64Array(WIDTH).map((_, i) => draw(k * WIDTH + i, which) * by);
  const weights = range(DEEPEST, (l) => range(WIDTH, (j) => vector(l * WIDTH + j, Math.sqrt(2 / WIDTH))));
  const [x, dy] = [0, 1].map((k) => vector(DEEPEST * WIDTH + k));
  return { weights, x: x.map((v) => v / sizeOf(x)), dy: dy.map((v) => v / sizeOf(dy)) };
});

// What a layer is made of: each has its output, and what takes a gradient back. ε is 0.
const linear = (rows) => (h) => {
  const y = new Float64Array(WIDTH);
  for (let j = 0; j < WIDTH; j++) for (let i = 0; i < WIDTH; i++) y[i] += rows[j][i] * h[j];
  return { y, back: (dy) => Float64Array.from(rows, (row) => dot(row, dy)) };
};
const relu = (a) => ({ y: a.map((v) => Math.max(v, 0)), back: (dy) => dy.map((v, i) => (a[i] > 0 ? v : 0)) });
const norm = (a) => {
  const found = layerNorm(a);
  return { y: found.xHat, back: (dy) => backThrough(dy, found) };
};
const stages = { none: [relu], norm_first: [norm, relu], relu_first: [relu, norm] };

/** A row on its way through all layers of a real network: its sizes, and what takes a gradient back through each. */
const forth = remember((order, network) => {
  const { weights, x } = networkOf(network);
  const activations = [sizeOf(x)];
  let h = x;
  const layers = weights.map((rows) => {
    const ways = [linear(rows), ...stages[order]].map((stage) => {
      const { y, back } = stage(h);
      h = y;
      return back;
    });
    activations.push(sizeOf(h));
    return (dy) => ways.reduceRight((g, back) => back(g), dy);
  });
  return { activations, layers };
});

/** The sizes of the gradient that begins after so many of them. */
const gradientsOf = remember((order, depth, network) => {
  let g = networkOf(network).dy;
  const sizes = [sizeOf(g)];
  for (const back of forth(order, network).layers.slice(0, depth).reverse()) sizes.unshift(sizeOf((g = back(g))));
  return sizes;
});

/**
 * The RMS of a real network's activations and of its gradient, from the input to the last layer. A scale
 * of the weights multiplies both layer by layer, and a norm divides it out: so each network is measured once.
 */
export function measured(order, scale, depth, network) {
  const [activations, gradients] = [forth(order, network).activations.slice(0, depth + 1), gradientsOf(order, depth, network)];
  if (order !== "none") return { activations, gradients };
  const by = law(order, scale, depth);
  return { activations: activations.map((v, l) => v * by.activations[l]), gradients: gradients.map((v, l) => v * by.gradients[l]) };
}

/** By how much one layer multiplies the activations, and the gradient on its way back. */
export function growth(order, scale) {
  if (order === "none") return { forth: scale, back: scale };
  return { forth: 1, back: order === "norm_first" ? 1 : 1 / Math.sqrt(1 - 1 / Math.PI) };
}

/** The same sizes as `measured` has, in layers so wide that chance cancels. */
export const law = remember((order, scale, depth) => {
  const by = growth(order, scale);
  const [activations, gradients] = [[1], [1]];
  for (let layer = 0; layer < depth; layer++) {
    activations.push(activations[layer] * by.forth);
    gradients.unshift(gradients[0] * by.back);
  }
  if (order !== "norm_first") return { activations, gradients };
  // A ReLU leaves half of the mean square; the input alone has not been through one.
  return { activations: activations.map((v, l) => (l > 0 ? Math.sqrt(0.5) : v)), gradients: gradients.map((v, l) => (l > 0 ? v : Math.sqrt(0.5))) };
});

const raised = (v, power) => `${formatNumber(v, 6)}${superscript(power)}`;

/** Both sizes, as the law has them and as they are measured. */
const look = remember(({ order, scale, depth, network }) => ({ exact: law(order, scale, depth), seen: measured(order, scale, depth, network) }));

/** What is seen, in a few words. */
export function verdict({ order, scale, depth }) {
  if (order === "norm_first") return "Both stay level, whatever the weights";
  const [most] = law(order, scale, depth).gradients;
  if (order === "relu_first") return `The activations stay level, the gradient ${most < 10 ? "grows" : "explodes"}`;
  const what = most >= 10 ? "explode" : most <= 0.1 ? "vanish" : "stay near 1";
  return `Both ${what}: × ${formatNumber(scale, 6)} a layer`;
}

/** The numbers of the picture in a sentence. */
export function sentence(state) {
  const f = formatNumber;
  const { order, scale, depth } = state;
  const { exact, seen } = look(state);
  const found = `a real network of ${WIDTH} features ends at ${f(seen.activations[depth])}, and its gradient at ${f(seen.gradients[0])}.`;
  const layers = depth === 1 ? "one layer" : layersOf(depth);
  if (order === "none") {
    const start = `Each layer multiplies the activations by ${f(scale, 6)}, and on the way back the gradient too.`;
    return `${start} After ${layers} that is ${raised(scale, depth)} = ${f(exact.activations[depth])}; ${found}`;
  }
  const start = `The norm divides out the scale of the weights: the activations keep the RMS ${order === "norm_first" ? "1/√2" : "1"}`;
  if (order === "norm_first") return `${start}, and the gradient keeps its size. After ${layers} ${found}`;
  const more = `${start}. But each layer multiplies the gradient by 1/√(1 − 1/π) = ${f(growth(order, scale).back)}`;
  return `${more}, and ${layers} by ${f(exact.gradients[0])}; ${found}`;
}

// --- the guess -------------------------------------------------------------------------------

/** What is asked before anything is shown, or null where nothing changes with depth. */
export function question({ order, scale }) {
  if (order === "relu_first" || scale === 1) return null;
  const by = `${formatNumber(100 * Math.abs(scale - 1))} % too ${scale > 1 ? "large" : "small"}`;
  return `${order === "none" ? "There is no norm" : "A norm stands before each ReLU"}, and the weights are ${by} to keep the signal level. Drag the line to where you think the activations end.`;
}

/** How far off a guess was. */
export function answer({ order, scale, depth }, guessed) {
  const f = formatNumber;
  const exact = law(order, scale, depth).activations[depth];
  const off = Math.max(exact / guessed, guessed / exact);
  const how = off < 2 ? "you were close" : `you were off by a factor of ${f(off)}`;
  const is = order === "none" ? `${raised(scale, depth)} = ${f(exact)}` : "1/√2 = 0.707, whatever the weights";
  return `You said ${f(guessed)} at layer ${depth}. It is ${is}: ${how}.`;
}

// --- the page --------------------------------------------------------------------------------

const starts = () => ({
  "20 % too large": { order: "none", scale: 1.2, depth: 50 },
  "He’s √(2/H)": { order: "none", scale: 1, depth: 50 },
  "1 % too large": { order: "none", scale: 1.01, depth: 50 },
  "PyTorch’s Linear": { order: "none", scale: 0.408, depth: 50 },
  "Norm → ReLU, weights × 4": { order: "norm_first", scale: 4, depth: 50 },
  "ReLU → norm": { order: "relu_first", scale: 1, depth: 50 },
});

// Both sizes at every tenth layer, as they are measured and as the law has them.
const heads = ["layer", "activations", "law", "gradient", "law"];
const layers = [0, 10, 20, 30, 40, 50];
const columns = ({ exact, seen }) =>
  [seen.activations, exact.activations, seen.gradients, exact.gradients].map((sizes) => layers.map((layer) => sizes[layer] ?? "–"));

function build(tools) {
  const { now, put, traits: { network: { high } } } = tools;
  const another = button("Another network", () => put({ network: (now("network") % high) + 1 }), { "data-trait": "network" });
  return {
    charts: [depthChart(tools)],
    row: [tools.choice("order", "In each layer", orders), tools.field("scale", { says: (v) => `${formatNumber(v)} times √(2/H)` }), another],
    fold: [html("div", { class: "ln-fields" }, tools.field("depth", { says: layersOf })), tools.table(heads, layers.map(String), columns)],
  };
}

export default explorer({
  kind: "depth",
  label: "the size of a signal and of its gradient, by layer",
  question: "What happens to a signal over 50 layers?",
  hint: "Choose where the norm sits, scale the weights, and drag the last layer.",
  starts,
  look,
  build,
  guess: { ask: question, answer, others: [{ order: "norm_first", scale: 4 }, { scale: 1.01 }, { scale: 0.8 }] },
  readings: {
    last: ({ exact }) => exact.activations.at(-1),
    arrives: ({ exact }) => exact.gradients[0],
    growth: (_, { order, scale }) => growth(order, scale).back,
  },
  verdict,
  sentence,
});
