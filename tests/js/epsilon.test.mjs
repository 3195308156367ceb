// The arithmetic of the ε explorer against lnlib.formula.
//
// tests/test_explorers.py writes the golden cases and runs this file with LN_GOLDEN set; numbers
// that JSON cannot hold (NaN, ∞, -0) are strings. Python counts the tests, so none can be lost.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as common from "../../lnlib/book/explorers/common.mjs";
import * as epsilon from "../../lnlib/book/explorers/epsilon.mjs";

const path = process.env.LN_GOLDEN;
const skip = path ? false : "LN_GOLDEN is not set: run pytest tests/test_explorers.py";
const golden = path ? JSON.parse(readFileSync(path, "utf8")) : null;

// Both sides do a dozen float64 operations on eight numbers without cancellation (the row's mean
// is 0), so they agree to about 1e-15; autograd's Jacobian adds eight terms more.
const RELATIVE = 1e-12;

function close(actual, golden, what, absolute = 0) {
  const expected = Number(golden);
  if (Object.is(actual, expected)) return; // NaN and ∞ too
  const gap = Math.abs(actual - expected);
  assert.ok(gap <= RELATIVE * Math.abs(expected) + absolute, `${what}: ${actual}, expected ${expected}`);
}

const each = (check) => () => golden.cases.forEach((c) => check(c, `σ = ${c.spread}, ε = ${c.eps}`));

test("the row, the defaults and the limits are Python's", { skip }, () => {
  assert.deepEqual([...epsilon.pattern], golden.pattern);
  assert.deepEqual({ ...epsilon.defaults }, golden.defaults);
  assert.deepEqual({ ...epsilon.limits }, golden.limits);
});

test("the pattern has mean exactly 0 and biased variance exactly 1", () => {
  assert.deepEqual(epsilon.statistics(epsilon.pattern), { mean: 0, variance: 1, std: 1 });
});

test("a row far from zero is centered before it is divided", () => {
  epsilon.normalize([9, 10, 11], 0).forEach((v, i) => close(v, [-1, 0, 1][i] * Math.sqrt(1.5), `x̂[${i}]`));
});

for (const convention of ["variance", "std"]) {
  test(`x̂ agrees with lnlib.formula, ε added to the ${convention}`, { skip }, each((c, where) => {
    const actual = epsilon.normalize(epsilon.row(c.spread), c.eps, { convention });
    assert.equal(actual.length, 8);
    actual.forEach((v, i) => close(v, c[convention].xHat[i], where, 1e-15)); // a mean of 1e-22 is no 0
  }));

  test(`output variance agrees with lnlib.formula, ${convention}`, { skip }, each((c, where) => {
    close(epsilon.outputVariance(c.spread, c.eps, convention), c[convention].outputVariance, where);
  }));

  test(`gradient size is the spectral norm of the Jacobian, ${convention}`, { skip }, each((c, where) => {
    close(epsilon.gradientSize(c.spread, c.eps, convention), c[convention].gradientSize, where);
  }));
}

// Bit for bit: every float16 operation rounds once, in torch from float32 and here from float64.
// Both are at least twice as wide and two bits more, so rounding twice is rounding once.
test("float16 agrees with lnlib.formula in float16, bit for bit", { skip }, each((c, where) => {
  const values = epsilon.row(c.spread);
  const { mean, variance } = epsilon.statisticsHalf(values);
  assert.equal(mean, Number(c.half.mean), `${where}: mean`);
  assert.ok(Object.is(variance, Number(c.half.variance)), `${where}: variance ${variance}, expected ${c.half.variance}`);
  assert.ok(Object.is(epsilon.rstdHalf(variance, c.eps), Number(c.half.rstd)), `${where}: rstd`);
  epsilon.normalizeHalf(values, c.eps).forEach((v, i) => {
    assert.ok(Object.is(v, Number(c.half.xHat[i])), `${where}: x̂[${i}] ${v}, expected ${c.half.xHat[i]}`);
  });
}));

test("sentence and verdict are Python's, letter for letter", { skip }, each((c) => {
  assert.equal(epsilon.sentence(c.spread, c.eps), c.sentence);
  assert.equal(epsilon.verdict(c.spread, c.eps), c.verdict);
  assert.ok(c.verdict.length <= 45 && c.sentence.length <= 160);
}));

test("an address, or a link, can set nothing that Python would refuse", () => {
  for (const [value, eps, spread] of [[0, 0, 0], [-0, 0, 0], [-3, 1e-12, 1e-7], [1e-20, 1e-12, 1e-7], [1e-3, 1e-3, 1e-3], [99, 1, 10]]) {
    assert.deepEqual([epsilon.settle("eps", value), epsilon.settle("spread", value)], [eps, spread]);
  }
});

test("the curves pass through the versions shown", { skip }, each((c, where) => {
  const { grid, lines } = epsilon.curves(c.eps);
  for (const i of [0, 100, 137, 160, 320]) {
    epsilon.versions(grid[i], c.eps).forEach((version, k) => {
      assert.ok(Object.is(lines[k].outputVariance[i], version.outputVariance), `${where}, ${k} at ${grid[i]}`);
      assert.ok(Object.is(lines[k].gradientSize[i], version.gradientSize), `${where}, ${k} at ${grid[i]}`);
    });
  }
  epsilon.versions(0, c.eps).forEach((version, k) => assert.equal(lines[k].gradientAtZero, version.gradientSize));
}));

test("the curves reach from the smallest spread to the largest", () => {
  const { grid } = epsilon.curves(1e-5);
  [grid[0], grid.at(-1)].forEach((spread, i) => close(spread, epsilon.limits.spread[i], `end ${i}`));
});

test("the knee is at σ = √ε: there the output variance is ½", () => {
  for (const eps of [1e-12, 1e-5, 0.25, 1]) close(epsilon.outputVariance(Math.sqrt(eps), eps), 0.5, `ε = ${eps}`);
});

test("a division by zero is told in words", () => {
  const wreck = (spread) => epsilon.wreckage(epsilon.normalizeHalf(epsilon.row(spread), 1e-8));
  assert.equal(wreck(0), "all 8 values are NaN");
  assert.equal(wreck(6.3245553e-5), "6 values are ±∞, 2 NaN");
  assert.equal(wreck(1e-3), "");
  assert.equal(epsilon.wreckage([Infinity, NaN, -Infinity]), "2 values are ±∞, 1 NaN");
  assert.equal(epsilon.wreckage([NaN, -Infinity, 0, Infinity, NaN]), "2 values are ±∞, 2 NaN");
});

test("toHalf rounds as numpy does: every float16, every tie and its neighbors", { skip }, () => {
  const bytes = readFileSync(golden.halves);
  const numbers = new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
  const count = numbers.length / 2;
  assert.ok(count > 2e5);
  for (let i = 0; i < count; i++) {
    const actual = common.toHalf(numbers[i]);
    if (!Object.is(actual, numbers[count + i])) assert.fail(`${numbers[i]} became ${actual}, not ${numbers[count + i]}`);
  }
});

test("formatNumber writes what Python's number writes", { skip }, () => {
  for (const [x, words] of golden.numbers) assert.equal(common.formatNumber(Number(x)), words);
});

test("a log slider comes back to its values, and has a stop for 0", () => {
  const steps = common.logSteps({ min: 1e-7, max: 10, zero: true });
  assert.equal(steps.last, 161);
  assert.deepEqual([0, 1, 81, 161].map(steps.toValue), [0, 1e-7, 1e-3, 10]);
  for (let i = 0; i <= steps.last; i++) assert.equal(steps.toStep(steps.toValue(i)), i);
  const plain = common.logSteps({ min: 1e-12, max: 1 });
  assert.deepEqual([0, 140, 240].map(plain.toValue), [1e-12, 1e-5, 1]);
});

test("a scale and its inverse undo each other, 0 included, and stay in range", () => {
  const scale = common.logScale(1e-7, 10, 80, 700, 50);
  for (const v of [0, 1e-7, 1e-3, 10]) assert.equal(scale.invert(scale(v)), v);
  assert.equal(scale.invert(-500), 0);
  assert.equal(scale.invert(5000), 10);
});

test("a line breaks at what is not finite, and a lone point is still drawn", () => {
  assert.equal(common.linePath([[0, 1], [1, NaN], [2, 3], [3, 4]]), "M0 1h.1M2 3h.1L3 4");
});

test("a linear slider comes back to its values; a value beyond is at the nearer end", () => {
  const steps = common.linearSteps({ min: -8, max: 8, step: 0.5 });
  assert.equal(steps.last, 32);
  for (let k = 0; k <= 32; k++) assert.deepEqual([steps.toValue(k), steps.toStep(steps.toValue(k))], [k / 2 - 8, k]);
  assert.deepEqual([-9, 9].map(steps.toStep), [0, 32]);
  assert.equal(common.linearSteps({ min: 0, max: 1, step: 0.1 }).toValue(3), 0.3);
});

test("a power of ten has its minus, and a number field six digits and a hyphen", () => {
  assert.deepEqual([-12, 0, 5].map(common.powerOfTen), ["10⁻¹²", "10⁰", "10⁵"]);
  assert.deepEqual([1 / 3, -2.5].map(common.plainNumber), ["0.333333", "-2.5"]);
});

test("hatching is lines of one slope, from edge to edge of its box", () => {
  const lines = common.hatchPath(10, 50, 3, 23).match(/M[^M]+/g).map((line) => line.match(/[\d.-]+/g).map(Number));
  assert.ok(lines.length > 5);
  for (const [x0, y0, x1, y1] of lines) {
    assert.equal(x1 - x0, y0 - y1);
    assert.ok(x0 === 10 || y0 === 23, "starts at the left edge or at the lower one");
    assert.ok(x1 === 50 || y1 === 3, "ends at the right edge or at the upper one");
    assert.ok(x0 >= 10 && x1 <= 50 && y1 >= 3 && y0 <= 23, "within");
  }
});

test("throttled saves keep the last value", (t) => {
  let due = null; // what the timer will do; no clock, which a busy machine would let run late
  t.mock.method(globalThis, "setTimeout", (action, wait) => {
    assert.equal(wait, 15);
    return (due = action);
  });
  t.mock.method(globalThis, "clearTimeout", () => (due = null));
  const pause = () => {
    const action = due;
    due = null;
    action?.();
  };
  const saved = [];
  let value = 0;
  const save = common.throttle(() => saved.push(value), 15);
  for (value = 1; value <= 5; value++) save();
  value = 5;
  assert.deepEqual(saved, [1]);
  pause();
  assert.deepEqual(saved, [1, 5]);
  pause();
  assert.deepEqual(saved, [1, 5]);
  save(); // leading, at once
  value = 6;
  save();
  save.flush();
  assert.deepEqual(saved, [1, 5, 5, 6]);
  pause();
  assert.deepEqual(saved, [1, 5, 5, 6]);
});

test("as many steps back as there were lead to the very number, on a slider's stops and off them", () => {
  const spread = [common.logSteps({ min: 1e-7, max: 10, zero: true }), 0, 10];
  const linear = [common.linearSteps({ min: -6, max: 6, step: 0.1 }), -10000, 10000];
  for (const [[steps, min, max], starts] of [[spread, [1e-3, 9.98e-4, 6.3245553e-5, 0.1234567]], [linear, [0, 0.310926, -1.7, 1000.05]]]) {
    const onward = common.walk(steps, min, max);
    for (const start of starts) {
      const values = [start];
      for (let i = 0; i < 20; i++) values.push(onward(values.at(-1), 1));
      assert.ok(values.every((v, i) => i === 0 || v > values[i - 1]), `${values}`);
      for (const v of values.slice(0, -1).reverse()) assert.equal(onward(values.pop(), -1), v);
      assert.equal(onward(onward(start, -10), 10), start);
    }
  }
});

test("steps end at the ends, and the way back begins there", () => {
  const onward = common.walk(common.logSteps({ min: 1e-7, max: 10, zero: true }), 0, 10);
  assert.equal(onward(9, 1), 10);
  assert.equal(onward(10, 1), 10);
  assert.equal(onward(10, -1), 8.91);
  assert.equal(onward(1e-7, -1), 0);
  assert.equal(onward(0, -1), 0);
  assert.equal(onward(0, 1), 1e-7);
  assert.deepEqual([Infinity, -Infinity].map((by) => onward(0.25, by)), [10, 0]);
  const eps = common.walk(common.logSteps({ min: 1e-12, max: 1 }), 1e-12, 1);
  assert.deepEqual([Infinity, -Infinity].map((by) => eps(1e-5, by)), [1, 1e-12]);
});
