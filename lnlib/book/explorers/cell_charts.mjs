/**
 * The picture of the layer-normalized LSTM: the rows of the digit with the size of the cell and the gradient
 * beside each, and one step as everybody draws it, with what is on the wires.
 */
import { at, chart, mark, path, text } from "./chart.mjs";
import { clamp, formatNumber, linearScale, powerOfTen, remember, set, tenth } from "./common.mjs";
import { draggable, makeRing, steerable, upDown } from "./handles.mjs";

const box = (x, y, w, h) => `M${tenth(x)} ${tenth(y)}h${tenth(w)}v${tenth(h)}h${tenth(-w)}Z`;

/** The least of some ends that holds v. */
const reach = (v, ends) => ends.find((end) => v <= end) ?? ends.at(-1);

/** The axis of a gradient, in powers of ten on either side of 1. */
export function decades(gradients) {
  const powers = gradients.filter((v) => v > 0).map(Math.log10);
  return [-reach(-Math.min(...powers), [2, 5, 10, 20, 40]), reach(Math.max(...powers), [2, 5, 10, 25, 50, 100])];
}

/** A symbol with an index below: c, then t − 1. */
function indexed(name, index, x, y) {
  return mark("text", { class: "ln-text ln-name", x, y, text: name, "text-anchor": "middle" }, mark("tspan", { class: "ln-index", dy: 3, text: index }));
}

/** A box with a word in it. */
function wordBox(kind, word, x, y, width) {
  const frame = mark("rect", { rx: 4, x: tenth(x - width / 2), y: y - 9, width: tenth(width), height: 18 });
  return mark("g", { class: kind }, frame, text("ln-word", x, y + 4, word));
}

/** A triangle that points up, or to the right, at a place. */
const arrowUp = (x, y) => `M${tenth(x - 4)} ${y + 7}h8l-4 -7Z`;
const arrowRight = (x, y) => `M${tenth(x - 7)} ${y - 4}v8l7 -4Z`;

/** Numbers as bars in a box, on an axis from `least` to `most`; with a cap on those that `standsOut` names. */
function strip(kind, [x, y, w, h], values, [least, most] = [-1, 1], standsOut = () => false) {
  const scale = linearScale(least, most, y + h, y);
  const top = values.map((v) => tenth(scale(clamp(v, least, most))));
  const edge = (k) => tenth(x + (k * w) / values.length);
  const outline = top.map((v, k) => `V${v}H${edge(k + 1)}`).join("");
  return [
    path("ln-frame", `${box(x, y, w, h)}M${tenth(x)} ${tenth(y + h / 2)}h${tenth(w)}`),
    path(kind, `M${tenth(x)} ${tenth(scale(0))}${outline}V${tenth(scale(0))}Z`),
    path("ln-caps", values.map((v, k) => (standsOut(v) ? `M${edge(k)} ${top[k]}H${edge(k + 1)}` : "")).join("")),
  ];
}

/** Rows of pixels from x, y, each w by h: a path for each of four shades. */
function pixels(lines, x, y, w, h) {
  const shade = (v) => lines.flatMap((line, r) => line.map((ink, k) => (ink === v ? box(x + k * w, y + r * h, w, h) : ""))).join("");
  return [0.25, 0.5, 0.75, 1].map((v) => path("ln-ink", shade(v), { opacity: v }));
}

/** Where everything stands: the rows of the digit, and the step, beside each other or one above the other. */
export const places = remember((width) => {
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
  const middles = gates.map((x) => x + gate / 2);
  const y = wide
    ? { cell: 50, mix: 94, gate: 122, foot: 202, bus: 220, h: 248, x: 298, norm: 94, tanh: 130, show: 168 }
    : { cell: 32, mix: 58, gate: 83, foot: 135, bus: 149, h: 168, x: 202, norm: 60, tanh: 86, show: 116 };
  const tall = wide ? 40 : 28;
  const stateBox = (x, middle) => [x, middle - tall / 2, s, tall];
  const boxes = { cBefore: stateBox(left, y.cell), carried: stateBox(right, y.cell), hBefore: stateBox(left, y.h), h: stateBox(right, y.show) };
  const digit = wide
    ? { ring: 14, left: 32, pixel: 9, pitch: 18, top: 38, size: [138, 182], gradient: [198, 270] }
    : { ring: 14, left: 32, pixel: 7, pitch: 10.5, top: 246, size: [118, 118 + w * 0.18], gradient: [132 + w * 0.18, width - 6] };
  const spots = { mid: (middles[1] + middles[2]) / 2, matrix: left + s + (wide ? 24 : 16), norm: left + s + (wide ? 64 : 44) };
  return { left, s, right, branch, gate, gates, middles, y, boxes, digit, ...spots, height: wide ? 310 : 411 };
});

/** What is the same in every step: operations, names, and the frame of the input. */
const frameOf = remember((width) => {
  const { left, s, branch, gates, middles, mid, matrix, y, boxes } = places(width);
  const [times, plus] = ["M-3 -3L3 3M-3 3L3 -3", "M-4 0H4M0 -4V4"];
  const ops = [[times, middles[0], y.cell], [times, mid, y.mix], [plus, mid, y.cell], [plus, middles[3], y.h], [times, branch, y.show]];
  const names = [["c", "t−1"], ["c", "t"], ["h", "t−1"], ["h", "t"]];
  return [
    path("ln-picked", box(left, y.x - 6, s, 12)),
    ops.map(([d, ...spot]) => mark("g", { class: "ln-op", transform: at(...spot) }, mark("circle", { r: 8 }), mark("path", { d }))),
    wordBox("ln-box", "tanh", branch, y.tanh, 34),
    [indexed("W", "h", matrix, y.h + 4), indexed("W", "x", matrix, y.x + 4)],
    ["f", "i", "c̃", "o"].map((name, k) => text("ln-name", gates[k] + 1, y.gate - 4, name)),
    [text("ln-tick", gates[0] - 7, y.gate + 9, "1"), text("ln-tick", gates[0] - 7, y.foot, "0")],
    Object.values(boxes).map(([x, top], k) => indexed(...names[k], x + s / 2, top - 5)),
    indexed("x", "t", left + s / 2, y.x - 12),
  ];
});

/** The wires, with the way of a bias if there is one. */
const wiresOf = remember((width, hasBias) => {
  const { left, s, right, branch, gate, gates, middles, mid, y } = places(width);
  const [f, i, candidate, o] = middles;
  const line = [
    `M${left + s} ${y.cell}H${right}`, // the cell
    `M${left + s} ${y.h}H${o}M${left + s} ${y.x}H${o}V${y.h}V${y.bus}`,
    `M${f} ${y.bus}H${o}`,
    ...middles.map((x) => `M${x} ${y.bus}V${y.foot}`),
    `M${f} ${y.gate}V${y.cell}`,
    `M${i} ${y.gate}V${y.mix}H${candidate}V${y.gate}M${mid} ${y.mix}V${y.cell}`,
    `M${gates[3] + gate} ${y.show}H${right}`,
    `M${branch} ${y.cell}V${y.show}`,
    hasBias ? `M${o} ${y.h}h18` : "",
  ];
  const heads = [...middles.map((x) => arrowUp(x, y.foot)), arrowRight(right, y.cell), arrowRight(right, y.show)];
  return [path("ln-wires", line.join("")), path("ln-heads", heads.join("")), hasBias && text("ln-name", o + 23, y.h + 4, "b")];
});

/** The norms and what each divides by: that of the cell stands on its way out or on its own way. */
function normsOf(width, norm, divisors) {
  const { branch, mid, norm: x, y } = places(width);
  const cell = norm === "normalized" ? [(mid + branch) / 2, y.cell, 0, 22, { "text-anchor": "middle" }] : [branch, y.norm, 12, 4];
  return [[x, y.h, 12, -5], [x, y.x, 12, -5], cell].map(([left, top, right, down, anchor], k) => [
    wordBox("ln-norm-box", "N", left, top, 18),
    text("ln-divisor", left + right, top + down, `÷ ${formatNumber(divisors[k], 2)}`, anchor),
  ]);
}

/** One step, as everybody draws it. */
function stepOf(width, { norm, bias }, { now, steps }, saturated) {
  const { left, s, gate, gates, y, boxes } = places(width);
  const most = reach(Math.max(...steps.flatMap(({ carried }) => carried.map(Math.abs))), [0.5, 1, 2, 5, 15]);
  const gateStrip = (index, k) => {
    const more = index === 2 ? [] : [[0, 1], saturated]; // the candidate goes from −1
    return strip("ln-bars", [gates[k], y.gate, gate, y.foot - y.gate], now.gates[index], ...more);
  };
  return mark("g", {},
    wiresOf(width, bias === "random"),
    [1, 0, 2, 3].map(gateStrip), // in the order of the drawing; the numbers stand as in PyTorch: i, f, the candidate, o
    ["cBefore", "carried"].map((name) => strip("ln-bars ln-of-cell", boxes[name], now[name], [-most, most])),
    ["hBefore", "h"].map((name) => strip("ln-bars", boxes[name], now[name])),
    pixels([now.x], left, y.x - 6, s / now.x.length, 12),
    frameOf(width),
    norm === "none" ? [] : normsOf(width, norm, now.divisors));
}

/** The rows of the digit: its pixels, the size of the cell, the gradient. */
const rowsOf = remember((width, steps, sizes, gradients) => {
  const { left, pixel, pitch, top, size: [s0, s1], gradient: [g0, g1] } = places(width).digit;
  const image = steps.map(({ x }) => x);
  const bottom = top + image.length * pitch;
  const long = linearScale(0, reach(Math.max(...sizes), [1.2, 3, 6, 15]), s0, s1);
  const [low, high] = decades(gradients);
  const power = linearScale(low, high, g0, g1);
  const one = power(0);
  const place = (v) => power(clamp(Math.log10(v), low, high)); // 0 stands at the left end
  const bars = (kind, from, ends) => path(kind, ends.map((to, r) => box(from, top + (r + 0.15) * pitch, to - from, 0.7 * pitch)).join(""));
  return [
    path("ln-frame", box(left, top, image[0].length * pixel, bottom - top)),
    pixels(image, left, top, pixel, pitch),
    path("ln-axis", `M${s0} ${top}V${bottom}M${tenth(one)} ${top}V${bottom}`),
    bars("ln-bars ln-of-cell", s0, sizes.map(long)),
    bars("ln-bars ln-of-gradient", one, gradients.map(place)),
    [text("ln-name", s0, top - 21, "size of c"), text("ln-name", g0, top - 21, "gradient")],
    text("ln-tick", one, bottom + 13, "1"),
    [[low, g0], [high, g1]].map(([exponent, x]) => Math.abs(x - one) > 24 && text("ln-tick", x, bottom + 13, powerOfTen(exponent))),
    mark("rect", { class: "ln-target ln-rows", x: left, y: top, width: tenth(g1 - left), height: bottom - top }),
  ];
});

/** The digit and one step; a click, a drag or a key chooses the row. */
export function cellChart({ change, commit, now, traits: { row: { low, high } } }, saturated) {
  const handle = makeRing({ r: 9, arrows: upDown, "data-trait": "row" }).node;
  let place = null;
  const middle = (row) => place.top + (row - 0.5) * place.pitch;
  const choose = (y) => change("row", Math.floor((y - place.top) / place.pitch) + 1);
  draggable(handle, { where: () => [0, middle(now("row"))], move: (_, y) => choose(y), end: commit });
  const step = (right, up) => change("row", now("row") + right - up);
  steerable(handle, { name: "Row of the digit", low, high, orientation: "vertical", step, end: commit });

  function view(width, state, shown) {
    place = places(width).digit;
    const { row } = state;
    const { left, pitch, top, ring, size: [s0], gradient: [g0, g1] } = place;
    const { steps, sizes, gradients } = shown;
    set(handle, { transform: at(ring, middle(row)), "aria-valuenow": row, "aria-valuetext": `row ${row} of ${high}` });
    return [
      stepOf(width, state, shown, saturated),
      rowsOf(width, steps, sizes, gradients),
      text("ln-moved", left, top - 7, `row ${row}`),
      text("ln-value", s0, top - 7, formatNumber(sizes[row - 1])),
      text("ln-value", g0, top - 7, `× ${formatNumber(gradients[row - 1])}`),
      path("ln-picked", box(left - 1, top + (row - 1) * pitch, g1 - left + 2, pitch)),
    ];
  }
  const label = () => "The rows of a digit, with the size of the cell and the gradient at each, and one step of the LSTM";
  const made = chart({ height: (width) => places(width).height, view, label, handles: [handle] });
  made.canvas.addEventListener("click", ({ target, clientY }) => {
    if (!target.matches(".ln-rows")) return;
    choose(clientY - made.canvas.getBoundingClientRect().top);
    commit();
  });
  return made;
}
