"""Layer norm on a CPU, in C++: as accurate as the reference, at a fraction of its time.

The two passes are in kernel.cpp, which `compile` has g++ compile for each dtype on first use;
`addresses` says what they are given, `quick` knows a shorter way for most calls, and `whole` the
shortest, where ``python -m lnlib.cpp_kernel`` has been run. Gradients of higher order, and what is
no ordinary tensor, stay with `lnlib.closed_form` and `lnlib.composed`.
"""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from lnlib.closed_form import Dtypes, Gradients, Needs, Passes, kept_dtype, sum_rows_in_blocks
from lnlib.cpp_kernel import compile, whole
from lnlib.cpp_kernel.addresses import address, dense

SOURCE = Path(__file__).with_name("kernel.cpp")
NUMBERS = {  # what kernel.cpp calls them
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float",
    torch.float64: "double",
}
DOUBLE = torch.float64
Operand = tuple[Tensor | None, torch.dtype, tuple[int, ...]]


class Kernel(NamedTuple):
    """The functions of kernel.cpp for one dtype.

    Attributes:
        parameters: the dtype of weight and bias, and of their gradients.
        forward: fills y and the statistics.
        backward: fills the gradients that are asked for.
        scratch: tells how many float64 numbers ``backward`` wants to write on, for B and H.
    """

    parameters: torch.dtype
    forward: Callable[..., None]
    backward: Callable[..., None]
    scratch: Callable[[int, int], int]


KERNELS: dict[torch.dtype, Kernel] = {}  # those that have been asked for


def why_not(dtype: torch.dtype, device: str) -> str | None:
    """Return why there is no `Kernel` for a ``dtype`` on a type of device; None if there is."""
    if device != "cpu":
        return "C++ is for a CPU"
    return compile.why_not(SOURCE, flag(dtype))


def kernel(dtype: torch.dtype) -> Kernel:
    """Return the kernel for a ``dtype`` for which `why_not` knows no reason."""
    if dtype not in KERNELS:
        KERNELS[dtype] = _load(dtype)
    return KERNELS[dtype]


def _load(dtype: torch.dtype) -> Kernel:
    found = compile.library(SOURCE, flag(dtype))
    assert found is not None
    made = bound(found, dtype)
    whole.hand_over(PASSES, dtype, made.parameters, (found.forward, found.backward, found.scratch))
    return made


def bound(found: ctypes.CDLL, dtype: torch.dtype) -> Kernel:
    """Return the functions of a library that was made of kernel.cpp for a ``dtype``."""
    sizes, pointer = [ctypes.c_int64] * 3, ctypes.c_void_p
    found.forward.argtypes = [*sizes, ctypes.c_double, *[pointer] * 5]
    found.backward.argtypes = [*sizes, *[pointer] * 8]
    found.forward.restype = found.backward.restype = None
    found.scratch.argtypes, found.scratch.restype = sizes[:2], ctypes.c_int64
    scratch = functools.lru_cache(found.scratch)  # as quick as a call of C++ is slow
    parameters = DOUBLE if dtype == DOUBLE else torch.float32
    return Kernel(parameters, found.forward, found.backward, scratch)


def forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """Return y ``(B, H)`` and the statistics ``(3, B)`` of `lnlib.closed_form.Passes`, in float64.

    Raises:
        RuntimeError: if ``x`` is not on a CPU, or the kernel cannot be compiled.
    """
    compile.check(x, why_not(x.dtype, x.device.type))
    (B, H), of = x.shape, kernel(x.dtype)
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    statistics = x.new_empty((3, B), dtype=DOUBLE)
    _run(
        *(of.forward, B, H, eps),
        (dense(x), x.dtype, (B, H)),
        (_parameter(weight, of), of.parameters, (H,)),
        (_parameter(bias, of), of.parameters, (H,)),
        (y, x.dtype, (B, H)),
        (statistics, DOUBLE, (3, B)),
    )
    return y, statistics


def backward(
    dy: Tensor,
    x: Tensor | None,
    weight: Tensor | None,
    statistics: Tensor | None,
    needs: Needs,
    _: Dtypes,
) -> Gradients:
    """Return dx in the dtype of x, and dweight and dbias in float64, or else in float32."""
    if x is None or statistics is None:
        return None, None, sum_rows_in_blocks(dy)
    (B, H), of = x.shape, kernel(x.dtype)
    dx = torch.empty_like(x, memory_format=torch.contiguous_format) if needs[0] else None
    # Of no rows the sums are 0, and C++ is not called.
    dweight, dbias = (
        x.new_zeros(H, dtype=of.parameters) if needed else None for needed in needs[1:]
    )
    scratch = x.new_empty(of.scratch(B, H), dtype=DOUBLE)
    _run(
        *(of.backward, B, H),
        (dense(dy), x.dtype, (B, H)),
        (dense(x), x.dtype, (B, H)),
        (dense(statistics), DOUBLE, (3, B)),
        (_parameter(weight, of), of.parameters, (H,)),
        (dx, x.dtype, (B, H)),
        (dweight, of.parameters, (H,)),
        (dbias, of.parameters, (H,)),
        (scratch, DOUBLE, tuple(scratch.shape)),
    )
    return dx, dweight, dbias


PASSES = Passes(forward, backward, kept_dtype)


def flag(dtype: torch.dtype) -> str:
    """Return what g++ is told to compile kernel.cpp for a ``dtype``."""
    return f"-DNUMBER={NUMBERS[dtype]}"


def _parameter(parameter: Tensor | None, of: Kernel) -> Tensor | None:
    return None if parameter is None else dense(parameter.to(of.parameters))


def _run(function: Callable[..., None], B: int, H: int, *rest: float | Operand) -> None:
    """Call a function of kernel.cpp, unless there is nothing to normalize."""
    if B == 0 or H == 0:
        return
    found = [_address(*each) if isinstance(each, tuple) else each for each in rest]
    function(B, H, compile.threads(), *found)


def _address(tensor: Tensor | None, dtype: torch.dtype, shape: tuple[int, ...]) -> int | None:
    return None if tensor is None else address(tensor, dtype, shape)
