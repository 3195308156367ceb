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

  /** A text field, or for truth values a choice at each place: its node, the text that it holds, how to write one. */
  function control(label, title, { truth }) {
    const said = `Your answer to ${title}`;
    const id = `answer-${label}`;
    if (!truth?.bool) {
      const field = element("input", { id, type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
      return { nodes: [element("label", { for: id, "aria-label": said }, "Your answer"), field], read: () => field.value, write: (text) => { field.value = text; } };
    }
    const radios = truth.data.map((_, i) => [true, false].map((value) => element("input", { type: "radio", name: `${id}-${i}`, value })));
    const groups = radios.map((pair, i) => element(
      "fieldset", {}, element("legend", {}, `${i + 1}`), ...pair.map((radio) => element("label", {}, radio, radio.value === "true" ? "True" : "False")),
    ));
    return {
      nodes: [element("div", { class: "ln-choices", role: "group", "aria-label": said }, ...groups)],
      read() {
        const chosen = radios.map((pair) => pair.find((radio) => radio.checked)?.value);
        return chosen.includes(undefined) ? "" : chosen.join();
      },
      write: (text) => radios.forEach((pair, i) => pair.forEach((radio) => { radio.checked = text.split(",")[i] === radio.value; })),
    };
  }

  /** Put a form under a question. */
  function answerable(label, what, changed) {
    const box = document.getElementById(label);
    const title = box.querySelector(".admonition-title");
    const { nodes, read, write } = control(label, title.textContent.trim(), what);
    const verdict = element("p", { class: "ln-verdict", role: "status" });
    const tick = element("span", { class: "ln-tick", role: "img", "aria-label": "answered", hidden: "" }, "✓");
    const form = element("form", { class: "ln-answer" }, ...nodes, element("button", {}, "Check"), verdict);
    const judge = () => lnAnswers.judge(what, read(), what.search && lnSearches[what.search]);
    function show({ right, message }) {
      verdict.textContent = message;
      verdict.classList.toggle("ln-right", right);
      tick.hidden = !(label in kept);
    }
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const said = judge();
      if (said.right) kept[label] = read();
      verdict.textContent = ""; // what is said again is announced again
      requestAnimationFrame(() => show(said));
      changed();
    });
    form.addEventListener("input", () => show(lnAnswers.judge(what, "")));
    const start = () => {
      write(kept[label] ?? "");
      if (!judge().right) delete kept[label]; // the exercise has changed
      show(judge());
    };
    start();
    title.append(tick);
    box.append(form);
    box.nextElementSibling.classList.add("ln-instead"); // the cell that asks for the same in JupyterLab
    return start;
  }

  function written(label) {
    const there = element("p", { class: "ln-elsewhere" }, "Write this one in JupyterLab: ");
    there.append(element("code", {}, "make lab"), ", ", element("code", {}, `${page}.ipynb`), ".");
    document.getElementById(label).append(there);
  }

  const note = document.querySelector(".ln-where-to-answer");
  const count = element("span", { role: "status" });
  const again = element("button", { type: "button" }, "Start again");
  const labels = Object.keys(asked).filter((label) => asked[label]);
  function changed() {
    keep();
    const done = labels.filter((label) => label in kept).length;
    count.textContent = `${done} of ${labels.length} answered`;
    again.hidden = done === 0;
  }
  const starts = labels.map((label) => answerable(label, asked[label], changed));
  Object.keys(asked).filter((label) => !asked[label]).forEach(written);
  again.addEventListener("click", () => {
    for (const label of labels) delete kept[label];
    starts.forEach((start) => start());
    changed();
    document.querySelector(".ln-answer input").focus({ preventScroll: true });
  });
  note.firstChild.data = "Write your answers here or in JupyterLab (";
  note.lastChild.data = "), or open the solutions. What you answer here stays in this browser.";
  note.after(element("p", { class: "ln-answered" }, count, again));
  changed();
})();
