"""Both passes by PyTorch's own CPU kernels, a block of rows at a time, in the next wider type.

A wider type alone does not make them exact: x·rstd − mean·rstd cancels far from zero, and leaves
something other than 0 of a constant row. So each row is measured from its first value, which lies
within σ√(H−1) of its mean: that costs few digits, and a constant row is all zeros.

A block is widened, normalized and rounded again while it is in the cache, in memory that the next
one takes over. What a large input costs is to read and write it, and to wake threads: so there are
few operations, and none that makes a copy in a common type first.

Source: `native_layer_norm` and its backward are PyTorch's; the gradients are those of
`lnlib.closed_form`.
"""

import torch
from torch import Tensor

from lnlib.composed import statistics_dtype
from lnlib.modes import mode_of

Needs = tuple[bool, bool, bool]  # whether the gradient of input, weight and bias is asked for
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


def takes(x: Tensor) -> bool:
    """Tell whether rows on a CPU have a type that is wider than theirs, and any values.

    Whoever watches each operation may record it, and differentiate the record: memory that is used
    again would be in the way.
    """
    has_wider_type = x.device.type == "cpu" and x.dtype != torch.float64
    return has_wider_type and x.numel() > 0 and mode_of(x) == "eager"


def normalize(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `torch.native_layer_norm` does, of rows in the last dimension: y, mean and rstd.

    Of a row whose squares overflow it makes, for some lengths, an rstd of 0 and a y of ``bias``, in
    silence. Here y and rstd are NaN.
    """
    y, mean, rstd = torch.native_layer_norm(x, x.shape[-1:], weight, bias, eps)
    # A GPU is not waited for.
    if eps <= torch.finfo(rstd.dtype).max and not (rstd.is_cpu and rstd.all()):
        y, rstd = (each.where(rstd != 0, torch.nan) for each in (y, rstd))
    return y, mean, rstd


def normalize_rows(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, size: int
) -> tuple[Tensor, Tensor]:
    """Return y ``(B, H)`` and the statistics ``(3, B)`` of `lnlib.closed_form.normalize_rows`.

    ``x`` may have any strides; ``size`` rows are normalized at a time.
    """
    B, H = x.shape
    dtype = statistics_dtype(x.dtype, x.device)
    # Ones and zeros give the same as None, in half the time.
    weight = x.new_ones(H, dtype=dtype) if weight is None else weight.to(dtype)
    bias = x.new_zeros(H, dtype=dtype) if bias is None else bias.to(dtype)
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    statistics = x.new_zeros((3, B, 1), dtype=torch.float64)
    mean, _, rstd = statistics
    scratch = x.new_empty((min(size, B), H), dtype=dtype)
    for rows, *places in zip(*(torch.split(t, size) for t in (x, y, mean, rstd)), strict=True):
        wide = _copy(rows, scratch[: len(rows)]).sub_(rows[:, :1].to(dtype))
        for place, value in zip(places, normalize(wide, weight, bias, eps), strict=True):
            place.copy_(value)
    mean.copy_(mean.to(dtype).add_(x[:, :1]))
    return y, statistics.squeeze(-1)


def gradients(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    rstd: Tensor,
    needs: Needs,
    size: int,
) -> Gradients:
    """Return dx ``(B, H)``, and dweight and dbias ``(H,)`` in the wider type; None if not needed.

    ``mean`` and ``rstd`` are ``(B, 1)``, in the wider type.
    """
    needs_dx, needs_dweight, needs_dbias = needs
    H, dtype = x.shape[1], mean.dtype
    weight = None if weight is None else weight.to(dtype)
    rstd = rstd.contiguous()  # at whose strides the kernel does not look
    dx = torch.empty_like(x, memory_format=torch.contiguous_format) if needs_dx else None
    scratch = x.new_empty((2, *x[:size].shape), dtype=dtype)
    # What is summed, dy·x_hat and dy, lies side by side: one addition adds as many as are needed.
    summed = scratch[0 if needs_dweight else 1 : 2 if needs_dbias else 1]
    sums, zero = torch.zeros_like(summed), torch.zeros_like(mean[:size])
    for start in range(0, len(x), size):
        block = slice(start, start + size)
        rows, r = x[block], rstd[block]
        n = len(rows)
        centered = _copy(rows, scratch[0, :n]).sub_(mean[block])
        wide = _copy(dy[block], scratch[1, :n])
        if dx is not None:
            # dx alone: its sums over rows depend on the number of threads.
            dx[block] = torch.ops.aten.native_layer_norm_backward(
                wide, centered, (H,), zero[:n], r, weight, None, [True, False, False]
            )[0]
        if needs_dweight:
            centered.mul_(r).mul_(wide)
        sums[:, :n].add_(summed[:, :n])
    totals = iter(_sum_by_halves(sums))
    return dx, next(totals) if needs_dweight else None, next(totals) if needs_dbias else None


def _copy(rows: Tensor, to: Tensor) -> Tensor:
    # From half types to float32, `copy_` forgets that a view of `torch._neg_view` is negative.
    return to.copy_(rows.resolve_neg())


def _sum_by_halves(tables: Tensor) -> Tensor:
    """Return the sums ``(K, H)`` over the rows of ``(K, B, H)``, which is overwritten.

    By additions of whole tensors, whose order no number of threads can change.
    """
    while (B := tables.shape[1]) > 1:
        half = (B + 1) // 2
        tables[:, : B - half].add_(tables[:, half:])
        tables = tables[:, :half]
    return tables[:, 0]
