/**
 * The three pictures of the ε explorer. They do no arithmetic of the norm: each is handed
 * `{ eps, spread, shown, curves }` and moves nodes that were made once.
 */
import { clamp, formatNumber, hatchPath, html, linearScale, linePath, logScale, powerOfTen, roundTo, set, svg, symbolClass } from "./common.mjs";
import { at, chart, text } from "./frame.mjs";
import { draggable, steerable, strokable } from "./handles.mjs";

/** Write a number without an exponent, as ARIA wants it. */
const decimal = new Intl.NumberFormat("en", { maximumSignificantDigits: 6, useGrouping: false }).format;

export const kinds = [
  { key: "variance", tone: "ln-blue", formula: "√(σ² + ε)", long: "PyTorch" },
  { key: "std", tone: "ln-vermillion", formula: "σ + ε", long: "ε outside the root" },
  { key: "half", tone: "ln-green", formula: "√(σ² + ε)", long: "every step in float16" },
];

/** Round, square and diamond marks of radius r: hue is never the only sign. */
export function mark(key, r) {
  if (key === "std") return `M${-r} ${-r}H${r}V${r}H${-r}Z`;
  if (key === "half") return `M0 ${-1.4 * r}L${1.4 * r} 0L0 ${1.4 * r}L${-1.4 * r} 0Z`;
  return `M${-r} 0A${r} ${r} 0 1 1 ${r} 0A${r} ${r} 0 1 1 ${-r} 0Z`;
}

const marks = (r) => kinds.map(({ key, tone }, i) => svg("path", { class: `ln-mark ${tone}`, d: mark(key, r + [-1, 1, 2][i]) }));
const paths = () => kinds.map(({ tone }) => svg("path", { class: `ln-curve ${tone}` }));
/** Beads, then dashes, then a thin line through them: where the curves agree, each still shows. */
const stacked = ([pytorch, std, half]) => [half, std, pytorch];

/** Ticks, line and name of the σ axis: log, after a break that sets the constant row, 0, apart. */
function sigmaAxis(x, { left, right, bottom, every }) {
  const parts = [];
  for (let power = -7; power <= 1; power += every) {
    parts.push(text("ln-tick", { x: x(10 ** power), y: bottom + 18, text: powerOfTen(power) }));
    parts.push(svg("path", { class: "ln-axis", d: `M${x(10 ** power)} ${bottom}v4` }));
  }
  const gap = (x(0) + x(1e-7)) / 2;
  const line = `M${left} ${bottom}H${gap - 3}m-3 5l6 -10m0 10l6 -10m-3 5H${right}`;
  return [
    ...parts,
    text("ln-tick", { x: x(0), y: bottom + 18, text: "0" }),
    svg("path", { class: "ln-axis", d: line }),
    text("ln-name", { x: right, y: bottom + 37, "text-anchor": "end", text: "spread σ of the row (units of x)" }),
  ];
}

/** The points with a gap wherever float16 jumps by more than `height` px: nothing lies between. */
function torn(points, height) {
  return points.flatMap((p, i) => (i > 0 && Math.abs(p[1] - points[i - 1][1]) > height ? [[NaN, NaN], p] : [p]));
}

/** Every second point: twenty a decade show a smooth curve. */
const thinned = (points) => points.filter((_, i) => i % 2 === 0);

/** The last spread at which float16 divides by zero, as it does at every smaller one; or null. */
function broken({ grid, lines }) {
  return grid[lines[2].gradientSize.lastIndexOf(Infinity)] ?? null;
}

/** Whether σ + ε reaches half of the variance after √(σ² + ε) does: at 2.41 ε, and not √ε. */
const risesLate = (eps) => Math.sqrt(eps) < 2.41 * eps;

/** The marker that a reader drags to where they think half of the variance is left. */
function guessMarker({ y, top, bottom, x, step }) {
  const ring = svg("circle", { class: "ln-ring", r: 12 });
  const mark = text("ln-moved", { y: 5, "text-anchor": "middle", text: "?" });
  const line = svg("path", { class: "ln-rule", d: `M0 ${top - y}V${bottom - y}` });
  const node = svg("g", { class: "ln-handle ln-guess" }, line, svg("circle", { class: "ln-target", r: 23 }), ring, mark);
  let value = 0.01;
  const put = (v) => {
    value = v;
    set(node, { transform: at(x()(v), y), "aria-valuenow": decimal(v), "aria-valuetext": `σ = ${formatNumber(v)}` });
  };
  draggable(node, { where: () => [x()(value), 0], move: (px) => put(x().invert(px)), end() {} });
  steerable(node, { name: "Your guess of σ", step: (right, up) => put(step(value, right + up)), end() {} });
  set(node, { "aria-valuemin": 0, "aria-valuemax": 10 });
  return { node, paint: () => put(value), guessed: () => value };
}

/** A background on which a click, a tap or a sideways stroke puts σ; `x()` is the axis. */
function sigmaBack({ height, x, now, change, commit }) {
  const back = svg("rect", { class: "ln-target ln-back ln-later", width: "100%", height });
  strokable(back, { now: () => now("spread"), to: (px) => x().invert(px), put: (value) => change("spread", value), end: commit, press: true });
  return back;
}

/** Output variance against spread, and the two things to drag: σ and the knee of the curve. */
export function varianceChart({ change, commit, now, limits, onward }) {
  const [height, top, bottom, left] = [246, 42, 204, 34];
  const y = linearScale(1.5, 0, top, bottom);
  const frame = svg("g");
  const band = svg("path", { class: "ln-hatch" });
  const bandName = text("ln-green", { y: top + 17 });
  const lines = paths();
  const names = kinds.map(({ tone }) => text(tone));
  const points = marks(5.5);
  const rule = svg("path", { class: "ln-rule" });
  const pill = svg("rect", { class: "ln-pill", y: 1, height: 26, rx: 13 });
  const pillName = text("ln-pill-name", { y: 18.5 });
  const sigma = svg("g", { class: "ln-handle ln-later", "data-trait": "spread" }, svg("rect", { class: "ln-target", x: -44, width: 88, y: 0, height: 44 }));
  sigma.append(pill, pillName);
  const knee = svg("g", { class: "ln-handle ln-later", "data-trait": "eps" });
  knee.append(
    svg("circle", { class: "ln-target", r: 23 }),
    svg("circle", { class: "ln-ring", r: 10 }),
    svg("path", { class: "ln-arrows", d: "M-2 -3.5L-5.5 0L-2 3.5M2 -3.5L5.5 0L2 3.5" }),
  );
  const kneeName = text("", { y: y(0.5) + 4 });
  const known = svg("g", { class: "ln-later" });
  const ghost = guessMarker({ y: y(0.5), top, bottom, x: () => x, step: onward.spread });
  let [x, width, done, sigmaX, kneeX] = [null, 0, null, 0, 0];
  const back = sigmaBack({ height, x: () => x, now, change, commit });
  known.append(band, ...stacked(lines), rule, bandName, ...names, kneeName, ...stacked(points));
  const parts = [frame, known, back, sigma, knee, ghost.node];
  const { node, canvas, fit } = chart(height, [], parts, (room) => {
    [width, done] = [room, null];
    const right = width - 10;
    x = logScale(1e-7, 10, left + 44, right, left + 14);
    const labels = { 0: "0", 0.5: "½", 1: "1" };
    frame.replaceChildren(
      ...[0.5, 1].map((v) => svg("path", { class: "ln-grid", d: `M${left} ${y(v)}H${right}` })),
      ...Object.keys(labels).map((v) => text("ln-tick", { x: left - 12, y: y(Number(v)) + 4, text: labels[v] })),
      ...sigmaAxis(x, { left, right, bottom, every: width < 480 ? 2 : 1 }),
      text("ln-name", { x: 0, y: bottom + 37, text: "↑ variance of x̂" }),
    );
  }, "group");
  draggable(sigma, { where: () => [sigmaX, 0], move: (px) => change("spread", x.invert(px)), end: commit });
  draggable(knee, { where: () => [kneeX, 0], move: (px) => change("eps", roundTo(x.invert(px) ** 2)), end: commit });
  const steered = (handle, trait, name) => {
    steerable(handle, { name, step: (right, up) => change(trait, onward[trait](now(trait), right + up)), end: commit });
    set(handle, { "aria-valuemin": 0, "aria-valuemax": limits[trait][1] });
  };
  steered(sigma, "spread", "Spread σ of the row (units of x)");
  steered(knee, "eps", "Constant ε (units of x²)");

  /** What depends on ε alone: the curves, their names, the band. */
  function paintCurves({ eps, curves }) {
    const { grid } = curves;
    curves.lines.forEach((line, i) => {
      const drawn = grid.map((s, j) => [x(s), y(line.outputVariance[j])]);
      set(lines[i], { d: linePath(i === 2 ? torn(drawn, 12) : thinned(drawn)) });
    });
    const end = broken(curves);
    const edge = end === null ? 0 : x(end);
    set(band, { d: end === null ? "" : hatchPath(x(0) - 8, edge, top, y(1.18)) });
    const long = edge < width - 155 ? "float16 divides by 0" : "float16: ÷ 0";
    set(bandName, { x: edge + 18, text: end === null ? "" : long });

    // Each name lies beside its curve: left of the one that rises first, right of the other. Without ε
    // there is one line, a name above it and one below.
    const sides = risesLate(eps) ? [-1, 1] : [1, -1];
    sides.forEach((side, i) => {
      const height = side === 1 ? 0.2 : 0.74;
      const crossing = curves.lines[i].outputVariance.findIndex((v) => v >= height);
      const place = x(grid[Math.max(crossing, 0)]) + 10 * side;
      const fits = side === 1 ? place < width - 62 : place > x(1e-7) + 58;
      const spot = fits ? place : side === 1 ? width - 10 : x(1e-7) + 4;
      const whose = i === 0 && side === 1 && place < width - 130 && crossing > 0 ? " (PyTorch)" : "";
      const below = side === 1 && crossing === 0 ? y(1) + 18 : y(height) + 4;
      set(names[i], { x: spot, y: fits ? below : y(side === 1 ? 0.06 : 1) - 9 });
      set(names[i], { "text-anchor": (side === 1) === fits ? "start" : "end", text: kinds[i].formula + whose });
    });
    set(names[2], { x: width - 12, y: y(1) - 13, "text-anchor": "end", text: "float16" });
  }

  return {
    node,
    fit,
    guessed: ghost.guessed,
    paint(state) {
      const { eps, spread, shown, guessing } = state;
      if (guessing) ghost.paint();
      else ghost.node.remove();
      if (done !== eps) paintCurves(state);
      done = eps;
      set(sigma, { "aria-valuenow": decimal(spread), "aria-valuetext": `σ = ${formatNumber(spread)}` });
      set(knee, { "aria-valuenow": decimal(eps), "aria-valuetext": `ε = ${formatNumber(eps)}` });
      sigmaX = x(spread);
      kneeX = x(Math.sqrt(eps));
      const label = `‹ σ = ${formatNumber(spread)} ›`;
      const size = label.length * 7 + 18;
      const center = clamp(sigmaX, size / 2 + 1, width - size / 2 - 1);
      set(rule, { d: `M${sigmaX.toFixed(1)} 27V${bottom}` });
      set(pill, { width: size, x: center - size / 2 - sigmaX });
      set(pillName, { x: center - sigmaX, text: label });
      set(sigma, { transform: at(sigmaX, 0) });
      set(knee, { transform: at(kneeX, y(0.5)) });
      const name = `ε = ${formatNumber(eps)}`;
      const flip = risesLate(eps) || kneeX + 17 + name.length * 7 > width; // away from the other curve
      const spot = { x: kneeX + (flip ? -17 : 17), "text-anchor": flip ? "end" : "start" };
      set(kneeName, { ...spot, text: name });
      shown.forEach(({ outputVariance: v }, i) => {
        set(points[i], { transform: at(sigmaX, Number.isFinite(v) ? y(Math.min(v, 1.5)) : y(1.34)) });
      });
      const words = `Output variance against the spread of the row, at ε = ${formatNumber(eps)}.`;
      const more = ` The sentence below gives its numbers at σ = ${formatNumber(spread)}.`;
      set(canvas, { "aria-label": words + (guessing ? "" : more) });
    },
  };
}

/** The eight values of x̂, one lane a version; hollow marks where ε = 0 would put them. */
export function stripChart() {
  const [height, first, lane, bottom] = [164, 26, 36, 122];
  const axis = svg("g");
  const lanes = kinds.map(({ tone, key }, i) => {
    const y = first + i * lane;
    const name = text(tone, { x: 0, y: y - 16, text: kinds[i].formula + (key === "half" ? " in float16" : "") });
    const ghosts = Array.from({ length: 8 }, () => svg("path", { class: "ln-ghost", d: mark(key, 4.5) }));
    const values = Array.from({ length: 8 }, () => svg("path", { class: `ln-mark ${tone}`, d: mark(key, 4.5) }));
    const wreck = text(`${tone} ln-wreck`, { y: y + 4 });
    return { y, name, ghosts, values, wreck, line: svg("path", { class: "ln-grid" }) };
  });
  let [x, placed] = [null, false];
  const parts = [axis, ...lanes.flatMap((l) => [l.line, l.name, ...l.ghosts, ...l.values, l.wreck])];
  const { node, canvas, fit } = chart(height, [], parts, (width) => {
    x = linearScale(-1.75, 2.25, 8, width - 8);
    placed = false;
    axis.replaceChildren(
      svg("path", { class: "ln-axis", d: `M8 ${bottom}H${width - 8}` }),
      ...[-1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2].map((v) => svg("path", { class: "ln-axis", d: `M${x(v)} ${bottom}v4` })),
      ...[-1, 0, 1, 2].map((v) => text("ln-tick", { x: x(v), y: bottom + 18, text: String(v).replace("-", "−") })),
      text("ln-name", { x: width - 8, y: bottom + 37, "text-anchor": "end", text: "the 8 values of x̂; hollow: if ε were 0" }),
    );
    for (const l of lanes) {
      set(l.line, { d: `M8 ${l.y}H${width - 8}` });
      set(l.wreck, { x: width / 2 });
    }
  });
  node.classList.add("ln-later");
  return {
    node,
    fit,
    paint({ shown, pattern, wrecks }) {
      lanes.forEach(({ y, ghosts, values, wreck: words }, i) => {
        if (!placed) ghosts.forEach((ghost, j) => set(ghost, { transform: at(x(pattern[j]), y) }));
        for (const ghost of ghosts) set(ghost, { visibility: wrecks[i] ? "hidden" : null });
        shown[i].xHat.forEach((v, j) => {
          const finite = Number.isFinite(v);
          set(values[j], { transform: at(finite ? x(v) : 0, y), visibility: finite ? null : "hidden" });
        });
        set(words, { text: wrecks[i] });
      });
      placed = true;
      const told = kinds.map(({ formula, long }, i) => {
        const sizes = shown[i].xHat.map(Math.abs);
        return `${formula}, ${long}: ${wrecks[i] || `within ${formatNumber(Math.max(...sizes))} of 0`}`;
      });
      set(canvas, { "aria-label": `The eight values of x̂. ${told.join("; ")}.` });
    },
  };
}

/** The largest factor on a gradient against spread, on the same σ axis. */
export function gradientChart({ change, commit, now }) {
  const [height, top, bottom, left] = [252, 40, 214, 40]; // above the top there is room for ∞
  const y = logScale(1e12, 1e-3, top, bottom);
  const frame = svg("g");
  const band = svg("path", { class: "ln-hatch" });
  const bandName = text("ln-green", { y: top - 17 });
  const lines = paths();
  const names = [text("ln-blue"), text("ln-vermillion")];
  const points = marks(4.5);
  const rule = svg("path", { class: "ln-rule" });
  let [x, done] = [null, null];
  const back = sigmaBack({ height, x: () => x, now, change, commit });
  const parts = [frame, band, ...stacked(lines), rule, ...names, bandName, ...stacked(points), back];
  const title = ["Largest factor on a gradient", html("small", { text: "log scale" })];
  const { node, canvas, fit } = chart(height, title, parts, (width) => {
    const right = width - 10;
    done = null;
    x = logScale(1e-7, 10, left + 36, right, left + 12);
    frame.replaceChildren(
      ...[-3, 0, 3, 6, 9, 12].flatMap((p) => [
        svg("path", { class: "ln-grid", d: `M${left} ${y(10 ** p)}H${right}` }),
        text("ln-tick", { x: left - 20, y: y(10 ** p) + 4, text: p === 0 ? "1" : powerOfTen(p) }),
      ]),
      ...sigmaAxis(x, { left, right, bottom, every: 2 }),
    );
  });

  function paintCurves({ curves }) {
    curves.lines.forEach((line, i) => {
      const atZero = y(line.gradientAtZero);
      const drawn = curves.grid.map((s, j) => [x(s), y(line.gradientSize[j])]);
      set(lines[i], { d: linePath([[x(0) - 7, atZero], [x(0) + 7, atZero], [NaN, NaN], ...thinned(drawn)]) });
    });
    const end = broken(curves);
    const edge = end === null ? 0 : x(end);
    set(band, { d: end === null ? "" : hatchPath(x(0) - 8, edge, top - 32, top - 10) });
    set(bandName, { x: edge + 10, text: end === null ? "" : "float16: ∞" });
    // The plateaus' names: below the lower one, above the higher one unless ∞ is there. Without ε there is none.
    ["1/√ε", "1/ε"].forEach((name, i) => {
      const level = curves.lines[i].gradientAtZero;
      const beside = i === 0 || level > 1e10 ? 17 : -7;
      const finite = level < Infinity;
      set(names[i], { x: x(1e-7) + 2, y: y(finite ? level : 1) + beside, text: finite ? `${name} = ${formatNumber(level)}` : "" });
    });
  }

  return {
    node,
    fit,
    paint(state) {
      const { eps, spread, shown } = state;
      if (done !== eps) paintCurves(state);
      done = eps;
      set(rule, { d: `M${x(spread).toFixed(1)} ${top - 32}V${bottom}` });
      shown.forEach(({ gradientSize: g }, i) => {
        set(points[i], { transform: at(x(spread), Number.isFinite(g) ? y(g) : top - 21) });
      });
      const words = "Largest factor by which a gradient is multiplied, against the spread of the row.";
      const levels = `It levels off at 1/√ε = ${formatNumber(1 / Math.sqrt(eps))} for √(σ² + ε) and at 1/ε = ${formatNumber(1 / eps)} for σ + ε.`;
      set(canvas, { "aria-label": `${words} ${eps === 0 ? "Without ε it has no bound." : levels}` });
    },
  };
}
