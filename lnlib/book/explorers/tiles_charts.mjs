/** The picture of the tile explorer: the matrix in cells, hatched lanes beside it, sums of dγ below. */
import { at, chart, mark, path, text } from "./chart.mjs";
import { clamp, formatNumber, hatchPath, html, range, remember, set } from "./common.mjs";
import { draggable, makeAsked, makeRing, steerable } from "./handles.mjs";
import { plan } from "./tiles_work.mjs";

/** The color of a program: neighbors differ, and their names stand beside them. */
const toneOf = (program) => ["ln-blue", "ln-vermillion", "ln-green", "ln-pink"][program % 4];

/** A number that fits in a cell: one decimal. */
const tenths = (x) => formatNumber(Math.round(10 * x) / 10);
const square = (x, y, width, height) => `M${x} ${y}h${width}v${height}h${-width}z`;
/** A cell, with a gap to its neighbors. */
const cell = ({ across, down }, x, y) => square(x + 1, y + 1, across - 2, down - 2);

/**
 * Where everything stands: `lanes` across and `lines` down of what tiles cover, columns of numbers beside them, `sums` below.
 * A cell has its size from the kernel and the width, and on a phone half of it in more than 8 lanes, so that it stays
 * while a hand drags a corner.
 */
const placeOf = remember((width, { cut, counting, given: { kernel } }) => {
  const backward = kernel === "backward";
  const [lanes, lines, sums] = [cut.width * cut.across, cut.tiles * cut.height, backward ? cut.programs + 1 : 0];
  const heads = { forward: ["σ²", "wrong"].slice(0, counting ? 2 : 1), long: ["Σd", "Σd²"], backward: [] }[kernel];
  const wide = width >= 560;
  const [left, column] = wide ? [110, 48] : [46, 40];
  const [most, shown] = wide ? [16, 2] : lanes <= 8 ? [8, heads.length] : [16, 0]; // others are in the table alone
  const across = Math.min(Math.floor((width - left - shown * column - 16) / most), 34);
  const [top, gap, foot] = [20, 28, 12];
  const down = wide ? (backward ? 15 : 21) : backward ? 19 : 23; // one screen
  const below = top + 12 * down + gap;
  const height = foot + (sums === 0 ? top + 12 * down : below + sums * down);
  const edge = (k) => left + lanes * across + (k + 1) * column + 4; // past the ring of the tile
  const x = (j) => left + (j + 0.5) * across; // of a number in a cell
  const y = (i, from = top) => from + (i + 0.5) * down + 4;
  return { wide, left, top, across, down, below, height, lanes, lines, field: square(left, top, most * across, 12 * down), edge, x, y, heads: shown > 0 ? heads : [], numbers: across >= 24 };
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
function besideOf({ rows, along, reads, step, counting, given: { kernel } }) {
  if (kernel === "long") return along.map(({ sum, squares }) => (step > 0 ? [sum, squares] : []));
  const shown = rows.map(({ variance, counted }) => (counting ? [variance, counted] : [variance]));
  return shown.map((values, i) => (reads[i][0] > 0 ? values : []));
}

const arrows = "M-3 -3L3 3M-3 -0.5V-3H-0.5M3 0.5V3H0.5";

/** The matrix with its lanes, and below it what the cells hold. The array and its first tile are dragged by their corners. */
export function tilesChart({ change, commit, guessGrip, now, traits }) {
  const caption = html("p", { class: "ln-caption" });
  let place = null;

  const cut = (more) => plan({ ...Object.fromEntries(Object.keys(traits).map((name) => [name, now(name)])), ...more });
  const sizes = (values) => Object.entries(values).forEach(([trait, v]) => change(trait, v));
  /** A ring that sizes what it is the corner of: `size()` is its rows and columns, and `by` takes one of these some steps on. */
  function corner(name, of, [low, most], { size, put, by }) {
    const { node } = makeRing({ r: 7, arrows, class: "ln-handle ln-free ln-later", "data-trait": of });
    let held = null;
    const take = (x, y, high = size()[0]) => (held = { from: [x, y], across: place.across, size: [high, size()[1]] }).from;
    draggable(node, {
      where: take,
      move(x, y) {
        if (held.across !== place.across) take(x, held.from[1], held.size[0]); // cells have another size: go on from here
        put(held.size[0] + (y - held.from[1]) / place.down, held.size[1] + (x - held.from[0]) / place.across);
      },
      end: commit,
    });
    steerable(node, { name, low, high: most, step: (right, up) => put(by(size()[0], -up), by(size()[1], right)), end: commit });
    return { node, paint: (x, y, words, count) => set(node, { transform: at(x + 4, y + 4), "aria-valuetext": words, "aria-valuenow": count }) };
  }
  const array = corner("Array", "rows features", [1, 192], {
    size: () => [now("rows"), now("features")],
    put: (rows, features) => sizes({ rows, features }),
    by: (v, steps) => v + steps,
  });
  const tile = corner("Tile", "tile lanes", [2, 64], {
    size: () => [cut().height, cut().width],
    put(rows, lanes) {
      const reaching = 2 ** Math.ceil(Math.log2(Math.max(lanes - 0.75, 1))); // a hand cannot reach 16 lanes on a phone
      sizes({ ...(now("kernel") !== "long" && { tile: rows }), lanes: Math.max(reaching, cut({ lanes: 0 }).width) });
    },
    by: (v, steps) => v * 2 ** steps,
  });

  const ghost = makeAsked();
  const counted = () => Object.assign((count) => place.top + (count - 0.5) * place.down, { invert: (y) => (y - place.top) / place.down + 0.5 });
  const moveGhost = guessGrip("rows", ghost, { along: "y", from: 1, names: ["Your guess of the last row"], scale: counted });

  function view(width, _, seen, { guessing, said = 1 }) {
    const { cut, now: atWork, reads, whole, counting, given: { kernel, rows, features } } = seen;
    place = placeOf(width, whole);
    const { left, top, across, down, lanes, lines } = place;
    const done = reads.filter(([count]) => count > 0).length;
    const frame = ({ program, top: row, left: lane }) =>
      path(`ln-now ${toneOf(program)}`, square(left + lane * across, top + row * down, cut.width * across, cut.height * down));
    const beside = (values, i) => values.map((v, k) =>
      text(`${k > 0 && kernel === "forward" ? "ln-wrong" : "ln-beside"} ln-end`, place.edge(k), place.y(i), formatNumber(Math.abs(v) < 1e-12 ? 0 : v))); // a sum that is rounding alone
    const cells = reads.map((counts, i) => rowsOf[i](place, whole, i, counts.join("")));
    const [padded, margins] = [paddedOf(place, whole, counting ? done : 0), marginsOf(place, whole)];
    const sums = kernel === "backward" ? totals(seen, place) : { shapes: [], words: [] };

    const held = kernel === "backward" ? "x̂·dy" : "x, and x̂ once it is written";
    const hatched = lanes > features || lines > rows ? "; hatched: lanes without data" : "";
    const first = kernel === "long" && place.heads.length ? "; d: x less the mean of its row’s first tile" : "";
    const shown = place.numbers ? `By row and feature: ${held}. ` : "";
    set(caption, { text: `${shown}Tiles of ${cut.height} × ${cut.width}${hatched}${first}.` });
    set(made.canvas, { class: across < 30 ? "ln-narrow" : null });
    const [right, bottom, end, foot] = [left + features * across, top + rows * down, left + cut.width * across, top + cut.height * down];
    const near = Math.max(Math.abs(right - end), Math.abs(bottom - foot)) < 44; // a finger has to find both
    array.paint(right, bottom, `${rows} × ${features} numbers`, rows * features);
    tile.paint(near ? right - 44 : end, foot, `${cut.height} × ${cut.width} lanes`, cut.height * cut.width);
    moveGhost((count) => at(right + 16, counted()(count)), (count) => `row ${count - 1}`);
    const guess = guessing && said > done && path("ln-rule", square(left, top + done * place.down, right - left, (said - done) * place.down));
    const edges = guessing ? guess : path("ln-edges", square(left, top, right - left, bottom - top) + square(left, top, end - left, foot - top));
    const shapes = [[path("ln-field-edge", place.field), padded.shapes], margins.owners, cells.map(([boxes]) => boxes), sums.shapes, atWork.map(frame), edges];
    const words = [margins.words, programNames(seen, place), cells.map(([, words]) => words), sums.words, place.heads.length > 0 && besideOf(seen).map(beside), padded.words];
    return [...shapes, ...words].map((marks) => mark("g", {}, marks)); // how many one group has moves no other
  }
  const label = ({ rows, features }, { cut: { height, width } }) =>
    `${rows} rows of ${features} features in tiles of ${height} × ${width}. The sentence below tells this step; the table holds the numbers.`;
  const made = chart({ height: (width, _, { whole }) => placeOf(width, whole).height, view, label, handles: [array.node, tile.node, ghost] });
  made.node.append(caption);
  return made;
}
