/**
 * The picture of the depth explorer: two sizes by layer on a logarithmic axis, as the law has them and as they are
 * measured, the last layer to drag, and before that a line to guess with.
 */
import { at, chart, path, text } from "./chart.mjs";
import { clamp, formatNumber, html, linearScale, powerOfTen, remember, roundTo, svg, tenth } from "./common.mjs";
import { linePath, logScale } from "./curves.mjs";
import { grips, makeAsked, makePill, strokable } from "./handles.mjs";

const [HEIGHT, top, bottom, left] = [252, 40, 228, 46];
const GUESSING = 12; // decades up and down while a reader guesses
const kinds = [
  { key: "activations", tone: "ln-blue", name: "● activations →" },
  { key: "gradients", tone: "ln-vermillion", name: "← □ gradient" },
];
const ends = [
  { value: 65504, name: "float16 ends: above is ∞", shift: -5 },
  { value: 2 ** -24, name: "float16 ends: below is 0", shift: 15 },
];

/** The decades, up and down, of the smallest axis that has room for all values. */
export function reach(values) {
  const most = Math.max(...values.map((v) => Math.abs(Math.log10(v))));
  return [3, 6, 12, 24].find((decades) => most <= decades) ?? 36;
}

/** Seven ticks, as powers of ten. */
export const ticksOf = (decades) => [-3, -2, -1, 0, 1, 2, 3].map((k) => (k * decades) / 3);

/** "1 layer", or "50 layers". */
export const layersOf = (depth) => `${depth} ${depth === 1 ? "layer" : "layers"}`;

/** A dot, or a hollow square, at each point. */
const dots = (points) => points.map(([x, y]) => `M${tenth(x)} ${tenth(y)}h0`).join("");
const squares = (points) => points.map(([x, y]) => `M${tenth(x - 2)} ${tenth(y - 2)}h4v4h-4Z`).join("");

/** Two sizes by layer. */
export function depthChart(tools) {
  const across = remember((width) => linearScale(0, 50, left, width - 14));
  const up = remember((decades) => logScale(10 ** decades, 10 ** -decades, top, bottom));
  const powers = linearScale(GUESSING, -GUESSING, top, bottom);
  const mine = html("span", { class: "ln-key", text: "your guess" });
  let [x, guess] = [null, undefined];

  const pill = makePill({ "data-trait": "depth" });
  const moveLast = tools.grips("depth", [pill.node], { along: "x", scale: () => x, names: ["Number of layers"] });

  // A guess, at the end of a line from RMS 1 at the input: its ring goes by powers of ten, a quarter of one a step.
  const rounded = (power) => roundTo(10 ** clamp(power, -GUESSING, GUESSING), 2);
  const tell = (v) => tools.say((guess = v));
  const back = svg("rect", { class: "ln-target ln-asking", width: "100%", height: HEIGHT });
  strokable(back, { now: () => guess, to: (_x, _from, _before, y) => rounded(powers.invert(y)), put: tell, end() {}, press: true });
  const ring = makeAsked();
  const moveRing = grips([ring], {
    of: { low: -GUESSING, high: GUESSING, each: (power, by) => (Math.round(4 * power) + by) / 4 },
    ...{ value: () => Math.log10(guess ?? 1), put: (_, power) => tell(rounded(power)), up: () => tell(guess ?? 1), end() {} },
    ...{ along: "y", scale: () => powers, names: ["Your guess of the size at the last layer"] },
  });

  const axes = remember((width, decades) => {
    const [y, right] = [up(decades), width - 14];
    return [
      ticksOf(decades).map((power) => [
        path(power === 0 ? "ln-axis" : "ln-grid", `M${left} ${tenth(y(10 ** power))}H${right}`),
        text("ln-tick ln-end", left - 7, y(10 ** power) + 4, power === 0 ? "1" : powerOfTen(power)),
      ]),
      [0, 10, 20, 30, 40, 50].map((layer) => text("ln-tick", across(width)(layer), bottom + 18, layer === 0 ? "layer 0" : String(layer))),
    ];
  });
  const limits = remember((width, decades) => ends.map(({ value, name, shift }) => {
    if (decades >= 24 || Math.abs(Math.log10(value)) >= decades) return false; // beyond, lines crowd there
    const [y, right] = [tenth(up(decades)(value)), width - 14];
    return [path("ln-grid ln-limit", `M${left} ${y}H${right}`), text("ln-name", (left + right) / 2, y + shift, name, { "text-anchor": "middle" })];
  }));

  function view(width, { depth }, { exact, seen }, { guessing, said }) {
    [x, guess] = [across(width), said];
    const values = [exact, seen].flatMap(({ activations, gradients }) => [...activations, ...gradients, said ?? 1]);
    const decades = guessing ? GUESSING : reach(values);
    const [y, end] = [up(decades), x(depth)];
    pill.paint(layersOf(depth), end, width);
    moveLast(() => at(end, 0), layersOf);
    moveRing((power) => at(end, powers(power)), (power) => formatNumber(10 ** power));
    const guessed = said ?? 1;
    mine.hidden = guessing || !said;
    const line = (guessing || said) && path("ln-rule", `M${x(0)} ${y(1)}L${tenth(end)} ${tenth(y(guessed))}`);
    // Its number stands on the side of the ring where the line is not.
    const beside = guessed < 1 ? Math.min(y(guessed) + 28, bottom + 4) : y(guessed) - 18;
    if (guessing) return [axes(width, decades), line, text("ln-moved ln-end", end + 8, beside, formatNumber(guessed))];
    const drawn = (sizes, make) => kinds.map(({ key, tone }, i) => make(sizes[key].map((v, layer) => [x(layer), y(v)]), tone, i));
    return [
      axes(width, decades),
      limits(width, decades),
      drawn(exact, (points, tone) => path(`ln-curve ${tone}`, linePath(points))),
      drawn(seen, (points, tone, i) => path(`ln-seen ${tone}`, [dots, squares][i](points))),
      path("ln-rule", `M${tenth(end)} 27V${bottom}`),
      line,
    ];
  }

  function label(_state, _shown, { guessing }) {
    const about = "Root mean square of the activations and of the gradient, layer by layer, on a logarithmic axis.";
    return guessing ? about : `${about} The sentence below gives their numbers.`;
  }
  const title = [html("span", { text: "RMS" }), ...kinds.map(({ tone, name }) => html("span", { class: `ln-key ${tone}`, text: name })), mine];
  return chart({ height: HEIGHT, title, view, label, handles: [back, pill.node, ring] });
}
