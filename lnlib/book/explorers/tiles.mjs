/**
 * The tile explorer: programs, their tiles of rows, and the partial sums of dγ, step by step.
 *
 * Traits: `kernel`; `rows` and `features` of the matrix; `programs` of the backward kernel;
 * `padding`, what becomes of padded lanes forward; `step`, of which those beyond the last are the
 * last. Rows, features and programs are counted from 0, as in the kernels.
 */
import { choice, clamp, fieldsOf, html, linearSteps, ownKeys, set } from "./common_old.mjs";
import { frame } from "./frame.mjs";
import { tilesChart } from "./tiles_charts.mjs";
import { defaults, lanes, limits, look, numbers, plan, sentence, verdict } from "./tiles_work.mjs";

const starts = [
  ["A tile cut off by the edge", { ...defaults, step: 4 }],
  ["Padding counted by mistake", { ...defaults, padding: "counted", step: 2 }],
  ["Backward, two programs", { ...defaults, kernel: "backward", rows: 11 }],
  ["The second stage", { ...defaults, kernel: "backward", rows: 11, programs: 3, step: 6 }],
  ["A row longer than its tile", { ...defaults, kernel: "long", rows: 4, features: 14, step: 5 }],
];
const options = {
  kernel: [["forward", "Forward"], ["backward", "Backward"], ["long", "Long row"]],
  padding: [["masked", "Masked"], ["counted", "Counted by mistake"]],
  programs: [1, 2, 3].map((n) => [n, `${n}`]),
};

/** A slider with a button at each end. */
function stepper({ change, commit, now }) {
  const slider = html("input", { type: "range", min: 0, step: 1, ...ownKeys });
  const count = html("small");
  const [back, on] = ["Back", "Next"].map((text) => html("button", { type: "button", text, ...ownKeys }));
  const last = () => plan(Object.fromEntries(Object.keys(defaults).map((name) => [name, now(name)]))).last;
  const go = (step) => change("step", clamp(step, 0, last()));
  slider.addEventListener("input", () => go(slider.valueAsNumber));
  slider.addEventListener("change", commit);
  [back, on].forEach((button, i) => button.addEventListener("click", () => {
    go(Math.min(now("step"), last()) + 2 * i - 1);
    commit();
  }));
  const label = html("label", {}, html("span", { text: "Step" }), slider);
  return {
    node: html("div", { class: "ln-stepper", "data-trait": "step" }, back, html("div", {}, label, count), on),
    paint({ step, cut: { last } }) {
      set(slider, { max: last, "aria-valuetext": `${step} of ${last}` });
      slider.value = step;
      set(count, { text: `${step} of ${last}` });
      // A button that is disabled would lose the focus of those who press it with a key.
      set(back, { "aria-disabled": step === 0 ? "true" : null });
      set(on, { "aria-disabled": step === last ? "true" : null });
    },
  };
}

/** A table whose cells are made as they are needed, and kept. */
function table() {
  const [head, body] = [html("thead"), html("tbody")];
  /** Bring `parent` to as many children as there are words, and write each. */
  const fit = (parent, words, make, write) => {
    while (parent.children.length > words.length) parent.lastChild.remove();
    while (parent.children.length < words.length) parent.append(make(parent.children.length));
    words.forEach((each, i) => write(parent.children[i], each));
  };
  const line = (row, cells, make) => fit(row, cells, make, (cell, text) => set(cell, { text }));
  return {
    node: html("table", { class: "ln-table" }, head, body),
    paint(heads, lines) {
      fit(head, [heads], () => html("tr"), (row) => line(row, heads, () => html("th", { scope: "col" })));
      fit(body, lines, () => html("tr"), (row, cells) =>
        line(row, cells, (i) => (i === 0 ? html("th", { scope: "row" }) : html("td"))));
    },
  };
}

/** A whole number within the limits of its trait, or one of its options; there is none like another word. */
function settle(name, value) {
  if (name in limits) return clamp(Math.round(value), ...limits[name]);
  return options[name].some(([option]) => option === value) ? value : undefined;
}

function build({ change, commit, put, now }) {
  const pick = (trait, legend, more = {}) =>
    choice({ legend, options: options[trait], change: (value) => put({ [trait]: value, ...more }) });
  const kernel = pick("kernel", "Kernel", { step: 1 });
  const padding = pick("padding", "Padded lanes");
  const programs = pick("programs", "Programs at a time");
  const make = fieldsOf({ change, commit }, limits);
  const sizes = [["rows", "B", "Rows"], ["features", "H", "Features"]].map(([trait, symbol, name]) => {
    const [min, max] = limits[trait];
    const made = make(trait, { symbol, name, steps: linearSteps({ min, max, step: 1 }), page: 4 });
    return { node: made.node, paint: (state) => made.paint(state[trait], `${state[trait]} ${trait}`) };
  });
  const [steps, picture, all] = [stepper({ change, commit, now }), tilesChart(), table()];
  return {
    charts: [picture],
    parts: [picture.node],
    row: [steps.node],
    fold: [
      html("div", { class: "ln-kernel" }, kernel.node, padding.node, programs.node),
      html("div", { class: "ln-fields" }, ...sizes.map((one) => one.node)),
      html("p", { text: "A tile here holds 16 numbers; lnlib’s hold a thousand and more. A GPU runs programs at once, in any order." }),
      all.node,
    ],
    paint(state) {
      const seen = look(state);
      kernel.paint(state.kernel);
      padding.paint(state.padding);
      padding.node.hidden = state.kernel !== "forward";
      programs.paint(state.programs);
      programs.node.hidden = state.kernel !== "backward";
      for (const one of sizes) one.paint(state);
      steps.paint(seen);
      picture.paint(state, seen);
      const { heads, lines } = numbers(state, seen);
      all.paint(heads, lines);
    },
  };
}

const whole = Object.entries(limits).map(([name, [min, max]]) => [name, (value, by) => clamp(value + by, min, max)]);

function render(context) {
  return frame(context, {
    kind: "tiles",
    label: "programs, their tiles, and the partial sums of dγ",
    question: "Who reads which numbers, and how often?",
    hint: "Guess what the next step does, then take it. Everything is counted from 0.",
    starts,
    defaults,
    settle,
    build,
    nudges: Object.fromEntries(whole),
    readings: {
      read: (state) => `${look(state).read}`,
      written: (state) => `${look(state).wrote}`,
      idle: (state) => `${lanes(state, look(state)).idle}`,
    },
    verdict,
    sentence,
  });
}

export default { render };
