/** The row machine: eight numbers that a reader drags, and what layer norm makes of them. */
import { explorer } from "./explorer.mjs";
import { clamp, formatNumber, html, remember, roundTo } from "./common.mjs";
import { button } from "./controls.mjs";
import { layerNorm } from "./norm.mjs";
import { bound, gap, rowChart, strideOf } from "./row_charts.mjs";

// --- arithmetic ------------------------------------------------------------------------------

/** Every term of layer norm; `spread` is σ of x̂. */
export function terms(x, eps, weight, bias) {
  const norm = layerNorm(x, eps);
  return { ...norm, spread: norm.std / norm.denominator, y: norm.xHat.map((v) => weight * v + bias) };
}

const look = remember(({ x, eps, weight, bias }) => terms(x, eps, weight, bias));

/**
 * What μ and σ of a row are drawn to: `of(x)` are both, with a step of each, and `to(x, name, v)` is the row in the
 * same shape with another one, of numbers up to `high`. The shape is that of the row that was found, so it outlives
 * σ = 0, and the way back ends where it began; a constant row takes the book's shape.
 */
export function shaper(high = Infinity) {
  let [shape, aim, made] = [[], null, ""];
  const of = (x) => {
    if (`${x}` === made) return aim;
    const { mean, std, xHat } = layerNorm(x);
    shape = std > 0 ? xHat : [-1.5, -0.5, -0.5, -0.5, 0, 0, 1, 2];
    made = `${x}`;
    return (aim = { mean, std, steps: { mean: strideOf(Math.max(...x.map(Math.abs))), std: strideOf(std) } });
  };
  const to = (x, name, v) => {
    const { mean, std } = of(x);
    const [least, most] = name === "mean" ? [bound * std - high, high - bound * std] : [0, (high - Math.abs(mean)) / bound];
    aim = { ...aim, [name]: clamp(v, least, most) };
    const row = shape.map((z) => roundTo(aim.mean + aim.std * z, 14)); // without the last digits of binary
    made = `${row}`;
    return row;
  };
  return { of, to };
}

/** What the buttons make of a row. */
export const deeds = Object.freeze({
  "One feature → 10⁶": (x) => x.with(x.indexOf(Math.max(...x)), 1e6),
  "Flatten to σ\u00a0=\u00a010⁻⁴": (x) => shaper().to(x, "std", 1e-4),
});

const widthOf = (values) => Math.max(...values) - Math.min(...values);

/** What is seen, in a few words; `before` is x̂ as it was at the start. */
export function verdict(state, before) {
  const { std, variance, spread, xHat } = look(state);
  if (std === 0) return state.eps === 0 ? "0 ÷ 0: x̂ is NaN" : "All are equal: σ = 0, and x̂ = 0";
  if (spread < 0.995) return `ε ${variance < state.eps ? "decides" : "takes part"}: x̂ has spread ${formatNumber(spread)}`;
  const far = xHat.findIndex((v) => Math.abs(v) > 2); // there is room for one
  const [was, is] = [before, xHat].map((all) => widthOf(all.filter((_, i) => i !== far)));
  if (far < 0 || !(is < 0.95 * was)) return "x̂ has mean 0 and spread 1";
  return `The others span ${formatNumber(is, 2)}, not ${formatNumber(was, 2)} (outline)`;
}

/** The numbers of the picture in a sentence. */
export function sentence(state) {
  const { mean, std, denominator, spread, xHat, y } = look(state);
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
  let before = null; // the first state of this x̂
  return (state) => {
    const { std, xHat } = look(state);
    if (!(before && gap(xHat, before.xHat) < 0.005)) before = { x: state.x, std, xHat };
    return std > 0 && gap(state.x, before.x) > before.std / 2;
  };
}

// --- the page --------------------------------------------------------------------------------

const starts = (first) => ({
  "The book’s row": first,
  "One outlier": { x: [0, 0, 0, 0, 0, 0, 0, 8], eps: 0 },
  "Constant row": { x: Array(8).fill(5), eps: 1e-5 },
  "Two groups": { x: [1, 1, 1, 1, 9, 9, 9, 9], eps: 1e-5 },
});

const rows = [...[1, 2, 3, 4, 5, 6, 7, 8].map((i) => `feature ${i}`), "mean", "standard deviation"];

/** Eight features, then mean and standard deviation, of each of the four. */
function columns({ mean, std, spread, centered, xHat, y }, { x, weight, bias }) {
  const zero = spread * 0; // or NaN
  return [[...x, mean, std], [...centered, 0, std], [...xHat, zero, spread], [...y, zero + bias, Math.abs(weight) * spread]];
}

function build(tools) {
  const stays = stillness(); // of this view
  const before = layerNorm(tools.now("x"), tools.now("eps")).xHat;
  const fields = html("div", { class: "ln-fields" }, ...["eps", "weight", "bias"].map((trait) => tools.field(trait)));
  return {
    charts: [rowChart({ ...tools, before, shape: shaper(tools.traits.x.high) })],
    row: Object.entries(deeds).map(([name, deed]) => button(name, () => tools.put({ x: deed(tools.now("x")) }))),
    fold: [fields, tools.table(["", "x", "x − μ", "x̂", "y"], rows, columns)],
    verdict: (state) => (stays(state) ? "That moved the row, but not x̂" : verdict(state, before)),
  };
}

export default explorer({
  kind: "row",
  label: "a row and its layer norm",
  question: "Drag one bar far up. What happens to the others?",
  hint: "Drag the ring of a bar, or of μ or σ, which move them all. Arrow keys move a ring too.",
  starts,
  look,
  build,
  readings: {
    mean: ({ mean }) => mean,
    std: ({ std }) => std,
    spread: ({ spread }) => spread,
    largest: ({ xHat }) => Math.max(...xHat),
  },
  sentence,
});
