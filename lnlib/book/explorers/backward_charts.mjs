/**
 * The picture of the backward pass: the graph, whose rows are cards of four bars with their gradients below,
 * and the work of one step. Beside each other, or on a phone one below the other.
 */
import { at, bar, chart, mark, path, text } from "./chart.mjs";
import { clamp, formatNumber, html, linearScale, range, remember, roundTo, set, svg, tenth, withPower } from "./common.mjs";
import { button } from "./controls.mjs";
import { makeRing } from "./handles.mjs";

const letters = { weight: "γ", bias: "β", mean: "μ", centered: "x̃", var: "σ²" };
/** A node as the chapter writes it, and an arrow: σ² → x̃. */
export const letter = (node) => letters[node] ?? node;
export const inWords = (arrow) => arrow.split("-").map(letter).join(" → ");
/** The heights of the bars of a row and of those of its gradient, with their numbers; rings need more room. */
const lanesOf = { x: [54, 38], centered: [38, 38], y: [38, 54] };
const boxHeight = { mean: 52, var: 52, s: 52, weight: 44, bias: 44 };
const heightOf = (node) => boxHeight[node] ?? lanesOf[node][0] + lanesOf[node][1];
/** The tops of what stands in the graph. */
const tops = { x: 1, mean: 79, centered: 125, var: 137, s: 251, y: 233, weight: 226, bias: 278 };
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

const allOf = (bars) => bars.flatMap(([, values]) => values);
const yOf = ({ top, bottom }, { low, high }) => linearScale(low, high, bottom, top);

/** Bars of several colors in a lane, [color, values] each, side by side. */
function barsIn(lane, bars, scale = scaleOf(allOf(bars))) {
  const { left, right, top, bottom } = lane;
  const y = yOf(lane, scale);
  const pitch = (right - left) / 4;
  const width = pitch * (bars.length === 1 ? 0.4 : 0.195);
  const center = (values, i) => (values.length === 1 ? (left + right) / 2 : left + (i + 0.5) * pitch);
  const each = (k) => (v, i, values) => bar(center(values, i) + (k - bars.length / 2) * width, width, y(0), clamp(y(v), top, bottom));
  return mark("g", {},
    path("ln-axis", bars.length ? `M${left} ${tenth(y(0))}H${right}` : ""),
    bars.map(([kind, values], k) => path(`ln-road ln-road-${kind}`, values.map(each(k)).join(""))));
}

/** Four numbers in the middle of their quarters. */
const fourIn = ({ left, right }, y, words) =>
  mark("g", {}, words.map((word, i) => text("ln-cell", left + ((i + 0.5) * (right - left)) / 4, y, word)));

/** Where all stands in a drawing of this width: the lanes of each node, the ends of each arrow, the work. */
const placesOf = remember((width) => {
  const wide = width >= 600;
  const graph = wide ? 344 : width;
  const box = clamp(graph * 0.17, 46, 60);
  const left = box + clamp(graph * 0.09, 22, 36);
  const [right, middle, first, second] = [graph - left, graph / 2, box / 2 + 1, graph - box / 2 - 1];
  const lane = (top, height) => {
    const ring = height > 40 ? 4 : 0;
    return { left: left + 2, right: right - 2, top: top + 5 + ring, bottom: top + height - 15 - ring, below: top + height - 3 };
  };
  const both = ([node, [upper, lower]]) => [node, [lane(tops[node], upper), lane(tops[node] + upper, lower)]];
  const lanes = Object.fromEntries(Object.entries(lanesOf).map(both));
  const below = (name) => tops[name] + heightOf(name);
  const level = (name) => tops[name] + heightOf(name) / 2;
  // From the step to what it uses, in the order of the arrows.
  const ends = [
    [[left, level("weight")], [box + 2, level("weight")]],
    [[left, level("bias")], [box + 2, level("bias")]],
    [[right, level("s")], [graph - box - 2, level("s")]],
    [[second, tops.s], [second, below("var")]],
    [[graph - box - 2, level("var")], [right, level("var")]],
    [[middle, tops.y], [middle, below("centered")]],
    [[left, level("centered") - 8], [first + 8, below("mean")]],
    [[first + 8, tops.mean], [left, level("x") + 8]],
    [[middle, tops.centered], [middle, below("x")]],
  ];
  const work = wide
    ? { left: graph + 10, right: width - 2, top: 4, bars: 168, pitch: 25 }
    : { left: 2, right: width - 2, top: graphHeight, bars: 36, pitch: 17 };
  return { left, right, box, centers: { mean: first, weight: first, bias: first, var: second, s: second }, lanes, ends, work };
});

const frameOf = (node, x, width) =>
  mark("rect", { class: "ln-card", rx: 8, x: tenth(x), y: tops[node], width: tenth(width), height: heightOf(node) });
const nothing = { bars: [], sum: [] };

/** A card of a row: its bars above, those of its gradient below, and the numbers of both. */
function card({ left, right, lanes }, node, name, gradient, values, { bars, sum } = nothing, scales = []) {
  const [upper, lower] = lanes[node];
  const most = right - left < 144 ? 4 : 5;
  return [
    frameOf(node, left, right - left),
    barsIn(upper, [["value", values]], scales[0]),
    fourIn(upper, upper.below, shortRow(values, most)),
    text("ln-letter", right + 5, tops[node] + 13, name),
    text(`ln-letter ${bars.length ? "" : "ln-faint"}`, right + 5, lower.below - 2, gradient),
    barsIn(lower, bars, scales[1]),
    fourIn(lower, lower.below, shortRow(sum, most)),
  ];
}

/** The box of one number and its gradient, or of γ and β, whose four bars are small. */
function box({ box: width, centers }, node, values, { bars, sum } = nothing) {
  const [middle, top] = [centers[node], tops[node]];
  const left = middle - width / 2;
  const most = width < 54 ? 4 : 5;
  const lane = (k) => ({ left: left + 23, right: left + width - 4, top: top + 4 + 19 * k, bottom: top + 21 + 19 * k });
  const number = (v, y) => text("ln-number", left + width - 4, top + y, v === undefined ? "" : short(v, most));
  const lower = values.length > 1 ? 37 : 30;
  return [
    frameOf(node, left, width),
    values.length > 1 ? [barsIn(lane(0), [["value", values]]), barsIn(lane(1), bars)] : [number(values[0], 15), number(sum[0], 46)],
    text("ln-letter", left + 4, top + 15, letter(node)),
    text(`ln-letter ${sum.length ? "" : "ln-faint"}`, left + 4, top + lower, `d${letter(node)}`),
  ];
}

/** The arrow between two nodes: it points forward until the gradient has passed, then back. */
function arrow(ends, { passed, now, forgotten, road }) {
  const [tail, tip] = passed ? ends : ends.toReversed();
  const turn = (Math.atan2(tip[1] - tail[1], tip[0] - tail[0]) * 180) / Math.PI;
  const look = [passed && `ln-passed ln-road-${road}`, now && "ln-now", forgotten && "ln-forgotten"].filter(Boolean).join(" ");
  const [long, wide] = now ? [11, 7] : [7, 4];
  return [
    path(`ln-way ${look}`, `M${ends[0].map(tenth).join(" ")}L${ends[1].map(tenth).join(" ")}`),
    path(`ln-head-of ${look}`, `M0 0L${-long} ${-wide}V${wide}Z`, { transform: `${at(...tip)} rotate(${tenth(turn)})` }),
  ];
}

/** Beside an arrow, on its right as the gradient goes. */
function beside([user, used]) {
  const [across, along] = [0, 1].map((k) => used[k] - user[k]);
  const far = 13 / Math.hypot(across, along);
  return [(user[0] + used[0]) / 2 - along * far, (user[1] + used[1]) / 2 + across * far];
}

/** The work of one step: bars, and below them the numbers with their letters. */
function workOf({ left, right, top, bars: height, pitch }, { title, rows, true: truth = [] }) {
  const lane = { left: left + 122, right, top: top + 24, bottom: top + 24 + height };
  const quarter = (right - lane.left) / 4;
  const most = quarter < 40 ? 4 : quarter < 46 ? 5 : 6;
  const bars = rows.filter(([, , kind]) => kind).map(([, values, kind]) => [kind, values]);
  const scale = scaleOf([...truth, ...allOf(bars)]);
  const [y, width] = [yOf(lane, scale), quarter * 0.195];
  const line = (k) => lane.bottom + pitch * (k + 1);
  return mark("g", { class: "ln-work" }, [
    barsIn(lane, bars, scale),
    // The last bar of each feature as it would be if nothing were forgotten.
    path("ln-true", truth.map((v, i) => bar(lane.left + (i + 0.5) * quarter + width, width, y(0), y(v))).join("")),
    path("ln-grid", rows.length > 3 ? `M${left} ${line(rows.length - 1) - 13}H${right}` : ""),
    text("ln-work-title", left, top + 14, title),
    rows.map(([name, values, kind], k) => [
      text("ln-cell-name", left + 14, line(k), name),
      kind && mark("rect", { class: `ln-road ln-road-${kind}`, x: left, y: line(k) - 9, width: 9, height: 9 }),
      fourIn(lane, line(k), shortRow(values, most)),
    ]),
  ]);
}

/** The graph with its handles and buttons, and the work of the step beside or below it. */
export function backwardChart({ change, commit, put, now, grips }, arrows) {
  const ways = Object.entries(arrows).map(([name, { road }]) => ({ name, road }));
  const cuts = ways.map(({ name }) => {
    const words = `Forget ${inWords(name)}`;
    const forget = () => put({ forget: now("forget") === name ? "" : name });
    const node = button("", forget, { class: "ln-cut", "aria-label": words, title: words });
    node.append(html("span", { text: "×" }));
    return node;
  });
  let [places, held] = [null, null];
  /** The scale of a row that can be moved: it stays while a hand moves a bar. */
  const scaleFor = (trait) => (held?.trait === trait ? held.scale : scaleOf(now(trait), 1.25));

  const rows = [["x", "x", 0], ["dy", "y", 1]].map(([trait, card, k]) => {
    const rings = range(4, () => makeRing({ r: 6 }));
    const y = () => yOf(places.lanes[card][k], scaleFor(trait));
    const grain = (v) => {
      const unit = 10 ** Math.floor(Math.log10(Math.abs(y().invert(0) - y().invert(1)) || 1));
      return roundTo(Math.round(v / unit) * unit, 12);
    };
    const drag = (i) => ({
      where() {
        held = { trait, scale: scaleFor(trait) };
        return [0, y()(now(trait)[i])];
      },
      move: (_, place) => change(trait, now(trait).with(i, grain(y().invert(place)))),
      end() {
        held = null;
        put({}); // and draws it on a scale of its own again
      },
    });
    const names = rings.map((_, i) => `Feature ${i + 1} of ${trait}`);
    const move = grips(trait, rings.map(({ node }) => node), { along: "y", scale: y, drag, names });
    return {
      node: svg("g", { "data-trait": trait }, ...rings.map(({ node }) => node)),
      paint() {
        const { left, right, top, bottom } = places.lanes[card][k];
        const pitch = (right - left) / 4;
        for (const { target } of rings) set(target, { x: tenth(-pitch / 2), width: tenth(pitch) });
        move((v, i) => at(left + (i + 0.5) * pitch, clamp(y()(v), top, bottom)), (v) => formatNumber(v));
      },
    };
  });

  function view(width, { step, forget, x, dy, weight }, { mean, centered, variance, s, y, known, work }) {
    places = placesOf(width);
    for (const one of rows) one.paint();
    cuts.forEach((cut, k) => {
      cut.style.transform = `translate(${beside(places.ends[k]).map((v) => `${tenth(v - 22)}px`).join(", ")})`;
      set(cut, { "aria-pressed": forget === ways[k].name });
    });
    const boxes = { mean: [mean], var: [variance], s: [s], weight, bias: [0, 0, 0, 0] };
    return [
      ways.map(({ name, road }, k) => arrow(places.ends[k], { passed: k < step, now: k === step - 1, forgotten: forget === name, road })),
      card(places, "x", "x", "dx", x, known.x, [scaleFor("x")]),
      card(places, "centered", "x̃", "dx̃", centered, known.centered),
      card(places, "y", "y", "dy", y, known.y, [undefined, scaleFor("dy")]),
      Object.entries(boxes).map(([node, values]) => box(places, node, values, known[node])),
      workOf(places.work, work),
    ];
  }
  const label = () => "The graph of layer norm with its gradients, and the work of one step";
  const height = (width) => graphHeight + (width >= 600 ? 0 : 147);
  const made = chart({ height, view, label, handles: rows.map(({ node }) => node) });
  made.node.append(...cuts);
  return made;
}
