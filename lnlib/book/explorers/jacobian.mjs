/** The Jacobian of one row: each of its numbers is the sum of three paths from a feature to an output. */
import { explorer } from "./explorer.mjs";
import { formatNumber, html, remember, sub } from "./common.mjs";
import { four, matrixChart, nameOf, pathsChart } from "./jacobian_charts.mjs";
import { layerNorm } from "./norm.mjs";
import { stepper } from "./stepper.mjs";

// --- arithmetic ------------------------------------------------------------------------------

/** The equations of the chapter that each path, and their sum, come from. */
export const equations = Object.freeze({ "eq-row-delta": "4.5", "eq-row-dmu": "4.7", "eq-row-ds": "4.10", "eq-row-root": "4.13" });

/** What reaches y_k from a nudge of x_i directly, through μ and through s; k and i count from 0. */
export function paths({ denominator, xHat }, weight, k, i) {
  if (denominator === 0) return [NaN, NaN, NaN];
  const own = weight[k] / denominator;
  return [k === i ? own : 0, -(own / 4), -((own * (xHat[k] * xHat[i])) / 4)];
}

/** The sums of the first path, of two and of all three, which is ∂y_k/∂x_i. */
export const sums = ([direct, mean, s]) => [direct, direct + mean, direct + mean + s];

/** Everything that is drawn and told, for one state of the traits. */
export const look = remember(({ x, weight, eps, output, input, step }) => {
  const [k, i, norm] = [output - 1, input - 1, layerNorm(x, eps)];
  const most = Math.max(1, ...weight.map(Math.abs)) / norm.denominator; // no number is larger
  const matrix = four((a) => four((b) => sums(paths(norm, weight, a, b))[step]));
  const write = (v) => formatNumber(Math.abs(v) <= 1e-12 * most ? 0 : v);
  /** A number as finely as a cell has room for: three digits of the largest, or two. */
  const inCell = (v, digits = 3) => {
    const grain = 10 ** (Math.floor(Math.log10(most)) + 1 - digits);
    return formatNumber(Math.round(v / grain) * grain);
  };
  // With γ = 1 no sum of paths leaves −½ … 1, divided by s.
  const [above, below] = [Math.max(1, ...weight), Math.max(0, ...weight.map((v) => -v))];
  const reach = [Math.min(-0.55 * above, -below), Math.max(above, 0.55 * below)].map((v) => v / norm.denominator);
  const shown = { ...norm, k, i, step, weight, most, reach, matrix, write, inCell, paths: paths(norm, weight, k, i) };
  return { ...shown, told: expressions(shown) };
});

/** What is seen, in a few words. */
export function verdict(state) {
  const { k, i, step, denominator, weight, matrix, write, paths } = look(state);
  if (denominator === 0) return "0 ÷ 0: there is no derivative";
  const [said, mirror] = [write(matrix[k][i]), write(matrix[i][k])];
  if (step < 2) return `${["The direct path alone", "With the path through μ"][step]}: ${said}`;
  if (weight[k] === 0) return `γ${sub(k)} = 0: no path leads to y${sub(k)}`;
  if (said === "0") return `${nameOf(k, i)} = 0: the ${k === i ? "three" : "two"} paths cancel`;
  if (k === i) return `${nameOf(k, i)} = ${said}; directly ${write(paths[0])}`;
  if (said === mirror) return `${nameOf(k, i)} = ${said}, like its mirror`;
  return `γ${sub(k)} ≠ γ${sub(i)}: ${said}, its mirror ${mirror}`;
}

/** The numbers of the picture in a sentence. */
export function sentence(state) {
  const { k, i, step, denominator, matrix, write, paths } = look(state);
  if (denominator === 0) return "All features are equal and ε = 0: s is 0, and x̂ = 0 ÷ 0 has no derivative.";
  const said = ["directly", "through μ", "through s"].map((path, j) => `${write(paths[j])} ${path}`).slice(0, step + 1);
  const start = `With ε = ${formatNumber(state.eps)}, s is ${formatNumber(denominator)}`;
  if (step === 0) return `${start}: ${said[0]}. The paths through μ and s are left out.`;
  const made = `${said.slice(0, -1).join(", ")} and ${said.at(-1)} make ${write(matrix[k][i])}.`;
  return `${start}: ${made}${step === 1 ? " The path through s is left out." : ""}`;
}

/** A number as a factor: in brackets, if it is below 0, or x̂ where s is 0. */
const factor = (v) => (v < 0 ? `(${formatNumber(v)})` : Number.isNaN(v) ? "(0/0)" : formatNumber(v));

/**
 * Each path in letters and in numbers, with its equation, and last their sum. `H` is 4: the letters are
 * those of the chapter.
 */
function expressions({ k, i, step, weight, denominator, xHat, matrix, write, paths }) {
  const [own, a, b, [delta, dmu, ds, root]] = [weight[k], sub(k), sub(i), Object.values(equations)];
  const [s, through] = [formatNumber(denominator), [own, xHat[k], xHat[i]].map(factor).join(" · ")];
  const added = paths.slice(0, step + 1).map(write).map((v, j) => (j === 0 ? v : v.startsWith("−") ? `− ${v.slice(1)}` : `+ ${v}`));
  const all = step < 2 ? { name: "so far", letters: "", equation: "" } : { name: "in all", letters: nameOf(k, i), equation: root };
  return [
    { name: "directly", letters: `γ${a} δ${a}${b} / s`, numbers: `${formatNumber(own)} · ${+(k === i)} / ${s}`, equation: delta, value: paths[0] },
    { name: "through μ", letters: `−γ${a} / (H s)`, numbers: `−${factor(own)} / (4 · ${s})`, equation: dmu, value: paths[1] },
    { name: "through s", letters: `−γ${a} x̂${a} x̂${b} / (H s)`, numbers: `−${through} / (4 · ${s})`, equation: ds, value: paths[2] },
    { ...all, numbers: denominator > 0 ? added.join(" ") : "0/0", value: matrix[k][i] },
  ];
}

// --- the page --------------------------------------------------------------------------------

const starts = (first) => ({
  "One outlier": first,
  "Two and two": { ...first, x: [1, 1, 5, 5], input: 1 },
  "All different": { ...first, x: [1, 2, 3, 10] },
  "Constant row": { ...first, x: [5, 5, 5, 5], eps: 0.01, input: 1 },
  "γ = (1, 2, −1, 0)": { ...first, x: [1, 2, 3, 10], weight: [1, 2, -1, 0], output: 2, input: 1 },
  "Large ε": { ...first, eps: 12, input: 3 },
});

const [xs, ys] = [four((i) => `x${sub(i)}`), four((k) => `y${sub(k)}`)];
const sum = (all) => all.reduce((a, b) => a + b);

/** The matrix once more, with its sums: each line adds up to 0. */
function withSums({ matrix, write }) {
  const columns = [...four((i) => matrix.map((line) => line[i])), matrix.map(sum)];
  return columns.map((column) => [...column, sum(column)].map(write));
}

const moves = [["← One less", -1, "One less path"], ["One more →", 1, "One more path"], ["All", Infinity, "All three paths"]];

/** The numbers of the matrix that are 0, as they are counted line by line. */
export const zeros = ({ matrix, write }) => matrix.flat().flatMap((v, nth) => (write(v) === "0" ? nth : []));

function build(tools) {
  const charts = [matrixChart(tools), pathsChart()];
  const steps = stepper(tools, "step", moves, () => 2, { from: 1 });
  steps.classList.add("ln-later");
  const entries = tools.table(["", ...xs, "sum"], [...ys, "sum"], withSums);
  const row = tools.table(["", "1", "2", "3", "4"], ["x", "x̂", "γ"], ({ xHat }, { x, weight }) => four((i) => [x[i], xHat[i], weight[i]]));
  return {
    charts,
    parts: [html("div", { class: "ln-stepped" }, steps, html("div", { class: "ln-scene" }, ...charts.map(({ node }) => node)))],
    fold: [html("div", { class: "ln-fields" }, tools.field("eps")), entries, row],
  };
}

export default explorer({
  kind: "jacobian",
  label: "the Jacobian of a row, and the three paths in each of its numbers",
  question: "When do the three paths from x to y cancel?",
  hint: "Tap a number; tap it again for its mirror. Drag x and γ. Add the paths one by one.",
  starts,
  look,
  build,
  guess: {
    keeps: ["output", "input"],
    ask: (state) => look(state).denominator > 0 && "Which of the 16 derivatives are 0? Tap them.",
    answer(state, said) {
      const all = zeros(look(state));
      const right = said.filter((nth) => all.includes(nth)).length;
      const [wrong, missed] = [said.length - right, right < all.length ? " (○: missed)" : ""];
      return `You found ${right} of the ${all.length} zeros${missed}${wrong ? `, with ${wrong} wrong tap${wrong === 1 ? "" : "s"} (✗)` : ""}.`;
    },
    others: [{ weight: [1, 0, 1, 1] }, { x: [9, 1, 9, 9] }, { x: [1, 5, 5, 1] }],
  },
  readings: {
    entry: ({ matrix, k, i, write }) => write(matrix[k][i]),
    mirror: ({ matrix, k, i, write }) => write(matrix[i][k]),
    direct: ({ paths, write }) => write(paths[0]),
  },
  verdict,
  sentence,
});
