"""`lnlib.layer_norm`, and the straight path of a simple call to the kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from lnlib import cpp_kernel, dispatch, triton_kernel
from lnlib.autograd import join
from lnlib.cpp_kernel import library
from lnlib.modes import (
    CPU,
    is_left_alone,
    is_profiled,
    is_recording_gradients,
    place_of_simple,
    shown,
)
from lnlib.refusals import FLOAT_DTYPES

SEQUENCES = tuple, list, torch.Size
DENSE, DOUBLE, ON_CPU = torch.contiguous_format, torch.float64, torch.device("cpu")
WITH_KERNELS = "auto", "cpp", "triton"


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    backend: str = "auto",
) -> Tensor:
    """Normalize the trailing dimensions of ``input``, then scale and shift.

    A drop-in for `torch.nn.functional.layer_norm`: it accepts the same arguments, refuses the same
    ones with the same type of exception, and returns the same shape and dtype. Subclasses of
    Tensor, modes and `torch.fx`, which override PyTorch's functions by ``__torch_function__``,
    override this one too.

    Args:
        input: ``(..., *normalized_shape)``; float16, bfloat16, float32 or float64, any strides.
            There may be no rows at all. Nested tensors, and jagged ones if they are contiguous, are
            normalized part by part.
        normalized_shape: a tuple or list of ints, the sizes of the trailing dimensions that share
            one mean and one variance.
        weight: ``normalized_shape``, the dtype of ``input``, or float32 when ``input`` is narrower,
            a mix that PyTorch takes on a CPU alone; None means 1. With "triton", any of the four
            dtypes.
        bias: like ``weight``; when both are given they have one dtype. With "triton", each has its
            own. None means 0.
        eps: added to the variance, so in units of ``input`` squared. Not checked: a negative one
            gives NaN where it outweighs the variance, as in PyTorch.
        backend: "auto" is "triton" on a GPU for which there is Triton, "cpp" for ordinary
            tensors on a CPU where lnlib has its C++, and "reference" elsewhere; `lnlib.backends`
            tells what it is here. "reference" is plain PyTorch on any device, with the gradient in
            closed form; "cpp" is `lnlib.cpp_kernel`, compiled when lnlib was built; "triton" is
            the kernels of `lnlib.triton_kernel`, interpreted on a CPU, which is slow; "torch" is
            `torch.nn.functional.layer_norm` itself, with its errors, to compare with. What each
            becomes under a transform, in a compiled graph and in an exported program is listed in
            the book, "In each of PyTorch's modes".

    Returns:
        ``(..., *normalized_shape)``, contiguous, the dtype of ``input``; float32 under autocast,
        except on the CPU, where autocast leaves layer norm alone. What a row gets depends on no
        other row, to the last bit: see "Batch invariance" in the book. A row whose squares overflow
        in the arithmetic, which float64 and bfloat16 on a CPU allow, is NaN.

    Raises:
        TypeError: if an argument is not of its type; an int is not a ``normalized_shape``.
        RuntimeError: if shapes, devices or dtypes do not fit together, or a tensor is sparse, or
            its memory has been freed; with "cpp", if ``input`` is not on a CPU, or lnlib has been
            installed without its C++. In the backward pass, if ``input`` or ``weight`` is read
            there but has been changed in place, or by a hook of ``saved_tensors_hooks`` into
            another kind of tensor.
        NotImplementedError: if ``input`` is of no float dtype that PyTorch normalizes; with
            "triton", also if it is neither on a GPU nor on a CPU.
        ValueError: if there is no such ``backend``.
        ImportError: with "triton", if Triton is missing, or older than 3.6.

    Source: Ba, Kiros, Hinton 2016, eq. 3 to 5, with PyTorch's eps; see `lnlib.formula`.

    >>> x = torch.tensor([[1.0, 2.0, 3.0], [7.0, 7.0, 7.0]])
    >>> layer_norm(x, (3,), bias=torch.full((3,), 0.5))
    tensor([[-0.7247,  0.5000,  1.7247],
            [ 0.5000,  0.5000,  0.5000]])
    """
    if backend in WITH_KERNELS:
        y = simple_call(input, normalized_shape, weight, bias, eps, backend)
        if y is not None:
            return y
    tensors, given = (input, weight, bias), (input, normalized_shape, weight, bias, eps)
    if backend == "torch":
        return F.layer_norm(*given)
    if has_torch_function(tensors):
        overridden: Tensor = handle_torch_function(layer_norm, tensors, *given, backend=backend)
        return overridden
    return dispatch.layer_norm(*given, backend)


def simple_call(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    backend: str = "auto",
) -> Tensor | None:
    """Call the kernel, or return None if the call is not simple; then `dispatch` decides.

    A call is simple if no mode of PyTorch sees it or takes it over, and its tensors are dense, on a
    CPU or on one GPU, and of the shapes and dtypes that the kernel takes.
    """
    if not is_left_alone() or type(eps) is not float or type(normalized_shape) not in SEQUENCES:
        return None
    place = place_of_simple(input, weight, bias)
    if input is None or place is None:
        return None
    shape, dtype = tuple(normalized_shape), input.dtype
    for size in shape:
        if type(size) is not int:  # True would pass for 1
            return None
    if not shape or input.shape[-len(shape) :] != shape:
        return None
    if weight is not None:
        dtype = weight.dtype
        if weight.shape != shape:
            return None
    if bias is not None:
        if bias.shape != shape or (weight is not None and bias.dtype is not dtype):
            return None
        dtype = bias.dtype
    if place != CPU:
        return _simple_call_on_gpu(input, shape, weight, bias, dtype, eps, backend)
    kernel = cpp_kernel.KERNELS.get(input.dtype)
    if kernel is None or backend == "triton":
        return None
    wide_weight, wide_bias = weight, bias
    if dtype is not kernel.parameters:
        if dtype is not input.dtype:
            return None
        wide_weight, wide_bias = cpp_kernel.widened(kernel, weight, bias)
    H = math.prod(shape)
    B = input.numel() // H
    y = torch.empty_like(input, memory_format=DENSE)
    wants, statistics = False, None
    if torch.is_grad_enabled() and not torch.is_inference_mode_enabled():
        wants = input.requires_grad or (weight is not None and weight.requires_grad)
        if wants:
            statistics = torch.empty(3, B, dtype=DOUBLE, device=ON_CPU)
        wants = wants or (bias is not None and bias.requires_grad)
    forward = kernel.forward
    if is_profiled():
        forward = shown("lnlib::layer_norm", forward)
    forward(
        B,
        H,
        library.threads(),
        eps,
        input.data_ptr(),
        None if wide_weight is None else wide_weight.data_ptr(),
        None if wide_bias is None else wide_bias.data_ptr(),
        y.data_ptr(),
        None if statistics is None else statistics.data_ptr(),
    )
    if wants:
        y = join(input, weight, bias, (y, statistics, shape, eps, cpp_kernel.PASSES))
    return y


def _simple_call_on_gpu(
    input: Tensor,
    shape: tuple[int, ...],
    weight: Tensor | None,
    bias: Tensor | None,
    dtype: torch.dtype,
    eps: float,
    backend: str,
) -> Tensor | None:
    if dtype is not input.dtype or dtype not in FLOAT_DTYPES or backend == "cpp":
        return None
    if torch.is_autocast_enabled("cuda") or not triton_kernel.runs_on_gpu():
        return None
    forward = triton_kernel.forward_of_simple
    if is_profiled():
        forward = shown("lnlib::layer_norm", forward)
    y, statistics = forward(input, weight, bias, eps, math.prod(shape))
    if is_recording_gradients() and (
        input.requires_grad
        or (weight is not None and weight.requires_grad)
        or (bias is not None and bias.requires_grad)
    ):
        y = join(input, weight, bias, (y, statistics, shape, eps, triton_kernel.PASSES))
    return y
