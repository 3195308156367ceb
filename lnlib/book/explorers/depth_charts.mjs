/**
 * The picture of the depth explorer: two sizes by layer on a logarithmic axis, as the law has them
 * and as they are measured, the last layer to drag, and before that a line to guess with. It does no
 * arithmetic of the network.
 */
import { clamp, formatNumber, html, linePath, linearScale, logScale, powerOfTen, roundTo, set, svg, tenth } from "./common_old.mjs";
import { at, chart, text } from "./frame.mjs";
import { draggable, steerable } from "./handles_old.mjs";

const [HEIGHT, top, bottom, left] = [252, 40, 228, 46];
const GUESSING = 12; // decades up and down while a reader guesses
const kinds = [
  { key: "activations", tone: "ln-blue", name: "● activations →" },
  { key: "gradients", tone: "ln-vermillion", name: "← □ gradient" },
];
const ends = [
  { value: 65504, name: "float16 ends: above is ∞", shift: -5 },
  { value: 2 ** -24, name: "float16 ends: below is 0", shift: 15 },
];

/** The decades, up and down, of the smallest axis that has room for all values. */
export function reach(values) {
  const most = Math.max(...values.map((v) => Math.abs(Math.log10(v))));
  return [3, 6, 12, 24].find((decades) => most <= decades) ?? 36;
}

/** Seven ticks, as powers of ten. */
export const ticksOf = (decades) => [-3, -2, -1, 0, 1, 2, 3].map((k) => (k * decades) / 3);

const wordsOf = ({ order, scale, depth }) => `${order} ${scale} ${depth}`;

/** A dot, or a hollow square, at each point. */
const dots = (points) => points.map(([x, y]) => `M${tenth(x)} ${tenth(y)}h0`).join("");
const squares = (points) => points.map(([x, y]) => `M${tenth(x - 2)} ${tenth(y - 2)}h4v4h-4Z`).join("");

/** The end of a line from RMS 1 at the input, which a reader drags to where they think it ends. */
function guessLine({ place }) {
  const line = svg("path", { class: "ln-rule" });
  const ring = svg("circle", { class: "ln-ring", r: 12 });
  const words = text("ln-moved", { x: -20, y: 5, "text-anchor": "end" });
  const mark = text("ln-moved", { y: 5, "text-anchor": "middle", text: "?" });
  const handle = svg("g", { class: "ln-handle ln-guess" }, svg("circle", { class: "ln-target", r: 23 }), ring, words, mark);
  const node = svg("g", {}, line, handle);
  let value = 1;
  const put = (v) => {
    value = clamp(roundTo(v, 2), 10 ** -GUESSING, 10 ** GUESSING);
    draw();
  };
  function draw() {
    const { x, y, depth } = place();
    set(line, { d: `M${x(0)} ${y(1)}L${tenth(x(depth))} ${tenth(y(value))}` });
    set(handle, { transform: at(x(depth), y(value)), "aria-valuenow": roundTo(Math.log10(value)), "aria-valuetext": formatNumber(value) });
    set(words, { text: formatNumber(value), y: value > 1 ? 14 : -6 });
  }
  draggable(handle, { where: () => [0, place().y(value)], move: (_, py) => put(place().y.invert(py)), end() {} });
  // A quarter of a decade a step.
  const step = (right, up) => put(10 ** clamp((Math.round(4 * Math.log10(value)) + right + up) / 4, -GUESSING, GUESSING));
  steerable(handle, { name: "Your guess of the size at the last layer", step, end() {} });
  set(handle, { "aria-orientation": "vertical", "aria-valuemin": -GUESSING, "aria-valuemax": GUESSING });
  return {
    node,
    guessed: () => value,
    /** While it is made it can be taken hold of; later it may stay, to be compared. */
    paint(guessing, stays) {
      if (!guessing) handle.remove();
      set(node, { visibility: guessing || stays ? null : "hidden" });
      draw();
    },
  };
}

/** Two sizes by layer. */
export function depthChart({ change, commit, now, most, onward }) {
  const grid = svg("g");
  const limits = ends.map(() => svg("path", { class: "ln-grid ln-end" }));
  const limitNames = ends.map(({ name }) => text("ln-name", { "text-anchor": "middle", text: name }));
  const curves = kinds.map(({ tone }) => svg("path", { class: `ln-curve ${tone}` }));
  const seen = kinds.map(({ tone }) => svg("path", { class: `ln-seen ${tone}` }));
  const rule = svg("path", { class: "ln-rule" });
  const pill = svg("rect", { class: "ln-pill", y: 1, height: 26, rx: 13 });
  const pillName = text("ln-pill-name", { y: 18.5 });
  const target = svg("rect", { class: "ln-target", x: -44, width: 88, y: 0, height: 44 });
  const last = svg("g", { class: "ln-handle ln-later", "data-trait": "depth" }, target, pill, pillName);
  const known = svg("g", { class: "ln-later" }, ...limits, ...limitNames, ...curves, ...seen, rule);
  // `revealed` is the state whose guess is compared with what is so.
  let [x, y, width, decades, revealed] = [null, null, 0, 0, ""];
  const guess = guessLine({ place: () => ({ x, y, depth: now("depth") }) });
  const marks = [dots, squares];
  const title = [html("span", { text: "RMS" }), ...kinds.map(({ tone, name }) => html("span", { class: `ln-key ${tone}`, text: name }))];
  const { node, canvas, fit } = chart(HEIGHT, title, [grid, known, last, guess.node], (room) => {
    [width, decades] = [room, 0];
    x = linearScale(0, most, left, width - 14);
  }, "group");
  draggable(last, { where: () => [x(now("depth")), 0], move: (px) => change("depth", x.invert(px)), end: commit });
  steerable(last, { name: "Number of layers", step: (right, up) => change("depth", onward(now("depth"), right + up)), end: commit });
  set(last, { "aria-valuemin": 1, "aria-valuemax": most });

  /** The axes, when they have changed. */
  function paintAxes(wanted) {
    if (wanted === decades) return;
    decades = wanted;
    y = logScale(10 ** decades, 10 ** -decades, top, bottom);
    const right = width - 14;
    grid.replaceChildren(
      ...ticksOf(decades).flatMap((power) => [
        svg("path", { class: power === 0 ? "ln-axis" : "ln-grid", d: `M${left} ${tenth(y(10 ** power))}H${right}` }),
        text("ln-tick ln-decade", { x: left - 7, y: tenth(y(10 ** power)) + 4, text: power === 0 ? "1" : powerOfTen(power) }),
      ]),
      ...[0, 10, 20, 30, 40, 50].map((layer) => text("ln-tick", { x: tenth(x(layer)), y: bottom + 18, text: layer === 0 ? "layer 0" : String(layer) })),
    );
    ends.forEach(({ value, shift }, i) => {
      const within = decades < 24 && Math.abs(Math.log10(value)) < decades; // beyond, lines crowd there
      const place = tenth(y(value));
      set(limits[i], { d: within ? `M${left} ${place}H${right}` : "" });
      set(limitNames[i], { x: (left + right) / 2, y: place + shift, visibility: within ? null : "hidden" });
    });
  }

  return {
    node,
    fit,
    /** Keep the guess in the picture as long as this state is shown, and return it. */
    reveal(state) {
      revealed = wordsOf(state);
      return guess.guessed();
    },
    paint(state, { exact, seen: found, guessing }) {
      const { depth } = state;
      if (revealed !== wordsOf(state)) revealed = ""; // the guess was about another
      const values = [exact, found].flatMap(({ activations, gradients }) => [...activations, ...gradients]);
      paintAxes(guessing ? GUESSING : reach(revealed ? [...values, guess.guessed()] : values));
      guess.paint(guessing, revealed !== "");
      kinds.forEach(({ key }, i) => {
        const points = (sizes) => sizes.map((v, layer) => [x(layer), y(v)]);
        set(curves[i], { d: linePath(points(exact[key])) });
        set(seen[i], { d: marks[i](points(found[key])) });
      });
      const label = `‹ ${depth} ${depth === 1 ? "layer" : "layers"} ›`;
      const size = label.length * 7 + 18;
      const center = clamp(x(depth), size / 2 + 1, width - size / 2 - 1);
      set(rule, { d: `M${tenth(x(depth))} 27V${bottom}` });
      set(pill, { width: size, x: tenth(center - size / 2 - x(depth)) });
      set(pillName, { x: tenth(center - x(depth)), text: label });
      set(last, { transform: at(x(depth), 0), "aria-valuenow": depth, "aria-valuetext": label.slice(2, -2) });
      const about = `Root mean square of the activations and of the gradient, layer by layer, on a logarithmic axis.`;
      set(canvas, { "aria-label": guessing ? about : `${about} The sentence below gives their numbers.` });
    },
  };
}
