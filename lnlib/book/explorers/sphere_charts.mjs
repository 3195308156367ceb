/** The view of the sphere explorer and its geometry: three dimensions seen from afar, (1, 1, 1) pointing up. */
import { at, chart, path, text } from "./chart.mjs";
import { clamp, decimal, formatNumber, range, remember, roundTo, set, svg, symbolClass } from "./common.mjs";
import { linePath } from "./curves.mjs";
import { draggable, steerable, strokable } from "./handles.mjs";
import { layerNorm } from "./norm.mjs";

// --- geometry --------------------------------------------------------------------------------

export const ROOT3 = Math.sqrt(3);
export const CLOSE = 0.03; // units from the circle, or from its center, that cannot be told apart
const [LOW, HIGH] = [Math.sin(Math.PI / 7), Math.cos(Math.PI / 7)]; // the camera stands 26° above the plane
const RISE = HIGH * ROOT3; // what a mean of 1 lifts x on the screen
const HEIGHT = 320;
const SLACK = 8; // px that a point drawn at the rim is pulled inward before it follows

const add = (a, b, times = 1) => a.map((v, i) => v + times * b[i]);
const around = (turn) => [Math.cos((turn * Math.PI) / 180), Math.sin((turn * Math.PI) / 180)];

/** A point of the plane Σ = 0, so far to the right and to the front of the origin. */
export function inPlane(right, front, turn) {
  const [cos, sin] = around(turn);
  const p = (front * cos - right * sin) / Math.sqrt(6); // along (2, -1, -1)
  const q = (front * sin + right * cos) / Math.SQRT2; // along (0, 1, -1)
  return [2 * p, q - p, -p - q];
}

/** What the camera sees of a point: how far to the right, how far up, how near. */
export function project([a, b, c], turn) {
  const [cos, sin] = around(turn);
  const p = (2 * a - b - c) / Math.sqrt(6);
  const q = (b - c) / Math.SQRT2;
  const [front, up] = [p * cos + q * sin, (a + b + c) / ROOT3];
  return [q * cos - p * sin, up * HIGH - front * LOW, front * HIGH + up * LOW];
}

/** Where things lie in a drawing: k px a unit, the origin, the rim, the rim of the plane. */
export const view = remember((width) => {
  const k = Math.min(55, width / 5.6);
  return { k, cx: width / 2, cy: 212, left: 34, right: width - 34, top: 46, bottom: HEIGHT - 22, far: 118 };
});

/** A point's place in px. */
export function onScreen(point, turn, v) {
  const [right, up] = project(point, turn);
  return [v.cx + v.k * right, v.cy - v.k * up];
}

/** A place, or where the ray to it from the origin leaves the frame; `reach` is the part of the way. */
function toRim([x, y], v, top = v.top) {
  const [dx, dy] = [x - v.cx, y - v.cy];
  const reach = Math.min(1, (v.right - v.cx) / Math.abs(dx), (dy > 0 ? v.bottom - v.cy : v.cy - top) / Math.abs(dy));
  return { place: reach === 1 ? [x, y] : [v.cx + reach * dx, v.cy + reach * dy], reach };
}

/**
 * Where x and its shadow x − μ are drawn. The scale is fixed. What lies outside is drawn at the
 * rim, its line broken: the shadow on the ray from the origin, x straight above or below that.
 */
export function place({ mean, centered }, turn, v) {
  const { place: shadow, reach } = toRim(onScreen(centered, turn, v), v, v.far);
  const y = shadow[1] - v.k * RISE * mean;
  const x = [shadow[0], clamp(y, v.top, v.bottom)];
  return { shadow, reach, x, cut: x[1] !== y };
}

/**
 * x dragged to a place: up and down along (1, 1, 1), sideways in the plane. At the rim it keeps
 * what the frame cannot show until it is pulled inward; then it starts from where it is drawn.
 */
export function dragX({ mean, centered }, turn, v, [px, py]) {
  const { shadow, reach, x, cut } = place({ mean, centered }, turn, v);
  const right = clamp(px, v.left, v.right) - x[0];
  const up = x[1] - clamp(py, v.top, v.bottom);
  const stays = reach < 1 && Math.abs(right) <= SLACK;
  const plane = stays ? centered : add(inPlane(right / v.k, 0, turn), centered, reach);
  const drawn = cut ? (shadow[1] - x[1]) / (v.k * RISE) : mean;
  const level = cut && Math.abs(up) <= SLACK ? mean : drawn + up / (v.k * RISE);
  return plane.map((c) => c + level);
}

/** x when its shadow is dragged to a place: the point of the plane seen there, the mean kept. */
export function dragShadow({ mean, centered }, turn, v, [px, py]) {
  const { shadow, reach } = place({ mean, centered }, turn, v);
  const [x, y] = [clamp(px, v.left, v.right), clamp(py, v.far, v.bottom)];
  const stays = reach < 1 && Math.hypot(x - shadow[0], y - shadow[1]) <= SLACK;
  const plane = stays ? centered : inPlane((x - v.cx) / v.k, (y - v.cy) / v.k / LOW, turn);
  return plane.map((c) => c + mean);
}

/** x moved by keys: `up` along (1, 1, 1), `right` and `front` in the plane, as it is seen. */
export const nudge = (x, right, front, up, turn) => add(add(x, inPlane(right, front, turn)), [up, up, up]);

/**
 * x moved toward `target` by whole thousandths, a fifteenth of a pixel: by as many for each feature along
 * (1, 1, 1), and by three that sum to 0 in the plane. So one direction leaves x̂ as it is, the other the
 * mean, and a step is undone by its opposite.
 */
export function inThousandths(x, target) {
  const step = target.map((v, i) => 1000 * (v - x[i]));
  const level = (step[0] + step[1] + step[2]) / 3;
  const whole = (v) => Math.sign(v) * Math.round(Math.abs(v)); // ties away from 0, whatever the sign
  const plane = step.map((v) => v - level);
  const moves = plane.map(whole);
  const excess = moves[0] + moves[1] + moves[2]; // -1, 0 or 1, and the most rounded gives way
  const errors = moves.map((v, i) => excess * (v - plane[i]));
  moves[errors.indexOf(Math.max(...errors))] -= excess;
  return x.map((v, i) => roundTo(v + (moves[i] + whole(level)) / 1000, 12));
}

// --- labels ----------------------------------------------------------------------------------

const LINE = 17; // px, the height of a label
const SIDES = { e: [1, 0], w: [-1, 0], n: [0, -1], s: [0, 1], ne: [0.8, -0.7], se: [0.8, 0.7], nw: [-0.8, -0.7], sw: [-0.8, 0.7] };
/** Where a label of that length begins on one axis, `gap` px to that side of a point, in the frame. */
const begin = (near, side, gap, long, room) => clamp(near + side * gap - ((1 - Math.sign(side)) / 2) * long, 0, room - long);

/**
 * Put each label [tone, words, point, gap, side] beside its point, clear of marks and of labels
 * before it, and of most `dots`, which stand for lines. One without room is left out.
 */
function spread(labels, marks, dots, width, lengthOf) {
  const taken = marks.map(([x, y]) => [x - 9, y - 9, 18, 18]);
  return labels.map(([tone, words, near, gap, first]) => {
    const size = words && lengthOf(words);
    let [least, best] = [Infinity, null];
    for (const more of words ? [0, 12] : []) {
      for (const side in SIDES) {
        let cost = side === first ? more / 9 : 1 + more / 9;
        if (cost >= least) continue;
        const x = begin(near[0], SIDES[side][0], gap + more, size, width);
        const y = begin(near[1], SIDES[side][1], gap + more, LINE, HEIGHT);
        if (taken.some(([l, t, w, h]) => x < l + w && l < x + size && y < t + h && t < y + LINE)) continue;
        for (const [px, py] of dots) if (px > x && px < x + size && py > y && py < y + LINE) cost += 2;
        if (cost < least) [least, best] = [cost, [x, y, size, LINE]];
      }
    }
    if (best) taken.push(best);
    return best && text(tone, best[0], best[1] + 13, words);
  });
}

// --- the view --------------------------------------------------------------------------------

const ARROW = 42; // px that a step at x is long when it is seen from the side
const DISK = 2.7; // units, the part of the plane that is drawn
const TIPS = [[2.6, 0, 0], [0, 2.6, 0], [0, 0, 2.6]]; // of the axes
const [MU, SIGMA, GAMMA, HAT] = ["mu", "sigma", "gamma", "x-hat"].map(symbolClass);
const OF_Y = { "data-trait": "weight bias" };
const spot = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;
const line = (a, b) => `M${spot(a)}L${spot(b)}`;
const dotted = (a, b) => [0, 1, 2, 3, 4, 5, 6, 7, 8].map((i) => add(a, add(b, a, -1), i / 8));
const unitOf = ([x, y]) => [x / Math.hypot(x, y), y / Math.hypot(x, y)];
const head = (tip, [x, y]) => `M${spot(add(tip, [-7 * x - 4 * y, -7 * y + 4 * x]))}L${spot(tip)}L${spot(add(tip, [-7 * x + 4 * y, -7 * y - 4 * x]))}`;
/** Two strokes across the middle of a line, out of which something was left. */
const torn = (a, b) => `M${spot(add(add(a, b), [-12, 2]).map((v) => v / 2))}l12 -6m-12 10l12 -6`;
/** The middle of a line that is longer than 60 px. */
const middle = (a, b) => (Math.hypot(...add(a, b, -1)) > 60 ? add(a, add(b, a, -1), 0.5) : null);

/** The near half of a circle in the plane, or the far one: the camera's turn does not change it. */
const arc = (v, radius, far) => `M${v.cx - radius * v.k} ${v.cy}a${radius * v.k} ${radius * v.k * LOW} 0 0 ${far} ${2 * radius * v.k} 0`;

/** A two-headed arrow about a point, with `gap` px left free for a mark. */
function arrow(about, step, gap) {
  if (Math.hypot(...step) < 3) return "";
  return [1, -1].map((s) => {
    const [tip, unit] = [add(about, step, s), unitOf(step).map((v) => v * s)];
    return line(add(about, unit, gap), tip) + head(tip, unit);
  }).join("");
}

/** Steps at x, and what is left of them at x̂, as long as J makes them: arrows, and the tips of both. */
function stepsOf({ terms, eigen }, turn, top, xHat) {
  const steps = eigen.map(({ direction, value }) => {
    const [right, up] = project(direction, turn);
    const length = Math.max(ARROW, 24 / Math.hypot(right, up));
    const step = [right * length, -up * length];
    return [step, step.map((v) => v * Math.min(value, 2.2))]; // longer ones would leave the circle
  });
  const drawn = steps.map(([step, image]) => arrow(top, step, 13) + arrow(xHat, image, 0));
  const lost = terms.constant ? 1 : 2; // a constant row loses no direction of the plane
  const [tips, ends] = [[top, 0], [xHat, 1]].map(([from, i]) => steps.flatMap((step) => [add(from, step[i]), add(from, step[i], -1)]));
  return { lost: drawn.slice(0, lost).join(""), kept: drawn.slice(lost).join(""), tips, ends };
}

/** The ellipse of y, the image of the circle: dots of it, its near half, the half on the far side of its center. */
function ellipseOf({ weight, bias, turn }, v) {
  const all = range(73, (i) => {
    const round = inPlane(ROOT3, 0, 5 * i).map((c, j) => c * weight[j]);
    const [px, py] = onScreen(add(round, bias), turn, v);
    const inside = px >= 0 && px <= 2 * v.cx && py >= 0 && py <= HEIGHT;
    return { dot: inside ? [px, py] : [NaN, NaN], near: project(round, turn)[2] >= 0 };
  });
  const half = (side) => linePath(all.map(({ dot, near }, i) => (near === side || all[i + 1]?.near === side ? dot : [NaN, NaN])));
  return { dots: all.map(({ dot }) => dot), near: half(true), far: half(false) };
}

/**
 * x, its shadow on the plane, x̂ on the circle and y on the ellipse; x and the shadow are dragged, and
 * the background turns it all.
 */
export function sphereChart({ change, commit, now, say, traits }) {
  const circle = (kind, r) => svg("circle", { class: kind, r });
  const grip = (...rings) => svg("g", { class: "ln-handle ln-free", "data-trait": "x" }, circle("ln-target", 23), ...rings);
  const [shadow, x] = [grip(circle("ln-ring", 8)), grip(circle("ln-pill", 9))];
  const xHat = svg("path", { class: `ln-mark ${HAT}`, d: "M-5.5 0A5.5 5.5 0 1 1 5.5 0A5.5 5.5 0 1 1 -5.5 0Z" });
  const y = svg("path", { class: `ln-mark ${GAMMA}`, d: "M0 -8L8 0L0 8L-8 0Z", ...OF_Y });
  const back = svg("rect", { class: "ln-target ln-back", width: "100%", height: HEIGHT });
  let [v, trail, still] = [null, [], null];
  const found = new Set(); // the directions that have left x̂ where it was

  /** Take a row for found if it lies well away from the first one with its x̂. */
  function notice(row) {
    const terms = layerNorm(row);
    if (!(still && Math.hypot(...add(terms.xHat, still.xHat, -1)) < 0.12)) still = terms;
    if (Math.abs(terms.mean - still.mean) > 0.3) found.add("(1, 1, 1)");
    if (Math.abs(Math.log(terms.std / still.std)) > 0.3) found.add("x − μ");
    return found.size;
  }
  const put = (move) => {
    const row = now("x");
    const moved = inThousandths(row, move(layerNorm(row), now("turn"), row));
    still ??= layerNorm(row);
    if (String(moved) !== String(row)) say(notice(moved)); // the guess is to have tried
    change("x", moved);
  };
  const drag = (handle, which, move) => {
    const where = () => place(layerNorm(now("x")), now("turn"), v)[which];
    draggable(handle, { where, move: (...to) => put((terms, turn) => move(terms, turn, v, to)), end: commit });
  };
  drag(x, "x", dragX);
  drag(shadow, "shadow", dragShadow);
  const steer = (...steps) => put((_, turn, row) => nudge(row, ...steps.map((n) => n / 10), turn));
  const { low, high } = traits.x;
  steerable(x, { name: "x", low, high, step: (right, up) => steer(right, 0, up), end: commit, far: 10 });
  steerable(shadow, { name: "x − μ", low: 0, high, step: (right, up) => steer(right, -up, 0), end: commit, far: 10 });
  const turnTo = (turn) => change("turn", turn);
  const step = (right, up) => turnTo(traits.turn.onward(now("turn"), right + up));
  strokable(back, { now: () => now("turn"), to: (px, from, before) => before + (from - px) / 2, put: turnTo, end: commit });
  steerable(back, { ...traits.turn, name: traits.turn.title, step, end: commit, far: 90 });

  const lengths = remember(() => {
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `600 13px ${getComputedStyle(made.canvas).fontFamily}`; // no label is wider
    return (words) => pen.measureText(words).width + 2;
  });

  /** The places at which x̂ has been during a guess, as long as they can be told apart. */
  function trailOf(place, guessing) {
    if (!guessing) [trail, still] = [[], found.clear()];
    else if (trail.length < 300 && !trail.some((one) => Math.hypot(...add(one, place, -1)) < 0.08)) trail.push(place);
    return trail;
  }

  function draw(width, state, { terms, eigen, moved, told }, { guessing }) {
    const { turn } = state;
    v = view(width);
    const { shadow: ground, x: top, reach, cut } = place(terms, turn, v);
    const [origin, hat, peak] = [[v.cx, v.cy], onScreen(terms.xHat, turn, v), [v.cx, v.cy - 3 * v.k * HIGH]];
    const image = toRim(onScreen(terms.y, turn, v), v);
    const axes = TIPS.map((tip) => onScreen(tip, turn, v));
    const inner = ROOT3 - terms.length > CLOSE && terms.length > CLOSE;
    const way = add(hat, ground, -1);
    const end = add(hat, unitOf(way), -7);
    const marks = moved ? [top, ground, hat, image.place] : [top, ground, hat];
    const { lost, kept, tips, ends } = stepsOf({ terms, eigen }, turn, top, hat);
    const ellipse = moved ? ellipseOf(state, v) : { dots: [] };
    set(y, { visibility: moved ? null : "hidden" });
    for (const [node, spot] of [[y, image.place], [xHat, hat], [x, top], [shadow, ground]]) set(node, { transform: at(...spot) });
    for (const [node, now, words] of [[x, terms.mean, told.x], [shadow, terms.std, told.shadow], [back, turn, told.turn]]) {
      set(node, { "aria-valuenow": decimal(now), "aria-valuetext": words });
    }

    const [, along, around] = eigen.map(({ value }) => value);
    const [rise, run] = [middle(ground, top), middle(origin, ground)];
    const labels = [
      ["ln-moved", cut ? `x, μ = ${told.mean}` : "x", top, 12, "nw"],
      ["ln-moved", reach < 1 ? `x − μ, σ = ${formatNumber(terms.std)}` : "x − μ", ground, 11, "s"],
      ["", "x̂", hat, 9, "sw"],
      ["", moved && "y", image.place, 10, "e"],
      // The arrows answer the guess.
      ["ln-s-x-hat", !guessing && `× ${formatNumber(around)}`, tips[4], 4, "e"],
      ["", !guessing && "lost", tips[0], 4, "e"],
      ["", !guessing && !terms.constant && (along < around / 100 ? "lost" : `× ${formatNumber(along)}`), tips[2], 4, "w"],
      ["", rise && "√3 μ", rise, 4, "w"],
      ["", run && "√3 σ", run, 4, "s"],
      ...["x₁", "x₂", "x₃"].map((name, i) => ["ln-name", name, axes[i], 3, "n"]),
      ["ln-s-mu", "(1, 1, 1)", peak, 3, "n"],
      ["ln-name", "x₁ + x₂ + x₃ = 0", [v.cx, v.cy + DISK * v.k * LOW], 4, "s"],
      ["ln-s-x-hat", "radius √3", [v.cx + ROOT3 * v.k, v.cy], 5, "e"],
      ["ln-s-x-hat", inner && `radius ${formatNumber(terms.length)}`, [v.cx + terms.length * v.k, v.cy], 5, "w"],
    ];
    const from = (start, ends) => [...ends, ground].flatMap((tip) => dotted(start, tip));
    const dots = [...from(top, tips), ...from(hat, ends), ...ellipse.dots];
    const cuts = (cut ? torn(ground, top) : "") + (reach < 1 ? torn(hat, ground) : "") + (moved && image.reach < 1 ? torn(hat, image.place) : "");
    return [
      path("ln-disk", arc(v, DISK, 0) + arc(v, DISK, 1)),
      path("ln-axis", axes.map((tip) => line(origin, tip)).join("")),
      path(`ln-axis ${MU}`, line(origin, peak) + head(peak, [0, -1])),
      path(`ln-axis ${SIGMA}`, line(origin, ground)),
      path(`ln-curve ln-circle ln-faint ${HAT}`, arc(v, ROOT3, 1)),
      path(`ln-curve ln-circle ${HAT}`, arc(v, ROOT3, 0)),
      inner && path(`ln-curve ln-dotted ${HAT}`, arc(v, terms.length, 0) + arc(v, terms.length, 1)),
      moved && path(`ln-curve ln-ellipse ln-faint ${GAMMA}`, ellipse.far),
      moved && path(`ln-curve ln-ellipse ${GAMMA}`, ellipse.near, OF_Y),
      moved && path(`ln-curve ln-ellipse ln-thin ${GAMMA}`, line(hat, image.place)),
      path(`ln-curve ln-drop ${MU}`, line(top, ground)),
      Math.hypot(...way) > 26 && path(`ln-curve ln-thin ${HAT}`, line(ground, end) + head(end, unitOf(way))),
      path("ln-rule", cuts),
      !guessing && path("ln-lost", lost),
      !guessing && path(`ln-curve ${HAT}`, kept),
      path(`ln-trail ${HAT}`, trailOf(terms.xHat, guessing).map((one) => `M${spot(onScreen(one, turn, v))}h.1`).join("")),
      guessing && text("ln-moved", 4, 18, found.size ? `${found.size} of 2 found: ${[...found].join(" and ")}` : "0 of 2 found"),
      spread(labels, marks, dots, width, lengths(width)),
    ];
  }
  const made = chart({ height: HEIGHT, view: draw, label: (_, { told }) => told.view, handles: [back, shadow, xHat, y, x] });
  return made;
}
