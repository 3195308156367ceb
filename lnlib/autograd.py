"""Layer norm as one node of autograd, for any two passes.

A backend is a pair of passes: `lnlib.cpp_kernel`, `lnlib.triton_kernel` and `lnlib.reference` have
one each. The node keeps what they need, and is right in reverse mode of any order.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

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
    is_simple,
    is_simple_on_gpu,
    is_watched,
    mode_of,
    recorded,
    shown_as,
)

AS_IT_IS, CPU = nullcontext(), torch.device("cpu")


class Passes(NamedTuple):
    """What computes the two passes over rows ``(B, H)``, with parameters ``(H,)``.

    Statistics are ``(3, B)``, whatever computes them: a number near the mean, what is missing from
    it to the mean, and rstd. So a pass may read what another's forward pass has kept.

    Attributes:
        forward: called with x, weight, bias and eps; returns y, contiguous, and the statistics.
        backward: called with dy, x, weight, the statistics, and which gradients are needed in which
            dtypes; returns them in these dtypes or wider. They are not differentiated again.
        kept_dtype: tells that of the statistics, for the dtype of x and a type of device.
        of_simple: does as ``backward`` for tensors that are simple, as `lnlib.modes` has it, and
            may have more dimensions.
    """

    forward: Callable[[Tensor, Tensor | None, Tensor | None, float], tuple[Tensor, Tensor]]
    backward: Callable[[Tensor, Tensor, Tensor | None, Tensor, Needs], Gradients]
    kept_dtype: Callable[[torch.dtype, str], torch.dtype]
    of_simple: Callable[[Tensor, Tensor, Tensor | None, Tensor, Needs], Gradients] | None = None


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
        x = as_rows(input, normalized_shape)
        forward = reference.forward if is_watched() else passes.forward
        rows, statistics = forward(x, flat(weight), flat(bias), eps)
        y = as_shape(rows, input.shape)
        statistics = _narrowed(statistics, passes.kept_dtype(input.dtype, input.device.type))
    given = input, weight, bias
    if is_recording_gradients() and any(t is not None and t.requires_grad for t in given):
        y = LayerNormFunction.apply(  # type: ignore[no-untyped-call]
            *given, (y, statistics), normalized_shape, eps, passes
        )
    return y


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
        if statistics is not None:
            ctx.kept, ctx.kept_shape = statistics.dtype, statistics.shape
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
        found = ctx.saved_tensors  # once: a checkpoint recomputes them
        needs_dx, needs_dweight, needs_dbias, *_ = ctx.needs_input_grad
        dtype, dtype_w, dtype_b = ctx.dtypes
        needs: Needs = (
            dtype if needs_dx else None,
            dtype_w if needs_dweight else None,
            dtype_b if needs_dbias else None,
        )
        grads = _of_simple(ctx, dy, found, needs) or _gradients(ctx, dy, found, needs)
        narrow: list[Tensor | None] = []
        sizes = dy.shape, ctx.normalized_shape, ctx.normalized_shape
        for grad, size, wanted in zip(grads, sizes, ctx.dtypes, strict=True):
            if grad is not None and (grad.dtype is not wanted or grad.shape != size):
                grad = grad.reshape(size).to(wanted)
            narrow.append(grad)
        return *narrow, None, None, None, None


def _of_simple(
    ctx: Any, dy: Tensor, found: Sequence[Tensor | None], needs: Needs
) -> Gradients | None:
    """Call the kernel, or return None where something is not simple, or a hook has changed it."""
    input, weight, statistics = found
    of_simple, sizes, dtype = ctx.passes.of_simple, ctx.normalized_shape, ctx.dtypes[0]
    if (
        of_simple is None
        or input is None
        or statistics is None
        or not is_left_alone()
        or torch.is_grad_enabled()
    ):
        return None
    if not (
        (input.dtype is dtype and input.shape == ctx.shape)
        and (dy.dtype is dtype and dy.shape == ctx.shape)
        and (statistics.dtype is ctx.kept and statistics.shape == ctx.kept_shape)
        and (weight is None or (weight.dtype is ctx.dtypes[1] and weight.shape == sizes))
    ):
        return None
    are_simple = is_simple if ctx.device == CPU else is_simple_on_gpu
    if not are_simple(dy, *found):
        if not is_ordinary(dy):
            return None
        check_memory(dy)
        dy = dy.resolve_neg().contiguous()  # that of a sum is one number, expanded
        if not are_simple(dy, *found):
            return None
    with recorded("lnlib::layer_norm_backward") if is_profiled() else AS_IT_IS:
        grads: Gradients = of_simple(dy, input, weight, statistics, needs)
    return grads


def _gradients(ctx: Any, dy: Tensor, found: Sequence[Tensor | None], needs: Needs) -> Gradients:
    """Do as `_of_simple`, for any tensors and in any mode."""
    input, weight, statistics = found
    saved.check_gradient(dy)
    shapes = ctx.shape, torch.Size(ctx.normalized_shape)
    kinds = [
        (dtype, shape, ctx.device, torch.strided)
        for dtype, shape in zip(ctx.dtypes[:2], shapes, strict=True)
    ]
    saved.check(("input", "weight"), found[:2], kinds)
    mode = mode_of(dy, *found)
    dy, weight = as_rows(dy, ctx.normalized_shape), flat(weight)
    with shown_as("lnlib::layer_norm_backward"):
        if input is None:  # the gradient of bias alone is asked for
            return None, None, reference.sum_rows(dy)
        x = as_rows(input, ctx.normalized_shape)
        is_whole = saved.kinds_of(statistics) == [
            (ctx.kept, ctx.kept_shape, x.device, torch.strided)
        ]
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


def as_rows(tensor: Tensor, normalized_shape: tuple[int, ...]) -> Tensor:
    """Return ``tensor`` as ``(B, H)``; a view, unless its strides forbid one."""
    if is_kept():  # by one operation, whatever strides it has when it is recomputed
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    if tensor.ndim == 2 and len(normalized_shape) == 1:
        return tensor
    leading = tensor.shape[: tensor.ndim - len(normalized_shape)]
    return tensor.reshape(math.prod(leading), math.prod(normalized_shape))


def as_shape(rows: Tensor, shape: torch.Size) -> Tensor:
    """Return ``rows`` in a shape, as no view, which could not be changed in place."""
    if rows.shape == shape:
        return rows
    if is_kept():  # of the rows: then no other tensor may have their memory
        return rows.view(shape).clone()
    y: Tensor = torch.ops.aten._unsafe_view(rows, shape)
    return y


def flat(parameter: Tensor | None) -> Tensor | None:
    """Return a parameter as ``(H,)``."""
    return parameter if parameter is None or parameter.ndim == 1 else parameter.reshape(-1)
