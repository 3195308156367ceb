/** The two pictures of the ε explorer. */
import { at, chart, mark, path, text } from "./chart.mjs";
import { clamp, formatNumber, hatchPath, html, linearScale, powerOfTen, remember, roundTo, svg, tenth } from "./common.mjs";
import { linePath, logScale } from "./curves.mjs";
import { makeAsked, makePill, strokable } from "./handles.mjs";

export const kinds = [
  { key: "variance", tone: "ln-blue", formula: "√(σ² + ε)", long: "PyTorch" },
  { key: "std", tone: "ln-vermillion", formula: "σ + ε", long: "ε outside the root" },
  { key: "half", tone: "ln-green", formula: "√(σ² + ε)", long: "every step in float16" },
];

/** Round, square and diamond signs of radius r: hue is never the only one. */
function sign(key, r) {
  if (key === "std") return `M${-r} ${-r}H${r}V${r}H${-r}Z`;
  if (key === "half") return `M0 ${-1.4 * r}L${1.4 * r} 0L0 ${1.4 * r}L${-1.4 * r} 0Z`;
  return `M${-r} 0A${r} ${r} 0 1 1 ${r} 0A${r} ${r} 0 1 1 ${-r} 0Z`;
}

/** Beads, then dashes, then a thin line through them: where the curves agree, each still shows. */
const stacked = (make) => [2, 1, 0].map((i) => make(kinds[i], i));
const points = (x, ys, r) => stacked(({ key, tone }, i) => Number.isFinite(ys[i]) && path(`ln-mark ${tone}`, sign(key, r + [-1, 1, 2][i]), { transform: at(x, ys[i]) }));

/** What a version is called in the table, which is also the key of the pictures. */
export function keyOf({ key, tone, formula, long }) {
  const swatch = svg("svg", { class: "ln-swatch", width: 34, height: 14, "aria-hidden": "true" },
    svg("path", { class: `ln-curve ${tone}`, d: key === "half" ? "M6 7H33" : "M1 7H33" }),
    svg("path", { class: `ln-mark ${tone}`, d: sign(key, 4.5), transform: "translate(17 7)" }));
  return html("div", { class: "ln-key" }, swatch, html("div", {}, html("span", { text: formula }), html("small", { text: long })));
}

/** Ticks, line and name of the σ axis: log, after a break that sets the constant row, 0, apart. */
function sigmaAxis(x, { left, right, bottom, every }) {
  const powers = [-7, -6, -5, -4, -3, -2, -1, 0, 1].filter((power) => (power + 7) % every === 0);
  const gap = (x(0) + x(1e-7)) / 2;
  return [
    powers.map((p) => [text("ln-tick", x(10 ** p), bottom + 18, powerOfTen(p)), path("ln-axis", `M${x(10 ** p)} ${bottom}v4`)]),
    text("ln-tick", x(0), bottom + 18, "0"),
    path("ln-axis", `M${left} ${bottom}H${gap - 3}m-3 5l6 -10m0 10l6 -10m-3 5H${right}`),
    text("ln-name ln-end", right, bottom + 37, "spread σ of the row (units of x)"),
  ];
}

/** The points with a gap wherever float16 jumps by more than `height` px: nothing lies between. */
const torn = (all, height) => all.flatMap((p, i) => (i > 0 && Math.abs(p[1] - all[i - 1][1]) > height ? [[NaN, NaN], p] : [p]));

/** Every second point: twenty a decade show a smooth curve. */
const thinned = (all) => all.filter((_, i) => i % 2 === 0);

/** Where on the axis x is the last spread at which float16 divides by zero, as it does at every smaller one; or NaN. */
const brokenTo = ({ grid, lines }, x) => x(grid[lines[2].gradientSize.lastIndexOf(Infinity)] ?? NaN);

/** A line down at x, with gaps where words are. */
function lineBetween(words, x, bottom) {
  const gaps = words.flat().filter(Boolean).map(({ attributes: { class: kind, text, "text-anchor": anchor, x: start, y } }) => {
    const wide = 7.5 * text.length;
    const left = anchor === "end" || kind.endsWith("ln-end") ? start - wide : start;
    return x > left - 4 && x < left + wide + 4 ? [y - 12, y + 5] : [];
  });
  const cut = gaps.filter(({ length }) => length).sort(([a], [b]) => a - b);
  return `M${tenth(x)} 27${cut.map(([from, to]) => `V${from}M${tenth(x)} ${to}`).join("")}V${bottom}`;
}

/** Whether σ + ε reaches half of the variance after √(σ² + ε) does: at 2.41 ε, and not √ε. */
const risesLate = (eps) => Math.sqrt(eps) < 2.41 * eps;

/** Output variance against spread, and the two things to drag: σ and the knee of the curve. */
export function varianceChart({ change, commit, now, grips, guessGrip, say }) {
  const [height, top, bottom, left] = [246, 42, 204, 34];
  const y = linearScale(1.5, 0, top, bottom);
  const axis = remember((width) => logScale(1e-7, 10, left + 44, width - 10, left + 14));
  let [x, asked, guess] = [null, false, undefined];
  const kneeScale = Object.assign((eps) => x(Math.sqrt(eps)), { invert: (px) => roundTo(x.invert(px) ** 2) });

  const put = (v) => (asked ? say(v) : change("spread", v));
  const back = svg("rect", { class: "ln-target ln-back", width: "100%", height }); // a click, a tap or a sideways stroke puts σ, or a guess of it
  strokable(back, { now: () => (asked ? guess : now("spread")), to: (px) => x.invert(px), put, end: commit, press: true });
  const pill = makePill({ "data-trait": "spread" });
  const knee = svg("g", { class: "ln-handle ln-later", "data-trait": "eps" },
    svg("circle", { class: "ln-target", r: 23 }),
    svg("circle", { class: "ln-ring", r: 10 }),
    svg("path", { class: "ln-arrows", d: "M-2 -3.5L-5.5 0L-2 3.5M2 -3.5L5.5 0L2 3.5" }));
  const ghost = makeAsked(svg("path", { class: "ln-rule", d: `M0 ${top - y(0.5)}V${bottom - y(0.5)}` }));
  const along = { along: "x", scale: () => x };
  const moveSigma = grips("spread", [pill.node], along);
  const moveKnee = grips("eps", [knee], { along: "x", scale: () => kneeScale });
  const moveGhost = guessGrip("spread", ghost, { from: 0.01, names: ["Your guess of σ"], ...along });

  const frame = remember((width) => [
    [0.5, 1].map((v) => path("ln-grid", `M${left} ${y(v)}H${width - 10}`)),
    [[0, "0"], [0.5, "½"], [1, "1"]].map(([v, words]) => text("ln-tick", left - 12, y(v) + 4, words)),
    sigmaAxis(axis(width), { left, right: width - 10, bottom, every: width < 480 ? 2 : 1 }),
    text("ln-name", 0, bottom + 37, "↑ variance of x̂"),
  ]);

  /** A name beside its curve: left of the one that rises first, right of the other. Without ε there is one line, a name above it and one below. */
  function nameOf(i, { grid, lines }, side, width) {
    const height = side === 1 ? 0.2 : 0.74;
    const crossing = lines[i].outputVariance.findIndex((v) => v >= height);
    const place = x(grid[Math.max(crossing, 0)]) + 10 * side;
    const fits = side === 1 ? place < width - 62 : place > x(1e-7) + 58;
    const spot = fits ? place : side === 1 ? width - 10 : x(1e-7) + 4;
    const whose = i === 0 && side === 1 && place < width - 130 && crossing > 0 ? " (PyTorch)" : "";
    const below = side === 1 && crossing === 0 ? y(1) + 18 : y(height) + 4;
    const anchor = { "text-anchor": (side === 1) === fits ? "start" : "end" };
    return text(kinds[i].tone, spot, fits ? below : y(side === 1 ? 0.06 : 1) - 9, kinds[i].formula + whose, anchor);
  }

  /** What depends on ε alone: the curves, their names, the band. */
  const ofEps = remember((eps, curves, width) => {
    const edge = brokenTo(curves, x);
    const sides = risesLate(eps) ? [-1, 1] : [1, -1];
    return {
      lines: stacked(({ tone }, i) => {
        const drawn = curves.grid.map((s, j) => [x(s), y(curves.lines[i].outputVariance[j])]);
        return path(`ln-curve ${tone}`, linePath(i === 2 ? torn(drawn, 12) : thinned(drawn)));
      }),
      band: edge > 0 && path("ln-hatch", hatchPath(x(0) - 8, edge, top, y(1.18))),
      names: [
        edge > 0 && text("ln-green", edge + 18, top + 17, edge < width - 155 ? "float16 divides by 0" : "float16: ÷ 0"),
        sides.map((side, i) => nameOf(i, curves, side, width)),
        text("ln-green ln-end", width - 12, y(1) - 13, "float16"),
      ],
    };
  });

  function view(width, { eps, spread }, { shown, curves }, { guessing, said }) {
    [x, asked, guess] = [axis(width), guessing, said];
    const [sigmaX, kneeX] = [x(spread), kneeScale(eps)];
    pill.paint(`σ = ${formatNumber(spread)}`, sigmaX, width);
    moveSigma(() => at(sigmaX, 0));
    moveKnee(() => at(kneeX, y(0.5)));
    moveGhost((v) => at(x(v), y(0.5)), (v) => `σ = ${formatNumber(v)}`);
    if (guessing) return [frame(width), text("ln-moved", clamp(x(said ?? 0.01), 60, width - 60), top - 14, `σ = ${formatNumber(said ?? 0.01)}`, { "text-anchor": "middle" })];
    const { lines, band, names } = ofEps(eps, curves, width);
    const name = `ε = ${formatNumber(eps)}`;
    const flip = risesLate(eps) || kneeX + 17 + name.length * 7 > width; // away from the other curve
    const kneeName = text("", kneeX + (flip ? -17 : 17), y(0.5) + 4, name, { "text-anchor": flip ? "end" : "start" });
    const heights = shown.map(({ outputVariance: v }, i) => (Number.isFinite(v) ? y(Math.min(v, 1.5)) : i === 2 ? y(1.34) : NaN)); // where float16 divides by 0
    return [frame(width), band, lines, path("ln-rule", lineBetween([...names, kneeName], sigmaX, bottom)), names, kneeName, points(sigmaX, heights, 5.5)];
  }

  function label({ eps, spread }, _, { guessing }) {
    const more = ` The sentence below gives its numbers at σ = ${formatNumber(spread)}.`;
    return `Output variance against the spread of the row, at ε = ${formatNumber(eps)}.${guessing ? "" : more}`;
  }
  return chart({ height, view, label, handles: [back, pill.node, knee, ghost] });
}

/** The eight values of x̂, one lane a version; hollow marks where ε = 0 would put them. */
export function stripChart() {
  const [first, lane, bottom] = [26, 36, 122];
  const lanes = kinds.map(({ formula, key }, i) => ({ y: first + i * lane, name: formula + (key === "half" ? " in float16" : "") }));
  const axis = remember((width) => linearScale(-1.75, 2.25, 8, width - 8));
  const frame = remember((width) => [
    path("ln-axis", `M8 ${bottom}H${width - 8}`),
    [-1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2].map((v) => path("ln-axis", `M${axis(width)(v)} ${bottom}v4`)),
    [-1, 0, 1, 2].map((v) => text("ln-tick", axis(width)(v), bottom + 18, formatNumber(v))),
    text("ln-name ln-end", width - 8, bottom + 37, "the 8 values of x̂; hollow: if ε were 0"),
    lanes.map(({ y, name }, i) => [path("ln-grid", `M8 ${y}H${width - 8}`), text(kinds[i].tone, 0, y - 16, name)]),
  ]);
  function view(width, _, { shown, pattern, wrecks }) {
    const x = axis(width);
    const signs = (kind, i, values) => values.map((v) => Number.isFinite(v) && path(kind, sign(kinds[i].key, 4.5), { transform: at(x(v), lanes[i].y) }));
    return [frame(width), kinds.map(({ tone }, i) => [
      signs(`ln-axis ${tone}`, i, wrecks[i] ? pattern.map(() => NaN) : pattern),
      signs(`ln-mark ${tone}`, i, shown[i].xHat),
      text(`${tone} ln-wreck`, width / 2, lanes[i].y + 4, wrecks[i]),
    ])];
  }
  function label(_, { shown, wrecks }, { left }) {
    const told = kinds.slice(0, 3 - left).map(({ formula, long }, i) => {
      const sizes = shown[i].xHat.map(Math.abs);
      return `${formula}, ${long}: ${wrecks[i] || `within ${formatNumber(Math.max(...sizes))} of 0`}`;
    });
    return `The eight values of x̂. ${told.join("; ")}.`;
  }
  const made = chart({ height: 164, view, label });
  made.node.classList.add("ln-later");
  return made;
}
