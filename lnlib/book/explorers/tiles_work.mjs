/** What the tile explorer shows: who works on which tile at each step, and what it adds up to. */
import { clamp, formatNumber, range, remember } from "./common.mjs";
import { layerNorm } from "./norm.mjs";

// --- arithmetic ------------------------------------------------------------------------------

const eps = 1e-5;
const sumOf = (numbers) => numbers.reduce((sum, v) => sum + v, 0);

/** The largest x and dy: numbers that look random and are the same everywhere (Park, Miller 1988). */
const [allX, allDy] = (() => {
  let seed = 255; // no row's mean is near 0, and no row is constant, however short
  const next = () => (seed = (16807 * seed) % 2147483647) >> 8;
  const draw = (number) => range(12).map(() => range(16).map(number));
  return [draw(() => (next() % 17) / 2 - 2.5), draw(() => (next() % 9) / 4 - 1)];
})();

/**
 * How the matrix is cut: tiles of `height` rows × `width` lanes, `tiles` of them down and `across`
 * of them along a row. `rounds` is how many steps it takes to read everything once, `running` programs at once.
 */
export function plan({ kernel, rows, features, programs: most, tile, lanes }) {
  if (kernel === "long") {
    const across = Math.ceil(features / lanes);
    return { height: 1, width: lanes, across, tiles: rows, programs: rows, running: rows, rounds: across, last: 2 * across };
  }
  const width = Math.max(lanes, 1 << (32 - Math.clz32(features - 1))); // a power of two that holds the row
  const tiles = Math.ceil(rows / tile);
  const running = Math.min(most, tiles);
  const rounds = Math.ceil(tiles / running);
  const whole = { height: tile, width, across: 1, tiles, running, rounds };
  // After the rounds of the backward kernel, the partial sums are stored, then added one by one.
  return kernel === "backward" ? { ...whole, programs: running, last: rounds + 1 + running } : { ...whole, programs: tiles, last: rounds };
}

/** The tiles worked on at a step, each by one program: its first row and its first lane. */
function tilesAt({ kernel }, { height, width, across, tiles, programs, running, rounds }, step) {
  if (step === 0) return [];
  if (kernel === "long") {
    const left = width * (step <= across ? step - 1 : 2 * across - step); // there and back
    return range(programs).map((program) => ({ program, top: program, left }));
  }
  if (step > rounds) return [];
  const first = (step - 1) * running;
  return range(Math.min(running, tiles - first), (k) => ({ program: (first + k) % programs, top: (first + k) * height, left: 0 }));
}

/** What has happened up to a step: reads of each x, partial sums, bytes (bfloat16, sums float32). */
function after(state, cut, product, step) {
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
  const written = reads.flat().filter((n) => n === (kernel === "long" ? 2 : 1)).length;
  const stored = backward && step > cut.rounds ? 4 * cut.programs * features : 0;
  const done = backward && added === cut.programs ? 2 * features : 0;
  return {
    ...{ reads, sums, added, dgamma },
    read: (backward ? 4 : 2) * sumOf(reads.flat()) + 4 * features * added,
    wrote: 2 * written + stored + done,
  };
}

/** A long row's sums of d = x − m and d² over the tiles read; m is the mean of a sample, here the first tile. */
function walked(row, width, count) {
  const first = row.slice(0, width);
  const m = sumOf(first) / first.length;
  const seen = row.slice(0, count).map((v) => v - m);
  return { m, sum: sumOf(seen), squares: sumOf(seen.map((d) => d * d)) };
}

/** What is the same at each step; of each row, `counted` is the variance if padded lanes of −μ count too, and `counting` says if they do. */
const wholeOf = remember((kernel, rows, features, programs, tile, lanes, padding) => {
  const given = { kernel, rows, features, programs, tile, lanes, padding };
  const cut = plan(given);
  const [x, dy] = [allX, allDy].map((all) => all.slice(0, rows).map((row) => row.slice(0, features)));
  const padded = kernel === "forward" ? cut.width - features : 0;
  const statistics = x.map((row) => {
    const { mean, variance, centered } = layerNorm(row);
    return { mean, variance, centered, counted: variance + (padded * mean * mean) / features };
  });
  const xHat = statistics.map(({ centered, variance, counted }) => {
    const sigma = Math.sqrt((padding === "counted" ? counted : variance) + eps);
    return centered.map((v) => v / sigma);
  });
  const product = xHat.map((row, i) => row.map((v, j) => v * dy[i][j]));
  const truth = range(features).map((j) => sumOf(product.map((row) => row[j])));
  return { given, cut, x, xHat, product, rows: statistics, counting: padding === "counted" && padded > 0, truth, all: after(given, cut, product, cut.last) };
});

/**
 * Everything that is drawn and told, for one state of the traits: of a step's tiles, `total` is the number of lanes, of
 * which `idle` hold no number, and `wrong` padded ones are counted by mistake.
 */
export const look = remember((state) => {
  const { kernel, rows, features, programs, tile, lanes, padding } = state;
  const whole = wholeOf(kernel, rows, features, programs, tile, lanes, padding);
  const { cut, cut: { height, width }, x, product } = whole;
  const step = Math.min(state.step, cut.last);
  const now = tilesAt(state, cut, step);
  const along = kernel === "long" ? x.map((row) => walked(row, width, clamp(step, 0, cut.rounds) * width)) : [];
  const full = now.map(({ top, left }) => Math.min(height, rows - top) * Math.min(width, features - left));
  const total = height * width * now.length;
  const wrong = whole.counting && step > 0 ? Math.min(height * now.length, rows - now[0].top) * (width - features) : 0;
  return { ...whole, whole, ...after(state, cut, product, step), step, now, along, total, idle: total - sumOf(full), wrong };
});

// --- words -----------------------------------------------------------------------------------

const told = (v) => formatNumber(Math.abs(v) < 1e-12 ? 0 : v); // what rounding left of 0

/** "row 2", "rows 2 and 3" or "rows 2 to 5", without `end`. */
function span(noun, start, end) {
  if (end - start === 1) return `${noun} ${start}`;
  return `${noun}s ${start} ${end - start === 2 ? "and" : "to"} ${end - 1}`;
}

/** Who runs at a step, their rows, and what they do: one reads, several read. */
function atWork({ rows }, { cut, now }) {
  const [{ program, top }, last] = [now[0], now.at(-1)];
  const who = span("Program", program, last.program + 1);
  const mine = span("row", top, Math.min(last.top + cut.height, rows));
  return { who, mine, do: (verb) => (now.length > 1 ? verb : `${verb}s`), its: now.length > 1 ? "their" : "its" };
}

function tellForward(state, seen) {
  const { cut, now: [{ top }], rows, wrong } = seen;
  const { who, mine, do: does, its } = atWork(state, seen);
  if (wrong > 0) {
    const padded = cut.width - state.features;
    const { mean, variance, counted } = rows[top];
    return (
      `${who} ${does("count")} ${padded} lane${padded === 1 ? "" : "s"} of −μ${wrong > padded ? " in each row" : ""}: ` +
      `row ${top}, with μ = ${told(mean)}, gets σ² = ${told(counted)}, not ${told(variance)}.`
    );
  }
  return `${who} ${does("read")} ${mine} of x once, ${does("compute")} mean and variance in ${its} registers, and ${does("write")} x̂.`;
}

function tellBackward(state, seen) {
  const { cut, step, now, sums, added, dgamma } = seen;
  if (step === cut.rounds + 1) {
    return `The partial sums are written in float32: ${cut.programs} × ${dgamma.length} numbers.`;
  }
  if (added > 0) {
    const adds = `The second stage adds the partial sum of program ${added - 1}`;
    if (added < cut.programs) return `${adds}. Feature 0 is at ${told(dgamma[0])}.`;
    const parts = sums.map((sum) => told(sum[0])).join(", ");
    return `${adds} and writes dγ. Feature 0: ${parts} in order give ${told(dgamma[0])}, the sum over all rows.`;
  }
  const { who, mine, do: does } = atWork(state, seen);
  const idle = cut.programs > now.length ? ` No tile is left for ${span("program", now.length, cut.programs)}.` : "";
  return (
    `${who} ${does("read")} ${mine} of x and dy once, ${does("write")} dx, ` +
    `and ${does("add")} to ${now.length > 1 ? "a partial sum each" : "its partial sum"}.${idle}`
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

/** What the step shows, in words that fit one line of a phone, so that the picture keeps its place under a hand. */
export function verdict(state) {
  const { cut, step, now, added, total, idle, wrong } = look(state);
  if (step === 0) return "Nothing has been read yet";
  if (now.length === 0) {
    return added === 0 ? "Partial sums are stored, not yet added" : `${added} of ${cut.programs} partial sums are in dγ`;
  }
  if (wrong > 0) return `σ² is wrong: ${wrong} padded ${wrong === 1 ? "lane counts" : "lanes count"}`;
  const sweep = step <= cut.across ? "First" : "Second";
  const reads = state.kernel === "long" ? `${sweep} read of x` : "x is read once";
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

/** What is asked before a step that is the first to read rows, and which rows it reads. */
export function question(state) {
  const { cut, step, now } = look(state);
  if (now.length === 0 || step > (state.kernel === "long" ? 1 : cut.rounds)) return null;
  const who = cut.running === 1 ? "One program runs at a time," : `${cut.running} programs run at a time, each`;
  return `${who} with a tile of ${cut.height} × ${cut.width}. Drag the marker to the last row that step ${step} reads.`;
}
export function answer(state, said) {
  const { cut: { height }, step, now } = look(state);
  return `You said row ${said - 1}; step ${step} reads ${span("row", now[0].top, Math.min(now.at(-1).top + height, state.rows))}.`;
}

/** All numbers of the picture: the heads of a table, and its columns. */
export function numbers({ kernel }, { reads, rows, sums, added, dgamma, truth, along, step, cut }) {
  const column = (all, name, when = () => true) => all.map((one, i) => (when(i) ? told(one[name]) : "–"));
  if (kernel === "backward") {
    const heads = ["feature", ...sums.map((_, p) => `program ${p}`), "dγ", "all rows at once"];
    const total = dgamma.map((v) => (added > 0 ? told(v) : "–"));
    return { heads, columns: [...sums.map((sum) => sum.map(told)), total, truth.map(told)] };
  }
  const ofRows = (when, ...names) => names.map((name) => column(rows, name, when));
  if (kernel === "long") {
    const heads = ["row", "sum of d", "sum of d²", "mean μ", "variance σ²"];
    return { heads, columns: [column(along, "sum"), column(along, "squares"), ...ofRows(() => step >= cut.across, "mean", "variance")] };
  }
  const heads = ["row", "mean μ", "variance σ²", "σ² with padding counted"];
  return { heads, columns: ofRows((i) => reads[i][0] > 0, "mean", "variance", "counted") };
}
