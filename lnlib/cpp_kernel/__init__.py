"""Layer norm on a CPU, in C++: as accurate as the reference, at a fraction of its time.

The two passes are in kernel.cpp, compiled for each dtype when lnlib is built; see `library`.
`lnlib.layer_norm` calls them itself for simple tensors, and through `forward` and `backward` for
all ordinary ones. Gradients of higher order are in `lnlib.closed_form`, and tensors that are not
ordinary go to `lnlib.composed`.
"""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lnlib.autograd import Passes
from lnlib.closed_form import Gradients, Needs
from lnlib.cpp_kernel import library
from lnlib.modes import is_simple
from lnlib.reference import kept_dtype

NUMBERS = {  # what kernel.cpp calls them
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float",
    torch.float64: "double",
}
DOUBLE, CPU = torch.float64, torch.device("cpu")


class Kernel(NamedTuple):
    """The functions of kernel.cpp for one dtype.

    Attributes:
        parameters: the dtype of weight and bias, and of their gradients.
        forward: fills y and the statistics.
        backward: fills the gradients that are asked for; returns whether memory sufficed.
    """

    parameters: torch.dtype
    forward: Callable[..., None]
    backward: Callable[..., bool]


KERNELS: dict[torch.dtype, Kernel] = {}  # filled as they are asked for


def why_not(dtype: torch.dtype, device: str) -> str | None:
    """Return why there is no `Kernel` for a ``dtype`` on a type of device; None if there is."""
    if device != "cpu":
        return "C++ is for a CPU"
    return library.why_not()


def kernel(dtype: torch.dtype) -> Kernel:
    """Return the kernel for a ``dtype`` for which `why_not` knows no reason."""
    if dtype not in KERNELS:
        KERNELS[dtype] = bound(library.library(), dtype)
    return KERNELS[dtype]


def bound(found: ctypes.CDLL, dtype: torch.dtype) -> Kernel:
    """Return the functions of a library for a ``dtype``."""
    number = NUMBERS[dtype]
    forward, backward = found[f"forward_{number}"], found[f"backward_{number}"]
    sizes, pointer = [ctypes.c_int64] * 3, ctypes.c_void_p
    forward.argtypes = [*sizes, ctypes.c_double, *[pointer] * 5]
    backward.argtypes = [*sizes, *[pointer] * 7]
    forward.restype, backward.restype = None, ctypes.c_bool
    return Kernel(DOUBLE if dtype == DOUBLE else torch.float32, forward, backward)


def forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """Return y ``(B, H)`` and the statistics ``(3, B)`` of `lnlib.autograd.Passes`, in float64.

    Raises:
        RuntimeError: if ``x`` is not on a CPU, or lnlib was installed without its C++.
    """
    of = KERNELS.get(x.dtype) if x.is_cpu else None
    if of is None:
        library.check(x, why_not(x.dtype, x.device.type))
        of = kernel(x.dtype)
    B, H = x.shape
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    statistics = torch.empty(3, B, dtype=DOUBLE, device=CPU)
    if x.numel():
        x = read(x, x.dtype, (B, H))
        weight, bias = read(weight, of.parameters, (H,)), read(bias, of.parameters, (H,))
        given = (None if t is None else t.data_ptr() for t in (x, weight, bias, y, statistics))
        of.forward(B, H, library.threads(), eps, *given)
    return y, statistics


def backward(
    dy: Tensor, x: Tensor, weight: Tensor | None, statistics: Tensor, needs: Needs
) -> Gradients:
    """Return dx in the dtype of x, and dweight and dbias in float64, or else in float32."""
    (B, H), of = x.shape, kernel(x.dtype)
    if B * H == 0:  # the sums over no rows are 0
        dweight, dbias = (x.new_zeros(H, dtype=of.parameters) if n else None for n in needs[1:])
        return torch.empty_like(x) if needs[0] else None, dweight, dbias
    dy, x = read(dy, x.dtype, (B, H)), read(x, x.dtype, (B, H))
    weight, statistics = read(weight, of.parameters, (H,)), read(statistics, DOUBLE, (3, B))
    return backward_of_simple(dy, x, weight, statistics, needs)


def backward_of_simple(
    dy: Tensor, x: Tensor, weight: Tensor | None, statistics: Tensor, needs: Needs
) -> Gradients:
    """Do what `backward` does, for simple tensors, which may have more dimensions."""
    B, of = statistics.shape[1], kernel(x.dtype)
    H = x.numel() // B
    if weight is not None and weight.dtype is not of.parameters:
        weight = weight.to(of.parameters)
    dx = torch.empty_like(x, memory_format=torch.contiguous_format) if needs[0] else None
    dweight = torch.empty(H, dtype=of.parameters, device=CPU) if needs[1] else None
    dbias = torch.empty(H, dtype=of.parameters, device=CPU) if needs[2] else None
    there_was_memory = of.backward(
        B,
        H,
        library.threads(),
        dy.data_ptr(),
        x.data_ptr(),
        statistics.data_ptr(),
        None if weight is None else weight.data_ptr(),
        None if dx is None else dx.data_ptr(),
        None if dweight is None else dweight.data_ptr(),
        None if dbias is None else dbias.data_ptr(),
    )
    if not there_was_memory:  # an exception may not leave C++
        raise RuntimeError("not enough memory for the sums of dweight and dbias")
    return dx, dweight, dbias


PASSES = Passes(forward, backward, kept_dtype, backward_of_simple)


def widened(of: Kernel, *parameters: Tensor | None) -> list[Tensor | None]:
    """Return parameters in the dtype that a kernel takes."""
    return [None if p is None else p.detach().to(of.parameters) for p in parameters]


def dense(tensor: Tensor) -> Tensor:
    """Return ``tensor`` contiguous, and as no view with the other sign."""
    return tensor.resolve_neg().contiguous()


def read(tensor: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> Any:
    """Return ``tensor`` as C++ can read it, dense and of a ``dtype``; None stays None.

    Raises:
        RuntimeError: unless it is an ordinary tensor of this shape, on a CPU.
    """
    if tensor is None:
        return None
    found = tensor if tensor.dtype is dtype else tensor.detach().to(dtype)
    found = found if is_simple(found) else dense(found)
    address(found, dtype, shape)  # which raises, unless C++ may read it
    return found


def address(tensor: Tensor | None, dtype: torch.dtype, shape: tuple[int, ...]) -> int | None:
    """Return the address of the first number of ``tensor``; None for None and an empty one.

    Raises:
        RuntimeError: unless it is simple, as `lnlib.modes` has it, and of this dtype and shape.
    """
    if tensor is None:
        return None
    is_empty = tensor.is_cpu and not tensor.numel()
    if tensor.dtype == dtype and tensor.shape == shape and (is_empty or is_simple(tensor)):
        return None if is_empty else tensor.data_ptr()
    raise RuntimeError(
        f"C++ reads ordinary, contiguous tensors on a CPU, expected {dtype} of shape {shape}, "
        f"got a {type(tensor).__name__} of {tensor.dtype} and shape {tuple(tensor.shape)} on "
        f"{tensor.device}, or its memory has been freed"
    )
