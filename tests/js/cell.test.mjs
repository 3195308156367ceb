// The arithmetic of the LSTM's explorer against Python's, and its words.
//
// tests/test_explorer_cell.py writes the golden cases, which it has compared with lnlib.lstm, and runs this
// file with LN_GOLDEN set. Python counts the tests, so none can be lost.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as cell from "../../lnlib/book/explorers/cell.mjs";
import { decades, places } from "../../lnlib/book/explorers/cell_charts.mjs";

const path = process.env.LN_GOLDEN;
const skip = path ? false : "LN_GOLDEN is not set: run pytest tests/test_explorer_cell.py";
const golden = path ? JSON.parse(readFileSync(path, "utf8")) : null;
const each = (check) => () => golden.cases.forEach((c) => check(c, JSON.stringify(c.state)));
const apart = (a, b) => Math.max(...a.map((v, k) => Math.abs(v - b[k])));

test("the defaults and the limits are Python's", { skip }, () => {
  assert.deepEqual({ ...cell.defaults }, golden.defaults);
  assert.deepEqual({ ...cell.limits }, golden.limits);
});

test("weights, bias and digits are Python's, to the last bit", { skip }, () => {
  assert.deepEqual({ ...cell.weights }, golden.weights);
  golden.digits.forEach((rows, blank) => assert.deepEqual(cell.digit(blank), rows));
});

test("tanh is Python's to the last bit, and as good as the machine's", { skip }, () => {
  for (const [x, y] of golden.tanh) {
    assert.equal(cell.tanh(x), y, `${x}`);
    assert.ok(Math.abs(y - Math.tanh(x)) <= 1e-15 * Math.abs(Math.tanh(x)), `${x}`);
    assert.equal(cell.sigmoid(x), 0.5 + 0.5 * cell.tanh(x / 2));
  }
});

test("all that is on the wires is Python's, to the last bit", { skip }, each(({ state, steps }, where) => {
  const ours = cell.run(state).steps.map(({ gates, c, n, h, carried, divisors }) => [gates, c, n, h, carried, divisors]);
  assert.deepEqual(ours, steps, where);
}));

test("the gradient at each row is Python's, to the last bit", { skip }, each(({ state, gradients }, where) => {
  assert.deepEqual(cell.run(state).gradients, gradients, where);
}));

test("sentence and verdict are Python's, letter for letter", { skip }, each(({ state, said }) => {
  for (const [row, sentence, verdict] of said) {
    assert.deepEqual([cell.sentence({ ...state, row }), cell.verdict({ ...state, row })], [sentence, verdict]);
  }
}));

test("the norms take the weights' size off, and nothing else does", () => {
  for (const [norm, same] of [["raw", true], ["normalized", true], ["none", false]]) {
    const [small, large] = [1, 8].map((scale) => cell.run({ ...cell.defaults, norm, scale }).steps[5].gates.flat());
    assert.equal(apart(small, large) < 1e-3, same, norm);
  }
});

test("a saturated gate is within 0.05 of an end", () => {
  assert.deepEqual([0, 0.049, 0.051, 0.5, 0.949, 0.951, 1].map(cell.saturated), [true, true, false, false, false, true, true]);
  const gates = [[0, 0.5], [1, 0.02], [0, 0], [0.5, 0.99]]; // the candidate is no gate
  assert.equal(cell.countSaturated({ gates }), 4);
});

test("an address cannot set what Python would refuse", () => {
  assert.deepEqual([-1, 0.2, 1e3].map((v) => cell.settle("scale", v)), [0.1, 0.2, 100]);
  assert.deepEqual([0, 3.4, 99].map((v) => cell.settle("row", v)), [1, 3, 14]);
  assert.deepEqual([-3, 2.6, 9].map((v) => cell.settle("blank", v)), [0, 3, 5]);
  assert.deepEqual([0, 1e-5, 7].map((v) => cell.settle("eps", v)), [1e-12, 1e-5, 1]);
  assert.deepEqual(["raw", "none", "batch"].map((v) => cell.settle("norm", v)), ["raw", "none", undefined]);
  assert.deepEqual(["zero", "constructor"].map((v) => cell.settle("bias", v)), ["zero", undefined]);
});

test("the gradient's axis holds every row, 0 aside, and reaches far to both sides", () => {
  assert.deepEqual(decades([0.5, 1, 3]), [-2, 2]);
  assert.deepEqual(decades([2e-4, 0.1, 1]), [-5, 2]);
  assert.deepEqual(decades([0, 1, 4e19]), [-2, 25]);
  assert.deepEqual(decades([1e-90, 1, 1e300]), [-40, 100]);
});

test("at any width the gates stand beside each other, left of the way out, within the picture", () => {
  for (const width of [246, 266, 338, 480, 599, 600, 726]) {
    const { left, s, gates, gate, branch, right, y, digit, height } = places(width);
    const xs = [left + s, ...gates.flatMap((x) => [x, x + gate]), branch - 17, right];
    for (let k = 1; k < xs.length; k++) assert.ok(xs[k] > xs[k - 1], `${width}: ${xs}`);
    assert.ok(gate >= 24 && right + s <= width);
    assert.ok(digit.top + 14 * digit.pitch + 14 <= height && y.x + 6 <= height);
    assert.ok(left === 0 ? y.x + 6 < digit.top - 30 : digit.gradient[1] < left);
  }
});
