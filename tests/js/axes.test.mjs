// The axes explorer: six norms of a block, against means over its dimensions in PyTorch.
import * as axes from "../../lnlib/book/explorers/axes.mjs";
import { stepped } from "../../lnlib/book/explorers/axes_charts.mjs";
import { assert, close, each, says, test } from "./golden.mjs";

test("x̂, who shares a mean, and what moves are those of the norm", each("axes", ({ state, pairs, ...expected }, where) => {
  const { before, now, ...more } = axes.look(state);
  const [past, then] = [before, now].map(({ x, xHat, mean, std }) => [x, xHat, mean, std]);
  close({ ...more, before: past, now: then }, expected, where, 1e-12, 1e-12); // numbers near 20 may come to one near 0
  assert.equal(axes.pairs(state.norm), pairs, where);
}));

test("a step to the right leads on into the next sample, a step up to the channel above", () => {
  const led = [[1, 0], [0, 1], [0, -9], [99, 0]].map((by) => Object.values(stepped({ sample: 1, channel: 2, position: 5 }, ...by)));
  assert.deepEqual(led, [[2, 2, 1], [1, 1, 5], [1, 4, 5], [3, 2, 5]]);
});

const [batch, one] = ["Batch norm in training: the 15 values of channel", "Outputs moved in sample 2 only"];
const [group, rms] = ["Group norm, two groups: the 10 values of sample", "RMS norm, each position: the 4 values of sample"];
test("words", says("axes", [
  [{}, "Outputs moved in samples 1, 2 and 3", `${batch} 1 in all samples share μ = 2.8 and σ = 3.52 (before: 2.13 and 1.81), one of 4 pairs in this batch. 60`],
  [{ norm: "layer_sample", sample: 3, change: 0 }, "Nothing is changed yet", `Layer norm, whole sample: the 20 values of sample 3 share μ = −1.2 and σ = 1.53, one of 3 pairs in this batch. 0`],
  [{ norm: "layer_position", sample: 2, position: 3 }, one, "Layer norm, each position: the 4 values of sample 2 at position 3 share μ = 3.38 and σ = 3.38 (before: 0.875 and 3.09), one of 15 pairs in this batch. 20"],
  [{ norm: "instance", sample: 2, channel: 2 }, one, "Instance norm: the 5 values of sample 2 in channel 2 share μ = 3.8 and σ = 4.5 (before: 2.2 and 1.36), one of 12 pairs in this batch. 20"],
  [{ norm: "group", channel: 2 }, one, `${group} 1 in channels 1 and 2 share μ = 1.15 and σ = 1.05, one of 6 pairs in this batch. 20`],
  [{ norm: "group", channel: 3 }, one, `${group} 1 in channels 3 and 4 share μ = 0.5 and σ = 1.86, one of 6 pairs in this batch. 20`],
  [{ norm: "rms", sample: 2 }, one, `${rms} 2 at position 1 share a root mean square of 6.76 (before: 4.66), one of 15 in this batch. 20`],
  [{ norm: "rms", change: 1e-12 }, "No output moved", `${rms} 1 at position 1 share a root mean square of 1.89, one of 15 in this batch. 0`],
], axes.verdict, (state) => axes.sentence(state).replace(" of 60 outputs moved.", "")));
