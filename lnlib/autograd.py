"""Layer norm as one node of autograd, for any pair of passes.

`lnlib.cpp_kernel`, `lnlib.triton_kernel` and `lnlib.reference` have a pair each. The node saves
what they need, and its gradients are right in reverse mode of any order.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from lnlib import reference, saved
from lnlib.closed_form import Gradients, Needs, gradients_to_any_order
from lnlib.modes import (
    ORDINARY,
    check_memory,
    is_kept,
    is_left_alone,
    is_ordinary,
    is_profiled,
    is_recording_gradients,
    is_watched,
    mode_of,
    place_of_simple,
    shown,
    shown_as,
)


class Passes(NamedTuple):
    """The two passes over rows ``(B, H)``, with parameters ``(H,)``.

    Statistics are ``(3, B)`` for all of them: a number near the mean, the mean minus that number,
    and rstd. So one pair's backward pass may read what another's forward pass has kept.

    Attributes:
        forward: called with x, weight, bias and eps; returns y, contiguous, and the statistics.
        backward: called with dy, x, weight, the statistics, and the dtypes of the gradients that
            are needed; returns them in these dtypes or wider. They are not differentiated again.
        kept_dtype: returns the dtype of the statistics, for the dtype of x and a type of device.
        of_simple: does what ``backward`` does, for tensors that are simple in the sense of
            `lnlib.modes`, which may have more dimensions.
    """

    forward: Callable[[Tensor, Tensor | None, Tensor | None, float], tuple[Tensor, Tensor]]
    backward: Callable[[Tensor, Tensor, Tensor | None, Tensor, Needs], Gradients]
    kept_dtype: Callable[[torch.dtype, str], torch.dtype]
    of_simple: Callable[[Tensor, Tensor, Tensor | None, Tensor, Needs], Gradients] | None = None


# y, the statistics, normalized_shape, eps, and the passes that made them.
Made: TypeAlias = tuple[Tensor, Tensor | None, tuple[int, ...], float, Passes]


def layer_norm(
    input: Tensor,
    normalized_shape: tuple[int, ...],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    passes: Passes,
) -> Tensor:
    """Compute `lnlib.layer_norm`, which has checked the arguments, for ordinary tensors.

    A dispatch mode wants to see every operation, and a kernel would show none. So under one the
    reference computes, and narrows its statistics to the dtype that ``passes`` keeps.
    """
    with torch.no_grad():
        x = as_rows(input, normalized_shape)
        forward = reference.forward if is_watched() else passes.forward
        rows, statistics = forward(x, flat(weight), flat(bias), eps)
        y = as_shape(rows, input.shape)
        statistics = _narrowed(statistics, passes.kept_dtype(input.dtype, input.device.type))
    given = input, weight, bias
    if is_recording_gradients() and any(t is not None and t.requires_grad for t in given):
        y = LayerNormFunction.apply(  # type: ignore[no-untyped-call]
            *given, (y, statistics, normalized_shape, eps, passes)
        )
    return y


class LayerNormFunction(torch.autograd.Function):
    """Joins y, which has been computed, to the graph."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Tensor | None, bias: Tensor | None, made: Made
    ) -> Tensor:
        """Return y of ``made``, and keep what the gradients that may be asked for will need."""
        y, statistics, normalized_shape, eps, passes = made
        for tensor in (input, weight, bias):  # PyTorch saves all of them
            if tensor is not None and tensor.is_inference():
                raise RuntimeError("Inference tensors cannot be saved for backward; pass a clone")
        needs_dx, needs_dweight, *_ = ctx.needs_input_grad
        if statistics is not None and (needs_dx or needs_dweight):
            ctx.save_for_backward(input, weight if needs_dx else None, statistics)
            ctx.kept = statistics.dtype, statistics.shape
        ctx.set_materialize_grads(False)  # a missing dy is None, not zeros
        ctx.dtypes = (
            input.dtype,
            None if weight is None else weight.dtype,
            None if bias is None else bias.dtype,
        )
        ctx.call = input.shape, normalized_shape, input.device, eps
        ctx.passes = passes
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients that are asked for, and None in place of the others."""
        if dy is None:
            return None, None, None, None
        found = ctx.saved_tensors or (None, None, None)  # once: a checkpoint recomputes them
        (dtype, dtype_w, dtype_b), (shape, shape_w, *_) = ctx.dtypes, ctx.call
        needs_dx, needs_dweight, needs_dbias, _ = ctx.needs_input_grad
        needs: Needs = (
            dtype if needs_dx else None,
            dtype_w if needs_dweight else None,
            dtype_b if needs_dbias else None,
        )
        dx, dweight, dbias = _of_simple(ctx, dy, found, needs) or _gradients(ctx, dy, found, needs)
        if dx is not None and (dx.dtype is not dtype or dx.shape != shape):
            dx = dx.reshape(shape).to(dtype)
        if dweight is not None and (dweight.dtype is not dtype_w or dweight.shape != shape_w):
            dweight = dweight.reshape(shape_w).to(dtype_w)
        if dbias is not None and (dbias.dtype is not dtype_b or dbias.shape != shape_w):
            dbias = dbias.reshape(shape_w).to(dtype_b)
        return dx, dweight, dbias, None


# `Function.apply` first looks for what a transform of torch.func has left; a simple call has none.
join: Any = super(torch.autograd.Function, LayerNormFunction).apply


def _of_simple(
    ctx: Any, dy: Tensor, found: Sequence[Tensor | None], needs: Needs
) -> Gradients | None:
    """Call the kernel, or return None where something is not simple, or a hook has changed it."""
    input, weight, statistics = found
    (dtype, dtype_w, _), (shape, shape_w, *_) = ctx.dtypes, ctx.call
    of_simple = ctx.passes.of_simple
    if of_simple is None or input is None or statistics is None:
        return None
    if not is_left_alone() or torch.is_grad_enabled():
        return None
    if not (
        (input.dtype is dtype and input.shape == shape)
        and (dy.dtype is dtype and dy.shape == shape)
        and (statistics.dtype, statistics.shape) == ctx.kept
        and (weight is None or (weight.dtype is dtype_w and weight.shape == shape_w))
    ):
        return None
    if place_of_simple(dy, input, weight, statistics) is None:
        if not is_ordinary(dy):
            return None
        check_memory(dy)
        dy = dy.resolve_neg().contiguous()  # the gradient of a sum is one number, expanded
        if place_of_simple(dy, input, weight, statistics) is None:
            return None
    if is_profiled():
        of_simple = shown("lnlib::layer_norm_backward", of_simple)
    grads: Gradients = of_simple(dy, input, weight, statistics, needs)
    return grads


def _gradients(ctx: Any, dy: Tensor, found: Sequence[Tensor | None], needs: Needs) -> Gradients:
    """Return the gradients for any tensors and in any mode."""
    input, weight, statistics = found
    shape, normalized_shape, device, eps = ctx.call
    saved.check_gradient(dy)
    kinds = [
        (dtype, size, device, torch.strided)
        for dtype, size in zip(ctx.dtypes, (shape, torch.Size(normalized_shape)), strict=False)
    ]
    saved.check(("input", "weight"), found, kinds)
    mode = mode_of(dy, *found)
    dy, weight = as_rows(dy, normalized_shape), flat(weight)
    with shown_as("lnlib::layer_norm_backward"):
        if input is None:  # the gradient of bias alone is asked for
            return None, None, reference.sum_rows(dy)
        x = as_rows(input, normalized_shape)
        is_whole = saved.kinds_of(statistics) == [(*ctx.kept, device, torch.strided)]
        if statistics is None or not is_whole or mode not in ORDINARY or torch.is_grad_enabled():
            # This pass is itself differentiated or mapped, or a hook has lost digits.
            return gradients_to_any_order(dy, x, weight, eps, needs)
        backward = reference.backward if mode == "watched" else ctx.passes.backward
        grads: Gradients = backward(dy, x, weight, statistics, needs)
        return grads


def _narrowed(statistics: Tensor, dtype: torch.dtype) -> Tensor:
    """Return statistics in a narrower dtype; what the mean loses is added to its rest."""
    if statistics.dtype == dtype:
        return statistics
    mean, rest, rstd = statistics
    near = mean.to(dtype)
    return torch.stack((near, (mean - near + rest).to(dtype), rstd.to(dtype)))


def as_rows(tensor: Tensor, normalized_shape: tuple[int, ...]) -> Tensor:
    """Return ``tensor`` as ``(B, H)``; a view, unless its strides forbid one."""
    if is_kept():  # always one operation, because strides may differ when it is recomputed
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    if tensor.ndim == 2 and len(normalized_shape) == 1:
        return tensor
    leading = tensor.shape[: tensor.ndim - len(normalized_shape)]
    return tensor.reshape(math.prod(leading), math.prod(normalized_shape))


def as_shape(rows: Tensor, shape: torch.Size) -> Tensor:
    """Return ``rows`` in a shape, and not as a view, which could not be changed in place."""
    if rows.shape == shape:
        return rows
    if is_kept():  # the rows are kept, so no other tensor may share their memory
        return rows.view(shape).clone()
    y: Tensor = torch.ops.aten._unsafe_view(rows, shape)
    return y


def flat(parameter: Tensor | None) -> Tensor | None:
    """Return a parameter as ``(H,)``."""
    return parameter if parameter is None or parameter.ndim == 1 else parameter.reshape(-1)
