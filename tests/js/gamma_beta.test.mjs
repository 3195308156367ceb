// The arithmetic of the γ and β explorer against lnlib.formula and torch.
//
// tests/test_explorer_gamma_beta.py writes the golden cases and runs this file with LN_GOLDEN set.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as explorer from "../../lnlib/book/explorers/gamma_beta.mjs";
import { lanesOf, roomFor } from "../../lnlib/book/explorers/gamma_beta_charts.mjs";

const path = process.env.LN_GOLDEN;
const skip = path ? false : "LN_GOLDEN is not set: run pytest tests/test_explorer_gamma_beta.py";
const golden = path ? JSON.parse(readFileSync(path, "utf8")) : null;

// Eight float64 terms and one division: about 1e-15. What cancels does so against terms of at most
// 25, so the error is bounded by 1e-12 of the larger of the result and 1.
const RELATIVE = 1e-12;

function close(actual, expected, what) {
  const gap = Math.abs(actual - expected);
  assert.ok(gap <= RELATIVE * Math.max(1, Math.abs(expected)), `${what}: ${actual}, expected ${expected}`);
}

function allClose(actual, expected, what) {
  assert.equal(actual.length, expected.length, what);
  actual.forEach((v, i) => close(v, expected[i], `${what}, feature ${i + 1}`));
}

const each = (check) => () => golden.cases.forEach((c, i) => check(c, `case ${i}, ${c.state.row}, ε = ${c.state.eps}`));
const fresh = (changes = {}) => ({ ...explorer.defaults, ...changes });
const eight = (v) => Array(8).fill(v);

test("the rows, the defaults and the limits are Python's", { skip }, () => {
  assert.deepEqual(explorer.rows, golden.rows);
  assert.deepEqual({ ...explorer.defaults }, golden.defaults);
  assert.deepEqual({ ...explorer.limits }, golden.limits);
});

test("x̂ agrees with lnlib.formula, bit for bit", { skip }, each((c, where) => {
  // The rows' means and variances are exact, so every later step rounds the same in both.
  assert.deepEqual(explorer.normalize(explorer.rows[c.state.row], c.state.eps), c.xHat, where);
}));

test("y agrees with lnlib.formula for random γ and β", { skip }, each((c, where) => {
  allClose(explorer.affine(c.xHat, c.state.weight, c.state.bias), c.y, where);
  allClose(explorer.layer(c.state).y, c.y, where);
}));

test("statistics agree with torch, biased", { skip }, each((c, where) => {
  const { inX, inXHat, inY } = explorer.layer(c.state);
  [inX, inXHat, inY].forEach(({ mean, std, variance }, i) => {
    close(mean, c.means[i], `${where}, mean of lane ${i}`);
    close(std, c.stds[i], `${where}, std of lane ${i}`);
    close(variance, c.stds[i] ** 2, `${where}, variance of lane ${i}`);
  });
}));

test("the sentence and the verdict are Python's, letter for letter, and short", { skip }, each((c) => {
  assert.equal(explorer.sentence(c.state), c.sentence);
  assert.equal(explorer.verdict(c.state), c.verdict);
  assert.ok(c.verdict.length <= 45, c.verdict);
  assert.ok(c.sentence.length <= (c.verdict.startsWith("ε") ? 210 : 160), c.sentence);
}));

test("every lane has an axis with room, that of y Python's", { skip }, each((c) => {
  const axes = [explorer.rows[c.state.row], c.xHat, c.y].map((values, i) => {
    const [low, high] = roomFor(lanesOf[i].axes, values);
    assert.ok(values.every((v) => low < v && v < high));
    return [low, high];
  });
  assert.deepEqual(axes[2], c.room);
}));

test("a number is told as Python tells it: rounding errors of 0 are 0", { skip }, () => {
  for (const [v, words] of golden.told) assert.equal(explorer.tell(v), words);
});

test("every row but the constant one has the mean and the spread it is shown for", () => {
  const facts = Object.fromEntries(Object.entries(explorer.rows).map(([name, values]) => {
    const { mean, std } = explorer.statistics(values);
    return [name, [mean, std]];
  }));
  assert.deepEqual(facts, { book: [5, 2], wide: [-1, 4], narrow: [2, 0.25], "two groups": [1, 3], constant: [1.5, 0] });
});

test("one γ and one β are the standard deviation and the mean of y, up to ε", () => {
  for (const row of ["book", "wide", "two groups"]) {
    for (const gamma of [-4, -1, 0.5, 3]) {
      const { inY, agrees } = explorer.layer(fresh({ row, weight: eight(gamma), bias: eight(1.25), eps: 1e-12 }));
      close(inY.mean, 1.25, row);
      close(inY.std, Math.abs(gamma), row);
      assert.deepEqual(agrees, { mean: true, std: true });
    }
  }
});

test("a γ for each feature is neither, and what it makes depends on the row", () => {
  const weight = eight(1).with(7, 3);
  const made = ["book", "wide"].map((row) => explorer.layer(fresh({ row, weight })));
  for (const { agrees } of made) assert.deepEqual(agrees, { mean: false, std: false });
  assert.ok(Math.abs(made[0].inY.mean - made[1].inY.mean) > 0.01);
  assert.ok(Math.abs(made[0].inY.std - made[1].inY.std) > 0.1);
});

test("γ = √(σ² + ε) and β = μ undo the norm for their row and for no other", () => {
  for (const eps of [1e-12, 1e-5, 1]) {
    for (const row of Object.keys(explorer.rows)) {
      const undo = explorer.undo(explorer.rows[row], eps);
      for (const [trait, values] of Object.entries(undo)) {
        const [min, max] = explorer.limits[trait];
        assert.ok(values.every((v) => v >= min && v <= max), `${row}: ${trait}`);
      }
      for (const other of Object.keys(explorer.rows)) {
        const { undone } = explorer.layer(fresh({ row: other, eps, ...undo }));
        assert.equal(undone, other === row, `${row} undone, ${other} shown, ε = ${eps}`);
      }
    }
  }
});

test("what γ and β say is held against what y has", () => {
  const said = (changes) => explorer.said(explorer.layer(fresh(changes)));
  assert.deepEqual(said({ weight: eight(2), bias: eight(-1) }), { mean: "= β −1", std: "= γ 2" });
  assert.deepEqual(said({ weight: eight(-2) }), { mean: "= β 0", std: "= |γ| 2" });
  assert.deepEqual(said({ weight: eight(0) }), { mean: "= β 0", std: "= γ 0" });
  const up = eight(1).with(7, 3);
  assert.deepEqual(said({ weight: up }), { mean: "≠ β 0", std: "≠ mean γ 1.25" });
  assert.deepEqual(said({ bias: up }), { mean: "= mean β 1.25", std: "≠ γ 1" });
});

test("what an address says is made valid, or refused", () => {
  const { settle } = explorer;
  assert.deepEqual(settle("weight", [9, -9, 1, 0, 0, 0, 0, 0.5]), [5, -5, 1, 0, 0, 0, 0, 0.5]);
  assert.deepEqual(settle("bias", eight(-9)), eight(-8));
  assert.deepEqual([settle("eps", 0), settle("eps", 2)], [1e-12, 1]);
  assert.deepEqual([-1, 0.4, 7.6, 99].map((v) => settle("feature", v)), [0, 0, 8, 8]);
  assert.deepEqual(["wide", "nowhere", "toString"].map((v) => settle("row", v)), ["wide", undefined, undefined]);
});

test("a number in the text moves γ or β of all features, and back", () => {
  const { weight, bias } = explorer.nudges;
  const up = eight(1).with(7, 3);
  assert.deepEqual(weight(up, 2), eight(1.1).with(7, 3.1));
  assert.deepEqual(weight(weight(up, 7), -7), up);
  assert.deepEqual(bias(eight(0), -3), eight(-0.3));
  assert.deepEqual(bias(eight(7.95), 1), eight(8));
});
