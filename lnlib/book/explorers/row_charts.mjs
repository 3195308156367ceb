/**
 * The picture of the row machine: x, x − μ, x̂ and y as eight bars each, side by side, or on a phone the
 * last three below the first.
 */
import { at, bar, chart, mark, path, text } from "./chart.mjs";
import { clamp, formatNumber, linearScale, range, remember, roundTo, set, svg, symbolClass, tenth, withPower } from "./common.mjs";
import { makeRing, upDown } from "./handles.mjs";

/** What each is called; and the classes of its bars, of the band around its middle and of the lines over them. */
const strips = [
  ["x", "", "sigma", `ln-mean ${symbolClass("mu")}`],
  ["x − μ", "", "sigma", `ln-mean ${symbolClass("mu")}`],
  ["x̂", symbolClass("x-hat"), "sigma", "ln-bound"],
  ["y", "ln-bars-y", "gamma", `ln-mean ${symbolClass("beta")}`],
];
export const bound = Math.sqrt(7);
const eight = [0, 1, 2, 3, 4, 5, 6, 7];

/** The power of ten at or below v. */
const decade = (v) => 10 ** Math.floor(Math.log10(v));

/** A step of a key for what is as large as v. */
export const strideOf = (v) => decade(v / 20 || 0.1);

/** The largest difference of two rows. */
export const gap = (a, b) => Math.max(...a.map((v, i) => Math.abs(v - b[i])));

/** An axis from low to high, with ticks; with `round` it ends at ticks. */
function axisFrom(low, high, round) {
  const least = (high - low) / 4;
  const step = [1, 2, 5, 10].map((k) => k * decade(least)).find((v) => v >= least);
  const [out, back] = round ? [Math.floor, Math.ceil] : [Math.ceil, Math.floor];
  const [first, last] = [out(low / step), back(high / step)];
  const ticks = range(last - first + 1, (k) => roundTo((first + k) * step, 6));
  return round ? { low: ticks[0], high: ticks.at(-1), ticks } : { low, high, ticks };
}

/** The axis of a row: from 0, or beyond it, with room to draw the bars longer by more than a half. */
export function axisOf(x) {
  const [low, high] = [Math.min(0, ...x) * 1.6, Math.max(0, ...x) * 1.6];
  return axisFrom(low, high - low > 0 ? high : 10, true);
}

/** The same axis, or one that is longer by as much as the row needs. */
export function stretched({ low, high, ticks }, x) {
  const [least, most] = [Math.min(low, ...x), Math.max(high, ...x)];
  return least === low && most === high ? { low, high, ticks } : axisFrom(least, most, false);
}

/** A number over a bar, in as few letters as three digits take. */
function short(v) {
  const [plain, power] = [formatNumber(v), withPower(roundTo(v))];
  return power.length < plain.length ? power : plain;
}

const numbers = (values) => values.map((v) => [v, formatNumber(v)]);

/** Where the four stand: in a row, or on a phone three below the first. */
const layout = remember((width) => {
  const wide = width >= 560;
  const row = (title, top, bottom, gutters, shares) => {
    const free = width - 2 - gutters.reduce((sum, v) => sum + v, 0);
    let end = 0;
    return gutters.map((gutter, k) => {
      const left = end + gutter;
      end = left + free * shares[k];
      const box = { title, top, bottom, left: tenth(left), right: tenth(end), between: tenth((left + end) / 2) };
      const pitch = (box.right - box.left) / 8;
      return { ...box, pitch, center: (i) => box.left + (i + 0.5) * pitch };
    });
  };
  if (wide) return { wide, height: 226, boxes: row(14, 60, 216, [40, 30, 36, 34], [0.44, 0.17, 0.21, 0.18]) };
  const first = row(14, 44, 154, [40], [0.91]); // the ring of σ stands beside it
  return { wide, height: 308, boxes: [...first, ...row(178, 208, 304, [22, 34, 36], [0.3, 0.4, 0.3])] };
});

/** What is done from each to the next, a line below their names; on a phone, where there is room. */
const steps = remember((width) => {
  const { wide, boxes } = layout(width);
  const between = (k) => (boxes[k].between + boxes[k + 1].between) / 2;
  const step = (words, traits, k) => text("ln-way", between(k), boxes[k + 1].title + 16, wide ? `${words} →` : words, { "data-trait": traits });
  const ways = [["− μ", null], ["÷ √(σ² + ε)", "eps"], ["× γ + β", "weight bias"]];
  return ways.map(([words, traits], k) => (wide || (k > 0 && width > 330)) && step(words, traits, k));
});

/** One set of bars on the scale from low to high, the band around its middle, and labels where there is room. */
function panel([name, kind, band, over], box, hot, { low, high, values, ghost, ticks = [], labels, middle, spread, lines }) {
  const { title, top, bottom, left, right, between, pitch, center } = box;
  const y = linearScale(low, high, bottom, top);
  const fine = values.every(Number.isFinite);
  const across = (all) => all.map((v) => `M${left} ${tenth(y(v))}H${right}`).join("");
  const barOf = (v, i) => bar(center(i) - pitch * 0.31, pitch * 0.62, y(0), y(v));
  const [from, to] = [middle + spread, middle - spread].map((v) => y(clamp(v, low, high)));
  const taken = [];
  const label = ([v, words]) => {
    const place = y(v) + 4;
    if (!(v >= low && v <= high) || taken.some((other) => Math.abs(other - place) < 16)) return false;
    taken.push(place);
    return text("ln-name ln-end", left - 6, place, words);
  };
  return mark("g", { class: "ln-panel" },
    path("ln-grid", across(ticks)),
    spread > 0 && path(`ln-band ${symbolClass(band)}`, bar(left, right - left, from, to)),
    path("ln-axis", across([0])),
    fine ? path(`ln-bars ${kind}`, values.map(barOf).join("")) : text("ln-wreck", between, (top + bottom) / 2 + 5, "NaN"),
    fine && hot >= 0 && path("ln-hot", barOf(values[hot], hot)),
    ghost && path("ln-ghost", ghost.map(barOf).join("")),
    path(over, across(lines)),
    labels.map(label),
    text("ln-strip", between, title, name));
}

/** What the four show. The axis of x is chosen before. */
function panels({ x, bias, weight }, { mean, std, spread, centered, xHat, y }, { low, high, ticks }, before, aligned) {
  // x − μ beside x is on the same scale: its bars end where those of x do. Below x, it has no room to grow.
  const most = Math.max((Math.max(0, ...x) - Math.min(0, ...x)) / 2, ...centered.map(Math.abs)) || 1;
  const [below, above] = aligned ? [low - mean, high - mean] : [-most, most];
  const reach = [2.9, 6, 12, 24].find((r) => y.every((v) => !(Math.abs(v) > r)));
  const outer = { 2.9: 2, 6: 5, 12: 10, 24: 20 }[reach];
  const hatLabels = [[0, "0"], [bound, "√7"], [-bound, "−√7"], ...numbers([1, -1])];
  const outLabels = [[bias, "β"], [bias + weight, "γ"], ...numbers([0, outer, -outer])];
  return [
    { low, high, values: x, ticks, labels: [[mean, ""], ...numbers(ticks)], middle: mean, spread: std, lines: [mean] },
    { low: below, high: above, values: centered, labels: aligned ? [[std, ""], [0, "0"], [-std, "−σ"]] : [[0, "0"], [std, "σ"], [-std, "−σ"]], middle: 0, spread: std, lines: [0] },
    { low: -2.9, high: 2.9, values: xHat, ghost: gap(before, xHat) > 0.005 && before, labels: hatLabels, middle: 0, spread, lines: [-bound, bound] },
    { low: -reach, high: reach, values: y, labels: outLabels, middle: bias, spread: Math.abs(weight) * spread, lines: [bias] },
  ];
}

/** The four sets of bars. Those of x are dragged, by the ring or with a mouse anywhere, and all at once by μ and σ; keys move them too. */
export function rowChart({ change, commit, now, grips, traits, before, shape }) {
  const over = eight.map(() => svg("text", { class: "ln-text ln-number" }));
  const rings = over.map((number) => makeRing({ arrows: upDown }, number));
  const handles = rings.map(({ node }) => node);
  const bodies = eight.map(() => svg("rect", { class: "ln-target ln-body" }));
  // `axis` stays as long as a hand moves bars within it; `held` is the axis and the scale at the grab.
  let [axis, drawn, y, held, byHand, hot, last] = [null, "", null, null, false, -1, null];

  // As many steps back lead to the very number they began at.
  let [stepped, stride] = ["", 0];
  function onward(v, by, i) {
    const x = now("x");
    if (`${i} ${x}` !== stepped) stride = strideOf(Math.max(...x.map(Math.abs)));
    const next = roundTo(v + by * stride, 12);
    stepped = `${i} ${x.with(i, next)}`;
    return next;
  }
  const put = (x) => {
    byHand = true;
    change("x", x);
  };
  /** Drags what stands at a number of the axis, in tenths or in another power of ten. */
  const drag = (standsAt, to) => ({
    where() {
      held = { axis, y };
      return [0, y(standsAt())];
    },
    move(_, place) {
      const grain = decade(held.y.invert(0) - held.y.invert(3));
      to(held.y.invert(place), (v) => roundTo(Math.round(v / grain) * grain, 12));
    },
    end() {
      held = null;
      commit();
    },
  });
  const putBar = (i, v) => put(now("x").with(i, v));
  const dragBar = (i) => drag(() => now("x")[i], (v, round) => putBar(i, round(v)));
  const move = grips("x", handles, { names: eight.map((i) => `Feature ${i + 1} of x`), along: "y", drag: dragBar, put: putBar, onward });

  /** A ring beside the bars that moves them all: to another mean, or away from it. */
  function lever(name, symbol, title, { low, left }, from) {
    const { node, target } = makeRing({ r: 10 }, svg("text", { class: "ln-text ln-number", y: 4, text: symbol }));
    set(target, { x: left });
    const value = () => shape.of(now("x"))[name];
    const putAll = (_, v) => put(shape.to(now("x"), name, v));
    const dragAll = () => drag(() => from() + value(), (v, round) => putAll(0, round(v - from())));
    const step = (v, by) => v + by * shape.of(now("x")).steps[name];
    return { node, move: grips("x", [node], { of: { ...traits.x, symbol, title, low }, along: "y", value, put: putAll, drag: dragAll, onward: step }) };
  }
  const middle = lever("mean", "μ", "Mean", { low: traits.x.low, left: -24 }, () => 0);
  const edge = lever("std", "σ", "Spread", { low: 0, left: -15 }, () => shape.of(now("x")).mean);

  const light = (i) => () => {
    hot = i;
    if (last) made.paint(...last);
  };
  eight.forEach((i) => {
    const events = { pointerenter: light(i), pointerleave: light(-1), focus: light(i), blur: light(-1) };
    for (const part of [handles[i], bodies[i]]) for (const [event, action] of Object.entries(events)) part.addEventListener(event, action);
    // The bar itself is for the mouse: a finger that strokes over it scrolls the page.
    bodies[i].addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse") handles[i].dispatchEvent(new PointerEvent("pointerdown", event));
    });
  });

  /** The axis of x: as it was while a hand moves bars within it, otherwise made for the row. */
  function chooseAxis(x) {
    if (`${x}` === drawn) return;
    if (held) axis = stretched(held.axis, x);
    else if (!byHand || x.some((v) => v < axis.low || v > axis.high)) axis = axisOf(x);
    [drawn, byHand] = [`${x}`, false];
  }

  function paintHandles(x, { pitch, center, bottom: end }) {
    move((v, i) => at(center(i), y(v)), (v) => formatNumber(v));
    const words = x.map(short);
    const beside = x.map((v) => (v < 0 && y(v) < end - 12 ? 24 : -13)); // below the axis there are other words
    const near = (i, j) => Math.abs(y(x[i]) + beside[i] - y(x[j]) - beside[j]) < 13;
    const meet = (i, j) => near(i, j) && Math.abs(i - j) * pitch < 4.2 * (words[i].length + words[j].length);
    const free = hot < 0 ? [] : [hot]; // those that have room for their number
    eight.forEach((i) => {
      if (i !== hot && words[i].length <= 5 && !free.some((j) => meet(i, j))) free.push(i);
      set(over[i], { y: beside[i], text: free.includes(i) ? words[i] : "" });
      set(rings[i].target, { x: -pitch / 2, width: pitch });
      const [top, bottom] = [y(x[i]), y(0)].sort((a, b) => a - b).map(tenth);
      set(bodies[i], { x: tenth(center(i) - pitch * 0.31), width: tenth(pitch * 0.62), y: top, height: tenth(bottom - top) });
    });
  }

  function view(width, state, shown) {
    last = [state, shown];
    const { wide, boxes } = layout(width);
    chooseAxis(state.x);
    y = linearScale(axis.low, axis.high, boxes[0].bottom, boxes[0].top);
    paintHandles(state.x, boxes[0]);
    middle.move((v) => at(boxes[0].left - 20, y(v)));
    edge.move((v) => at(boxes[0].right + 15, y(clamp(shown.mean + v, axis.low, axis.high))));
    return [panels(state, shown, axis, before, wide).map((one, k) => panel(strips[k], boxes[k], hot, one)), steps(width)];
  }

  const label = () => "Eight bars of the row x, and beside them those of x − μ, x̂ and y";
  const made = chart({ height: (width) => layout(width).height, view, label, handles: [...bodies, svg("g", { "data-trait": "x" }, ...handles), middle.node, edge.node] });
  return made;
}
