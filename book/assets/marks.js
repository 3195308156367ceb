// Marks of checks: each opens the code that checks a sentence, in its place, and closes it again; one button opens all of
// a page. A mark is a tick alone; its label comes with a mouse or a key. Without this script a mark leads to the fold of
// its check, which has a line of its own then.
(() => {
  "use strict";
  document.documentElement.classList.add("ln-marks");
  const checkOf = (mark) => document.getElementById(mark.hash.slice(1));

  /** Scroll as little as shows an opened check: its mark may stand some equations above it. */
  function bringIntoSight(check) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    check.scrollIntoView({ block: "nearest", behavior: still ? "instant" : "smooth" });
  }

  /** Let a mark be a button that shows whether its check is open. */
  function wire(mark) {
    const check = checkOf(mark);
    const show = () => mark.setAttribute("aria-expanded", check.open);
    mark.setAttribute("role", "button");
    mark.setAttribute("aria-controls", check.id);
    check.firstElementChild.tabIndex = -1; // the mark is how to open it
    check.addEventListener("toggle", show);
    show();
    const toggle = (event) => {
      event.preventDefault();
      check.open = !check.open;
      show(); // the event comes later
      if (check.open) bringIntoSight(check);
    };
    mark.addEventListener("click", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) toggle(event);
    });
    mark.addEventListener("keydown", (event) => {
      if (event.key === " ") toggle(event);
    });
  }

  /** Let the label of a mark stand above it, while a mouse is there, or the focus by a key. */
  function tell(mark) {
    const label = Object.assign(document.createElement("div"), { className: "ln-check-label", ariaHidden: "true" });
    const hide = () => label.remove();
    const show = () => {
      label.textContent = mark.getAttribute("aria-label");
      document.body.append(label);
      const at = mark.getBoundingClientRect();
      const left = Math.min(at.left, document.documentElement.clientWidth - label.offsetWidth - 8);
      label.style.left = `${Math.max(8, left) + scrollX}px`;
      label.style.top = `${at.top + scrollY - label.offsetHeight}px`;
    };
    mark.addEventListener("pointerenter", ({ pointerType }) => { if (pointerType !== "touch") show(); });
    mark.addEventListener("focus", () => { if (mark.matches(":focus-visible")) show(); });
    for (const name of ["pointerleave", "blur", "click"]) mark.addEventListener(name, hide);
  }

  /** Let the button below the title open or close every check of the page. */
  function openAll(checks) {
    const button = document.querySelector(".ln-all-checks");
    const opens = () => checks.some((check) => !check.open);
    const name = () => { button.textContent = `${opens() ? "Open" : "Close"} all ${checks.length} checks`; };
    button.addEventListener("click", () => {
      const open = opens();
      for (const check of checks) check.open = open;
    });
    for (const check of checks) check.addEventListener("toggle", name);
    name();
  }

  /** Open the check that an address names. */
  function follow() {
    const check = document.getElementById(location.hash.slice(1));
    if (!check?.matches(".ln-check")) return;
    check.open = true;
    check.scrollIntoView({ block: "nearest", behavior: "instant" });
  }

  function start() {
    const marks = [...document.querySelectorAll(".ln-check-mark")];
    if (!marks.length) return;
    marks.forEach(wire);
    marks.forEach(tell);
    openAll(marks.map(checkOf));
    follow();
    addEventListener("hashchange", follow);
    addEventListener("keydown", ({ key }) => {
      if (key === "Escape") for (const label of document.querySelectorAll(".ln-check-label")) label.remove();
    });
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
