/**
 * The picture of the tile explorer: the matrix in cells, hatched lanes beside it, sums of dγ below.
 * It does no arithmetic of a kernel: it is handed what `look` in tiles_work.mjs returns.
 */
import { formatNumber, hatchPath, html, set, svg } from "./common.mjs";
import { at, chart, text } from "./frame.mjs";

const tones = ["ln-blue", "ln-vermillion", "ln-green"];
/** The color of a program: neighbors differ, and their names stand beside them. */
export const toneOf = (program) => tones[program % 3];

/** A number that fits in a cell: one decimal. */
export const tenths = (x) => formatNumber(Math.round(10 * x) / 10);

/** Where everything stands: `lines` of `lanes` cells, columns of numbers `beside`, `sums` below. */
export function tilesLayout(width, { lanes, lines, beside, sums, single }) {
  const wide = width >= 560;
  const left = wide ? 110 : single ? 54 : 38; // room for p10 and 10
  const column = wide ? 72 : 40;
  const right = wide || lanes <= 8 ? beside * column : 0; // otherwise they are in the table alone
  const across = Math.min(Math.floor((width - left - right - 2) / lanes), wide ? 48 : 44);
  const down = wide ? 28 : 24;
  const top = 26;
  const below = top + lines * down + 44;
  const height = sums === 0 ? top + lines * down + 8 : below + sums * down + 8;
  return { wide, left, top, across, down, below, height, column, room: right > 0, numbers: across >= 24 };
}

const box = (x, y, width, height) => `M${x} ${y}h${width}v${height}h${-width}z`;
const names = { forward: "x, and x̂ where it is written", backward: "x̂·dy", long: "x, and x̂ where it is written" };
const heads = { forward: ["σ²", "wrong"], long: ["Σd", "Σd²"], backward: [] };

/** Numbers in the columns beside the matrix, a list for each row; null for those not known yet. */
function besideOf({ kernel, padding }, { rows, along, reads, cut, step }) {
  if (kernel === "long") return along.map(({ sum, squares }) => (step > 0 ? [sum, squares] : []));
  if (kernel === "backward") return rows.map(() => []);
  const shown = rows.map(({ variance, counted }) => (padding === "counted" ? [variance, counted] : [variance]));
  return shown.map((values, i) => (reads[i][0] > 0 ? values : []));
}

/** Names of features on top, of programs and rows on the left. */
function margins({ kernel, features }, { cut, now }, place, lines) {
  const { wide, left, top, across, down } = place;
  const every = across < 18 ? 2 : 1;
  const nodes = [text("ln-name ln-end", { x: left - 12, y: top - 9, text: wide ? "row" : "" })];
  for (let j = 0; j < features; j += every) {
    nodes.push(text("ln-tick", { x: left + (j + 0.5) * across, y: top - 9, text: `${j}` }));
  }
  const same = cut.height === 1 && kernel !== "backward"; // a row is called as its program
  for (let i = 0; i < lines && (wide || !same); i++) {
    nodes.push(text("ln-name ln-end", { x: left - 12, y: top + (i + 0.5) * down + 4, text: `${i}` }));
  }
  for (let tile = 0; tile < cut.tiles; tile++) {
    const program = tile % cut.programs;
    const [y, height] = [top + tile * cut.height * down, cut.height * down];
    const runs = now.some((one) => one.top === tile * cut.height);
    nodes.push(svg("rect", { class: `ln-owner ${toneOf(program)}`, x: left - 8, y: y + 2, width: 4, height: height - 4 }));
    const words = wide ? `program ${program}` : `p${program}`;
    const kind = `ln-program ${toneOf(program)}${runs ? " ln-runs" : ""}`;
    nodes.push(text(kind, { x: 0, y: y + height / 2 + 4, text: words }));
  }
  return nodes;
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
    words.push(text(count > 0 ? "ln-cell ln-done" : "ln-cell", { x: cx + across / 2, y: cy + down / 2 + 4, text: tenths(value) }));
  }));
  return [...Object.entries(paths).map(([kind, d]) => svg("path", { class: kind, d })), ...words];
}

/** Hatched lanes hold no data. Counted by mistake, they hold −μ in the rows that were read. */
function padded({ rows, features, kernel, padding }, { reads, rows: statistics }, place, lanes, lines) {
  const { left, top, across, down } = place;
  const [edge, right, bottom] = [left + features * across, left + lanes * across, top + lines * down];
  const hatch = (x0, x1, y0, y1) => (x1 > x0 && y1 > y0 ? hatchPath(x0, x1, y0, y1) + box(x0, y0, x1 - x0, y1 - y0) : "");
  const wrong = kernel === "forward" && padding === "counted" ? reads.filter(([count]) => count > 0).length : 0;
  const start = top + wrong * down; // programs run from the top
  const rest = top + rows * down;
  const d = hatch(edge, right, start, rest) + hatch(left, right, rest, bottom);
  const nodes = [svg("path", { class: "ln-masked", d })];
  for (let i = 0; i < wrong; i++) {
    for (let x = edge; x < right; x += across) {
      nodes.push(svg("path", { class: "ln-mistake", d: box(x + 1, top + i * down + 1, across - 2, down - 2) }));
      const words = { x: x + across / 2, y: top + (i + 0.5) * down + 4, text: tenths(-statistics[i].mean) };
      if (place.numbers) nodes.push(text("ln-cell ln-lane", words));
    }
  }
  return nodes;
}

/** Partial sums of dγ, a row for each program, and dγ, under the columns they are the sums of. */
function totals({ features }, { cut, step, sums, added, dgamma }, place) {
  const { wide, left, below, across, down } = place;
  const names = sums.map((_, p) => (wide ? `program ${p}` : `p${p}`));
  const lines = [...sums.map((sum, p) => [sum, toneOf(p), names[p], step > 0]), [dgamma, "ln-total", "dγ", added > 0]];
  const title = wide ? "sums of x̂·dy over the rows of each program" : "sums over each program’s rows";
  const nodes = [text("ln-head", { x: left, y: below - 10, text: title })];
  lines.forEach(([values, tone, name, known], k) => {
    const y = below + k * down;
    nodes.push(text(`ln-program ${tone}`, { x: 0, y: y + down / 2 + 4, text: name }));
    const d = values.map((_, j) => box(left + j * across + 1, y + 1, across - 2, down - 2)).join("");
    nodes.push(svg("path", { class: `ln-cell-box ${tone} ln-read-${known ? 1 : 0}`, d }));
    if (known && place.numbers) {
      values.forEach((v, j) => nodes.push(text("ln-cell ln-done", { x: left + (j + 0.5) * across, y: y + down / 2 + 4, text: tenths(v) })));
    }
  });
  const from = step - cut.rounds - 2; // the partial sum that is being added
  const outline = (k, tone) => svg("rect", { class: `ln-now ${tone}`, x: left, y: below + k * down, width: features * across, height: down, rx: 3 });
  return from < 0 ? nodes : [...nodes, outline(from, toneOf(from)), outline(sums.length, "ln-total")];
}

/** The matrix with its lanes. `paint` draws it anew: its shape changes with the traits. */
export function tilesChart() {
  const words = [html("span"), html("small")];
  const drawn = svg("g", { "aria-hidden": "true" });
  let width = 0;
  const { node, canvas, fit } = chart(0, words, [drawn], (room) => (width = room));

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
    const edge = (k) => left + lanes * across + (k + 1) * column - 2;
    const end = (x, y, content, kind = "ln-name") => text(`${kind} ln-end`, { x, y, text: content });
    const frames = now.map((tile) => svg("rect", {
      ...{ class: `ln-now ${toneOf(tile.program)}`, rx: 4, width: cut.width * across, height: cut.height * down },
      transform: at(left + tile.left * across, top + tile.top * down),
    }));
    drawn.replaceChildren(
      ...margins(state, seen, place, rows),
      ...padded(state, seen, place, lanes, lines),
      ...cells(state, seen, place),
      ...frames,
      ...(place.room ? columns.map((head, k) => end(edge(k), top - 9, head)) : []),
      ...(place.room ? beside.flatMap((values, i) => values.map((v, k) =>
        end(edge(k), top + (i + 0.5) * down + 4, formatNumber(v), k > 0 && kernel === "forward" ? "ln-wrong" : "ln-beside"))) : []),
      ...(sums > 0 ? totals(state, seen, place) : []),
    );
    set(words[0], { text: names[kernel] });
    const hatched = lanes > features || lines > rows ? "; hatched: masked lanes, without data" : "";
    const first = kernel === "long" && place.room ? "; d: x less the mean of a sample, here the first tile" : "";
    const together = kernel === "forward" ? "; a GPU runs programs at once, in any order" : "";
    set(words[1], { text: `tiles of ${cut.height} × ${cut.width}${hatched}${first}${together}` });
    set(canvas, { "aria-label": `${rows} rows of ${features} features in tiles of ${cut.height} × ${cut.width}. The sentence below tells this step; the tables hold the numbers.` });
  }
  return { node, canvas, fit, paint };
}
