/**
 * The axes explorer: which values share a mean and a variance, and whose outputs a change moves.
 *
 * Traits: `norm`; `sample`, `channel` and `position` of the selected cell; `changed`, a sample, and
 * `change`, how much of a fixed pattern is added to it.
 */
import { blockChart } from "./axes_charts.mjs";
import { choice, clamp, field, formatNumber, html, linearSteps, set } from "./common.mjs";
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
  { norm: "layer_sample", sample: 1, channel: 1, position: 1, changed: 1, change: 0 },
);
export const limits = Object.freeze({ change: [-8, 8] });

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
  where: ({ sample, position }) => `all channels of sample ${sample} at position ${position}`,
};

/** Each norm: its button, its name in a sentence; a cell's group, counted from 0, and in words. */
export const norms = {
  layer_sample: {
    label: "Layer norm, whole sample",
    name: "Layer norm over a whole sample",
    group: ({ sample }) => sample - 1,
    where: ({ sample }) => `all channels and positions of sample ${sample}`,
  },
  layer_position: {
    label: "Layer norm, each position",
    name: "Layer norm at each position",
    ...eachPosition,
  },
  batch: {
    label: "Batch norm",
    name: "Batch norm in training",
    group: ({ channel }) => channel - 1,
    where: ({ channel }) => `channel ${channel} at all positions of all samples`,
  },
  instance: {
    label: "Instance norm",
    name: "Instance norm",
    group: ({ sample, channel }) => 4 * sample + channel - 5,
    where: ({ sample, channel }) => `channel ${channel} at all positions of sample ${sample}`,
  },
  group: {
    label: "Group norm",
    name: "Group norm with two groups",
    group: ({ sample, channel }) => 2 * sample + (channel < 3 ? 0 : 1) - 2,
    where: ({ sample, channel }) =>
      `channels ${channel < 3 ? "1 and 2" : "3 and 4"} at all positions of sample ${sample}`,
  },
  rms: { label: "RMS norm", name: "RMS norm at each position", ...eachPosition, centerless: true },
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
export function look({ norm, sample, channel, position, changed, change }) {
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
}

function tellGroup({ norm, changed, change }, { cell, places, before, now, centerless }) {
  const { name, where } = norms[norm];
  const f = formatNumber;
  const tell = ({ mean, std }) => (centerless ? f(std) : `${f(mean)} and ${f(std)}`);
  const touched = places.some((i) => cells[i].sample === changed);
  const past = touched ? `, before the change ${tell(before)}` : ", as before the change";
  const [takes, them, are] = centerless
    ? ["subtracts no mean and takes one root mean square", "of them", "it is"]
    : ["takes one mean and one standard deviation", "such pairs", "they are"];
  return (
    `${name} ${takes} over ${places.length} values: ${where(cell)}. ` +
    `There are ${pairs(norm)} ${them} in the block. Here ${are} ${tell(now)}${change === 0 ? "" : past}.`
  );
}

function tellChange({ changed, change }, { counts }) {
  if (change === 0) return "Nothing was changed yet.";
  const subject = `Sample ${changed} was changed by ${formatNumber(change)} times the pattern`;
  const where = [1, 2, 3].filter((sample) => counts[sample - 1] > 0);
  if (where.length === 0) return `${subject}: no output moved.`;
  const last = where.pop();
  const samples = where.length === 0 ? `sample ${last} only` : `samples ${where.join(", ")} and ${last}`;
  const total = counts.reduce((sum, count) => sum + count);
  return `${subject}: outputs moved in ${samples}, ${total} of ${values.length} in all.`;
}

/** The numbers of the picture in words; axes.py says the same. */
export function sentence(state) {
  const seen = look(state);
  return `${tellGroup(state, seen)} ${tellChange(state, seen)}`;
}

// --- the page --------------------------------------------------------------------------------

const here = { sample: 1, channel: 2, position: 3, changed: 2, change: 4 };
const starts = [
  ["Layer norm, sample 2 changed", { ...here, norm: "layer_sample" }],
  ["Batch norm, sample 2 changed", { ...here, norm: "batch" }],
  ["A Transformer’s layer norm", { ...here, norm: "layer_position", sample: 2 }],
  ["RMS norm: no mean", { ...here, norm: "rms", sample: 2 }],
];

/** The selected cell, from x to x̂, before the change and now. */
function numbersTable() {
  const rows = [0, 1, 2, 3].map(() => [html("th", { scope: "row" }), html("td"), html("td")]);
  const tops = ["the selected cell", "before the change", "now"];
  const top = html("thead", {}, html("tr", {}, ...tops.map((text) => html("th", { scope: "col", text }))));
  return {
    node: html("table", { class: "ln-table" }, top, ...rows.map((row) => html("tr", {}, ...row))),
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

/** The change within its limits; the other traits only ever get one of their options. */
function settle(name, value) {
  const [min, max] = limits.change;
  return name === "change" ? clamp(value, min, max) : value;
}

function build({ change, commit }) {
  const pick = (trait, legend, options) =>
    choice({ legend, options, change: (value) => change(trait, value) });
  const norm = pick("norm", "Norm", Object.entries(norms).map(([id, { label }]) => [id, label]));
  const changed = pick("changed", "Sample to change", [1, 2, 3].map((n) => [n, `Sample ${n}`]));
  const [min, max] = limits.change;
  const amount = field({
    ...{ symbol: "Change", name: "", unit: "times a fixed pattern", min, max, page: 4 },
    steps: linearSteps({ min, max, step: 0.5 }),
    change: (value) => change("change", value),
    commit,
  });
  const select = (cell) => Object.entries(cell).forEach(([trait, value]) => change(trait, value));
  const chart = blockChart({ cells, select, commit });
  const table = numbersTable();
  const fields = html("div", { class: "ln-fields" }, changed.node, amount.node);
  return {
    charts: [chart],
    parts: [norm.node, chart.node, fields, table.node],
    paint(state) {
      const seen = look(state);
      norm.paint(state.norm);
      changed.paint(state.changed);
      amount.paint(state.change, `${formatNumber(state.change)} times the pattern`);
      chart.paint({ ...state, ...seen, pairs: pairs(state.norm) });
      table.paint(seen);
    },
  };
}

function render(context) {
  return frame(context, {
    kind: "axes",
    label: "which values share a mean and a variance",
    question: "You change one sample of the batch. Whose outputs move?",
    hint: "Guess, then move the slider. Click a cell to frame what shares its statistics. Or start from:",
    starts,
    defaults,
    settle,
    build,
    sentence,
  });
}

export default { render };
