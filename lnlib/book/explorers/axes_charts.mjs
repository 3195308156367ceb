/**
 * The picture of the axes explorer: the block above, its outputs below; on a phone, left and right.
 * It does no arithmetic of a norm: it is handed what `look` in axes.mjs returns.
 */
import { clamp, formatNumber, html, set, svg } from "./common.mjs";
import { at, chart, text } from "./frame.mjs";
import { draggable, steerable } from "./handles.mjs";


/** A number that fits in a cell: one decimal, none from ten on. */
export function cellNumber(x) {
  return formatNumber(Number(x.toFixed(Math.abs(x) >= 9.95 ? 0 : 1)));
}

/** Where everything stands: `slabs[row][n]` is the corner of a sample, row 0 for x and 1 for x̂. */
export function blockLayout(width) {
  const wide = width >= 560;
  const [left, gap] = wide ? [76, 22] : [29, 13];
  const size = Math.min(Math.floor((width - left - 3 - (wide ? 2 : 1) * gap) / (wide ? 15 : 10)), 44);
  const [across, down] = [5 * size + gap, 4 * size + 36];
  const corner = (row, n) =>
    wide ? [left + n * across, 48 + row * down] : [left + row * across, 56 + n * down];
  const slabs = [0, 1].map((row) => [0, 1, 2].map((n) => corner(row, n)));
  return { wide, size, slabs, height: slabs[1][2][1] + 4 * size + (wide ? 28 : 38) };
}

/** The cell nearest to a point, in either row of slabs, if its middle is less than `reach` away. */
export function cellAt({ slabs, size }, [x, y], reach = Infinity) {
  let [nearest, cell] = [reach, null];
  slabs.flat().forEach(([left, top], i) => {
    const position = clamp(Math.ceil((x - left) / size), 1, 5);
    const channel = clamp(Math.ceil((y - top) / size), 1, 4);
    const away = Math.hypot(x - left - (position - 0.5) * size, y - top - (channel - 0.5) * size);
    if (away < nearest) [nearest, cell] = [away, { sample: (i % 3) + 1, channel, position }];
  });
  return cell;
}

/** The cell some steps to the right, on into the next sample, and up. */
export function stepped({ sample: from, channel, position }, right, up) {
  const column = clamp(5 * from + position - 6 + right, 0, 14);
  const sample = 1 + Math.floor(column / 5);
  return { sample, channel: clamp(channel - up, 1, 4), position: 1 + (column % 5) };
}

/** A sample's 20 cells: the blue frame lies under them, the marks of what moved over them. */
function slab(full) {
  const group = svg("rect", { class: "ln-group", rx: 4 });
  const paper = svg("path", { class: "ln-paper" }); // under the tints, over the frame's wash
  const parts = Array.from({ length: 20 }, () => ({
    box: svg("rect", { rx: 3 }),
    words: svg("text"),
    corner: svg("path", { class: "ln-corner" }),
  }));
  const node = svg("g", {}, group, paper, ...parts.flatMap(Object.values));
  return {
    node,
    layout([left, top], size) {
      set(node, { transform: at(left, top) });
      const [fold, side] = [Math.round(size / 4), size - 4];
      parts.forEach(({ box, words, corner }, i) => {
        const [x, y] = [(i % 5) * size, Math.floor(i / 5) * size];
        set(box, { x: x + 2, y: y + 2, width: side, height: side });
        set(words, { x: x + size / 2, y: y + size / 2 + 4 });
        set(corner, { d: `M${x + size - 2} ${y + 2}v${fold}l${-fold} ${-fold}z` });
      });
      const corners = parts.map(({ box }) => `M${box.getAttribute("x")} ${box.getAttribute("y")}`);
      set(paper, { d: corners.map((start) => `${start}h${side}v${side}h${-side}z`).join("") });
    },
    /** `lit` holds the places of a rectangle; a value of size `full` has the strongest tint. */
    paint({ numbers, marks, lit, size }) {
      parts.forEach(({ box, words, corner }, i) => {
        const bright = lit.includes(i);
        const tint = Math.min(Math.abs(numbers[i]) / full, 1) * (bright ? 0.5 : 0.2);
        const tone = numbers[i] < 0 ? "ln-vermillion" : "ln-blue";
        set(box, { class: `ln-tint ${tone}`, "fill-opacity": tint.toFixed(2) });
        set(words, { class: `ln-text ln-cell${bright ? " ln-lit" : ""}`, text: cellNumber(numbers[i]) });
        set(corner, { visibility: marks[i] ? null : "hidden" });
      });
      set(group, { visibility: lit.length > 0 ? null : "hidden" });
      if (lit.length === 0) return;
      const [x, y] = [lit[0] % 5, Math.floor(lit[0] / 5)];
      const width = ((lit.at(-1) % 5) - x + 1) * size;
      const height = (Math.floor(lit.at(-1) / 5) - y + 1) * size;
      set(group, { x: x * size, y: y * size, width, height });
    },
  };
}

/** Names of rows, channels and positions, made anew when the width changes. */
function furniture({ wide, size, slabs: [inputs, outputs] }) {
  const [[x0, y0], [x1, y1]] = [inputs[0], outputs[0]];
  const low = inputs[2][1] + 4 * size;
  const put = (kind, x, y, words, more) => text(kind, { x, y, text: words, ...more });
  const end = { "text-anchor": "end" };
  const aside = (y) => ({ transform: `translate(9 ${y + 2 * size}) rotate(-90)` });
  const channel = ([x, y]) =>
    [1, 2, 3, 4].map((c) => put("ln-name", x - 8, y + (c - 0.5) * size + 4, wide ? `channel ${c}` : c, end));
  const position = ([x]) =>
    [1, 2, 3, 4, 5].map((p) => put("ln-tick", x + (p - 0.5) * size, wide ? y0 - 10 : low + 16, p));
  return [
    ...(wide ? [inputs[0], outputs[0]] : inputs).flatMap(channel),
    ...(wide ? inputs : [inputs[2], outputs[2]]).flatMap(position),
    put("ln-head", wide ? 0 : x0, wide ? y0 - 30 : 14, "input x"),
    put("ln-head", wide ? 0 : x1, wide ? y1 - 12 : 14, "output x̂"),
    ...(wide ? [put("ln-name", x0 - 8, y0 - 10, "position", end)] : []),
    ...(wide ? [] : inputs.map(([, y]) => put("ln-tick", 0, 0, "channel", aside(y)))),
    ...(wide ? [] : [x0, x1].map((x) => put("ln-tick", x + 2.5 * size, low + 32, "position"))),
  ];
}

/** The block and its outputs. `select(cell)` gets the cell that is clicked or dragged to. */
export function blockChart({ cells, select, commit }) {
  const slabs = [5, 2].map((full) => [0, 1, 2].map(() => slab(full)));
  const names = [0, 1, 2].map(() => text("ln-head"));
  const counts = [0, 1, 2].map(() => text("ln-count"));
  const fixed = svg("g");
  const changedFrame = svg("rect", { class: "ln-changed", rx: 7 });
  const rings = [0, 1].map(() => svg("rect", { class: "ln-ring", rx: 5 }));
  const target = svg("rect", { class: "ln-target" });
  const handle = svg("g", { class: "ln-handle ln-free" }, target, rings[0]);
  const drawn = [fixed, changedFrame, ...slabs.flat().map((one) => one.node), ...names, ...counts, rings[1]];
  const words = [html("span"), html("small")];
  let [place, selected] = [null, null];
  const parts = [svg("g", { "aria-hidden": "true" }, ...drawn), handle];
  const { node, canvas, fit } = chart(0, words, parts, (width) => {
    place = blockLayout(width);
    const { wide, size, height } = place;
    set(canvas, { height, viewBox: `0 0 ${width} ${height}`, class: wide ? null : "ln-narrow" });
    fixed.replaceChildren(...furniture(place));
    slabs.forEach((row, r) => row.forEach((one, n) => one.layout(place.slabs[r][n], size)));
    place.slabs[0].forEach(([x, y], n) => set(names[n], { x, y: wide ? y - 30 : y - 10 }));
    place.slabs[1].forEach(([x, y], n) => set(counts[n], { x, y: wide ? y + 4 * size + 20 : y - 10 }));
    set(changedFrame, { width: 5 * size + 10, height: 4 * size + 10 });
    for (const ring of rings) set(ring, { width: size, height: size });
    set(target, { x: size / 2 - 22, y: size / 2 - 22, width: 44, height: 44 });
  }, "group");

  const pointAt = ({ clientX, clientY }) => {
    const { left, top } = canvas.getBoundingClientRect();
    return [clientX - left, clientY - top];
  };
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(place, pointAt(event), place.size);
    if (cell) select(cell);
  });
  const move = (...point) => select(cellAt(place, point));
  draggable(handle, { where: (...point) => point, move, end: commit }); // it ends where a click would
  const step = (...steps) => select(stepped(selected, ...steps));
  steerable(handle, { name: "Selected cell", step, end: commit });
  set(canvas, { "aria-label": "The block and its outputs; the sentence below tells which moved." });
  set(handle, { "aria-valuemin": 1, "aria-valuemax": cells.length });

  return {
    node,
    fit,
    paint({ cell, index, places, now, marks, counts: moved, changed, change, pairs, centerless }) {
      selected = cell;
      const { size } = place;
      [now.x, now.xHat].forEach((numbers, row) => slabs[row].forEach((one, n) => {
        const of = (list) => list.slice(20 * n, 20 * n + 20);
        const lit = places.filter((i) => cells[i].sample === n + 1).map((i) => i % 20);
        one.paint({ numbers: of(numbers), marks: row === 0 ? [] : of(marks), lit, size });
      }));
      moved.forEach((count, n) => {
        const mine = n + 1 === changed;
        const told = `sample ${n + 1}${mine && change !== 0 ? ", changed" : ""}`;
        set(names[n], { class: `ln-text ln-head${mine ? " ln-moved" : ""}`, text: told });
        const tone = count > 0 ? "ln-moved" : "ln-none";
        set(counts[n], { class: `ln-text ${tone}`, text: `${count} of 20 moved` });
      });
      const [left, top] = place.slabs[0][changed - 1];
      set(changedFrame, { x: left - 5, y: top - 5 });
      [handle, rings[1]].forEach((ring, row) => {
        const [x, y] = place.slabs[row][cell.sample - 1];
        set(ring, { transform: at(x + (cell.position - 1) * size, y + (cell.channel - 1) * size) });
      });
      const [x, xHat] = now.told.map((v) => formatNumber(v));
      const where = `sample ${cell.sample}, channel ${cell.channel}, position ${cell.position}`;
      set(handle, { "aria-valuenow": index + 1, "aria-valuetext": `${where}: x is ${x}, x̂ is ${xHat}` });
      const share = centerless ? "one root mean square" : "one mean and one standard deviation";
      set(words[0], { text: `Framed: ${places.length} values that share ${share}` });
      set(words[1], { text: `${pairs} ${centerless ? "of them" : "such pairs"} in the block` });
    },
  };
}
