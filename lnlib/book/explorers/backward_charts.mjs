/**
 * The picture of the backward pass: the graph, whose rows are cards of four bars with their gradients below,
 * and the work of one step. Beside each other, or on a phone one below the other. It does no arithmetic of the norm.
 */
import { clamp, formatNumber, html, linearScale, ownKeys, roundTo, set, svg, symbolClass, tenth, withPower } from "./common_old.mjs";
import { at, chart, text } from "./frame.mjs";
import { draggable, makeRing, steerable } from "./handles_old.mjs";

const each = (make, count = 4) => Array.from({ length: count }, (_, i) => make(i));
const letters = { gamma: "γ", beta: "β", sigma: "σ", mu: "μ" };
/** A node as the chapter writes it, and an arrow: v → μ. */
export const letter = (node) => letters[node] ?? node;
export const inWords = (arrow) => arrow.split("-").map(letter).join(" → ");
/** The heights of the bars of a row and of those of its gradient, with their numbers; rings need more room. */
const lanesOf = { x: [54, 38], mu: [38, 38], y: [38, 54] };
const boxHeight = { m: 38, v: 38, sigma: 38, gamma: 44, beta: 44 };
const heightOf = (node) => boxHeight[node] ?? lanesOf[node][0] + lanesOf[node][1];
/** The tops of what stands in the graph. */
const tops = { x: 1, m: 86, mu: 125, v: 144, sigma: 258, y: 233, gamma: 226, beta: 278 };
const graphHeight = 328;

/** A number in at most `most` letters, with three digits or fewer; at least the shortest that it has. */
export function short(v, most = 5) {
  const words = [3, 2, 1].flatMap((digits) => [formatNumber(v, digits), withPower(roundTo(v, digits))]);
  return words.find((word) => word.length <= most) ?? words.at(-1);
}

/** The numbers of a row, with three digits or with two where all of them have room for it. */
export function shortRow(values, most) {
  const rows = [3, 2].map((digits) => values.map((v) => formatNumber(v, digits)));
  return rows.find((row) => row.every((word) => word.length <= most)) ?? values.map((v) => short(v, most));
}

/** The ends of a scale with 0 and all values, and room to draw the longest bar longer. */
export function scaleOf(values, room = 1) {
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  return high > low ? { low: low * room, high: high * room } : { low: 0, high: 1 };
}

const kinds = ["value", "g", "mean", "hat", "both", "sum"];
const allOf = (bars) => bars.flatMap(([, values]) => values);
const nothing = { bars: [], sum: [] };

/** Bars of several colors in a lane: `paint` draws `bars`, [color, values] each, side by side. */
function makeBars() {
  const zero = svg("path", { class: "ln-axis" });
  const paths = Object.fromEntries(kinds.map((kind) => [kind, svg("path", { class: `ln-road ln-road-${kind}` })]));
  const lane = { nodes: [zero, ...Object.values(paths)], y: null };
  lane.place = (box) => Object.assign(lane, box);
  lane.paint = (bars, { low, high } = scaleOf(allOf(bars))) => {
    const { left, right, top, bottom } = lane;
    const y = (lane.y = linearScale(low, high, bottom, top));
    const pitch = (right - left) / 4;
    const width = pitch * (bars.length === 1 ? 0.4 : 0.195);
    const drawn = Object.fromEntries(kinds.map((kind) => [kind, ""]));
    bars.forEach(([kind, values], k) => {
      values.forEach((value, i) => {
        const start = (values.length === 1 ? (left + right) / 2 : left + (i + 0.5) * pitch) + (k - bars.length / 2) * width;
        drawn[kind] += `M${tenth(start)} ${tenth(y(0))}h${tenth(width)}V${tenth(clamp(y(value), top, bottom))}h${-tenth(width)}Z`;
      });
    });
    for (const kind of kinds) set(paths[kind], { d: drawn[kind] });
    set(zero, { d: bars.length ? `M${left} ${tenth(y(0))}H${right}` : "" });
  };
  return lane;
}

/** A card of a row: its bars above, those of its gradient below, and the numbers of both. */
function makeCard(node, name, gradient) {
  const heights = lanesOf[node];
  const frame = svg("rect", { class: "ln-card", rx: 8, height: heightOf(node) });
  const lanes = [makeBars(), makeBars()];
  const numbers = lanes.map(() => each(() => text("ln-cell")));
  let most = 5;
  const names = [text("ln-letter", { text: name }), text("ln-letter", { text: gradient })];
  return {
    lanes,
    nodes: [frame, ...lanes.flatMap(({ nodes }) => nodes), ...numbers.flat(), ...names],
    place(left, right, top) {
      most = right - left < 144 ? 4 : 5;
      set(frame, { x: left, y: top, width: right - left });
      lanes.forEach((lane, k) => {
        const [from, to, pitch] = [top + k * heights[0], top + heights[0] + k * heights[1], (right - left - 4) / 4];
        const ring = heights[k] > 40 ? 4 : 0;
        lane.place({ left: left + 2, right: right - 2, top: from + 5 + ring, bottom: to - 15 - ring });
        numbers[k].forEach((number, i) => set(number, { x: tenth(left + 2 + (i + 0.5) * pitch), y: to - 3 }));
        set(names[k], { x: right + 5, y: k ? to - 5 : top + 13 });
      });
    },
    paint(values, { bars, sum } = nothing, scales = []) {
      lanes[0].paint([["value", values]], scales[0]);
      lanes[1].paint(bars, scales[1]);
      [values, sum].forEach((row, k) => {
        const words = shortRow(row, most);
        numbers[k].forEach((number, i) => set(number, { text: words[i] ?? "" }));
      });
      set(names[1], { class: `ln-text ln-letter ${bars.length ? "" : "ln-faint"}` });
    },
  };
}

/** The box of one number, or of γ and β, whose four bars are small. */
function makeBox(node, isRow) {
  const frame = svg("rect", { class: "ln-card", rx: 8, height: heightOf(node) });
  const name = text(`ln-cell ln-node ${node in letters ? symbolClass(node) : ""}`);
  const [value, gradient] = [text("ln-cell"), text("ln-cell")];
  const lanes = isRow ? [makeBars(), makeBars()] : [];
  let most = 5;
  return {
    nodes: [frame, ...lanes.flatMap(({ nodes }) => nodes), name, value, gradient],
    place(middle, width, top) {
      set(frame, { x: tenth(middle - width / 2), y: top, width });
      const left = middle - width / 2;
      most = width < 54 ? 4 : 5;
      set(name, { x: tenth(left + 7.5), y: top + heightOf(node) / 2 + 5, text: letter(node) });
      set(value, { x: tenth(middle + 8), y: top + 15 });
      set(gradient, { x: tenth(middle + 8), y: top + 32 });
      lanes.forEach((lane, k) => lane.place({ left: left + 17, right: left + width - 4, top: top + 4 + 19 * k, bottom: top + 21 + 19 * k }));
    },
    paint(values, { bars, sum } = nothing) {
      lanes[0]?.paint([["value", values]]);
      lanes[1]?.paint(bars);
      if (isRow) return;
      set(value, { text: short(values[0], most) });
      set(gradient, { text: sum.length ? short(sum[0], most) : "" });
    },
  };
}

/** The arrow between two nodes: it points forward until the gradient has passed, then back. */
function makeArrow(name, tools) {
  const line = svg("path", { class: "ln-way" });
  const head = svg("path", { class: "ln-head-of" });
  const words = inWords(name);
  const button = html("button", { type: "button", class: "ln-cut", "aria-label": `Forget ${words}`, title: `Forget ${words}`, ...ownKeys }, html("span", { text: "×" }));
  button.addEventListener("click", () => tools.put({ forget: tools.now("forget") === name ? "" : name }));
  let ends = [[0, 0], [0, 0]];
  return {
    nodes: [line, head],
    button,
    /** From the step, at `user`, to what it uses. */
    place(user, used) {
      ends = [user, used];
      set(line, { d: `M${user.map(tenth).join(" ")}L${used.map(tenth).join(" ")}` });
      // Beside the arrow, on its right as the gradient goes.
      const [across, along] = [0, 1].map((k) => used[k] - user[k]);
      const far = 13 / Math.hypot(across, along);
      const [x, y] = [(user[0] + used[0]) / 2 - along * far, (user[1] + used[1]) / 2 + across * far];
      button.style.transform = `translate(${tenth(x - 22)}px, ${tenth(y - 22)}px)`;
    },
    paint({ passed, now, forgotten, kind }) {
      const [tip, tail] = passed ? [ends[1], ends[0]] : ends;
      const turn = (Math.atan2(tip[1] - tail[1], tip[0] - tail[0]) * 180) / Math.PI;
      const look = [passed && `ln-passed ln-road-${kind}`, now && "ln-now", forgotten && "ln-forgotten"].filter(Boolean).join(" ");
      set(line, { class: `ln-way ${look}` });
      const [long, wide] = now ? [11, 7] : [7, 4];
      set(head, { class: `ln-head-of ${look}`, d: `M0 0L${-long} ${-wide}V${wide}Z`, transform: `${at(...tip)} rotate(${tenth(turn)})` });
      set(button, { "aria-pressed": forgotten });
    },
  };
}

/** The work of one step: bars, and below them the numbers with their letters. */
function makeWork() {
  const title = text("ln-work-title");
  const lane = makeBars();
  const truth = svg("path", { class: "ln-true" });
  const names = each(() => text("ln-cell-name"), 5);
  const keys = each(() => svg("rect", { width: 9, height: 9 }), 5);
  const cells = each(() => each(() => text("ln-cell")), 5);
  const rule = svg("path", { class: "ln-grid" });
  let most = 6;
  return {
    nodes: [svg("g", { class: "ln-work" }, ...lane.nodes, truth, rule, title, ...names, ...keys, ...cells.flat())],
    place({ left, right, top, bars, pitch }) {
      const first = left + 122;
      most = right - first < 160 ? 4 : right - first < 184 ? 5 : 6;
      set(title, { x: left, y: top + 14 });
      lane.place({ left: first, right, top: top + 24, bottom: top + 24 + bars });
      const y = (k) => top + 24 + bars + pitch * (k + 1);
      names.forEach((name, k) => set(name, { x: left + 14, y: y(k) }));
      keys.forEach((key, k) => set(key, { x: left, y: y(k) - 9 }));
      cells.forEach((row, k) => row.forEach((cell, i) => set(cell, { x: tenth(first + ((i + 0.5) * (right - first)) / 4), y: y(k) })));
      lane.above = (k) => `M${left} ${y(k) - 13}H${right}`;
    },
    paint(work) {
      set(title, { text: work.title });
      const other = work.true ?? [];
      const bars = work.rows.filter(([, , kind]) => kind).map(([, values, kind]) => [kind, values]);
      lane.paint(bars, scaleOf([...other, ...allOf(bars)]));
      set(rule, { d: work.rows.length > 3 ? lane.above(work.rows.length - 1) : "" });
      const { left, right } = lane;
      const pitch = (right - left) / 4;
      const width = tenth(pitch * 0.195);
      // The last bar of each feature as it would be if nothing were forgotten.
      const mark = (v, i) => `M${tenth(left + (i + 0.5) * pitch) + width} ${tenth(lane.y(0))}h${width}V${tenth(lane.y(v))}h${-width}Z`;
      set(truth, { d: other.map(mark).join("") });
      names.forEach((name, k) => set(name, { text: work.rows[k]?.[0] ?? "" }));
      keys.forEach((key, k) => set(key, { class: work.rows[k]?.[2] ? `ln-road ln-road-${work.rows[k][2]}` : "ln-none" }));
      cells.forEach((row, k) => {
        const words = shortRow(work.rows[k]?.[1] ?? [], most);
        row.forEach((cell, i) => set(cell, { text: words[i] ?? "" }));
      });
    },
  };
}

/** The graph with its handles and buttons, and the work of the step beside or below it. */
export function backwardChart(tools) {
  const { change, commit, put, now, limits, roads } = tools;
  const cards = { x: makeCard("x", "x", "dx"), mu: makeCard("mu", "μ", "∂l/∂μ"), y: makeCard("y", "y", "dy") };
  const boxes = Object.fromEntries(["m", "v", "sigma", "gamma", "beta"].map((node) => [node, makeBox(node, node === "gamma" || node === "beta")]));
  const names = Object.keys(roads);
  const ways = names.map((name) => makeArrow(name, tools));
  const work = makeWork();
  // The rows that can be moved, and the lane that each stands in.
  const rows = [["x", cards.x.lanes[0]], ["dy", cards.y.lanes[1]]].map(([trait, lane]) => ({ trait, lane, handles: each(() => makeRing({ r: 6 })) }));
  const grips = rows.map(({ trait, handles }) => svg("g", { "data-trait": trait }, ...handles.map(({ node }) => node)));
  const parts = [...ways, ...Object.values(cards), ...Object.values(boxes), work].flatMap(({ nodes }) => nodes);
  let held = null;

  const { node, canvas, fit } = chart(graphHeight, [], [...parts, ...grips], (width) => {
    const wide = width >= 600;
    const graph = wide ? 344 : width;
    const height = wide ? graphHeight : graphHeight + 147;
    set(canvas, { height, viewBox: `0 0 ${width} ${height}` });
    const box = clamp(graph * 0.17, 46, 60);
    const side = box + clamp(graph * 0.09, 22, 36);
    const [left, right, middle] = [side, graph - side, graph / 2];
    const [first, second] = [box / 2 + 1, graph - box / 2 - 1];
    for (const name of ["x", "mu", "y"]) cards[name].place(left, right, tops[name]);
    for (const name of ["m", "gamma", "beta"]) boxes[name].place(first, box, tops[name]);
    for (const name of ["v", "sigma"]) boxes[name].place(second, box, tops[name]);
    const below = (name) => tops[name] + heightOf(name);
    const level = (name) => tops[name] + heightOf(name) / 2;
    // From the step to what it uses, in the order of the arrows.
    const places = [
      [[left, level("gamma")], [box + 2, level("gamma")]],
      [[left, level("beta")], [box + 2, level("beta")]],
      [[right, level("sigma")], [graph - box - 2, level("sigma")]],
      [[second, tops.sigma], [second, below("v")]],
      [[graph - box - 2, level("v")], [right, level("v")]],
      [[middle, tops.y], [middle, below("mu")]],
      [[left, level("mu") - 8], [first + 8, below("m")]],
      [[first + 8, tops.m], [left, level("x") + 8]],
      [[middle, tops.mu], [middle, below("x")]],
    ];
    ways.forEach((way, k) => way.place(...places[k]));
    if (wide) work.place({ left: graph + 10, right: width - 2, top: 4, bars: 168, pitch: 25 });
    else work.place({ left: 2, right: width - 2, top: graphHeight, bars: 36, pitch: 17 });
    const pitch = (right - left - 4) / 4;
    for (const { handles } of rows) for (const { target } of handles) set(target, { x: tenth(-pitch / 2), width: tenth(pitch) });
  }, "group");
  set(canvas, { "aria-label": "The graph of layer norm with its gradients, and the work of one step" });
  node.append(...ways.map(({ button }) => button));

  for (const { trait, lane, handles } of rows) {
    const move = (i, value) => change(trait, now(trait).with(i, clamp(roundTo(value, 12), ...limits[trait])));
    handles.forEach(({ node: handle }, i) => {
      draggable(handle, {
        where() {
          held = { trait, y: lane.y, scale: scaleFor(trait, now(trait)) };
          return [0, held.y(now(trait)[i])];
        },
        move(_, place) {
          const grain = 10 ** Math.floor(Math.log10(Math.abs(held.y.invert(0) - held.y.invert(1)) || 1));
          move(i, Math.round(held.y.invert(place) / grain) * grain);
        },
        end() {
          held = null;
          put({}); // and draws it on a scale of its own again
        },
      });
      steerable(handle, { name: `Feature ${i + 1} of ${trait}`, step: (along, up) => move(i, now(trait)[i] + (along + up) * 0.1), end: commit });
      set(handle, { "aria-orientation": "vertical", "aria-valuemin": limits[trait][0], "aria-valuemax": limits[trait][1] });
    });
  }

  /** The scale of a row that can be moved: it stays while a hand moves a bar. */
  function scaleFor(trait, values) {
    return held?.trait === trait ? held.scale : scaleOf(values, 1.25);
  }

  function paint(state, shown, done, known) {
    const { step, forget, x, dy, weight } = state;
    cards.x.paint(x, known.x, [scaleFor("x", x)]);
    cards.mu.paint(shown.mu, known.mu);
    cards.y.paint(shown.y, known.y, [undefined, scaleFor("dy", dy)]);
    for (const [name, values] of [["m", [shown.m]], ["v", [shown.v]], ["sigma", [shown.sigma]], ["gamma", weight], ["beta", [0, 0, 0, 0]]]) boxes[name].paint(values, known[name]);
    ways.forEach((way, k) => way.paint({ passed: k < step, now: k === step - 1, forgotten: forget === names[k], kind: roads[names[k]] }));
    work.paint(done);
    for (const { trait, lane, handles } of rows) {
      const [left, pitch] = [lane.left, (lane.right - lane.left) / 4];
      handles.forEach(({ node: handle }, i) => {
        const value = state[trait][i];
        const top = clamp(lane.y(value), lane.top, lane.bottom);
        set(handle, { transform: at(left + (i + 0.5) * pitch, top), "aria-valuenow": value, "aria-valuetext": formatNumber(value) });
      });
    }
  }

  return { node, canvas, fit, paint };
}
