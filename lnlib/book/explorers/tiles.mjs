/**
 * The tile explorer: programs, their tiles of rows, and the partial sums of dγ, step by step.
 * Rows, features and programs are counted from 0, as in the kernels.
 */
import { explorer } from "./explorer.mjs";
import { html, range, remember } from "./common.mjs";
import { numberTable } from "./controls.mjs";
import { stepper } from "./stepper.mjs";
import { tilesChart } from "./tiles_charts.mjs";
import { answer, look, numbers, question, sentence, verdict } from "./tiles_work.mjs";

const starts = (first) => ({
  "A tile cut off by the edge": { ...first, step: 2 },
  "Padding counted by mistake": { ...first, padding: "counted", step: 2 },
  "Backward, two programs": { ...first, kernel: "backward", rows: 11 },
  "The second stage": { ...first, kernel: "backward", rows: 11, programs: 3, step: 6 },
  "A row longer than its tile": { ...first, kernel: "long", rows: 4, features: 14, lanes: 4, step: 5 },
});

/** A table with as many rows and columns as the kernel has. */
function table() {
  const node = html("div");
  const made = remember((heads, rows) => {
    const one = numberTable(heads.split("|"), range(rows).map(String));
    node.replaceChildren(one.node);
    return one;
  });
  return { node, paint: ({ heads, columns }) => made(heads.join("|"), columns[0].length).paint(columns) };
}

const note = "A tile here holds up to 64 numbers; lnlib’s hold a thousand and more. A GPU runs programs in any order.";

function build(tools) {
  const { choice, field } = tools;
  const kernel = choice("kernel", "Kernel", { forward: "Forward", backward: "Backward", long: "Long row" }, (name) => ({ step: 1, ...(name === "long" && { lanes: 4 }) }));
  const padding = choice("padding", "Padding", { masked: "Masked", counted: "Counted by mistake" });
  const programs = choice("programs", "Programs at a time", { 1: "1", 2: "2", 3: "3" });
  const sizes = ["rows", "features"].map((trait) => field(trait, { says: (v) => `${v} ${trait}` }));
  const steps = stepper(tools, "step", [["Back", -1], ["Next", 1]], ({ cut }) => cut.last);
  steps.classList.add("ln-later");
  const picture = tilesChart(tools);
  return {
    charts: [picture],
    parts: [html("div", { class: "ln-stepped" }, steps, picture.node)],
    row: [kernel, padding],
    fold: [
      programs,
      html("div", { class: "ln-fields" }, ...sizes),
      html("p", { text: note }),
      tools.shows(table(), (state, seen) => [numbers(state, seen)]),
    ],
    paint(state) {
      padding.hidden = state.kernel !== "forward";
      programs.hidden = state.kernel === "long";
    },
  };
}

export default explorer({
  kind: "tiles",
  label: "programs, their tiles, and the partial sums of dγ",
  question: "Who reads which numbers, and how often?",
  hint: "Drag a corner of the array, or of its first tile; then take a step. Everything is counted from 0.",
  starts,
  look: (state, guessing) => look(guessing ? { ...state, step: state.step - 1 } : state),
  build,
  guess: {
    ask: question,
    answer,
    others: [
      { kernel: "backward", rows: 11, programs: 3, step: 2 },
      { kernel: "long", rows: 4, features: 14, lanes: 4 },
      { rows: 9, tile: 4, programs: 1, step: 2 },
    ],
  },
  readings: {
    read: ({ read }) => `${read}`,
    written: ({ wrote }) => `${wrote}`,
    idle: ({ idle }) => `${idle}`,
  },
  verdict,
  sentence,
});
