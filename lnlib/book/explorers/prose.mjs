/**
 * What the text around an explorer does with it, in a page and in JupyterLab: links that set a state,
 * `#explorer-epsilon?eps=1e-5`, and numbers, `#explorer-epsilon?drag=eps` to be dragged and `…?shows=variance` to
 * be read, which the explorer writes.
 */
import { decimal, html, onKeys, ownKeys, set } from "./common.mjs";

const STEP = 6; // px a step
const keys = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 };
const say = (root, name, detail) => root.dispatchEvent(new CustomEvent(name, { bubbles: true, detail }));
const nearest = { block: "nearest", behavior: "instant" };
const inSight = ({ top, bottom }) => bottom > 0 && top < innerHeight;

/** Bring the picture into sight as it will be drawn, with its verdict and its sentence; a button leads back to a link. */
export const reveal = (root, link) => requestAnimationFrame(() => {
  root.querySelector(".ln-sentence").scrollIntoView(nearest);
  root.querySelector(".ln-head").scrollIntoView(nearest); // if both cannot be seen, the beginning is
  document.querySelector(".ln-way-back")?.remove();
  if (!link || inSight(link.getBoundingClientRect())) return;
  const back = html("button", { class: "ln-way-back", type: "button", text: "↩ Back to the text" });
  const leave = () => back.remove();
  back.addEventListener("click", () => {
    link.scrollIntoView({ block: "center", behavior: "instant" });
    link.focus({ preventScroll: true });
    leave();
  });
  new IntersectionObserver((seen, observer) => {
    if (!seen.some((one) => one.isIntersecting)) return;
    observer.disconnect();
    leave();
  }).observe(link);
  document.body.append(back);
});

/** Let a number be dragged sideways, and moved by keys, as the slider that it belongs to. */
function makeSlider(link, root, trait, { symbol = trait, low, high, zero }) {
  const nudge = (by) => by !== 0 && say(root, "ln-nudge", { trait, by });
  set(link, { class: "ln-number", role: "slider", tabindex: 0, draggable: false, title: "Drag sideways, or use the arrow keys" });
  set(link, { "aria-label": `${symbol}, in the explorer`, "aria-valuemin": decimal(zero ? 0 : low), "aria-valuemax": decimal(high) });
  let [from, taken] = [null, 0];
  link.addEventListener("pointerdown", (event) => {
    [from, taken] = [event.clientX, 0];
    link.setPointerCapture(event.pointerId);
  });
  link.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const steps = Math.trunc((event.clientX - from) / STEP);
    nudge(steps - taken);
    taken = steps;
  });
  link.addEventListener("dblclick", (event) => event.stopPropagation()); // JupyterLab would show the source of the text
  for (const end of ["pointerup", "lostpointercapture"]) link.addEventListener(end, () => { from = null; });
  ownKeys(link);
  onKeys(link, keys, (by, shift) => nudge(shift ? 10 * by : by));
}

/** Tie what the text says of an explorer to it; `numbers()` are those that it may show, which `write()` writes. */
export function tieProse(root, kind, traits, numbers) {
  const address = `a[href^="#explorer-${kind}?"]`;
  const saidBy = (link) => link.getAttribute("href").split("?")[1];
  const known = new Map(); // numbers of the text: what each is called

  /** Make the links that name a number what they are; in JupyterLab text may come late, and anew. */
  function find() {
    for (const link of document.querySelectorAll(address)) {
      const [, verb, name] = /^(drag|shows)=(\w+)$/.exec(saidBy(link)) ?? [];
      if (!verb) continue;
      known.set(link, name);
      set(link, { href: null, class: "ln-shown" });
      if (verb === "drag") makeSlider(link, root, name, traits[name]);
    }
    for (const link of known.keys()) if (!link.isConnected) known.delete(link);
  }
  function write() {
    find();
    const all = known.size ? numbers() : {};
    for (const [link, name] of known) {
      if (all[name] !== undefined && link.textContent !== all[name]) link.textContent = all[name];
      const words = link.textContent;
      if (link.role) set(link, { "aria-valuetext": words, "aria-valuenow": decimal(Number(words.replace("−", "-")) || 0) });
    }
  }

  function click(event) {
    const link = event.target.closest?.(address);
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || root !== document.querySelector(`.ln-explorer.ln-${kind}`)) return; // the first of several follows
    event.preventDefault();
    say(root, "ln-followed");
    say(root, "ln-set", saidBy(link));
    reveal(root, link);
  }
  const over = ({ target }) => target.closest?.(address) && write();
  const tie = new AbortController();
  for (const [name, action] of [["click", click], ["pointerover", over]]) {
    document.addEventListener(name, action, { capture: true, signal: tie.signal });
  }
  return { write, leave: () => tie.abort() };
}
