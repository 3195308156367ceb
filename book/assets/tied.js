// The text and its pictures: links that set a state, numbers that can be dragged, the state in the address, and
// symbols that light up wherever they stand. In the sources each link is an ordinary one to an explorer, and its
// title says what it does (book/_ext/tied.py).
(() => {
  "use strict";
  const explorerAt = (id) => document.getElementById(id)?.querySelector(".ln-explorer");
  const placeOf = (root) => root.closest(".ln-explorer-output");
  const targetOf = (link) => link.getAttribute("href").slice(1);
  const say = (root, name, detail) => root.dispatchEvent(new CustomEvent(name, { detail }));
  const numbers = []; // of the text: those to be dragged, and those that an explorer writes

  // --- states: #explorer-epsilon?eps=1e-8&spread=0.001 ------------------------------------------

  /** Set the state that an address names, if its explorer is there; true if it was. */
  function follow(hash) {
    const [, id, state] = /^#(explorer-[a-z0-9-]+)\?(.*)$/.exec(hash) ?? [];
    const root = id && explorerAt(id);
    if (!root) return false;
    say(root, "ln-set", state);
    const fits = root.getBoundingClientRect().height < innerHeight;
    placeOf(root).scrollIntoView({ block: fits ? "nearest" : "start", behavior: "instant" });
    return true;
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.ln-tie");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (!explorerAt(targetOf(link))) return; // the link leads to the picture that stands in
    event.preventDefault();
    const hash = `#${targetOf(link)}?${link.dataset.lnSet}`;
    history.pushState({ ...history.state }, "", hash); // so that "back" leads to the text
    follow(hash);
  });
  addEventListener("hashchange", () => follow(location.hash));
  addEventListener("popstate", () => {
    clearTimeout(due); // what was drawn before is not the address of where one goes
    follow(location.hash);
  });

  let due;
  document.addEventListener("ln-drawn", ({ target, detail }) => {
    const place = placeOf(target);
    if (!place?.id) return; // not in the page yet
    const mine = numbers.filter(({ dataset }) => dataset.lnPlace === place.id);
    const words = mine.length ? detail.numbers() : {};
    for (const node of mine) {
      const { lnDrag, lnShows } = node.dataset;
      (lnDrag ? paintDragged : paint)(node, words[lnDrag ?? lnShows]);
    }
    clearTimeout(due);
    due = setTimeout(() => {
      const here = location.hash.startsWith(`#${place.id}`);
      if (detail.text === "" && !here) return;
      const hash = `#${place.id}${detail.text && `?${detail.text}`}`;
      if (location.hash !== hash) history.replaceState(history.state, "", hash);
    }, 250);
  });

  // --- numbers in the text ----------------------------------------------------------------------

  /** In place of a link that leads to an explorer, the number alone. */
  function plain(link) {
    const number = document.createElement("span");
    number.className = "ln-tie";
    number.textContent = link.textContent;
    Object.assign(number.dataset, link.dataset, { lnPlace: targetOf(link) });
    link.replaceWith(number);
    numbers.push(number);
    return number;
  }
  function paint(node, words) {
    if (words !== undefined && node.textContent !== words) node.textContent = words;
  }
  // ARIA wants no exponent.
  const decimal = new Intl.NumberFormat("en", { maximumSignificantDigits: 6, useGrouping: false }).format;
  function paintDragged(node, words) {
    paint(node, words);
    node.setAttribute("aria-valuetext", node.textContent);
    node.setAttribute("aria-valuenow", decimal(Number(node.textContent.replace("−", "-")) || 0));
  }

  const STEP = 6; // px a step
  const keys = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 };

  /** Let a number be dragged sideways, and moved by keys, as the slider that it belongs to. */
  function draggable(node) {
    const nudge = (by) => {
      const root = explorerAt(node.dataset.lnPlace);
      if (root && by !== 0) say(root, "ln-nudge", { trait: node.dataset.lnDrag, by });
    };
    node.setAttribute("role", "slider");
    node.tabIndex = 0;
    node.setAttribute("aria-label", `${node.dataset.lnDrag}, in the explorer`);
    node.title = "Drag sideways, or use the arrow keys";
    paintDragged(node);
    let [from, taken] = [null, 0];
    node.addEventListener("pointerdown", (event) => {
      [from, taken] = [event.clientX, 0];
      node.setPointerCapture(event.pointerId);
    });
    node.addEventListener("pointermove", (event) => {
      if (from === null) return;
      const steps = Math.trunc((event.clientX - from) / STEP);
      nudge(steps - taken);
      taken = steps;
    });
    for (const end of ["pointerup", "lostpointercapture"]) node.addEventListener(end, () => { from = null; });
    node.addEventListener("keydown", (event) => {
      const by = keys[event.key];
      if (by === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      nudge(by * (event.shiftKey ? 10 : 1));
    });
  }

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

  function start() {
    document.querySelectorAll("a[data-ln-drag]").forEach((link) => draggable(plain(link)));
    document.querySelectorAll("a[data-ln-shows]").forEach(plain);
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  addEventListener("ln-mounted", () => follow(location.hash));
})();
