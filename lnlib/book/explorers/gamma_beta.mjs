/**
 * The γ and β explorer: a row of eight features is normalized, scaled by γ and moved by β.
 *
 * Traits: `row`, `weight`, `bias`; `feature`, the one that the controls act on (0: all); and `eps`, which
 * only Python sets: on all but the narrow row it moves little that one could see.
 */
import { choice, clamp, field, formatNumber, html, inLimits, linearSteps, nativeList, remember, roundTo, set, walk } from "./common_old.mjs";
import { frame } from "./frame.mjs";
import { lanesChart } from "./gamma_beta_charts.mjs";

// --- arithmetic ------------------------------------------------------------------------------

/** Eighths whose mean and variance binary holds too: no sum depends on the order of its terms. */
export const rows = Object.freeze({
  book: [2, 4, 4, 4, 5, 5, 7, 9],
  wide: [2.875, 6.25, -1.875, -5.625, 0.25, -5.75, -4.5, 0.375],
  narrow: [2.5, 1.875, 2, 1.75, 2.125, 2, 1.625, 2.125],
  "two groups": [-1.875, 3.75, 3.5, 4.375, -2.625, 4.25, -2.125, -1.25],
  constant: Array(8).fill(1.5),
});
const all = (value) => Array(8).fill(value);
export const defaults = Object.freeze({ row: "book", weight: all(1), bias: all(0), eps: 1e-5, feature: 0 });
export const limits = Object.freeze({ weight: [-5, 5], bias: [-8, 8], eps: [1e-12, 1] });
const strides = { weight: 0.05, bias: 0.1 };

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

/** Whether all values are one, and their mean. */
export function shared(values) {
  const same = values.every((v) => v === values[0]);
  return { same, mean: same ? values[0] : statistics(values).mean };
}

/** Whether two numbers are one, to within a rounding of three digits. */
const close = (a, b) => Math.abs(a - b) <= 5e-4 * Math.max(Math.abs(a), Math.abs(b)) + 1e-12;

/** All that is drawn and told. */
export const layer = remember(({ row, weight, bias, eps }) => {
  const x = rows[row];
  const xHat = normalize(x, eps);
  const y = affine(xHat, weight, bias);
  const gap = Math.max(...y.map((v, i) => Math.abs(v - x[i])));
  const [inX, inXHat, inY] = [x, xHat, y].map(statistics);
  const [gamma, beta] = [weight, bias].map(shared);
  const bars = gamma.same && gamma.mean < 0; // one γ says |γ|
  const std = bars ? -gamma.mean : gamma.mean;
  const agrees = { mean: close(beta.mean, inY.mean), std: close(std, inY.std) };
  const undone = gap <= 1e-9 * Math.max(1, ...x.map(Math.abs));
  return { x, xHat, y, inX, inXHat, inY, gamma, beta, bars, agrees, undone };
});

/** Three digits of a number whose last bits are rounding errors: those of 0 become 0. */
export function tell(v) {
  return formatNumber(Math.abs(v) < 1e-12 ? 0 : roundTo(v, 10));
}

/** What γ and β say of the mean and the standard deviation of y: "= β 1", "≠ mean γ 1.25". */
export function said({ gamma, beta, bars, agrees }) {
  const say = (agree, { same, mean }, symbol) =>
    `${agree ? "=" : "≠"} ${same ? "" : "mean "}${symbol} ${tell(symbol === "|γ|" ? -mean : mean)}`;
  return { mean: say(agrees.mean, beta, "β"), std: say(agrees.std, gamma, bars ? "|γ|" : "γ") };
}

/** Whether γ and β are what the question asks, in a few words. */
export function verdict(state) {
  const { inX, gamma, beta, bars, agrees, undone } = layer(state);
  if (gamma.same && gamma.mean === 0) return "y is β, whatever the row";
  if (undone) return "y is the row itself";
  if (inX.std === 0) return "x̂ is 0: y is β, whatever γ is";
  if (!gamma.same) return `γ differs${agrees.std ? ", yet its mean is" : ": its mean is not"} the spread`;
  const g = bars ? "|γ|" : "γ";
  if (!beta.same) return `β differs${agrees.std ? `, yet ${g} is` : `: ${g} is not`} the spread of y`;
  return agrees.std ? `${g} is the spread of y, β its mean` : `ε keeps the spread below ${g}`;
}

/** The numbers of the picture in a sentence. */
export function sentence(state) {
  const { inX, inXHat, inY, gamma, beta, agrees } = layer(state);
  const [row, xHat, y] = [inX, inXHat, inY].map(({ mean, std }) => `${tell(mean)} and ${tell(std)}`);
  const say = (symbol, { same, mean }) => `${symbol} ${same ? "is" : "averages"} ${tell(mean)}`;
  const blurred = gamma.same && beta.same && inX.variance > 0 && !agrees.std;
  const small = blurred ? ` ε = ${tell(state.eps)} is not small next to σ² = ${tell(inX.variance)}.` : "";
  return (
    `Mean and standard deviation are ${row} in the row, ${xHat} in x̂, ${y} in y; ` +
    `${say("γ", gamma)} and ${say("β", beta)}.${small}`
  );
}

/** A value made one that the trait takes, or undefined for the name of no row. */
export function settle(name, value) {
  if (name === "row") return Object.hasOwn(rows, value) ? value : undefined;
  if (name === "feature") return clamp(Math.round(value), 0, 8);
  return inLimits(value, limits[name]);
}

/** γ or β of all features, so many steps on; there and back is where it was. */
const nudge = (trait) => (values, by) => settle(trait, values.map((v) => Math.round((v + by * strides[trait]) * 1e9) / 1e9));
export const nudges = { weight: nudge("weight"), bias: nudge("bias") };

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
    ["γ = 0", { weight: all(0), bias: all(0).map((_, i) => i / 2 - 1.75), feature: 0 }],
    ["Undo this row", { weight: () => undone().weight, bias: () => undone().bias, feature: 0 }],
  ];
}

/** Means and standard deviations, and what γ and β say of those of y. */
function numbersTable() {
  const heads = [["x", "the row"], ["x̂", "normalized"], ["y", "γ ⊙ x̂ + β"], ["β, γ", "parameters"]];
  const columns = ["mean", "std"].map((what) => ({ what, cells: heads.map(() => html("td")) }));
  const lines = heads.map(([symbol, long], i) => {
    const head = html("th", { scope: "row" }, html("span", { text: symbol }), html("small", { text: long }));
    return html("tr", {}, head, ...columns.map(({ cells }) => cells[i]));
  });
  const top = html("tr", {}, html("td"), ...["mean", "standard deviation"].map((text) => html("th", { scope: "col", text })));
  return {
    node: html("table", { class: "ln-table" }, html("thead", {}, top), html("tbody", {}, ...lines)),
    paint(shown) {
      const words = said(shown);
      for (const { what, cells } of columns) {
        [shown.inX, shown.inXHat, shown.inY].forEach((stats, i) => set(cells[i], { text: tell(stats[what]) }));
        set(cells[3], { text: words[what] });
      }
    },
  };
}

function build({ change, commit, put, now }) {
  const parameter = (trait, symbol) => {
    const bounds = { min: limits[trait][0], max: limits[trait][1], commit };
    const steps = linearSteps({ ...bounds, step: strides[trait] });
    const putAll = (value) => {
      const feature = now("feature");
      change(trait, now(trait).map((old, i) => (feature === 0 || feature === i + 1 ? value : old)));
    };
    const made = field({ ...bounds, trait, symbol, name: "", unit: "no units", steps, change: putAll });
    const words = made.node.querySelector("label small");
    const paint = ({ feature, [trait]: values }) => {
      const { same, mean } = shared(feature === 0 ? values : [values[feature - 1]]);
      const whose = feature ? `of feature ${feature}` : same ? "of all features" : "on average";
      set(words, { text: whose });
      made.paint(mean, `${symbol} ${whose} = ${tell(mean)}`);
    };
    return { ...made, paint };
  };
  const fields = [parameter("weight", "γ"), parameter("bias", "β")];
  const rowChoice = choice({ legend: "Row x", options: Object.keys(rows).map((name) => [name, name]), change: (row) => put({ row }) });
  set(rowChoice.node, { "data-trait": "row" });
  const note = html("small");
  rowChoice.node.querySelector("legend").append(note);
  const pick = (feature) => put({ feature });
  const options = ["all features", ...all(0).map((_, i) => `feature ${i + 1}`)].map((name, value) => [value, name]);
  const list = nativeList({ trait: "feature", label: "The controls of γ and β act on", options, change: (value) => pick(Number(value)) });
  const step = walk(linearSteps({ min: limits.bias[0], max: limits.bias[1], step: strides.bias }), ...limits.bias);
  const lanes = lanesChart({ change, commit, now, layer, pick, limits, step, tell });
  const table = numbersTable();
  return {
    charts: [lanes],
    parts: [lanes.node],
    row: fields.map((one) => one.node),
    fold: [rowChoice.node, list.node, table.node],
    paint(state) {
      const shown = layer(state);
      lanes.paint(state, shown);
      table.paint(shown);
      rowChoice.paint(state.row);
      list.paint(state.feature);
      for (const one of fields) one.paint(state);
      set(note, { text: shown.undone ? "now choose another" : "" });
    },
  };
}

function render(context) {
  const reading = (make) => (state) => tell(make(layer(state)));
  return frame(context, {
    kind: "gamma-beta",
    label: "what γ and β make of a row",
    question: "Is γ the standard deviation of y, and β its mean?",
    hint: "Drag a dot of y, or tap it, to move its β and γ alone; tap it again to move those of all.",
    starts: starts(context.model),
    defaults,
    settle,
    build,
    nudges,
    readings: {
      mean: reading(({ inY }) => inY.mean),
      std: reading(({ inY }) => inY.std),
      weight: reading(({ gamma }) => gamma.mean),
      bias: reading(({ beta }) => beta.mean),
    },
    verdict,
    sentence,
  });
}

export default { render };
