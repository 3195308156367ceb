/**
 * What every explorer looks like and does: a question, what is seen in a few words, the picture, one row of
 * controls, a sentence; starts and tables are in a fold. An explorer says what is about its subject: NAME.py has
 * its traits, NAME.mjs the arithmetic and the words, which know nothing of the page, and NAME_charts.mjs the
 * pictures, which draw what `look` has reckoned.
 */
import { debounce, formatNumber, html, ownKeys, remember, set, sub, throttle } from "./common.mjs";
import { button, numberTable, radios, slider } from "./controls.mjs";
import { grips } from "./handles.mjs";
import { reveal, tieProse } from "./prose.mjs";
import { readState, stateText, traitsOf } from "./traits.mjs";

/**
 * What anywidget asks for: a view of the model, whose traits Python declares.
 *
 * The root hears `ln-set`, whose detail is a state in words (traits.mjs), and `ln-nudge`, whose detail is
 * `{ trait, by }`; at `ln-reveal` it comes into sight. It tells each state that it draws by `ln-drawn`, from which
 * a built page makes its address, and by `ln-followed` that a link in the text is about to set it.
 *
 * - `kind` is in the class of the root, `label` names it for those who cannot see it; `question` is what the
 *   reader should find out, `hint` how to begin.
 * - `starts(first, now)` are buttons: a name and the traits it sets, to a value or to what a function returns
 *   when the button is pressed.
 * - `look(state, guessing)` is all that is drawn and told; `verdict(state)` is what is seen in a few words,
 *   `sentence(state)` its numbers, and `readings` those for the text, each from `(shown, state)`.
 * - `guess`: `ask(state)` is what the reader is asked before anything is seen, or null; `answer(state, said)`
 *   what is so. Until then, or until a trait changes that `keeps` does not name, what has the class ln-later
 *   is hidden, and what has ln-asking is shown. `others` are the states of the next guesses. `beats` are buttons
 *   that show the rest of what is asked about, one after another; verdict, sentence and charts know how many are `left`.
 * - `build(tools)` makes the body once: `parts`, or else `charts` alone; `row`, of controls; `fold`; and perhaps
 *   a `verdict` that knows what this view has shown. Each of `charts` is moved by `paint(state, shown, { guessing,
 *   said, left })`; `said` is the guess, as long as it is made or its answer stands. Of the tools `change(trait, value)`
 *   sets a trait, `commit()` sends the last one of a gesture, `put(traits)` does both, `now(trait)` is a value,
 *   drawn or not; `say(value)` takes the guess, `asked` is the place of question and answer; the others make controls.
 */
export const explorer = (options) => ({ render: (context) => show(context, options) });

function show({ model, el }, options) {
  const { kind, label, question, hint, starts, sentence } = options;
  const { look = (state) => state, readings = {}, guess = null } = options;
  const traits = traitsOf(model.get("_declared"));
  const names = Object.keys(traits);
  const now = (name) => model.get(name);
  const stateOf = remember((...values) => Object.fromEntries(names.map((name, i) => [name, values[i]])));
  const read = () => stateOf(...names.map(now));
  const settle = (name, value) => traits[name].settle(value);
  const first = read(); // which a cell may have chosen
  const save = throttle(() => model.save_changes());
  const commit = () => save.flush();
  const change = (name, value) => {
    const settled = settle(name, value);
    if (settled === undefined) return;
    model.set(name, settled);
    save();
  };
  const put = (values) => {
    for (const [trait, value] of Object.entries(values)) change(trait, value);
    commit();
    schedule(); // also clears a refused number
  };
  let [due, guessing, said, asked, left] = [null, false, undefined, 0, 0];

  // --- controls, which are painted by themselves
  const painted = [];
  /** Let a control be painted with what `of(state, shown)` returns. */
  const shows = ({ node, paint }, of) => {
    painted.push((state, seen) => paint(...of(state, seen)));
    return node;
  };
  const tools = {
    ...{ traits, now, change, commit, put, shows },
    /** A slider of a trait, or of the i-th number of it; `says(v)` is its value in words. */
    field(trait, { i, says, ...more } = {}) {
      const one = { ...traits[trait], ...more };
      if (i !== undefined) Object.assign(one, { symbol: one.symbol + sub(i), unit: "" });
      const number = (state) => (i === undefined ? state[trait] : state[trait][i]);
      const whole = (v) => (i === undefined ? v : now(trait).with(i, v));
      const words = says ?? ((v) => `${one.symbol} = ${formatNumber(v)}`);
      const made = slider(one, (v) => change(trait, whole(v)), commit);
      return shows(made, (state) => [number(state), words(number(state))]);
    },
    /** `more(value)` are traits that a choice sets besides. */
    choice: (trait, legend, choices, more = () => ({})) => shows(radios(trait, legend, Object.entries(choices), (v) => put({ [trait]: v, ...more(v) })), (state) => [`${state[trait]}`]),
    /** `columns(shown, state)` are the cells beside the names, column by column. */
    table: (heads, rows, columns, style) => shows(numberTable(heads, rows, style), (state, seen) => [columns(seen, state)]),
    /** Handles of a trait (handles.mjs), one for each number of it. */
    grips(trait, handles, more) {
      const isList = Array.isArray(first[trait]);
      const value = (i) => (isList ? now(trait)[i] : now(trait));
      const set = (i, v) => change(trait, isList ? now(trait).with(i, v) : v);
      return grips(handles, { of: traits[trait], value, put: set, end: commit, ...more });
    },
    /** The handle of a guess, which is a number like those of a trait and stands at `from` at first. */
    guessGrip: (trait, handle, { from, ...more }) => grips([handle], { of: traits[trait], value: () => said ?? from, put: (_, v) => tools.say(settle(trait, v)), up: () => tools.say(said ?? from), end() {}, ...more }),
    say(value) {
      said = value;
      schedule();
    },
    asked: html("div", { class: "ln-asked" }),
  };
  const { charts, row = [], fold = [], paint = () => {}, ...body } = options.build(tools);
  const { parts = charts.map(({ node }) => node), verdict = options.verdict } = body;

  // --- the guess
  const ask = html("p");
  const see = button("See", () => endGuess(true), { class: "ln-button ln-see" });
  const skip = button("Skip", () => endGuess(false), { class: "ln-button ln-skip" });
  const answer = html("p", { class: "ln-answer", role: "status" });
  const again = button("Guess again", () => {
    if (left > 0) {
      left -= 1;
      if (left === 0 && said === undefined) root.focus({ preventScroll: true }); // it goes now
      return schedule();
    }
    put({ ...first, ...guess.others[asked++ % guess.others.length] });
    model.set("ask", true);
    see.focus({ preventScroll: true });
  });
  if (guess) tools.asked.append(html("div", { class: "ln-ask ln-asking" }, ask, see, skip), answer, again);

  function beginGuess() {
    const text = guess?.ask(read());
    if (!text) return;
    forgetAnswer();
    guessing = true;
    set(ask, { text });
    root.classList.add("ln-guessing");
    schedule();
  }
  /** Begin with what was asked about where that is wanted; otherwise show all. */
  function endGuess(wanted) {
    left = 0;
    if (!guessing) return;
    guessing = false;
    model.set("ask", false); // no other view asks again
    const focused = tools.asked.contains(document.activeElement);
    root.classList.remove("ln-guessing");
    if (focused) set(root, { tabindex: -1 }).focus({ preventScroll: true }); // it goes with its button
    if (wanted) left = guess.beats?.length ?? 0;
    if (wanted) set(answer, { text: guess.answer(read(), said) });
    else forgetAnswer();
    fit(); // what was hidden stands beside it now
    schedule();
  }
  /** The guess and its answer were about another state, or nobody wanted the answer. */
  function forgetAnswer() {
    if (said === undefined) return; // each move comes here
    said = undefined;
    set(answer, { text: "" });
  }

  // --- what is there
  const start = ([name, values], attributes) => {
    const sets = () => Object.entries(values).map(([trait, value]) => [trait, typeof value === "function" ? value() : value]);
    const action = () => {
      endGuess(false);
      put(Object.fromEntries(sets()));
    };
    return { node: button(name, action, attributes), holds: (state) => sets().every(([trait, value]) => String(state[trait]) === String(value)) };
  };
  const reset = start(["↺", first], { class: "ln-button ln-reset", "aria-label": "Reset", title: "Reset" }).node;
  const defaults = Object.fromEntries(names.map((name) => [name, traits[name].first]));
  const begins = Object.entries(starts(defaults, now)).map((one) => start(one));
  const presets = html("div", { class: "ln-presets" }, ...begins.map(({ node }) => node));
  const summary = html("summary", { text: "Examples and numbers" });
  const seen = html("p", { class: "ln-verdict ln-later" });
  const told = html("p", { class: "ln-sentence", "aria-hidden": true });
  const heard = html("p", { class: "ln-heard", "aria-live": "polite" });
  const own = `ln-${Math.random().toString(36).slice(2)}`; // an explorer may be there twice
  const root = html(
    "section",
    { class: `ln-explorer ln-${kind}`, "aria-label": `Explorer: ${label}`, "aria-describedby": `${own}q ${own}h` },
    html("div", { class: "ln-head" }, html("p", { class: "ln-question", id: `${own}q`, text: question }), reset),
    html("p", { class: "ln-hint", id: `${own}h`, text: hint }),
    seen,
    ...parts,
    ...(tools.asked.parentNode ? [] : [tools.asked]),
    ...(row.length ? [html("div", { class: "ln-controls ln-later" }, ...row)] : []),
    told,
    heard,
    html("details", { class: "ln-fold ln-later" }, summary, presets, ...fold),
  );
  const fit = () => charts.map((one) => one.fit()).some(Boolean);
  const prose = tieProse(root, kind, traits, () => numbers(read()));

  // --- what is drawn and told
  /** Each number that the text may show, written as the picture writes it. */
  function numbers(state) {
    const readable = Object.entries(readings).map(([name, of]) => [name, of(look(state), state)]);
    const all = [...Object.entries(state), ...readable].map(([name, v]) => [name, typeof v === "number" ? formatNumber(v) : v]);
    return Object.fromEntries(all.filter(([, words]) => typeof words === "string"));
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

  let drawn = null;
  function draw() {
    const state = read();
    const text = stateText(state, first);
    const shown = guessing ? look(state, true) : look(state); // as verdict and sentence ask, so that it is remembered
    for (const one of charts) one.paint(state, shown, { guessing, said, left });
    for (const one of painted) one(state, shown);
    paint(state, shown);
    set(root, { "data-left": left || null });
    const over = left === 0 && (said === undefined || !guess?.others);
    set(again, { text: left > 0 ? guess.beats.at(-left) : "Guess again", hidden: guessing || over ? "" : null });
    set(seen, { text: verdict(state, left) });
    for (const { node, holds } of begins) set(node, { "aria-pressed": holds(state) });
    set(reset, { "aria-disabled": !guessing && text === "" });
    set(see, { "aria-disabled": said === undefined });
    const sentenceNow = guessing ? "" : sentence(state, left);
    if (sentenceNow && drawn !== state) {
      model.set("_told", { state, sentence: sentence(state) }); // for Python, which has no words of its own
      save();
    }
    drawn = guessing ? null : state;
    words = sentenceNow.replace(/ ([+=]) /g, "\u00a0$1\u00a0"); // formulas stay whole
    set(told, { text: words });
    if (heard.textContent === "") heard.textContent = words;
    else tell();
    prose.write();
    root.dispatchEvent(new CustomEvent("ln-drawn", { bubbles: true, detail: { text: guessing ? "" : text, numbers: () => numbers(state) } }));
  }

  ownKeys(root);
  root.addEventListener("ln-set", ({ detail }) => {
    endGuess(false);
    const before = read();
    put({ ...first, ...readState(detail, defaults, settle) });
    const changed = names.filter((name) => String(now(name)) !== String(before[name]));
    for (const node of root.querySelectorAll("[data-trait]")) {
      if (!changed.some((name) => node.dataset.trait.split(" ").includes(name))) continue;
      node.classList.remove("ln-flash");
      void node.getBoundingClientRect(); // so that it begins again
      node.classList.add("ln-flash");
      setTimeout(() => node.classList.remove("ln-flash"), 1500);
    }
  });
  root.addEventListener("ln-reveal", () => reveal(root));
  const print = () => {
    endGuess(false); // paper takes no guess
    draw();
  };
  addEventListener("beforeprint", print);
  root.addEventListener("ln-nudge", ({ detail: { trait, by } }) => put({ [trait]: traits[trait].onward(now(trait), by) }));

  const moved = () => {
    if (guessing) endGuess(false);
    forgetAnswer();
    schedule();
  };
  const resize = new ResizeObserver(() => {
    if (fit()) schedule();
  });
  for (const one of charts) resize.observe(one.node);
  const asks = () => (model.get("ask") === false ? endGuess(false) : beginGuess());
  const changes = [["change:ask", asks], ...names.map((name) => [`change:${name}`, guess?.keeps?.includes(name) ? schedule : moved])];
  for (const one of changes) model.on(...one);
  asks();
  el.append(root);
  fit();
  draw();
  return () => {
    resize.disconnect();
    cancelAnimationFrame(due);
    tell.cancel();
    save.flush();
    prose.leave();
    removeEventListener("beforeprint", print);
    for (const one of changes) model.off(...one);
    root.remove();
  };
}
