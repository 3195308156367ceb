// The arithmetic and the geometry of the sphere explorer against lnlib.formula and autograd.
//
// tests/test_explorer_sphere.py writes the golden cases and runs this file with LN_GOLDEN set.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as sphere from "../../lnlib/book/explorers/sphere.mjs";
import * as geometry from "../../lnlib/book/explorers/sphere_charts.mjs";

const path = process.env.LN_GOLDEN;
const skip = path ? false : "LN_GOLDEN is not set: run pytest tests/test_explorer_sphere.py";
const golden = path ? JSON.parse(readFileSync(path, "utf8")) : null;

const each = (check) => () => golden.cases.forEach((c) => check(c, `x = (${c.x}), ε = ${c.eps}`));
const termsOf = (c) => sphere.terms(c.x, c.weight, c.bias, c.eps);
const dot = (a, b) => a.reduce((sum, v, i) => sum + v * b[i], 0);
const times = (matrix, vector) => matrix.map((row) => dot(row, vector));
const largest = (values) => Math.max(...values.map(Math.abs));

function close(actual, expected, bound, what) {
  assert.ok(Math.abs(actual - expected) <= bound, `${what}: ${actual}, expected ${expected} to ${bound}`);
}

// Both sides round x − μ to about 2⁻⁵² of the largest feature; all else is a dozen operations
// without cancellation. A constant row has x − μ exactly 0 here and up to that bound in torch.
const slack = (c) => 4e-16 * largest(c.x);

test("the defaults and the limits are Python's", { skip }, () => {
  assert.deepEqual({ ...sphere.defaults }, golden.defaults);
  assert.deepEqual({ ...sphere.limits }, golden.limits);
});

for (const name of ["mean", "std", "s", "rstd"]) {
  test(`${name} agrees with lnlib.formula`, { skip }, each((c, where) => {
    const scale = name === "rstd" ? c.rstd * c.rstd : 1; // of what an error in σ does to 1/s
    close(termsOf(c)[name], c[name], 1e-12 * Math.abs(c[name]) + slack(c) * scale, where);
  }));
}

for (const name of ["centered", "xHat", "y"]) {
  test(`${name} agrees with lnlib.formula, feature by feature`, { skip }, each((c, where) => {
    const scale = { centered: 1, xHat: c.rstd, y: 3 * c.rstd }[name];
    termsOf(c)[name].forEach((v, i) => {
      close(v, c[name][i], 1e-12 * (Math.abs(c[name][i]) + (name === "y" ? 3 : 0)) + slack(c) * scale, `${where}, ${name}[${i}]`);
    });
  }));
}

// Autograd differentiates σ and x̂ step by step: a few more roundings of numbers of size 1/s.
const ofMatrix = (c) => c.rstd * (1e-12 + slack(c) * c.rstd);

test("the Jacobian is autograd's", { skip }, each((c, where) => {
  const matrix = sphere.jacobian(c.x, c.eps);
  for (const i of [0, 1, 2]) for (const j of [0, 1, 2]) close(matrix[i][j], c.jacobian[i][j], ofMatrix(c), `${where}, [${i}][${j}]`);
}));

test("with γ the matrix is autograd's dy/dx, row by row", { skip }, each((c, where) => {
  const matrix = sphere.jacobian(c.x, c.eps, c.weight);
  for (const i of [0, 1, 2]) for (const j of [0, 1, 2]) close(matrix[i][j], c.affine[i][j], 3 * ofMatrix(c), `${where}, [${i}][${j}]`);
}));

test("the eigenvalues are torch's", { skip }, each((c, where) => {
  const values = sphere.eigen(c.x, c.eps).map(({ value }) => value).sort((a, b) => a - b);
  values.forEach((value, i) => close(value, c.eigenvalues[i], ofMatrix(c), `${where}, ${i}`));
}));

test("the Jacobian multiplies each direction by its eigenvalue, in torch's matrix too", { skip }, each((c, where) => {
  for (const matrix of [sphere.jacobian(c.x, c.eps), c.jacobian]) {
    for (const { value, direction } of sphere.eigen(c.x, c.eps)) {
      times(matrix, direction).forEach((v, i) => close(v, value * direction[i], 3 * ofMatrix(c), where));
    }
  }
}));

test("the directions are (1, 1, 1), x̂ and what is orthogonal to both, each of length 1", { skip }, each((c, where) => {
  const [ones, radial, around] = sphere.eigen(c.x, c.eps).map(({ direction }) => direction);
  const bound = 1e-12 + slack(c) / (c.std || 1);
  ones.forEach((v) => close(v, 1 / Math.sqrt(3), 1e-15, where));
  for (const [a, b, expected] of [[ones, radial, 0], [ones, around, 0], [radial, around, 0], [radial, radial, 1], [around, around, 1]]) {
    close(dot(a, b), expected, bound, where);
  }
  if (!c.constant) close(dot(radial, c.xHat), Math.sqrt(dot(c.xHat, c.xHat)), 1e-12 + slack(c) * c.rstd, where);
}));

test("1 is lost exactly, x̂ up to ε/s³, which is the share of ε in s² of 1/s", { skip }, each((c, where) => {
  const [ones, radial, around] = sphere.eigen(c.x, c.eps);
  assert.equal(ones.value, 0);
  const { s } = termsOf(c);
  close(radial.value / around.value, c.eps / (s * s), 1e-12, where);
}));

test("a constant row has x̂ = 0 exactly and 1/√ε twice", () => {
  for (const x of [[2, 2, 2], [0.1, 0.1, 0.1], [-7.3, -7.3, -7.3]]) {
    const { xHat, y, constant, mean } = sphere.terms(x, [2, 1, 0.5], [0, 1, 0], 1e-4);
    assert.ok(constant);
    assert.equal(mean, x[0]);
    assert.deepEqual([xHat, y], [[0, 0, 0], [0, 1, 0]]);
    const values = sphere.eigen(x, 1e-4).map(({ value }) => value);
    values.forEach((v, i) => close(v, [0, 100, 100][i], 1e-10, `${x}`));
  }
});

test("one outlier reaches the bound √(n − 1) = √2", () => {
  const { xHat } = sphere.terms([0, 0, 6], [1, 1, 1], [0, 0, 0], 1e-12);
  xHat.forEach((v, i) => close(v, [-1, -1, 2][i] / Math.SQRT2, 1e-12, "x̂"));
});

test("the sentence and the verdict are Python's, letter for letter", { skip }, each((c) => {
  assert.equal(sphere.verdict(c), c.verdict);
  assert.equal(sphere.sentence(c), c.sentence);
}));

test("what is seen of a point is what Python sees", { skip }, () => {
  for (const { point, turn, seen } of golden.projections) {
    geometry.project(point, turn).forEach((v, i) => close(v, seen[i], 1e-12 * largest(point), `${point} at ${turn}`));
  }
});

test("what is seen of the plane is where it lies: the two undo each other", { skip }, () => {
  for (const { point, turn } of golden.projections) {
    const mean = dot(point, [1, 1, 1]) / 3;
    const inPlane = point.map((v) => v - mean);
    const back = geometry.unproject(geometry.project(inPlane, turn), turn);
    back.forEach((v, i) => close(v, inPlane[i], 1e-12 * largest(point), `${point} at ${turn}`));
    close(dot(back, [1, 1, 1]), 0, 1e-12 * largest(point), "its sum");
  }
});

test("x, its shadow and the frame's rim are where Python draws them", { skip }, () => {
  const view = { k: 1, cx: 0, cy: 0, left: -4, right: 4, top: -3.2, bottom: 2, far: -1.7 };
  const kinds = new Set();
  for (const { x, turn, shadow, top, far, cut } of golden.places) {
    const placed = geometry.place(sphere.terms(x, [1, 1, 1], [0, 0, 0], 1), turn, view);
    kinds.add(`${far} ${cut}`);
    assert.deepEqual([placed.reach < 1, placed.cut], [far, cut], `${x}`);
    [...placed.shadow, ...placed.x].forEach((v, i) => close(v, [shadow[0], -shadow[1], top[0], -top[1]][i], 1e-9, `${x} at ${turn}`));
  }
  assert.equal(kinds.size, 4); // in the frame, the shadow outside, x outside, both
});

// --- moves -----------------------------------------------------------------------------------

const view = geometry.view(440);
const turns = [-170, -90, 0, 31, 123];
const of = (x) => sphere.terms(x, [1, 1, 1], [0, 0, 0], 1e-5);
const seenAt = (x, turn) => geometry.place(of(x), turn, view);

test("x stays under the pointer that drags it", () => {
  for (const turn of turns) {
    const x = geometry.dragX(of([0.3, 0.8, 1.7]), turn, view, [150, 180]);
    seenAt(x, turn).x.forEach((v, i) => close(v, [150, 180][i], 1e-9, `${turn}`));
  }
});

test("x dragged straight up keeps x̂; sideways it keeps the mean", () => {
  for (const turn of turns) {
    const before = of([0.3, 0.8, 1.7]);
    const [px, py] = seenAt([0.3, 0.8, 1.7], turn).x;
    const up = of(geometry.dragX(before, turn, view, [px, py - 60]));
    up.xHat.forEach((v, i) => close(v, before.xHat[i], 1e-9, `up at ${turn}`));
    assert.ok(up.mean > before.mean + 0.5);
    const aside = of(geometry.dragX(before, turn, view, [px - 40, py]));
    close(aside.mean, before.mean, 1e-12, `sideways at ${turn}`);
    assert.ok(largest(aside.xHat.map((v, i) => v - before.xHat[i])) > 1e-3);
  }
});

test("the shadow stays under the pointer and keeps the mean", () => {
  for (const turn of turns) {
    const x = geometry.dragShadow(of([0.3, 0.8, 1.7]), turn, view, [310, 240]);
    seenAt(x, turn).shadow.forEach((v, i) => close(v, [310, 240][i], 1e-9, `${turn}`));
    close(of(x).mean, of([0.3, 0.8, 1.7]).mean, 1e-12, `${turn}`);
  }
});

test("the shadow dragged along its radius moves x̂ by ε alone", () => {
  const before = of([0, 0.8, 3.7]);
  const { shadow } = seenAt([0, 0.8, 3.7], -90);
  const half = shadow.map((v, i) => ([view.cx, view.cy][i] + v) / 2);
  const after = of(geometry.dragShadow(before, -90, view, half));
  close(after.std, before.std / 2, 1e-9, "σ");
  after.xHat.forEach((v, i) => close(v, before.xHat[i], 1e-5, "x̂"));
});

test("a mean far above the frame survives a drag sideways, and is let go when pulled down", () => {
  const far = of([1000, 1001, 1003]);
  const [px, py] = seenAt([1000, 1001, 1003], 31).x;
  assert.equal(py, view.top);
  for (const shaken of [-40, -1, 5]) {
    const aside = of(geometry.dragX(far, 31, view, [px + 50, py + shaken]));
    close(aside.mean, far.mean, 1e-9, "mean");
    assert.ok(largest(aside.centered.map((v, i) => v - far.centered[i])) > 0.1);
  }
  const down = geometry.dragX(far, 31, view, [px, py + 60]);
  close(seenAt(down, 31).x[1], py + 60, 1e-9, "under the pointer");
  of(down).xHat.forEach((v, i) => close(v, far.xHat[i], 1e-9, "x̂"));
});

test("a deviation far outside the frame survives a drag up, and is let go when pulled in", () => {
  const x = [-600, 500, 100];
  const { x: [px, py], shadow, reach } = seenAt(x, 0);
  assert.ok(reach < 0.02);
  const up = of(geometry.dragX(of(x), 0, view, [px + 3, py - 50]));
  up.centered.forEach((v, i) => close(v, of(x).centered[i], 1e-9, "x − μ"));
  const kept = geometry.dragShadow(of(x), 0, view, [shadow[0] + 3, shadow[1] - 3]);
  kept.forEach((v, i) => close(v, x[i], 1e-9, "x"));
  const target = [shadow[0] + (shadow[0] > view.cx ? -30 : 30), shadow[1]];
  for (const [move, grip] of [[geometry.dragShadow, "shadow"], [geometry.dragX, "x"]]) {
    const pulled = move(of(x), 0, view, [target[0], grip === "x" ? py : target[1]]);
    close(seenAt(pulled, 0)[grip][0], target[0], 1e-9, grip);
    assert.ok(of(pulled).std < 5);
  }
});

test("keys move x along (1, 1, 1) and across, as it is seen", () => {
  for (const turn of turns) {
    const from = geometry.project([0.3, 0.8, 1.7], turn);
    const seen = (...move) => geometry.project(geometry.nudge([0.3, 0.8, 1.7], ...move, turn), turn).map((v, i) => v - from[i]);
    const [right, front, up] = [seen(1, 0, 0), seen(0, 1, 0), seen(0, 0, 1)];
    [1, 0, 0].forEach((v, i) => close(right[i], v, 1e-12, "right"));
    close(front[0], 0, 1e-12, "to the front: not sideways");
    assert.ok(front[1] < 0 && front[2] > 0, "to the front: down and nearer");
    close(up[0], 0, 1e-12, "up");
    assert.ok(up[1] > 1);
  }
  geometry.nudge([1, 2, 4], 0, 0, 0.5, 31).forEach((v, i) => close(v, [1.5, 2.5, 4.5][i], 1e-12, "all features alike"));
});

test("x moves by whole thousandths, near its target; along (1, 1, 1) x̂ stays, in the plane the sum", () => {
  const sum = ([a, b, c]) => a + b + c;
  for (const x of [[0, 0.8, 3.7], [0.123456, -2.5, 1.7], [1000, 1001, 1003.25]]) {
    for (let i = 0; i < 200; i++) {
      const [right, front, up] = [Math.sin(i), Math.cos(3 * i), Math.sin(7 * i)].map((v) => 2 * v);
      const to = (...move) => geometry.inThousandths(x, geometry.nudge(x, ...move, 37 * i));
      const moved = to(right, front, up);
      const target = geometry.nudge(x, right, front, up, 37 * i);
      moved.forEach((v, j) => close(v, target[j], 1.51e-3, "near its target"));
      moved.forEach((v, j) => close(1000 * (v - x[j]), Math.round(1000 * (v - x[j])), 1e-6, "whole"));
      const lifted = to(0, 0, up).map((v, j) => v - x[j]);
      lifted.forEach((v) => close(v, lifted[0], 1e-9, "all features alike"));
      close(sum(to(right, front, 0)), sum(x), 1e-9, "the sum");
    }
  }
});

test("a step is undone by its opposite, to the last bit", () => {
  for (const turn of turns) {
    for (const move of [[0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1], [1, 0, 0], [0.3, -0.2, 0.1]]) {
      for (const x of [[0, 0.8, 3.7], [0.311, 0.922, 3.267], [0.123456, -2.5, 1.7]]) {
        const there = geometry.inThousandths(x, geometry.nudge(x, ...move, turn));
        assert.deepEqual(geometry.inThousandths(there, geometry.nudge(there, ...move.map((v) => -v), turn)), x);
      }
    }
  }
});

test("a trait stays within its limits, and a turn past 180 comes in at the other end", () => {
  assert.deepEqual(sphere.settle("x", [-2e4, 5, 2e4]), [-1e4, 5, 1e4]);
  assert.deepEqual(sphere.settle("weight", [-4, 2, 3.5]), [-3, 2, 3]);
  assert.equal(sphere.settle("eps", 0), 1e-12);
  assert.deepEqual([190, -200, 45, 180].map((v) => sphere.settle("turn", v)).map(Math.abs), [170, 160, 45, 180]);
  assert.equal(sphere.settle("turn", 190), -170);
  assert.equal(sphere.onward.turn(179, 2), -179);
  assert.equal(sphere.onward.eps(sphere.onward.eps(1e-5, 3), -3), 1e-5);
});
