"""The layer-normalized LSTM in Triton, a launch a step: compiled on a GPU, interpreted on a CPU.

A step is PyTorch's product with W_h, and one kernel of `lnlib.lstm.triton_kernels` for everything
else, forward and backward alike. Neither allocates anything or waits for the GPU, so both passes
can be captured in a CUDA graph. W_h h, the cells and the outputs are kept for the way back, which
computes the gates once more. The gradient of each weight is a product or a sum over all steps.
"""

from collections.abc import Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from lnlib import reference
from lnlib.cpp_kernel import dense
from lnlib.lstm.formula import Gradients, Results, Settings, Weights
from lnlib.triton_kernel import launch, tiles

KERNELS = "lnlib.lstm.triton_kernels"
# The most features that a program holds of float32, or half as many of float64. Twice as many
# spill from the registers to memory, as the compiler reports.
MOST = 2048
EACH = 128  # float32 features to a warp: four to each thread


def takes(dtype: torch.dtype, hidden_size: int) -> bool:
    """Tell whether a program can hold a row of so many features."""
    return _size(hidden_size, dtype) <= MOST


def forward(
    settings: Settings, x: Tensor, h: Tensor, c: Tensor, weights: Weights, keeps: bool
) -> tuple[Results, list[Tensor]]:
    """Return the results, and W_h h and the cells if ``keeps``; see `lnlib.lstm.function`."""
    outputs, a = x.new_empty(len(x), h.shape[-1]), x.new_empty(len(x), len(weights.hh))
    cells = torch.cat([c, outputs])  # those of the steps are written over
    inputs, *_ = _inputs(settings, x, weights)
    step = _step(settings, weights, inputs, a, cells, outputs)
    hh, before = weights.hh.t().contiguous(), h
    for start, stop, cells_before in _blocks(settings):
        torch.mm(before[: stop - start], hh, out=a[start:stop])
        step(stop - start, start, cells_before, len(c) + start)
        before = outputs[start:stop]
    last_h, last_c = (_last(settings, of) for of in (outputs, cells[len(c) :]))
    return (outputs, last_h, last_c), [a, cells] if keeps else []


def backward(
    settings: Settings,
    given: tuple[Tensor, Tensor, Tensor, Weights],
    outputs: Tensor,
    kept: Sequence[Tensor],
    grads: Results,
    needs: tuple[bool, bool],
) -> Gradients:
    """Return the gradients; those of x and of the weights where they are needed."""
    x, h, _, weights = given
    dy = dense(grads[0])
    dh, dc = (grad.clone(memory_format=torch.contiguous_format) for grad in grads[1:])
    a, cells = (dense(each) for each in kept)
    inputs, mean, rstd, a_x = _inputs(settings, x, weights)
    dv, da, dnorm_hh = (torch.empty_like(a) for _ in range(3))
    dnorm_c, dn = (torch.empty_like(dy) for _ in range(2))
    made = dy, dh, dc, dv, da, dnorm_hh, dnorm_c, dn
    step = _step(settings, weights, inputs, a, cells, None, *made)
    for start, stop, cells_before in reversed(_blocks(settings)):
        step(stop - start, start, cells_before)
        torch.mm(da[start:stop], weights.hh, out=dh[: stop - start])
    operands = dv, a_x, a_x.shape[-1:], mean, rstd, weights.norm_ih, weights.bias
    asked = [True, True, weights.bias is not None]
    da_x, dnorm_ih, dbias = torch.ops.aten.native_layer_norm_backward(*operands, asked)
    dx = da_x @ weights.ih if needs[0] else None
    if not needs[1]:
        return dx, dh, dc, *[None] * len(weights)
    befores = h, *torch.split(outputs, list(settings.batch_sizes))
    pairs = zip(befores, settings.batch_sizes, strict=False)
    states = torch.cat([before[:rows] for before, rows in pairs])
    of_norms = dbias, dnorm_ih, dnorm_hh.sum(0), dnorm_c.sum(0), dn.sum(0)
    totals = (x.t() @ da_x).t(), da.t() @ states, *of_norms  # the first faster so, of a narrow x
    found = (None if w is None else total for total, w in zip(totals, weights, strict=True))
    return dx, dh, dc, *found


def _inputs(settings: Settings, x: Tensor, weights: Weights) -> tuple[Tensor, ...]:
    """Return what the input adds to the gates, the mean and rstd of its norm, and W_x x."""
    a_x = x @ weights.ih.t()
    return *reference.normalize(a_x, weights.norm_ih, weights.bias, settings.eps), a_x


def _step(
    settings: Settings,
    weights: Weights,
    inputs: Tensor,
    a: Tensor,
    cells: Tensor,
    outputs: Tensor | None,
    *back: Tensor,
) -> Any:
    """Return a function that takes some rows of a step at these places, forward or ``back``."""
    H, device = weights.hh.shape[-1], a.device
    norm_c, bias_c = weights.norm_c, weights.norm_c_bias
    bias_c = torch.zeros_like(norm_c) if bias_c is None else bias_c
    of_norms = map(dense, (weights.norm_hh, norm_c, bias_c))
    operands = inputs, a, *of_norms, cells, outputs, *(back or [None] * 8)
    launcher = _launcher(H, _size(H, a.dtype), settings.carry == "normalized")
    eps = launch.split(settings.eps)

    def step(rows: int, start: int, before: int, after: int = 0) -> None:
        if rows > 0:
            with launch.on(device):
                launcher(device, (rows, 1, 1), *operands, start, before, after, *eps)

    return step


@cache
def _launcher(H: int, size: int, carries_normalized: bool) -> launch.Launcher:
    block = 1 << (H - 1).bit_length()
    tile = tiles.Tile(1, block, min(16, max(1, size // EACH)))
    constants = H, carries_normalized, block
    return launch.Launcher("lstm_step_kernel", tile, *constants, module=KERNELS)


def _size(H: int, dtype: torch.dtype) -> int:
    """Return how much a program holds of each row, in float32."""
    return (1 << (H - 1).bit_length()) * (2 if dtype == torch.float64 else 1)


def _blocks(settings: Settings) -> list[tuple[int, int, int]]:
    """Return the rows of each step, from and to, and where among the cells those before begin."""
    ends = list(accumulate(settings.batch_sizes, initial=0))
    befores = [0, *(settings.batch_sizes[0] + start for start in ends)]
    return [(*rows, before) for rows, before in zip(pairwise(ends), befores, strict=False)]


def _last(settings: Settings, states: Tensor) -> Tensor:
    """Return the state after the last step of each sequence, the longest sequence first."""
    sizes = *settings.batch_sizes, 0
    of_steps = torch.split(states, list(settings.batch_sizes))
    return torch.cat([of[sizes[n + 1] :] for n, of in enumerate(of_steps)][::-1])
