// The traits of an explorer as Python declares them, and a state of them in an address, said and read again.
import { readState, stateText, traitsOf } from "../../lnlib/book/explorers/traits.mjs";
import { assert, test } from "./golden.mjs";

const plain = Object.freeze({ eps: 1e-8, x: Object.freeze([2, 4, 9]), norm: "layer" });
const read = (text, taken) => assert.deepEqual(readState(text, plain), taken, text);

test("what differs is said of every trait, in their order, and of a list that is equal nothing", () => {
  assert.equal(stateText({ ...plain, x: [2, 4, 9] }, plain), "");
  assert.equal(stateText({ eps: 0, x: [1, 1, 1], norm: "batch" }, plain), "eps=0&x=1,1,1&norm=batch");
});

test("a list has its commas, a small number its exponent, and what would end a value is escaped", () => {
  const text = stateText({ eps: 1e-8, x: [0.5, -2, 1e-7], norm: "a&b = c,d#é" }, plain);
  assert.equal(text, "x=0.5,-2,1e-7&norm=a%26b%20%3D%20c%2Cd%23%C3%A9");
  const small = [[1e-5, "1e-5"], [-2.5e-4, "-2.5e-4"], [0, "0"], [1e-3, "0.001"], [12, "12"], [1e21, "1e%2B21"]];
  for (const [eps, words] of small) assert.equal(stateText({ ...plain, eps }, plain), `eps=${words}`);
});

test("numbers come back to the last bit, lists and words as they were", () => {
  for (const v of [0, 1, -1, 0.1 + 0.2, 1 / 3, 5e-324, 1.7976931348623157e308, -6.3245553e-5, 1e21, 123456789012]) {
    const state = { eps: v, x: [v, v - 1, 0], norm: `${v} / é+&%41` };
    assert.deepEqual(readState(stateText(state, plain), plain), state);
  }
});

test("what is no address, no trait or no value of it is left out; said twice, the last word counts", () => {
  for (const text of ["", "&", "=", "&&==&", "eps", "?", "%zz", "#", "=1", "\u0000", "<script>", "eps%3D1", "EPS=1"]) read(text, {});
  for (const name of ["nothing", "__proto__", "constructor", "toString"]) read(`${name}=1&eps=2&${name}[eps]=1`, { eps: 2 });
  assert.equal({}.eps, undefined);
  for (const words of ["", "%20", "NaN", "-Infinity", "1e999", "1,2", "0x", "1e-", "null", "[1]", "e"]) read(`eps=${words}&norm=row`, { norm: "row" });
  for (const words of ["", "1,2", "1,2,3,4", "1,,3", "1,2,", ",1,2", "1,NaN,3", "1;2;3", "2,4,x", ",,"]) read(`x=${words}&eps=2`, { eps: 2 });
  read("eps=1&eps=2", { eps: 2 });
});

test("a value is made one that its trait takes or is left out, and goes on by steps", () => {
  const traits = traitsOf({
    eps: { first: 1e-5, low: 1e-12, high: 1, zero: true },
    x: { first: [1, 2], low: -5, high: 5, step: 0.1 },
    turn: { first: 0, low: -180, high: 180, step: 1, round: true },
    rows: { first: 7, low: 1, high: 12, step: 1, whole: true },
    norm: { first: "batch", options: ["batch", "layer"] },
    sample: { first: 2, options: [2, 1, 3] },
  });
  const { eps, x, turn, rows, norm, sample } = traits;
  const settled = readState("norm=group&x=1,9&eps=5", { eps: 0, x: [1, 2], norm: "" }, (name, v) => traits[name].settle(v));
  assert.deepEqual(settled, { x: [1, 5], eps: 1 });
  assert.deepEqual([0, -1, 1e-20, 7].map(eps.settle), [0, 1e-12, 1e-12, 1]);
  assert.deepEqual([x.settle([-9, 0.25]), x.onward([0.25, 4.95], 1), x.each(0.3, -3)], [[-5, 0.25], [0.35, 5], 0]);
  assert.deepEqual([turn.settle(190), turn.onward(180, 5), rows.settle(3.6), rows.settle(99)], [-170, -175, 4, 12]);
  assert.deepEqual([norm.settle("layer"), norm.settle("row"), sample.settle(9), sample.onward(2, -1)], ["layer", undefined, 3, 1]);
  assert.deepEqual([eps.onward(1e-12, -1), eps.onward(eps.onward(3e-5, 7), -7), rows.onward(12, 1)], [0, 3e-5, 12]);
});
