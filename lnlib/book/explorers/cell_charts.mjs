/**
 * The picture of the layer-normalized LSTM: the rows of the digit with the size of the cell and the gradient
 * beside each, and one step as everybody draws it, with what is on the wires. It does no arithmetic of the network.
 */
import { clamp, formatNumber, linearScale, powerOfTen, set, svg, tenth } from "./common_old.mjs";
import { chart, text } from "./frame.mjs";
import { draggable, makeRing, steerable, upDown } from "./handles_old.mjs";

const path = (kind) => svg("path", { class: kind });
const box = (x, y, w, h) => `M${tenth(x)} ${tenth(y)}h${tenth(w)}v${tenth(h)}h${tenth(-w)}Z`;

/** The least of some ends that holds v. */
const reach = (v, ends) => ends.find((end) => v <= end) ?? ends.at(-1);

/** The axis of a gradient, in powers of ten on either side of 1. */
export function decades(gradients) {
  const powers = gradients.filter((v) => v > 0).map(Math.log10);
  return [-reach(-Math.min(...powers), [2, 5, 10, 20, 40]), reach(Math.max(...powers), [2, 5, 10, 25, 50, 100])];
}

/** A symbol with an index below: c, then t − 1. */
const indexed = (name, index) =>
  svg("text", { class: "ln-text ln-name", "text-anchor": "middle" }, name, svg("tspan", { class: "ln-index", dy: 3, text: index }));

/** A circle with × or + in it. */
const operator = (sign) => svg("g", { class: "ln-op" }, svg("circle", { r: 8 }), svg("path", { d: signs[sign] }));
const signs = { "×": "M-3 -3L3 3M-3 3L3 -3", "+": "M-4 0H4M0 -4V4" };

/** A box with a word in it. */
function wordBox(kind, word) {
  const [rect, name] = [svg("rect", { rx: 4 }), text("ln-word", { text: word })];
  const node = svg("g", { class: kind }, rect, name);
  return {
    node,
    place(x, y, width) {
      set(rect, { x: tenth(x - width / 2), y: y - 9, width: tenth(width), height: 18 });
      set(name, { x: tenth(x), y: y + 4 });
    },
  };
}

/** A triangle that points up, or to the right, at a place. */
const head = (x, y, up) => (up ? `M${tenth(x - 4)} ${y + 7}h8l-4 -7Z` : `M${tenth(x - 7)} ${y - 4}v8l7 -4Z`);

/** Numbers as bars from the middle, or from the bottom, of a box; with a cap on those that stand out. */
function strip(kind, least = -1) {
  const parts = { frame: path("ln-frame"), bars: path(`ln-bars ${kind}`), caps: path("ln-caps") };
  let place = { x: 0, y: 0, w: 0, h: 0 };
  return {
    nodes: Object.values(parts),
    place(x, y, w, h) {
      place = { x, y, w, h };
      set(parts.frame, { d: `${box(x, y, w, h)}M${tenth(x)} ${tenth(y + h / 2)}h${tenth(w)}` });
    },
    /** Draw them on an axis from `least` times `most` to `most`; `marks` says which stand out. */
    paint(values, most = 1, marks = () => false) {
      const { x, y, w, h } = place;
      const scale = linearScale(least * most, most, y + h, y);
      const top = values.map((v) => tenth(scale(clamp(v, least * most, most))));
      const edge = (k) => tenth(x + (k * w) / values.length);
      const outline = top.map((v, k) => `V${v}H${edge(k + 1)}`).join("");
      set(parts.bars, { d: `M${tenth(x)} ${tenth(scale(0))}${outline}V${tenth(scale(0))}Z` });
      set(parts.caps, { d: values.map((v, k) => (marks(v) ? `M${edge(k)} ${top[k]}H${edge(k + 1)}` : "")).join("") });
    },
  };
}

/** Rows of pixels, a path for each of four shades. */
function pixelRows() {
  const nodes = [1, 2, 3, 4].map((v) => svg("path", { class: "ln-ink", opacity: v / 4 }));
  const shade = (lines, v, x, y, w, h) =>
    lines.flatMap((line, r) => line.map((ink, k) => (ink * 4 === v ? box(x + k * w, y + r * h, w, h) : ""))).join("");
  /** Draw them from x, y, each pixel w by h. */
  const paint = (lines, ...place) => nodes.forEach((one, k) => set(one, { d: shade(lines, k + 1, ...place) }));
  return { nodes, paint };
}

/** Where everything stands: the rows of the digit, and the step, beside each other or one above the other. */
export function places(width) {
  const wide = width >= 600;
  const left = wide ? 292 : 0;
  const w = width - 2 - left;
  const s = Math.round(Math.min(56, w * 0.137));
  const gl = left + s + (wide ? 26 : 16);
  const right = left + w - s;
  const branch = right - (wide ? 30 : 22);
  const gap = wide ? 8 : 6;
  const gate = (branch - (wide ? 27 : 22) - gl - 3 * gap) / 4;
  const gates = [0, 1, 2, 3].map((k) => gl + k * (gate + gap));
  const y = wide
    ? { cell: 50, mix: 94, gate: 122, foot: 202, bus: 220, h: 248, x: 298, norm: 94, tanh: 130, show: 168 }
    : { cell: 32, mix: 58, gate: 83, foot: 135, bus: 149, h: 168, x: 202, norm: 60, tanh: 86, show: 116 };
  const digit = wide
    ? { ring: 14, left: 32, pixel: 9, pitch: 18, top: 38, size: [138, 182], gradient: [198, 270] }
    : { ring: 14, left: 32, pixel: 7, pitch: 10.5, top: 246, size: [118, 118 + w * 0.18], gradient: [132 + w * 0.18, width - 6] };
  return { wide, left, s, right, branch, gate, gates, y, digit, height: wide ? 310 : 411 };
}

/** One step, as everybody draws it. */
function stepDrawing(saturated) {
  const [wires, arrows] = [path("ln-wires"), path("ln-heads")];
  const ops = ["×", "×", "+", "+", "×"].map(operator);
  const matrices = [indexed("W", "h"), indexed("W", "x")];
  const norms = ["N", "N", "N"].map((word) => wordBox("ln-norm-box", word));
  const divisors = norms.map(() => text("ln-divisor"));
  const squash = wordBox("ln-box", "tanh");
  // In the order of the drawing; the numbers stand as in PyTorch: i, f, the candidate, o.
  const gates = [1, 0, 2, 3].map((index) => ({ index, strip: strip("ln-gate", index === 2 ? -1 : 0) }));
  const names = ["f", "i", "c̃", "o"].map((name) => text("ln-name", { text: name }));
  const ends = [text("ln-tick", { text: "1" }), text("ln-tick", { text: "0" })];
  const strips = { cBefore: strip("ln-of-cell"), carried: strip("ln-of-cell"), hBefore: strip("ln-of-state"), h: strip("ln-of-state") };
  const labels = [indexed("c", "t−1"), indexed("c", "t"), indexed("h", "t−1"), indexed("h", "t"), indexed("x", "t")];
  const bias = text("ln-name");
  const [x, frame] = [pixelRows(), path("ln-picked")];
  const node = svg(
    "g", {}, wires, arrows, ...gates.flatMap((one) => one.strip.nodes), ...Object.values(strips).flatMap((one) => one.nodes), ...x.nodes, frame,
    ...ops, ...norms.map((one) => one.node), squash.node, ...matrices, ...divisors, ...names, ...ends, ...labels, bias,
  );
  let at = null;

  const centers = () => at.gates.map((x) => x + at.gate / 2);

  function layout(placed) {
    at = placed;
    const { left, s, right, gate, y, wide, branch } = at;
    const [f, i, candidate, last] = centers();
    const mid = (i + candidate) / 2;
    Object.assign(at, { mid, norm: left + s + (wide ? 64 : 44) });
    const spots = [[f, y.cell], [mid, y.mix], [mid, y.cell], [last, y.h], [branch, y.show]];
    ops.forEach((op, k) => set(op, { transform: `translate(${spots[k].map(tenth).join(" ")})` }));
    squash.place(branch, y.tanh, 34);
    matrices.forEach((one, k) => set(one, { x: left + s + (wide ? 24 : 16), y: (k ? y.x : y.h) + 4 }));
    gates.forEach((one, k) => one.strip.place(at.gates[k], y.gate, gate, y.foot - y.gate));
    names.forEach((one, k) => set(one, { x: tenth(at.gates[k] + 1), y: y.gate - 4 }));
    ends.forEach((one, k) => set(one, { x: at.gates[0] - 7, y: k ? y.foot : y.gate + 9 }));
    const tall = wide ? 40 : 28;
    const boxes = { cBefore: [left, y.cell], carried: [right, y.cell], hBefore: [left, y.h], h: [right, y.show] };
    Object.entries(boxes).forEach(([name, [from, middle]], k) => {
      strips[name].place(from, middle - tall / 2, s, tall);
      set(labels[k], { x: from + s / 2, y: middle - tall / 2 - 5 });
    });
    set(labels[4], { x: left + s / 2, y: y.x - 12 });
    set(frame, { d: box(left, y.x - 6, s, 12) });
    set(bias, { x: tenth(last + 23), y: y.h + 4 });
  }

  /** The wires, with the norm of the cell on its way out or on its own way. */
  function drawWires(norm, hasBias) {
    const { left, s, right, y, branch, mid, gate, gates: each } = at;
    const middle = centers();
    const plus = middle[3];
    const line = [
      `M${left + s} ${y.cell}H${right}`, // the cell
      `M${left + s} ${y.h}H${plus}M${left + s} ${y.x}H${plus}V${y.h}V${y.bus}`,
      `M${middle[0]} ${y.bus}H${middle[3]}`,
      ...middle.map((x) => `M${x} ${y.bus}V${y.foot}`),
      `M${middle[0]} ${y.gate}V${y.cell}`,
      `M${middle[1]} ${y.gate}V${y.mix}H${middle[2]}V${y.gate}M${mid} ${y.mix}V${y.cell}`,
      `M${each[3] + gate} ${y.show}H${right}`,
      `M${branch} ${y.cell}V${y.show}`,
      hasBias ? `M${plus} ${y.h}h18` : "",
    ];
    set(wires, { d: line.join("") });
    set(arrows, { d: [...middle.map((x) => head(x, y.foot, true)), head(right, y.cell), head(right, y.show)].join("") });
    const onWay = norm === "normalized";
    const spots = [[at.norm, y.h], [at.norm, y.x], onWay ? [(mid + branch) / 2, y.cell] : [branch, y.norm]];
    norms.forEach((one, k) => {
      one.place(...spots[k], 18);
      set(one.node, { visibility: norm === "none" ? "hidden" : null });
      const [x, top] = k < 2 ? [spots[k][0] + 12, spots[k][1] - 5] : onWay ? [spots[k][0], y.cell + 22] : [branch + 12, y.norm + 4];
      set(divisors[k], { x: tenth(x), y: top, "text-anchor": k === 2 && onWay ? "middle" : "start" });
    });
  }

  function paint({ norm, bias: start }, { now, steps }) {
    const hasBias = start === "random";
    drawWires(norm, hasBias);
    set(bias, { text: hasBias ? "b" : "" });
    now.divisors.forEach((v, k) => set(divisors[k], { text: norm === "none" ? "" : `÷ ${formatNumber(v, 2)}` }));
    for (const { index, strip: one } of gates) one.paint(now.gates[index], 1, index === 2 ? undefined : saturated);
    const most = reach(Math.max(...steps.flatMap(({ carried }) => carried.map(Math.abs))), [0.5, 1, 2, 5, 15]);
    for (const name of ["cBefore", "carried"]) strips[name].paint(now[name], most);
    for (const name of ["hBefore", "h"]) strips[name].paint(now[name]);
    x.paint([now.x], at.left, at.y.x - 6, at.s / now.x.length, 12);
  }
  return { node, layout, paint };
}

/** The digit, a row of the page for each of its rows: its pixels, the size of the cell, the gradient. */
export function cellChart({ digit, change, commit, now, rows, pixels, saturated }) {
  const drawing = stepDrawing(saturated);
  const [paper, ink] = [path("ln-frame"), pixelRows()];
  const [axes, sizes, gradients, picked] = [path("ln-axis"), path("ln-bars ln-of-cell"), path("ln-bars ln-of-gradient"), path("ln-picked")];
  const heads = ["ln-moved", "ln-value", "ln-value"].map((kind) => text(kind));
  const columns = ["size of c", "gradient"].map((words) => text("ln-name", { text: words }));
  const ticks = [0, 1, 2].map(() => text("ln-tick"));
  const back = svg("rect", { class: "ln-target ln-rows" });
  const handle = makeRing({ r: 9, arrows: upDown, "data-trait": "row" }).node;
  let at = places(640);
  const parts = [drawing.node, paper, ...ink.nodes, axes, sizes, gradients, ...heads, ...columns, ...ticks, back, picked, handle];
  const { node, canvas, fit } = chart(300, [], parts, (width) => {
    at = places(width);
    set(canvas, { height: at.height, viewBox: `0 0 ${width} ${at.height}` });
    drawing.layout(at);
    const { left, pitch, top, size: [start], gradient } = at.digit;
    columns.forEach((one, k) => set(one, { x: tenth(k ? gradient[0] : start), y: top - 21 }));
    set(back, { x: left, y: top, width: tenth(gradient[1] - left), height: rows * pitch });
  }, "group");
  set(canvas, { "aria-label": "The rows of a digit, with the size of the cell and the gradient at each, and one step of the LSTM" });

  const rowAt = (y) => clamp(Math.floor((y - at.digit.top) / at.digit.pitch) + 1, 1, rows);
  const middle = (row) => at.digit.top + (row - 0.5) * at.digit.pitch;
  back.addEventListener("click", (event) => {
    change("row", rowAt(event.clientY - canvas.getBoundingClientRect().top));
    commit();
  });
  draggable(handle, { where: () => [0, middle(now("row"))], move: (_, y) => change("row", rowAt(y)), end: commit });
  steerable(handle, { name: "Row of the digit", step: (right, up) => change("row", clamp(now("row") + right - up, 1, rows)), end: commit });
  set(handle, { "aria-orientation": "vertical", "aria-valuemin": 1, "aria-valuemax": rows });

  function paintRows(blank, run) {
    const { left, pixel, pitch, top, size: [s0, s1], gradient: [g0, g1] } = at.digit;
    const bottom = top + rows * pitch;
    set(paper, { d: box(left, top, pixels * pixel, rows * pitch) });
    ink.paint(digit(blank), left, top, pixel, pitch);
    const long = linearScale(0, reach(Math.max(...run.sizes), [1.2, 3, 6, 15]), s0, s1);
    const [low, high] = decades(run.gradients);
    const power = linearScale(low, high, g0, g1);
    const bar = (from, to, r) => box(from, top + (r + 0.15) * pitch, to - from, 0.7 * pitch);
    const place = (v) => power(clamp(Math.log10(v), low, high)); // 0 stands at the left end
    set(sizes, { d: run.sizes.map((v, r) => bar(s0, long(v), r)).join("") });
    set(gradients, { d: run.gradients.map((v, r) => bar(power(0), place(v), r)).join("") });
    set(axes, { d: `M${s0} ${top}V${bottom}M${tenth(power(0))} ${top}V${bottom}` });
    const marks = [[low, g0], [0, power(0)], [high, g1]];
    marks.forEach(([exponent, x], k) => {
      const free = k === 1 || Math.abs(x - power(0)) > 24;
      set(ticks[k], { x: tenth(x), y: bottom + 13, text: free ? (k === 1 ? "1" : powerOfTen(exponent)) : "" });
    });
  }

  function paint(state, seen) {
    const { row, blank } = state;
    const { left, pitch, top, ring, size: [s0], gradient: [g0, g1] } = at.digit;
    drawing.paint(state, seen);
    paintRows(blank, seen);
    const words = [`row ${row}`, formatNumber(seen.sizes[row - 1]), `× ${formatNumber(seen.gradients[row - 1])}`];
    heads.forEach((head, k) => set(head, { x: tenth([left, s0, g0][k]), y: top - 7, text: words[k] }));
    set(picked, { d: box(left - 1, top + (row - 1) * pitch, g1 - left + 2, pitch) });
    set(handle, { transform: `translate(${ring} ${tenth(middle(row))})`, "aria-valuenow": row, "aria-valuetext": `row ${row} of ${rows}` });
  }

  return { node, fit, paint };
}
