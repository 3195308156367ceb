"""The shortest way to C++, for what nearly every call on a CPU is.

One glance at a call tells whether it is simple: ordinary tensors, dense and in memory that is
there, of dtypes and shapes that fit, while nothing of PyTorch's looks on. Of any other it says no
more than that: how to take it, or why not to, is for the way that looks at one thing after another.
For a small input this takes a tenth of that way's time.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from lnlib import closed_form, cpp_kernel, saved
from lnlib.cpp_kernel import whole
from lnlib.cpp_kernel.addresses import dense
from lnlib.cpp_kernel.compile import threads
from lnlib.modes import (
    check_memory,
    glance,
    is_left_alone,
    is_ordinary,
    is_profiled,
    is_recording_gradients,
    recorded,
)

SEQUENCES = tuple, list, torch.Size
AS_IT_IS = nullcontext()
DENSE, DOUBLE, CPU = torch.contiguous_format, torch.float64, saved.CPU
# A kernel, B and H, and where it finds input, weight and bias, of the dtypes that it takes.
Found = tuple[cpp_kernel.Kernel, int, int, int, int | None, int | None]


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor | None:
    """Return what `lnlib.layer_norm` returns; None if the call, right or wrong, is not simple."""
    if whole.layer_norm is not None and not torch.compiler.is_compiling():
        return whole.layer_norm(input, normalized_shape, weight, bias, eps)
    if not is_left_alone() or type(eps) is not float or type(normalized_shape) not in SEQUENCES:
        return None
    shape, at_input = tuple(normalized_shape), glance(input)
    for size in shape:
        if type(size) is not int:  # True is not 1 here
            return None
    if not (at_input and shape) or input.shape[-len(shape) :] != shape:
        return None
    kernel = cpp_kernel.KERNELS.get(input.dtype)
    if kernel is None:
        return None
    # Both of one dtype: that of input, or what the kernel takes.
    dtype = getattr(bias if weight is None else weight, "dtype", None)
    dtype = dtype if dtype is input.dtype else kernel.parameters
    at_weight, at_bias = _at(weight, dtype, shape), _at(bias, dtype, shape)
    if at_weight == 0 or at_bias == 0:
        return None
    if dtype is not kernel.parameters:
        wide = _widened(weight, kernel), _widened(bias, kernel)  # alive as long as the call is
        at_weight, at_bias = _where(wide[0]), _where(wide[1])
    H = math.prod(shape)
    found = kernel, input.numel() // H, H, at_input, at_weight, at_bias
    if is_recording_gradients() and (
        input.requires_grad
        or (weight is not None and weight.requires_grad)
        or (bias is not None and bias.requires_grad)
    ):
        y: Tensor = LayerNormFunction.apply(input, shape, weight, bias, eps, found)  # type: ignore[no-untyped-call]
        return y
    return _forward(input, eps, found, None)


def _at(parameter: Tensor | None, dtype: torch.dtype, shape: tuple[int, ...]) -> int | None:
    """Return where a parameter is, None if there is none, and 0 if it is not simple."""
    if parameter is None:
        return None
    at = glance(parameter)
    return at if at and parameter.dtype is dtype and parameter.shape == shape else 0


def _widened(parameter: Tensor | None, kernel: cpp_kernel.Kernel) -> Tensor | None:
    return None if parameter is None else parameter.detach().to(kernel.parameters)


def _forward(input: Tensor, eps: float, found: Found, at_statistics: int | None) -> Tensor:
    kernel, B, H, at_input, at_weight, at_bias = found
    y = torch.empty_like(input, memory_format=DENSE)
    at_y = y.data_ptr()
    with recorded("lnlib::layer_norm") if is_profiled() else AS_IT_IS:
        kernel.forward(B, H, threads(), eps, at_input, at_weight, at_bias, at_y, at_statistics)
    return y


class LayerNormFunction(closed_form.LayerNormFunction):
    """The same node of a graph, whose passes are short where their tensors are simple."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        shape: tuple[int, ...],
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
        found: Any,
    ) -> Tensor:
        """Normalize, and keep what the gradients that may be asked for will need."""
        needs_dx, _, needs_dweight, *_ = ctx.needs_input_grad
        if needs_dx or needs_dweight:
            statistics = torch.empty(3, found[1], dtype=DOUBLE, device=CPU)
            y = _forward(input, eps, found, statistics.data_ptr())
            ctx.save_for_backward(input, weight if needs_dx else None, statistics)
        else:
            y = _forward(input, eps, found, None)
            ctx.save_for_backward(None, None, None)
        ctx.dtypes = input.dtype, _dtype(weight), _dtype(bias)
        ctx.normalized_shape, ctx.eps, ctx.passes = shape, eps, cpp_kernel.PASSES
        ctx.found, ctx.shape = found[:3], input.shape
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients that are asked for, and None in place of the others."""
        tensors = ctx.saved_tensors
        if is_left_alone() and not torch.is_grad_enabled():
            grads = _gradients(ctx, dy, *tensors)
            if grads is not None:
                return grads
        ctx.kinds = saved.kinds_of_call(ctx.dtypes, ctx.shape, ctx.normalized_shape, tensors)
        return LayerNormFunction.from_saved(ctx, dy, tensors)


def _gradients(
    ctx: Any, dy: Tensor, input: Tensor | None, weight: Tensor | None, statistics: Tensor | None
) -> tuple[Tensor | None, ...] | None:
    """Return what a backward pass returns; None if dy or what has come back is not simple."""
    needs_dx, _, needs_dweight, needs_dbias, *_ = ctx.needs_input_grad
    shape, (kernel, B, H), (dtype, dtype_w, dtype_b) = ctx.normalized_shape, ctx.found, ctx.dtypes
    at_dy, at_input = _at(dy, dtype, ctx.shape), _at(input, dtype, ctx.shape)
    if at_dy == 0 and is_ordinary(dy):  # that of a sum or a mean is one number, expanded
        check_memory(dy)
        dy = dense(dy)
        at_dy = _at(dy, dtype, ctx.shape)
    at_weight, at_statistics = _at(weight, dtype_w, shape), _at(statistics, DOUBLE, (3, B))
    if input is None or not (at_dy and at_input and at_statistics) or at_weight == 0:
        return None
    wide = weight
    if weight is not None and dtype_w is not kernel.parameters:
        wide = _widened(weight, kernel)
        at_weight = _where(wide)
    dx = torch.empty_like(input, memory_format=DENSE) if needs_dx else None
    like = torch.empty(*shape, dtype=kernel.parameters, device=CPU) if wide is None else wide
    dweight = torch.empty_like(like, memory_format=DENSE) if needs_dweight else None
    dbias = torch.empty_like(like, memory_format=DENSE) if needs_dbias else None
    scratch = torch.empty(kernel.scratch(B, H), dtype=DOUBLE, device=CPU)
    read = at_dy, at_input, at_statistics, at_weight
    written = _where(dx), _where(dweight), _where(dbias), scratch.data_ptr()
    with recorded("lnlib::layer_norm_backward") if is_profiled() else AS_IT_IS:
        kernel.backward(B, H, threads(), *read, *written)
    if dweight is not None and dtype_w is not kernel.parameters:
        dweight = dweight.to(dtype_w)
    if dbias is not None and dtype_b is not kernel.parameters:
        dbias = dbias.to(dtype_b)
    return dx, None, dweight, dbias, None, None


def _where(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _dtype(tensor: Tensor | None) -> torch.dtype | None:
    return None if tensor is None else tensor.dtype
