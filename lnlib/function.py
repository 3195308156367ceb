"""Layer norm with its closed-form gradient, as one `torch.autograd.Function`.

The forward pass is that of `lnlib.reference`, a block of rows at a time. For a row of H features,
with x_hat = (x − mean)·rstd and g = weight·dy, the chain rule through mean and rstd comes to ::

    dx      = rstd · (g − mean(g) − x_hat · mean(g · x_hat)),
    dweight = Σ dy · x_hat,    dbias = Σ dy,    both over all rows.

So the backward pass needs x, mean, rstd and weight, and it too can take a block of rows at a time.

Source: Ba, Kiros, Hinton 2016, eq. 3 to 5; chapters 04 and 05 of the book derive the gradient.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lnlib import reference, saved
from lnlib.dispatch import ORDINARY, mode_of

# Values per block. On a CPU the handful of float64 blocks in use at a time, half a megabyte each,
# stays near the processor, and two threads have enough to do. An accelerator wants more at a time.
BLOCK_ON_CPU = 2**16
BLOCK_ELSEWHERE = 2**22

Needs = tuple[bool, bool, bool]  # whether the gradient of input, weight and bias is asked for
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


class Passes(NamedTuple):
    """What computes the two passes over rows ``(B, H)``.

    Attributes:
        forward: called as `normalize_rows`.
        backward: called as `gradients_in_blocks`, for gradients that are not differentiated again.
    """

    forward: Callable[[Tensor, Tensor | None, Tensor | None, float, Tensor], tuple[Tensor, Tensor]]
    backward: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor | None, Needs], Gradients]


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    passes: Passes | None = None,
) -> Tensor:
    """Normalize as `lnlib.reference.layer_norm` does, with a backward of its own.

    For ordinary tensors in eager mode, reverse mode of any order included. The arguments are taken
    as they are; `lnlib.layer_norm` is the door that checks them and knows about the other modes.

    Args:
        input: ``(..., *normalized_shape)``; float16, bfloat16, float32 or float64, any strides.
        normalized_shape: sizes of the trailing dimensions that share one mean and one variance.
        weight: ``normalized_shape``; None means 1.
        bias: ``normalized_shape``; None means 0.
        eps: added to the variance, so in units of ``input`` squared.
        passes: what computes them; None means plain PyTorch, a block of rows at a time.

    Returns:
        ``(..., *normalized_shape)``, contiguous, the dtype of ``input``.

    Raises:
        RuntimeError: in the backward pass, if ``input`` or ``weight`` has been changed in place, or
            into another kind of tensor by a hook of ``saved_tensors_hooks``.

    >>> layer_norm(torch.tensor([[3e4, 3e4 + 1, 3e4 + 2]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    arguments = input, tuple(normalized_shape), weight, bias, eps, passes or IN_BLOCKS
    y: Tensor = LayerNormFunction.apply(*arguments)  # type: ignore[no-untyped-call]
    return y


class LayerNormFunction(torch.autograd.Function):
    """The two passes of `layer_norm`, for PyTorch's autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        normalized_shape: tuple[int, ...],
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
        passes: Passes,
    ) -> Tensor:
        """Normalize, and keep what the gradients that may be asked for will need."""
        x = _as_rows(input, normalized_shape)
        # Of the shape of the input from the start: what a Function returns must be no view, or
        # nobody could change it in place.
        y = torch.empty_like(input, memory_format=torch.contiguous_format)
        mean, rstd = passes.forward(x, weight, bias, eps, y.view(x.shape))
        needs_dx, _, needs_dweight, *_ = ctx.needs_input_grad
        if needs_dx or needs_dweight:
            kept = input, mean, rstd, weight if needs_dx else None
            ctx.save_for_backward(*kept)
            ctx.kinds = saved.kinds_of(*kept)
        ctx.normalized_shape, ctx.eps, ctx.passes = normalized_shape, eps, passes
        ctx.dtypes = [None if t is None else t.dtype for t in (input, weight, bias)]
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients that are asked for, and None in place of the others."""
        needs_dx, _, needs_dweight, needs_dbias, *_ = ctx.needs_input_grad
        shape = ctx.normalized_shape
        saved.check_gradient(dy)
        if not (needs_dx or needs_dweight):
            mode_of(dy)  # which refuses one without memory
            grads: Gradients = None, None, sum_rows_in_blocks(_as_rows(dy, shape))
        else:
            input, mean, rstd, weight = found = ctx.saved_tensors
            input_kind, *kinds_of_statistics, weight_kind = ctx.kinds
            saved.check("input", input, input_kind)
            saved.check("weight", weight, weight_kind)
            mode = mode_of(dy, *found)
            rows = _as_rows(dy, shape), _as_rows(input, shape)
            needs = needs_dx, needs_dweight, needs_dbias
            is_first_order = mode in ORDINARY and not torch.is_grad_enabled()
            if is_first_order and saved.kinds_of(mean, rstd) == kinds_of_statistics:
                passes = ctx.passes if mode == "eager" else IN_BLOCKS
                grads = passes.backward(*rows, mean, rstd, weight, needs)
            else:  # this pass is itself differentiated or mapped, or a hook took digits away
                grads = gradients_to_any_order(*rows, weight, ctx.eps, needs)
        dx, dweight, dbias = (
            None if grad is None else grad.reshape(like).to(dtype)
            for grad, like, dtype in zip(grads, (dy.shape, shape, shape), ctx.dtypes, strict=True)
        )
        return dx, None, dweight, dbias, None, None


def normalize_rows(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, out: Tensor
) -> tuple[Tensor, Tensor]:
    """Write y ``(B, H)`` into ``out``; return mean and rstd ``(B, 1)`` in the wider type."""
    dtype = reference.statistics_dtype(x.dtype, x.device)
    mean, rstd = (torch.empty((len(x), 1), dtype=dtype, device=x.device) for _ in range(2))
    weight, bias = (None if p is None else p.reshape(-1).to(dtype) for p in (weight, bias))
    for block in _blocks(x):
        mean[block], denominator, x_hat = reference.normalize(_widen(x[block]), (-1,), eps)
        rstd[block] = 1 / denominator
        out[block] = reference.scale_and_shift(x_hat, weight, bias)
    return mean, rstd


def gradients(
    dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, needs: Needs
) -> Gradients:
    """Return dx ``(B, H)``, dweight ``(H,)`` and dbias ``(H,)``, None where not needed.

    Plain PyTorch, and so differentiable. ``mean`` may be a constant even then: it is where the
    centering starts from, and where it ends does not depend on it. ``rstd`` may not.
    """
    needs_dx, needs_dweight, needs_dbias = needs
    dy = _widen(dy)
    x_hat = _widen(x) - mean
    # Minus what rounding the mean left, times rstd: one rounding where the processor can fuse.
    x_hat = torch.addcmul(x_hat.mean(-1, keepdim=True) * -rstd, x_hat, rstd)
    dx = dweight = dbias = None
    if needs_dbias:
        dbias = sum_rows(dy, x.dtype)
    if needs_dweight:
        dweight = sum_products(dy, x_hat, x.dtype)
    if needs_dx:
        g = dy if weight is None else dy * weight.reshape(-1).to(dy.dtype)
        along_x_hat = (g * x_hat).mean(-1, keepdim=True)
        dx = (g - (g.mean(-1, keepdim=True) + x_hat * along_x_hat)) * rstd
    return dx, dweight, dbias


def gradients_to_any_order(
    dy: Tensor, x: Tensor, weight: Tensor | None, eps: float, needs: Needs
) -> Gradients:
    """Return what `gradients` returns, as a function of ``x`` alone, to be differentiated again.

    To autograd a saved rstd would be a constant, and its part missing from the next order, with
    nothing to say so.
    """
    statistics = reference.normalize(_widen(x), (-1,), eps)
    return gradients(dy, x, statistics.mean, 1 / statistics.denominator, weight, needs)


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
    dtype = reference.statistics_dtype(rows.dtype, rows.device)
    total = torch.zeros(rows.shape[1], dtype=dtype, device=rows.device)
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
    dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, needs: Needs
) -> Gradients:
    """Return what `gradients` returns, with scratch memory for one block of rows."""
    needs_dx, *needs_sums = needs
    dx = torch.empty_like(x, memory_format=torch.contiguous_format) if needs_dx else None
    dweight, dbias = (mean.new_zeros(x.shape[1]) if needed else None for needed in needs_sums)
    for block in _blocks(x):
        parts = gradients(dy[block], x[block], mean[block], rstd[block], weight, needs)
        for total, part in zip((dweight, dbias), parts[1:], strict=True):
            if total is not None and part is not None:
                total += part
        if dx is not None and parts[0] is not None:
            dx[block] = parts[0]
        del parts  # before the next block needs room for its own
    return dx, dweight, dbias


IN_BLOCKS = Passes(normalize_rows, gradients_in_blocks)


def _as_rows(tensor: Tensor, normalized_shape: tuple[int, ...]) -> Tensor:
    """Return ``tensor`` as ``(B, H)``; a view, unless its strides forbid one."""
    leading = tensor.shape[: tensor.ndim - len(normalized_shape)]
    return tensor.reshape(math.prod(leading), math.prod(normalized_shape))


def _blocks(x: Tensor) -> Iterator[slice]:
    """Cut the rows of ``x`` into blocks of a size that suits the device; none if there is no x."""
    B, H = x.shape
    values = BLOCK_ON_CPU if x.device.type == "cpu" else BLOCK_ELSEWHERE
    if H > 0:
        rows = max(1, values // H)
        yield from (slice(start, start + rows) for start in range(0, B, rows))


def _widen(rows: Tensor) -> Tensor:
    """Return ``rows`` in the type of the statistics, contiguous: strides then change no bit."""
    return rows.to(reference.statistics_dtype(rows.dtype, rows.device)).contiguous()
