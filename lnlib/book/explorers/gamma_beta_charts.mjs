/** The picture of the γ and β explorer: three lanes, one above the other. */
import { at, chart, mark, path, text } from "./chart.mjs";
import { clamp, formatNumber, linearScale, range, remember, set, svg, symbolClass, tenth } from "./common.mjs";
import { makeRing } from "./handles.mjs";

const unit = 8; // px, the same in each lane until the values need more room
const [left, margin, gap, size] = [28, 40, 20, 8];

/** Name, axes and kind of dots of each lane, from the top. An axis is where it begins and ends, and ticks. */
export const lanesOf = [
  { name: "x (units of x)", axes: [[0, 10, [0, 5, 10]], [-5, 5, [-5, 0, 5]], [-7.5, 7.5, [-5, 0, 5]]], kind: "ln-dot" },
  { name: "x̂ (no units)", axes: [[-2.5, 2.5, [-2, 0, 2]]], kind: `ln-dot ${symbolClass("x-hat")}` },
  { name: "y = γ ⊙ x̂ + β", axes: [[-6, 6, [-5, 0, 5]], [-10, 10, [-10, -5, 0, 5, 10]], [-20, 20, [-20, -10, 0, 10, 20]]], kind: "ln-dot" },
];

/** The first axis with room for the values, and a tenth of its upper end to spare. */
export function roomFor(axes, values) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return axes.find(([low, high]) => low + 0.1 * high <= least && most <= 0.9 * high) ?? axes.at(-1);
}

/** A lane whose top lies below the one that ends at `above`; `scaled(axis, width)` is its scale, and its grid. */
function makeLane(lane, above) {
  const top = above + gap;
  const bottom = top + (lane.axes[0][1] - lane.axes[0][0]) * unit;
  const scaled = remember((axis, width) => {
    const y = linearScale(axis[0], axis[1], bottom, top);
    const tick = (v) => text("ln-name ln-end", left - 6, tenth(y(v)) + 4, formatNumber(v));
    const grid = (v) => path(v === 0 ? "ln-axis" : "ln-grid", `M${left} ${tenth(y(v))}H${width - margin}`);
    return { y, grid: [axis[2].map(grid), axis[2].map(tick)] };
  });
  return { ...lane, top, bottom, scaled };
}

/** x, x̂ and y over the eight features. A dot of y is dragged or steered up and down, which moves its β. */
export function lanesChart({ change, commit, now, put, grips, traits }, tell) {
  const lanes = [];
  for (const one of lanesOf) lanes.push(makeLane(one, lanes.at(-1)?.bottom ?? 0));
  const [, , ofY] = lanes;
  const [top, bottom] = [lanes[0].top, ofY.bottom];
  const handles = range(size, () => makeRing({ r: 7.5, arrows: "M-3 -12l3 -3l3 3M-3 12l3 3l3 -3" }, svg("circle", { class: "ln-dot", r: 4 })));
  const rings = svg("g", { "data-trait": "bias" }, ...handles.map(({ node }) => node));
  const grip = svg("text", { class: "ln-text ln-moved", "text-anchor": "middle" }); // the β that a hand or the keys are on
  const moving = new Set();
  let [seen, axis, y, focused] = [[], null, null, -1];

  /** y of feature i as it is now, drawn or not, less its β. */
  const withoutBeta = (i) => seen[1].xHat[i] * now("weight")[i];
  const toggle = (i) => put({ feature: now("feature") === i + 1 ? 0 : i + 1 });
  /** A hand on the dot of feature i. It stays on its axis, which is the same until the drag ends; less than 3 px is a tap. */
  function drag(i) {
    let [start, tapped] = [0, false];
    // A click is also what assistive technology makes of a double tap, without a pointer before it.
    handles[i].node.addEventListener("click", ({ detail }) => (tapped || detail === 0) && toggle(i));
    return {
      where() {
        tapped = true;
        return [0, (start = y(withoutBeta(i) + now("bias")[i]))];
      },
      move(_, place) {
        if (Math.abs(place - start) > 3) moving.add(i);
        if (!moving.has(i)) return;
        tapped = false;
        change("feature", i + 1); // the controls act on what the hand holds
        const beta = clamp(y.invert(place), -0.95 * axis[1], 0.95 * axis[1]) - withoutBeta(i);
        change("bias", now("bias").with(i, clamp(Math.round(beta * 100) / 100, traits.bias.low, traits.bias.high)));
      },
      end() {
        if (!moving.delete(i)) return;
        made.paint(...seen); // the axis may change now
        commit();
      },
    };
  }
  const names = range(size, (i) => `β of feature ${i + 1}`);
  const moveDots = grips("bias", handles.map(({ node }) => node), { along: "y", names, drag });
  handles.forEach(({ node }, i) => {
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault(); // the page would scroll
      toggle(i);
    });
    for (const [event, which] of [["focus", i], ["blur", -1]]) {
      node.addEventListener(event, () => {
        focused = which;
        made.paint(...seen);
      });
    }
  });

  const features = remember((width) => {
    const x = linearScale(0.5, size + 0.5, left, width - margin);
    for (const { target } of handles) set(target, { x: x(0) - x(0.5), width: x(1) - x(0) });
    return { x, marks: [range(size, (i) => text("ln-tick", x(i + 1), bottom + 16, i + 1)), text("ln-name ln-end", width, bottom + 16, "feature")] };
  });

  /** Where mean − std, mean and mean + std lie in a lane, not beyond its ends. */
  const spread = (lane, y, mean, std) => [-1, 0, 1].map((side) => tenth(clamp(y(mean + side * std), lane.top, lane.bottom)));

  /** What γ and β say of y: β as a mark beside the mean, γ as one beside the band. */
  function said(px, { gamma, beta, bars }) {
    const [low, middle, high] = spread(ofY, y, beta.mean, Math.abs(gamma.mean));
    const place = clamp(middle + 4, ofY.top + 22, bottom);
    const above = Math.max(Math.min((middle + high) / 2 + 4, place - 14), ofY.top + 8);
    return mark("g", { "data-trait": "weight bias" },
      path(`ln-said ${symbolClass("gamma")}`, `M${px - 4} ${low}h8M${px - 4} ${high}h8M${px} ${low}V${high}`),
      path(`ln-said ${symbolClass("beta")}`, `M${px - 6} ${middle}h12`),
      text("ln-letter", px + 11, above, bars ? "|γ|" : "γ"),
      text("ln-letter", px + 11, place, "β"));
  }

  function view(width, state, drawn, asked) {
    seen = [state, drawn, asked];
    const [right, { x, marks }, chosen] = [width - margin, features(width), state.feature - 1];
    const [from, to] = [chosen + 0.5, chosen + 1.5].map((v) => tenth(x(v)));
    const column = chosen >= 0 && path("ln-column", `M${from} ${top}H${to}V${bottom}H${from}Z`);
    const values = [drawn.x, drawn.xHat, drawn.y];
    const statistics = [drawn.inX, drawn.inXHat, drawn.inY];
    if (!moving.size) axis = roomFor(ofY.axes, drawn.y);
    const parts = lanes.map((lane, i) => {
      const { y: scale, grid } = lane.scaled(lane === ofY ? axis : roomFor(lane.axes, values[i]), width);
      if (lane === ofY) y = scale;
      const { mean, std } = statistics[i];
      const [low, middle, high] = spread(lane, scale, mean, std);
      const stems = values[i].map((v, j) => `M${tenth(x(j + 1))} ${tenth(scale(0))}V${tenth(scale(v))}`);
      const dot = (v, j) => mark("circle", { class: lane.kind + (j === chosen ? " ln-on" : ""), r: 4, transform: at(x(j + 1), scale(v)) });
      return {
        lines: [
          mark("g", {}, grid),
          path(`ln-band ${symbolClass("sigma")}`, `M${left} ${high}H${right}V${low}H${left}Z`),
          path("ln-stems", stems.join("")),
          path(`ln-mean ${symbolClass("mu")}`, `M${left} ${middle}H${right}`),
        ],
        dots: lane !== ofY && mark("g", i === 0 ? { "data-trait": "row" } : {}, values[i].map(dot)),
        words: [
          text("ln-lane", left, lane.top - 6, lane.name),
          text("ln-end", width, lane.top - 6, i === 0 ? `mean μ ${tell(mean)}, std σ ${tell(std)}` : `mean ${tell(mean)}, std ${tell(std)}`),
        ],
      };
    });
    moveDots((_, i) => at(x(i + 1), y(drawn.y[i])), (v, i) => `β = ${tell(v)}, y = ${tell(drawn.y[i])}${i === chosen ? ", chosen" : ""}`);
    handles.forEach(({ node }, i) => node.classList.toggle("ln-on", i === chosen));
    const held = focused < 0 ? 0 : y(drawn.y[focused]);
    const place = { x: tenth(x(focused + 1)), y: tenth(held - 33 > ofY.top ? held - 33 : held + 40) };
    set(grip, { ...place, text: focused < 0 ? "" : `β = ${tell(state.bias[focused])}` });
    return [column, ...["lines", "dots", "words"].map((what) => parts.map((lane) => lane[what])), said(right + 7, drawn), marks];
  }
  const made = chart({ height: bottom + 20, view, label: () => "x, x̂ and y over eight features", handles: [rings, grip] });
  return made;
}
