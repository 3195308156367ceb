/**
 * The picture of the row machine: x, x − μ, x̂ and y as eight bars each, side by side, or on a phone the
 * last three below the first. It does no arithmetic of the norm.
 */
import { clamp, formatNumber, linearScale, roundTo, set, svg, symbolClass, tenth } from "./common_old.mjs";
import { at, chart, text } from "./frame.mjs";
import { draggable, makeRing, steerable, upDown } from "./handles_old.mjs";

const names = ["x", "x − μ", "x̂", "y"];
const bound = Math.sqrt(7);
const each = (make) => Array.from({ length: 8 }, (_, i) => make(i));
const line = (kind) => svg("path", { class: kind });

/** The power of ten at or below v. */
const decade = (v) => 10 ** Math.floor(Math.log10(v));

/** An axis from low to high, with ticks; with `round` it ends at ticks. */
function axisFrom(low, high, round) {
  const least = (high - low) / 4;
  const step = [1, 2, 5, 10].map((k) => k * decade(least)).find((v) => v >= least);
  const [out, back] = round ? [Math.floor, Math.ceil] : [Math.ceil, Math.floor];
  const [first, last] = [out(low / step), back(high / step)];
  const ticks = Array.from({ length: last - first + 1 }, (_, k) => roundTo((first + k) * step, 6));
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

const within = ({ low, high }, x) => x.every((v) => v >= low && v <= high);

/** A number over a bar, in as few letters as three digits take. */
function short(v) {
  const [plain, power] = [formatNumber(v), roundTo(v).toExponential().replace("e+", "e").replace("-", "−")];
  return power.length < plain.length ? power : plain;
}

/** One set of bars with what belongs to it. `paint` moves them; `y` is its scale. */
function makePanel(k) {
  const parts = {
    grid: line("ln-grid"),
    band: line(`ln-band ${symbolClass(k === 3 ? "gamma" : "sigma")}`),
    zero: line("ln-axis"),
    bars: line(`ln-bars ln-bars-${k} ${k === 2 ? symbolClass("x-hat") : ""}`),
    hot: line("ln-hot"),
    mean: line(`ln-mean ${symbolClass(k === 3 ? "beta" : "mu")}`),
  };
  const labels = each(() => text("ln-name", { "text-anchor": "end" }));
  const name = text("ln-strip", { text: names[k] });
  const wreck = text("ln-wreck");
  const panel = { ...parts, labels, name, wreck, nodes: [...Object.values(parts), ...labels, name, wreck] };

  /** Lay it out: bars between `left` and `right`, labels left of them. */
  panel.place = (box) => {
    Object.assign(panel, box, { pitch: (box.right - box.left) / 8 });
    const middle = (box.left + box.right) / 2;
    for (const label of labels) set(label, { x: box.left - 6 });
    set(name, { x: middle, y: box.title });
    set(wreck, { x: middle, y: (box.top + box.bottom) / 2 + 5 });
  };
  panel.center = (i) => panel.left + (i + 0.5) * panel.pitch;
  const across = (v) => `M${panel.left} ${tenth(panel.y(v))}H${panel.right}`;
  panel.rule = (node, values) => set(node, { d: values.map(across).join("") });

  /** Draw bars on the scale from low to high, the band around `middle`, and labels where there is room. */
  panel.paint = ({ low, high, values, hot, marks, middle, spread = 0 }) => {
    const y = (panel.y = linearScale(low, high, panel.bottom, panel.top));
    const fine = values.every(Number.isFinite);
    const width = panel.pitch * 0.62;
    const bar = (i) => `M${tenth(panel.center(i) - width / 2)} ${tenth(y(0))}h${tenth(width)}V${tenth(y(values[i]))}h${-tenth(width)}Z`;
    set(parts.bars, { d: fine ? values.map((_, i) => bar(i)).join("") : "" });
    set(parts.hot, { d: fine && hot >= 0 ? bar(hot) : "" });
    set(wreck, { text: fine ? "" : "NaN" });
    const [from, to] = [middle + spread, middle - spread].map((v) => tenth(y(clamp(v, low, high))));
    set(parts.band, { d: spread > 0 ? `M${panel.left} ${from}H${panel.right}V${to}H${panel.left}Z` : "" });
    panel.rule(parts.zero, [0]);
    const taken = [];
    labels.forEach((label, i) => {
      const [value, words] = marks[i] ?? [NaN, ""];
      const place = y(value) + 4;
      const free = value >= low && value <= high && taken.every((other) => Math.abs(other - place) >= 13);
      if (free) taken.push(place);
      set(label, { y: free ? tenth(place) : null, text: free ? words : "" });
    });
  };
  return panel;
}

/** Where the four stand: in a row, or on a phone three below the first. */
function places(width) {
  const wide = width >= 560;
  const row = (title, top, bottom, gutters, shares) => {
    const free = width - 2 - gutters.reduce((sum, v) => sum + v, 0);
    let end = 0;
    return gutters.map((gutter, k) => {
      const left = end + gutter;
      end = left + free * shares[k];
      return { title, top, bottom, left: tenth(left), right: tenth(end) };
    });
  };
  if (wide) return { wide, height: 214, boxes: row(14, 48, 204, [40, 30, 36, 34], [0.44, 0.17, 0.21, 0.18]) };
  const first = row(14, 44, 154, [40], [1]);
  return { wide, height: 294, boxes: [...first, ...row(180, 194, 290, [22, 34, 36], [0.3, 0.4, 0.3])] };
}

/** A ring to take a bar by, with its number. */
function makeHandle() {
  const number = text("ln-number");
  return { number, ...makeRing({ arrows: upDown }, number) };
}

/** The four sets of bars. Those of x are dragged, by the ring or with a mouse anywhere; keys move them too. */
export function rowChart({ change, commit, now, limits }) {
  const panels = names.map((_, k) => makePanel(k));
  const bounds = line("ln-bound");
  const handles = each(makeHandle);
  const bodies = each(() => svg("rect", { class: "ln-target ln-body" }));
  const steps = ["− μ", "÷ √(σ² + ε)", "× γ + β"];
  const ways = ["", "eps", "weight bias"].map((traits) => text("ln-way", { "data-trait": traits }));
  const rings = svg("g", { "data-trait": "x" }, ...handles.map(({ node }) => node));
  // `axis` stays as long as a hand moves bars within it; `held` is the axis and the scale at the grab.
  let [axis, drawn, held, byHand, hot, last, aligned] = [null, "", null, false, -1, null, true];
  const parts = [...panels.flatMap(({ nodes }) => nodes), bounds, ...ways, ...bodies, rings];
  const { node, canvas, fit } = chart(214, [], parts, (width) => {
    const { wide, height, boxes } = places(width);
    set(canvas, { height, viewBox: `0 0 ${width} ${height}` });
    panels.forEach((panel, k) => panel.place(boxes[k]));
    ways.forEach((way, k) => {
      const x = (panels[k].center(3.5) + panels[k + 1].center(3.5)) / 2;
      set(way, { x, y: boxes[k + 1].title, text: wide ? `${steps[k]} →` : steps[k], visibility: wide || (k > 0 && width > 330) ? null : "hidden" });
    });
    const { pitch } = panels[0];
    for (const { target } of handles) set(target, { x: -pitch / 2, width: pitch });
    aligned = wide;
  }, "group");
  set(canvas, { "aria-label": "Eight bars of the row x, and beside them those of x − μ, x̂ and y" });

  const put = (i, value) => {
    byHand = true;
    change("x", now("x").with(i, clamp(value, ...limits.x)));
  };
  const light = (i) => {
    hot = i;
    if (last) paint(...last);
  };

  handles.forEach(({ node: handle }, i) => {
    const grip = {
      where() {
        held = { axis, y: panels[0].y };
        return [0, held.y(now("x")[i])];
      },
      move(_, place) {
        const grain = decade((3 * (held.axis.high - held.axis.low)) / (panels[0].bottom - panels[0].top));
        put(i, roundTo(Math.round(held.y.invert(place) / grain) * grain, 12));
      },
      end() {
        held = null;
        commit();
      },
    };
    draggable(handle, grip);
    // The bar itself is for the mouse: a finger that strokes over it scrolls the page.
    bodies[i].addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse") event.stopImmediatePropagation();
    });
    draggable(bodies[i], grip);
    set(bodies[i], { style: "display: block" });

    let [stepped, stride] = [null, 0]; // as many steps back lead to the very number they began at
    steerable(handle, {
      name: `Feature ${i + 1} of x`,
      step(right, up) {
        const x = now("x");
        if (String(x) !== stepped) stride = decade(Math.max(...x.map(Math.abs)) / 20 || 0.1);
        put(i, roundTo(x[i] + (right + up) * stride, 12));
        stepped = String(now("x"));
      },
      end: commit,
    });
    set(handle, { "aria-orientation": "vertical", "aria-valuemin": limits.x[0], "aria-valuemax": limits.x[1] });
    for (const part of [handle, bodies[i]]) {
      part.addEventListener("pointerenter", () => light(i));
      part.addEventListener("pointerleave", () => light(-1));
    }
    handle.addEventListener("focus", () => light(i));
    handle.addEventListener("blur", () => light(-1));
  });

  /** The axis of x: as it was while a hand moves bars within it, otherwise made for the row. */
  function chooseAxis(x) {
    if (String(x) === drawn && axis) return;
    if (held) axis = stretched(held.axis, x);
    else if (!(byHand && within(axis, x))) axis = axisOf(x);
    [drawn, byHand] = [String(x), false];
  }

  function paintHandles(x) {
    const { y, pitch, center } = panels[0];
    handles.forEach(({ node: handle, number }, i) => {
      const v = x[i];
      const [top, words] = [y(v), short(v)];
      set(handle, { transform: at(center(i), top), "aria-valuenow": v, "aria-valuetext": formatNumber(v) });
      set(number, { y: v < 0 ? 24 : -13, text: words.length <= 5 || i === hot ? words : "" });
      const [from, to] = [Math.min(top, y(0)), Math.max(top, y(0))];
      set(bodies[i], { x: tenth(center(i) - pitch * 0.31), width: tenth(pitch * 0.62), y: tenth(from), height: tenth(to - from) });
    });
  }

  function paint(state, shown) {
    last = [state, shown];
    const { x, bias, weight } = state;
    const { mean, std, spread, centered, xHat, y } = shown;
    chooseAxis(x);
    const { low, high, ticks } = axis;
    const numbers = (values) => values.map((v) => [v, formatNumber(v)]);
    panels[0].paint({ low, high, values: x, hot, marks: [[mean, "μ"], ...numbers(ticks)], middle: mean, spread: std });
    panels[0].rule(panels[0].grid, ticks);
    panels[0].rule(panels[0].mean, [mean]);
    // Beside x, on the same scale: its bars end where those of x do. Below x, without room to grow.
    const most = Math.max((Math.max(0, ...x) - Math.min(0, ...x)) / 2, ...centered.map(Math.abs)) || 1;
    const [below, above] = aligned ? [low - mean, high - mean] : [-most, most];
    panels[1].paint({ low: below, high: above, values: centered, hot, marks: [[0, "0"], [std, "σ"], [-std, "−σ"]], middle: 0, spread: std });
    panels[1].rule(panels[1].mean, [0]);
    const hatMarks = [[0, "0"], [bound, "√7"], [-bound, "−√7"], ...numbers([1, -1])];
    panels[2].paint({ low: -2.9, high: 2.9, values: xHat, hot, marks: hatMarks, middle: 0, spread });
    panels[2].rule(bounds, [-bound, bound]);
    const reach = [2.9, 6, 12, 24].find((r) => y.every((v) => !(Math.abs(v) > r)));
    const outer = { 2.9: 2, 6: 5, 12: 10, 24: 20 }[reach];
    const marks = [[bias, "β"], [bias + weight, "γ"], ...numbers([0, outer, -outer])];
    panels[3].paint({ low: -reach, high: reach, values: y, hot, marks, middle: bias, spread: Math.abs(weight) * spread });
    panels[3].rule(panels[3].mean, [bias]);
    paintHandles(x);
  }

  return { node, fit, paint };
}
