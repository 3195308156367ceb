// What the explorers share: numbers, scales, steps.
import { readFileSync } from "node:fs";

import { formatNumber, linearSteps, logSteps, plainNumber, powerOfTen, walk } from "../../lnlib/book/explorers/common.mjs";
import { logScale } from "../../lnlib/book/explorers/curves.mjs";
import { toHalf } from "../../lnlib/book/explorers/epsilon.mjs";
import { assert, test } from "./golden.mjs";

test("toHalf rounds as NumPy does: every float16, every tie and its neighbors", () => {
  const numbers = new Float64Array(new Uint8Array(readFileSync(process.env.LN_HALVES)).buffer);
  const count = numbers.length / 2;
  assert.ok(count > 2e5);
  const wrong = numbers.slice(0, count).findIndex((x, i) => !Object.is(toHalf(x), numbers[count + i]));
  assert.equal(wrong, -1, `${numbers[wrong]} became ${toHalf(numbers[wrong])}, not ${numbers[count + wrong]}`);
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

test("a slider comes back to its values, has a stop for 0, and shows a value beyond at the nearer end", () => {
  const [log, linear] = [logSteps({ min: 1e-7, max: 10, zero: true }), linearSteps({ min: -8, max: 8, step: 0.5 })];
  for (const [steps, last] of [[log, 161], [linear, 32]]) {
    assert.equal(steps.last, last);
    for (let i = 0; i <= last; i++) assert.equal(steps.toStep(steps.toValue(i)), i);
  }
  assert.deepEqual([0, 1, 81, 161].map(log.toValue), [0, 1e-7, 1e-3, 10]);
  assert.deepEqual([0, 140, 240].map(logSteps({ min: 1e-12, max: 1 }).toValue), [1e-12, 1e-5, 1]);
  assert.deepEqual([0, 1, 32].map(linear.toValue), [-8, -7.5, 8]);
  assert.deepEqual([-9, 9].map(linear.toStep), [0, 32]);
  assert.equal(linearSteps({ min: 0, max: 1, step: 0.1 }).toValue(3), 0.3);
});

test("a scale and its inverse undo each other, 0 included, and stay in range", () => {
  const scale = logScale(1e-7, 10, 80, 700, 50);
  for (const v of [0, 1e-7, 1e-3, 10]) assert.equal(scale.invert(scale(v)), v);
  assert.deepEqual([-500, 5000].map(scale.invert), [0, 10]);
});

test("as many steps back as there were lead to the very number, on a slider's stops, off them, and at the ends", () => {
  const spread = walk(logSteps({ min: 1e-7, max: 10, zero: true }), 0, 10);
  const linear = walk(linearSteps({ min: -6, max: 6, step: 0.1 }), -10000, 10000);
  for (const [onward, starts] of [[spread, [1e-3, 9.98e-4, 6.3245553e-5, 0.1234567]], [linear, [0, 0.310926, -1.7, 1000.05]]]) {
    for (const start of starts) {
      const values = [start];
      for (let i = 0; i < 20; i++) values.push(onward(values.at(-1), 1));
      assert.ok(values.every((v, i) => i === 0 || v > values[i - 1]), `${values}`);
      for (const v of values.slice(0, -1).reverse()) assert.equal(onward(values.pop(), -1), v);
      assert.equal(onward(onward(start, -10), 10), start);
    }
  }
  const ends = [[9, 1, 10], [10, 1, 10], [10, -1, 8.91], [1e-7, -1, 0], [0, -1, 0], [0, 1, 1e-7], [0.25, Infinity, 10], [0.25, -Infinity, 0]];
  for (const [from, by, to] of ends) assert.equal(spread(from, by), to);
  assert.equal(walk(logSteps({ min: 1e-12, max: 1 }), 1e-12, 1)(1e-5, -Infinity), 1e-12);
});
