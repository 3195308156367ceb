/**
 * The picture of the tile explorer: the matrix in cells, hatched lanes beside it, sums of dγ below.
 * It does no arithmetic of a kernel: it is handed what `look` in tiles_work.mjs returns.
 */
import { clamp, formatNumber, hatchPath, html, set, svg } from "./common_old.mjs";
import { chart } from "./frame.mjs";

const tones = ["ln-blue", "ln-vermillion", "ln-green"];
/** The color of a program: neighbors differ, and their names stand beside them. */
export const toneOf = (program) => tones[program % 3];

/** A number that fits in a cell: one decimal. */
export const tenths = (x) => formatNumber(Math.round(10 * x) / 10);

/** Where everything stands: `lines` of `lanes` cells, columns of numbers `beside`, `sums` below. */
export function tilesLayout(width, { lanes, lines, beside, sums, single }) {
  const wide = width >= 560;
  const left = wide ? 110 : single ? 54 : 42; // room for p10 and 10
  const column = wide ? 72 : 40;
  const right = wide || lanes <= 8 ? beside * column : 0; // otherwise they are in the table alone
  const across = Math.min(Math.floor((width - left - right - 2) / lanes), wide ? 48 : 44);
  const [top, gap, foot] = [20, 30, 6];
  const room = (wide ? 314 : 396) - top - foot - (sums > 0 ? gap : 0); // one screen
  const down = clamp(Math.floor(room / (lines + sums)), 16, wide ? 28 : 24);
  const below = top + lines * down + gap;
  const height = foot + (sums === 0 ? top + lines * down : below + sums * down);
  return { wide, left, top, across, down, below, height, column, room: right > 0, numbers: across >= 24 };
}

/**
 * A drawing that is told anew in full, as attributes, at each step, and changes where they do: nodes are
 * made once and kept, and what is as it was is not touched.
 */
function pool(tag) {
  const node = svg("g");
  const made = [];
  let shown = 0;
  return {
    node,
    paint(all) {
      all.forEach((attributes, i) => {
        const one = (made[i] ??= { node: svg(tag), drawn: {} });
        for (const [name, value] of Object.entries(attributes)) {
          if (one.drawn[name] === value) continue;
          if (name === "text") set(one.node, { text: value });
          else one.node.setAttribute(name, value);
        }
        one.drawn = attributes;
        if (i >= shown) node.append(one.node);
      });
      for (const one of made.slice(all.length, shown)) one.node.remove();
      shown = all.length;
    },
  };
}

const box = (x, y, width, height) => `M${x} ${y}h${width}v${height}h${-width}z`;
const path = (kind, d) => ({ class: kind, d });
const put = (kind, x, y, text) => ({ class: `ln-text ${kind}`, x, y, text });
const heads = { forward: ["σ²", "wrong"], long: ["Σd", "Σd²"], backward: [] };

/** Numbers in the columns beside the matrix, a list for each row; none for those not known yet. */
function besideOf({ kernel, padding }, { rows, along, reads, step }) {
  if (kernel === "long") return along.map(({ sum, squares }) => (step > 0 ? [sum, squares] : []));
  if (kernel === "backward") return rows.map(() => []);
  const shown = rows.map(({ variance, counted }) => (padding === "counted" ? [variance, counted] : [variance]));
  return shown.map((values, i) => (reads[i][0] > 0 ? values : []));
}

/** Names of features on top, of programs and rows on the left. */
function margins({ kernel, features, rows }, { cut, now }, place) {
  const { wide, left, top, across, down } = place;
  const every = across < 18 ? 2 : 1;
  const words = [put("ln-name ln-end", left - 12, top - 8, wide ? "row" : "")];
  for (let j = 0; j < features; j += every) words.push(put("ln-tick", left + (j + 0.5) * across, top - 8, `${j}`));
  const same = cut.height === 1 && kernel !== "backward"; // a row is called as its program
  for (let i = 0; i < rows && (wide || !same); i++) {
    words.push(put("ln-name ln-end", left - 12, top + (i + 0.5) * down + 4, `${i}`));
  }
  const owners = [];
  for (let tile = 0; tile < cut.tiles; tile++) {
    const program = tile % cut.programs;
    const [y, height] = [top + tile * cut.height * down, cut.height * down];
    const runs = now.some((one) => one.top === tile * cut.height);
    owners.push(path(`ln-owner ${toneOf(program)}`, box(left - 8, y + 2, 4, height - 4)));
    const kind = `ln-program ${toneOf(program)}${runs ? " ln-runs" : ""}`;
    words.push(put(kind, 0, y + height / 2 + 4, wide ? `program ${program}` : `p${program}`));
  }
  return { shapes: owners, words };
}

/** The cells: a tint for the program, stronger with each read; a number where there is room. */
function cells({ kernel }, { cut, reads, written, x, xHat, product }, place) {
  const { left, top, across, down } = place;
  const paths = {};
  const words = [];
  reads.forEach((row, i) => row.forEach((count, j) => {
    const [cx, cy] = [left + j * across, top + i * down];
    const kind = `ln-cell-box ${toneOf(Math.floor(i / cut.height) % cut.programs)} ln-read-${count}`;
    paths[kind] = (paths[kind] ?? "") + box(cx + 1, cy + 1, across - 2, down - 2);
    if (!place.numbers) return;
    const value = kernel === "backward" ? product[i][j] : (written[i][j] ? xHat : x)[i][j];
    words.push(put(count > 0 ? "ln-cell ln-done" : "ln-cell", cx + across / 2, cy + down / 2 + 4, tenths(value)));
  }));
  return { shapes: Object.entries(paths).map(([kind, d]) => path(kind, d)), words };
}

/** Hatched lanes hold no data. Counted by mistake, they hold −μ in the rows that were read. */
function padded({ rows, features, kernel, padding }, { reads, rows: statistics }, place, lanes, lines) {
  const { left, top, across, down } = place;
  const [edge, right, bottom] = [left + features * across, left + lanes * across, top + lines * down];
  const hatch = (x0, x1, y0, y1) => (x1 > x0 && y1 > y0 ? hatchPath(x0, x1, y0, y1) + box(x0, y0, x1 - x0, y1 - y0) : "");
  const wrong = kernel === "forward" && padding === "counted" ? reads.filter(([count]) => count > 0).length : 0;
  const start = top + wrong * down; // programs run from the top
  const rest = top + rows * down;
  const shapes = [path("ln-masked", hatch(edge, right, start, rest) + hatch(left, right, rest, bottom))];
  const words = [];
  for (let i = 0; i < wrong; i++) {
    for (let x = edge; x < right; x += across) {
      shapes.push(path("ln-mistake", box(x + 1, top + i * down + 1, across - 2, down - 2)));
      if (!place.numbers) continue;
      words.push(put("ln-cell ln-lane", x + across / 2, top + (i + 0.5) * down + 4, tenths(-statistics[i].mean)));
    }
  }
  return { shapes, words };
}

/** Partial sums of dγ, a row for each program, and dγ, under the columns they are the sums of. */
function totals({ features }, { cut, step, sums, added, dgamma }, place) {
  const { wide, left, below, across, down } = place;
  const title = wide ? "sums of x̂·dy over the rows of each program" : "sums over each program’s rows";
  const shapes = [];
  const words = [put("ln-title", left, below - 8, title)];
  const names = sums.map((_, p) => [toneOf(p), wide ? `program ${p}` : `p${p}`, step > 0]);
  [...names, ["ln-total", "dγ", added > 0]].forEach(([tone, name, known], k) => {
    const y = below + k * down;
    words.push(put(`ln-program ${tone}`, 0, y + down / 2 + 4, name));
    const values = sums[k] ?? dgamma;
    const d = values.map((_, j) => box(left + j * across + 1, y + 1, across - 2, down - 2)).join("");
    shapes.push(path(`ln-cell-box ${tone} ln-read-${known ? 1 : 0}`, d));
    if (!known || !place.numbers) return;
    values.forEach((v, j) => words.push(put("ln-cell ln-done", left + (j + 0.5) * across, y + down / 2 + 4, tenths(v))));
  });
  const from = step - cut.rounds - 2; // the partial sum that is being added
  const outline = (k, tone) => path(`ln-now ${tone}`, box(left, below + k * down, features * across, down));
  if (from >= 0) shapes.push(outline(from, toneOf(from)), outline(sums.length, "ln-total"));
  return { shapes, words };
}

/** The matrix with its lanes, and below it what the cells hold. */
export function tilesChart() {
  const [shapes, words] = [pool("path"), pool("text")];
  const drawn = svg("g", { "aria-hidden": "true" }, shapes.node, words.node);
  const caption = html("p", { class: "ln-caption" });
  let width = 0;
  const { node, canvas, fit } = chart(0, [], [drawn], (room) => (width = room));
  node.append(caption);

  function paint(state, seen) {
    const { kernel, rows, features } = state;
    const { cut, now } = seen;
    const [lanes, lines] = [cut.width * cut.across, cut.tiles * cut.height];
    const beside = besideOf(state, seen);
    const columns = heads[kernel].slice(0, kernel === "forward" && state.padding === "masked" ? 1 : 2);
    const sums = kernel === "backward" ? cut.programs + 1 : 0;
    const place = tilesLayout(width, { lanes, lines, beside: columns.length, sums, single: cut.height === 1 && kernel === "backward" });
    const { left, top, across, down, column, height } = place;
    set(canvas, { height, viewBox: `0 0 ${width} ${height}`, class: across < 32 ? "ln-narrow" : null });
    const frames = now.map((tile) =>
      path(`ln-now ${toneOf(tile.program)}`, box(left + tile.left * across, top + tile.top * down, cut.width * across, cut.height * down)));
    const edge = (k) => left + lanes * across + (k + 1) * column - 2;
    const numbers = place.room ? [
      ...columns.map((head, k) => put("ln-name ln-end", edge(k), top - 8, head)),
      ...beside.flatMap((values, i) => values.map((v, k) => {
        const kind = k > 0 && kernel === "forward" ? "ln-wrong" : "ln-beside";
        return put(`${kind} ln-end`, edge(k), top + (i + 0.5) * down + 4, formatNumber(v));
      })),
    ] : [];
    const parts = [
      padded(state, seen, place, lanes, lines),
      margins(state, seen, place),
      cells(state, seen, place),
      ...(sums > 0 ? [totals(state, seen, place)] : []),
    ];
    shapes.paint([...parts.flatMap((part) => part.shapes), ...frames]);
    words.paint([...parts.slice(1).flatMap((part) => part.words), ...numbers, ...parts[0].words]);
    const held = kernel === "backward" ? "x̂·dy" : "x, and x̂ once it is written";
    const hatched = lanes > features || lines > rows ? "; hatched: lanes without data" : "";
    const first = kernel === "long" && place.room ? "; d: x less the mean of its row’s first tile" : "";
    const shown = place.numbers ? `By row and feature: ${held}. ` : "";
    set(caption, { text: `${shown}Tiles of ${cut.height} × ${cut.width}${hatched}${first}.` });
    set(canvas, { "aria-label": `${rows} rows of ${features} features in tiles of ${cut.height} × ${cut.width}. The sentence below tells this step; the table holds the numbers.` });
  }
  return { node, canvas, fit, paint };
}
