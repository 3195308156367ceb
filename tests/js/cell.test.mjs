// The LSTM's explorer: each row's step against lnlib.lstm.formula, its gradient against autograd.
import * as cell from "../../lnlib/book/explorers/cell.mjs";
import { decades } from "../../lnlib/book/explorers/cell_charts.mjs";
import { assert, close, each, says, test } from "./golden.mjs";

test("all that is on the wires, and the gradient of each row, is what PyTorch computes", each("cell", ({ state, ...run }, where) => {
  const { gradients, ...forth } = cell.look(state);
  close(forth, { steps: run.steps, sizes: run.sizes }, where, 1e-9, 1e-9); // weights × 100 multiply rounding in each row
  close(gradients, run.gradients, `${where} gradients`, 1e-9, 0);
}));

test("the gradient's axis holds every row, 0 aside", () => {
  assert.deepEqual([[0.5, 3], [2e-4, 1], [0, 4e19], [1e-90, 1e300]].map(decades), [[-2, 2], [-5, 2], [-2, 25], [-40, 100]]);
});

const of = (count, size) => `${count} of 48 gates ${count === 1 ? "is" : "are"} saturated, and the cell goes on with size ${size}`;
const [few, still] = ["Hardly a gate is saturated", "are 0: all gates are half open"];
test("words", says("cell", [
  [{}, "2 of 48 gates are saturated", `At row 6, ${of(2, 0.614)}. Row 1 gets 6.57`],
  [{ scale: 8, norm: "none" }, "17 of 48 gates are saturated", `At row 6, ${of(17, 1.08)}. Row 1 gets 3.66`],
  [{ scale: 3, norm: "none" }, few, `At row 6, ${of(0, 0.715)}. Row 1 gets 0.0338`],
  [{ row: 5 }, few, `At row 5, ${of(1, 0.649)}. Row 1 gets 6.57`],
  [{ norm: "normalized", row: 13 }, "The cell has size 1 at every row", `Row 13 is blank: state and bias alone set the gates; ${of(0, 1)}. Row 1 gets 30.6`],
  [{ norm: "normalized", eps: 1e-3, row: 1 }, few, `Row 1 is blank: the bias alone sets the gates; ${of(0, 0.908)}. Row 1 gets 19.4`],
  [{ bias: "zero", blank: 0, row: 13 }, few, `Row 13 is blank: the state alone sets the gates; ${of(0, 0.609)}. Row 1 gets 0.0924`],
  [{ bias: "zero", blank: 5, row: 3 }, "The gradient explodes to 4.82e19", `Row 3 is blank, and state and bias ${still}, and each norm divides by √ε = 0.00316. Row 1 gets 4.82e19`],
  [{ bias: "zero", norm: "none", row: 1 }, "The gradient fades to 9.08e-4", `Row 1 is blank, and state and bias ${still}. Row 1 gets 9.08e-4`],
], cell.verdict, (state) => cell.sentence(state).replace(" times the last row’s gradient.", "")));
