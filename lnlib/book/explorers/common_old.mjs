/**
 * What every explorer shares: numbers, scales, SVG nodes, controls, throttled saves.
 *
 * A widget is loaded from a blob URL and cannot import a sibling file, so base.py joins this
 * file in front of the explorer's own. Node and editors read it through the import instead.
 *
 * @typedef {object} Model  What anywidget, or the book's mount script, hands to `render`.
 * @property {(name: string) => any} get
 * @property {(name: string, value: any) => void} set
 * @property {() => void} save_changes
 * @property {(event: string, callback: () => void) => void} on
 * @property {(event: string, callback: () => void) => void} off
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

/** ⁻⁵ for -5. */
export const superscript = (whole) => `${whole}`.replace(/./g, (c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻");

/** 10⁻⁵ for -5. */
export const powerOfTen = (exponent) => `10${superscript(exponent)}`;

/**
 * Round to the nearest float16, ties to even, as one operation of half-precision hardware does.
 *
 * `2 ** (exponent - 10)` is the gap between neighbors: a power of two, so scaling by it is exact.
 * Should log2 round up to the next integer, x is within 2^-52 of a power of two, and both gaps
 * round it to that power.
 */
export function toHalf(x) {
  const size = Math.abs(x);
  if (!(size > 0 && size < Infinity)) return x; // 0, -0, ±∞ and NaN are themselves
  if (size >= 65520) return x > 0 ? Infinity : -Infinity; // halfway from 65504 to 65536
  const gap = 2 ** (Math.max(Math.floor(Math.log2(size)), -14) - 10);
  const below = Math.floor(size / gap);
  const rest = size / gap - below;
  const up = rest > 0.5 || (rest === 0.5 && below % 2 === 1);
  return Math.sign(x) * (below + (up ? 1 : 0)) * gap;
}

/** The sum of as many numbers as a power of 2 has, by pairs: that of equal ones is exact, so a constant row has σ = 0. */
export const sumByPairs = (v) => (v.length > 1 ? sumByPairs(v.flatMap((a, i) => (i % 2 ? [] : a + v[i + 1]))) : v[0]);

/** `x` if it lies from `low` to `high`, otherwise the nearer of the two. */
export const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

// --- scales ----------------------------------------------------------------------------------

/** A function from the interval [d0, d1] to [r0, r1], with its inverse. */
export function linearScale(d0, d1, r0, r1) {
  const scale = (v) => r0 + ((v - d0) / (d1 - d0)) * (r1 - r0);
  scale.invert = (p) => d0 + ((p - r0) / (r1 - r0)) * (d1 - d0);
  return scale;
}

/** The same on log10 of the value. With `zero`, a pixel, 0 has a place of its own there. */
export function logScale(d0, d1, r0, r1, zero = NaN) {
  const inner = linearScale(Math.log10(d0), Math.log10(d1), r0, r1);
  const scale = (v) => (v === 0 ? zero : inner(Math.log10(v)));
  scale.invert = (p) => {
    if (p < (zero + r0) / 2) return 0;
    return roundTo(10 ** inner.invert(clamp(p, r0, r1)));
  };
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

/** A number, or each of a list, within the limits of its trait. */
export const inLimits = (value, limits) => (Array.isArray(value) ? value.map((v) => clamp(v, ...limits)) : clamp(value, ...limits));

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
const unbroken = /(\d[\d.]*e-\d+)/; // a line may end behind a hyphen

/** The classes that tie a node to a symbol: when one of them lights up, all do. */
export const symbolClass = (name) => `ln-s ln-s-${name}`;

/** Write words into a node of HTML or SVG, with each symbol, and each number that could break, in an element of its own. */
function write(node, words) {
  if (node.textContent === words) return;
  const tag = node.namespaceURI.endsWith("svg") ? "tspan" : "span";
  const make = (part) => {
    if (!(part in symbols || unbroken.test(part))) return part;
    const marked = document.createElementNS(node.namespaceURI, tag);
    marked.setAttribute("class", part in symbols ? symbolClass(symbols[part]) : "ln-whole");
    marked.textContent = part;
    return marked;
  };
  // A list shows text alone.
  const parts = words.split(symbol).flatMap((part) => (tag === "span" ? part.split(unbroken) : part)).filter(Boolean);
  if (node.localName === "option" || parts.length < 2) node.textContent = words;
  else node.replaceChildren(...parts.map(make));
}

/** Set attributes; `text` sets the text, `null` removes. Unchanged values are not written. */
export function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") {
      write(node, String(value));
    } else if (value === null) node.removeAttribute(name);
    else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
  }
  return node;
}

/** An HTML element: html("p", { class: "ln-x" }, "words", child). */
export function html(tag, attributes = {}, ...children) {
  const node = set(document.createElement(tag), attributes);
  node.append(...children);
  return node;
}

/** An SVG element. */
export function svg(tag, attributes = {}, ...children) {
  const node = set(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes);
  node.append(...children);
  return node;
}

/** A length in px, as fine as a drawing needs it; toFixed takes three times as long. */
export const tenth = (v) => Math.round(v * 10) / 10;

/** A path through [x, y] points. One that is not finite breaks the line; a lone one is a dot. */
export function linePath(points) {
  let path = "";
  let down = false;
  for (const [x, y] of points) {
    const finite = Number.isFinite(x) && Number.isFinite(y);
    if (finite) path += `${down ? "L" : "M"}${tenth(x)} ${tenth(y)}${down ? "" : "h.1"}`;
    down = finite;
  }
  return path;
}

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
  let timer = null;
  let pending = false;
  const run = () => {
    timer = null;
    if (pending) call();
  };
  const call = () => {
    if (timer !== null) {
      pending = true;
      return;
    }
    pending = false;
    timer = setTimeout(run, wait);
    action();
  };
  call.flush = () => {
    clearTimeout(timer);
    timer = null;
    if (pending) {
      pending = false;
      action();
    }
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

// --- controls --------------------------------------------------------------------------------

/** For each thing that takes focus: without it JupyterLab takes the arrows, and X cuts the cell. */
export const ownKeys = { "data-lm-suppress-shortcuts": "true" };

/**
 * A labelled slider with a number field beside it.
 *
 * `steps` says which value each slider step has; `min` and `max` bound the number, and may lie
 * beyond the slider. `change(value)` is called with every value in range; `commit()` when a gesture
 * ends. A number out of range is said to be so under the field and changes nothing. `trait` is what
 * the field shows: it flashes when a link in the text has set that.
 */
export function field({ trait = "", symbol, name, unit = "", min, max, zero = false, steps, page = 20, change, commit }) {
  const range = html("input", { type: "range", min: 0, max: steps.last, step: 1 });
  const number = html("input", { type: "number", step: "any", min: zero ? Math.min(min, 0) : min, max });
  const note = html("span", { class: "ln-note", role: "alert" });
  const inUnits = unit && `(${unit})`;
  number.setAttribute("aria-label", `${name} ${symbol} ${inUnits}`.trim() + ", as a number");
  for (const input of [range, number]) set(input, ownKeys);
  const words = html("span", {}, html("span", { text: `${name} ${symbol} `.trimStart() }), html("small", { text: inUnits }));
  const node = html("div", { class: "ln-field", "data-trait": trait }, html("label", {}, words, range), number, note);
  let current = NaN;
  const onward = walk(steps, zero ? 0 : min, max);
  const put = (value) => change((current = value)); // two keys may come before it is painted
  const keys = { ArrowUp: 1, ArrowDown: -1, PageUp: page, PageDown: -page };
  const nudge = (by) => (event) => {
    if (by[event.key] === undefined || event.altKey || event.ctrlKey || event.metaKey) return; // the browser’s
    event.preventDefault(); // the browser would go to a whole step, or add 1
    put(onward(current, by[event.key]));
  };
  range.addEventListener("input", () => put(steps.toValue(range.valueAsNumber)));
  range.addEventListener("change", commit);
  range.addEventListener("keydown", nudge({ ...keys, ArrowRight: 1, ArrowLeft: -1 }));
  number.addEventListener("keydown", nudge(keys));
  for (const input of [range, number]) input.addEventListener("keyup", commit);
  number.addEventListener("change", () => {
    const value = number.valueAsNumber;
    const valid = (value >= min && value <= max) || (zero && value === 0);
    const bounds = `${formatNumber(min)} to ${formatNumber(max)}${zero ? ", or is 0" : ""}`;
    if (valid) put(value);
    // A refused number stays in its field, said to be wrong, until the next one.
    set(number, { "aria-invalid": valid ? null : "true" });
    set(note, { text: valid ? "" : `${symbol} goes from ${bounds}` });
    commit();
  });
  return {
    node,
    /** Show `value`, with `words` for those who hear it. */
    paint(value, words) {
      current = value;
      set(number, { "aria-invalid": null });
      set(note, { text: "" });
      number.value = plainNumber(value);
      range.value = steps.toStep(value);
      set(range, { "aria-valuetext": words });
    },
  };
}

/**
 * A maker of the fields of traits: `make(trait, options)` takes the bounds from `limits`, and the steps from
 * `steps`; where it has none the slider is logarithmic, twenty steps a decade.
 */
export const fieldsOf = ({ change, commit }, limits, steps = {}) => (trait, options) => {
  const [min, max] = limits[trait];
  const own = steps[trait] ?? logSteps({ min, max, ...options });
  return field({ trait, min, max, commit, steps: own, change: (v) => change(trait, v), ...options });
};

/**
 * Radio buttons that look like the other buttons: the arrow keys choose, Tab leaves.
 * `options` is [[value, label], …]; `paint(value)` shows which one holds.
 */
export function choice({ legend, options, change }) {
  const group = `ln-${Math.random().toString(36).slice(2)}`; // two explorers share a page
  const inputs = options.map(([value]) => {
    const input = html("input", { type: "radio", name: group, value, ...ownKeys });
    input.addEventListener("change", () => change(value));
    return input;
  });
  const labels = options.map(([, label], i) => html("label", {}, inputs[i], html("span", { text: label })));
  return {
    node: html("fieldset", { class: "ln-choice" }, html("legend", { text: legend }), ...labels),
    paint(value) {
      options.forEach(([option], i) => (inputs[i].checked = option === value));
    },
  };
}

/** A native list that sets a trait: `options` are values with their names. */
export function nativeList({ trait, label, options, change }) {
  const list = html("select", ownKeys, ...options.map(([value, text]) => html("option", { value, text })));
  list.addEventListener("change", () => change(list.value));
  const named = html("label", {}, html("span", { text: label }), list);
  return { node: html("div", { class: "ln-field", "data-trait": trait }, named), paint: (value) => (list.value = value) };
}

/** A table of heads, and of rows with names; `paint` fills the cells beside the names, column by column. */
export function numberTable(heads, names, kind = "") {
  const rows = names.map((name) => [html("th", { scope: "row", text: name }), ...heads.slice(1).map(() => html("td"))]);
  const line = (cells) => html("tr", {}, ...cells);
  const top = line(heads.map((text) => (text ? html("th", { scope: "col", text }) : html("td"))));
  const node = html("table", { class: `ln-table ${kind}` }, html("thead", {}, top), html("tbody", {}, ...rows.map(line)));
  return { node, rows, paint: (columns) => columns.forEach((column, j) => column.forEach((text, i) => set(rows[i][j + 1], { text }))) };
}
