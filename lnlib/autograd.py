"""Layer norm as one node of autograd, for any two passes.

A backend is a pair of passes: `lnlib.cpp_kernel`, `lnlib.triton_kernel` and `lnlib.reference` have
one each. The node keeps what they need, and is right in reverse mode of any order.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lnlib import reference, saved
from lnlib.closed_form import Gradients, Needs, gradients_to_any_order
from lnlib.modes import (
    ORDINARY,
    is_kept,
    is_recording_gradients,
    is_watched,
    mode_of,
    shown_as,
)


class Passes(NamedTuple):
    """What computes the two passes over rows ``(B, H)``, with parameters ``(H,)``.

    Statistics are ``(3, B)``, whatever computes them: a number near the mean, what is missing from
    it to the mean, and rstd. So a pass may read what another's forward pass has kept.

    Attributes:
        forward: called with x, weight, bias and eps; returns y, contiguous, and the statistics.
        backward: called with dy, x, weight, the statistics, and which gradients are needed in which
            dtypes; returns them in these dtypes or wider. They are not differentiated again.
        kept_dtype: tells that of the statistics, for the dtype of x and a type of device.
    """

    forward: Callable[[Tensor, Tensor | None, Tensor | None, float], tuple[Tensor, Tensor]]
    backward: Callable[[Tensor, Tensor, Tensor | None, Tensor, Needs], Gradients]
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

    A dispatch mode is to see every operation, and a kernel would show none: there the reference
    computes, and what is kept is of the kind that ``passes`` keeps.
    """
    with torch.no_grad():
        x = _as_rows(input, normalized_shape)
        forward = reference.forward if is_watched() else passes.forward
        rows, statistics = forward(x, _flat(weight), _flat(bias), eps)
        y = _as_shape(rows, input.shape)
        statistics = _narrowed(statistics, passes.kept_dtype(input.dtype, input.device.type))
    given = input, weight, bias
    if not is_recording_gradients() or not any(t is not None and t.requires_grad for t in given):
        return y
    made = y, statistics
    found: Tensor = LayerNormFunction.apply(*given, made, normalized_shape, eps, passes)  # type: ignore[no-untyped-call]
    return found


class LayerNormFunction(torch.autograd.Function):
    """Joins y to the graph."""

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
        for tensor in (input, weight, bias):  # which PyTorch saves, whatever is asked for
            if tensor is not None and tensor.is_inference():
                raise RuntimeError("Inference tensors cannot be saved for backward; pass a clone")
        needs_dx, needs_dweight, *_ = ctx.needs_input_grad
        kept: tuple[Tensor | None, ...] = None, None, None
        if needs_dx or needs_dweight:
            kept = input, weight if needs_dx else None, statistics
        ctx.save_for_backward(*kept)
        ctx.set_materialize_grads(False)  # what sends no gradient back gets none
        ctx.shape, ctx.device = input.shape, input.device
        ctx.normalized_shape, ctx.eps, ctx.passes = normalized_shape, eps, passes
        ctx.dtypes = (
            input.dtype,
            None if weight is None else weight.dtype,
            None if bias is None else bias.dtype,
        )
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients that are asked for, and None in place of the others."""
        if dy is None:
            return (None,) * 7
        return LayerNormFunction.from_saved(ctx, dy, ctx.saved_tensors)

    @staticmethod
    def from_saved(
        ctx: Any, dy: Tensor, found: Sequence[Tensor | None]
    ) -> tuple[Tensor | None, ...]:
        """Do as `backward`, with what has come back; it does so once: checkpoint recomputes it."""
        saved.check_gradient(dy)
        shapes = ctx.shape, torch.Size(ctx.normalized_shape)
        kinds = [
            (dtype, shape, ctx.device, torch.strided)
            for dtype, shape in zip(ctx.dtypes[:2], shapes, strict=True)
        ]
        saved.check(("input", "weight"), found[:2], kinds)
        with shown_as("lnlib::layer_norm_backward"):
            grads = _gradients(ctx, dy, found)
        sizes = dy.shape, ctx.normalized_shape, ctx.normalized_shape
        dx, dweight, dbias = (
            None if grad is None else grad.reshape(size).to(dtype)
            for grad, size, dtype in zip(grads, sizes, ctx.dtypes, strict=True)
        )
        return dx, dweight, dbias, None, None, None, None


def _gradients(ctx: Any, dy: Tensor, found: Sequence[Tensor | None]) -> Gradients:
    input, weight, statistics = found
    mode = mode_of(dy, *found)
    dy, weight = _as_rows(dy, ctx.normalized_shape), _flat(weight)
    if input is None:  # the gradient of bias alone is asked for
        return None, None, reference.sum_rows(dy)
    needs: Any = [
        dtype if need else None
        for need, dtype in zip(ctx.needs_input_grad, ctx.dtypes, strict=False)
    ]
    x = _as_rows(input, ctx.normalized_shape)
    dtype = ctx.passes.kept_dtype(x.dtype, x.device.type)
    is_whole = saved.kinds_of(statistics) == [(dtype, (3, len(x)), x.device, torch.strided)]
    if statistics is None or not is_whole or mode not in ORDINARY or torch.is_grad_enabled():
        # This pass is itself differentiated or mapped, or a hook took digits away.
        return gradients_to_any_order(dy, x, weight, ctx.eps, needs)
    backward = reference.backward if mode == "watched" else ctx.passes.backward
    grads: Gradients = backward(dy, x, weight, statistics, needs)
    return grads


def _narrowed(statistics: Tensor, dtype: torch.dtype) -> Tensor:
    """Return statistics in a narrower type; what the mean loses is added to its rest."""
    if statistics.dtype == dtype:
        return statistics
    mean, rest, rstd = statistics
    near = mean.to(dtype)
    return torch.stack((near, (mean - near + rest).to(dtype), rstd.to(dtype)))


def _as_rows(tensor: Tensor, normalized_shape: tuple[int, ...]) -> Tensor:
    """Return ``tensor`` as ``(B, H)``; a view, unless its strides forbid one."""
    if is_kept():  # by one operation, whatever strides it has when it is recomputed
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    if tensor.ndim == 2 and len(normalized_shape) == 1:
        return tensor
    leading = tensor.shape[: tensor.ndim - len(normalized_shape)]
    return tensor.reshape(math.prod(leading), math.prod(normalized_shape))


def _as_shape(rows: Tensor, shape: torch.Size) -> Tensor:
    """Return ``rows`` in a shape, as no view, which could not be changed in place."""
    if rows.shape == shape:
        return rows
    if is_kept():  # of the rows: then no other tensor may have their memory
        return rows.view(shape).clone()
    found: Tensor = torch.ops.aten._unsafe_view(rows, shape)
    return found


def _flat(parameter: Tensor | None) -> Tensor | None:
    return parameter if parameter is None or parameter.ndim == 1 else parameter.reshape(-1)
