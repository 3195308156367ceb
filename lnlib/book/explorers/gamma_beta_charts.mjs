/** The picture of the γ and β explorer: four lanes, one above the other. */
import { at, chart, mark, path, text } from "./chart.mjs";
import { clamp, formatNumber, linearScale, range, remember, roundTo, set, svg, symbolClass, tenth } from "./common.mjs";
import { makeAsked, makeRing } from "./handles.mjs";
import { mean } from "./norm.mjs";

const unit = 8; // px, the same in x, x̂ and y until the values need more room
const [left, margin, gap, size] = [28, 40, 32, 8];

/** Name and axes of each lane, from the top, and what its dots are dragged by. An axis is where it begins and ends, and ticks. */
export const lanesOf = [
  { name: "x (units of x)", axes: [[0, 10, [0, 5, 10]]], trait: "x" },
  { name: "x̂ (no units)", axes: [[-2.7, 2.7, [-2, 0, 2]]] },
  { name: "γ (no units)", axes: [[-2, 4, [-2, 0, 2, 4]], [-5, 5, [-5, 0, 5]]], trait: "weight", unit: 11 },
  { name: "y = γ ⊙ x̂ + β", axes: [[-4, 7, [-3, 0, 3, 6]], [-10, 10, [-10, -5, 0, 5, 10]], [-22, 22, [-20, -10, 0, 10, 20]]], trait: "bias" },
];

/** The first axis with room for the values, and a tenth of its upper end to spare. */
export function roomFor(axes, values) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return axes.find(([low, high]) => low + 0.1 * high <= least && most <= 0.9 * high) ?? axes.at(-1);
}

/** A lane below the one that ends at `above`, far enough for a ring at an end and a line of words; `scaled(axis, width)` is its scale, and its grid. */
function makeLane(lane, above) {
  const top = above + gap;
  const bottom = top + (lane.axes[0][1] - lane.axes[0][0]) * (lane.unit ?? unit);
  const scaled = remember((axis, width) => {
    const scale = linearScale(axis[0], axis[1], bottom, top);
    const tick = (v) => text("ln-name ln-end", left - 6, tenth(scale(v)) + 4, formatNumber(v));
    const grid = (v) => path(v === 0 ? "ln-axis" : "ln-grid", `M${left} ${tenth(scale(v))}H${width - margin}`);
    return { scale, grid: [axis[2].map(grid), axis[2].map(tick)] };
  });
  return { ...lane, top, bottom, scaled };
}

const hundredths = (v) => Math.round(v * 100) / 100;

/** All eight moved alike, by hundredths, so that their mean is `to`, or until the first of them reaches an end. */
export function shifted(values, to, { low, high }) {
  const by = clamp(hundredths(to - mean(values)), low - Math.min(...values), high - Math.max(...values));
  return values.map((v) => roundTo(v + by, 12));
}

/** x, x̂, γ and y over the eight features. A dot of x, γ or y is dragged or steered up and down; that of y moves its β. */
export function lanesChart({ change, commit, grips, guessGrip, now, traits }, tell) {
  const lanes = [];
  for (const one of lanesOf) lanes.push(makeLane(one, lanes.at(-1)?.bottom ?? -10));
  const [ofX, ofXHat, , ofY] = lanes;
  const [top, bottom] = [ofX.top, ofY.bottom];
  const grip = svg("text", { class: "ln-text ln-moved" }); // the number that a hand or the keys are on
  let [seen, held, focus] = [[], null, null];

  /** The handles of a lane: one for each feature and, with a letter in it, one for all of them. */
  function makeHandles(lane) {
    const { trait } = lane;
    const { symbol } = traits[trait];
    const all = trait === "x" ? [] : [makeRing({ r: 9 }, svg("text", { class: "ln-text", y: 4.5, "text-anchor": "middle", text: symbol }))];
    const rings = [...range(size, () => makeRing({ r: 7.5, near: 15 })), ...all];
    const value = (i) => (i < size ? now(trait)[i] : mean(now(trait)));
    /** What stands between a number and its height: y less its β. */
    const without = (i) => (lane === ofY && i < size ? seen[1].xHat[i] * now("weight")[i] : 0);
    const put = (i, v) => change(trait, i < size ? now(trait).with(i, v) : shifted(now(trait), v, traits[trait]));
    // A hand stays on its axis until it lets go or goes beyond an end: then it gets the next axis, which is longer.
    const drag = (i) => ({
      where() {
        held = lane;
        rings[i].node.focus({ preventScroll: true });
        return [0, lane.scale(value(i) + without(i))];
      },
      move(_, place) {
        const longer = lane.axes[lane.axes.indexOf(lane.axis) + 1];
        if (longer && (place < lane.top || place > lane.bottom)) lane.axis = longer;
        const v = clamp(lane.scale.invert(place), ...lane.axis) - without(i);
        put(i, i < size ? hundredths(v) : v);
      },
      end() {
        held = null;
        made.paint(...seen);
        commit();
      },
    });
    const names = [...range(size, (i) => `${symbol} of feature ${i + 1}`), `${symbol} of all features, on average`];
    const move = grips(trait, rings.map(({ node }) => node), { along: "y", names, value, put, drag });
    rings.forEach(({ node }, i) => {
      for (const [event, what] of [["focus", { lane, i }], ["blur", null]]) {
        node.addEventListener(event, () => {
          focus = what;
          made.paint(...seen);
        });
      }
    });
    return { ...{ rings, value, without, move, symbol }, node: svg("g", { class: "ln-later", "data-trait": trait }, ...rings.map(({ node }) => node)) };
  }
  for (const lane of lanes) if (lane.trait) lane.hand = makeHandles(lane);
  const hands = lanes.flatMap(({ hand }) => hand ?? []);

  const ghost = makeAsked();
  const half = () => Object.assign((v) => ofY.scale(v), { invert: (place) => Math.max(ofY.scale.invert(place), 0) });
  const moveGhost = guessGrip("weight", ghost, { along: "y", from: 1, names: ["Your guess of the spread of y"], scale: half, grain: (v) => Math.round(v * 20) / 20 });

  const features = remember((width) => {
    const across = linearScale(0.5, size + 0.5, left, width - margin);
    const column = across(1) - across(0);
    for (const { rings } of hands) rings.forEach(({ target }, i) => set(target, i < size ? { x: -column / 2, width: column } : { x: -18, width: 30 }));
    return { across, marks: [range(size, (i) => text("ln-tick", across(i + 1), bottom + 20, i + 1)), text("ln-name ln-end", width, bottom + 20, "feature")] };
  });

  /** Where mean − std, mean and mean + std lie in a lane, not beyond its ends. */
  const spread = (lane, middle, std) => [-1, 0, 1].map((side) => tenth(clamp(lane.scale(middle + side * std), lane.top, lane.bottom)));

  /** What γ and β say of y: γ as a mark beside the band, β as one beside the mean. */
  function said(px, { gamma, beta, bars }) {
    const [low, middle, high] = spread(ofY, beta.mean, Math.abs(gamma.mean));
    return mark("g", { "data-trait": "weight bias" },
      path(`ln-said ${symbolClass("gamma")}`, `M${px - 4} ${low}h8M${px - 4} ${high}h8M${px} ${low}V${high}`),
      path(`ln-said ${symbolClass("beta")}`, `M${px - 6} ${middle}h12`),
      text("ln-letter", px, Math.max(high - 5, ofY.top + 8), bars ? "|γ|" : "γ", { "text-anchor": "middle" }));
  }

  function view(width, state, drawn, asked) {
    seen = [state, drawn, asked];
    const [right, { across, marks }] = [width - margin, features(width)];
    const of = (i) => (i < size ? across(i + 1) : right + 28);
    const parts = lanes.map((lane, which) => {
      const [values, { mean: middle, std }] = [drawn.lanes[which], drawn.inLanes[which]];
      if (lane !== held) lane.axis = roomFor(lane.axes, values);
      const { scale, grid } = lane.scaled(lane.axis, width);
      lane.scale = scale;
      const name = text("ln-lane", left, lane.top - 12, lane.name);
      if (asked.guessing && lane === ofY) return { lines: [mark("g", {}, grid)], dots: false, words: [name] };
      const [low, line, high] = spread(lane, middle, std);
      const stems = values.map((v, i) => `M${tenth(of(i))} ${tenth(scale(0))}V${tenth(scale(v))}`);
      const dot = (v, i) => mark("circle", { class: lane === ofXHat ? `ln-dot ${symbolClass("x-hat")}` : "ln-dot", r: 4, transform: at(of(i), scale(v)) });
      return {
        lines: [
          mark("g", {}, grid),
          path(`ln-band ${symbolClass("sigma")}`, `M${left} ${high}H${right}V${low}H${left}Z`),
          path("ln-stems", stems.join("")),
          path(`ln-mean ${symbolClass("mu")}`, `M${left} ${line}H${right}`),
        ],
        dots: mark("g", {}, values.map(dot)),
        words: [name, text("ln-end", width, lane.top - 12, lane === ofX ? `mean μ ${tell(middle)}, std σ ${tell(std)}` : `mean ${tell(middle)}, std ${tell(std)}`)],
      };
    });
    const height = ({ scale, hand }, i) => scale(hand.value(i) + hand.without(i));
    for (const lane of lanes) {
      lane.hand?.move((_, i) => at(of(i), height(lane, i)), (v, i) => `${lane.hand.symbol} = ${tell(v)}${lane === ofY && i < size ? `, y = ${tell(drawn.y[i])}` : ""}`);
    }
    const guess = asked.said ?? 1;
    const middle = (left + right) / 2;
    moveGhost((v) => at(middle, ofY.scale(v)), (v) => `spread ${tell(v)}`);
    const [low, , high] = spread(ofY, 0, guess);
    const edges = asked.guessing && [path("ln-rule", `M${left} ${low}H${right}M${left} ${high}H${right}`), text("ln-moved", middle + 20, high - 6, `spread ${tell(guess)}`)];
    if (focus) {
      const [one, place] = [focus.i < size, height(focus.lane, focus.i)];
      const where = { x: one ? tenth(of(focus.i)) : width, y: tenth(one && place - 14 > focus.lane.top + 8 ? place - 14 : place + 24), "text-anchor": one ? "middle" : "end" };
      const { trait, hand } = focus.lane;
      const end = one ? undefined : now(trait).find((v) => Math.abs(v) === traits[trait].high);
      set(grip, { ...where, text: `${hand.symbol} = ${tell(hand.value(focus.i))}${end === undefined ? "" : `; one is at ${tell(end)}, its end`}` });
    } else set(grip, { text: "" });
    const [from, to] = [-0.5, 0.5].map((side) => tenth(across((focus?.i ?? 0) + 1 + side)));
    const column = focus && focus.i < size && path("ln-column", `M${from} ${top}H${to}V${bottom}H${from}Z`);
    return [column, ...["lines", "dots", "words"].map((what) => parts.map((lane) => lane[what])), edges, !asked.guessing && said(right + 9, drawn), marks];
  }
  const made = chart({ height: bottom + 24, view, label: () => "x, x̂, γ and y over eight features", handles: [...hands.map(({ node }) => node), grip, ghost] });
  return made;
}
