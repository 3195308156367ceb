/** The axes explorer: which values share a mean and a variance, and whose outputs a change moves. */
import { explorer } from "./explorer.mjs";
import { blockChart } from "./axes_charts.mjs";
import { formatNumber, html, remember, svg } from "./common.mjs";
import { layerNorm, sizeOf } from "./norm.mjs";

// --- arithmetic ------------------------------------------------------------------------------

/** Halves, which a cell has room for: position by position, channel by channel, sample by sample. */
export const values = Object.freeze([
  [2, 1.5, 3, 2.5, 1], [0.5, 0, 1, -0.5, 0.5], [-1, -0.5, -1.5, 0, -1], [3, -1, 2.5, 0.5, 4],
  [5, 3.5, 4, 6, 2], [2, 3.5, 0.5, 4, 1], [-3, -1, -4, -2, -2.5], [7, -2, 3, 5.5, 0.5],
  [0, 0.5, -0.5, 1, 0.5], [-1.5, -2, -1, -1.5, -0.5], [-2, -3, -2.5, -3.5, -2], [-1, -3, 0.5, -4, 1.5],
].flat());

/** What a change adds, a value for each channel and position; no norm here can undo it. */
export const pattern = Object.freeze([
  [-0.5, 1.5, -1, 1.5, 1], [-1, 1.5, 1.5, 0.5, -0.5], [-1, -1, 1, -1, 1], [1, 1.5, 1, 0.5, 1.5],
].flat());

const eps = 1e-5;
// An output that did not move comes from the very numbers it came from before: it differs by 0.
const movedBy = 1e-9;

/** The cell of each value, counted from 1 as the traits are. */
export const cells = values.map((_, i) => {
  return { sample: 1 + Math.floor(i / 20), channel: 1 + (Math.floor(i / 5) % 4), position: 1 + (i % 5) };
});

const atPosition = ({ sample, position }) => `sample ${sample} at position ${position}`;
const halves = ({ sample, channel }) => `sample ${sample} in channels ${channel < 3 ? "1 and 2" : "3 and 4"}`;

/** Each norm: its name, in short too, and in words with whom a cell shares its mean and deviation. */
export const norms = {
  batch: { short: "batch", name: "Batch norm in training", where: ({ channel }) => `channel ${channel} in all samples` },
  layer_sample: { short: "layer, all", name: "Layer norm, whole sample", where: ({ sample }) => `sample ${sample}` },
  layer_position: { short: "layer", name: "Layer norm, each position", where: atPosition },
  instance: { short: "instance", name: "Instance norm", where: ({ sample, channel }) => `sample ${sample} in channel ${channel}` },
  group: { short: "group", name: "Group norm, two groups", where: halves },
  rms: { short: "RMS", name: "RMS norm, each position", where: atPosition, centerless: true },
};

// For each norm its groups: by those words, the places of the values that share them.
const groups = Object.fromEntries(Object.entries(norms).map(([norm, { where }]) => {
  const places = {};
  cells.forEach((cell, i) => (places[where(cell)] ??= []).push(i));
  return [norm, places];
}));

/** How many pairs of statistics a norm takes of the block. */
export const pairs = (norm) => Object.keys(groups[norm]).length;

/** The values of a group normalized, with mean and deviation; for RMS norm those are 0 and the root mean square. */
function normed(row, centerless) {
  if (!centerless) return layerNorm(row, eps);
  const std = sizeOf(row);
  return { mean: 0, std, xHat: row.map((v) => v / Math.sqrt(std ** 2 + eps)) };
}

/** The block x normalized, with the statistics of the value at `index`, and that value. */
function normalized(x, norm, index) {
  const xHat = [];
  let own = null;
  for (const places of Object.values(groups[norm])) {
    const found = normed(places.map((i) => x[i]), norms[norm].centerless);
    places.forEach((i, k) => (xHat[i] = found.xHat[k]));
    if (places.includes(index)) own = found;
  }
  return { x, xHat, mean: own.mean, std: own.std, told: [x[index], xHat[index]] };
}

/** Everything that is drawn and told, for one state of the traits. */
export const look = remember(({ norm, sample, channel, position, changed, change }) => {
  const index = 20 * sample + 5 * channel + position - 26;
  const places = groups[norm][norms[norm].where(cells[index])];
  const [before, now] = [0, change].map((times) => {
    const block = values.map((x, i) => (cells[i].sample === changed ? x + times * pattern[i % 20] : x));
    return normalized(block, norm, index);
  });
  const marks = now.xHat.map((v, i) => Math.abs(v - before.xHat[i]) > movedBy);
  const counts = [0, 20, 40].map((first) => marks.slice(first, first + 20).filter(Boolean).length);
  return { index, places, before, now, marks, counts, centerless: norms[norm].centerless };
});
const unchanged = remember((state) => ({ ...state, change: 0 }));

/** "sample 2", or "samples 1, 2 and 3", or "no sample". */
function nameSamples(them) {
  if (them.length < 2) return them.length ? `sample ${them[0]}` : "no sample";
  return `samples ${them.slice(0, -1).join(", ")} and ${them.at(-1)}`;
}
const movedSamples = (state) => [1, 2, 3].filter((sample) => look(state).counts[sample - 1] > 0);

/** Whose outputs moved, in a few words. */
export function verdict(state) {
  if (state.change === 0) return "Nothing is changed yet";
  const samples = movedSamples(state);
  if (samples.length === 0) return "No output moved";
  return `Outputs moved in ${nameSamples(samples)}${samples.length === 1 ? " only" : ""}`;
}

/** The numbers of the picture in words. */
export function sentence(state) {
  const { index, places, before, now, counts, centerless } = look(state);
  const { norm, changed, change } = state;
  const { name, where } = norms[norm];
  const [[mean, std], old] = [now, before].map((n) => [formatNumber(n.mean), formatNumber(n.std)]);
  const share = centerless ? `a root mean square of ${std}` : `μ = ${mean} and σ = ${std}`;
  const touched = change !== 0 && places.some((i) => cells[i].sample === changed);
  const past = touched ? ` (before: ${centerless ? old[1] : old.join(" and ")})` : "";
  const total = counts.reduce((sum, count) => sum + count);
  return (
    `${name}: the ${places.length} values of ${where(cells[index])} share ${share}${past}, one of ${pairs(norm)}` +
    `${centerless ? "" : " pairs"} in this batch. ${total} of ${values.length} outputs moved.`
  );
}

// --- the page --------------------------------------------------------------------------------

const starts = (first) => ({
  "Batch norm": first,
  "The paper’s layer norm": { ...first, norm: "layer_sample" },
  "A Transformer’s layer norm": { ...first, norm: "layer_position", sample: 2 },
  "RMS norm: no mean": { ...first, norm: "rms", sample: 2 },
});

const guess = {
  ask: ({ norm, changed, change }) =>
    change !== 0 && `${norms[norm].name}: sample ${changed} will change. Tap each sample whose outputs will move.`,
  answer(state, guessed) {
    const [said, found] = [guessed, movedSamples(state)].map(nameSamples);
    return said === found ? `You were right: ${found} moved.` : `You said ${said}; ${found} moved.`;
  },
  others: [{ norm: "layer_sample" }, { norm: "instance", changed: 1 }, { norm: "layer_position" }, { norm: "group" }, { norm: "rms", changed: 3 }, { norm: "batch", changed: 3 }],
};

/** The selected cell, from x to x̂, before the change and now. */
function columns({ before, now, centerless }) {
  const names = centerless
    ? ["x", "mean, not subtracted", "root mean square", "x̂ = x / √(mean of x²\u00a0+\u00a0ε)"]
    : ["x", "mean μ", "standard deviation σ", "x̂ = (x\u00a0−\u00a0μ) / √(σ²\u00a0+\u00a0ε)"];
  return [names, ...[before, now].map(({ mean, std, told: [x, xHat] }) => [x, centerless ? "–" : mean, std, xHat])];
}

/** A norm as a small pattern: the block, and of it a group that shares statistics, hollow where no mean is subtracted. */
function badge([norm, { short, name, where, centerless }]) {
  const shared = groups[norm][where(cells[21])];
  const squares = (places) => places.map((i) => `M${14 * Math.floor(i / 20) + 2.5 * (i % 5)} ${5 * (Math.floor(i / 5) % 4)}h2v4h-2z`).join("");
  const drawn = ["ln-all", centerless ? "ln-hollow" : "ln-shared"].map((kind, k) => svg("path", { class: kind, d: squares(k ? shared : values.map((_, i) => i)) }));
  const picture = svg("svg", { width: 42, height: 20, role: "img", "aria-label": name }, svg("title", { text: name }), ...drawn);
  return [norm, html("span", { class: "ln-badge" }, picture, html("small", { text: short, "aria-hidden": true }))];
}

function build(tools) {
  const samples = tools.choice("changed", "Sample to change", { 1: "Sample 1", 2: "Sample 2", 3: "Sample 3" });
  return {
    charts: [blockChart(tools)],
    row: [tools.choice("norm", "Norm", Object.fromEntries(Object.entries(norms).map(badge))), tools.field("change", { says: (v) => `${formatNumber(v)} times the pattern` })],
    fold: [samples, tools.table(["the selected cell", "before the change", "now"], ["", "", "", ""], columns)],
  };
}

export default explorer({
  kind: "axes",
  label: "which values share a mean and a variance",
  question: "You change one sample. Whose outputs move?",
  hint: "Press another norm. Tap a cell, or drag the ring, to frame what shares its mean and variance.",
  starts,
  look: (state, guessing) => look(guessing ? unchanged(state) : state),
  build,
  guess,
  readings: {
    mean: ({ now }) => now.mean,
    std: ({ now }) => now.std,
    moved: ({ marks }) => marks.filter(Boolean).length,
  },
  verdict,
  sentence,
});
