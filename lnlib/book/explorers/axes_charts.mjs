/** The picture of the axes explorer: the block above, its outputs below; on a phone, left and right. */
import { at, chart, mark, path, text } from "./chart.mjs";
import { clamp, formatNumber, range, remember, set, svg } from "./common.mjs";
import { button } from "./controls.mjs";
import { draggable, steerable } from "./handles.mjs";

/** A number that fits in a cell: one decimal, none from ten on. */
const cellNumber = (x) => formatNumber(Number(x.toFixed(Math.abs(x) >= 9.95 ? 0 : 1)));

/**
 * Where everything stands: `slabs[row][n]` is the corner of a sample, row 0 for x and 1 for x̂, and
 * `samples[n]` the box [x, y, width, height] of both with their names. A cell is [width, height].
 */
export const blockLayout = remember((width) => {
  const wide = width >= 560;
  const [left, gap] = wide ? [76, 22] : [29, 13];
  const across = Math.floor((width - left - 3 - (wide ? 2 : 1) * gap) / (wide ? 15 : 10));
  const size = [Math.min(across, 44), wide ? 27 : 21];
  const [right, down] = [5 * size[0] + gap, 4 * size[1] + (wide ? 22 : 26)];
  const corner = (row, n) => (wide ? [left + n * right, 40 + row * down] : [left + row * right, 38 + n * down]);
  const slabs = [0, 1].map((row) => [0, 1, 2].map((n) => corner(row, n)));
  const high = wide ? 2 * down + 45 : down - 1;
  const samples = slabs[0].map(([x, y]) => [x - 6, y - (wide ? 43 : 21), wide ? right - 10 : 2 * right - 1, high]);
  return { wide, size, slabs, samples, height: slabs[1][2][1] + 4 * size[1] + (wide ? 24 : 34) };
});

/** The cell nearest to a point, in either row of slabs, if its middle is less than `reach` away. */
export function cellAt({ slabs, size: [w, h] }, [x, y], reach = Infinity) {
  let [nearest, cell] = [reach, null];
  slabs.flat().forEach(([left, top], i) => {
    const position = clamp(Math.ceil((x - left) / w), 1, 5);
    const channel = clamp(Math.ceil((y - top) / h), 1, 4);
    const away = Math.hypot(x - left - (position - 0.5) * w, y - top - (channel - 0.5) * h);
    if (away < nearest) [nearest, cell] = [away, { sample: (i % 3) + 1, channel, position }];
  });
  return cell;
}

/** The cell some steps to the right, on into the next sample, and up. */
export function stepped({ sample: from, channel, position }, right, up) {
  const column = clamp(5 * from + position - 6 + right, 0, 14);
  return { sample: 1 + Math.floor(column / 5), channel: clamp(channel - up, 1, 4), position: 1 + (column % 5) };
}

/**
 * A view of a sample's 20 cells: the blue frame lies under them, the marks of what moved over them. `lit` holds the
 * places of a rectangle; a value of size `full` has the strongest tint. A cell is made anew when it changes.
 */
function slab(full) {
  const corner = (i, w, h) => [(i % 5) * w, Math.floor(i / 5) * h];
  const tinted = range(20, (i) => remember((value, bright, moved, w, h) => {
    const [x, y] = corner(i, w, h);
    const tone = value < 0 ? "ln-vermillion" : "ln-blue";
    const tint = Math.min(Math.abs(value) / full, 1) * (bright ? 0.5 : 0.2);
    return mark("g", {},
      mark("rect", { class: `ln-tint ${tone}`, "fill-opacity": tint.toFixed(2), x: x + 2, y: y + 2, rx: 3, width: w - 4, height: h - 4 }),
      text(`ln-cell${bright ? " ln-lit" : ""}`, x + w / 2, y + h / 2 + 4, cellNumber(value)),
      moved && path("ln-corner", `M${x + w - 2} ${y + 2}v5l-5 -5z`));
  }));
  // It lies under the tints, over the frame’s wash.
  const paper = remember((w, h) => {
    const places = tinted.map((_, i) => corner(i, w, h));
    return path("ln-paper", places.map(([x, y]) => `M${x + 2} ${y + 2}h${w - 4}v${h - 4}h${4 - w}z`).join(""));
  });
  return ([left, top], [w, h], { numbers, marks, lit }) => {
    const [[x, y], [x1, y1]] = [lit[0], lit.at(-1)].map((i) => [i % 5, Math.floor(i / 5)]);
    const frame = { x: x * w, y: y * h, width: (x1 - x + 1) * w, height: (y1 - y + 1) * h, rx: 4 };
    return mark("g", { transform: at(left, top) }, lit.length > 0 && mark("rect", { class: "ln-group", ...frame }), paper(w, h),
      tinted.map((cell, i) => cell(numbers[i], lit.includes(i), marks[i] ?? false, w, h)));
  };
}

/** Names of rows, channels and positions. */
const furniture = remember(({ wide, size: [w, h], slabs: [inputs, outputs] }) => {
  const [[x0, y0], [x1, y1]] = [inputs[0], outputs[0]];
  const low = inputs[2][1] + 4 * h;
  const channel = ([x, y]) => [1, 2, 3, 4].map((c) => text("ln-name ln-end", x - 8, y + (c - 0.5) * h + 4, wide ? `channel ${c}` : c));
  const position = ([x]) => [1, 2, 3, 4, 5].map((p) => text("ln-tick", x + (p - 0.5) * w, wide ? y0 - 8 : low + 15, p));
  return [
    (wide ? [inputs[0], outputs[0]] : inputs).map(channel),
    (wide ? inputs : [inputs[2], outputs[2]]).map(position),
    text("ln-title", wide ? 0 : x0, wide ? 14 : 13, "input x"),
    text("ln-title", wide ? 0 : x1, wide ? y1 - 7 : 13, "output x̂"),
    wide && text("ln-name ln-end", x0 - 8, y0 - 8, "position"),
    !wide && inputs.map(([, y]) => text("ln-tick", 0, 0, "channel", { transform: `translate(9 ${y + 2 * h}) rotate(-90)` })),
    !wide && [x0, x1].map((x) => text("ln-tick", x + 2.5 * w, low + 30, "position")),
  ];
});

/** The block and its outputs. A click, a drag or a key selects a cell; before that, samples are tapped. */
export function blockChart({ change, commit, now: read, say }) {
  const slabs = [5, 2].map((full) => [0, 1, 2].map(() => slab(full)));
  const ring = svg("rect", { class: "ln-ring", rx: 5 });
  const target = svg("rect", { class: "ln-target" });
  const handle = svg("g", { class: "ln-handle ln-free ln-later", "data-trait": "sample channel position" }, target, ring);
  let [place, asked, chosen] = [null, true, []];

  // Over each sample lies a button that stays down: its outputs, a reader thinks, will move.
  const bets = [1, 2, 3].map((n) => button("?", () => {
    say([1, 2, 3].filter((one) => chosen.includes(one) !== (one === n)));
  }, { class: "ln-bet ln-asking", "aria-label": `Outputs of sample ${n} will move` }));

  const select = (cell) => Object.entries(cell).forEach(([trait, value]) => change(trait, value));
  const move = (...point) => select(cellAt(place, point));
  draggable(handle, { where: (...point) => point, move, end: commit }); // it ends where a click would
  const selected = () => ({ sample: read("sample"), channel: read("channel"), position: read("position") });
  const step = (...steps) => select(stepped(selected(), ...steps));
  steerable(handle, { name: "Selected cell", low: 1, high: 60, step, end: commit });

  /** What depends on the width alone, of what is no mark. */
  const arrange = remember(({ wide, size: [w, h], samples }) => {
    set(made.canvas, { class: wide ? null : "ln-narrow" });
    samples.forEach((box, n) => ["left", "top", "width", "height"].forEach((side, i) => (bets[n].style[side] = `${box[i]}px`)));
    set(ring, { width: w, height: h });
    set(target, { x: w / 2 - 22, y: h / 2 - 22, width: 44, height: 44 });
  });

  function view(width, { changed, change, sample, channel, position }, { index, places, now, marks, counts }, { guessing, said = [] }) {
    [place, asked, chosen] = [blockLayout(width), guessing, said];
    const { wide, size: [w, h], slabs: corners } = place;
    arrange(place);
    bets.forEach((bet, i) => {
      const down = said.includes(i + 1);
      set(bet, { "aria-pressed": down, text: down ? "will move" : "?" });
    });
    const [here, there] = corners.map(({ [sample - 1]: [x, y] }) => at(x + (position - 1) * w, y + (channel - 1) * h));
    const words = now.told.map((v) => formatNumber(v));
    const where = `sample ${sample}, channel ${channel}, position ${position}`;
    set(handle, { transform: here, "aria-valuenow": index + 1, "aria-valuetext": `${where}: x is ${words[0]}, x̂ is ${words[1]}` });

    const past = guessing ? " will change" : change === 0 ? "" : ", changed";
    const name = ([x, y], n) => {
      const [kind, more] = n + 1 === changed ? ["ln-title ln-moved", past] : ["ln-title", ""];
      return text(kind, x, wide ? 14 : y - 7, `sample ${n + 1}${more}`);
    };
    const count = ([x, y], n) => text(counts[n] > 0 ? "ln-some" : "ln-none", x, wide ? y + 4 * h + 18 : y - 7, `${counts[n]} of 20 moved`);
    const [left, top] = corners[0][changed - 1]; // the frame begins below the sample’s name
    const frame = { x: left - 5, y: top - 2, width: 5 * w + 10, height: 4 * h + 7, rx: 7 };
    const samples = (row, numbers, marked) => slabs[row].map((draw, n) => {
      const of = (list) => list.slice(20 * n, 20 * n + 20);
      const lit = guessing ? [] : places.filter((i) => Math.floor(i / 20) === n).map((i) => i % 20);
      return draw(corners[row][n], place.size, { numbers: of(numbers), marks: of(marked), lit });
    });
    return [mark("g", { "aria-hidden": true },
      furniture(place),
      mark("rect", { class: "ln-changed", "data-trait": "changed", ...frame }),
      samples(0, now.x, []),
      samples(1, now.xHat, marks),
      corners[0].map(name),
      !guessing && corners[1].map(count),
      !guessing && mark("rect", { class: "ln-ring", rx: 5, width: w, height: h, transform: there }))];
  }
  const label = (_state, _shown, { guessing }) => `The block and its outputs${guessing ? "" : "; the sentence below tells how many moved"}`;
  const made = chart({ height: (width) => blockLayout(width).height, view, label, handles: [handle] });
  made.node.append(...bets);
  made.canvas.addEventListener("click", ({ clientX, clientY }) => {
    const { left, top } = made.canvas.getBoundingClientRect();
    const cell = asked ? null : cellAt(place, [clientX - left, clientY - top], Math.max(...place.size));
    if (!cell) return;
    select(cell);
    commit();
  });
  return made;
}
