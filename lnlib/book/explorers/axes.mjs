/**
 * The axes explorer: which values share a mean and a variance, and whose outputs a change moves.
 *
 * Traits: `norm`; `sample`, `channel` and `position` of the selected cell; `changed`, a sample, and
 * `change`, how much of a fixed pattern is added to it.
 */
import { blockChart } from "./axes_charts.mjs";
import { choice, clamp, fieldsOf, formatNumber, linearSteps, nativeList, numberTable, remember, set, walk } from "./common_old.mjs";
import { frame } from "./frame.mjs";

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

export const defaults = Object.freeze(
  { norm: "batch", sample: 1, channel: 1, position: 1, changed: 2, change: 4 },
);
export const limits = Object.freeze(
  { sample: [1, 3], channel: [1, 4], position: [1, 5], changed: [1, 3], change: [-8, 8] },
);

const eps = 1e-5;
// An output that did not move comes from the very numbers it came from before: it differs by 0.
const movedBy = 1e-9;

/** The cell of each value, counted from 1 as the traits are. */
export const cells = values.map((_, i) => ({
  sample: 1 + Math.floor(i / 20),
  channel: 1 + (Math.floor(i / 5) % 4),
  position: 1 + (i % 5),
}));

/** The place of a cell among the values. */
export const indexOf = ({ sample, channel, position }) => 20 * sample + 5 * channel + position - 26;

const eachPosition = {
  group: ({ sample, position }) => 5 * sample + position - 6,
  where: ({ sample, position }) => `sample ${sample} at position ${position}`,
};

/** Each norm: its name; a cell's group, counted from 0, and whose values it holds, in words. */
export const norms = {
  batch: {
    name: "Batch norm in training",
    group: ({ channel }) => channel - 1,
    where: ({ channel }) => `channel ${channel} in all samples`,
  },
  layer_sample: {
    name: "Layer norm, whole sample",
    group: ({ sample }) => sample - 1,
    where: ({ sample }) => `sample ${sample}`,
  },
  layer_position: { name: "Layer norm, each position", ...eachPosition },
  instance: {
    name: "Instance norm",
    group: ({ sample, channel }) => 4 * sample + channel - 5,
    where: ({ sample, channel }) => `sample ${sample} in channel ${channel}`,
  },
  group: {
    name: "Group norm, two groups",
    group: ({ sample, channel }) => 2 * sample + (channel < 3 ? 0 : 1) - 2,
    where: ({ sample, channel }) => `sample ${sample} in channels ${channel < 3 ? "1 and 2" : "3 and 4"}`,
  },
  rms: { name: "RMS norm, each position", ...eachPosition, centerless: true },
};

/** The block with `change` times the pattern added to sample `changed`. */
export function block(changed, change) {
  return values.map((x, i) => (cells[i].sample === changed ? x + change * pattern[i % 20] : x));
}

// For each norm its groups, each the places of the values that share a mean and a deviation.
const groups = Object.fromEntries(Object.entries(norms).map(([norm, { group }]) => {
  const places = [];
  cells.forEach((cell, i) => (places[group(cell)] ??= []).push(i));
  return [norm, places];
}));
const groupOf = (norm, cell) => groups[norm][norms[norm].group(cell)];

/** The cells that share a mean and a standard deviation with `cell`, itself included. */
export const members = (norm, cell) => groupOf(norm, cell).map((i) => cells[i]);

/** How many pairs of statistics a norm takes of the block. */
export const pairs = (norm) => groups[norm].length;

/** Mean and biased deviation of x at some places; for RMS norm 0 and the root mean square. */
export function statistics(x, norm, places) {
  const average = (f) => places.reduce((sum, i) => sum + f(x[i]), 0) / places.length;
  const mean = norms[norm].centerless ? 0 : average((v) => v);
  const variance = average((v) => (v - mean) ** 2);
  return { mean, variance, std: Math.sqrt(variance) };
}

/** x̂, the block normalized. */
export function normalize(x, norm) {
  const xHat = [];
  for (const places of groups[norm]) {
    const { mean, variance } = statistics(x, norm, places);
    for (const i of places) xHat[i] = (x[i] - mean) / Math.sqrt(variance + eps);
  }
  return xHat;
}

/** Which outputs differ between two normalized blocks. */
export const moved = (before, now) => now.map((v, i) => Math.abs(v - before[i]) > movedBy);

/** Everything that is drawn and told, for one state of the traits. */
export const look = remember(({ norm, sample, channel, position, changed, change }) => {
  const cell = { sample, channel, position };
  const index = indexOf(cell);
  const places = groupOf(norm, cell);
  const [before, now] = [block(changed, 0), block(changed, change)].map((x) => {
    const xHat = normalize(x, norm);
    return { x, xHat, ...statistics(x, norm, places), told: [x[index], xHat[index]] };
  });
  const marks = moved(before.xHat, now.xHat);
  const counts = [0, 20, 40].map((first) => marks.slice(first, first + 20).filter(Boolean).length);
  return { cell, index, places, before, now, marks, counts, centerless: norms[norm].centerless };
});

/** "sample 2", or "samples 1, 2 and 3". */
const nameSamples = (them) =>
  them.length === 1 ? `sample ${them[0]}` : `samples ${them.slice(0, -1).join(", ")} and ${them.at(-1)}`;
const movedSamples = ({ counts }) => [1, 2, 3].filter((sample) => counts[sample - 1] > 0);

/** Whose outputs moved, in a few words. */
export function verdict(state) {
  if (state.change === 0) return "Nothing is changed yet";
  const samples = movedSamples(look(state));
  if (samples.length === 0) return "No output moved";
  return `Outputs moved in ${nameSamples(samples)}${samples.length === 1 ? " only" : ""}`;
}

/** What a reader who tapped some samples guessed, beside what is so. */
export function answer(state, guessed) {
  const [said, found] = [guessed, movedSamples(look(state))].map((them) => (them.length ? nameSamples(them) : "no sample"));
  return said === found ? `You were right: ${found} moved.` : `You said ${said}; ${found} moved.`;
}

/** The numbers of the picture in words. */
export function sentence(state) {
  const { cell, places, before, now, counts, centerless } = look(state);
  const { norm, changed, change } = state;
  const { name, where } = norms[norm];
  const [[mean, std], old] = [now, before].map((n) => [formatNumber(n.mean), formatNumber(n.std)]);
  const share = centerless ? `a root mean square of ${std}` : `μ = ${mean} and σ = ${std}`;
  const touched = change !== 0 && places.some((i) => cells[i].sample === changed);
  const past = touched ? ` (before: ${centerless ? old[1] : old.join(" and ")})` : "";
  const total = counts.reduce((sum, count) => sum + count);
  return (
    `${name}: the ${places.length} values of ${where(cell)} share ${share}${past}, one of ${pairs(norm)}` +
    `${centerless ? "" : " pairs"}. ${total} of ${values.length} outputs moved.`
  );
}

// --- the page --------------------------------------------------------------------------------

const starts = [
  ["Batch norm", { ...defaults }],
  ["The paper’s layer norm", { ...defaults, norm: "layer_sample" }],
  ["A Transformer’s layer norm", { ...defaults, norm: "layer_position", sample: 2 }],
  ["RMS norm: no mean", { ...defaults, norm: "rms", sample: 2 }],
];

/** The selected cell, from x to x̂, before the change and now. */
function numbersTable() {
  const { node, rows } = numberTable(["the selected cell", "before the change", "now"], ["", "", "", ""]);
  return {
    node,
    paint({ before, now, centerless }) {
      const [mean, std, rule] = centerless
        ? ["mean, not subtracted", "root mean square", "x / √(mean of x²\u00a0+\u00a0ε)"]
        : ["mean μ", "standard deviation σ", "(x\u00a0−\u00a0μ) / √(σ²\u00a0+\u00a0ε)"];
      const columns = [before, now].map(({ mean, std, told: [x, xHat] }) => {
        const cells = [x, mean, std, xHat].map((v) => formatNumber(v));
        return centerless ? cells.with(1, "–") : cells;
      });
      const all = [["x", mean, std, `x̂ = ${rule}`], ...columns];
      rows.forEach((row, i) => row.forEach((cell, k) => set(cell, { text: all[k][i] })));
    },
  };
}

/** Every value made one that its trait takes; there is no norm like one that is unknown. */
export function settle(name, value) {
  if (name === "norm") return Object.hasOwn(norms, value) ? value : undefined;
  const within = clamp(value, ...limits[name]);
  return name === "change" ? within : Math.round(within);
}

const [min, max] = limits.change;
const steps = linearSteps({ min, max, step: 0.5 });

function build({ change, commit, put, now }) {
  const named = Object.entries(norms).map(([value, { name }]) => [value, name]);
  const norm = nativeList({ trait: "norm", label: "Norm", options: named, change: (value) => put({ norm: value }) });
  norm.node.classList.add("ln-norm");
  const changed = choice({ legend: "Sample to change", options: [1, 2, 3].map((n) => [n, `Sample ${n}`]), change: (value) => put({ changed: value }) });
  const amount = fieldsOf({ change, commit }, limits)("change", { symbol: "Change", name: "", unit: "times a fixed pattern", page: 4, steps });
  const chart = blockChart({ cells, change, commit, now });
  const table = numbersTable();
  return {
    charts: [chart],
    parts: [chart.node],
    row: [norm.node, amount.node],
    fold: [changed.node, table.node],
    guess: now("change") === 0 ? null : {
      ask: `${norms[now("norm")].name}: sample ${now("changed")} will change. Tap each sample whose outputs will move.`,
      answer: (state) => answer(state, chart.guessed()),
    },
    paint(state, { guessing }) {
      const seen = look(guessing ? { ...state, change: 0 } : state);
      norm.paint(state.norm);
      changed.paint(state.changed);
      amount.paint(state.change, `${formatNumber(state.change)} times the pattern`);
      chart.paint(state, seen, guessing);
      table.paint(seen);
    },
  };
}

function render(context) {
  return frame(context, {
    kind: "axes",
    label: "which values share a mean and a variance",
    question: "You change one sample. Whose outputs move?",
    hint: "Choose another norm. Tap a cell, or drag the ring, to frame what shares its mean and variance.",
    starts,
    defaults,
    settle,
    build,
    nudges: { change: walk(steps, min, max) },
    readings: {
      mean: (state) => formatNumber(look(state).now.mean),
      std: (state) => formatNumber(look(state).now.std),
      moved: (state) => `${look(state).marks.filter(Boolean).length}`,
    },
    verdict,
    sentence,
  });
}

export default { render };
