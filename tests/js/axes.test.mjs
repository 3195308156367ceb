// The arithmetic of the axes explorer against PyTorch's own norms.
//
// tests/test_explorer_axes.py writes the golden cases and runs this file with LN_GOLDEN set.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as axes from "../../lnlib/book/explorers/axes.mjs";
import * as charts from "../../lnlib/book/explorers/axes_charts.mjs";

const path = process.env.LN_GOLDEN;
const skip = path ? false : "LN_GOLDEN is not set: run pytest tests/test_explorer_axes.py";
const golden = path ? JSON.parse(readFileSync(path, "utf8")) : null;

// Outputs are of size 1 and come from sums of at most 20 terms of size 20: float64 leaves them
// within about 1e-14. An output may be 0, so the bound is not relative.
const ABSOLUTE = 1e-12;

function close(actual, expected, what) {
  assert.ok(Math.abs(actual - expected) <= ABSOLUTE, `${what}: ${actual}, expected ${expected}`);
}

const name = (c) => `${c.norm}, sample ${c.changed} changed by ${c.change}`;

test("the block, the pattern, the defaults and the limits are Python's", { skip }, () => {
  assert.deepEqual([...axes.values], golden.values);
  assert.deepEqual([...axes.pattern], golden.pattern);
  assert.deepEqual({ ...axes.defaults }, golden.defaults);
  assert.deepEqual({ ...axes.limits }, golden.limits);
  assert.deepEqual(Object.keys(axes.norms), golden.norms);
});

test("cells are in PyTorch's order, and know their place", { skip }, () => {
  assert.deepEqual([...axes.cells], golden.cells);
  axes.cells.forEach((cell, i) => assert.equal(axes.indexOf(cell), i));
});

test("a change adds the pattern to one sample and to no other", { skip }, () => {
  for (const c of golden.cases) {
    axes.block(c.changed, c.change).forEach((x, i) => close(x, c.x[i], `${name(c)}, x[${i}]`));
  }
});

for (const norm of ["batch", "layer_sample", "layer_position", "instance", "group", "rms"]) {
  test(`x̂ is PyTorch's: ${norm}`, { skip }, () => {
    const cases = golden.cases.filter((c) => c.norm === norm);
    assert.ok(cases.length > 20);
    for (const c of cases) {
      const xHat = axes.normalize(axes.block(c.changed, c.change), norm);
      assert.equal(xHat.length, 60);
      xHat.forEach((v, i) => close(v, c.xHat[i], `${name(c)}, x̂[${i}]`));
    }
  });
}

test("the outputs that move are PyTorch's", { skip }, () => {
  for (const c of golden.cases) {
    const outputs = [0, c.change].map((change) => axes.normalize(axes.block(c.changed, change), c.norm));
    assert.deepEqual(axes.moved(...outputs), c.moved, name(c));
  }
});

test("values share statistics where PyTorch's derivatives are not 0", { skip }, () => {
  for (const { norm, cell, places } of golden.groups) {
    assert.deepEqual(axes.members(norm, cell).map(axes.indexOf), places, `${norm} ${JSON.stringify(cell)}`);
  }
});

test("mean and deviation are those of the values that share them", { skip }, () => {
  const x = axes.block(2, 4);
  for (const { norm, cell, places, mean, std } of golden.groups) {
    const found = axes.statistics(x, norm, places);
    close(found.mean, mean, `${norm} ${JSON.stringify(cell)}, mean`);
    close(found.std, std, `${norm} ${JSON.stringify(cell)}, deviation`);
    close(found.variance, std * std, `${norm} ${JSON.stringify(cell)}, variance`);
  }
});

test("a block has as many pairs of statistics as PyTorch takes", { skip }, () => {
  for (const norm of golden.norms) assert.equal(axes.pairs(norm), golden.pairs[norm]);
});

test("sentence and verdict are Python's, letter for letter", { skip }, () => {
  for (const { state, sentence, verdict } of golden.sentences) {
    assert.equal(axes.sentence(state), sentence);
    assert.equal(axes.verdict(state), verdict);
    assert.ok(verdict.length <= 45);
  }
});

test("a guess is told beside what moved", () => {
  for (const [more, guessed, told] of [
    [{ norm: "batch" }, [1, 3], "You said samples 1 and 3; samples 1, 2 and 3 moved."],
    [{ norm: "batch" }, [1, 2, 3], "You were right: samples 1, 2 and 3 moved."],
    [{ norm: "rms" }, [], "You said no sample; sample 2 moved."],
    [{ norm: "rms", change: 1e-12 }, [2], "You said sample 2; no sample moved."],
  ]) assert.equal(axes.answer({ ...axes.defaults, ...more }, guessed), told);
});

test("what an address says becomes a value of its trait, or none", () => {
  const given = { norm: "rms", sample: 2.6, channel: 9, position: -1, changed: 0, change: 8.5 };
  const taken = Object.entries(given).map(([name, value]) => axes.settle(name, value));
  assert.deepEqual(taken, ["rms", 3, 4, 1, 1, 8]);
  for (const norm of ["toString", "Batch"]) assert.equal(axes.settle("norm", norm), undefined);
});

test("what is drawn is what is computed", { skip }, () => {
  for (const c of golden.cases) {
    const seen = axes.look({ ...c, sample: 2, channel: 3, position: 4 });
    assert.equal(seen.index, 33);
    assert.deepEqual(seen.marks, c.moved);
    assert.deepEqual(seen.counts, [0, 20, 40].map((n) => c.moved.slice(n, n + 20).filter(Boolean).length));
    close(seen.now.told[0], c.x[33], name(c));
    close(seen.now.told[1], c.xHat[33], name(c));
    assert.equal(seen.before.told[0], golden.values[33]);
  }
});

test("a number in a cell has at most four characters", () => {
  const written = [[-1.25, "−1.3"], [0.04, "0"], [-0.04, "0"], [9.94, "9.9"], [9.96, "10"], [-10.5, "−11"], [2, "2"]];
  for (const [x, words] of written) assert.equal(charts.cellNumber(x), words);
  for (const x of axes.block(3, -8)) assert.ok(charts.cellNumber(x).length <= 4, String(x));
});

test("slabs lie side by side on a desk and one above the other on a phone, inside the drawing", () => {
  for (const width of [318, 338, 559, 560, 726]) {
    const { wide, size: [w, h], slabs, samples, height } = charts.blockLayout(width);
    assert.equal(wide, width >= 560);
    const boxes = slabs.flat().map(([x, y]) => [x, y, x + 5 * w, y + 4 * h]);
    boxes.forEach(([left, top, right, bottom], i) => {
      assert.ok(left > 0 && top > 0 && right <= width - 1.5 && bottom <= height - 20, `${width}`);
      boxes.slice(0, i).forEach((other) => {
        const beside = other[2] + 10 <= left || right + 10 <= other[0];
        const below = other[3] + 20 <= top || bottom + 20 <= other[1];
        assert.ok(beside || below, `${width}: slabs ${i} and ${boxes.indexOf(other)} overlap`);
      });
      const [x, y, across, down] = samples[i % 3]; // what is tapped in a guess
      assert.ok(x < left && y < top && right < x + across && bottom < y + down);
      assert.ok(x + across <= width + 4 && y + down <= height && Math.min(across, down) >= 44);
    });
    samples.slice(1).forEach(([x, y], n) => {
      const [left, top, across, down] = samples[n];
      assert.ok(wide ? left + across < x : top + down < y);
    });
    const [[[x0, y0], [x1, y1]], [[x2, y2]]] = slabs;
    assert.ok(wide ? x1 > x0 && y1 === y0 && y2 > y0 : y1 > y0 && x1 === x0 && x2 > x0);
    assert.ok(h >= 20 && height < 400);
  }
  assert.ok(charts.blockLayout(726).size[0] >= 40);
  assert.ok(charts.blockLayout(318).size[0] >= 27);
});

test("the middle of each cell, in both rows, is that cell", () => {
  for (const width of [318, 726]) {
    const place = charts.blockLayout(width);
    for (const corners of place.slabs) {
      for (const cell of axes.cells) {
        const [left, top] = corners[cell.sample - 1];
        const [w, h] = place.size;
        const middle = [left + (cell.position - 0.5) * w, top + (cell.channel - 0.5) * h];
        assert.deepEqual(charts.cellAt(place, middle, w), cell);
      }
    }
  }
});

test("a drag beyond the slabs stops at the nearest cell; a click there finds none", () => {
  const place = charts.blockLayout(726);
  assert.deepEqual(charts.cellAt(place, [-500, -500]), { sample: 1, channel: 1, position: 1 });
  assert.deepEqual(charts.cellAt(place, [5000, 5000]), { sample: 3, channel: 4, position: 5 });
  assert.equal(charts.cellAt(place, [-500, -500], place.size[0]), null);
});

test("the keys walk through every position of every sample, and stop at the ends", () => {
  let cell = { sample: 1, channel: 2, position: 1 };
  const seen = [];
  for (let k = 0; k < 15; k++) {
    seen.push(`${cell.sample}.${cell.position}`);
    assert.equal(cell.channel, 2);
    cell = charts.stepped(cell, 1, 0);
  }
  assert.equal(new Set(seen).size, 15);
  assert.deepEqual(cell, { sample: 3, channel: 2, position: 5 });
  assert.deepEqual(charts.stepped(cell, -15, 0), { sample: 1, channel: 2, position: 1 });
  assert.deepEqual(charts.stepped(cell, 0, 1), { sample: 3, channel: 1, position: 5 });
  assert.deepEqual(charts.stepped(cell, 0, 10), { sample: 3, channel: 1, position: 5 });
  assert.deepEqual(charts.stepped(cell, 0, -10), { sample: 3, channel: 4, position: 5 });
});
