/** The row machine: eight numbers that a reader drags, and what layer norm makes of them. */
import { explorer } from "./explorer.mjs";
import { formatNumber, html, remember, roundTo, set } from "./common.mjs";
import { button } from "./controls.mjs";
import { layerNorm } from "./norm.mjs";
import { rowChart } from "./row_charts.mjs";

// --- arithmetic ------------------------------------------------------------------------------

/** Every term of layer norm; `spread` is σ of x̂. */
export function terms(x, eps, weight, bias) {
  const norm = layerNorm(x, eps);
  return { ...norm, spread: norm.std / norm.denominator, y: norm.xHat.map((v) => weight * v + bias) };
}

const look = remember(({ x, eps, weight, bias }) => terms(x, eps, weight, bias));

/** The row with the same shape around the same mean, and σ = 10⁻⁴; a constant one takes the book's shape. */
export function flatten(x) {
  const { mean, std, xHat } = layerNorm(x);
  const shape = std > 0 ? xHat : [-1.5, -0.5, -0.5, -0.5, 0, 0, 1, 2];
  return shape.map((v) => mean + 1e-4 * v);
}

/** What the buttons make of a row. */
export const deeds = Object.freeze({
  "×10": (x) => x.map((v) => roundTo(v * 10, 15)),
  "+100": (x) => x.map((v) => roundTo(v + 100, 15)),
  "One feature → 10⁶": (x) => x.with(x.indexOf(Math.max(...x)), 1e6),
  "Flatten to σ\u00a0=\u00a010⁻⁴": flatten,
});

/** What is seen, in a few words. */
export function verdict(state) {
  const { std, variance, spread, xHat } = look(state);
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
  let [before, still] = [null, false];
  const gap = (a, b) => Math.max(...a.map((v, i) => Math.abs(v - b[i])));
  return (state) => {
    const { std, xHat } = look(state);
    if (!(before && gap(xHat, before.xHat) < 0.005)) still = false;
    else if (gap(state.x, before.x) > before.std / 2) still = true;
    before = { x: state.x, std, xHat };
    return still && std > 0;
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
  const buttons = Object.entries(deeds).map(([name, deed]) => button(name, () => tools.put({ x: deed(tools.now("x")) })));
  const fits = (x) => Object.values(deeds).map((deed) => deed(x).every((v) => Math.abs(v) <= tools.traits.x.high));
  const fields = html("div", { class: "ln-fields" }, ...["eps", "weight", "bias"].map((trait) => tools.field(trait)));
  return {
    charts: [rowChart(tools)],
    row: buttons,
    fold: [fields, tools.table(["", "x", "x − μ", "x̂", "y"], rows, columns)],
    paint: ({ x }) => fits(x).forEach((fit, i) => set(buttons[i], { "aria-disabled": !fit })),
    verdict: (state) => (stays(state) ? "The row moved, x̂ did not" : verdict(state)),
  };
}

export default explorer({
  kind: "row",
  label: "a row and its layer norm",
  question: "Drag one bar far up. What happens to the others?",
  hint: "Drag a bar of x by its ring, or move it with the arrow keys.",
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
