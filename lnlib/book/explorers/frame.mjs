/**
 * What every explorer looks like: a question, what is seen in a few words, the picture, one row of
 * controls, a sentence; starts and tables are in a fold.
 *
 * A chart is `{ node, canvas, fit }`; `fit()` takes the node's width and says whether it changed.
 */
import { debounce, formatNumber, html, ownKeys, set, svg, throttle } from "./common_old.mjs";
import { readState, stateText } from "./state.mjs";

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
  const node = html("div", { class: "ln-chart" }, canvas);
  if (title.length) node.prepend(html("p", { class: "ln-title" }, ...title));
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
 * A guess before anything is seen: what is asked, and two buttons. `end(said)` is called once, with
 * whether the reader has guessed.
 */
function asking(ask, end) {
  const button = (name, said, style) => {
    const node = html("button", { type: "button", class: style, text: name, ...ownKeys });
    node.addEventListener("click", () => end(said));
    return node;
  };
  const buttons = [button("See", true, "ln-button ln-see"), button("Skip", false, "ln-button ln-skip")];
  return html("div", { class: "ln-ask" }, html("p", { text: ask }), ...buttons);
}

/**
 * Build an explorer in `el` and keep it in step with `model`; returns the clean-up.
 *
 * The root hears `ln-set`, whose detail is a state in words (state.mjs), and `ln-nudge`, whose detail is
 * `{ trait, by }`; it tells each state that it draws by `ln-drawn`. So a link in the text of a built
 * page moves the picture, and the address keeps up with it.
 *
 * @param {{ model: import("./common_old.mjs").Model, el: HTMLElement }} context
 * @param {object} options
 * @param {string} options.kind      the root gets the class ln-KIND
 * @param {string} options.label     names the explorer for those who cannot see it
 * @param {string} options.question  what the reader should find out
 * @param {string} options.hint      how to begin
 * @param {Array<[string, object]>} options.starts  buttons: a name and the traits it sets,
 *   to a value or to what a function returns when the button is pressed
 * @param {object} options.defaults  every trait with its default. Reset brings back what the model
 *   held when this view was made, which a cell may have chosen
 * @param {(name: string, value: any) => any} options.settle  a value made one that the trait takes, or
 *   undefined if it can take none like it
 * @param {Record<string, (value: any, by: number) => any>} options.nudges  for the traits that a number
 *   in the text can change: the value so many steps on
 * @param {Record<string, (state: object) => string>} options.readings  numbers for the text
 * @param {(tools: { change: Function, commit: Function, put: Function, now: Function }) => {
 *   parts: Node[], charts: object[], row?: Node[], fold?: Node[], paint: Function,
 *   guess?: { ask: string, answer: (state: object) => string, keeps?: string[] } }} options.build
 *   makes the body once: the pictures, one row of controls, what is folded. `paint(state, { guessing })`
 *   moves it. `change(trait, value)` sets a trait, `commit()` sends the last one of a gesture,
 *   `put(traits)` does both, and `now(trait)` is a value, drawn or not. With a `guess`, and unless the model's trait `ask` is
 *   false, the reader is asked first: what has the class ln-later is hidden until then, or until a
 *   trait changes that `guess.keeps` does not name
 * @param {(state: object) => string} options.verdict   what is seen, in a few words
 * @param {(state: object) => string} options.sentence  the numbers of the picture in words
 */
export function frame({ model, el }, options) {
  const { kind, label, question, hint, starts, defaults, build, verdict, sentence } = options;
  const { settle, nudges = {}, readings = {} } = options;
  const names = Object.keys(defaults);
  const now = (name) => model.get(name);
  const read = () => Object.fromEntries(names.map((name) => [name, now(name)]));
  const first = read();
  const save = throttle(() => model.save_changes());
  const commit = () => save.flush();
  const change = (name, value) => {
    model.set(name, settle(name, value));
    save();
  };
  const put = (traits) => {
    for (const [trait, value] of Object.entries(traits)) change(trait, value);
    commit();
    schedule(); // also clears a refused number
  };
  let due = null;
  const { parts, charts, paint, row = [], fold = [], guess = null } = build({ change, commit, put, now });
  const told = html("p", { class: "ln-sentence", "aria-hidden": true });
  const heard = html("p", { class: "ln-heard", "aria-live": "polite" });
  const seen = html("p", { class: "ln-verdict ln-later" });
  const answer = html("p", { class: "ln-answer", role: "status" });
  let guessing = guess !== null && model.get("ask") !== false;

  const start = ([name, values], style = "ln-button") => {
    const button = html("button", { type: "button", class: style, text: name, ...ownKeys });
    const sets = () => Object.entries(values).map(([trait, value]) => [trait, typeof value === "function" ? value() : value]);
    button.addEventListener("click", () => {
      endGuess(false);
      put(Object.fromEntries(sets()));
    });
    return { button, holds: (state) => sets().every(([trait, value]) => String(state[trait]) === String(value)) };
  };
  const reset = set(start(["↺", first], "ln-button ln-reset").button, { "aria-label": "Reset", title: "Reset" });
  const begins = starts.map((one) => start(one));
  const ask = guessing && asking(guess.ask, (said) => endGuess(said));
  const presets = html("div", { class: "ln-presets" }, ...begins.map(({ button }) => button));
  const summary = html("summary", { text: "Examples and numbers", ...ownKeys });
  const own = `ln-${Math.random().toString(36).slice(2)}`; // an explorer may be there twice
  const root = html(
    "section",
    { class: `ln-explorer ln-${kind}`, "aria-label": `Explorer: ${label}`, "aria-describedby": `${own}q ${own}h` },
    html("div", { class: "ln-head" }, html("p", { class: "ln-question", id: `${own}q`, text: question }), reset),
    html("p", { class: "ln-hint", id: `${own}h`, text: hint }),
    seen,
    ...parts,
    ...(ask ? [ask] : []),
    ...(row.length ? [html("div", { class: "ln-controls ln-later" }, ...row)] : []),
    answer,
    told,
    heard,
    html("details", { class: "ln-fold ln-later" }, summary, presets, ...fold),
  );
  root.classList.toggle("ln-guessing", guessing);

  const fit = () => charts.map((chart) => chart.fit()).some(Boolean);
  function endGuess(said) {
    if (!guessing) return;
    guessing = false;
    root.classList.remove("ln-guessing");
    if (ask.contains(document.activeElement)) set(root, { tabindex: -1 }).focus({ preventScroll: true }); // it goes with its button
    ask.remove();
    set(answer, { text: said ? guess.answer(read()) : "" });
    fit(); // what was hidden stands beside it now
    schedule();
  }

  /** Each number that the text may show, written as the picture writes it. */
  function numbers(state) {
    const traits = Object.entries(state).filter(([, value]) => typeof value === "number");
    const told = Object.entries(readings).map(([name, reading]) => [name, reading(state)]);
    return Object.fromEntries([...traits.map(([name, value]) => [name, formatNumber(value)]), ...told]);
  }

  let words = "";
  // A screen reader says the sentence once the reader pauses; what is seen changes at once.
  const tell = debounce(() => { heard.textContent = words; }, 250);
  /** Draw with the next frame of the screen, once, however much has changed until then. */
  function schedule() {
    due ??= requestAnimationFrame(() => {
      due = null;
      draw();
    });
  }

  function draw() {
    const state = read();
    const text = stateText(state, first);
    paint(state, { guessing });
    set(seen, { text: verdict(state) });
    for (const { button, holds } of begins) set(button, { "aria-pressed": holds(state) });
    reset.disabled = !guessing && text === "";
    const said = guessing ? "" : sentence(state);
    if (said) {
      model.set("_told", { state, sentence: said }); // for Python, which has no words of its own
      save();
    }
    words = said.replace(/ ([+=]) /g, "\u00a0$1\u00a0"); // formulas stay whole
    set(told, { text: words });
    if (heard.textContent === "") heard.textContent = words;
    else tell();
    root.dispatchEvent(new CustomEvent("ln-drawn", { bubbles: true, detail: { text, numbers: () => numbers(state) } }));
  }

  root.addEventListener("ln-set", ({ detail }) => {
    endGuess(false);
    const traits = readState(detail, defaults, settle);
    const before = read();
    put({ ...first, ...traits });
    const changed = names.filter((name) => String(now(name)) !== String(before[name]));
    for (const node of root.querySelectorAll("[data-trait]")) {
      if (!changed.some((name) => node.dataset.trait.split(" ").includes(name))) continue;
      node.classList.remove("ln-flash");
      void node.getBoundingClientRect(); // so that it begins again
      node.classList.add("ln-flash");
    }
  });
  root.addEventListener("ln-nudge", ({ detail: { trait, by } }) => {
    endGuess(false);
    put({ [trait]: nudges[trait](now(trait), by) });
  });

  const moved = () => {
    endGuess(false);
    set(answer, { text: "" }); // it was about another state
    schedule();
  };
  const resize = new ResizeObserver(() => {
    if (fit()) schedule();
  });
  for (const chart of charts) resize.observe(chart.node);
  const changes = names.map((name) => [`change:${name}`, guess?.keeps?.includes(name) ? schedule : moved]);
  for (const change of changes) model.on(...change);
  el.append(root);
  fit();
  draw();
  return () => {
    resize.disconnect();
    cancelAnimationFrame(due);
    tell.cancel();
    save.flush();
    for (const change of changes) model.off(...change);
    root.remove();
  };
}
