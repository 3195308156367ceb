/**
 * The pictures of the Jacobian explorer: the matrix, with the row above it and γ beside it, and the bars of
 * the three ways. They do no arithmetic of the norm.
 */
import { choice, clamp, formatNumber, html, linearScale, roundTo, set, svg, symbolClass, tenth } from "./common_old.mjs";
import { at, chart, text } from "./frame.mjs";
import { draggable, makeRing, steerable, upDown } from "./handles_old.mjs";

// Arrows within a ring that goes to the sides.
const leftRight = "M-1.5 -2.5L-4 0L-1.5 2.5M1.5 -2.5L4 0L1.5 2.5";

export const four = (make) => [0, 1, 2, 3].map(make);
export const sub = (i) => "₁₂₃₄"[i];
const line = (kind) => svg("path", { class: kind });

/**
 * Where everything of the matrix stands: `left` of it is γ, above `top` the row, between `high` and `low`.
 * A cell is [width, height].
 */
export function places(width) {
  const [left, high, low] = width < 330 ? [width < 300 ? 84 : 102, 22, 82] : [106, 26, 98];
  const size = [tenth((width - left - 3) / 4), 44];
  return { width, left, high, low, top: low + 24, size, track: [8, left - 36], height: low + 28 + 4 * size[1] };
}

/** A drawn value's step: a tenth, unless it is finer already. */
const tenths = (v) => roundTo(Math.round(v * 10) / 10, 12);

/** The row, γ and the matrix: features and scales are dragged, one number of the matrix is picked. */
export function matrixChart({ change, commit, put, now, limits }) {
  const cells = four((k) => four((i) => {
    const [box, words] = [svg("rect", { rx: 3 }), text("ln-entry")];
    const node = svg("g", { class: "ln-cell", role: "img" }, box, words);
    node.addEventListener("click", () => put({ output: k + 1, input: i + 1 }));
    return { box, words, node };
  }));
  const name = (k, i) => `∂y${sub(k)}/∂x${sub(i)}`;
  const [band, mean, stems, axes] = [line(`ln-band ${symbolClass("sigma")}`), line(`ln-mean ${symbolClass("mu")}`), line(`ln-stems ${symbolClass("x-hat")}`), line("ln-axis")];
  const [features, outputs, values, scales] = four(() => four(() => text("ln-head")));
  const [meanName, stdName] = [text("ln-side"), text("ln-side")];
  const mirror = svg("rect", { class: "ln-mirror", rx: 4 });
  const [frameTarget, frame] = [svg("rect", { class: "ln-target" }), svg("rect", { class: "ln-ring", rx: 4 })];
  const picked = svg("g", { class: "ln-handle ln-free", "data-trait": "output input" }, frameTarget, frame);
  const xs = four(() => makeRing({ arrows: upDown, "data-trait": "x" }).node);
  const gammas = four(() => makeRing({ arrows: leftRight, "data-trait": "weight" }).node);
  let [place, y, across] = [places(640), null, null];
  const drawn = [band, axes, mean, stems, ...cells.flat().map(({ node }) => node), mirror, meanName, stdName, ...features, ...outputs, ...values, ...scales];
  const { node, canvas, fit } = chart(0, [], [...drawn, ...xs, ...gammas, picked], (width) => {
    place = places(width);
    const { left, top, high, low, size: [w, h], track, height } = place;
    [y, across] = [linearScale(...limits.x, low, high), linearScale(...limits.weight, ...track)];
    set(canvas, { height, viewBox: `0 0 ${width} ${height}`, class: width < 300 ? "ln-narrow" : null });
    cells.forEach((row, k) => row.forEach(({ box, words }, i) => {
      const corner = { x: tenth(left + i * w), y: top + k * h };
      set(box, { x: corner.x + 1.5, y: corner.y + 1.5, width: w - 3, height: h - 3 });
      set(words, { x: corner.x + w / 2, y: corner.y + h / 2 + 4 });
    }));
    for (const one of [frame, mirror, frameTarget]) set(one, { width: w, height: h });
    const middle = (track[0] + track[1]) / 2;
    const tracks = four((k) => `M${track[0]} ${top + (k + 0.5) * h + 8}H${track[1]}M${middle} ${top + (k + 0.5) * h + 4}v8`);
    set(axes, { d: tracks.join("") });
    features.forEach((one, i) => set(one, { x: tenth(left + (i + 0.5) * w), y: top - 7, "text-anchor": "middle" }));
    outputs.forEach((one, k) => set(one, { x: left - 7, y: top + (k + 0.5) * h + 4, "text-anchor": "end" }));
    scales.forEach((one, k) => set(one, { x: middle, y: top + (k + 0.5) * h - 6, "text-anchor": "middle" }));
  }, "group");
  set(canvas, { "aria-label": "The Jacobian as four by four numbers, with the row above it and γ beside it" });

  const cellAt = (px, py) => [py - place.top, px - place.left].map((v, axis) => clamp(Math.ceil(v / place.size[1 - axis]), 1, 4));
  const pick = ([output, input]) => [["output", output], ["input", input]].forEach(([trait, value]) => change(trait, clamp(value, 1, 4)));
  draggable(picked, { where: (...point) => point, move: (...point) => pick(cellAt(...point)), end: commit });
  steerable(picked, { name: "Output and feature", step: (right, up) => pick([now("output") - up, now("input") + right]), end: commit });
  set(picked, { "aria-valuemin": 1, "aria-valuemax": 16 });

  const grips = [
    [xs, "x", (i) => `Feature x${sub(i)}`, (i) => [0, y(now("x")[i])], (_, py) => y.invert(py), "vertical"],
    [gammas, "weight", (k) => `Scale γ${sub(k)}`, (k) => [across(now("weight")[k]), 0], (px) => across.invert(px), "horizontal"],
  ];
  for (const [rings, trait, name, where, value, orientation] of grips) {
    rings.forEach((ring, j) => {
      const to = (v) => change(trait, now(trait).with(j, clamp(v, ...limits[trait])));
      draggable(ring, { where: () => where(j), move: (...point) => to(tenths(value(...point))), end: commit });
      steerable(ring, { name: name(j), step: (right, up) => to(roundTo(now(trait)[j] + (right + up) / 10, 12)), end: commit });
      set(ring, { "aria-orientation": orientation, "aria-valuemin": limits[trait][0], "aria-valuemax": limits[trait][1] });
    });
  }

  /** The row as steps away from its mean, with σ on both sides. */
  function paintRow(x, { mean: middle, std }) {
    const { width, left, size: [w], high, low } = place;
    const center = (i) => tenth(left + (i + 0.5) * w);
    const [up, down] = [middle + std, middle - std].map((v) => tenth(y(clamp(v, ...limits.x))));
    set(band, { d: std > 0 ? `M${left} ${up}H${width - 3}V${down}H${left}Z` : "" });
    set(mean, { d: `M${left} ${tenth(y(middle))}H${width - 3}` });
    set(stems, { d: four((i) => `M${center(i)} ${tenth(y(middle))}V${tenth(y(x[i]))}`).join("") });
    const beside = clamp(y(middle), high + 4, low - 12);
    set(meanName, { x: 4, y: tenth(beside), text: `μ = ${formatNumber(middle)}` });
    set(stdName, { x: 4, y: tenth(beside + 16), text: `σ = ${formatNumber(std)}` });
    xs.forEach((ring, i) => {
      set(ring, { transform: at(center(i), y(x[i])), "aria-valuenow": x[i], "aria-valuetext": formatNumber(x[i]) });
      set(values[i], { x: center(i), y: tenth(y(x[i]) - 13), text: formatNumber(x[i]), "text-anchor": "middle" });
    });
  }

  function paint({ x, weight }, shown) {
    const { k, i, matrix, most, write, inCell } = shown;
    const { left, top, size: [w, h] } = place;
    const corner = (a, b) => at(left + b * w, top + a * h);
    matrix.forEach((row, a) => row.forEach((value, b) => {
      const { box, words, node } = cells[a][b];
      set(node, { "aria-label": `${name(a, b)} = ${write(value)}` });
      set(words, { text: inCell(value, w < 46 ? 2 : 3) });
      // At half strength the number still has contrast.
      const share = Math.min((Math.abs(value) / most) * 75, 50) || 0;
      set(box, { class: value < 0 ? "ln-minus" : "ln-plus", style: `--ln-share: ${share.toFixed(1)}%` });
    }));
    paintRow(x, shown);
    gammas.forEach((ring, a) => {
      const words = formatNumber(weight[a]);
      set(ring, { transform: at(across(weight[a]), top + (a + 0.5) * h + 8), "aria-valuenow": weight[a], "aria-valuetext": words });
      set(scales[a], { text: `γ${sub(a)} = ${words}` });
    });
    features.forEach((one, b) => set(one, { text: `x${sub(b)}`, class: `ln-text ln-head${b === i ? " ln-moved" : ""}` }));
    outputs.forEach((one, a) => set(one, { text: `y${sub(a)}`, class: `ln-text ln-head${a === k ? " ln-moved" : ""}` }));
    set(mirror, { transform: corner(i, k), visibility: k === i ? "hidden" : null });
    set(picked, { transform: corner(k, i), "aria-valuenow": 4 * k + i + 1, "aria-valuetext": `${name(k, i)} = ${write(matrix[k][i])}` });
  }

  return { node, fit, paint };
}

const LANE = 48; // px, the height of one way: two lines of text and a bar
const BAR = [34, 43]; // px, where a bar begins and ends in its lane

/** The three ways as bars, each from where the one before ended, and below them their sum. */
export function waysChart({ put }) {
  const kinds = ["", symbolClass("mu"), symbolClass("sigma"), "ln-sum"];
  const lanes = kinds.map((kind, j) => {
    const put = (name, more = {}) => text(name, { y: j * LANE + 14, ...more });
    const below = { y: j * LANE + 30 };
    const parts = {
      dot: svg("circle", { class: "ln-dot", cx: 8, cy: j * LANE + 9.5, r: 7.5, visibility: j === 3 ? "hidden" : null }),
      count: put("ln-count", { x: 8, text: j === 3 ? "" : `${j + 1}` }),
      name: put("ln-way", { x: 22 }),
      letters: put("ln-letters", { x: 104 }),
      value: put("ln-value", { "text-anchor": "end" }),
      numbers: put("ln-numbers", { x: 22, ...below }),
      equation: put("ln-name", { "text-anchor": "end", ...below }),
      bar: line(`ln-bar ${kind}`),
    };
    return { ...parts, node: svg("g", { class: "ln-lane" }, ...Object.values(parts)) };
  });
  const [zero, links] = [line("ln-axis"), line("ln-links")];
  let right = 640;
  const { node, canvas, fit } = chart(4 * LANE, [], [zero, links, ...lanes.map((lane) => lane.node)], (width) => {
    right = width;
    set(canvas, { class: width < 300 ? "ln-narrow" : null });
    for (const { value, equation } of lanes) for (const one of [value, equation]) set(one, { x: width - 2 });
  });
  const options = [[0, "the direct way alone"], [1, "also that through the mean"], [2, "also that through the spread"]];
  const upTo = choice({ legend: "Count", options, change: (value) => put({ step: value }) });
  node.append(upTo.node);
  set(node, { class: "ln-chart ln-ways", "data-trait": "step" });

  function paint({ step, ways, reach, write }, told) {
    const tight = (words) => (right < 300 ? words.replace(/ ?([·/]) ?|(?<=[₁-₄H]) /g, "$1") : words);
    const fine = ways.every(Number.isFinite);
    const x = linearScale(...reach, 3, right - 3);
    let end = 0;
    const ends = [];
    lanes.forEach(({ node: lane, name, letters, value, numbers, equation, bar }, j) => {
      const { name: way, letters: said, numbers: figures, equation: number, value: size } = told[j];
      const counts = j === 3 || j <= step;
      set(lane, { class: `ln-lane${counts ? "" : " ln-out"}` });
      set(name, { text: way });
      set(letters, { text: tight(said) });
      set(value, { text: write(size) });
      set(numbers, { text: `= ${tight(figures)}` });
      set(equation, { text: number ? `(${number})` : "" });
      const from = j === 3 ? 0 : end;
      const to = from + size;
      if (j < 3 && counts) ends.push((end = to));
      const [start, stop] = [x(from), x(to)].map(tenth);
      set(bar, { d: fine ? `M${start} ${j * LANE + BAR[0]}H${stop}V${j * LANE + BAR[1]}H${start}Z` : "" });
    });
    set(zero, { d: fine ? four((j) => `M${tenth(x(0))} ${j * LANE + BAR[0] - 3}V${j * LANE + BAR[1] + 3}`).join("") : "" });
    const drop = (v, j) => `M${tenth(x(v))} ${j * LANE + BAR[1]}V${(j === ends.length - 1 ? 3 : j + 1) * LANE + BAR[0]}`;
    set(links, { d: fine ? ends.map(drop).join("") : "" });
    set(canvas, { "aria-label": told.map(({ name, numbers, value }) => `${name}: ${numbers} = ${write(value)}`).join("; ") });
    upTo.paint(step);
  }

  return { node, fit, paint };
}
