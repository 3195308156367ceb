/**
 * The sphere explorer: layer norm of three features as geometry.
 *
 * Centering drops x along (1, 1, 1) onto the plane where features sum to 0, scaling moves it along
 * its radius to the circle of radius √3, γ makes that an ellipse and β shifts it.
 * Traits: `x`, `weight`, `bias`, `eps`, `turn`. The arithmetic knows nothing of the page.
 */
import { fieldsOf, formatNumber, html, inLimits, linearSteps, logSteps, numberTable, roundTo, set, walk } from "./common_old.mjs";
import { frame } from "./frame.mjs";
import { CLOSE, ROOT3, inPlane, sphereChart } from "./sphere_charts.mjs";

// --- arithmetic ------------------------------------------------------------------------------

const [ONES, ZEROS] = [[1, 1, 1], [0, 0, 0]];
// x is 5, 7, 9 of the book's row, less the row's mean: within the picture.
export const defaults = Object.freeze({ x: [0, 2, 4], weight: ONES, bias: ZEROS, eps: 1e-5, turn: -105 });
export const limits = Object.freeze({ x: [-10000, 10000], weight: [-3, 3], bias: [-3, 3], eps: [1e-12, 10], turn: [-180, 180] });

const norm = ([a, b, c]) => Math.sqrt(a * a + b * b + c * c);
export const isConstant = ([a, b, c]) => a === b && b === c;
const isOne = (weight) => isConstant(weight) && weight[0] === 1;
const isMoved = ({ weight, bias }) => !isOne(weight) || bias.some((v) => v !== 0);

/** Every symbol of the formula, and what the picture needs besides: the length of x̂. */
export function terms(x, weight, bias, eps) {
  const mean = isConstant(x) ? x[0] : (x[0] + x[1] + x[2]) / 3; // (0.1 + 0.1 + 0.1) / 3 is not 0.1
  const centered = x.map((v) => v - mean);
  const [a, b, c] = centered;
  const variance = (a * a + b * b + c * c) / 3;
  const s = Math.sqrt(variance + eps);
  const rstd = 1 / s;
  const xHat = centered.map((v) => v * rstd);
  const y = xHat.map((v, i) => v * weight[i] + bias[i]);
  return { mean, var: variance, std: Math.sqrt(variance), s, rstd, centered, xHat, y, length: norm(xHat), constant: isConstant(x) };
}

/** dy/dx = diag(γ) J, where J = dx̂/dx = (I − 11ᵀ/3 − x̂x̂ᵀ/3) / s. */
export function jacobian(x, eps, weight = ONES) {
  const { xHat, rstd } = terms(x, ONES, ZEROS, eps);
  return xHat.map((a, i) => xHat.map((b, j) => weight[i] * rstd * ((i === j ? 1 : 0) - 1 / 3 - (a * b) / 3)));
}

/**
 * J's eigenvalues with unit directions: (1, 1, 1), x̂, and the tangent of the circle. At a constant
 * row x̂ has no direction; the last two are any two of the plane.
 */
export function eigen(x, eps) {
  const { centered: [a, b, c], rstd, constant } = terms(x, ONES, ZEROS, eps);
  const size = norm([a, b, c]);
  const around = [c - b, a - c, b - a].map((v) => v / (size * ROOT3));
  const [radial, tangent] = constant ? [inPlane(-Math.SQRT1_2, Math.SQRT1_2, 0), inPlane(Math.SQRT1_2, Math.SQRT1_2, 0)] : [[a, b, c].map((v) => v / size), around];
  return [
    { value: 0, direction: [1, 1, 1].map((v) => v / ROOT3) },
    { value: eps * rstd * rstd * rstd, direction: radial },
    { value: rstd, direction: tangent },
  ];
}

/** Numbers of x and the mean: three digits, or six where three would not tell the features apart. */
export function digitsOf(x) {
  const range = Math.max(...x) - Math.min(...x);
  return Math.max(...x.map(Math.abs)) > 50 * range ? 6 : 3;
}

const tidy = (v, below = 1e-9) => (Math.abs(v) <= below ? 0 : v); // rounding leaves 1e-17 for 0
const noise = (x) => 1e-12 * Math.max(...x.map(Math.abs));
export const tuple = (values, digits = 3) => `(${values.map((v) => formatNumber(v, digits)).join(", ")})`;

/** What is seen, in a few words. */
export function verdict({ x, weight, bias, eps }) {
  const { length, constant } = terms(x, weight, bias, eps);
  if (constant) return "A constant row: x̂ is 0";
  if (ROOT3 - length > CLOSE) return "ε pulls x̂ inside the circle";
  const shifted = bias.some((v) => v !== 0);
  if (isOne(weight)) return shifted ? "β moves the circle" : "x̂ stays on the circle of radius √3";
  return (isConstant(weight) ? "γ scales the circle" : "γ makes an ellipse") + (shifted ? "; β moves it" : "");
}

/** The numbers of the picture in a sentence. */
export function sentence(state) {
  const { x, weight, bias, eps } = state;
  const { mean, std, s, y, constant } = terms(x, weight, bias, eps);
  const f = formatNumber;
  const [, radial, around] = eigen(x, eps);
  const plane = constant
    ? `and any step in the plane by 1/√ε = ${f(1 / s)}.`
    : `along x̂ by ε/s³ = ${f(radial.value)} and along the circle by 1/s = ${f(around.value)}; s = √(σ² + ε).`;
  return (
    `x = ${tuple(x, digitsOf(x))}: μ = ${f(tidy(mean, noise(x)), digitsOf(x))}, σ = ${f(std)}. ` +
    `J multiplies a step along (1, 1, 1) by 0${constant ? "" : ","} ${plane}` +
    (isMoved(state) ? ` y = ${tuple(y.map((v) => tidy(v)))}.` : "")
  );
}

// --- the page --------------------------------------------------------------------------------

const { turn: _, ...ordinary } = defaults; // a start leaves the view to the reader
const starts = Object.entries({
  "Ordinary row": {},
  "Constant row": { x: [1, 1, 1] },
  "One outlier": { x: [0, 0, 6] },
  "Huge mean": { x: [1000, 1001, 1003] },
  "Large ε": { eps: 1 },
  "γ makes an ellipse": { weight: [2, 1, 0.5], bias: [0, 1, 0] },
}).map(([name, traits]) => [name, { ...ordinary, ...traits }]);

/** Every trait within its limits; a turn past half a circle comes in at the other end. */
export function settle(name, value) {
  return inLimits(name === "turn" ? value - 360 * Math.round(value / 360) : value, limits[name]);
}

/** What the picture and the tables say. */
function wordsOf({ x, terms: t, jacobian: matrix, turn }) {
  const f = formatNumber;
  const [digits, small] = [digitsOf(x), noise(x)];
  const [mean, row, centered] = [f(tidy(t.mean, small), digits), tuple(x, digits), t.centered.map((v) => tidy(v, small))];
  const xHat = `x̂ = ${tuple(t.xHat.map((v) => tidy(v)))}`;
  const column = (values, below, digits) => {
    const { mean, std } = terms(values, ONES, ZEROS, 0);
    return [...values, mean, std, norm(values)].map((v, i) => f(tidy(v, below), i < 4 ? digits : 3));
  };
  return {
    mean,
    jacobian: matrix.map((line) => line.map((v) => f(tidy(v, 1e-12 * t.rstd)))),
    x: `x = ${row}, mean ${mean}; ${xHat}`,
    shadow: `x − μ = ${tuple(centered)}, standard deviation ${f(t.std)}; ${xHat}`,
    turn: `${f(turn)} degrees`,
    view: `x = ${row}, its shadow on the plane of mean 0, and x̂ on the circle of radius √3, seen at a turn of ${f(turn)} degrees.`,
    columns: [column(x, small, digits), column(centered, small), column(t.xHat), column(t.y)],
  };
}

/** As many steps on: of ε, twenty a decade; of the turn, degrees. */
export const onward = {
  eps: walk(logSteps({ min: limits.eps[0], max: limits.eps[1] }), ...limits.eps),
  turn: (value, by) => settle("turn", roundTo(value + by, 12)),
};

/** The matrix of dy/dx, each number on its color; without γ it is J. */
function matrixTable() {
  const title = html("span");
  const { node, rows } = numberTable(["", "x₁", "x₂", "x₃"], ["", "", ""], "ln-matrix");
  return {
    node: html("div", { class: "ln-later", "data-trait": "x weight" }, html("p", { class: "ln-title" }, title), node),
    paint({ weight, jacobian: matrix, terms: { s }, told }) {
      const plain = isOne(weight);
      set(title, { text: plain ? "J = ∂x̂/∂x" : "diag(γ) J = ∂y/∂x" });
      const most = Math.max(1, ...weight.map(Math.abs)) / s; // J's numbers are at most ⅔ of 1/s
      rows.forEach(([name, ...cells], i) => {
        set(name, { text: (plain ? "x̂" : "y") + "₁₂₃"[i] });
        cells.forEach((cell, j) => {
          set(cell, { text: told.jacobian[i][j], class: matrix[i][j] < 0 ? "ln-minus" : "ln-plus" });
          // At half strength the number still has contrast.
          cell.style.setProperty("--ln-share", `${Math.min((Math.abs(matrix[i][j]) / most) * 75, 50).toFixed(1)}%`);
        });
      });
    },
  };
}

function build({ change, commit, now }) {
  const make = fieldsOf({ change, commit }, limits);
  const three = (trait, name, letter, reach) =>
    ["₁", "₂", "₃"].map((mark, i) => {
      const [symbol, put] = [letter + mark, (value) => change(trait, now(trait).with(i, value))];
      const steps = linearSteps({ min: -reach, max: reach, step: 0.1 });
      return { trait, i, symbol, ...make(trait, { symbol, name, steps, page: 10, change: put }) };
    });
  const fields = [...three("x", "Feature", "x", 6), ...three("weight", "Scale", "γ", 3), ...three("bias", "Shift", "β", 3)];
  const eps = make("eps", { symbol: "ε", name: "Constant", unit: "units of x²" });
  const live = () => ({ x: now("x"), terms: terms(now("x"), ONES, ZEROS, now("eps")), turn: now("turn") });
  const chart = sphereChart({ change, commit, live, onward });
  const matrix = matrixTable();
  const numbers = numberTable(["feature", "x", "x − μ", "x̂", "y"], ["1", "2", "3", "mean", "std", "length"], "ln-numbers");
  return {
    charts: [chart],
    parts: [html("div", { class: "ln-scene" }, chart.node, html("div", { class: "ln-side" }, matrix.node, html("div", { class: "ln-controls ln-later" }, eps.node)))],
    fold: [numbers.node, html("div", { class: "ln-triple" }, ...fields.map(({ node }) => node))],
    guess: {
      keeps: ["x", "turn"],
      ask: "Drag x or its shadow: x̂ leaves a trail. Two directions leave none. Drag beside them to turn it all.",
      answer: () => "Along (1, 1, 1) and, but for ε, along x − μ.",
    },
    paint(traits, { guessing }) {
      const { x, weight, bias } = traits;
      const state = { ...traits, moved: isMoved(traits), terms: terms(x, weight, bias, traits.eps), jacobian: jacobian(x, traits.eps, weight), eigen: eigen(x, traits.eps) };
      state.told = wordsOf(state);
      chart.paint(state, { guessing });
      matrix.paint(state);
      numbers.paint(state.told.columns);
      for (const one of fields) one.paint(traits[one.trait][one.i], `${one.symbol} = ${formatNumber(traits[one.trait][one.i])}`);
      eps.paint(traits.eps, `ε = ${formatNumber(traits.eps)}`);
    },
  };
}

function render(context) {
  const factor = (i) => ({ x, eps }) => formatNumber(eigen(x, eps)[i].value);
  return frame(context, {
    kind: "sphere",
    label: "layer norm of three features as geometry",
    question: "Where can you drag x without moving x̂?",
    hint: "Drag x, or its shadow x − μ on the plane; drag the background to turn it all.",
    starts,
    defaults,
    settle,
    build,
    nudges: onward,
    readings: {
      length: ({ x, weight, bias, eps }) => formatNumber(terms(x, weight, bias, eps).length),
      along: factor(1),
      around: factor(2),
    },
    verdict,
    sentence,
  });
}

export default { render };
