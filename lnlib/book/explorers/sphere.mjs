/**
 * The sphere explorer: layer norm of three features as geometry.
 *
 * Centering drops x along (1, 1, 1) onto the plane where features sum to 0, scaling moves it along
 * its radius to the circle of radius √3, γ makes that an ellipse and β shifts it.
 */
import { explorer } from "./explorer.mjs";
import { formatNumber, html, remember, set, sub } from "./common.mjs";
import { numberTable } from "./controls.mjs";
import { backThrough, layerNorm } from "./norm.mjs";
import { CLOSE, ROOT3, inPlane, sphereChart } from "./sphere_charts.mjs";

// --- arithmetic ------------------------------------------------------------------------------

const isConstant = ([a, b, c]) => a === b && b === c;
const isOne = (weight) => weight.every((v) => v === 1);

/** Every symbol of the formula, and what the picture needs besides: the length of x̂. */
export function terms(x, weight, bias, eps) {
  const { denominator: s, xHat, ...more } = layerNorm(x, eps);
  const y = xHat.map((v, i) => v * weight[i] + bias[i]);
  return { ...more, s, xHat, y, length: Math.hypot(...xHat), constant: isConstant(x) };
}

/** dy/dx = diag(γ) J, where J = dx̂/dx = (I − 11ᵀ/3 − x̂x̂ᵀ/3) / s. */
export function jacobian(x, eps, weight = [1, 1, 1]) {
  const norm = layerNorm(x, eps);
  return weight.map((w, i) => backThrough([0, 0, 0].with(i, w), norm));
}

/**
 * J's eigenvalues with unit directions: (1, 1, 1), x̂, and the tangent of the circle. At a constant
 * row x̂ has no direction; the last two are any two of the plane.
 */
export function eigen(x, eps) {
  const { centered: [a, b, c], denominator: s } = layerNorm(x, eps);
  const unit = (...v) => v.map((one) => one / Math.hypot(...v));
  const ways = isConstant(x) ? [[-1, 1], [1, 1]].map((to) => inPlane(...unit(...to), 0)) : [unit(a, b, c), unit(c - b, a - c, b - a)];
  return [[0, unit(1, 1, 1)], [eps / s ** 3, ways[0]], [1 / s, ways[1]]].map(([value, direction]) => ({ value, direction }));
}

/** Numbers of x and the mean: three digits, or six where three would not tell the features apart. */
export function digitsOf(x) {
  const range = Math.max(...x) - Math.min(...x);
  return Math.max(...x.map(Math.abs)) > 50 * range ? 6 : 3;
}

const tidy = (v, below = 1e-9) => (Math.abs(v) <= below ? 0 : v); // rounding leaves 1e-17 for 0
const noise = (x) => 1e-12 * Math.max(...x.map(Math.abs));
export const tuple = (values, digits = 3) => `(${values.map((v) => formatNumber(v, digits)).join(", ")})`;

/** All that is drawn and told. */
const look = remember((state) => {
  const { x, weight, bias, eps } = state;
  const moved = !isOne(weight) || bias.some((v) => v !== 0);
  const made = { moved, terms: terms(x, weight, bias, eps), jacobian: jacobian(x, eps, weight), eigen: eigen(x, eps) };
  return { ...made, told: wordsOf(state, made) };
});

/** What is seen, in a few words. */
export function verdict(state) {
  const { weight, bias } = state;
  const { length, constant } = look(state).terms;
  if (constant) return "A constant row: x̂ is 0";
  if (ROOT3 - length > CLOSE) return "ε pulls x̂ inside the circle";
  const shifted = bias.some((v) => v !== 0);
  if (isOne(weight)) return shifted ? "β moves the circle" : "x̂ stays on the circle of radius √3";
  return (isConstant(weight) ? "γ scales the circle" : "γ makes an ellipse") + (shifted ? "; β moves it" : "");
}

/** The numbers of the picture in a sentence. */
export function sentence(state) {
  const { terms: { std, s, y, constant }, eigen: [, radial, around], moved, told } = look(state);
  const f = formatNumber;
  const plane = constant
    ? `and any step in the plane by 1/√ε = ${f(1 / s)}.`
    : `along x̂ by ε/s³ = ${f(radial.value)} and along the circle by 1/s = ${f(around.value)}; s = √(σ² + ε).`;
  return (
    `x = ${told.row}: μ = ${told.mean}, σ = ${f(std)}. ` +
    `J multiplies a step along (1, 1, 1) by 0${constant ? "" : ","} ${plane}` +
    (moved ? ` y = ${tuple(y.map((v) => tidy(v)))}.` : "")
  );
}

/** What the picture, the sentence and the tables say. */
function wordsOf({ x, turn }, { terms: t, jacobian: matrix }) {
  const f = formatNumber;
  const [digits, small] = [digitsOf(x), noise(x)];
  const [mean, row, centered] = [f(tidy(t.mean, small), digits), tuple(x, digits), t.centered.map((v) => tidy(v, small))];
  const xHat = `x̂ = ${tuple(t.xHat.map((v) => tidy(v)))}`;
  const column = (values, below, digits) => {
    const { mean, std } = layerNorm(values);
    return [...values, mean, std, Math.hypot(...values)].map((v, i) => f(tidy(v, below), i < 4 ? digits : 3));
  };
  return {
    ...{ mean, row },
    jacobian: matrix.map((line) => line.map((v) => f(tidy(v, 1e-12 / t.s)))),
    x: `x = ${row}, mean ${mean}; ${xHat}`,
    shadow: `x − μ = ${tuple(centered)}, standard deviation ${f(t.std)}; ${xHat}`,
    turn: `${f(turn)} degrees`,
    view: `x = ${row}, its shadow on the plane of mean 0, and x̂ on the circle of radius √3, seen at a turn of ${f(turn)} degrees.`,
    columns: [column(x, small, digits), column(centered, small), column(t.xHat), column(t.y)],
  };
}

// --- the page --------------------------------------------------------------------------------

/** A start leaves the view to the reader. */
function starts({ turn, ...ordinary }) {
  const from = (traits) => ({ ...ordinary, ...traits });
  return {
    "Ordinary row": from({}),
    "Constant row": from({ x: [1, 1, 1] }),
    "One outlier": from({ x: [0, 0, 6] }),
    "Huge mean": from({ x: [1000, 1001, 1003] }),
    "Large ε": from({ eps: 1 }),
    "γ makes an ellipse": from({ weight: [2, 1, 0.5], bias: [0, 1, 0] }),
  };
}

/** The matrix of dy/dx, each number on its color; without γ it is J. */
function matrixTable() {
  const title = html("span");
  const { node, rows } = numberTable(["", "x₁", "x₂", "x₃"], ["", "", ""], "ln-matrix");
  return {
    node: html("div", { "data-trait": "x weight" }, html("p", { class: "ln-title" }, title), node),
    paint({ weight }, { jacobian: matrix, terms: { s }, told }) {
      const plain = isOne(weight);
      set(title, { text: plain ? "J = ∂x̂/∂x" : "diag(γ) J = ∂y/∂x" });
      const most = Math.max(1, ...weight.map(Math.abs)) / s; // J's numbers are at most ⅔ of 1/s
      rows.forEach(([name, ...cells], i) => {
        set(name, { text: (plain ? "x̂" : "y") + sub(i) });
        cells.forEach((cell, j) => {
          const share = Math.min((Math.abs(matrix[i][j]) / most) * 75, 50); // at half strength the number still has contrast
          const kind = matrix[i][j] < 0 ? "ln-vermillion" : "ln-blue";
          set(cell, { text: told.jacobian[i][j], class: kind, style: `--ln-share: ${share.toFixed(1)}%` });
        });
      });
    },
  };
}

function build(tools) {
  const fields = ["x", "weight", "bias"].flatMap((trait) => [0, 1, 2].map((i) => tools.field(trait, { i })));
  const chart = sphereChart(tools);
  const matrix = tools.shows(matrixTable(), (state, seen) => [state, seen]);
  const side = html("div", { class: "ln-side ln-later" }, matrix, html("div", { class: "ln-controls" }, tools.field("eps")));
  const names = ["1", "2", "3", "mean", "std", "length"];
  const numbers = tools.table(["feature", "x", "x − μ", "x̂", "y"], names, ({ told }) => told.columns, "ln-numbers");
  return {
    charts: [chart],
    parts: [html("div", { class: "ln-scene" }, html("div", {}, chart.node, tools.asked), side)],
    fold: [numbers, html("div", { class: "ln-triple" }, ...fields)],
  };
}

export default explorer({
  kind: "sphere",
  label: "layer norm of three features as geometry",
  question: "Where can you drag x without moving x̂?",
  hint: "Drag x, or its shadow x − μ on the plane; drag the background to rotate the picture.",
  starts,
  look: (state) => look(state), // seen or guessed alike
  build,
  guess: {
    keeps: ["x", "turn"],
    ask: () => "Drag x or its shadow: x̂ leaves a trail. Find the two directions that leave none. Drag the background to rotate the picture.",
    answer: (_, said) => `Along (1, 1, 1) and, but for ε, along x − μ. You found ${["neither", "one of them", "both"][said]}.`,
    // Near the middle a small step swings x̂ far round; a mean of 1000 is out of sight; y goes round an ellipse.
    others: [{ x: [1, 1.4, 0.9] }, { x: [1000, 1001, 1003] }, { x: [2, -1, 0], weight: [2, 1, 0.5], bias: [0, 1, 0] }],
  },
  readings: {
    length: ({ terms: { length } }) => length,
    along: ({ eigen: [, along] }) => along.value,
    around: ({ eigen: [, , around] }) => around.value,
  },
  verdict,
  sentence,
});
