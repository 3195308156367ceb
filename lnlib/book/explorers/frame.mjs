/**
 * What every explorer looks like: a question, starts, pictures and fields, a sentence.
 *
 * A chart is `{ node, canvas, fit }`; `fit()` takes the node's width and says whether it changed.
 */
import { debounce, html, ownKeys, set, svg, throttle } from "./common.mjs";

/** The transform that puts a node at x, y. */
export const at = (x, y) => `translate(${x.toFixed(1)} ${y.toFixed(1)})`;

/** A text in a drawing: text("ln-tick", { x, y, text: "0" }). */
export const text = (kind, attributes = {}) => svg("text", { class: `ln-text ${kind}`, ...attributes });

/**
 * A drawing of fixed height and the width of its place, in CSS pixels: text keeps its size.
 * `layout(width)` is called whenever the width changes. A drawing with handles is no image to
 * those who cannot see it: give it the role "group".
 */
export function chart(height, title, parts, layout, role = "img") {
  const canvas = svg("svg", { role, height }, ...parts);
  const node = html("div", { class: "ln-chart" }, html("p", { class: "ln-title" }, ...title), canvas);
  let width = 0;
  const fit = () => {
    const room = Math.floor(node.clientWidth) || 640; // 640 until the page has laid it out
    const changed = room !== width;
    width = room;
    if (changed) {
      set(canvas, { width, viewBox: `0 0 ${width} ${height}` });
      layout(width);
    }
    return changed;
  };
  return { node, canvas, fit };
}

/**
 * Build an explorer in `el` and keep it in step with `model`; returns the clean-up.
 *
 * @param {{ model: import("./common.mjs").Model, el: HTMLElement }} context
 * @param {object} options
 * @param {string} options.kind      the root gets the class ln-KIND
 * @param {string} options.label     names the explorer for those who cannot see it
 * @param {string} options.question  what the reader should find out
 * @param {string} options.hint      how to begin
 * @param {Array<[string, object]>} options.starts  buttons: a name and the traits it sets,
 *   to a value or to what a function returns when the button is pressed
 * @param {object} options.defaults  every trait with its default. Reset brings back what the model
 *   held when this view was made, which a cell may have chosen
 * @param {(name: string, value: any) => any} options.settle  a value made one that the trait takes;
 *   needed only where a control can give another
 * @param {(tools: { change: Function, commit: Function }) =>
 *   { parts: Node[], charts: object[], paint: (state: object) => void, started?: (state: object) => void }} options.build
 *   makes the body once; `paint` moves it, and `started` hears of a start or a Reset. `change(trait,
 *   value)` sets a trait and `commit()` sends the last one of a gesture.
 * @param {(state: object) => string} options.sentence  the numbers of the picture in words
 */
export function frame({ model, el }, { kind, label, question, hint, starts, defaults, settle = (_, value) => value, build, sentence }) {
  const names = Object.keys(defaults);
  const read = () => Object.fromEntries(names.map((name) => [name, model.get(name)]));
  const first = read();
  const save = throttle(() => model.save_changes());
  const commit = () => save.flush();
  const change = (name, value) => {
    model.set(name, settle(name, value));
    save();
  };
  const { parts, charts, paint, started = () => {} } = build({ change, commit });
  const told = html("p", { class: "ln-sentence", "aria-live": "polite" });

  const start = ([name, values], style = "ln-button") => {
    const button = html("button", { type: "button", class: style, text: name, ...ownKeys });
    const sets = () => Object.entries(values).map(([trait, value]) => [trait, typeof value === "function" ? value() : value]);
    button.addEventListener("click", () => {
      for (const [trait, value] of sets()) change(trait, value);
      commit();
      draw(); // also clears a refused number
      started(read());
    });
    return { button, holds: (state) => sets().every(([trait, value]) => String(state[trait]) === String(value)) };
  };
  const [reset, ...begins] = [start(["Reset", first], "ln-button ln-reset"), ...starts.map((one) => start(one))];
  const root = html(
    "section",
    { class: `ln-explorer ln-${kind}`, "aria-label": `Explorer: ${label}` },
    html("p", { class: "ln-question", text: question }),
    html("p", { class: "ln-hint", text: hint }),
    html("div", { class: "ln-presets" }, ...begins.map(({ button }) => button), reset.button),
    ...parts,
    told,
  );

  let words = "";
  // A screen reader hears the sentence once the reader pauses; the picture changes at once.
  const tell = debounce(() => set(told, { text: words }), 250);

  function draw() {
    const state = read();
    paint(state);
    for (const { button, holds } of begins) set(button, { "aria-pressed": holds(state) });
    const silent = words === "";
    words = sentence(state).replace(/ ([+=]) /g, "\u00a0$1\u00a0"); // formulas stay whole
    if (silent) set(told, { text: words });
    else tell();
  }

  const resize = new ResizeObserver(() => {
    if (charts.map((chart) => chart.fit()).some(Boolean)) draw();
  });
  for (const chart of charts) resize.observe(chart.node);
  for (const name of names) model.on(`change:${name}`, draw);
  el.append(root);
  for (const chart of charts) chart.fit();
  draw();
  return () => {
    resize.disconnect();
    tell.cancel();
    save.flush();
    for (const name of names) model.off(`change:${name}`, draw);
    root.remove();
  };
}
