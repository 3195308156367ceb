// The states of a page's explorers in its address, and symbols that light up wherever they stand. What links and
// numbers of the text do is the explorers' own (lnlib/book/explorers/prose.mjs).
(() => {
  "use strict";

  // --- states: #explorer-depth?scale=2;explorer-row?weight=3, the one that was moved last first ---------------

  const rootOf = (id) => document.getElementById(id)?.querySelector(".ln-explorer");
  let before = history.state?.lnStates; // until Sphinx clears it
  const states = new Map(); // in words, of all that are not as they start
  const written = () => [...states].reverse().map(([id, text]) => `${id}?${text}`).join(";");
  const read = (hash) => hash.slice(1).split(";").map((one) => one.split("?")).filter(([id, text]) => text && rootOf(id));

  /** Set these states, and of all other explorers the one that they start with. */
  function restore(wanted) {
    const all = { ...Object.fromEntries([...states.keys()].map((id) => [id, ""])), ...Object.fromEntries(wanted) };
    for (const [id, detail] of Object.entries(all)) {
      if (detail !== (states.get(id) ?? "")) rootOf(id).dispatchEvent(new CustomEvent("ln-set", { detail }));
    }
  }

  let [due, wait] = [0, 250];
  document.addEventListener("ln-drawn", ({ target, detail: { text } }) => {
    const { id } = target.closest(".ln-explorer-output") ?? {};
    if (!id || text === (states.get(id) ?? "")) return;
    states.delete(id);
    if (text) states.set(id, text);
    clearTimeout(due);
    due = setTimeout(keep, wait);
    wait = 250;
  });
  /** Let this entry of the history have the states, under the same address or another one. */
  const mark = (address) => history.replaceState({ ...history.state, lnStates: [...states] }, "", address);
  /** Let the address have them too; with none it leads to where it led. */
  function keep() {
    const hash = states.size ? `#${written()}` : location.hash.split("?")[0];
    mark(hash || location.pathname + location.search);
  }
  document.addEventListener("ln-followed", () => {
    wait = 0;
    history.pushState({ ...history.state }, "", location.href); // so that "back" leads to the text as it was
  });
  addEventListener("popstate", ({ state }) => {
    clearTimeout(due); // what was drawn before is not the address of where one goes
    if (state?.lnStates) restore(state.lnStates);
    else if (location.hash.includes("?")) start();
    else mark(); // a link to a place in the text
  });
  /** Lead to the states as they were, when a page is loaded again; otherwise to those of its address. */
  function start() {
    const wanted = before ?? read(location.hash).reverse();
    restore(wanted);
    if (!before) wanted.slice(-1).forEach(([id]) => rootOf(id).dispatchEvent(new CustomEvent("ln-reveal")));
    before = undefined;
    mark();
  }
  addEventListener("ln-mounted", start);

  // --- symbols ----------------------------------------------------------------------------------

  const lit = document.documentElement.dataset;
  const symbolOf = (node) => /\bln-s-([a-z-]+)/.exec(node?.closest?.(".ln-s")?.getAttribute("class") ?? "")?.[1];
  const light = (name) => {
    if (name) lit.lnLit = name;
    else delete lit.lnLit;
  };
  let kept = false; // by a tap or a key
  const over = ({ target, pointerType }) => {
    if (pointerType !== "touch" && !kept) light(symbolOf(target));
  };
  document.addEventListener("pointerover", over);
  document.addEventListener("focusin", ({ target }) => {
    const name = symbolOf(target) ?? symbolOf(target.querySelector?.(":scope > .ln-s"));
    if (name) light(name);
  });
  document.addEventListener("click", ({ target }) => {
    const labels = [...(target.labels ?? [])];
    if (labels.some((label) => symbolOf(label.querySelector(".ln-s")) === lit.lnLit)) return; // a tap on a label taps its field too
    const name = symbolOf(target);
    kept = name !== undefined;
    light(name);
  });
  // An equation that has the focus is gone through by the arrows, symbol by symbol.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      kept = false;
      light();
    }
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.target.localName !== "mjx-container" || !by) return;
    const names = [...new Set([...event.target.querySelectorAll(".ln-s")].map(symbolOf))];
    if (!names.length) return;
    event.preventDefault();
    kept = true;
    light(names.at((names.indexOf(lit.lnLit) + by + names.length) % names.length));
  });
})();
