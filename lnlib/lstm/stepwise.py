"""The layer-normalized LSTM step by step: passes for every device and dtype, of single steps.

What the input adds to the gates leaves the loop: one product, one layer norm. Of each step, forward
and backward, the product with W_h is PyTorch's, and everything else one call of a backend:
`lnlib.lstm.plain` (operations of PyTorch), or `lnlib.lstm.triton_steps`. The gradient of each
weight is a product or a sum over many steps at once, when they are done.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise, takewhile
from typing import NamedTuple

import torch
from torch import Tensor

from lnlib import reference
from lnlib.cpp_kernel import dense
from lnlib.lstm.passes import Gradients, Results, Settings
from lnlib.lstm.steps import Backward, Block, Forward, Steps
from lnlib.lstm.weights import Weights

# Rows are worked off in chunks of so many numbers for the gates, 4 MiB in float32. Buffers of this
# size the allocator keeps and hands out again. Those of a whole long sequence come from the system
# each time, page by page: with 784 steps of 64 rows and H = 128 both passes took twice as long.
NUMBERS_AT_ONCE = 2**20
ON_A_GPU = 2**25  # whose allocator keeps any size, and which small products leave idle


class Chunk(NamedTuple):
    """Some steps: their rows in all outputs, their rows in all cells, and each step in them."""

    rows: slice
    cells: slice
    blocks: list[Block]


class Stepwise(NamedTuple):
    """The passes over sequences that a backend's steps make; see `lnlib.lstm.passes.Passes`."""

    steps: Steps

    def forward(
        self, settings: Settings, x: Tensor, h: Tensor, c: Tensor, weights: Weights, keeps: bool
    ) -> tuple[Results, list[Tensor]]:
        """Return the results, and the cells and each chunk's `_Kept` if ``keeps``."""
        outputs = x.new_empty(len(x), c.shape[-1])
        cells = torch.cat([c, torch.empty_like(outputs)])
        kept = [cells]
        transposed = weights.hh.t().contiguous()
        before = h
        for chunk in _chunks(settings.batch_sizes, weights):
            a_x = x[chunk.rows] @ weights.ih.t()
            affine = weights.norm_ih, weights.bias
            inputs, mean, rstd = reference.normalize(a_x, *affine, settings.eps)
            made = _made_for(inputs)
            if keeps:
                kept += [a_x, mean, rstd, *made]
            buffers = _buffers(weights, settings, chunk, outputs, cells, made)
            step = self.steps.forward(buffers)
            for block in chunk.blocks:
                rows = slice(block.start, block.stop)
                torch.mm(before[: block.stop - block.start], transposed, out=buffers.a_hat[rows])
                step(block)
                before = buffers.outputs[rows]
        last = _last_rows(settings.batch_sizes)
        last_h, last_c = (
            torch.cat([states[rows] for rows in last]) for states in (outputs, cells[len(c) :])
        )
        return (outputs, last_h, last_c), kept if keeps else []

    def backward(
        self,
        settings: Settings,
        given: tuple[Tensor, Tensor, Tensor, Weights],
        outputs: Tensor,
        kept: Sequence[Tensor],
        grads: Results,
        needs: tuple[bool, bool],
    ) -> Gradients:
        """Return the gradients; ``kept`` is what `forward` returned, maybe in other strides."""
        x, h, _, weights = given
        outputs, cells, *of_chunks = (dense(tensor) for tensor in (outputs, *kept))
        needs_dx, needs_weights = needs
        states = _states_before(h, outputs, settings.batch_sizes)
        dy = dense(grads[0])
        dh, dcarry = (grad.clone(memory_format=torch.contiguous_format) for grad in grads[1:])
        dx = torch.empty_like(x) if needs_dx else None
        totals = [None if weight is None else torch.zeros_like(weight) for weight in weights]
        size = len(_Kept._fields)
        for number, chunk in reversed(list(enumerate(_chunks(settings.batch_sizes, weights)))):
            of_chunk = _Kept(*of_chunks[number * size : (number + 1) * size])
            buffers = _buffers(weights, settings, chunk, outputs, cells, of_chunk[3:])
            through = self._back_through_time(weights, chunk, buffers, dy, dh, dcarry)
            of_input = _gradients_of_input(weights, of_chunk, through.dv)
            if dx is not None:
                torch.mm(of_input[0], weights.ih, out=dx[chunk.rows])
            if not needs_weights:
                continue
            parts = _gradients_of_weights(
                of_chunk, through, x[chunk.rows], states[chunk.rows], of_input
            )
            for total, part in zip(totals, parts, strict=True):
                if total is not None:
                    total += part
        return dx, dh, dcarry, *(totals if needs_weights else [None] * len(totals))

    def _back_through_time(
        self,
        weights: Weights,
        chunk: Chunk,
        buffers: Forward,
        dy: Tensor,
        dh: Tensor,
        dcarry: Tensor,
    ) -> Backward:
        """Go back over the steps of a chunk; ``dh``, ``dcarry`` become those before its first."""
        made = (torch.empty_like(like) for like in (buffers.gates, buffers.gates, buffers.c_hat))
        grads = Backward(dy[chunk.rows], dh, dcarry, *made)
        step = self.steps.backward(buffers, grads)
        for block in reversed(chunk.blocks):
            step(block)
            rows = slice(block.start, block.stop)
            torch.mm(grads.da[rows], weights.hh, out=dh[: block.stop - block.start])
        return grads


class _Kept(NamedTuple):
    """What a chunk keeps for the way back; the last six are buffers of `Forward`."""

    a_x: Tensor
    mean: Tensor
    rstd: Tensor
    gates: Tensor
    a_hat: Tensor
    c_hat: Tensor
    tanh_n: Tensor
    rstd_a: Tensor
    rstd_c: Tensor


def _gradients_of_input(weights: Weights, kept: _Kept, dv: Tensor) -> tuple[Tensor, ...]:
    """Return the gradients for W_x x, and for γ and β of its layer norm."""
    found: tuple[Tensor, ...] = torch.ops.aten.native_layer_norm_backward(
        dv,
        kept.a_x,
        kept.a_x.shape[-1:],
        kept.mean,
        kept.rstd,
        weights.norm_ih,
        weights.bias,
        [True, True, weights.bias is not None],
    )
    return found


def _gradients_of_weights(
    kept: _Kept, grads: Backward, x: Tensor, states: Tensor, of_input: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Return a chunk's part of the gradients of the weights, in their order.

    Args:
        kept: of the chunk.
        grads: likewise.
        x: ``(n, input_size)``, its inputs.
        states: ``(n, H)``, the states before its rows.
        of_input: the gradients for W_x x, and for γ and β of its layer norm.
    """
    da_x, dnorm_ih, dbias = of_input
    return (
        (x.t() @ da_x).t(),  # faster in this order, where x is narrow
        grads.da.t() @ states,
        dbias,
        dnorm_ih,
        (grads.dv * kept.a_hat).sum(0),
        (grads.dn * kept.c_hat).sum(0),
        grads.dn.sum(0),
    )


def _chunks(batch_sizes: Sequence[int], weights: Weights) -> list[Chunk]:
    """Divide steps of ``batch_sizes`` rows into chunks of about `NUMBERS_AT_ONCE` numbers."""
    numbers = NUMBERS_AT_ONCE if weights.hh.device.type == "cpu" else ON_A_GPU
    at_most = numbers // weights.hh.shape[0]
    chunks = []
    steps = list(batch_sizes)
    row, cell, rows_before = 0, 0, batch_sizes[0]
    while steps:
        fitting = takewhile(lambda total: total <= at_most, accumulate(steps))
        taken = max(1, sum(1 for _ in fitting))
        sizes, steps = steps[:taken], steps[taken:]
        rows = sum(sizes)
        blocks = _blocks(sizes, rows_before)
        chunks.append(Chunk(slice(row, row + rows), slice(cell, cell + rows_before + rows), blocks))
        cell += rows_before + rows - sizes[-1]
        row += rows
        rows_before = sizes[-1]
    return chunks


def _blocks(batch_sizes: Sequence[int], rows_before: int) -> list[Block]:
    """Return the rows of each step, of a chunk that ``rows_before`` rows of cells precede."""
    ends = list(accumulate(batch_sizes, initial=0))
    carried = [0, *(rows_before + start for start in ends)]
    return [
        Block(start, stop, before, rows_before + start)
        for (start, stop), before in zip(pairwise(ends), carried, strict=False)
    ]


def _last_rows(batch_sizes: Sequence[int]) -> list[slice]:
    """Return where the last step of each sequence is, the longest sequence first."""
    last = []
    start = 0
    for rows, rows_after in pairwise([*batch_sizes, 0]):
        last.append(slice(start + rows_after, start + rows))
        start += rows
    return last[::-1]


def _states_before(h: Tensor, outputs: Tensor, batch_sizes: Sequence[int]) -> Tensor:
    """Return the state that each row of the outputs was computed from: ``(N, H)``."""
    blocks = (h, *torch.split(outputs, list(batch_sizes)))
    return torch.cat([block[:rows] for block, rows in zip(blocks, batch_sizes, strict=False)])


def _made_for(inputs: Tensor) -> tuple[Tensor, ...]:
    """Return the buffers of `Forward` from ``gates`` on; ``inputs`` become the gates."""
    rows, width = inputs.shape
    statistic = torch.promote_types(inputs.dtype, torch.float32)
    return (
        inputs,
        torch.empty_like(inputs),
        *(inputs.new_empty(rows, width // 4) for _ in range(2)),
        *(inputs.new_empty(rows, 1, dtype=statistic) for _ in range(2)),
    )


def _buffers(
    weights: Weights,
    settings: Settings,
    chunk: Chunk,
    outputs: Tensor,
    cells: Tensor,
    made: Sequence[Tensor],
) -> Forward:
    _, eps, carry, _ = settings
    bias_c = weights.norm_c_bias
    return Forward(
        weights.norm_hh,
        weights.norm_c,
        torch.zeros_like(weights.norm_c) if bias_c is None else bias_c,
        eps,
        carry == "normalized",
        outputs[chunk.rows],
        cells[chunk.cells],
        *made,
    )
