"""Both passes in plain PyTorch, in the next wider type and a block of rows at a time: no kernel.

On a CPU, PyTorch's own kernels compute a block, if there is a wider type. That alone would not make
them exact, because their x·rstd − mean·rstd cancels far from zero, and is not 0 for a constant row.
So each row is measured from its first value, which lies within σ√(H−1) of its mean: that costs few
digits, and a constant row is all zeros. float32, in which the half types are computed, has none to
spare, so their rows are measured once more, from the mean. Elsewhere the formulas of
`lnlib.composed` and `lnlib.closed_form` compute it.
"""

import torch
from torch import Tensor

from lnlib import closed_form, composed
from lnlib.closed_form import Gradients, Needs
from lnlib.composed import widened
from lnlib.modes import is_kept, is_watched

# Values in a block. On a CPU a handful of float64 blocks, half a megabyte each, stays in the cache
# and is enough work for two threads. An accelerator wants more at a time.
BLOCK_ON_CPU = 2**16
BLOCK_ELSEWHERE = 2**22


def forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """Return y ``(B, H)`` and the statistics ``(3, B)`` of `lnlib.autograd.Passes`."""
    of_block = _by_kernels if _has_kernels(x) else _by_formula
    size = _rows_in_block(x)
    if len(x) <= size:
        return of_block(x, weight, bias, eps)
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    statistics = x.new_empty((3, len(x)), dtype=kept_dtype(x.dtype, x.device.type))
    for start in range(0, len(x), size):
        block = slice(start, start + size)
        y[block], statistics[:, block] = of_block(x[block], weight, bias, eps)
    return y, statistics


def backward(
    dy: Tensor, x: Tensor, weight: Tensor | None, statistics: Tensor, needs: Needs
) -> Gradients:
    """Return the gradients; those of weight and bias in the wider type."""
    statistics = statistics.to(composed.statistics_dtype(x.dtype, x.device)).unsqueeze(-1)
    of_block = _gradients_by_kernels if _has_kernels(x) else _gradients_by_formula
    size = _rows_in_block(x)
    if len(x) <= size:
        return of_block(dy, x, weight, statistics, needs)
    dx = torch.empty_like(x, memory_format=torch.contiguous_format) if needs[0] else None
    dweight, dbias = (statistics.new_zeros(x.shape[1]) if n else None for n in needs[1:])
    for start in range(0, len(x), size):
        block = slice(start, start + size)
        parts = of_block(dy[block], x[block], weight, statistics[:, block], needs)
        for total, part in zip((dweight, dbias), parts[1:], strict=True):
            if total is not None and part is not None:
                total += part
        if dx is not None and parts[0] is not None:
            dx[block] = parts[0]
        del parts  # before the next block needs room for its own
    return dx, dweight, dbias


def kept_dtype(_: torch.dtype, device: str) -> torch.dtype:
    """Return float64, which holds what any type of the arithmetic can; Apple's GPUs have none."""
    return torch.float32 if device == "mps" else torch.float64


def sum_rows(rows: Tensor) -> Tensor:
    """Return the sum over the rows of ``(B, H)`` in the wider type, widening a block at a time."""
    total = widened(rows[:0]).sum(0)  # a function of the rows, even if there are none
    for block in torch.split(rows, max(1, _rows_in_block(rows))):
        total = total + closed_form.sum_rows(widened(block), rows.dtype)
    return total


def normalize(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `torch.native_layer_norm` does, of rows in the last dimension: y, mean and rstd.

    For some lengths, PyTorch silently returns an rstd of 0 and a y of ``bias`` for a row whose
    squares overflow. Here both are NaN.
    """
    y, mean, rstd = torch.native_layer_norm(x, x.shape[-1:], weight, bias, eps)
    # To ask a GPU would mean to wait for it.
    if eps <= torch.finfo(rstd.dtype).max and not (rstd.is_cpu and rstd.all()):
        y, rstd = (each.where(rstd != 0, torch.nan) for each in (y, rstd))
    return y, mean, rstd


def _by_kernels(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    wide = widened(x)
    weight, bias = (None if p is None else p.to(wide.dtype) for p in (weight, bias))
    near = wide[:, :1]
    if wide.dtype == torch.float32:
        near = near + composed.mean_of(wide - near, (-1,))
    y, rest, rstd = normalize(wide - near, weight, bias, eps)
    return y.to(x.dtype), torch.stack((near, rest, rstd)).squeeze(-1).double()


def _by_formula(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    dtype = kept_dtype(x.dtype, x.device.type)
    if x.shape[1] == 0:
        return x.clone(), x.new_zeros((3, len(x)), dtype=dtype)
    mean, rest, denominator, x_hat = composed.normalize(widened(x), (-1,), eps)
    y = composed.scale_and_shift(x_hat, weight, bias).to(x.dtype)
    return y, torch.cat((mean, rest, 1 / denominator), 1).t().to(dtype).contiguous()


def _gradients_by_kernels(
    dy: Tensor, x: Tensor, weight: Tensor | None, statistics: Tensor, needs: Needs
) -> Gradients:
    mean, rest, rstd = statistics
    needs_dx, needs_dweight, needs_dbias = needs
    centered, dy = widened(x) - mean - rest, widened(dy)  # mean + rest would lose digits of rest
    dx = dweight = dbias = None
    if needs_dx:  # and nothing else, because its sums over rows depend on the number of threads
        weight = None if weight is None else weight.to(dy.dtype)
        zero, only_dx = torch.zeros_like(mean), [True, False, False]
        operands = dy, centered, x.shape[1:], zero, rstd.contiguous(), weight, None, only_dx
        dx = torch.ops.aten.native_layer_norm_backward(*operands)[0].to(x.dtype)
    if needs_dweight:
        dweight = closed_form.sum_rows(centered.mul_(rstd).mul_(dy), x.dtype)
    if needs_dbias:
        dbias = closed_form.sum_rows(dy, x.dtype)
    return dx, dweight, dbias


def _gradients_by_formula(
    dy: Tensor, x: Tensor, weight: Tensor | None, statistics: Tensor, needs: Needs
) -> Gradients:
    mean, rest, rstd = statistics
    return closed_form.gradients(dy, x, weight, mean + rest, rstd, needs)


def _has_kernels(x: Tensor) -> bool:
    """Tell whether PyTorch's kernels take rows in a wider type, and no mode is to see more.

    Of a single feature, whose dx is 0, they return what rounding leaves of its mean.
    """
    has_none = x.dtype == torch.float64 or x.shape[1] == 1
    return x.is_cpu and not has_none and x.numel() > 0 and not is_watched()


def _rows_in_block(x: Tensor) -> int:
    if is_kept() or x.numel() == 0:  # a checkpoint wants results that nothing overwrites
        return len(x)
    values = BLOCK_ON_CPU if x.device.type == "cpu" else BLOCK_ELSEWHERE
    return max(1, values // x.shape[1])
