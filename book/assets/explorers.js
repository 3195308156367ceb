// Shows the explorers of a built page without a kernel, a server or a network.
//
// Jupyter Book leaves each widget's state in the page as JSON. This script reads it, makes a model
// with what they ask of anywidget's, and mounts the explorer before its view script, in a
// .ln-explorer-output beside picture and sentence. They go once that is .ln-live: the explorer is drawn.
// A classic script, since browsers refuse module files on file://.
(() => {
  "use strict";
  const modules = new Map(); // text of a module -> promise of its default export
  const models = new Map(); // id -> promise of { model, widget }
  const styles = new Set();
  const read = (type) =>
    [...document.querySelectorAll(`script[type="application/vnd.jupyter.widget-${type}+json"]`)].map(
      (script) => ({ script, json: JSON.parse(script.textContent) }),
    );

  function makeModel(state) {
    const values = { ...state };
    const listeners = new Map();
    return {
      get: (name) => values[name],
      set(name, value) {
        if (Object.is(values[name], value)) return;
        values[name] = value;
        [...(listeners.get(`change:${name}`) ?? [])].forEach((callback) => callback());
      },
      on: (event, callback) => listeners.set(event, (listeners.get(event) ?? new Set()).add(callback)),
      off: (event, callback) => listeners.get(event)?.delete(callback),
      save_changes() {}, // there is no kernel
    };
  }

  function load(text) {
    if (!modules.has(text)) {
      const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      const loaded = import(url).finally(() => URL.revokeObjectURL(url));
      modules.set(text, loaded.then((module) => module.default));
    }
    return modules.get(text);
  }

  function style(css) {
    if (!css || styles.has(css)) return;
    styles.add(css);
    document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
  }

  async function open({ _esm, _css, ...state }) {
    style(_css);
    return { model: makeModel(state), widget: await load(_esm) };
  }

  /** Which end of `place` has to stay where it is: the reader looks at what is behind it, or at it. */
  const edge = ({ top, bottom }) => (top < 0 && bottom < innerHeight / 3 ? "bottom" : "top");
  const whole = document.documentElement.style;
  let owed = 0; // of a pixel: a page scrolls by whole ones, and several explorers add up

  function draw({ model, widget }, el, script) {
    const place = script.closest(".ln-explorer-output") ?? script.parentElement;
    const where = () => place.getBoundingClientRect();
    whole.overflowAnchor = "none"; // the browser would keep the picture in place
    const before = where();
    script.before(el);
    widget.render({ model, el });
    place.classList.add("ln-live");
    const end = edge(before);
    const moved = () => where()[end] - before[end] + owed;
    scrollBy({ top: moved(), behavior: "instant" });
    owed = moved() % 1;
  }

  let last = Promise.resolve(); // one by one: none measures another half drawn

  async function mount(script, id) {
    const el = Object.assign(document.createElement("div"), { className: "ln-mount" });
    try {
      const opened = await models.get(id);
      await (last = last.catch(() => {}).then(() => draw(opened, el, script)));
    } catch (error) {
      el.remove();
      console.error("An explorer could not be shown; its picture stands in.", error);
    }
    requestAnimationFrame(() => { whole.overflowAnchor = ""; });
  }

  function start() {
    for (const { json } of read("state")) {
      for (const [id, { state }] of Object.entries(json.state)) {
        if (state._esm && !models.has(id)) models.set(id, open(state));
      }
    }
    const views = read("view").filter(({ json }) => models.has(json.model_id));
    const mounts = views.map(({ script, json }) => mount(script, json.model_id));
    Promise.allSettled(mounts).then(() => dispatchEvent(new Event("ln-mounted"))); // for book.js
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
