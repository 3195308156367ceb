// What the explorers share: numbers, scales, steps, paths, events.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { formatNumber, linePath, linearSteps, logScale, logSteps, plainNumber, powerOfTen, throttle, toHalf, walk } from "../../lnlib/book/explorers/common.mjs";

test("toHalf rounds as NumPy does: every float16, every tie and its neighbors", () => {
  const { buffer, byteOffset, byteLength } = readFileSync(process.env.LN_HALVES);
  const numbers = new Float64Array(buffer.slice(byteOffset, byteOffset + byteLength));
  const count = numbers.length / 2;
  assert.ok(count > 2e5);
  for (let i = 0; i < count; i++) {
    const actual = toHalf(numbers[i]);
    if (!Object.is(actual, numbers[count + i])) assert.fail(`${numbers[i]} became ${actual}, not ${numbers[count + i]}`);
  }
});

test("a number has three digits, a minus, and an exponent where it is far from 1", () => {
  for (const [x, words] of [
    [0, "0"], [-0, "0"], [1, "1"], [1e-5, "1e-5"], [1e4, "10000"], [1e12, "1e12"], [0.0909091, "0.0909"], [316.2278, "316"],
    [1.125, "1.13"], [-0.25, "−0.25"], [9.9999e-4, "0.001"], [9.994e-4, "9.99e-4"], [99999, "1e5"], [-3e-9, "−3e-9"],
    [Infinity, "∞"], [-Infinity, "−∞"], [NaN, "NaN"],
  ]) assert.equal(formatNumber(x), words);
  assert.deepEqual([-12, 0, 5].map(powerOfTen), ["10⁻¹²", "10⁰", "10⁵"]);
  assert.deepEqual([1 / 3, -2.5].map(plainNumber), ["0.333333", "-2.5"]);
});

test("a log slider comes back to its values, and has a stop for 0", () => {
  const steps = logSteps({ min: 1e-7, max: 10, zero: true });
  assert.equal(steps.last, 161);
  assert.deepEqual([0, 1, 81, 161].map(steps.toValue), [0, 1e-7, 1e-3, 10]);
  for (let i = 0; i <= steps.last; i++) assert.equal(steps.toStep(steps.toValue(i)), i);
  const plain = logSteps({ min: 1e-12, max: 1 });
  assert.deepEqual([0, 140, 240].map(plain.toValue), [1e-12, 1e-5, 1]);
});

test("a scale and its inverse undo each other, 0 included, and stay in range", () => {
  const scale = logScale(1e-7, 10, 80, 700, 50);
  for (const v of [0, 1e-7, 1e-3, 10]) assert.equal(scale.invert(scale(v)), v);
  assert.equal(scale.invert(-500), 0);
  assert.equal(scale.invert(5000), 10);
});

test("a line breaks at what is not finite, and a lone point is still drawn", () => {
  assert.equal(linePath([[0, 1], [1, NaN], [2, 3], [3, 4]]), "M0 1h.1M2 3h.1L3 4");
});

test("a linear slider comes back to its values; a value beyond is at the nearer end", () => {
  const steps = linearSteps({ min: -8, max: 8, step: 0.5 });
  assert.equal(steps.last, 32);
  for (let k = 0; k <= 32; k++) assert.deepEqual([steps.toValue(k), steps.toStep(steps.toValue(k))], [k / 2 - 8, k]);
  assert.deepEqual([-9, 9].map(steps.toStep), [0, 32]);
  assert.equal(linearSteps({ min: 0, max: 1, step: 0.1 }).toValue(3), 0.3);
});

test("throttled saves keep the last value", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const saved = [];
  let value = 0;
  const save = throttle(() => saved.push(value), 15);
  for (value = 1; value < 5; value++) save();
  assert.deepEqual(saved, [1]);
  t.mock.timers.tick(15);
  t.mock.timers.tick(15);
  assert.deepEqual(saved, [1, 5]);
  save(); // at once
  value = 6;
  save();
  save.flush();
  t.mock.timers.tick(30);
  assert.deepEqual(saved, [1, 5, 5, 6]);
});

test("as many steps back as there were lead to the very number, on a slider's stops and off them", () => {
  const spread = [logSteps({ min: 1e-7, max: 10, zero: true }), 0, 10];
  const linear = [linearSteps({ min: -6, max: 6, step: 0.1 }), -10000, 10000];
  for (const [[steps, min, max], starts] of [[spread, [1e-3, 9.98e-4, 6.3245553e-5, 0.1234567]], [linear, [0, 0.310926, -1.7, 1000.05]]]) {
    const onward = walk(steps, min, max);
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
  const onward = walk(logSteps({ min: 1e-7, max: 10, zero: true }), 0, 10);
  assert.equal(onward(9, 1), 10);
  assert.equal(onward(10, 1), 10);
  assert.equal(onward(10, -1), 8.91);
  assert.equal(onward(1e-7, -1), 0);
  assert.equal(onward(0, -1), 0);
  assert.equal(onward(0, 1), 1e-7);
  assert.deepEqual([Infinity, -Infinity].map((by) => onward(0.25, by)), [10, 0]);
  const eps = walk(logSteps({ min: 1e-12, max: 1 }), 1e-12, 1);
  assert.deepEqual([Infinity, -Infinity].map((by) => eps(1e-5, by)), [1, 1e-12]);
});
