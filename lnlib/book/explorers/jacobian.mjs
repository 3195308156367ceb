/**
 * The Jacobian of one row: each of its numbers is the sum of three ways from a feature to an output.
 *
 * Traits: `x`, `weight` and `eps`; `output` and `input`, the k and the i of ∂y_k/∂x_i; and `step`, the last
 * way that counts. The arithmetic comes first and knows nothing of the page.
 */
import { fieldsOf, formatNumber, html, inLimits, logSteps, numberTable, remember, sumByPairs, walk } from "./common_old.mjs";
import { frame } from "./frame.mjs";
import { four, matrixChart, sub, waysChart } from "./jacobian_charts.mjs";

// --- arithmetic ------------------------------------------------------------------------------

const ones = Object.freeze([1, 1, 1, 1]);
export const defaults = Object.freeze({ x: Object.freeze([1, 1, 5, 5]), weight: ones, eps: 0, output: 4, input: 4, step: 2 });
export const limits = Object.freeze({ x: [0, 10], weight: [-2, 2], eps: [1e-12, 100], output: [1, 4], input: [1, 4], step: [0, 2] });

/** The equations of the chapter that each way, and their sum, come from. */
export const equations = Object.freeze({ "eq-row-delta": "4.5", "eq-row-dmu": "4.7", "eq-row-ds": "4.8", "eq-row-root": "4.10" });

/** What the Jacobian is made of. */
export function row(x, eps) {
  const mean = sumByPairs(x) / 4;
  const centered = x.map((v) => v - mean);
  const variance = sumByPairs(centered.map((v) => v * v)) / 4;
  const denominator = Math.sqrt(variance + eps);
  return { mean, std: Math.sqrt(variance), denominator, xHat: centered.map((v) => v / denominator) };
}

/** What reaches y_k from a nudge of x_i directly, through μ and through σ; k and i count from 0. */
export function ways({ denominator, xHat }, weight, k, i) {
  if (denominator === 0) return [NaN, NaN, NaN];
  const own = weight[k] / denominator;
  return [k === i ? own : 0, -(own / 4), -((own * (xHat[k] * xHat[i])) / 4)];
}

/** The sums of the first way, of two and of all three, which is ∂y_k/∂x_i. */
export const sums = ([direct, mean, std]) => [direct, direct + mean, direct + mean + std];

const seen = remember((x, weight, eps, output, input, step) => {
  const [k, i, shown] = [output - 1, input - 1, row(x, eps)];
  const most = Math.max(1, ...weight.map(Math.abs)) / shown.denominator; // no number is larger
  const matrix = four((a) => four((b) => sums(ways(shown, weight, a, b))[step]));
  const write = (v) => formatNumber(Math.abs(v) <= 1e-12 * most ? 0 : v);
  /** A number as finely as a cell has room for: three digits of the largest, or two. */
  const inCell = (v, digits = 3) => {
    const grain = 10 ** (Math.floor(Math.log10(most)) + 1 - digits);
    return formatNumber(Math.round(v / grain) * grain);
  };
  // With γ = 1 no sum of ways leaves −½ … 1, divided by s.
  const [above, below] = [Math.max(1, ...weight), Math.max(0, ...weight.map((v) => -v))];
  const reach = [Math.min(-0.55 * above, -below), Math.max(above, 0.55 * below)].map((v) => v / shown.denominator);
  return { k, i, step, weight, ...shown, most, reach, matrix, write, inCell, ways: ways(shown, weight, k, i) };
});

/** Everything that is drawn and told, for one state of the traits. */
export const look = ({ x, weight, eps, output, input, step }) => seen(x, weight, eps, output, input, step);

const nameOf = (k, i) => `∂y${sub(k)}/∂x${sub(i)}`;

/** What is seen, in a few words. */
export function verdict(state) {
  const { k, i, step, denominator, weight, matrix, write, ways } = look(state);
  if (denominator === 0) return "0 ÷ 0: there is no derivative";
  const [said, mirror] = [write(matrix[k][i]), write(matrix[i][k])];
  if (step < 2) return `${["The direct way alone", "With the way through μ"][step]}: ${said}`;
  if (weight[k] === 0) return `γ${sub(k)} = 0: no way leads to y${sub(k)}`;
  if (said === "0") return `${nameOf(k, i)} = 0: the ${k === i ? "three" : "two"} ways cancel`;
  if (k === i) return `${nameOf(k, i)} = ${said}; directly ${write(ways[0])}`;
  if (said === mirror) return `${nameOf(k, i)} = ${said}, like its mirror`;
  return `γ${sub(k)} ≠ γ${sub(i)}: ${said}, its mirror ${mirror}`;
}

/** The numbers of the picture in a sentence. */
export function sentence(state) {
  const { k, i, step, denominator, matrix, write, ways } = look(state);
  if (denominator === 0) return "All features are equal and ε = 0: s is 0, and x̂ = 0 ÷ 0 has no derivative.";
  const said = ["directly", "through μ", "through σ"].map((way, j) => `${write(ways[j])} ${way}`).slice(0, step + 1);
  const start = `With ε = ${formatNumber(state.eps)}, s is ${formatNumber(denominator)}`;
  if (step === 0) return `${start}: ${said[0]}. The ways through μ and σ are left out.`;
  const made = `${said.slice(0, -1).join(", ")} and ${said.at(-1)} make ${write(matrix[k][i])}.`;
  return `${start}: ${made}${step === 1 ? " The way through σ is left out." : ""}`;
}

/** A number as a factor: in brackets, if it is below 0. */
const factor = (v) => (v < 0 ? `(${formatNumber(v)})` : formatNumber(v));

/**
 * Each way in letters and in numbers, with its equation, and last their sum. `H` is 4: the letters are
 * those of the chapter.
 */
export function expressions({ k, i, step, weight, denominator, xHat, matrix, write, ways }) {
  const [own, s, [delta, dmu, ds, root]] = [weight[k], formatNumber(denominator), Object.values(equations)];
  const [a, b] = [sub(k), sub(i)];
  const added = ways.slice(0, step + 1).map((v, j) => {
    const said = write(v);
    return j === 0 ? said : said.startsWith("−") ? `− ${said.slice(1)}` : `+ ${said}`;
  });
  return [
    { name: "directly", letters: `γ${a} δ${a}${b} / s`, numbers: `${formatNumber(own)} · ${Number(k === i)} / ${s}`, equation: delta, value: ways[0] },
    { name: "through μ", letters: `−γ${a} / (H s)`, numbers: `−${factor(own)} / (4 · ${s})`, equation: dmu, value: ways[1] },
    { name: "through σ", letters: `−γ${a} x̂${a} x̂${b} / (H s)`, numbers: `−${[own, xHat[k], xHat[i]].map(factor).join(" · ")} / (4 · ${s})`, equation: ds, value: ways[2] },
    { name: step < 2 ? "so far" : "in all", letters: step < 2 ? "" : nameOf(k, i), numbers: added.join(" "), equation: step < 2 ? "" : root, value: matrix[k][i] },
  ];
}

// --- the page --------------------------------------------------------------------------------

const starts = Object.entries({
  "The chapter’s row": {},
  "One outlier": { x: [1, 2, 3, 10] },
  "Constant row": { x: [5, 5, 5, 5], eps: 0.01, input: 1 },
  "γ = (1, 2, −1, 0)": { x: [1, 2, 3, 10], weight: [1, 2, -1, 0], output: 2, input: 1 },
  "Large ε": { eps: 12, input: 3 },
}).map(([name, traits]) => [name, { ...defaults, ...traits }]);

/** Every trait within its limits; ε may also be 0, and places are whole numbers. */
export function settle(name, value) {
  if (name === "eps" && value === 0) return 0;
  const within = inLimits(value, limits[name]);
  return ["output", "input", "step"].includes(name) ? Math.round(within) : within;
}

const steps = logSteps({ min: 0.01, max: 100, zero: true }); // what is smaller changes nothing that is seen

/** The matrix once more, with its sums: each line adds up to 0. */
function sumsTable() {
  const lines = four((k) => `y${sub(k)}`);
  const { node, paint } = numberTable(["", ...four((i) => `x${sub(i)}`), "sum"], [...lines, "sum"]);
  return {
    node,
    paint({ matrix, write }) {
      const columns = four((i) => matrix.map((line) => line[i]));
      const all = [...columns, matrix.map(sumByPairs)];
      paint(all.map((column) => [...column, sumByPairs(column)].map((v) => write(v))));
    },
  };
}

function build({ change, commit, put, now }) {
  const [matrix, each, table] = [matrixChart({ change, commit, put, now, limits }), waysChart({ put }), sumsTable()];
  const row = numberTable(["", ...four((i) => `${i + 1}`)], ["x", "x̂", "γ"]);
  const eps = fieldsOf({ change, commit }, limits)("eps", { symbol: "ε", name: "Constant", unit: "units of x²", zero: true, steps });
  return {
    charts: [matrix, each],
    parts: [html("div", { class: "ln-scene" }, matrix.node, each.node)],
    row: [eps.node],
    fold: [table.node, row.node],
    paint(state) {
      const shown = look(state);
      matrix.paint(state, shown);
      each.paint(shown, expressions(shown));
      eps.paint(state.eps, `ε = ${formatNumber(state.eps)}`);
      table.paint(shown);
      row.paint(four((i) => [state.x[i], shown.xHat[i], state.weight[i]].map((v) => formatNumber(v))));
    },
  };
}

function render(context) {
  const reading = (of) => (state) => look(state).write(of(look(state)));
  return frame(context, {
    kind: "jacobian",
    label: "the Jacobian of a row, and the three ways in each of its numbers",
    question: "When do the three ways from x to y cancel?",
    hint: "Tap a number; its mirror is dashed. Drag x and γ. The discs build the matrix up, way by way.",
    starts,
    defaults,
    settle,
    build,
    nudges: { eps: walk(steps, 0, limits.eps[1]) },
    readings: {
      entry: reading(({ matrix, k, i }) => matrix[k][i]),
      mirror: reading(({ matrix, k, i }) => matrix[i][k]),
      direct: reading(({ ways }) => ways[0]),
    },
    verdict,
    sentence,
  });
}

export default { render };
