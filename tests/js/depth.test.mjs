// The depth explorer: a network of 50 layers, against autograd, and its law, against integrals.
import * as depth from "../../lnlib/book/explorers/depth.mjs";
import { reach } from "../../lnlib/book/explorers/depth_charts.mjs";
import { assert, close, each, first, says, test } from "./golden.mjs";

const sizes = ({ activations, gradients }) => [activations, gradients];
test("measured is what PyTorch computes; the law, what integrals give", each("depth", ({ state, measured, law }, where) => {
  const traits = [state.order, state.scale, state.depth, state.network];
  const relative = state.order === "relu_first" ? 1e-10 : 1e-13; // there rounding grows as the gradient does
  close(sizes(depth.measured(...traits)), measured, `${where} measured`, relative, 0);
  close(sizes(depth.law(...traits)), law, `${where} law`, 1e-7, 0); // 50 times the error of an integral
}));

test("the axis is the smallest that has room, the same up and down", () => {
  assert.deepEqual([[1], [2, 0.001], [1001], [1e-7], [1e13, 1], [1e-31]].map(reach), [3, 3, 6, 12, 24, 36]);
  const ends = Object.keys(depth.orders).flatMap((order) => [0.25, 4].flatMap((scale) => Object.values(depth.measured(order, scale, 50, 1)).flat()));
  assert.ok(reach(ends) === 36 && ends.every((v) => v > 1e-36 && v < 1e36));
});

test("a guess is asked for where the size changes with depth, and the answer says how far off it was", () => {
  const asked = (order, scale) => depth.question({ order, scale })?.match(/[\d.]+ % too \w+/)[0];
  assert.deepEqual([asked("none", 1.2), asked("none", 0.408)], ["20 % too large", "59.2 % too small"]);
  assert.deepEqual([asked("none", 1), asked("norm_first", 4), asked("relu_first", 0.5)], [undefined, "300 % too large", undefined]);
  const told = (guessed) => depth.answer(first("depth"), guessed).replace("at layer 50. It is 1.2⁵⁰ = 9100: you were", "…");
  const off = (by) => `… off by a factor of ${by}.`;
  assert.deepEqual([10, 1e6, 3640, 5600].map(told), [`You said 10 ${off(910)}`, `You said 1e6 ${off(110)}`, `You said 3640 ${off(2.5)}`, "You said 5600 … close."]);
  assert.equal(depth.answer({ order: "norm_first", scale: 4, depth: 50 }, 1), "You said 1 at layer 50. It is 1/√2 = 0.707, whatever the weights: you were close.");
});

const multiplied = (by) => `Each layer multiplies the activations by ${by}, and on the way back the gradient too. After`;
const out = "The norm divides out the scale of the weights: the activations keep the RMS";
const real = "a real network of 128 features ends at";
const back = "But each layer multiplies the gradient by 1/√(1 − 1/π) = 1.21, and";
test("words", says("depth", [
  [{}, "Both explode: × 1.2 a layer", `${multiplied(1.2)} 50 layers that is 1.2⁵⁰ = 9100; ${real} 3490, and its gradient at 9560.`],
  [{ scale: 0.408 }, "Both vanish: × 0.408 a layer", `${multiplied(0.408)} 50 layers that is 0.408⁵⁰ = 3.41e-20; ${real} 1.31e-20, and its gradient at 3.58e-20.`],
  [{ depth: 1 }, "Both stay near 1: × 1.2 a layer", `${multiplied(1.2)} one layer that is 1.2¹ = 1.2; ${real} 1.21, and its gradient at 1.43.`],
  [{ order: "norm_first", scale: 4 }, "Both stay level, whatever the weights", `${out} 1/√2, and the gradient keeps its size. After 50 layers ${real} 0.711, and its gradient at 0.936.`],
  [{ order: "relu_first" }, "The activations stay level, the gradient explodes", `${out} 1. ${back} 50 layers by 14500; ${real} 1, and its gradient at 8400.`],
  [{ order: "relu_first", depth: 8 }, "The activations stay level, the gradient grows", `${out} 1. ${back} 8 layers by 4.63; ${real} 1, and its gradient at 4.27.`],
], depth.verdict, depth.sentence));
