/**
 * What every explorer shares: numbers, scales, nodes of HTML and SVG, throttled saves.
 *
 * A widget is loaded from a blob URL and cannot import a sibling file, so base.py joins this
 * file before the explorer's own. Node and editors read it through the import instead.
 */

// --- numbers ---------------------------------------------------------------------------------

/** Round to `digits` significant decimal digits. */
export function roundTo(x, digits = 3) {
  return Number.isFinite(x) ? Number(x.toPrecision(digits)) : x;
}

/** A rounded number with a power of ten: 1e-5, −2.5e7. */
export const withPower = (rounded) => rounded.toExponential().replace("e+", "e").replace(/^-/, "−");

/** Three significant digits: 0.0909, 1e-5, ∞, NaN. */
export function formatNumber(x, digits = 3) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const rounded = roundTo(x, digits);
  const size = Math.abs(rounded);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) {
    return withPower(rounded);
  }
  return String(rounded).replace(/^-/, "−");
}

/** The same with a hyphen for the minus, as number fields want it, and six digits. */
export const plainNumber = (x) => formatNumber(x, 6).replace("−", "-");

/** Without an exponent, as ARIA wants it. */
export const decimal = new Intl.NumberFormat("en", { maximumSignificantDigits: 6, useGrouping: false }).format;

/** ⁻⁵ for -5. */
export const superscript = (whole) => `${whole}`.replace(/./g, (c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻");

/** 10⁻⁵ for -5. */
export const powerOfTen = (exponent) => `10${superscript(exponent)}`;

/** ₁ for 0: what counts from 0 is called as people count. */
export const sub = (i) => "₁₂₃₄₅₆₇₈"[i];

/** What `make` makes of 0, 1, … */
export const range = (count, make = (i) => i) => Array.from({ length: count }, (_, i) => make(i));

/** `x` if it lies from `low` to `high`, otherwise the nearer of the two. */
export const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

// --- scales ----------------------------------------------------------------------------------

/** A function from the interval [d0, d1] to [r0, r1], with its inverse. */
export function linearScale(d0, d1, r0, r1) {
  const scale = (v) => r0 + ((v - d0) / (d1 - d0)) * (r1 - r0);
  scale.invert = (p) => d0 + ((p - r0) / (r1 - r0)) * (d1 - d0);
  return scale;
}

/**
 * Slider steps, `perDecade` a decade, for min … max; with `zero`, step 0 means 0. A value between two
 * whole steps has its own place there, and a slider shows it at the nearer one.
 */
export function logSteps({ min, max, perDecade = 20, zero = false }) {
  const first = zero ? 1 : 0;
  const low = Math.log10(min);
  const last = first + Math.round((Math.log10(max) - low) * perDecade);
  const toPlace = (value) => (value < min ? 0 : first + (Math.log10(value) - low) * perDecade);
  return {
    ...{ last, toPlace },
    toValue: (step) => (step < first ? 0 : roundTo(10 ** (low + (step - first) / perDecade))),
    toStep: (value) => Math.round(toPlace(value)),
  };
}

/** Slider steps of size `step` for min … max. A value beyond is shown at the nearer end. */
export function linearSteps({ min, max, step }) {
  const last = Math.round((max - min) / step);
  const toPlace = (value) => (value - min) / step;
  return {
    ...{ last, toPlace },
    toValue: (k) => roundTo(min + k * step, 12),
    toStep: (value) => clamp(Math.round(toPlace(value)), 0, last),
  };
}

/**
 * A function that takes `by` steps from a value, not beyond the ends. As many steps back as there
 * were lead to the very number they began at, though each of them is rounded.
 */
export function walk({ toPlace, toValue }, min, max) {
  let [from, count, here] = [NaN, 0, NaN];
  return (value, by) => {
    if (value !== here) [from, count] = [value, 0];
    count += by;
    here = count === 0 ? from : clamp(toValue(toPlace(from) + count), min, max);
    if (here === min || here === max) [from, count] = [here, 0];
    return here;
  };
}

/** `make`, which keeps what it made last: picture, title, sentence and text ask for the same state in turn. */
export function remember(make) {
  let [given, made] = [[], undefined];
  return (...asked) => {
    const same = asked.length === given.length && asked.every((v, i) => Object.is(v, given[i]));
    if (!same) [given, made] = [asked, make(...asked)];
    return made;
  };
}

// --- nodes -----------------------------------------------------------------------------------

/** The symbols of the formula, as words write them; each is one thing with one color, in common.css. */
const symbols = { μ: "mu", σ: "sigma", ε: "epsilon", γ: "gamma", β: "beta", "x̂": "x-hat" };
const symbol = /(x̂|[μσεγβ])/;
const unbroken = /(\d[\d.]*e-\d+)/; // a line may end after a hyphen

/** The classes that tie a node to a symbol: when one of them lights up, all do. */
export const symbolClass = (name) => `ln-s ln-s-${name}`;

/** Write words into a node of HTML or SVG, with each symbol, and each number that could break, in an element of its own. */
export function write(node, words) {
  const only = node.firstChild;
  const isText = only !== null && only.nodeType === Node.TEXT_NODE && only.nextSibling === null;
  if ((isText ? only.data : node.textContent) === words) return;
  if (!(symbol.test(words) || unbroken.test(words))) {
    if (isText) only.data = words; // twice as fast as a new one
    else node.textContent = words;
    return;
  }
  const tag = node.namespaceURI.endsWith("svg") ? "tspan" : "span";
  const make = (part) => {
    if (!(part in symbols || unbroken.test(part))) return part;
    const marked = document.createElementNS(node.namespaceURI, tag);
    marked.setAttribute("class", part in symbols ? symbolClass(symbols[part]) : "ln-whole");
    marked.textContent = part;
    return marked;
  };
  const parts = words.split(symbol).flatMap((part) => (tag === "span" ? part.split(unbroken) : part)).filter(Boolean);
  node.replaceChildren(...parts.map(make));
}

/** Set an attribute; `text` is the text, and `null` removes. */
export function putAttribute(node, name, value) {
  if (name === "text") write(node, String(value));
  else if (value === null) node.removeAttribute(name);
  else node.setAttribute(name, value);
}

/** Set attributes. Unchanged values are not written. */
export function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text" || node.getAttribute(name) !== String(value)) putAttribute(node, name, value);
  }
  return node;
}

const makerOf = (space) => (tag, attributes = {}, ...children) => {
  const node = set(document.createElementNS(space, tag), attributes);
  node.append(...children);
  return node;
};
/** An HTML element: html("p", { class: "ln-x" }, "words", child). */
export const html = makerOf("http://www.w3.org/1999/xhtml");
/** An SVG element. */
export const svg = makerOf("http://www.w3.org/2000/svg");

/** A length in px, as fine as a drawing needs it; toFixed takes three times as long. */
export const tenth = (v) => Math.round(v * 10) / 10;

/** Diagonal hatching of the box x0 … x1, y0 … y1 (a path, since an SVG pattern needs an id). */
export function hatchPath(x0, x1, y0, y1, gap = 7) {
  let path = "";
  for (let start = x0 - (y1 - y0) + gap; start < x1; start += gap) {
    const left = Math.max(start, x0);
    const right = Math.min(start + y1 - y0, x1);
    path += `M${left} ${y1 - (left - start)}L${right} ${y1 - (right - start)}`;
  }
  return path;
}

// --- events ----------------------------------------------------------------------------------

/** Call `action` at once, then at most every `wait` ms; the last call is never lost. */
export function throttle(action, wait = 100) {
  let [timer, pending] = [null, false];
  const act = () => {
    const due = pending;
    pending = false;
    if (due) action();
    return due;
  };
  const go = () => (timer = act() ? setTimeout(go, wait) : null);
  const call = () => {
    pending = true;
    if (timer === null) go();
  };
  call.flush = () => {
    clearTimeout(timer);
    timer = null;
    act();
  };
  return call;
}

/** Call `action` once, `wait` ms after the last call. */
export function debounce(action, wait) {
  let timer = null;
  const call = () => {
    clearTimeout(timer);
    timer = setTimeout(action, wait);
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}

/** Keep keys from JupyterLab, where X cuts the cell. With Ctrl or ⌘ they are its own, to save; Escape gives the cell the focus. */
export const ownKeys = (node) => node.addEventListener("keydown", (event) => {
  if (event.key === "Escape") node.closest(".jp-Cell")?.focus();
  else if (!event.ctrlKey && !event.metaKey) event.stopPropagation();
});

/** Let keys do what they are for: `action(keys[key], shift)`. With Alt, Ctrl or ⌘ they are the browser’s: Alt and ← go back. */
export function onKeys(node, keys, action) {
  node.addEventListener("keydown", (event) => {
    if (keys[event.key] === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault(); // the page would scroll, a slider go to a whole step, a number field add 1
    action(keys[event.key], event.shiftKey);
  });
}
