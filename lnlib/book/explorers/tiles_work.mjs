/**
 * What the tile explorer shows: who works on which tile at each step, and what it adds up to.
 *
 * The arithmetic first, then the words. There is nothing of the page in it.
 */
import { clamp, formatNumber, remember } from "./common_old.mjs";

// --- arithmetic ------------------------------------------------------------------------------

export const defaults = Object.freeze(
  { kernel: "forward", rows: 7, features: 6, programs: 2, padding: "masked", step: 1 },
);
export const limits = Object.freeze(
  { rows: [1, 12], features: [1, 16], programs: [1, 3], step: [0, 14] },
);
const eps = 1e-5;
const [mostRows, mostFeatures] = [limits.rows[1], limits.features[1]];
const held = 16; // numbers that a tile holds
const long = 4; // and of a row that is longer
const range = (n) => Array.from({ length: n }, (_, i) => i);
const sumOf = (numbers) => numbers.reduce((sum, v) => sum + v, 0);

/** Numbers that look random and are the same everywhere (Park, Miller 1988), for x, then for dy. */
const [allX, allDy] = (() => {
  let seed = 255; // no row's mean is near 0, and no row is constant, however short
  const next = () => (seed = (16807 * seed) % 2147483647) >> 8;
  const draw = (number) => range(mostRows).map(() => range(mostFeatures).map(number));
  return [draw(() => (next() % 17) / 2 - 2.5), draw(() => (next() % 9) / 4 - 1)];
})();

/** x and dy: the first `rows` rows, of each the first `features` numbers. */
export function example({ rows, features }) {
  const [x, dy] = [allX, allDy].map((all) => all.slice(0, rows).map((row) => row.slice(0, features)));
  return { x, dy };
}

/**
 * How the matrix is cut: tiles of `height` rows × `width` lanes, `tiles` of them down and `across`
 * of them along a row. `rounds` is how many steps it takes to read everything once.
 */
export function plan({ kernel, rows, features, programs: most }) {
  if (kernel === "long") {
    const across = Math.ceil(features / long);
    return { height: 1, width: long, across, tiles: rows, programs: rows, rounds: across, last: 2 * across };
  }
  const width = 1 << (32 - Math.clz32(features - 1)); // a power of two, as a kernel needs it
  const height = Math.min(4, held / width);
  const tiles = Math.ceil(rows / height);
  const backward = kernel === "backward";
  const programs = backward ? Math.min(most, tiles) : tiles;
  const rounds = backward ? Math.ceil(tiles / programs) : tiles;
  // After the rounds, the partial sums are stored, then added one by one.
  return { height, width, across: 1, tiles, programs, rounds, last: backward ? rounds + 1 + programs : rounds };
}

/** The tiles worked on at a step, each by one program: its first row and its first lane. */
export function tilesAt({ kernel }, { height, width, across, tiles, programs, rounds }, step) {
  if (step === 0) return [];
  if (kernel === "forward") return [{ program: step - 1, top: (step - 1) * height, left: 0 }];
  if (kernel === "long") {
    const left = width * (step <= across ? step - 1 : 2 * across - step); // there and back
    return range(programs).map((program) => ({ program, top: program, left }));
  }
  if (step > rounds) return [];
  const first = (step - 1) * programs;
  const running = range(programs).filter((program) => first + program < tiles);
  return running.map((program) => ({ program, top: (first + program) * height, left: 0 }));
}

/** Mean and variance of a row, and what the variance becomes if `padded` lanes of −μ count too. */
export function statistics(row, padded) {
  const mean = sumOf(row) / row.length;
  const squares = sumOf(row.map((v) => (v - mean) ** 2));
  const [variance, counted] = [squares, squares + padded * mean * mean].map((sum) => sum / row.length);
  return { mean, variance, counted };
}

/** What has happened up to a step: reads of each x, partial sums, bytes (bfloat16, sums float32). */
export function after(state, cut, product, step) {
  const { rows, features, kernel } = state;
  const reads = range(rows).map(() => range(features).map(() => 0));
  const sums = range(cut.programs).map(() => range(features).map(() => 0));
  for (let s = 1; s <= step; s++) {
    for (const { program, top, left } of tilesAt(state, cut, s)) {
      for (let i = top; i < Math.min(top + cut.height, rows); i++) {
        for (let j = left; j < Math.min(left + cut.width, features); j++) {
          reads[i][j] += 1;
          sums[program][j] += product[i][j];
        }
      }
    }
  }
  const backward = kernel === "backward";
  const added = backward ? clamp(step - cut.rounds - 1, 0, cut.programs) : 0;
  const dgamma = range(features).map((j) => sumOf(sums.slice(0, added).map((sum) => sum[j])));
  const passes = kernel === "long" ? 2 : 1;
  const written = reads.map((row) => row.map((n) => n === passes));
  const loads = sumOf(reads.flat());
  const stores = written.flat().filter(Boolean).length;
  const stored = backward && step > cut.rounds ? 4 * cut.programs * features : 0;
  const done = backward && added === cut.programs ? 2 * features : 0;
  return {
    ...{ reads, written, sums, added, dgamma },
    read: (backward ? 4 : 2) * loads + 4 * features * added,
    wrote: 2 * stores + stored + done,
  };
}

/** A long row's sums of d = x − m and d² over the tiles read; m is the mean of a sample, here the first tile. */
export function running(row, count) {
  const first = row.slice(0, long);
  const m = sumOf(first) / first.length;
  const seen = row.slice(0, count).map((v) => v - m);
  return { m, sum: sumOf(seen), squares: sumOf(seen.map((d) => d * d)) };
}

/** Everything that is drawn and told, for one state of the traits. */
export const look = remember((state) => {
  const { kernel, features, padding } = state;
  const cut = plan(state);
  const step = Math.min(state.step, cut.last);
  const { x, dy } = example(state);
  const rows = x.map((row) => statistics(row, kernel === "forward" ? cut.width - features : 0));
  const divisor = ({ variance, counted }) => Math.sqrt((padding === "counted" ? counted : variance) + eps);
  const xHat = x.map((row, i) => row.map((v) => (v - rows[i].mean) / divisor(rows[i])));
  const product = xHat.map((row, i) => row.map((v, j) => v * dy[i][j]));
  const truth = range(features).map((j) => sumOf(product.map((row) => row[j])));
  const seen = clamp(step, 0, cut.rounds) * cut.width;
  const along = kernel === "long" ? x.map((row) => running(row, seen)) : [];
  const now = tilesAt(state, cut, step);
  const all = after(state, cut, product, cut.last);
  return { ...after(state, cut, product, step), cut, step, now, x, xHat, product, rows, truth, along, all };
});

/** How many lanes the tiles of a step have, and how many of them hold no number. */
export function lanes({ rows, features }, { cut: { height, width }, now }) {
  const held = now.map(({ top, left }) => Math.min(height, rows - top) * Math.min(width, features - left));
  const total = height * width * now.length;
  return { total, idle: total - sumOf(held) };
}

/** How many padded lanes are counted by mistake at a step. */
function counted({ rows, features, kernel, padding }, { cut, now }) {
  if (kernel !== "forward" || padding === "masked") return 0;
  return Math.min(cut.height, rows - now[0].top) * (cut.width - features);
}

// --- words -----------------------------------------------------------------------------------

const told = (v) => formatNumber(Math.abs(v) < 1e-12 ? 0 : v); // what rounding left of 0

/** "row 2", "rows 2 and 3" or "rows 2 to 5", without `end`. */
export function span(noun, start, end) {
  if (end - start === 1) return `${noun} ${start}`;
  return `${noun}s ${start} ${end - start === 2 ? "and" : "to"} ${end - 1}`;
}

function tellForward(state, seen) {
  const { cut, now: [{ program, top }], rows: statistics } = seen;
  if (counted(state, seen) > 0) {
    const padded = cut.width - state.features;
    const { mean, variance, counted: wrong } = statistics[top];
    return (
      `Program ${program} counts ${padded} lane${padded === 1 ? "" : "s"} of −μ${cut.height > 1 ? " in each row" : ""}: ` +
      `row ${top}, with μ = ${told(mean)}, gets σ² = ${told(wrong)}, not ${told(variance)}.`
    );
  }
  const mine = span("row", top, Math.min(top + cut.height, state.rows));
  return `Program ${program} reads ${mine} of x once, computes mean and variance in its registers, and writes x̂.`;
}

function tellBackward({ rows }, { cut, step, now, sums, added, dgamma }) {
  if (step === cut.rounds + 1) {
    return `The partial sums are written in float32: ${cut.programs} × ${dgamma.length} numbers.`;
  }
  if (added > 0) {
    const adds = `The second stage adds the partial sum of program ${added - 1}`;
    if (added < cut.programs) return `${adds}. Feature 0 is at ${told(dgamma[0])}.`;
    const parts = sums.map((sum) => told(sum[0])).join(", ");
    return `${adds} and writes dγ. Feature 0: ${parts} in order give ${told(dgamma[0])}, the sum over all rows.`;
  }
  const several = now.length > 1;
  const mine = span("row", now[0].top, Math.min(now.at(-1).top + cut.height, rows));
  const [reads, writes, adds] = ["read", "write", "add"].map((verb) => (several ? verb : `${verb}s`));
  const idle = cut.programs > now.length ? ` No tile is left for ${span("program", now.length, cut.programs)}.` : "";
  return (
    `${span("Program", 0, now.length)} ${reads} ${mine} of x and dy once, ${writes} dx, ` +
    `and ${adds} to ${several ? "a partial sum each" : "its partial sum"}.${idle}`
  );
}

function tellLong({ features }, { cut, step, now: [{ left }], rows: [{ mean, variance }] }) {
  const end = Math.min(left + cut.width, features);
  const mine = span("feature", left, end);
  if (step > cut.across) {
    const last = step === cut.across + 1 ? " They are likely still in the cache." : "";
    const short = " One tile holds this row: it could be read once.";
    return `Sweep 2, right to left: each program reads ${mine} again and writes x̂.${cut.across === 1 ? short : last}`;
  }
  const reads = `Sweep 1, left to right: each program adds ${mine} of its row to its sums`;
  if (step < cut.across) return `${reads}, now over ${end} of ${features}.`;
  return `${reads}. Row 0 now has μ = ${told(mean)} and σ² = ${told(variance)}.`;
}

/** What the step shows, in a few words. */
export function verdict(state) {
  const seen = look(state);
  const { cut, step, now, added } = seen;
  if (step === 0) return "Nothing has been read yet";
  if (now.length === 0) {
    return added === 0 ? "Partial sums are stored, not yet added" : `${added} of ${cut.programs} partial sums are in dγ`;
  }
  const wrong = counted(state, seen);
  if (wrong > 0) return `σ² is wrong: ${wrong} padded ${wrong === 1 ? "lane is" : "lanes are"} counted`;
  const sweep = step <= cut.across ? "First" : "Second";
  const { total, idle } = lanes(state, seen);
  const reads = state.kernel === "long" ? `${sweep} read of each x` : "Each x is read once";
  return `${reads}; ${idle > 0 ? `${idle} of ${total} lanes idle` : "no lane is idle"}`;
}

/** What this step does, in words. */
export function sentence(state) {
  const seen = look(state);
  const { cut, read, wrote, all } = seen;
  const tellers = { forward: tellForward, backward: tellBackward, long: tellLong };
  const does = seen.step === 0
    ? `Programs: ${cut.programs}. Tiles: ${cut.tiles * cut.across}, of ${cut.height} × ${cut.width} numbers.`
    : tellers[state.kernel](state, seen);
  return `${does} Bytes read: ${read} of ${all.read}; written: ${wrote} of ${all.wrote}.`;
}

/** All numbers of the picture: the heads of a table, and its rows. */
export function numbers({ kernel }, { reads, rows, sums, added, dgamma, truth, along, step, cut }) {
  if (kernel === "backward") {
    const heads = ["feature", ...sums.map((_, p) => `program ${p}`), "dγ", "all rows at once"];
    const cells = (j) => [...sums.map((sum) => told(sum[j])), added > 0 ? told(dgamma[j]) : "–", told(truth[j])];
    return { heads, lines: truth.map((_, j) => [`${j}`, ...cells(j)]) };
  }
  const shown = (values, when) => values.map((v) => (when ? told(v) : "–"));
  if (kernel === "long") {
    const heads = ["row", "sum of d", "sum of d²", "mean μ", "variance σ²"];
    const line = ({ sum, squares }, i) => [sum, squares].map(told).concat(
      shown([rows[i].mean, rows[i].variance], step >= cut.across));
    return { heads, lines: along.map((one, i) => [`${i}`, ...line(one, i)]) };
  }
  const heads = ["row", "mean μ", "variance σ²", "σ² with padding counted"];
  const lines = rows.map(({ mean, variance, counted }, i) => [`${i}`, ...shown([mean, variance, counted], reads[i][0] > 0)]);
  return { heads, lines };
}
