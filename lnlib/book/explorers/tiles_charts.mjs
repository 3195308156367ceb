/** The picture of the tile explorer: the matrix in cells, hatched lanes beside it, sums of dγ below. */
import { chart, mark, path, text } from "./chart.mjs";
import { clamp, formatNumber, hatchPath, html, range, remember, set } from "./common.mjs";

/** The color of a program: neighbors differ, and their names stand beside them. */
const toneOf = (program) => ["ln-blue", "ln-vermillion", "ln-green"][program % 3];

/** A number that fits in a cell: one decimal. */
const tenths = (x) => formatNumber(Math.round(10 * x) / 10);
const square = (x, y, width, height) => `M${x} ${y}h${width}v${height}h${-width}z`;
/** A cell, with a gap to its neighbors. */
const cell = ({ across, down }, x, y) => square(x + 1, y + 1, across - 2, down - 2);

/** Where everything stands: `lines` of `lanes` cells, columns of numbers beside them, `sums` below. */
const placeOf = remember((width, { cut, given: { kernel, padding } }) => {
  const backward = kernel === "backward";
  const [lanes, lines, sums] = [cut.width * cut.across, cut.tiles * cut.height, backward ? cut.programs + 1 : 0];
  const heads = { forward: ["σ²", "wrong"].slice(0, padding === "counted" ? 2 : 1), long: ["Σd", "Σd²"], backward: [] }[kernel];
  const wide = width >= 560;
  const left = wide ? 110 : cut.height === 1 && backward ? 54 : 42; // room for p10 and 10
  const column = wide ? 72 : 40;
  const right = wide || lanes <= 8 ? heads.length * column : 0; // otherwise they are in the table alone
  const across = Math.min(Math.floor((width - left - right - 2) / lanes), wide ? 48 : 44);
  const [top, gap, foot] = [20, 30, 6];
  const room = (wide ? 314 : 396) - top - foot - (sums > 0 ? gap : 0); // one screen
  const down = clamp(Math.floor(room / (lines + sums)), 16, wide ? 28 : 24);
  const below = top + lines * down + gap;
  const height = foot + (sums === 0 ? top + lines * down : below + sums * down);
  const edge = (k) => left + lanes * across + (k + 1) * column - 2;
  const x = (j) => left + (j + 0.5) * across; // of a number in a cell
  const y = (i, from = top) => from + (i + 0.5) * down + 4;
  return { wide, left, top, across, down, below, height, lanes, lines, edge, x, y, heads: right > 0 ? heads : [], numbers: across >= 24 };
});

/** What no step changes: features and columns on top, rows and the colors of programs on the left. */
const marginsOf = remember((place, { cut, given: { kernel, features, rows } }) => {
  const { wide, left, top, across, down, heads, edge, x, y } = place;
  const every = across < 18 ? 2 : 1;
  const same = cut.height === 1 && kernel !== "backward"; // a row is called as its program
  const owner = (tile) =>
    path(`ln-owner ${toneOf(tile % cut.programs)}`, square(left - 8, top + tile * cut.height * down + 2, 4, cut.height * down - 4));
  return {
    owners: range(cut.tiles, owner),
    words: [
      text("ln-name ln-end", left - 12, top - 8, wide ? "row" : ""),
      range(features, (j) => j % every === 0 && text("ln-tick", x(j), top - 8, `${j}`)),
      range(rows, (i) => (wide || !same) && text("ln-name ln-end", left - 12, y(i), `${i}`)),
      heads.map((head, k) => text("ln-name ln-end", edge(k), top - 8, head)),
    ],
  };
});

const programName = ({ wide }, program, y, kind) =>
  text(`ln-program ${kind}`, 0, y, wide ? `program ${program}` : `p${program}`);

/** Names of programs, those that run in bold. */
function programNames({ cut, now }, place) {
  const { top, down } = place;
  return range(cut.tiles, (tile) => {
    const runs = now.some((one) => one.top === tile * cut.height);
    const program = tile % cut.programs;
    return programName(place, program, top + (tile + 0.5) * cut.height * down + 4, `${toneOf(program)}${runs ? " ln-runs" : ""}`);
  });
}

/** The cells of a row: a tint for the program, stronger with each read; a number where there is room. */
function makeRow(place, { cut, x, xHat, product, given: { kernel } }, i, reads) {
  const tone = toneOf(Math.floor(i / cut.height) % cut.programs);
  const [paths, passes] = [{}, kernel === "long" ? "2" : "1"];
  const words = [...reads].map((count, j) => {
    paths[count] = (paths[count] ?? "") + cell(place, place.left + j * place.across, place.top + i * place.down);
    if (!place.numbers) return null;
    const value = kernel === "backward" ? product[i][j] : (count === passes ? xHat : x)[i][j];
    return text(count > "0" ? "ln-cell ln-done" : "ln-cell", place.x(j), place.y(i), tenths(value));
  });
  const boxes = Object.entries(paths).map(([count, d]) => path(`ln-cell-box ${tone} ln-read-${count}`, d));
  return [mark("g", {}, boxes), mark("g", {}, words)];
}
/** Each row is kept until it is read. */
const rowsOf = range(12, () => remember(makeRow));

/** Hatched lanes hold no data. Counted by mistake, they hold −μ in the rows that were read. */
const paddedOf = remember((place, { rows: statistics, given: { rows, features } }, wrong) => {
  const { left, top, across, down, lanes, lines } = place;
  const [edge, right, bottom] = [left + features * across, left + lanes * across, top + lines * down];
  const hatch = (x0, x1, y0, y1) => (x1 > x0 && y1 > y0 ? hatchPath(x0, x1, y0, y1) + square(x0, y0, x1 - x0, y1 - y0) : "");
  const padded = lanes - features;
  const [start, rest] = [top + wrong * down, top + rows * down]; // programs run from the top
  const mistakes = range(wrong * padded, (k) => [Math.floor(k / padded), features + (k % padded)]);
  return {
    shapes: [
      path("ln-masked", hatch(edge, right, start, rest) + hatch(left, right, rest, bottom)),
      mark("g", {}, mistakes.map(([i, j]) => path("ln-mistake", cell(place, left + j * across, top + i * down)))),
    ],
    words: mistakes.map(([i, j]) => place.numbers && text("ln-cell ln-lane", place.x(j), place.y(i), tenths(-statistics[i].mean))),
  };
});

/** Partial sums of dγ, a row for each program, and dγ, under the columns they are the sums of. */
function totals({ cut, step, sums, added, dgamma, given: { features } }, place) {
  const { wide, left, below, across, down } = place;
  const title = wide ? "sums of x̂·dy over the rows of each program" : "sums over each program’s rows";
  const from = step - cut.rounds - 2; // the partial sum that is being added
  const outline = (k, tone) => from >= 0 && path(`ln-now ${tone}`, square(left, below + k * down, features * across, down));
  const rows = [...sums.map((sum, p) => [sum, toneOf(p), step > 0]), [dgamma, "ln-total", added > 0]];
  return {
    shapes: [
      rows.map(([values, tone, known], k) =>
        path(`ln-cell-box ${tone} ln-read-${known ? 1 : 0}`, values.map((_, j) => cell(place, left + j * across, below + k * down)).join(""))),
      outline(from, toneOf(from)),
      outline(sums.length, "ln-total"),
    ],
    words: [
      text("ln-title", left, below - 8, title),
      rows.map(([values, tone, known], k) => [
        k < sums.length ? programName(place, k, place.y(k, below), tone) : text(`ln-program ${tone}`, 0, place.y(k, below), "dγ"),
        values.map((v, j) => place.numbers && text("ln-cell ln-done", place.x(j), place.y(k, below), known ? tenths(v) : "")),
      ]),
    ],
  };
}

/** Numbers in the columns beside the matrix, a list for each row; none for those not known yet. */
function besideOf({ rows, along, reads, step, given: { kernel, padding } }) {
  if (kernel === "long") return along.map(({ sum, squares }) => (step > 0 ? [sum, squares] : []));
  const shown = rows.map(({ variance, counted }) => (padding === "counted" ? [variance, counted] : [variance]));
  return shown.map((values, i) => (reads[i][0] > 0 ? values : []));
}

/** The matrix with its lanes, and below it what the cells hold. */
export function tilesChart() {
  const caption = html("p", { class: "ln-caption" });

  function view(width, _, seen) {
    const { cut, now, reads, whole, given: { kernel, rows, features, padding } } = seen;
    const place = placeOf(width, whole);
    const { left, top, across, down, lanes, lines } = place;
    const wrong = kernel === "forward" && padding === "counted" ? reads.filter(([count]) => count > 0).length : 0;
    const frame = ({ program, top: row, left: lane }) =>
      path(`ln-now ${toneOf(program)}`, square(left + lane * across, top + row * down, cut.width * across, cut.height * down));
    const beside = (values, i) => values.map((v, k) =>
      text(`${k > 0 && kernel === "forward" ? "ln-wrong" : "ln-beside"} ln-end`, place.edge(k), place.y(i), formatNumber(v)));
    const cells = reads.map((counts, i) => rowsOf[i](place, whole, i, counts.join("")));
    const [padded, margins] = [paddedOf(place, whole, wrong), marginsOf(place, whole)];
    const sums = kernel === "backward" ? totals(seen, place) : { shapes: [], words: [] };

    const held = kernel === "backward" ? "x̂·dy" : "x, and x̂ once it is written";
    const hatched = lanes > features || lines > rows ? "; hatched: lanes without data" : "";
    const first = kernel === "long" && place.heads.length ? "; d: x less the mean of its row’s first tile" : "";
    const shown = place.numbers ? `By row and feature: ${held}. ` : "";
    set(caption, { text: `${shown}Tiles of ${cut.height} × ${cut.width}${hatched}${first}.` });
    set(made.canvas, { class: across < 32 ? "ln-narrow" : null });
    return [
      [padded.shapes, margins.owners, cells.map(([boxes]) => boxes), sums.shapes, mark("g", {}, now.map(frame))],
      [margins.words, programNames(seen, place), cells.map(([, words]) => words), sums.words],
      [place.heads.length > 0 && besideOf(seen).map(beside), padded.words],
    ];
  }
  const label = ({ rows, features }, { cut: { height, width } }) =>
    `${rows} rows of ${features} features in tiles of ${height} × ${width}. The sentence below tells this step; the table holds the numbers.`;
  const made = chart({ height: (width, _, { whole }) => placeOf(width, whole).height, view, label });
  made.node.append(caption);
  return made;
}
