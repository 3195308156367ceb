// The tile explorer: variances, reads and partial sums of dγ, against lnlib.formula.
import { answer, look, question, sentence, verdict } from "../../lnlib/book/explorers/tiles_work.mjs";
import { assert, close, each, first, says, test } from "./golden.mjs";

const sum = (numbers) => numbers.flat().reduce((a, b) => a + b, 0);

test("numbers, reads and bytes are those of the formula", each("tiles", ({ state, rows, along, sums, truth, ...rest }, where) => {
  const { kernel, rows: B, features: H } = state;
  const [seen, n] = [look(state), B * H];
  close(seen, rest, where);
  close(seen.rows.map(({ mean, variance, counted }) => [mean, variance, counted]), rows, `${where} rows`);
  close(seen.along.map((one) => [one.sum, one.squares]), kernel === "long" ? along : [], `${where} along`);
  const before = look({ ...state, step: Math.max(seen.step - 1, 0) });
  assert.equal(seen.total - seen.idle, sum(seen.reads) - sum(before.reads), where);
  const partial = 4 * seen.cut.programs * H; // float32, the others are bfloat16
  const bytes = { forward: [2 * n, 2 * n], backward: [4 * n + partial, 2 * n + partial + 2 * H], long: [4 * n, 2 * n] };
  assert.deepEqual([seen.all.read, seen.all.wrote], bytes[kernel], where);
  const added = truth.map((_, j) => sum(seen.sums.slice(0, seen.added).map((one) => one[j])));
  if (kernel === "backward") close([seen.sums, seen.truth, seen.dgamma, look({ ...state, step: 16 }).dgamma], [sums, truth, added, truth], where);
}));

const [back, long, adds, again] = [{ kernel: "backward" }, { kernel: "long", features: 14, lanes: 4 }, "The second stage adds the partial sum of program", "Sweep 2, right to left: each program reads features"];
test("words", says("tiles", [
  [{ step: 0 }, "Nothing has been read yet", "Programs: 4. Tiles: 4, of 2 × 8 numbers. Bytes read: 0 of 84; written: 0 of 84."],
  [{ padding: "counted", features: 8, programs: 1 }, "x is read once; no lane is idle", "Program 0 reads rows 0 and 1 of x once, computes mean and variance in its registers, and writes x̂. Bytes read: 32 of 112; written: 32 of 112."],
  [{ padding: "counted", features: 7, rows: 1 }, "σ² is wrong: 1 padded lane counts", "Program 0 counts 1 lane of −μ: row 0, with μ = 1.29, gets σ² = 7.23, not 6.99. Bytes read: 14 of 14; written: 14 of 14."],
  [{ padding: "counted", features: 14, step: 3 }, "σ² is wrong: 6 padded lanes count", "Programs 2 and 3 count 2 lanes of −μ in each row: row 4, with μ = 2.11, gets σ² = 9.64, not 9.01. Bytes read: 196 of 196; written: 196 of 196."],
  [{ ...back, rows: 11, programs: 3 }, "x is read once; 12 of 48 lanes idle", "Programs 0 to 2 read rows 0 to 5 of x and dy once, write dx, and add to a partial sum each. Bytes read: 144 of 336; written: 72 of 216."],
  [{ ...back, programs: 3, step: 2 }, "x is read once; 10 of 16 lanes idle", "Program 0 reads row 6 of x and dy once, writes dx, and adds to its partial sum. No tile is left for programs 1 and 2. Bytes read: 168 of 240; written: 84 of 168."],
  [{ ...back, step: 3 }, "Partial sums are stored, not yet added", "The partial sums are written in float32: 2 × 6 numbers. Bytes read: 168 of 216; written: 132 of 144."],
  [{ ...back, step: 4 }, "1 of 2 partial sums are in dγ", `${adds} 0. Feature 0 is at 0.434. Bytes read: 192 of 216; written: 132 of 144.`],
  [{ ...back, step: 14 }, "2 of 2 partial sums are in dγ", `${adds} 1 and writes dγ. Feature 0: 0.434, 0.407 in order give 0.841, the sum over all rows. Bytes read: 216 of 216; written: 144 of 144.`],
  [long, "First read of x; no lane is idle", "Sweep 1, left to right: each program adds features 0 to 3 of its row to its sums, now over 4 of 14. Bytes read: 56 of 392; written: 0 of 196."],
  [{ ...long, step: 4 }, "First read of x; 14 of 28 lanes idle", "Sweep 1, left to right: each program adds features 12 and 13 of its row to its sums. Row 0 now has μ = 0.821 and σ² = 5.13. Bytes read: 196 of 392; written: 0 of 196."],
  [{ ...long, step: 5 }, "Second read of x; 14 of 28 lanes idle", `${again} 12 and 13 again and writes x̂. They are likely still in the cache. Bytes read: 224 of 392; written: 28 of 196.`],
  [{ ...long, step: 6 }, "Second read of x; no lane is idle", `${again} 8 to 11 again and writes x̂. Bytes read: 280 of 392; written: 84 of 196.`],
  [{ ...long, features: 3, step: 2 }, "Second read of x; 7 of 28 lanes idle", `${again} 0 to 2 again and writes x̂. One tile holds this row: it could be read once. Bytes read: 84 of 84; written: 42 of 42.`],
], verdict, sentence));
test("what is asked before a step, and which rows it read", () => {
  const states = [{}, { ...back, rows: 11, programs: 3, step: 2 }, { ...long, rows: 1 }, { tile: 4, programs: 1, step: 2 }].map((one) => ({ ...first("tiles"), ...one }));
  assert.deepEqual(states.map(question).map((asked) => asked.split(". Drag the marker to the last row that ")), [
    ["2 programs run at a time, each with a tile of 2 × 8", "step 1 reads."], ["3 programs run at a time, each with a tile of 2 × 8", "step 2 reads."],
    ["One program runs at a time, with a tile of 1 × 4", "step 1 reads."], ["One program runs at a time, with a tile of 4 × 8", "step 2 reads."],
  ]);
  assert.deepEqual(states.map((state) => answer(state, 2).slice(16)), ["step 1 reads rows 0 to 3.", "step 2 reads rows 6 to 10.", "step 1 reads row 0.", "step 2 reads rows 4 to 6."]);
  assert.deepEqual([{ ...back, step: 4 }, { ...long, step: 2 }].map((one) => question({ ...first("tiles"), ...one })), [null, null]);
});
