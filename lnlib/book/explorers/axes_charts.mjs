/**
 * The picture of the axes explorer: the block above, its outputs below; on a phone, left and right.
 * It does no arithmetic of a norm: it is handed what `look` in axes.mjs returns.
 */
import { clamp, formatNumber, html, ownKeys, set, svg } from "./common_old.mjs";
import { at, chart, text } from "./frame.mjs";
import { draggable, steerable } from "./handles_old.mjs";

/** A number that fits in a cell: one decimal, none from ten on. */
export function cellNumber(x) {
  return formatNumber(Number(x.toFixed(Math.abs(x) >= 9.95 ? 0 : 1)));
}

/**
 * Where everything stands: `slabs[row][n]` is the corner of a sample, row 0 for x and 1 for x̂, and
 * `samples[n]` the box [x, y, width, height] of both with their names. A cell is [width, height].
 */
export function blockLayout(width) {
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
}

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
  const sample = 1 + Math.floor(column / 5);
  return { sample, channel: clamp(channel - up, 1, 4), position: 1 + (column % 5) };
}

/** A sample's 20 cells: the blue frame lies under them, the marks of what moved over them. */
function slab(full) {
  const group = svg("rect", { class: "ln-group", rx: 4 });
  const paper = svg("path", { class: "ln-paper" }); // under the tints, over the frame's wash
  const parts = Array.from({ length: 20 }, () => ({
    box: svg("rect", { rx: 3 }),
    words: svg("text", {}, ""),
    corner: svg("path", { class: "ln-corner" }),
  }));
  const node = svg("g", {}, group, paper, ...parts.flatMap(Object.values));
  const drawn = parts.map(() => ({})); // what each cell shows: to ask its nodes takes long
  return {
    node,
    layout([left, top], [w, h]) {
      set(node, { transform: at(left, top) });
      const box = { width: w - 4, height: h - 4 };
      const fold = Math.round(Math.min(w / 5, h / 4));
      const corners = parts.map((part, i) => {
        const [x, y] = [(i % 5) * w, Math.floor(i / 5) * h];
        set(part.box, { ...box, x: x + 2, y: y + 2 });
        set(part.words, { x: x + w / 2, y: y + h / 2 + 4 });
        set(part.corner, { d: `M${x + w - 2} ${y + 2}v${fold}l${-fold} ${-fold}z` });
        return `M${x + 2} ${y + 2}h${box.width}v${box.height}h${-box.width}z`;
      });
      set(paper, { d: corners.join("") });
    },
    /** `lit` holds the places of a rectangle; a value of size `full` has the strongest tint. */
    paint({ numbers, marks, lit, size: [w, h] }) {
      parts.forEach(({ box, words, corner }, i) => {
        const [value, bright, mark] = [numbers[i], lit.includes(i), marks[i] ?? false];
        const old = drawn[i];
        if (value !== old.value) words.firstChild.data = cellNumber(value); // the node stays: half the time
        if (mark !== old.mark) set(corner, { visibility: mark ? null : "hidden" });
        if (bright !== old.bright) set(words, { class: `ln-text ln-cell${bright ? " ln-lit" : ""}` });
        if (value !== old.value || bright !== old.bright) {
          const tint = Math.min(Math.abs(value) / full, 1) * (bright ? 0.5 : 0.2);
          set(box, { class: `ln-tint ${value < 0 ? "ln-vermillion" : "ln-blue"}`, "fill-opacity": tint.toFixed(2) });
        }
        drawn[i] = { value, bright, mark };
      });
      set(group, { visibility: lit.length > 0 ? null : "hidden" });
      if (lit.length === 0) return;
      const [x, y] = [lit[0] % 5, Math.floor(lit[0] / 5)];
      const width = ((lit.at(-1) % 5) - x + 1) * w;
      const height = (Math.floor(lit.at(-1) / 5) - y + 1) * h;
      set(group, { x: x * w, y: y * h, width, height });
    },
  };
}

/** Names of rows, channels and positions, made anew when the width changes. */
function furniture({ wide, size: [w, h], slabs: [inputs, outputs] }) {
  const [[x0, y0], [x1, y1]] = [inputs[0], outputs[0]];
  const low = inputs[2][1] + 4 * h;
  const put = (kind, x, y, words, more) => text(kind, { x, y, text: words, ...more });
  const end = { "text-anchor": "end" };
  const aside = (y) => ({ transform: `translate(9 ${y + 2 * h}) rotate(-90)` });
  const channel = ([x, y]) =>
    [1, 2, 3, 4].map((c) => put("ln-name", x - 8, y + (c - 0.5) * h + 4, wide ? `channel ${c}` : c, end));
  const position = ([x]) =>
    [1, 2, 3, 4, 5].map((p) => put("ln-tick", x + (p - 0.5) * w, wide ? y0 - 8 : low + 15, p));
  return [
    ...(wide ? [inputs[0], outputs[0]] : inputs).flatMap(channel),
    ...(wide ? inputs : [inputs[2], outputs[2]]).flatMap(position),
    put("ln-title", wide ? 0 : x0, wide ? 14 : 13, "input x"),
    put("ln-title", wide ? 0 : x1, wide ? y1 - 7 : 13, "output x̂"),
    ...(wide ? [put("ln-name", x0 - 8, y0 - 8, "position", end)] : []),
    ...(wide ? [] : inputs.map(([, y]) => put("ln-tick", 0, 0, "channel", aside(y)))),
    ...(wide ? [] : [x0, x1].map((x) => put("ln-tick", x + 2.5 * w, low + 30, "position"))),
  ];
}

/** Three buttons, one over each sample, which stay down: the samples whose outputs a reader thinks will move. */
function bets() {
  const buttons = [1, 2, 3].map((n) => {
    const more = { "aria-label": `Outputs of sample ${n} will move`, "aria-pressed": false };
    const button = html("button", { type: "button", class: "ln-bet", text: "?", ...more, ...ownKeys });
    button.addEventListener("click", () => {
      const down = button.getAttribute("aria-pressed") !== "true";
      set(button, { "aria-pressed": down, text: down ? "will move" : "?" });
    });
    return button;
  });
  return {
    buttons,
    guessed: () => [1, 2, 3].filter((n) => buttons[n - 1].getAttribute("aria-pressed") === "true"),
  };
}

/** The block and its outputs. A click, a drag or a key selects a cell; before that, samples are tapped. */
export function blockChart({ cells, change, commit, now: read }) {
  const slabs = [5, 2].map((full) => [0, 1, 2].map(() => slab(full)));
  const names = [0, 1, 2].map(() => text("ln-title"));
  const counts = [0, 1, 2].map(() => text("ln-count"));
  const fixed = svg("g");
  const changedFrame = svg("rect", { class: "ln-changed", rx: 7, "data-trait": "changed" });
  const rings = [0, 1].map(() => svg("rect", { class: "ln-ring ln-later", rx: 5 }));
  const target = svg("rect", { class: "ln-target" });
  const handle = svg("g", { class: "ln-handle ln-free ln-later", "data-trait": "sample channel position" }, target, rings[0]);
  const drawn = [fixed, changedFrame, ...slabs.flat().map((one) => one.node), ...names, ...counts, rings[1]];
  const { buttons, guessed } = bets();
  let [place, asked] = [null, true];
  const parts = [svg("g", { "aria-hidden": "true" }, ...drawn), handle];
  const { node, canvas, fit } = chart(0, [], parts, (width) => {
    place = blockLayout(width);
    const { wide, size, height } = place;
    set(canvas, { height, viewBox: `0 0 ${width} ${height}`, class: wide ? null : "ln-narrow" });
    fixed.replaceChildren(...furniture(place));
    slabs.forEach((row, r) => row.forEach((one, n) => one.layout(place.slabs[r][n], size)));
    const [w, h] = size;
    place.slabs[0].forEach(([x, y], n) => set(names[n], { x, y: wide ? 14 : y - 7 }));
    place.slabs[1].forEach(([x, y], n) => set(counts[n], { x, y: wide ? y + 4 * h + 18 : y - 7 }));
    place.samples.forEach(([x, y, across, down], n) => {
      const box = { left: x, top: y, width: across, height: down };
      for (const [side, px] of Object.entries(box)) buttons[n].style[side] = `${px}px`;
    });
    set(changedFrame, { width: 5 * w + 10, height: 4 * h + 7 }); // below its sample's name
    for (const ring of rings) set(ring, { width: w, height: h });
    set(target, { x: w / 2 - 22, y: h / 2 - 22, width: 44, height: 44 });
  }, "group");
  node.append(...buttons);

  const select = (cell) => Object.entries(cell).forEach(([trait, value]) => change(trait, value));
  const pointAt = ({ clientX, clientY }) => {
    const { left, top } = canvas.getBoundingClientRect();
    return [clientX - left, clientY - top];
  };
  canvas.addEventListener("click", (event) => {
    const cell = asked ? null : cellAt(place, pointAt(event), Math.max(...place.size));
    if (!cell) return;
    select(cell);
    commit();
  });
  const move = (...point) => select(cellAt(place, point));
  draggable(handle, { where: (...point) => point, move, end: commit }); // it ends where a click would
  const selected = () => ({ sample: read("sample"), channel: read("channel"), position: read("position") });
  steerable(handle, { name: "Selected cell", step: (...steps) => select(stepped(selected(), ...steps)), end: commit });
  set(handle, { "aria-valuemin": 1, "aria-valuemax": cells.length });

  return {
    ...{ node, fit, guessed },
    paint({ changed, change }, { cell, index, places, now, marks, counts: moved }, guessing) {
      asked = guessing;
      if (!guessing) for (const button of buttons) button.remove();
      const { size: [w, h] } = place;
      const framed = guessing ? [] : places;
      [now.x, now.xHat].forEach((numbers, row) => slabs[row].forEach((one, n) => {
        const of = (list) => list.slice(20 * n, 20 * n + 20);
        const lit = framed.filter((i) => cells[i].sample === n + 1).map((i) => i % 20);
        one.paint({ numbers: of(numbers), marks: row === 0 ? [] : of(marks), lit, size: place.size });
      }));
      const past = guessing ? " will change" : change === 0 ? "" : ", changed";
      moved.forEach((count, n) => {
        const mine = n + 1 === changed;
        set(names[n], { class: `ln-text ln-title${mine ? " ln-moved" : ""}`, text: `sample ${n + 1}${mine ? past : ""}` });
        const tone = count > 0 ? "ln-some" : "ln-none";
        set(counts[n], { class: `ln-text ${tone}`, text: guessing ? "" : `${count} of 20 moved` });
      });
      const [left, top] = place.slabs[0][changed - 1];
      set(changedFrame, { x: left - 5, y: top - 2 });
      [handle, rings[1]].forEach((ring, row) => {
        const [x, y] = place.slabs[row][cell.sample - 1];
        set(ring, { transform: at(x + (cell.position - 1) * w, y + (cell.channel - 1) * h) });
      });
      const [x, xHat] = now.told.map((v) => formatNumber(v));
      const where = `sample ${cell.sample}, channel ${cell.channel}, position ${cell.position}`;
      set(handle, { "aria-valuenow": index + 1, "aria-valuetext": `${where}: x is ${x}, x̂ is ${xHat}` });
      const told = guessing ? "" : "; the sentence below tells how many moved";
      set(canvas, { "aria-label": `The block and its outputs${told}` });
    },
  };
}
