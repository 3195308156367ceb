"""The layer-normalized LSTM with its gradient derived by hand: one Function for the whole sequence.

What the input adds to the gates leaves the loop: one product, one layer norm. Of each step, forward
and backward, the product with W_h is PyTorch's, and everything else one call of a backend:
`lnlib.lstm.plain` (operations of PyTorch), `lnlib.lstm.cpp` or `lnlib.lstm.triton_steps`. The
gradient of each weight is a product or a sum over many steps at once, when they are done.

With ``u = γ ⊙ dy`` and a bar for the mean over the features, layer norm's gradient is
``J(u) = rstd (u - ū - x̂ mean(u ⊙ x̂))``. One step back through time, from dh and dc, is::

    dn = dh ⊙ σ(o) ⊙ (1 - tanh² n)
    dc = dc + J(γ_c ⊙ dn)                   the layer norm of the cell
    dv = dc, or dh for the output gate, times the slopes of the gates
    da = J(γ_h ⊙ dv)                        the layer norm of W_h h
    dh = W_hᵀ da,  dc = dc ⊙ σ(f)           for the step before
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise, takewhile
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from lnlib.dispatch import mode_of
from lnlib.lstm import formula
from lnlib.lstm.formula import Weights

# Rows are worked off in chunks of so many numbers for the gates, 4 MiB in float32. Buffers of this
# size stay in a CPU's cache, and the allocator hands them out again; much larger ones come from the
# operating system each time, which costs more than the arithmetic.
NUMBERS_AT_ONCE = 2**20


class Forward(NamedTuple):
    """The buffers of a forward pass over n rows, one for each step of each sequence.

    Attributes:
        weight_h: ``(4H,)``, the gain of W_h h.
        weight_c: ``(H,)``, the gain of the cell.
        bias_c: ``(H,)``, its bias.
        eps: added to each variance.
        carries_normalized: whether the normalized cell goes on to the next step, or the raw one.
        outputs: ``(n, H)``, the state h.
        carry: ``(b + n, H)``; the b cells to start from, and the cells that the steps send on.
        gates: ``(n, 4H)``; at first what the input adds to them, then their values.
        a_hat: ``(n, 4H)``; W_h h at first, then normalized.
        c_hat: ``(n, H)``, the cell, normalized.
        tanh_n: ``(n, H)``, of the normalized, scaled and shifted cell.
        rstd_a: ``(n, 1)``, of W_h h; float32 or wider.
        rstd_c: ``(n, 1)``, of the cell; likewise.
    """

    weight_h: Tensor
    weight_c: Tensor
    bias_c: Tensor
    eps: float
    carries_normalized: bool
    outputs: Tensor
    carry: Tensor
    gates: Tensor
    a_hat: Tensor
    c_hat: Tensor
    tanh_n: Tensor
    rstd_a: Tensor
    rstd_c: Tensor


class Backward(NamedTuple):
    """The buffers of a backward pass over n rows of B sequences.

    Attributes:
        dy: ``(n, H)``; what reaches the outputs from outside.
        dh: ``(B, H)``; what reaches the state h of a step from the step after it.
        dcarry: ``(B, H)``; what reaches the cell that a step sends on, then the one it was sent.
        dv: ``(n, 4H)``, for the sums that enter the gates.
        da: ``(n, 4H)``, for W_h h.
        dn: ``(n, H)``, for the normalized, scaled and shifted cell.
    """

    dy: Tensor
    dh: Tensor
    dcarry: Tensor
    dv: Tensor
    da: Tensor
    dn: Tensor


class Block(NamedTuple):
    """The rows of one time step, ``[start, stop)``, and where ``carry`` has its cells."""

    start: int
    stop: int
    before: int
    after: int


class Chunk(NamedTuple):
    """Some steps: their rows in all outputs, their rows in all cells, and each step in them."""

    rows: slice
    cells: slice
    blocks: list[Block]


Step = Callable[[Block], None]


class Steps(Protocol):
    """A backend: how one time step is computed, but for the product with W_h."""

    def forward(self, buffers: Forward) -> Step:
        """Return a step forward over these buffers.

        Where a block's rows of ``a_hat`` hold W_h h, and those of ``gates`` what the input adds, it
        fills the block in all of them.
        """

    def backward(self, buffers: Forward, grads: Backward) -> Step:
        """Return a step back over these buffers.

        It fills the block in ``dv``, ``da`` and ``dn``, and moves ``dcarry`` one step back.
        """


def lstm(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weights: Weights,
    batch_sizes: Sequence[int],
    eps: float,
    carry: str,
    steps: Steps,
) -> tuple[Tensor, Tensor, Tensor]:
    """Do what `lnlib.lstm.formula.lstm` does, for ordinary tensors of one dtype, with ``steps``.

    The gradient is right to any order: one that is to be differentiated itself is computed by
    going through the loop.
    """
    settings = Settings(tuple(batch_sizes), eps, carry, steps)
    given = (x, h, c, *weights)
    wanted = any(tensor is not None and tensor.requires_grad for tensor in given)
    if not (wanted and torch.is_grad_enabled()):
        return _forward(settings, x, h, c, weights, keep=lambda *buffers: None)
    result: tuple[Tensor, Tensor, Tensor]
    result = _LayerNormLSTM.apply(settings, *given)  # type: ignore[no-untyped-call]
    return result


class Settings(NamedTuple):
    """What a run depends on besides tensors; see `lstm`."""

    batch_sizes: tuple[int, ...]
    eps: float
    carry: str
    steps: Steps


def _forward(
    settings: Settings,
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weights: Weights,
    keep: Callable[..., None],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the outputs and the last states, and hand to ``keep`` what the way back needs."""
    outputs = x.new_empty(len(x), c.shape[-1])
    cells = torch.cat([c, torch.empty_like(outputs)])
    keep(outputs, cells)
    transposed = weights.hh.t().contiguous()
    before = h
    for chunk in _chunks(settings.batch_sizes, weights.hh.shape[0]):
        a_x = x[chunk.rows] @ weights.ih.t()
        inputs, mean, rstd = torch.native_layer_norm(
            a_x, a_x.shape[-1:], weights.norm_ih, weights.bias, settings.eps
        )
        made = _made_for(inputs)
        keep(a_x, mean, rstd, *made)
        buffers = _buffers(weights, settings, chunk, outputs, cells, made)
        step = settings.steps.forward(buffers)
        for block in chunk.blocks:
            rows = slice(block.start, block.stop)
            torch.mm(before[: block.stop - block.start], transposed, out=buffers.a_hat[rows])
            step(block)
            before = buffers.outputs[rows]
    last = _last_rows(settings.batch_sizes)
    last_h, last_c = (
        torch.cat([states[rows] for rows in last]) for states in (outputs, cells[len(c) :])
    )
    return outputs, last_h, last_c


class _LayerNormLSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, settings: Settings, *given: Any) -> Any:
        x, h, c, *weights = given
        kept: list[Tensor] = []
        result = _forward(settings, x, h, c, Weights(*weights), keep=lambda *new: kept.extend(new))
        ctx.settings = settings
        ctx.save_for_backward(*given, *kept)
        return result

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *dlast: Tensor) -> Any:
        batch_sizes, _, _, steps = settings = ctx.settings
        x, h, c, *saved = ctx.saved_tensors  # read once: checkpointing allows no more
        given, (outputs, cells, *saved) = saved[:7], saved[7:]
        if torch.is_grad_enabled() or mode_of(dy, *dlast) != "eager":
            # This pass is itself differentiated, by create_graph=True, or mapped.
            return None, *_gradients_of_loop((x, h, c, *given), settings, (dy, *dlast))
        weights = Weights(*given)
        states = _states_before(h, outputs, batch_sizes)
        dy = dy.contiguous()
        dh, dcarry = (grad.clone(memory_format=torch.contiguous_format) for grad in dlast)
        dx = torch.empty_like(x) if ctx.needs_input_grad[1] else None
        totals = [None if weight is None else torch.zeros_like(weight) for weight in weights]
        for chunk in reversed(_chunks(batch_sizes, weights.hh.shape[0])):
            *saved, a_x, mean, rstd, gates, a_hat, c_hat, tanh_n, rstd_a, rstd_c = saved
            made = (gates, a_hat, c_hat, tanh_n, rstd_a, rstd_c)
            buffers = _buffers(weights, settings, chunk, outputs, cells, made)
            grads = Backward(
                *(dy[chunk.rows], dh, dcarry),
                *(torch.empty_like(like) for like in (gates, a_hat, c_hat)),
            )
            step = steps.backward(buffers, grads)
            for block in reversed(chunk.blocks):
                step(block)
                rows = slice(block.start, block.stop)
                torch.mm(grads.da[rows], weights.hh, out=dh[: block.stop - block.start])
            da_x, *of_input = torch.ops.aten.native_layer_norm_backward(
                *(grads.dv, a_x, a_x.shape[-1:], mean, rstd, weights.norm_ih, weights.bias),
                output_mask=[True, True, weights.bias is not None],
            )
            if dx is not None:
                torch.mm(da_x, weights.ih, out=dx[chunk.rows])
            parts = (
                (x[chunk.rows].t() @ da_x).t(),  # faster in this order, where x is narrow
                grads.da.t() @ states[chunk.rows],
                *reversed(of_input),
                (grads.dv * a_hat).sum(0),
                (grads.dn * c_hat).sum(0),
                grads.dn.sum(0),
            )
            for total, part in zip(totals, parts, strict=True):
                if total is not None:
                    total += part
        return None, dx, dh, dcarry, *totals


def _chunks(batch_sizes: Sequence[int], width: int) -> list[Chunk]:
    """Divide steps of ``batch_sizes`` rows into chunks of about `NUMBERS_AT_ONCE` numbers."""
    at_most = NUMBERS_AT_ONCE // width
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


def _gradients_of_loop(
    given: tuple[Any, ...], settings: Settings, grads: tuple[Tensor, ...]
) -> list[Tensor | None]:
    batch_sizes, eps, carry, _ = settings
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views, so that what an argument was itself computed from is not counted here.
        views: list[Any] = [None if t is None else t.view_as(t) for t in given]
        x, h, c, *weights = views
        normalize = formula.normalizing(eps)
        result = formula.lstm(x, h, c, Weights(*weights), batch_sizes, normalize, carry)
    wanted = [view for view in views if view is not None and view.requires_grad]
    # One step's raw cell depends on less than its output does, and maybe on nothing wanted.
    reached = [(y, dy) for y, dy in zip(result, grads, strict=True) if y.requires_grad]
    ys, dys = zip(*reached, strict=True)
    found = iter(torch.autograd.grad(ys, wanted, dys, create_graph=create_graph))
    return [next(found) if view is not None and view.requires_grad else None for view in views]
