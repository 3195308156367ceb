// The γ and β explorer: its lanes against lnlib.formula, what undoes the norm, and its words.
import * as explorer from "../../lnlib/book/explorers/gamma_beta.mjs";
import { lanesOf, roomFor, shifted } from "../../lnlib/book/explorers/gamma_beta_charts.mjs";
import { assert, close, each, says, test } from "./golden.mjs";

const eight = (v) => Array(8).fill(v);
const ramp = eight(0).map((_, i) => i / 2 - 1.75);

test("x̂, y, means and standard deviations are the formula's", each("gamma_beta", ({ state, lanes, statistics }, where) => {
  const { lanes: drawn, inLanes } = explorer.layer(state);
  close([drawn, inLanes], [Object.values(lanes), statistics], where, 1e-12, 1e-12); // sums of eight numbers of at most 25, that may cancel
}));

test("every lane has an axis with room for its values", each("gamma_beta", ({ lanes }, where) => {
  Object.values(lanes).forEach((values, i) => {
    const [low, high, ticks] = roomFor(lanesOf[i].axes, values);
    assert.ok([...values, ...ticks].every((v) => low <= v && v <= high), where);
  });
}));

test("what undoes the norm gives this row back, and no other; all are moved alike, not past an end", each("gamma_beta", ({ state, lanes: { x } }, where) => {
  const shown = (row) => explorer.layer({ ...state, x: row, ...explorer.undo(x, state.eps) });
  close(shown(x).y, x, where);
  assert.deepEqual([shown(x).undone, shown(x.map((v) => v + 1)).undone], [true, false], where);
  close(shifted(state.weight, 9, { low: -5, high: 5 }), state.weight.map((v) => v + 5 - Math.max(...state.weight)), where, 1e-10);
}));

const [book, and] = ["Mean and standard deviation are 5 and 2 in the row, 0 and 1 in x̂,", "in y; γ"];
test("words", says("gamma_beta", [
  [{ weight: eight(2), bias: eight(1) }, "γ is the spread of y, β its mean", `${book} 1 and 2 ${and} is 2 and β is 1.`],
  [{ weight: eight(-2) }, "|γ| is the spread of y, β its mean", `${book} 0 and 2 ${and} is −2 and β is 0.`],
  [{ weight: eight(1).with(7, 3) }, "γ differs: its mean is not the spread", `${book} 0.5 and 2.18 ${and} averages 1.25 and β is 0.`],
  [{ weight: eight(1).with(7, 1.01) }, "γ differs: its mean is not the spread", `${book} 0.0025 and 1.01 ${and} averages 1 and β is 0.`],
  [{ weight: eight(1).with(7, 1.0001) }, "γ differs, yet its mean is the spread", `${book} 2.5e-5 and 1 ${and} averages 1 and β is 0.`],
  [{ weight: eight(-1), bias: ramp }, "β differs: |γ| is not the spread of y", `${book} 0 and 0.433 ${and} is −1 and β averages 0.`],
  [{ weight: eight(1), bias: eight(0).with(7, 1e-4) }, "β differs, yet γ is the spread of y", `${book} 1.25e-5 and 1 ${and} is 1 and β averages 1.25e-5.`],
  [{ weight: eight(0), bias: ramp }, "y is β, whatever the row", `${book} 0 and 1.15 ${and} is 0 and β averages 0.`],
  [explorer.undo([2, 4, 4, 4, 5, 5, 7, 9], 1e-5), "y is the row itself: now drag x", `${book} 5 and 2 ${and} is 2 and β is 5.`],
  [{ x: eight(1.5), weight: eight(1), bias: ramp }, "x̂ is 0: y is β, whatever γ is", `Mean and standard deviation are 1.5 and 0 in the row, 0 and 0 in x̂, 0 and 1.15 ${and} is 1 and β averages 0.`],
  [{ x: [2.5, 1.875, 2, 1.75, 2.125, 2, 1.625, 2.125], eps: 1, weight: eight(2) }, "ε keeps the spread below γ", `Mean and standard deviation are 2 and 0.25 in the row, 0 and 0.243 in x̂, 0 and 0.485 ${and} is 2 and β is 0. ε = 1 is not small next to σ² = 0.0625.`],
], explorer.verdict, explorer.sentence));
