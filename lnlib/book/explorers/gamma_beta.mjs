/** The γ and β explorer: a row of eight features is normalized, scaled by γ and moved by β. */
import { explorer } from "./explorer.mjs";
import { formatNumber, html, remember, roundTo, set } from "./common.mjs";
import { lanesChart } from "./gamma_beta_charts.mjs";
import { layerNorm } from "./norm.mjs";

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

/** The γ and β for which y is the row itself. */
export function undo(values, eps) {
  const { mean, denominator } = layerNorm(values, eps);
  return { weight: all(denominator), bias: all(mean) };
}

/** Whether all values are one, and their mean. */
const shared = (values) => ({ same: values.every((v) => v === values[0]), mean: layerNorm(values).mean });

/** Whether two numbers are one, to within a rounding of three digits. */
const close = (a, b) => Math.abs(a - b) <= 5e-4 * Math.max(Math.abs(a), Math.abs(b)) + 1e-12;

/** All that is drawn and told. */
export const layer = remember(({ row, weight, bias, eps }) => {
  const x = rows[row];
  const { xHat } = layerNorm(x, eps);
  const y = xHat.map((v, i) => v * weight[i] + bias[i]);
  const [inX, inXHat, inY] = [x, xHat, y].map((lane) => layerNorm(lane));
  const [gamma, beta] = [weight, bias].map(shared);
  const bars = gamma.same && gamma.mean < 0; // one γ says |γ|
  const agrees = { mean: close(beta.mean, inY.mean), std: close(bars ? -gamma.mean : gamma.mean, inY.std) };
  const undone = y.every((v, i) => Math.abs(v - x[i]) <= 1e-9 * Math.max(1, ...x.map(Math.abs)));
  return { x, xHat, y, inX, inXHat, inY, gamma, beta, bars, agrees, undone };
});

/** Three digits of a number whose last bits are rounding errors: those of 0 become 0. */
const tell = (v) => formatNumber(Math.abs(v) < 1e-12 ? 0 : roundTo(v, 10));

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

// --- the page --------------------------------------------------------------------------------

/** The starts leave the row as it is; two of them look at it. */
function starts(_, now) {
  const x = () => rows[now("row")];
  const highest = () => x().indexOf(Math.max(...x()));
  const undone = () => undo(x(), now("eps"));
  return {
    "Fresh layer": { weight: all(1), bias: all(0), feature: 0 },
    "One γ, one β": { weight: all(2), bias: all(1), feature: 0 },
    "One feature up": { weight: () => all(1).with(highest(), 3), bias: all(0), feature: () => highest() + 1 },
    "γ = 0": { weight: all(0), bias: all(0).map((_, i) => i / 2 - 1.75), feature: 0 },
    "Undo this row": { weight: () => undone().weight, bias: () => undone().bias, feature: 0 },
  };
}

/** The γ or β of the feature that is chosen, or of all: one number, and whose it is. */
function held(trait, { feature, [trait]: values }) {
  const { same, mean } = shared(feature ? [values[feature - 1]] : values);
  return { mean, whose: feature ? `of feature ${feature}` : same ? "of all features" : "on average" };
}

/** Means and standard deviations, and what γ and β say of those of y: "= β 1", "≠ mean γ 1.25". */
function columns({ inX, inXHat, inY, gamma, beta, bars, agrees }) {
  const say = (agree, { same, mean }, symbol) => `${agree ? "=" : "≠"} ${same ? "" : "mean "}${symbol} ${tell(mean)}`;
  const ofGamma = bars ? [{ same: true, mean: -gamma.mean }, "|γ|"] : [gamma, "γ"];
  const said = { mean: say(agrees.mean, beta, "β"), std: say(agrees.std, ...ofGamma) };
  return ["mean", "std"].map((what) => [...[inX, inXHat, inY].map((lane) => tell(lane[what])), said[what]]);
}

function build(tools) {
  const { now } = tools;
  const fields = ["weight", "bias"].map((trait) => tools.field(trait, {
    of: (state) => held(trait, state).mean,
    to: (value) => now(trait).map((old, i) => (now("feature") === 0 || now("feature") === i + 1 ? value : old)),
    says: (v, state) => `${tools.traits[trait].symbol} ${held(trait, state).whose} = ${tell(v)}`,
  }));
  const choice = tools.choice("row", "Row x", Object.fromEntries(Object.keys(rows).map((name) => [name, name])));
  const note = html("small");
  choice.querySelector("legend").append(note);
  const features = ["all features", ...all(0).map((_, i) => `feature ${i + 1}`)];
  const list = tools.list("feature", "The controls of γ and β act on", features);
  const lines = [["x", "the row"], ["x̂", "normalized"], ["y", "γ ⊙ x̂ + β"], ["β, γ", "parameters"]];
  const names = lines.map(([symbol, long]) => html("div", {}, html("span", { text: symbol }), html("small", { text: long })));
  return {
    charts: [lanesChart(tools, tell)],
    row: fields,
    fold: [choice, list, tools.table(["", "mean", "standard deviation"], names, columns)],
    paint(state, { undone }) {
      ["weight", "bias"].forEach((trait, i) => set(fields[i].querySelector("small"), { text: held(trait, state).whose }));
      set(note, { text: undone ? "now choose another" : "" });
    },
  };
}

export default explorer({
  kind: "gamma-beta",
  label: "what γ and β do to a row",
  question: "Is γ the standard deviation of y, and β its mean?",
  hint: "Drag a dot of y, or tap it, to move its β and γ alone; tap it again to move those of all.",
  starts,
  look: layer,
  build,
  readings: {
    mean: ({ inY }) => tell(inY.mean),
    std: ({ inY }) => tell(inY.std),
    weight: ({ gamma }) => tell(gamma.mean),
    bias: ({ beta }) => tell(beta.mean),
  },
  verdict,
  sentence,
});
