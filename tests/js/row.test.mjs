// The row machine: its terms against lnlib.formula, its words, and what its handles, buttons and axes do.
import * as row from "../../lnlib/book/explorers/row.mjs";
import { axisOf, stretched } from "../../lnlib/book/explorers/row_charts.mjs";
import { assert, close, each, first, says, test } from "./golden.mjs";

const [start, five] = [first("row"), Array(8).fill(5)];
const { x: book } = start;
const flat = book.map((v) => 5 + (v - 5) / 2e4);

test("every term is that of the formula", each("row", ({ state: { eps, weight, bias }, rows }, where) => {
  for (const { x, ofX, free } of rows) {
    const ours = row.terms(x, eps, weight, bias);
    close(ours, ofX, where, 1e-12, 2e-15 * Math.max(...x.map(Math.abs))); // a sum of 8 is off by 8 roundings of the largest
    close(ours, free, where, 1e-12, 1e-12); // numbers of at most √7, and up to 22 in y, that may cancel
  }
}));

test("words", says("row", [
  [{}, "x̂ has mean 0 and spread 1", "μ = 5 and σ = 2; x̂ goes from −1.5 to 2, and can never pass ±√7 = ±2.65."],
  [{ x: flat }, "ε decides: x̂ has spread 0.0316", "μ = 5 and σ = 1e-4; √(σ² + ε) = 0.00316, so x̂ goes from −0.0474 to 0.0632."],
  [{ eps: 0.06 }, "ε takes part: x̂ has spread 0.993", "μ = 5 and σ = 2; √(σ² + ε) = 2.01, so x̂ goes from −1.49 to 1.99."],
  [{ eps: 1, weight: -2, bias: 1 }, "ε takes part: x̂ has spread 0.894", "μ = 5 and σ = 2; √(σ² + ε) = 2.24, so x̂ goes from −1.34 to 1.79; y goes from −2.58 to 3.68."],
  [{ x: [0, 0, 0, 0, 0, 0, 0, 8], eps: 0, bias: 1 }, "The others span 0, not 2.5 (outline)", "μ = 1 and σ = 2.65; x̂ goes from −0.378 to 2.65; y goes from 0.622 to 3.65."],
  [{ x: book.with(3, 24) }, "The others span 1.1, not 3.5 (outline)", "μ = 7.5 and σ = 6.54; x̂ goes from −0.841 to 2.52, and can never pass ±√7 = ±2.65."],
  [{ x: five, bias: 3 }, "All are equal: σ = 0, and x̂ = 0", "μ = 5 and σ = 0; √(σ² + ε) = 0.00316, so x̂ is 0 throughout; y is 3 throughout."],
  [{ x: five, eps: 0 }, "0 ÷ 0: x̂ is NaN", "μ = 5 and σ = 0, and ε = 0 as well: x̂ = 0 ÷ 0 is not a number, and so is y."],
], (state) => row.verdict(state, row.terms(book, 0, 1, 0).xHat), row.sentence));

test("μ and σ keep the shape through σ = 0, leave no tail of digits and stay in bounds; buttons flatten a row or raise its largest", () => {
  const [{ to, of }, [up, flatten]] = [row.shaper(1e7), Object.values(row.deeds)];
  const rows = [["mean", 105.1], ["std", 0.2], ["std", 0], ["mean", 5], ["std", 2]].reduce((all, one) => [...all, to(all.at(-1), ...one)], [book]);
  const bounded = ["mean", "std"].every((name) => Math.max(...to(book, name, Infinity)) <= 1e7 && of(book).std === 2);
  assert.deepEqual([rows[1][0], rows[2][0], rows[3], rows[5], bounded], [102.1, 104.8, Array(8).fill(105.1), book, true]);
  close([up([1, 9, 9]), flatten(book), flatten(five)], [[1, 1e6, 9], flat, flat], "buttons");
});
test("x̂ is told to have stayed only after the row has moved by half of σ, and not of a constant row", () => {
  const told = (...rows) => rows.map((x) => ({ ...start, x })).map(row.stillness());
  assert.deepEqual([told(book, ...[0.5, 0.9, 1.3].map((by) => book.map((v) => v + by)), book.with(7, 9.4)), told(five, five.map((v) => v + 1))], [[false, false, false, true, false], [false, false]]);
});
test("an axis has 0, room to grow and ends at ticks; it is stretched by no more than a row needs", () => {
  const ticks = [book, book.with(7, 1e6), Array(8).fill(0), five.map((v) => -v)].map((x) => axisOf(x).ticks);
  assert.deepEqual(ticks, [[0, 5, 10, 15], [0, 5e5, 1e6, 1.5e6, 2e6], [0, 5, 10], [-8, -6, -4, -2, 0]]);
  assert.deepEqual(stretched(axisOf(book), book.with(3, 23)), { low: 0, high: 23, ticks: [0, 10, 20] });
});
