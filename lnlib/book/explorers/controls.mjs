/** What a reader sets a trait by, beside the drawing: buttons, sliders, choices; and tables of numbers. */
import { formatNumber, html, onKeys, plainNumber, set } from "./common.mjs";

/** A button; while it is `aria-disabled` it keeps the focus, and does nothing. */
export function button(text, action, attributes = {}) {
  const node = html("button", { type: "button", class: "ln-button", text, ...attributes });
  node.addEventListener("click", () => {
    if (node.getAttribute("aria-disabled") !== "true") action();
  });
  return node;
}

/**
 * A labelled slider with a number field beside it. What it is called and which numbers there are, is declared
 * of its trait. `change(value)` is called with every value in range; `commit()` when a gesture ends. A number
 * out of range is said to be so under the field and changes nothing.
 */
export function slider({ name: trait, symbol, title = "", unit, low, high, zero, steps, settle, onward }, change, commit) {
  let current = NaN;
  const put = (value) => change((current = value)); // two keys may come before it is painted
  const range = html("input", { type: "range", min: 0, step: 1, max: steps.last });
  const number = html("input", { type: "number", step: "any", min: zero ? Math.min(low, 0) : low, max: high });
  const note = html("span", { class: "ln-note", role: "alert" });
  const inUnits = unit ? `(${unit})` : "";
  number.setAttribute("aria-label", `${title} ${symbol} ${inUnits}`.trim() + ", as a number");
  const words = html("span", {}, html("span", { text: `${title} ${symbol} `.trimStart() }), html("small", { text: inUnits }));
  const node = html("div", { class: "ln-field", "data-trait": trait }, html("label", {}, words, range), number, note);
  const page = Math.min(Math.max(Math.round(steps.last / 8), 2), 20);
  const keys = { ArrowUp: 1, ArrowDown: -1, PageUp: page, PageDown: -page };
  const nudge = (by) => put(onward(current, by));
  onKeys(range, { ...keys, ArrowRight: 1, ArrowLeft: -1 }, nudge);
  onKeys(number, keys, nudge);
  let held = null; // the browser may take a finger for one that scrolls: then all is as it was
  range.addEventListener("pointerdown", () => { held = current; });
  range.addEventListener("pointercancel", () => {
    if (held !== null) put(held);
    commit();
  });
  range.addEventListener("input", () => put(steps.toValue(range.valueAsNumber)));
  range.addEventListener("change", commit);
  for (const input of [range, number]) input.addEventListener("keyup", commit);
  // Browsers leave out what is no part of a number: 1,5 would become 15, and 1e−7 be 1e7.
  number.addEventListener("beforeinput", (event) => {
    if (!/[−,]/.test(event.data ?? "")) return;
    event.preventDefault();
    document.execCommand("insertText", false, event.data.replaceAll("−", "-").replaceAll(",", "."));
  });
  number.addEventListener("keydown", ({ key }) => key === "Escape" && paint(current));
  number.addEventListener("change", () => {
    const value = number.valueAsNumber;
    const valid = (value >= low && value <= high) || (zero && value === 0);
    const bounds = `${formatNumber(low)} to ${formatNumber(high)}${zero ? ", or is 0" : ""}`;
    if (valid) {
      put(settle(value));
      number.value = plainNumber(current); // a whole one, or what it was already
    }
    // A refused number stays in its field, said to be wrong, until the next one.
    set(number, { "aria-invalid": valid ? null : "true" });
    set(note, { text: valid ? "" : `${symbol} goes from ${bounds}` });
    commit();
  });
  /** Show `value`, with `words` for those who hear it. */
  function paint(value, words) {
    current = value;
    set(number, { "aria-invalid": null });
    set(note, { text: "" });
    number.value = plainNumber(value);
    range.value = steps.toStep(value);
    if (words) set(range, { "aria-valuetext": words });
  }
  return { node, paint };
}

/**
 * Radio buttons that look like the other buttons: the arrow keys choose, Tab leaves.
 * `names` is [[value, label], …], in words or drawn; `paint(value)` shows which one holds.
 */
export function radios(trait, legend, names, change) {
  const group = `ln-${Math.random().toString(36).slice(2)}`; // two explorers share a page
  const inputs = names.map(([value]) => {
    const input = html("input", { type: "radio", name: group, value });
    input.addEventListener("change", () => change(value));
    return input;
  });
  const labels = names.map(([, label], i) => html("label", {}, inputs[i], typeof label === "string" ? html("span", { text: label }) : label));
  return {
    node: html("fieldset", { class: "ln-choice", "data-trait": trait }, html("legend", { text: legend }), ...labels),
    paint: (value) => names.forEach(([option], i) => (inputs[i].checked = option === value)),
  };
}

/** A table of heads, and of rows with names; `paint` fills the last columns: the cells beside the names, or these too. */
export function numberTable(heads, names, kind = "") {
  const head = (name) => (typeof name === "string" ? html("th", { scope: "row", text: name }) : html("th", { scope: "row" }, name));
  const rows = names.map((name) => [head(name), ...heads.slice(1).map(() => html("td"))]);
  const line = (cells) => html("tr", {}, ...cells);
  const top = line(heads.map((text) => (text ? html("th", { scope: "col", text }) : html("td"))));
  const node = html("table", { class: `ln-table ${kind}`.trim() }, html("thead", {}, top), html("tbody", {}, ...rows.map(line)));
  const words = (v) => (typeof v === "number" ? formatNumber(v) : v);
  return { node, rows, paint: (columns) => columns.forEach((column, j) => column.forEach((v, i) => set(rows[i].at(j - columns.length), { text: words(v) }))) };
}
