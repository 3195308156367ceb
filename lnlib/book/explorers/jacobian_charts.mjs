/**
 * The pictures of the Jacobian explorer: the matrix, with the row above it and γ beside it, and the bars of
 * the three paths.
 */
import { at, bar, barAcross, chart, mark, path, text } from "./chart.mjs";
import { clamp, formatNumber, linearScale, remember, roundTo, set, sub, svg, symbolClass, tenth } from "./common.mjs";
import { draggable, makeRing, steerable, upDown } from "./handles.mjs";

// Arrows within a ring that goes to the sides.
const leftRight = "M-1.5 -2.5L-4 0L-1.5 2.5M1.5 -2.5L4 0L1.5 2.5";

export const four = (make) => [0, 1, 2, 3].map(make);
export const nameOf = (k, i) => `∂y${sub(k)}/∂x${sub(i)}`;

/** All of a drawing, in smaller letters where it is narrow. */
const sized = (width, ...marks) => [mark("g", { class: width < 300 ? "ln-narrow" : null }, ...marks)];

/** A drawn value's step: a tenth, unless it is finer already. */
const tenths = (v) => roundTo(Math.round(v * 10) / 10, 12);

/**
 * Where everything of the matrix stands: `left` of it is γ, on tracks, and above `top` the row, between `high` and
 * `low`. A cell is w by h, half a letter `letter` wide.
 */
const placesOf = remember((width) => {
  const [left, high, low] = width < 330 ? [width < 300 ? 84 : 102, 22, 78] : [106, 26, 94];
  const [w, h, top, right] = [tenth((width - left - 3) / 4), 44, low + 28, left - 36];
  const [y, across] = [linearScale(0, 10, low, high), linearScale(-2, 2, 8, right)];
  const [column, line] = [(i) => left + (i + 0.5) * w, (k) => top + (k + 0.5) * h];
  return { left, high, low, w, h, top, column, line, y, across, height: top + 4 * h + 4, track: [8, right], letter: width < 300 ? 3.1 : 3.7 };
});

/** The row, γ and the matrix: features and scales are dragged, one number of the matrix is picked. */
export function matrixChart({ change, commit, put, now, grips, say }) {
  const [target, frame] = [svg("rect", { class: "ln-target" }), svg("rect", { class: "ln-ring", rx: 4 })];
  const picked = svg("g", { class: "ln-handle ln-free ln-later", "data-trait": "output input" }, target, frame);
  const features = four(() => makeRing({ class: "ln-handle ln-later", arrows: upDown, "data-trait": "x" }).node);
  const scales = four(() => makeRing({ class: "ln-handle ln-later", arrows: leftRight, "data-trait": "weight" }).node);
  let [place, asked, answered, tapped, held] = [null, false, false, [], null];
  const moveFeatures = grips("x", features, { along: "y", scale: () => place.y, grain: tenths });
  const moveScales = grips("weight", scales, { along: "x", scale: () => place.across, grain: tenths });

  const pick = (output, input) => {
    change("output", clamp(output, 1, 4));
    change("input", clamp(input, 1, 4));
  };
  const pickAt = (x, y) => pick(Math.ceil((y - place.top) / place.h), Math.ceil((x - place.left) / place.w));
  const nth = () => 4 * now("output") + now("input");
  draggable(picked, { where: (...point) => ((held = nth()), point), move: pickAt, end: commit });
  picked.addEventListener("click", () => held === nth() && put({ output: now("input"), input: now("output") }));
  const step = (right, up) => pick(now("output") - up, now("input") + right);
  steerable(picked, { name: "Output and feature", low: 1, high: 16, step, end: commit });

  /** A number of the matrix; while the reader is asked, a button that says it is 0. */
  function cell(a, b, { matrix, most, write, inCell }) {
    const { left, top, w, h, column, line } = place;
    const value = matrix[a][b];
    const nth = 4 * a + b;
    // At half strength the number still has contrast.
    const share = asked ? 0 : Math.min((Math.abs(value) / most) * 75, 50) || 0;
    const box = { x: tenth(left + b * w) + 1.5, y: top + a * h + 1.5, width: w - 3, height: h - 3, rx: 3, style: `--ln-share: ${share.toFixed(1)}%` };
    const chosen = tapped.includes(nth);
    const isZero = write(value) === "0";
    const [sign, how] = chosen ? (isZero ? ["✓", "hit"] : ["✗", "miss"]) : answered && isZero ? ["○", "miss"] : [];
    const said = `${nameOf(a, b)} = ${write(value)}${how ? `; you ${chosen ? "tapped" : "missed"} it ${sign}` : ""}`;
    const told = asked ? { role: "button", tabindex: 0, "aria-pressed": chosen, "aria-label": `${nameOf(a, b)} is 0` } : { role: "img", "aria-label": said };
    return mark("g", { class: "ln-cell", ...told, "data-cell": nth },
      mark("rect", { class: value < 0 ? "ln-vermillion" : "ln-blue", ...box }),
      text("ln-entry", column(b), line(a) + 4, asked ? (chosen ? "0" : "") : inCell(value, w < 46 ? 2 : 3)),
      how && !asked && text(`ln-tapped ln-${how}`, tenth(left + (b + 1) * w - 13), top + a * h + 13, sign));
  }

  /** The row as steps away from its mean, with σ on both sides. */
  function row(width, x, { mean, std }) {
    const { left, high, low, column, y } = place;
    const [up, down] = [mean + std, mean - std].map((v) => y(clamp(v, 0, 10)));
    const beside = clamp(y(mean), high + 4, low - 12);
    return [
      std > 0 && path(`ln-band ${symbolClass("sigma")}`, bar(left, width - 3 - left, up, down)),
      path(`ln-mean ${symbolClass("mu")}`, `M${left} ${tenth(y(mean))}H${width - 3}`),
      path(`ln-stems ${symbolClass("x-hat")}`, four((i) => `M${tenth(column(i))} ${tenth(y(mean))}V${tenth(y(x[i]))}`).join("")),
      text("ln-side", 4, beside, `μ = ${formatNumber(mean)}`),
      text("ln-side", 4, beside + 16, `σ = ${formatNumber(std)}`),
      // Above a ring that is over the mean, else left of it and below the line: a stem never runs through a number.
      four((i) => (x[i] >= mean ? text("ln-above", column(i), y(x[i]) - 13, formatNumber(x[i])) : text("ln-end", column(i) - 12, Math.max(y(x[i]) + 4, y(mean) + 12), formatNumber(x[i])))),
    ];
  }

  /** The names of rows and columns, and γ over its tracks. */
  function heads({ weight }, { k, i }) {
    const { left, top, column, line, track, letter } = place;
    const middle = (track[0] + track[1]) / 2;
    const head = (kind, picks, x, y, words) => text(`ln-head ${kind}${picks && !asked ? " ln-moved" : ""}`, x, y, words);
    const gamma = (a) => `γ${sub(a)} = ${formatNumber(weight[a])}`;
    return [
      path("ln-axis", four((a) => `M${track[0]} ${line(a) + 8}H${track[1]}M${middle} ${line(a) + 4}v8`).join("")),
      four((b) => head("ln-above", b === i, column(b), top - 7, `x${sub(b)}`)),
      four((a) => head("ln-end", a === k, left - 7, line(a) + 4, `y${sub(a)}`)),
      four((a) => head("ln-above", false, Math.max(middle, letter * gamma(a).length), line(a) - 6, gamma(a))), // within the drawing
    ];
  }

  function view(width, state, shown, { guessing, said }) {
    [place, asked, answered, tapped] = [placesOf(width), guessing, Boolean(said) && !guessing, said ?? []];
    const { left, top, w, h, column, line, y, across } = place;
    const { k, i, matrix, write } = shown;
    const corner = (a, b) => ({ transform: at(left + b * w, top + a * h) });
    for (const one of [target, frame]) set(one, { width: w, height: h });
    set(picked, { ...corner(k, i), "aria-valuenow": 4 * k + i + 1, "aria-valuetext": `${nameOf(k, i)} = ${write(matrix[k][i])}` });
    moveFeatures((v, b) => at(column(b), y(v)), (v) => formatNumber(v));
    moveScales((v, a) => at(across(v), line(a) + 8), (v) => formatNumber(v));
    return sized(width,
      row(width, state.x, shown),
      four((a) => four((b) => cell(a, b, shown))),
      k !== i && !asked && mark("rect", { class: "ln-mirror", rx: 4, width: w, height: h, ...corner(i, k) }),
      heads(state, shown));
  }

  const label = () => "The Jacobian as four by four numbers, with the row above it and γ beside it";
  const made = chart({ height: (width) => placesOf(width).height, view, label, handles: [...features, ...scales, picked] });
  const take = (nth) => {
    if (asked) say(tapped.includes(nth) ? tapped.filter((one) => one !== nth) : [...tapped, nth]);
    else put({ output: Math.floor(nth / 4) + 1, input: (nth % 4) + 1 });
  };
  made.canvas.addEventListener("click", ({ target: { parentNode: { dataset } } }) => dataset.cell && take(Number(dataset.cell)));
  made.canvas.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault(); // the page would scroll
    if (asked) take(Number(event.target.dataset.cell));
  });
  return made;
}

const LINES = 31; // px, the height of a path in two lines of text
const [LANE, THICK, ABOVE] = [15, 10, 8]; // px: of a bar with what is around it, of the bar, and above the first

/** The three paths and their sum, and below all text their bars, each from where the one before ended. */
export function pathsChart() {
  const kinds = ["", symbolClass("mu"), symbolClass("sigma"), "ln-sum"];
  const top = (j) => 4 * LINES + ABOVE + j * LANE;

  function view(width, { step }, { paths, reach, write, told }) {
    const tight = (words) => words.replace(/ ?([·/]) ?/g, "$1");
    const fine = paths.every(Number.isFinite);
    const x = linearScale(...reach, 22, width - 3);
    const counted = paths.slice(0, step + 1);
    const ends = counted.map((_, j) => counted.slice(0, j + 1).reduce((a, b) => a + b));
    const kind = (j) => (j < 3 && j > step ? "ln-lane ln-out" : "ln-lane");
    const words = ({ name, letters, numbers, equation, value }, j) => mark("g", { class: kind(j) },
      j < 3 && [mark("circle", { class: "ln-dot", cx: 8, cy: j * LINES + 9.5, r: 7.5 }), text("ln-count", 8, j * LINES + 14, `${j + 1}`)],
      text("ln-way", 22, j * LINES + 14, name),
      text("ln-letters", 102, j * LINES + 14, letters),
      equation && text("ln-name ln-end", width - 3, j * LINES + 14, `(${equation})`),
      text("ln-numbers", 22, j * LINES + 29, `= ${tight(numbers)}`),
      text("ln-value ln-end", width - 3, j * LINES + 29, write(value)));
    const lane = ({ value }, j) => {
      const from = j < 3 ? (ends[Math.min(j, ends.length) - 1] ?? 0) : 0;
      return mark("g", { class: kind(j) }, text("ln-nth", 8, top(j) + THICK - 1, j < 3 ? `${j + 1}` : "="), path(`ln-bar ${kinds[j]}`, barAcross(top(j), THICK, x(from), x(from + value))));
    };
    const drop = (v, j) => `M${tenth(x(v))} ${top(j) + THICK}V${top(j === step ? 3 : j + 1)}`;
    return sized(width,
      told.map(words),
      fine && path("ln-axis", `M${tenth(x(0))} ${top(0) - 4}V${top(3) + THICK + 3}`),
      fine && path("ln-links", ends.map(drop).join("")),
      fine && told.map(lane));
  }

  const label = (_, { told, write }) => told.map(({ name, numbers, value }) => `${name}: ${numbers} = ${write(value)}`).join("; ");
  const made = chart({ height: top(4), view, label });
  made.node.classList.add("ln-paths", "ln-later");
  return made;
}
