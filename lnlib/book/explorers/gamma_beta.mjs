/** The γ and β explorer: a row of eight features is normalized, scaled by γ and moved by β. */
import { explorer } from "./explorer.mjs";
import { formatNumber, html, remember, roundTo } from "./common.mjs";
import { lanesChart } from "./gamma_beta_charts.mjs";
import { layerNorm } from "./norm.mjs";

// --- arithmetic ------------------------------------------------------------------------------

const all = (value) => Array(8).fill(value);
const ramp = all(0).map((_, i) => i / 2 - 1.75);

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
export const layer = remember(({ x, weight, bias, eps }) => {
  const { xHat } = layerNorm(x, eps);
  const y = xHat.map((v, i) => v * weight[i] + bias[i]);
  const lanes = [x, xHat, weight, y];
  const inLanes = lanes.map((lane) => layerNorm(lane));
  const [inX, inXHat, , inY] = inLanes;
  const [gamma, beta] = [weight, bias].map(shared);
  const bars = gamma.same && gamma.mean < 0; // one γ says |γ|
  const agrees = { mean: close(beta.mean, inY.mean), std: close(bars ? -gamma.mean : gamma.mean, inY.std) };
  const undone = y.every((v, i) => Math.abs(v - x[i]) <= 1e-9 * Math.max(1, ...x.map(Math.abs)));
  return { x, xHat, y, lanes, inLanes, inX, inXHat, inY, gamma, beta, bars, agrees, undone };
});

/** Three digits of a number whose last bits are rounding errors: those of 0 become 0. */
const tell = (v) => formatNumber(Math.abs(v) < 1e-12 ? 0 : roundTo(v, 10));

/** Whether γ and β are what the question asks, in a few words. */
export function verdict(state) {
  const { inX, gamma, beta, bars, agrees, undone } = layer(state);
  if (gamma.same && gamma.mean === 0) return "y is β, whatever the row";
  if (undone) return "y is the row itself: now drag x";
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

/** The starts leave the row as it is, but for the last; two of them look at it. */
function starts({ weight, bias }, now) {
  const x = () => now("x");
  const undone = () => undo(x(), now("eps"));
  return {
    "One γ up": { weight: () => all(1).with(x().indexOf(Math.max(...x())), 3), bias },
    "Fresh layer": { weight: all(1), bias },
    "One γ, one β": { weight: all(2), bias: all(1) },
    "γ = 0": { weight: all(0), bias: ramp },
    "Undo this row": { weight: () => undone().weight, bias: () => undone().bias },
    "Equal numbers": { x: all(5), weight, bias: ramp },
  };
}

/** Means and standard deviations, and what γ and β say of those of y: "= β 1", "≠ mean γ 1.25". */
function columns({ inX, inXHat, inY, gamma, beta, bars, agrees }) {
  const say = (agree, { same, mean }, symbol) => `${agree ? "=" : "≠"} ${same ? "" : "mean "}${symbol} ${tell(mean)}`;
  const ofGamma = bars ? [{ same: true, mean: -gamma.mean }, "|γ|"] : [gamma, "γ"];
  const said = { mean: say(agrees.mean, beta, "β"), std: say(agrees.std, ...ofGamma) };
  return ["mean", "std"].map((what) => [...[inX, inXHat, inY].map((lane) => tell(lane[what])), said[what]]);
}

function build(tools) {
  const lines = [["x", "the row"], ["x̂", "normalized"], ["y", "γ ⊙ x̂ + β"], ["β, γ", "parameters"]];
  const names = lines.map(([symbol, long]) => html("div", {}, html("span", { text: symbol }), html("small", { text: long })));
  return { charts: [lanesChart(tools, tell)], fold: [tools.table(["", "mean", "standard deviation"], names, columns)] };
}

export default explorer({
  kind: "gamma-beta",
  label: "what γ and β do to a row",
  question: "Is γ the standard deviation of y, and β its mean?",
  hint: "Drag a dot of x, its γ, or a dot of y, which moves its β. The rings on the right move all eight.",
  starts,
  look: layer,
  build,
  guess: {
    ask(state) {
      const { gamma, beta } = layer(state);
      return !gamma.same && beta.same && `γ averages ${tell(gamma.mean)}. Drag the marker to the spread of y.`;
    },
    answer: (state, said) => `You said ${tell(said)}; it is ${tell(layer(state).inY.std)}, and depends on which features have the large γ.`,
    others: [[3, 1, 1, 1, 1, 1, 1, 1], [-1.5, -0.5, -0.5, -0.5, 0, 0, 1, 2], [1, 1, 1, 3, 1, 1, 1, 1]].map((weight) => ({ weight })),
  },
  readings: {
    mean: ({ inY }) => tell(inY.mean),
    std: ({ inY }) => tell(inY.std),
    weight: ({ gamma }) => tell(gamma.mean),
    bias: ({ beta }) => tell(beta.mean),
  },
  verdict,
  sentence,
});
