/** The picture of the γ and β explorer. It does no arithmetic of the norm: `layer` has done it. */
import { clamp, formatNumber, linearScale, set, svg, symbolClass, tenth } from "./common_old.mjs";
import { at, chart, text } from "./frame.mjs";
import { draggable, steerable } from "./handles_old.mjs";

const unit = 8; // px, the same in each lane until the values need more room
const [left, margin, gap, size] = [28, 40, 20, 8];

const each = (make) => Array.from({ length: size }, (_, i) => make(i));
const line = (kind, d = "") => svg("path", { class: kind, d });
const tick = (kind, x, y, words) => text(kind, { x, y, "text-anchor": "end", text: words });

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

/** One lane: axis, band, mean, stems, dots, name and numbers. `end` is the bottom of the one above. */
function makeLane({ name, axes, kind }, end) {
  const top = end + gap;
  const bottom = top + (axes[0][1] - axes[0][0]) * unit;
  return {
    ...{ top, bottom, axes, axis: null, y: null },
    grid: svg("g"),
    band: line(`ln-band ${symbolClass("sigma")}`),
    stems: line("ln-stems"),
    mean: line(`ln-mean ${symbolClass("mu")}`),
    dots: each(() => svg("circle", { class: kind, r: 4 })),
    name: text("ln-lane", { x: left, y: top - 6, text: name }),
    numbers: text("", { y: top - 6, "text-anchor": "end" }),
  };
}

/** A dot of y in the ring of what moves; the chosen feature’s has arrows. */
function makeHandle(dot) {
  const target = svg("rect", { class: "ln-target", y: -22, height: 44 });
  const ring = svg("circle", { class: "ln-ring", r: 7.5 });
  const arrows = line("ln-arrows", "M-3 -12l3 -3l3 3M-3 12l3 3l3 -3");
  return { target, arrows, node: svg("g", { class: "ln-handle" }, target, arrows, ring, dot) };
}

/** x, x̂ and y over the eight features. A dot of y is dragged or steered up and down, which moves its β. */
export function lanesChart({ change, commit, now, layer, pick, limits, step, tell }) {
  const lanes = [];
  for (const one of lanesOf) lanes.push(makeLane(one, lanes.at(-1)?.bottom ?? 0));
  const [, , ofY] = lanes;
  const handles = ofY.dots.map(makeHandle);
  const column = line("ln-column");
  const gammaMark = line(`ln-said ${symbolClass("gamma")}`);
  const betaMark = line(`ln-said ${symbolClass("beta")}`);
  const letters = [text("ln-letter"), text("ln-letter", { text: "β" })];
  const marks = svg("g", { "data-trait": "weight bias" }, gammaMark, betaMark, ...letters);
  const grip = text("ln-moved", { "text-anchor": "middle" });
  const features = svg("g");
  const rings = svg("g", { "data-trait": "bias" }, ...handles.map(({ node }) => node));
  const moving = new Set();
  let [x, right, shown, focused] = [null, 0, null, -1];

  const parts = [
    column,
    ...lanes.flatMap((lane) => [lane.grid, lane.band, lane.stems, lane.mean]),
    svg("g", { "data-trait": "row" }, ...lanes[0].dots),
    ...lanes[1].dots,
    ...lanes.flatMap((lane) => [lane.name, lane.numbers]),
    ...[marks, features, rings, grip],
  ];
  const height = ofY.bottom + 20;
  const { node, canvas, fit } = chart(height, [], parts, (width) => {
    right = width - margin;
    x = linearScale(0.5, size + 0.5, left, right);
    for (const { target } of handles) set(target, { x: x(0) - x(0.5), width: x(1) - x(0) });
    for (const { numbers } of lanes) set(numbers, { x: width });
    features.replaceChildren(
      ...each((i) => text("ln-tick", { x: x(i + 1), y: height - 4, text: i + 1 })),
      tick("ln-name", width, height - 4, "feature"),
    );
    for (const lane of lanes) lane.axis = null; // to be drawn anew
  }, "group");
  set(canvas, { "aria-label": "x, x̂ and y over eight features" });

  function drawAxis(lane, axis) {
    const [low, high, ticks] = axis;
    lane.axis = axis;
    lane.y = linearScale(low, high, lane.bottom, lane.top);
    const places = ticks.map((v) => [v, tenth(lane.y(v))]);
    lane.grid.replaceChildren(
      ...places.map(([v, py]) => line(v === 0 ? "ln-axis" : "ln-grid", `M${left} ${py}H${right}`)),
      ...places.map(([v, py]) => tick("ln-name", left - 6, py + 4, formatNumber(v))),
    );
  }

  /** The layer as it is now, drawn or not. */
  const layerNow = () => layer(Object.fromEntries(["row", "weight", "bias", "eps"].map((name) => [name, now(name)])));
  const putBeta = (i, beta) => change("bias", now("bias").with(i, clamp(beta, ...limits.bias)));

  /** Let the dot of feature i be at `value`, but on its axis, which stays until the drag ends: its β moves. */
  function drag(i, value) {
    const without = layerNow().y[i] - now("bias")[i];
    const end = 0.95 * ofY.axis[1];
    const y = clamp(value, -end, end);
    putBeta(i, Math.round((y - without) * 100) / 100);
  }

  handles.forEach(({ node: handle }, i) => {
    let [start, tapped] = [0, false];
    const toggle = () => pick(now("feature") === i + 1 ? 0 : i + 1);
    draggable(handle, {
      where() {
        tapped = true;
        return [0, (start = ofY.y(layerNow().y[i]))];
      },
      move(_, place) {
        if (Math.abs(place - start) > 3) moving.add(i); // less is a tap
        if (!moving.has(i)) return;
        tapped = false;
        if (now("feature") !== i + 1) pick(i + 1); // the controls act on what the hand holds
        drag(i, ofY.y.invert(place));
      },
      end() {
        if (!moving.delete(i)) return;
        paint(...shown); // the axis may change now
        commit();
      },
    });
    // A click is also what assistive technology makes of a double tap, without a pointer before it.
    handle.addEventListener("click", ({ detail }) => (tapped || detail === 0) && toggle());
    handle.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault(); // the page would scroll
      toggle();
    });
    steerable(handle, { name: `β of feature ${i + 1}`, step: (across, up) => putBeta(i, step(now("bias")[i], across + up)), end: commit });
    set(handle, { "aria-orientation": "vertical", "aria-valuemin": limits.bias[0], "aria-valuemax": limits.bias[1] });
    for (const [event, which] of [["focus", i], ["blur", -1]]) {
      handle.addEventListener(event, () => {
        focused = which;
        paint(...shown);
      });
    }
  });

  /** Where a value lies in a lane, not beyond its ends. */
  const within = ({ y, top, bottom }, v) => tenth(clamp(y(v), top, bottom));
  const spread = (lane, mean, std) => [-1, 0, 1].map((side) => within(lane, mean + side * std));

  function paintLane(lane, values, { mean, std }, names) {
    const axis = (moving.size && lane === ofY && lane.axis) || roomFor(lane.axes, values);
    if (axis !== lane.axis) drawAxis(lane, axis);
    const [low, middle, high] = spread(lane, mean, std);
    set(lane.band, { d: `M${left} ${high}H${right}V${low}H${left}Z` });
    set(lane.mean, { d: `M${left} ${middle}H${right}` });
    set(lane.stems, { d: values.map((v, j) => `M${tenth(x(j + 1))} ${tenth(lane.y(0))}V${tenth(lane.y(v))}`).join("") });
    set(lane.numbers, { text: `${names[0]} ${tell(mean)}, ${names[1]} ${tell(std)}` });
    values.forEach((v, j) => set(lane === ofY ? handles[j].node : lane.dots[j], { transform: at(x(j + 1), lane.y(v)) }));
  }

  /** What γ and β say of y: β as a mark beside the mean, γ as one beside the band. */
  function paintSaid({ gamma, beta, bars }) {
    const [low, middle, high] = spread(ofY, beta.mean, Math.abs(gamma.mean));
    const px = right + 7;
    set(gammaMark, { d: `M${px - 4} ${low}h8M${px - 4} ${high}h8M${px} ${low}V${high}` });
    set(betaMark, { d: `M${px - 6} ${middle}h12` });
    const place = clamp(middle + 4, ofY.top + 22, ofY.bottom);
    set(letters[1], { x: px + 11, y: place });
    set(letters[0], { x: px + 11, y: Math.max(Math.min((middle + high) / 2 + 4, place - 14), ofY.top + 8), text: bars ? "|γ|" : "γ" });
  }

  function paint(state, drawn) {
    shown = [state, drawn];
    const { feature, bias } = state;
    paintLane(lanes[0], drawn.x, drawn.inX, ["mean μ", "std σ"]);
    paintLane(lanes[1], drawn.xHat, drawn.inXHat, ["mean", "std"]);
    paintLane(ofY, drawn.y, drawn.inY, ["mean", "std"]);
    paintSaid(drawn);
    handles.forEach(({ node: handle, arrows }, j) => {
      set(arrows, { visibility: feature === j + 1 ? null : "hidden" });
      const words = `β = ${tell(bias[j])}, y = ${tell(drawn.y[j])}`;
      set(handle, { "aria-valuenow": bias[j], "aria-valuetext": words + (feature === j + 1 ? ", chosen" : "") });
    });
    lanes.forEach(({ dots }) => dots.forEach((dot, j) => dot.classList.toggle("ln-on", feature === j + 1)));
    const [from, to] = [feature - 0.5, feature + 0.5].map((v) => tenth(x(v)));
    set(column, { d: feature ? `M${from} ${lanes[0].top}H${to}V${ofY.bottom}H${from}Z` : "" });
    // The number of the β that a hand or the keys are on.
    const py = focused < 0 ? 0 : ofY.y(drawn.y[focused]);
    const y = tenth(py - 33 > ofY.top ? py - 33 : py + 40);
    set(grip, focused < 0 ? { text: "" } : { x: tenth(x(focused + 1)), y, text: `β = ${tell(bias[focused])}` });
  }

  return { node, fit, paint };
}
