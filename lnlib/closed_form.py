"""Layer norm with its closed-form gradient, as one `torch.autograd.Function`.

The forward pass is that of `lnlib.composed`, a block of rows at a time; where there is a wider type
on a CPU, `lnlib.native` has PyTorch's kernels compute both. For a row of H features,
with x_hat = (x − mean)·rstd and g = weight·dy, the chain rule through mean and rstd comes to ::

    dx      = rstd · (g − mean(g) − x_hat · mean(g · x_hat)),
    dweight = Σ dy · x_hat,    dbias = Σ dy,    both over all rows.

So the backward pass needs x, mean, rstd and weight, and it too can take a block of rows at a time.
The same Function serves other `Passes`: `lnlib.cpp_kernel` and `lnlib.triton_kernel` have them.

Source: Ba, Kiros, Hinton 2016, eq. 3 to 5; chapters 04 and 05 of the book derive the gradient.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from lnlib import composed, native, saved
from lnlib.modes import (
    ORDINARY,
    is_kept,
    is_recording_gradients,
    is_watched,
    mode_of,
    shown_as,
)

# Values per block. On a CPU the handful of float64 blocks in use at a time, half a megabyte each,
# stays near the processor, and two threads have enough to do. An accelerator wants more at a time.
BLOCK_ON_CPU = 2**16
BLOCK_ELSEWHERE = 2**22

Needs: TypeAlias = native.Needs
Gradients: TypeAlias = native.Gradients
Dtypes = tuple[torch.dtype, torch.dtype | None, torch.dtype | None]  # of input, weight and bias


class Passes(NamedTuple):
    """What computes the two passes over rows ``(B, H)``, with parameters ``(H,)``.

    Statistics are ``(3, B)``, whatever computes them: a number near the mean, what is missing from
    it to the mean, and rstd. So a pass may read what another's forward pass has kept.

    Attributes:
        forward: called with x, weight, bias and eps; returns y, contiguous, and the statistics.
        backward: called with dy, x, weight, the statistics, which gradients are needed and of what
            dtypes, for gradients that are not differentiated again. If that of bias alone is
            needed, nothing was kept: x and the statistics are None. It returns the gradients of x,
            weight and bias, None where not needed, in these dtypes or wider.
        kept_dtype: tells that of the statistics, for the dtype of x and a type of device.
    """

    forward: Callable[[Tensor, Tensor | None, Tensor | None, float], tuple[Tensor, Tensor]]
    backward: Callable[
        [Tensor, Tensor | None, Tensor | None, Tensor | None, Needs, Dtypes], Gradients
    ]
    kept_dtype: Callable[[torch.dtype, str], torch.dtype]


def layer_norm(
    input: Tensor,
    normalized_shape: tuple[int, ...],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    passes: Passes,
) -> Tensor:
    """Do what `lnlib.layer_norm` does, which checks the arguments, for ordinary tensors.

    To whoever is to see every operation a kernel would show none: there the reference computes,
    and what is kept is of the kind that ``passes`` keeps.
    """
    with torch.no_grad():
        x = _as_rows(input, normalized_shape)
        forward = IN_BLOCKS.forward if is_watched() else passes.forward
        rows, statistics = forward(x, _flat(weight), _flat(bias), eps)
        y = _as_shape(rows, input.shape)
        statistics = _narrowed(statistics, passes.kept_dtype(input.dtype, input.device.type))
    given = input, weight, bias
    if not is_recording_gradients() or not any(t is not None and t.requires_grad for t in given):
        return y
    found: Tensor = LayerNormFunction.apply(*given, (y, statistics), normalized_shape, eps, passes)  # type: ignore[no-untyped-call]
    return found


class LayerNormFunction(torch.autograd.Function):
    """Joins y to the graph, for any two passes of ordinary tensors; reverse mode of any order."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        made: tuple[Tensor, Tensor | None],
        normalized_shape: tuple[int, ...],
        eps: float,
        passes: Passes,
    ) -> Tensor:
        """Return y of ``made``, and keep what the gradients that may be asked for will need."""
        y, statistics = made
        needs_dx, needs_dweight, *_ = ctx.needs_input_grad
        kept: tuple[Tensor | None, ...] = None, None, None
        if needs_dx or needs_dweight:
            kept = input, weight if needs_dx else None, statistics
        ctx.save_for_backward(*kept)
        ctx.shape, ctx.device = input.shape, input.device
        ctx.normalized_shape, ctx.eps, ctx.passes = normalized_shape, eps, passes
        ctx.dtypes = (
            input.dtype,
            None if weight is None else weight.dtype,
            None if bias is None else bias.dtype,
        )
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients that are asked for, and None in place of the others."""
        return LayerNormFunction.from_saved(ctx, dy, ctx.saved_tensors)

    @staticmethod
    def from_saved(
        ctx: Any, dy: Tensor, found: Sequence[Tensor | None]
    ) -> tuple[Tensor | None, ...]:
        """Do as `backward`, with what has come back; it does so once: checkpoint recomputes it."""
        needs, shape = tuple(ctx.needs_input_grad[:3]), ctx.normalized_shape
        saved.check_gradient(dy)
        input, weight, statistics = found
        of_two = zip(ctx.dtypes[:2], (ctx.shape, torch.Size(shape)), strict=True)
        kinds = [(*kind, ctx.device, torch.strided) for kind in of_two]
        saved.check(("input", "weight"), (input, weight), kinds)
        mode = mode_of(dy, *found)
        x = None if input is None else _as_rows(input, shape)
        operands = _as_rows(dy, shape), x, _flat(weight)
        dtype = ctx.passes.kept_dtype(ctx.dtypes[0], ctx.device.type)
        kept = dtype, torch.Size((3, len(operands[0]))), ctx.device, torch.strided
        is_whole = statistics is None or saved.kinds_of(statistics) == [kept]
        with shown_as("lnlib::layer_norm_backward"):
            if mode in ORDINARY and is_whole and not torch.is_grad_enabled():
                backward = IN_BLOCKS.backward if mode == "watched" else ctx.passes.backward
                grads = backward(*operands, statistics, needs, ctx.dtypes)
            else:  # this pass is itself differentiated or mapped, or a hook took digits away
                grads = gradients_to_any_order(*operands, ctx.eps, needs)
        dx, dweight, dbias = (
            None if grad is None else grad.reshape(like).to(dtype)
            for grad, like, dtype in zip(grads, (dy.shape, shape, shape), ctx.dtypes, strict=True)
        )
        return dx, dweight, dbias, None, None, None, None


def normalize_rows(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """Return y ``(B, H)`` and the statistics ``(3, B)`` of `Passes`, a block at a time."""
    if native.takes(x):
        return native.normalize_rows(x, weight, bias, eps, _rows_in_block(x))
    statistics = x.new_zeros((3, len(x)), dtype=kept_dtype(x.dtype, x.device.type))
    if x.shape[1] == 0:
        return x.clone(memory_format=torch.contiguous_format), statistics
    if is_kept() or len(x) == 0:  # all in one block, which nothing overwrites
        return _normalized(x, weight, bias, eps)
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    for block in _blocks(x):
        y[block], statistics[:, block] = _normalized(x[block], weight, bias, eps)
    return y, statistics


def _normalized(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    mean, rest, denominator, x_hat = composed.normalize(_widen(x), (-1,), eps)
    statistics = torch.cat((mean, rest, 1 / denominator), dim=1).t()
    y = composed.scale_and_shift(x_hat, weight, bias).to(x.dtype)
    return y, statistics.to(kept_dtype(x.dtype, x.device.type)).contiguous()


def kept_dtype(_: torch.dtype, device: str) -> torch.dtype:
    """Return float64, which holds what any type of the arithmetic can; Apple's GPUs have none."""
    return torch.float32 if device == "mps" else torch.float64


def _narrowed(statistics: Tensor, dtype: torch.dtype) -> Tensor:
    """Return statistics in a narrower type; what the mean loses is added to its rest."""
    if statistics.dtype == dtype:
        return statistics
    mean, rest, rstd = statistics
    near = mean.to(dtype)
    return torch.stack((near, (mean - near + rest).to(dtype), rstd.to(dtype)))


def gradients(
    dy: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor, needs: Needs
) -> Gradients:
    """Return dx ``(B, H)``, dweight ``(H,)`` and dbias ``(H,)``, None where not needed.

    Plain PyTorch, and so differentiable. ``mean`` may be a constant even then: it is where the
    centering starts from, and where it ends does not depend on it. ``rstd`` may not.
    """
    needs_dx, needs_dweight, needs_dbias = needs
    dy = _widen(dy)
    x_hat = _widen(x) - mean
    # Minus what rounding the mean left, times rstd: one rounding where the processor can fuse.
    x_hat = torch.addcmul(composed.mean_of(x_hat, (-1,)) * -rstd, x_hat, rstd)
    dx = dweight = dbias = None
    if needs_dbias:
        dbias = sum_rows(dy, x.dtype)
    if needs_dweight:
        dweight = sum_products(dy, x_hat, x.dtype)
    if needs_dx:
        g = dy if weight is None else dy * weight.to(dy.dtype)
        mean_g, mean_gx_hat = (composed.mean_of(each, (-1,)) for each in (g, g * x_hat))
        dx = (g - (mean_g + x_hat * mean_gx_hat)) * rstd
    return dx, dweight, dbias


def gradients_to_any_order(
    dy: Tensor, x: Tensor | None, weight: Tensor | None, eps: float, needs: Needs
) -> Gradients:
    """Return what `gradients` returns, as a function of ``x`` alone, to be differentiated again.

    To autograd a saved rstd would be a constant, and its part missing from the next order, with
    nothing to say so. Without ``x`` there is the gradient of bias alone.
    """
    if x is None:
        return None, None, sum_rows_in_blocks(dy)
    statistics = composed.normalize(_widen(x), (-1,), eps)
    return gradients(dy, x, weight, statistics.mean, 1 / statistics.denominator, needs)


def sum_rows(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the sum over the rows of ``(B, H)``, which will be rounded to ``dtype``."""
    if rows.dtype != dtype or len(rows) < 2 or mode_of(rows) not in ORDINARY:
        return rows.sum(0)
    # There are no digits to spare. Of every value add the leading bits, so few that their sum needs
    # no rounding, and apart from them the rest (Rump, Ogita, Oishi 2008, ExtractVector).
    scale = 4 * len(rows) * rows.detach().abs().amax(0)
    leading = (rows + scale) - scale
    total = leading.sum(0) + (rows - leading).sum(0)
    return torch.where(total.isfinite(), total, rows.sum(0))


def sum_rows_in_blocks(rows: Tensor) -> Tensor:
    """Return the sum over the rows of ``(B, H)`` in the wider type, widening a block at a time."""
    total = _widen(rows[:0]).sum(0)  # of no rows too, a function of them
    for block in _blocks(rows):
        total = total + sum_rows(_widen(rows[block]), rows.dtype)
    return total


def sum_products(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the sum over the rows of ``a * b``, which will be rounded to ``dtype``."""
    products = a * b
    total = sum_rows(products, dtype)
    if b.dtype != dtype or mode_of(a) not in ORDINARY:
        return total
    # What rounding lost of each product, where the processor can fuse; else 0.
    lost = torch.addcmul(-products, a, b).sum(0)
    return torch.where(lost.isfinite(), total + lost, total)


def gradients_in_blocks(
    dy: Tensor,
    x: Tensor | None,
    weight: Tensor | None,
    statistics: Tensor | None,
    needs: Needs,
    _: Dtypes,
) -> Gradients:
    """Return what `gradients` returns, with scratch memory for one block of rows."""
    if x is None or statistics is None:
        return None, None, sum_rows_in_blocks(dy)
    dtype = composed.statistics_dtype(x.dtype, x.device)
    mean, rest, rstd = statistics.to(dtype).unsqueeze(-1)
    mean = mean + rest
    if native.takes(x):
        return native.gradients(dy, x, weight, mean, rstd, needs, _rows_in_block(x))
    if is_kept():
        return gradients(dy, x, weight, mean, rstd, needs)
    needs_dx, *needs_sums = needs
    dx = torch.empty_like(x, memory_format=torch.contiguous_format) if needs_dx else None
    dweight, dbias = (mean.new_zeros(x.shape[1]) if needed else None for needed in needs_sums)
    for block in _blocks(x):
        parts = gradients(dy[block], x[block], weight, mean[block], rstd[block], needs)
        for total, part in zip((dweight, dbias), parts[1:], strict=True):
            if total is not None and part is not None:
                total += part
        if dx is not None and parts[0] is not None:
            dx[block] = parts[0]
        del parts  # before the next block needs room for its own
    return dx, dweight, dbias


IN_BLOCKS = Passes(normalize_rows, gradients_in_blocks, kept_dtype)


def _as_rows(tensor: Tensor, normalized_shape: tuple[int, ...]) -> Tensor:
    """Return ``tensor`` as ``(B, H)``; a view, unless its strides forbid one."""
    if is_kept():  # by one operation, whatever strides it has when it is recomputed
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    if tensor.ndim == 2 and len(normalized_shape) == 1:
        return tensor
    leading = tensor.shape[: tensor.ndim - len(normalized_shape)]
    return tensor.reshape(math.prod(leading), math.prod(normalized_shape))


def _as_shape(rows: Tensor, shape: torch.Size) -> Tensor:
    """Return ``rows`` in a shape, as no view: else nobody could change them in place."""
    if rows.shape == shape:
        return rows
    if is_kept():  # of the rows: then no other tensor may have their memory
        return rows.view(shape).clone()
    found: Tensor = torch.ops.aten._unsafe_view(rows, shape)
    return found


def _flat(parameter: Tensor | None) -> Tensor | None:
    return parameter if parameter is None or parameter.ndim == 1 else parameter.reshape(-1)


def _blocks(x: Tensor) -> Iterator[slice]:
    """Cut the rows of ``x`` into blocks of a size that suits the device; empty rows into none."""
    B, H = x.shape
    if H > 0:
        rows = _rows_in_block(x)
        yield from (slice(start, start + rows) for start in range(0, B, rows))


def _rows_in_block(x: Tensor) -> int:
    values = BLOCK_ON_CPU if x.device.type == "cpu" else BLOCK_ELSEWHERE
    return max(1, values // x.shape[1])


def _widen(rows: Tensor) -> Tensor:
    """Return ``rows`` in the type of the statistics, contiguous: strides then change no bit."""
    return rows.to(composed.statistics_dtype(rows.dtype, rows.device)).contiguous()
