/**
 * The tile explorer: programs, their tiles of rows, and the partial sums of dγ, step by step.
 *
 * Traits: `kernel`; `rows` and `features` of the matrix; `programs` of the backward kernel;
 * `padding`, what becomes of padded lanes forward; `step`, of which those beyond the last are the
 * last. Rows, features and programs are counted from 0, as in the kernels.
 */
import { choice, clamp, field, html, linearSteps, ownKeys, set } from "./common.mjs";
import { frame } from "./frame.mjs";
import { tilesChart } from "./tiles_charts.mjs";
import { defaults, limits, look, numbers, sentence } from "./tiles_work.mjs";

const starts = [
  ["A tile cut off by the edge", { ...defaults, step: 4 }],
  ["Padding counted by mistake", { ...defaults, padding: "counted", step: 2 }],
  ["Backward, two programs", { ...defaults, kernel: "backward", rows: 11 }],
  ["The second stage", { ...defaults, kernel: "backward", rows: 11, programs: 3, step: 6 }],
  ["A row longer than its tile", { ...defaults, kernel: "long", rows: 4, features: 14, step: 5 }],
];

/** A slider with a button at each end. */
function stepper({ change, commit }) {
  const slider = html("input", { type: "range", min: 0, step: 1, ...ownKeys });
  const count = html("small");
  const [back, on] = ["Previous", "Next"].map((name) => html("button", { type: "button", text: name, ...ownKeys }));
  let [current, last] = [0, 0];
  const go = (step) => change("step", clamp(step, 0, last));
  slider.addEventListener("input", () => go(slider.valueAsNumber));
  slider.addEventListener("change", commit);
  [back, on].forEach((button, i) => button.addEventListener("click", () => {
    go(current + 2 * i - 1);
    commit();
  }));
  return {
    node: html("div", { class: "ln-stepper" }, back, html("div", {}, html("label", {}, html("span", { text: "Step" }), slider), count), on),
    paint({ step, cut }) {
      [current, last] = [step, cut.last];
      set(slider, { max: last, "aria-valuetext": `${step} of ${last}` });
      slider.value = step;
      set(count, { text: `${step} of ${last}` });
      // A button that is disabled would lose the focus of those who press it with a key.
      set(back, { "aria-disabled": step === 0 ? "true" : null });
      set(on, { "aria-disabled": step === last ? "true" : null });
    },
  };
}

/** A table whose heads and rows are made anew. */
function table() {
  const [head, body] = [html("thead"), html("tbody")];
  const line = (cells, first, other) => html("tr", {}, ...cells.map((words, i) =>
    (i === 0 ? html("th", { scope: first, text: words }) : html(other, { ...(other === "th" && { scope: "col" }), text: words }))));
  return {
    node: html("table", { class: "ln-table" }, head, body),
    paint(heads, lines) {
      head.replaceChildren(line(heads, "col", "th"));
      body.replaceChildren(...lines.map((cells) => line(cells, "row", "td")));
    },
  };
}

/** The nearest whole number within the limits of a trait that has some. */
function settle(name, value) {
  return name in limits ? clamp(Math.round(value), ...limits[name]) : value;
}

function build({ change, commit }) {
  const pick = (trait, legend, options, more = () => {}) => choice({
    legend,
    options,
    change: (value) => {
      change(trait, value);
      more();
    },
  });
  const restart = () => change("step", 1);
  const kernel = pick("kernel", "Kernel", [["forward", "Forward"], ["backward", "Backward"], ["long", "Long row"]], restart);
  const padding = pick("padding", "Padded lanes", [["masked", "Masked"], ["counted", "Counted by mistake"]]);
  const programs = pick("programs", "Programs at a time", [1, 2, 3].map((n) => [n, `${n}`]));
  const [rows, features] = ["rows", "features"].map((trait) => {
    const [min, max] = limits[trait];
    const steps = linearSteps({ min, max, step: 1 });
    const symbol = trait === "rows" ? "B" : "H";
    return field({ symbol, name: `${trait[0].toUpperCase()}${trait.slice(1)}`, min, max, steps, page: 4, change: (value) => change(trait, value), commit });
  });
  const steps = stepper({ change, commit });
  const picture = tilesChart();
  const [counters, all] = [table(), table()];
  const more = html("details", {}, html("summary", { text: "All numbers", ...ownKeys }), all.node);
  return {
    charts: [picture],
    parts: [
      html("div", { class: "ln-kernel" }, kernel.node, padding.node, programs.node),
      html("div", { class: "ln-fields" }, rows.node, features.node),
      ...[steps.node, picture.node, counters.node, more],
    ],
    paint(state) {
      const seen = look(state);
      kernel.paint(state.kernel);
      padding.paint(state.padding);
      padding.node.hidden = state.kernel !== "forward";
      programs.paint(state.programs);
      programs.node.hidden = state.kernel !== "backward";
      rows.paint(state.rows, `${state.rows} rows`);
      features.paint(state.features, `${state.features} features`);
      steps.paint(seen);
      picture.paint(state, seen);
      const line = (name, { read, wrote, most }) => [name, `${read} B`, `${wrote} B`, `${most}`];
      counters.paint(["traffic", "read", "written", "reads of an x"], [line("so far", seen), line("in the end", seen.all)]);
      const { heads, lines } = numbers(state, seen);
      all.paint(heads, lines);
    },
  };
}

function render(context) {
  return frame(context, {
    kind: "tiles",
    label: "programs, their tiles, and the partial sums of dγ",
    question: "Who reads which numbers, and how often?",
    hint: "Guess what the next step does, then take it. A tile here holds 16 numbers; lnlib’s hold a thousand and more. Everything is counted from 0. Or start from:",
    starts,
    defaults,
    settle,
    build,
    sentence,
  });
}

export default { render };
