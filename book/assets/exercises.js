// Takes the answers to a page's exercises, without a kernel: puts a field under each question whose answer is a value,
// and says what Python says in the notebook (answers.js, searches.js). What is answered rightly is kept in this
// browser, under one key a page. The data is encoded by book/_ext/answers.py.
(() => {
  "use strict";
  const data = document.getElementById("ln-exercises");
  const { page } = data.dataset;
  const key = `ln-exercises/${page}`;
  const asked = JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(data.textContent), (c) => c.charCodeAt(0) ^ 90)));
  const kept = (() => {
    try {
      return JSON.parse(localStorage.getItem(key)) ?? {};
    } catch { return {}; } // not for pages from a folder, in some browsers
  })();
  const keep = () => {
    try {
      localStorage.setItem(key, JSON.stringify(kept));
    } catch { /* until the page is left, then */ }
  };

  function element(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [attribute, value] of Object.entries(attributes)) node.setAttribute(attribute, value);
    node.append(...children);
    return node;
  }

  /** A text field, or for truth values a choice at each place: its nodes, the text that it holds, how to write one. */
  function control(id, label, about, { truth }, ask) {
    const hidden = element("span", { class: "visually-hidden" }, about);
    if (!truth?.bool) {
      const field = element("input", { id, type: "text", placeholder: ask.replace(/^answer (with )?/, ""), autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
      return { nodes: [element("label", { for: id }, label, hidden), field], read: () => field.value, write: (text) => { field.value = text; } };
    }
    const radios = truth.data.map((_, i) => [true, false].map((value) => element("input", { type: "radio", name: `${id}-${i}`, value })));
    const groups = radios.map((pair, i) => element(
      "fieldset", {}, element("legend", {}, `place ${i + 1}`), ...pair.map((radio) => element("label", {}, radio, radio.value === "true" ? "True" : "False")),
    ));
    return {
      nodes: [element("fieldset", { class: "ln-ex-choices" }, element("legend", {}, label, hidden), ...groups)],
      read() {
        const chosen = radios.map((pair) => pair.find((radio) => radio.checked)?.value);
        return chosen.includes(undefined) ? "" : chosen.join();
      },
      write: (text) => radios.forEach((pair, i) => pair.forEach((radio) => { radio.checked = text.split(",")[i] === radio.value; })),
    };
  }

  /** A sentence whose links, [words](#address), are links. */
  const linked = (text) => text.split(/(\[.+?\]\(.+?\))/).map((part) => {
    const [, words, href] = /^\[(.+)\]\((.+)\)$/.exec(part) ?? [];
    return href ? element("a", { href }, words) : part;
  });

  /** A form for one answer, which is kept under `name`; an empty field says `ask`, and `start` shows what is kept. */
  function answerable({ name, what, label, about, ask = "", ticked }) {
    const { nodes, read, write } = control(`answer-${name.replaceAll(/[ /]/g, "-")}`, label, about, what, ask);
    const verdict = element("p", { class: "ln-ex-said", role: "status" });
    const why = element("p", { class: "ln-ex-why", role: "status" });
    const tick = element("span", { class: "ln-ex-tick", role: "img", "aria-label": "answered" }, "✓");
    const form = element("form", { class: "ln-ex-form" }, ...nodes, element("button", {}, "Check"), verdict, why);
    const judge = (text) => lnAnswers.judge(what, text, what.search && lnSearches[what.search]);
    function show({ right = false, message = "" } = {}) {
      verdict.textContent = message;
      why.replaceChildren(...linked(right ? what.why : ""));
      verdict.classList.toggle("ln-ex-right", right);
      tick.hidden = !(name in kept);
    }
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const said = judge(read());
      if (said.right) kept[name] = read();
      verdict.textContent = ""; // what is said again is announced again
      requestAnimationFrame(() => show(said));
      count();
    });
    form.addEventListener("input", () => show());
    function start() {
      if (name in kept && !judge(kept[name]).right) delete kept[name]; // the exercise has changed
      write(kept[name] ?? "");
      show(name in kept ? judge(read()) : undefined);
    }
    start();
    (ticked ?? nodes[0]).append(tick);
    return { name, form, start };
  }

  /** What the box of an exercise takes: one answer, or the first number of each gradient in the derivation game. */
  function taken(label, what) {
    const box = document.getElementById(label);
    const title = box.querySelector(".admonition-title");
    const about = ` to ${title.textContent.trim()}`;
    if (!what) {
      box.append(elsewhere());
      return [];
    }
    if (!what.steps) {
      box.nextElementSibling.classList.add("ln-ex-cell"); // the cell that asks for the same in JupyterLab
      const answer = answerable({ name: label, what, label: "Your answer", about, ask: what.ask, ticked: title });
      box.append(answer.form);
      return [answer];
    }
    const steps = what.steps.map(([name, step]) => answerable({ name: `${label} ${name}`, what: step, label: name, about }));
    box.append(
      element("p", { class: "ln-ex-play" }, `Or play it here, on numbers: ${what.all}, and two rows. What is the first number of each gradient? Two digits after the point are enough.`),
      table(what.rows),
      ...steps.map(({ form }) => form),
      elsewhere("Write the functions"),
    );
    return steps;
  }

  /** The numbers of the game: a line for each symbol, a column for each row of the batch. */
  function table(lines) {
    const heads = lines[0].slice(1).map((_, b) => element("th", { scope: "col" }, `row ${b + 1}`));
    return element("table", { class: "ln-ex-numbers" }, element("tr", {}, element("td"), ...heads), ...lines.map(
      ([symbol, ...numbers]) => element("tr", {}, element("th", { scope: "row" }, symbol), ...numbers.map((words) => element("td", {}, words))),
    ));
  }

  /** Where a function is written. */
  function elsewhere(what = "Write this one") {
    const there = element("p", { class: "ln-ex-elsewhere" }, `${what} in JupyterLab: `);
    there.append(element("code", {}, "make lab"), ", ", element("code", {}, `${page}.ipynb`), ".");
    return there;
  }

  const counted = element("span", { role: "status" });
  const again = element("button", { type: "button" }, "Start again");
  const answers = [];
  function count() {
    keep();
    const done = answers.filter(({ name }) => name in kept).length;
    counted.textContent = `${done} of ${answers.length} right`;
    again.hidden = done === 0;
  }
  for (const [label, what] of Object.entries(asked)) answers.push(...taken(label, what));
  again.addEventListener("click", () => {
    for (const { name } of answers) delete kept[name];
    answers.forEach(({ start }) => start());
    count();
    answers[0].form.querySelector("input").focus({ preventScroll: true });
  });
  const note = document.querySelector(".ln-where-to-answer");
  note.firstChild.data = "Write your answers here or in JupyterLab (";
  note.lastChild.data = "), or open the solutions. Correct answers are saved in this browser.";
  note.after(element("p", { class: "ln-ex-count" }, counted, again));
  count();
})();
