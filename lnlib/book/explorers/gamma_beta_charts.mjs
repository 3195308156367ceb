/** The two pictures of the γ and β explorer. They do no arithmetic: `layer` has done it. */
import { clamp, formatNumber, html, linearScale, set, svg } from "./common.mjs";
import { at, chart, text } from "./frame.mjs";
import { draggable } from "./handles.mjs";

const near = 11; // x and y are drawn from −11 to 11, …
const far = 24; // … y from −24 to 24 once a dot passes ±10; none can pass ±21.5
const ticks = { 3.5: [-2, 0, 2], [near]: [-10, -5, 0, 5, 10], [far]: [-20, -10, 0, 10, 20] };
const kinds = ["ln-dot", "ln-dot ln-hollow", "ln-mark ln-blue"];
const tops = [28, 166, 296];
const bottoms = [136, 252, 404];
const names = ["x (units of x)", "x̂ (no units)", "y = γ ⊙ x̂ + β"];

const tenth = (v) => Math.round(v * 10) / 10;
const each = (make) => [...Array(12).keys()].map(make);
const line = (kind, d = "") => svg("path", { class: kind, d });
const kind = (i, chosen) => (chosen ? `${kinds[i]} ln-on` : kinds[i]);
const tick = (x, y, v, kind = "ln-tick") => text(kind, { x, y, "text-anchor": "end", text: formatNumber(v) });

/** One lane: axis, band, mean, stems, dots, name and numbers. */
function makeLane(kind, i) {
  const [y, tone] = i === 2 ? [tops[i] - 30, "ln-blue"] : [tops[i] - 10, ""];
  return {
    axis: svg("g"),
    band: line(`ln-band ${tone}`),
    stems: line("ln-stems"),
    mean: line(`ln-mean ${tone}`),
    dots: each(() => svg("circle", { class: kind, r: 4.5 })),
    name: text("ln-lane", { x: 0, y, text: names[i] }),
    numbers: text(tone, { y, "text-anchor": "end" }),
  };
}

/** A dot of y in the ring of what moves; the chosen feature’s has arrows. */
function makeHandle(dot) {
  const target = svg("rect", { class: "ln-target", y: -22, height: 44 });
  const ring = svg("circle", { class: "ln-ring", r: 8 });
  const arrows = line("ln-arrows", "M-3 -13l3 -3l3 3M-3 13l3 3l3 -3");
  return { target, arrows, node: svg("g", { class: "ln-handle" }, target, arrows, ring, dot) };
}

/** x, x̂ and y over the twelve features. A dot of y is dragged up or down, which moves its β. */
export function lanesChart({ change, commit, pick, limits, tell }) {
  const left = 30;
  const lanes = kinds.map(makeLane);
  const handles = lanes[2].dots.map(makeHandle);
  const column = line("ln-column");
  const beam = line("ln-beam");
  const words = text("ln-moved", { y: tops[2] - 13, "text-anchor": "end" });
  const features = svg("g");
  const reaches = [near, 3.5, 0];
  const y = reaches.map((reach, i) => linearScale(-reach, reach, bottoms[i], tops[i]));
  let [x, right, now, shown, moved] = [null, 0, null, null, false];

  const parts = [
    column,
    ...lanes.flatMap((lane) => [lane.axis, lane.band, lane.stems, lane.mean]),
    ...lanes.flatMap((lane, i) => [...(i < 2 ? lane.dots : []), lane.name, lane.numbers]),
    ...[beam, words, features],
    ...handles.map((handle) => handle.node),
  ];
  const title = ["Twelve features", html("small", { text: "line: mean; band: mean ± standard deviation (std)" })];
  const { node, canvas, fit } = chart(446, title, parts, (width) => {
    right = width - 16;
    x = linearScale(0.5, 12.5, left, right);
    reaches[2] = 0; // y’s axis, too, is drawn anew
    for (const { target } of handles) set(target, { x: x(0) - x(0.5), width: x(1) - x(0) });
    for (const label of [words, ...lanes.map((lane) => lane.numbers)]) set(label, { x: width });
    features.replaceChildren(
      ...each((i) => tick(x(i + 1), 425, i + 1)),
      text("ln-name", { x: right, y: 443, "text-anchor": "end", text: "feature" }),
      text("ln-moved", { x: 0, y: 443, text: "↕ drag a dot of y" }),
    );
    drawAxis(0);
    drawAxis(1);
  });
  set(canvas, { "aria-label": "x, x̂ and y over twelve features" });

  function drawAxis(i) {
    const places = ticks[reaches[i]].map((v) => [v, tenth(y[i](v))]);
    lanes[i].axis.replaceChildren(
      ...places.map(([v, py]) => line(v === 0 ? "ln-axis" : "ln-grid", `M${left} ${py}H${right}`)),
      ...places.map(([v, py]) => tick(left - 6, py + 4, v, "ln-name")),
    );
  }

  /** Let the dot of feature i be at `value`: its β moves, or every β by as much. */
  function drag(i, value) {
    if (now.feature && now.feature !== i + 1) pick(i + 1);
    const { bias, feature } = now;
    const chosen = feature ? [i] : [...bias.keys()];
    const edge = reaches[2] - 1; // within it the axis stays as it is
    const low = chosen.map((j) => Math.max(limits.bias[0] - bias[j], -edge - shown.y[j]));
    const high = chosen.map((j) => Math.min(limits.bias[1] - bias[j], edge - shown.y[j]));
    const by = clamp(value - shown.y[i], Math.max(...low), Math.min(...high));
    change("bias", bias.map((b, j) => (chosen.includes(j) ? Math.round((b + by) * 100) / 100 : b)));
  }

  handles.forEach(({ node: handle }, i) => {
    let start = 0;
    draggable(handle, {
      where: () => [0, (start = y[2](shown.y[i]))],
      move(_, place) {
        moved ||= Math.abs(place - start) > 3; // less is a tap
        if (moved) drag(i, y[2].invert(place));
      },
      end() {
        if (!moved) return pick(now.feature === i + 1 ? 0 : i + 1);
        moved = false;
        change("bias", [...now.bias]); // the axis may change now
        commit();
      },
    });
  });

  /** Where mean − std, mean and mean + std lie, cut at the ends of lane i. */
  const spread = (i, mean, std) => [-1, 0, 1].map((side) => tenth(y[i](clamp(mean + side * std, -reaches[i], reaches[i]))));

  function paintLane(i, values, { mean, std }) {
    const { band, stems, mean: rule, dots, numbers } = lanes[i];
    const [low, middle, high] = spread(i, mean, std);
    set(band, { d: `M${left} ${high}H${right}V${low}H${left}Z` });
    set(rule, { d: `M${left} ${middle}H${right}` });
    set(stems, { d: values.map((v, j) => `M${tenth(x(j + 1))} ${y[i](0)}V${tenth(y[i](v))}`).join("") });
    set(numbers, { text: `mean ${tell(mean)}, std ${tell(std)}` });
    values.forEach((v, j) => {
      set(i === 2 ? handles[j].node : dots[j], { transform: at(x(j + 1), y[i](v)) });
      if (i < 2) set(dots[j], { class: kind(i, now.feature === j + 1) });
    });
  }

  /** What γ and β say of y: a beam of β ± γ beside the band, and their numbers. */
  function paintSaid({ gamma, beta, said }) {
    const places = spread(2, beta.mean, Math.abs(gamma.mean));
    set(beam, { d: `${places.map((py) => `M${right + 3} ${py}h10`).join("")}M${right + 8} ${places[0]}V${places[2]}` });
    set(words, { text: `${said.mean}, ${said.std}` });
  }

  return {
    node,
    fit,
    paint(state, layer) {
      [now, shown] = [state, layer];
      const { feature } = state;
      const reach = moved ? reaches[2] : Math.max(...layer.y.map(Math.abs)) > near - 1 ? far : near;
      if (reach !== reaches[2]) {
        reaches[2] = reach;
        y[2] = linearScale(-reach, reach, bottoms[2], tops[2]);
        drawAxis(2);
      }
      paintLane(0, layer.x, layer.inX);
      paintLane(1, layer.xHat, layer.inXHat);
      paintLane(2, layer.y, layer.inY);
      paintSaid(layer);
      handles.forEach(({ arrows }, j) => set(arrows, { visibility: feature === j + 1 ? null : "hidden" }));
      const [from, to] = [feature - 0.5, feature + 0.5].map((v) => tenth(x(v)));
      set(column, { d: feature ? `M${from} 20H${to}V408H${from}Z` : "" });
      return reach;
    },
  };
}

/** The values of x̂ above, those of y hanging below, and a line from each to its own. */
export function histogramChart({ bins, tell }) {
  const [room, left] = [66, 20];
  const base = [84, 150];
  const axis = svg("g");
  const fan = line("ln-stems");
  const own = line("ln-rule");
  const dots = [3.2, 4.2].map((r) => each(() => svg("circle", { r })));
  const labels = [text("ln-lane", { y: 80, text: "x̂" }), text("ln-lane ln-blue", { y: 163, text: "y" })];
  const shape = html("small");
  let [x, right, drawn] = [null, 0, 0];
  const { node, canvas, fit } = chart(268, ["The same values on one axis", shape], [axis, fan, own, ...dots.flat(), ...labels], (width) => {
    [right, drawn] = [width - 10, 0];
  });
  set(canvas, { "aria-label": "The values of x̂ and of y on one axis" });

  function drawAxis(reach) {
    x = linearScale(-reach, reach, left, right);
    const end = base[1] + room;
    axis.replaceChildren(
      ...ticks[reach].map((v) => line("ln-grid", `M${tenth(x(v))} ${base[0] - room}V${end}`)),
      ...base.map((py) => line("ln-axis", `M${left} ${py}H${right}`)),
      ...ticks[reach].map((v) => tick(x(v), end + 16, v)),
      text("ln-name", { x: right, y: end + 34, "text-anchor": "end", text: "dots: bins of 0.5; lines: exact (no units)" }),
    );
  }

  return {
    node,
    fit,
    paint({ feature }, { xHat, y, gamma, beta }, reach) {
      if (drawn !== reach) drawAxis(reach);
      drawn = reach;
      [xHat, y].forEach((values, k) => {
        const placed = bins(values, 0.5);
        const tallest = 1 + Math.max(...placed.map(({ level }) => level));
        const pitch = Math.min(8.4, room / tallest) * (k === 0 ? -1 : 1);
        placed.forEach(({ center, level }, i) => {
          const transform = at(x(center), base[k] + (level + 0.5) * pitch);
          set(dots[k][i], { transform, class: kind(k + 1, feature === i + 1) });
        });
      });
      const link = (i) => `M${tenth(x(xHat[i]))} ${base[0]}L${tenth(x(y[i]))} ${base[1]}`;
      set(fan, { d: xHat.map((_, i) => link(i)).join("") });
      set(own, { d: feature ? link(feature - 1) : "" });
      set(shape, { text: gamma.same && beta.same ? `every gap × ${tell(gamma.mean)}` : "another shape" });
    },
  };
}
