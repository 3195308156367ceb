// The arithmetic of the tile explorer against float64 formulas of PyTorch.
//
// tests/test_explorer_tiles.py writes the golden cases and runs this file with LN_GOLDEN set.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as charts from "../../lnlib/book/explorers/tiles_charts.mjs";
import * as tiles from "../../lnlib/book/explorers/tiles_work.mjs";

const path = process.env.LN_GOLDEN;
const skip = path ? false : "LN_GOLDEN is not set: run pytest tests/test_explorer_tiles.py";
const golden = path ? JSON.parse(readFileSync(path, "utf8")) : null;

// Sums of at most 16 terms of size 10 in float64 are off by some 1e-14; some of them are 0.
const ABSOLUTE = 1e-12;
function close(actual, expected, what) {
  assert.equal(actual.flat().length, expected.flat().length, what);
  actual.flat().forEach((v, i) => {
    assert.ok(Math.abs(v - expected.flat()[i]) <= ABSOLUTE, `${what}[${i}]: ${v}, expected ${expected.flat()[i]}`);
  });
}
const name = ({ kernel, rows, features, programs }) => `${kernel}, ${rows} × ${features}, ${programs}`;
const shapes = [];
for (const kernel of ["forward", "backward", "long"]) {
  for (let rows = 1; rows <= 12; rows++) {
    for (let features = 1; features <= 16; features++) {
      for (const programs of kernel === "backward" ? [1, 2, 3] : [2]) {
        shapes.push({ kernel, rows, features, programs, padding: "masked" });
      }
    }
  }
}
const at = (shape, step) => tiles.look({ ...shape, step });

test("the defaults and the limits are Python's", { skip }, () => {
  assert.deepEqual({ ...tiles.defaults }, golden.defaults);
  assert.deepEqual({ ...tiles.limits }, golden.limits);
});

test("the example is Python's, number for number", { skip }, () => {
  const { x, dy } = tiles.example({ rows: 12, features: 16 });
  assert.deepEqual(x, golden.x);
  assert.deepEqual(dy, golden.dy);
});

test("mean, variance and x̂ are the formula's", { skip }, () => {
  for (const c of golden.cases) {
    const seen = at({ ...c, kernel: "forward", programs: 2, padding: "masked" }, 1);
    close(seen.rows.map((row) => row.mean), c.mean, `mean of ${c.rows} × ${c.features}`);
    close(seen.rows.map((row) => row.variance), c.variance, `variance of ${c.rows} × ${c.features}`);
    close(seen.xHat, c.xHat, `x̂ of ${c.rows} × ${c.features}`);
  }
});

test("counted padding gives the variance of a row with lanes at −μ", { skip }, () => {
  for (const c of golden.cases) {
    const seen = at({ ...c, kernel: "forward", programs: 2, padding: "counted" }, 1);
    close(seen.rows.map((row) => row.counted), c.counted, `${c.rows} × ${c.features}`);
    close(seen.xHat, c.wrong, `x̂ of ${c.rows} × ${c.features}, padding counted`);
  }
});

test("dγ is what autograd says, however many programs share the rows", { skip }, () => {
  for (const c of golden.cases) {
    for (const programs of [1, 2, 3]) {
      const seen = at({ ...c, kernel: "backward", programs, padding: "masked" }, 14);
      close(seen.dgamma, c.dgamma, `dγ of ${c.rows} × ${c.features}, ${programs} programs`);
      close(seen.truth, c.dgamma, `all rows at once, ${c.rows} × ${c.features}`);
    }
  }
});

test("each program's partial sum is that of its tiles' rows", { skip }, () => {
  for (const c of golden.partials) close(at(c.state, c.state.step).sums, c.sums, name(c.state));
});

test("the two sums of a long row give its mean and variance", { skip }, () => {
  for (const c of golden.cases) {
    const { x } = tiles.example(c);
    x.forEach((row, i) => {
      const { m, sum, squares } = tiles.running(row, row.length);
      const rest = sum / row.length;
      close([m + rest, squares / row.length - rest * rest], [c.mean[i], c.variance[i]], `row ${i}`);
    });
  }
});

test("a tile of whole rows is a power of two wide and holds 16 numbers at most", () => {
  for (const shape of shapes.filter(({ kernel }) => kernel !== "long")) {
    const { height, width, tiles: down } = tiles.plan(shape);
    assert.ok(Number.isInteger(Math.log2(width)) && width >= shape.features && width < 2 * shape.features);
    assert.ok(height * width <= 16 && height >= 1 && height <= 4);
    assert.ok(down * height >= shape.rows && (down - 1) * height < shape.rows);
  }
});

test("every number is read as often as its kernel says, and none twice in a step", () => {
  for (const shape of shapes) {
    const { last } = tiles.plan(shape);
    assert.ok(last <= tiles.limits.step[1], name(shape));
    for (let step = 0; step <= last; step++) {
      const [before, now] = [Math.max(0, step - 1), step].map((s) => at(shape, s).reads.flat());
      assert.ok(now.every((n, i) => n - before[i] <= 1), name(shape));
    }
    const passes = shape.kernel === "long" ? 2 : 1;
    assert.ok(at(shape, last).reads.flat().every((n) => n === passes), name(shape));
    assert.ok(at(shape, last).written.flat().every(Boolean), name(shape));
    assert.ok(at(shape, 0).reads.flat().every((n) => n === 0), name(shape));
  }
});

test("a backward program has every P-th tile, one at a step", () => {
  const shape = { kernel: "backward", rows: 11, features: 6, programs: 3, padding: "masked" };
  const found = [1, 2, 3].map((step) => at(shape, step).now.map(({ program, top }) => [program, top]));
  assert.deepEqual(found, [[[0, 0], [1, 2], [2, 4]], [[0, 6], [1, 8], [2, 10]], []]);
});

test("a long row is read to the right, then written to the left", () => {
  const shape = { kernel: "long", rows: 2, features: 14, programs: 2, padding: "masked" };
  const lefts = [1, 2, 3, 4, 5, 6, 7, 8].map((step) => at(shape, step).now[0].left);
  assert.deepEqual(lefts, [0, 4, 8, 12, 12, 8, 4, 0]);
  assert.equal(at(shape, 4).wrote, 0);
  assert.deepEqual(at(shape, 5).written[1], [...Array(12).fill(false), true, true]);
});

test("bytes are those of bfloat16 and of float32 partial sums", () => {
  for (const shape of shapes) {
    const { all, cut } = at(shape, 1);
    const [n, H] = [shape.rows * shape.features, shape.features];
    const expected = {
      forward: [2 * n, 2 * n],
      backward: [4 * n + 4 * cut.programs * H, 2 * n + 4 * cut.programs * H + 2 * H],
      long: [4 * n, 2 * n],
    };
    assert.deepEqual([all.read, all.wrote], expected[shape.kernel], name(shape));
  }
});

test("partial sums are added one by one, in order", () => {
  const shape = { kernel: "backward", rows: 11, features: 6, programs: 3, padding: "masked" };
  const { sums } = at(shape, 6);
  assert.deepEqual([3, 4, 5, 6].map((step) => at(shape, step).added), [0, 1, 2, 3]);
  assert.deepEqual(at(shape, 3).dgamma, [0, 0, 0, 0, 0, 0]);
  assert.deepEqual(at(shape, 4).dgamma, sums[0]);
  assert.deepEqual(at(shape, 5).dgamma, sums[0].map((v, j) => v + sums[1][j]));
  assert.deepEqual(at(shape, 6).dgamma, sums[0].map((v, j) => v + sums[1][j] + sums[2][j]));
});

test("a step beyond the last is the last", () => {
  for (const shape of shapes) assert.equal(at(shape, 14).step, tiles.plan(shape).last);
});

test("sentence and verdict are Python's, letter for letter", { skip }, () => {
  for (const { state, sentence, verdict } of golden.sentences) {
    assert.equal(tiles.sentence(state), sentence);
    assert.equal(tiles.verdict(state), verdict);
    assert.ok(verdict.length <= 45);
  }
});

test("the table has the numbers of the picture, once they are known", { skip }, () => {
  for (const { state, lines } of golden.tables) {
    assert.deepEqual(tiles.numbers(state, at(state, state.step)).lines, lines, name(state));
  }
});

test("cells stand inside the drawing, with numbers where they fit", () => {
  for (const width of [318, 338, 559, 560, 726]) {
    for (const lanes of [1, 2, 4, 8, 12, 16]) {
      for (const beside of [0, 1, 2]) {
        const place = charts.tilesLayout(width, { lanes, lines: 12, beside, sums: 4, single: lanes > 8 });
        const right = place.left + lanes * place.across + (place.room ? beside * place.column : 0);
        assert.ok(right <= width && place.across >= 13, `${width}, ${lanes}, ${beside}`);
        assert.ok(place.top + 12 * place.down < place.below);
        assert.ok(place.below + 4 * place.down <= place.height);
        const alone = charts.tilesLayout(width, { lanes, lines: 12, beside, sums: 0, single: false });
        assert.ok(alone.top + 12 * alone.down <= alone.height);
        for (const { height, down, wide } of [alone, place]) assert.ok(height <= (wide ? 314 : 396) && down >= 16);
        if (width < 340 || width > 700) assert.equal(place.numbers, width > 700 || lanes <= 8);
      }
    }
  }
});

test("programs that run at once differ in color, and each keeps its own", () => {
  const tones = [0, 1, 2, 3, 4, 5].map(charts.toneOf);
  assert.equal(new Set(tones.slice(0, 3)).size, 3);
  assert.deepEqual(tones.slice(3), tones.slice(0, 3));
});

test("a number in a cell has one decimal and no negative zero", () => {
  const written = [[-1.26, "−1.3"], [0.04, "0"], [-0.04, "0"], [5.5, "5.5"], [-0, "0"]];
  for (const [x, words] of written) assert.equal(charts.tenths(x), words);
});
