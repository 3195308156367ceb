/**
 * The sphere explorer: layer norm of three features as geometry.
 *
 * Centering drops x along (1, 1, 1) onto the plane where features sum to 0, scaling moves it along
 * its radius to the circle of radius √3, γ makes that an ellipse and β shifts it.
 * Traits: `x`, `weight`, `bias`, `eps`, `turn`. The arithmetic knows nothing of the page.
 */
import { clamp, field, formatNumber, html, linearSteps, logField, ownKeys, set } from "./common.mjs";
import { frame } from "./frame.mjs";
import { ROOT3, inPlane, sphereChart } from "./sphere_charts.mjs";

// --- arithmetic ------------------------------------------------------------------------------

const [ONES, ZEROS] = [[1, 1, 1], [0, 0, 0]];
export const defaults = Object.freeze({ x: [0, 0.8, 3.7], weight: ONES, bias: ZEROS, eps: 1e-5, turn: -90 });
export const limits = Object.freeze({ x: [-10000, 10000], weight: [-3, 3], bias: [-3, 3], eps: [1e-12, 10], turn: [-180, 180] });

/** Sums run from left to right, as torch runs them: the two sides agree to the last bit. */
const norm = ([a, b, c]) => Math.sqrt(a * a + b * b + c * c);
export const isConstant = ([a, b, c]) => a === b && b === c;

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

/** J = dx̂/dx = (I − 11ᵀ/3 − x̂x̂ᵀ/3) / s. */
export function jacobian(x, eps) {
  const { xHat, rstd } = terms(x, ONES, ZEROS, eps);
  return xHat.map((a, i) => xHat.map((b, j) => rstd * ((i === j ? 1 : 0) - 1 / 3 - (a * b) / 3)));
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

/** The numbers of the picture in a sentence; sphere.py says the same. */
export function sentence({ x, weight, bias, eps }) {
  const { mean, std, s, xHat, y, length, constant } = terms(x, weight, bias, eps);
  const f = formatNumber;
  const plain = weight.every((v) => v === 1) && bias.every((v) => v === 0);
  const row = tuple(x, digitsOf(x));
  if (constant) {
    return (
      `x = ${row} is a constant row: σ = 0, so x̂ = (0, 0, 0), the center of the circle, and y = β = ${tuple(bias)}. ` +
      `The Jacobian multiplies a step along (1, 1, 1) by 0 and any step in the plane by 1/√ε = ${f(1 / s)}, ` +
      `an eigenvalue that it has twice.`
    );
  }
  const [, radial, around] = eigen(x, eps);
  const last = plain ? "With γ = 1 and β = 0, y is x̂." : `With γ = ${tuple(weight)} and β = ${tuple(bias)}, y = ${tuple(y.map((v) => tidy(v)))}.`;
  return (
    `x = ${row} has mean μ = ${f(tidy(mean, noise(x)), digitsOf(x))} and standard deviation σ = ${f(std)}. ` +
    `x̂ = ${tuple(xHat.map((v) => tidy(v)))} has length ${f(tidy(length))}; √3 is 1.73. ` +
    `The Jacobian multiplies a step along (1, 1, 1) by 0, along x̂ by ε/s³ = ${f(radial.value)} ` +
    `and along the circle by 1/s = ${f(around.value)}. ${last}`
  );
}

// --- the page --------------------------------------------------------------------------------

const { turn: _, ...ordinary } = defaults; // a start leaves the view to the reader
const starts = Object.entries({
  "Ordinary row": {},
  "Constant row": { x: [2, 2, 2] },
  "One outlier": { x: [0, 0, 6] },
  "Huge mean": { x: [1000, 1001, 1003] },
  "Large ε": { eps: 1 },
  "γ makes an ellipse": { weight: [2, 1, 0.5], bias: [0, 1, 0] },
}).map(([name, traits]) => [name, { ...ordinary, ...traits }]);

/** Every trait within its limits; a turn past half a circle comes in at the other end. */
export function settle(name, value) {
  const [min, max] = limits[name];
  const clamped = (v) => clamp(v, min, max);
  if (name === "turn") return clamped(value - 360 * Math.round(value / 360));
  return Array.isArray(value) ? value.map(clamped) : clamped(value);
}

/** A table of heads and names; `paint` fills its cells, column by column. */
function table(heads, names, kind = "") {
  const rows = names.map((name) => [html("th", { scope: "row", text: name }), ...heads.slice(1).map(() => html("td"))]);
  const line = (cells) => html("tr", {}, ...cells);
  const top = line(heads.map((text) => html("th", { scope: "col", text })));
  const node = html("table", { class: `ln-table ${kind}` }, html("thead", {}, top), html("tbody", {}, ...rows.map(line)));
  return { node, rows, paint: (columns) => columns.forEach((column, j) => column.forEach((text, i) => set(rows[i][j + 1], { text }))) };
}

/** What the picture and the tables say. */
function wordsOf({ x, terms: t, jacobian: matrix, eigen: [, radial, around], turn }) {
  const f = formatNumber;
  const [digits, small] = [digitsOf(x), noise(x)];
  const [mean, row, centered] = [f(tidy(t.mean, small), digits), tuple(x, digits), t.centered.map((v) => tidy(v, small))];
  const column = (values, below, digits) => {
    const { mean, std } = terms(values, ONES, ZEROS, 0);
    return [...values, mean, std, norm(values)].map((v, i) => f(tidy(v, below), i < 4 ? digits : 3));
  };
  return {
    mean,
    jacobian: matrix.map((line) => line.map((v) => f(tidy(v, 1e-12 * t.rstd)))),
    x: `x = ${row}, mean ${mean}`,
    shadow: `x − μ = ${tuple(centered)}, standard deviation ${f(t.std)}`,
    view: `x = ${row}, its shadow on the plane of mean 0, and x̂ on the circle of radius √3, seen at a turn of ${f(turn)} degrees.`,
    columns: [column(x, small, digits), column(centered, small), column(t.xHat), column(t.y)],
    factors: ["× 0", t.constant ? `× 1/√ε = ${f(around.value)}, twice` : `× ε/s³ = ${f(radial.value)}`, `× 1/s = ${f(around.value)}`],
  };
}

function build({ change, commit }) {
  let now = defaults;
  const control = (kind, trait, options) =>
    kind({ min: limits[trait][0], max: limits[trait][1], change: (value) => change(trait, value), commit, ...options });
  const three = (trait, name, letter, reach) =>
    ["₁", "₂", "₃"].map((mark, i) => {
      const [symbol, put] = [letter + mark, (value) => change(trait, now[trait].with(i, value))];
      const steps = linearSteps({ min: -reach, max: reach, step: 0.1 });
      return { trait, i, symbol, ...control(field, trait, { symbol, name, steps, page: 10, change: put }) };
    });
  const features = three("x", "Feature", "x", 6);
  const affine = [...three("weight", "Weight", "γ", 3), ...three("bias", "Bias", "β", 3)];
  const eps = control(logField, "eps", { symbol: "ε", name: "Constant", unit: "units of x²" });
  const turn = control(field, "turn", { symbol: "Turn", name: "", unit: "degrees", steps: linearSteps({ min: -180, max: 180, step: 1 }) });
  const more = html("details", {}, html("summary", { text: "Change γ and β", ...ownKeys }), html("div", { class: "ln-triple" }, ...affine.map(({ node }) => node)));
  const chart = sphereChart({ change, commit });
  const matrix = table(["J", "x₁", "x₂", "x₃"], ["x̂₁", "x̂₂", "x̂₃"], "ln-matrix");
  const numbers = table(["feature", "x", "x − μ", "x̂", "y"], ["1", "2", "3", "mean", "std", "length"]);
  const steps = table(["a step of x along", "moves x̂ by"], ["(1, 1, 1)", "", "the circle"]);
  let opened = false;
  return {
    charts: [chart],
    parts: [
      html("div", { class: "ln-scene" }, chart.node, html("div", {}, html("p", { class: "ln-title" }, "The Jacobian J", html("small", { text: "∂x̂ᵢ ÷ ∂xⱼ" })), matrix.node, steps.node)),
      html("div", { class: "ln-triple" }, ...features.map(({ node }) => node)),
      html("div", { class: "ln-pair" }, html("div", {}, eps.node, turn.node), numbers.node),
      more,
    ],
    paint(traits) {
      now = traits;
      const { x, weight, bias } = traits;
      const moved = weight.some((v) => v !== 1) || bias.some((v) => v !== 0);
      const state = { ...traits, moved, terms: terms(x, weight, bias, traits.eps), jacobian: jacobian(x, traits.eps), eigen: eigen(x, traits.eps) };
      state.told = wordsOf(state);
      chart.paint(state);
      matrix.paint(state.told.jacobian); // J is symmetric: its columns are its rows
      state.jacobian.flat().forEach((value, k) => {
        const cell = matrix.rows[Math.floor(k / 3)][1 + (k % 3)];
        cell.className = value < 0 ? "ln-minus" : "ln-plus";
        // |J| is at most ⅔ of 1/s. At half strength the number still has contrast.
        cell.style.setProperty("--ln-share", `${Math.min(Math.abs(value) * state.terms.s * 75, 50).toFixed(1)}%`);
      });
      numbers.paint(state.told.columns);
      steps.paint([state.told.factors]);
      const { constant } = state.terms;
      set(steps.rows[1][0], { text: constant ? "any direction in the plane" : "x̂" });
      steps.rows[2][0].parentNode.hidden = constant;
      for (const one of [...features, ...affine]) one.paint(traits[one.trait][one.i], `${one.symbol} = ${formatNumber(traits[one.trait][one.i])}`);
      eps.paint(traits.eps, `ε = ${formatNumber(traits.eps)}`);
      turn.paint(traits.turn, `${formatNumber(traits.turn)} degrees`);
      if (moved && !opened) more.open = true; // once: the reader may close it
      opened = moved;
    },
    started: () => (more.open = opened),
  };
}

function render(context) {
  return frame(context, {
    kind: "sphere",
    label: "layer norm of three features as geometry",
    question: "Where can you drag x without moving x̂?",
    hint: "Drag x, or its shadow x − μ on the plane; drag the background to turn; or start from:",
    starts,
    defaults,
    settle,
    build,
    sentence,
  });
}

export default { render };
