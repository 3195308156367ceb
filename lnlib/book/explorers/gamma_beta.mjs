/**
 * The γ and β explorer: a row of twelve features is normalized, scaled by γ and moved by β.
 *
 * Traits: `row`, `weight`, `bias`; `feature`, the one that the controls act on (0: all); and `eps`, which
 * only Python sets: on all but the narrow row it moves little that one could see.
 */
import { choice, field, formatNumber, html, linearSteps, ownKeys, roundTo, set } from "./common.mjs";
import { frame } from "./frame.mjs";
import { histogramChart, lanesChart } from "./gamma_beta_charts.mjs";

// --- arithmetic ------------------------------------------------------------------------------

/** Eighths whose mean and variance binary holds too: Python and JavaScript agree to the last bit. */
export const rows = Object.freeze({
  skewed: [1.5, 2.5, 1, 2.25, 5.625, 1.75, 3.125, 8.375, 1.625, 3.75, 2.25, 2.25],
  wide: [-5.125, 0.625, -7.25, 2, 4.5, -3, -2.125, 6.5, -5.125, -0.5, 1.5, -4],
  narrow: [2.5, 1.75, 2.125, 1.625, 2, 2.25, 1.875, 1.75, 2.125, 2, 1.75, 2.25],
  "two groups": [-2.25, 4.25, -1.875, 3.875, 4.5, -1, 3.25, -2.875, 3.625, -1.75, 4.25, -2],
  constant: Array(12).fill(1.5),
});
const all = (value) => Array(12).fill(value);
export const defaults = Object.freeze({ row: "skewed", weight: all(1), bias: all(0), eps: 1e-5, feature: 0 });
export const limits = Object.freeze({ weight: [-5, 5], bias: [-8, 8], eps: [1e-12, 1] });

/** Mean and biased standard deviation. */
export function statistics(values) {
  const mean = values.reduce((sum, v) => sum + v, 0) / values.length;
  const variance = values.reduce((sum, v) => sum + (v - mean) * (v - mean), 0) / values.length;
  return { mean, std: Math.sqrt(variance), variance };
}

/** x̂, the row normalized. */
export function normalize(values, eps) {
  const { mean, variance } = statistics(values);
  const rstd = 1 / Math.sqrt(variance + eps);
  return values.map((x) => (x - mean) * rstd);
}

/** γ ⊙ x̂ + β, feature by feature. */
export function affine(xHat, weight, bias) {
  return xHat.map((v, i) => v * weight[i] + bias[i]);
}

/** The γ and β for which y is the row itself. */
export function undo(values, eps) {
  const { mean, variance } = statistics(values);
  return { weight: all(Math.sqrt(variance + eps)), bias: all(mean) };
}

/** Each value’s place in a dot histogram: the center of its bin, and its level there. */
export function bins(values, width) {
  const counts = new Map();
  return values.map((v) => {
    const bin = Math.floor(v / width + 0.5);
    const level = counts.get(bin) ?? 0;
    counts.set(bin, level + 1);
    return { center: bin * width, level };
  });
}

/** Whether all values are one, and their mean. */
export function shared(values) {
  const same = values.every((v) => v === values[0]);
  return { same, mean: same ? values[0] : statistics(values).mean };
}

/** All that is drawn and told. */
export function layer({ row, weight, bias, eps }) {
  const x = rows[row];
  const xHat = normalize(x, eps);
  const y = affine(xHat, weight, bias);
  const gap = Math.max(...y.map((v, i) => Math.abs(v - x[i])));
  const [inX, inXHat, inY] = [x, xHat, y].map(statistics);
  const [gamma, beta] = [weight, bias].map(shared);
  const bars = gamma.same && beta.same && gamma.mean < 0; // one γ says |γ|
  const std = bars ? -gamma.mean : gamma.mean;
  const agrees = { mean: tell(beta.mean) === tell(inY.mean), std: tell(std) === tell(inY.std) };
  const say = (agree, { same }, symbol, v) => `${agree ? "=" : "≠"} ${same ? "" : "mean "}${symbol} ${tell(v)}`;
  const said = { mean: say(agrees.mean, beta, "β", beta.mean), std: say(agrees.std, gamma, bars ? "|γ|" : "γ", std) };
  const undone = gap <= 1e-9 * Math.max(1, ...x.map(Math.abs));
  return { x, xHat, y, inX, inXHat, inY, gamma, beta, agrees, said, gap, undone };
}

/** Three digits of a number whose last bits are rounding errors: those of 0 become 0. */
export function tell(v) {
  return formatNumber(Math.abs(v) < 1e-12 ? 0 : roundTo(v, 10));
}

/** Whether γ and β are what the question asks. */
function verdict({ inX, inY, gamma, beta, agrees }, eps) {
  const [g, b] = [tell(gamma.mean), tell(beta.mean)];
  if (inX.std === 0) return "x̂ is 0, so y is β, whatever γ is.";
  if (gamma.same && gamma.mean === 0) return "γ is 0 for all features, so y is β, whatever the row.";
  if (gamma.same && beta.same) {
    const both = `γ is ${g} and β is ${b} for all features, so`;
    if (agrees.std) return `${both} ${gamma.mean < 0 ? "|γ| and β" : "they"} are the standard deviation and the mean of y.`;
    return (
      `${both} β is the mean of y; but ε = ${tell(eps)} is not small next to σ² = ${tell(inX.variance)}, ` +
      `and the standard deviation of y is ${tell(inY.std)}.`
    );
  }
  const say = (symbol, { same }, value, agree, what, measured) =>
    (same ? `${symbol} is ${value} for all features, ` : `${symbol} differs between features: its mean is ${value}, `) +
    (agree ? `and so is the ${what} of y` : `but the ${what} of y is ${tell(measured)}`);
  return (
    `${say("γ", gamma, g, agrees.std, "standard deviation", inY.std)}; ` +
    `${say("β", beta, b, agrees.mean, "mean", inY.mean)}.`
  );
}

/** The numbers of the picture in sentences; gamma_beta.py says the same. */
export function sentence(state) {
  const shown = layer(state);
  const { inX, inXHat, inY, gap, undone } = shown;
  const [hat, y] = [inXHat, inY].map(({ mean, std }) => `has ${tell(mean)} and ${tell(std)}`);
  const row = `The row has mean ${tell(inX.mean)} and standard deviation ${tell(inX.std)}`;
  const last = undone ? "y is the row itself." : `The largest |y − x| is ${tell(gap)}.`;
  return `${row}; x̂ ${hat}; y ${y}. ${verdict(shown, state.eps)} ${last}`;
}

// --- the page --------------------------------------------------------------------------------

/** The starts leave the row as it is; two of them look at it. */
function starts(model) {
  const x = () => rows[model.get("row")];
  const highest = () => x().indexOf(Math.max(...x()));
  const undone = () => undo(x(), model.get("eps"));
  return [
    ["Fresh layer", { weight: all(1), bias: all(0), feature: 0 }],
    ["One γ, one β", { weight: all(2), bias: all(1), feature: 0 }],
    ["One feature up", { weight: () => all(1).with(highest(), 3), bias: all(0), feature: () => highest() + 1 }],
    ["γ = 0", { weight: all(0), bias: all(0).map((_, i) => i / 2 - 2.75), feature: 0 }],
    ["Undo this row", { weight: () => undone().weight, bias: () => undone().bias, feature: 0 }],
  ];
}

/** Means and standard deviations, and what γ and β say of those of y. */
function numbersTable() {
  const heads = [["x", "the row"], ["x̂", "normalized"], ["y", "γ ⊙ x̂ + β"], ["β, γ", "parameters"]];
  const columns = ["mean", "std"].map((what) => ({ what, cells: heads.map(() => html("td")) }));
  const lines = heads.map(([symbol, long], i) => {
    const head = html("th", { scope: "row" }, symbol, html("small", { text: long }));
    return html("tr", {}, head, ...columns.map(({ cells }) => cells[i]));
  });
  const top = html("tr", {}, html("td"), ...["mean", "standard deviation"].map((text) => html("th", { scope: "col", text })));
  return {
    node: html("table", { class: "ln-table" }, html("thead", {}, top), html("tbody", {}, ...lines)),
    paint({ inX, inXHat, inY, said }) {
      for (const { what, cells } of columns) {
        [inX, inXHat, inY].forEach((stats, i) => set(cells[i], { text: tell(stats[what]) }));
        set(cells[3], { text: said[what] });
      }
    },
  };
}

/** A native list: all features, then one by one. */
function featureList(change) {
  const options = ["all features", ...all(0).map((_, i) => `feature ${i + 1}`)];
  const list = html("select", ownKeys, ...options.map((text, value) => html("option", { value, text })));
  list.addEventListener("change", () => change(Number(list.value)));
  const label = html("label", {}, html("span", { text: "γ and β of" }), list);
  return { node: html("div", { class: "ln-field" }, label), paint: (feature) => (list.value = feature) };
}

function build({ change, commit }) {
  let now = null;
  const put = (trait, value) =>
    change(trait, now[trait].map((old, i) => (now.feature === 0 || now.feature === i + 1 ? value : old)));
  const pick = (trait) => (value) => {
    change(trait, value);
    commit();
  };
  const parameter = (trait, symbol, name, step) => {
    const bounds = { min: limits[trait][0], max: limits[trait][1], commit };
    const steps = linearSteps({ ...bounds, step });
    const made = field({ ...bounds, symbol, name, unit: "no units", steps, change: (value) => put(trait, value) });
    const words = made.node.querySelector("label small");
    const paint = ({ feature, [trait]: values }) => {
      const { same, mean } = shared(feature === 0 ? values : [values[feature - 1]]);
      made.paint(mean, `${symbol} = ${tell(mean)}${same ? "" : ", the mean of 12 values"}`);
      set(words, { text: same ? "(no units)" : "(mean of 12 values)" });
    };
    return { ...made, paint };
  };
  const fields = [parameter("weight", "γ", "Scale", 0.05), parameter("bias", "β", "Shift", 0.1)];
  const rowChoice = choice({ legend: "Row x", options: Object.keys(rows).map((name) => [name, name]), change: pick("row") });
  const note = html("small");
  rowChoice.node.querySelector("legend").append(note);
  const list = featureList(pick("feature"));
  const charts = [lanesChart({ change, commit, pick: pick("feature"), limits, tell }), histogramChart({ bins, tell })];
  const table = numbersTable();
  return {
    charts,
    parts: [
      rowChoice.node,
      charts[0].node,
      html("div", { class: "ln-fields" }, list.node, ...fields.map((one) => one.node)),
      charts[1].node,
      table.node,
    ],
    paint(state) {
      now = state;
      const shown = layer(state);
      charts[1].paint(state, shown, charts[0].paint(state, shown));
      table.paint(shown);
      rowChoice.paint(state.row);
      list.paint(state.feature);
      for (const one of fields) one.paint(state);
      set(note, { text: shown.undone ? "y = x for this row; choose another" : "" });
    },
  };
}

function render(context) {
  return frame(context, {
    kind: "gamma-beta",
    label: "what γ and β make of a row",
    question: "Is γ the standard deviation of y, and β its mean?",
    hint: "Move γ and β, or drag a dot of y; tap a dot to move its feature alone. Start from:",
    starts: starts(context.model),
    defaults,
    build,
    sentence,
  });
}

export default { render };
