"""Layer norm for float32 on a CPU, in C++: as accurate as the reference, at a fraction of its time.

The two passes are in kernel.cpp, which `compile` has g++ compile on first use; `addresses` says
what they are given. Gradients of higher order, and what is no ordinary tensor, stay with
`lnlib.closed_form` and `lnlib.composed`.
"""

import ctypes
import functools
from pathlib import Path

import torch
from torch import Tensor

from lnlib.closed_form import Dtypes, Gradients, Kept, Needs, Passes, sum_rows_in_blocks
from lnlib.cpp_kernel.addresses import address, dense
from lnlib.cpp_kernel.compile import check, library, threads, why_not_for

LOADS = ("kernel.cpp",)
SOURCE = Path(__file__).with_name(*LOADS)
FLOAT, DOUBLE = torch.float32, torch.float64
Operand = tuple[Tensor | None, torch.dtype, tuple[int, ...]]
# The sums over the rows are added up by chunks, as many for any number of threads. Each chunk needs
# 16 bytes a feature, so with 16 rows and more in a chunk all of them take at most a quarter of x.
ROWS_IN_CHUNK = 16
MOST_CHUNKS = 16

why_not = functools.partial(why_not_for, SOURCE)


def forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, y: Tensor
) -> tuple[Tensor, Tensor]:
    """Fill ``y``; return mean and rstd ``(B, 1)`` in float64.

    Raises:
        RuntimeError: if ``x`` is not float32 on a CPU, or the kernel cannot be compiled.
    """
    check(SOURCE, x)
    B, H = x.shape
    mean, rstd = (x.new_empty((B, 1), dtype=DOUBLE) for _ in range(2))
    _run(
        *("forward", B, H, eps),
        (dense(x), FLOAT, (B, H)),
        (_doubles(weight, x, 1.0), DOUBLE, (H,)),
        (_doubles(bias, x, 0.0), DOUBLE, (H,)),
        (y, FLOAT, (B, H)),
        (mean, DOUBLE, (B, 1)),
        (rstd, DOUBLE, (B, 1)),
    )
    return mean, rstd


def backward(
    dy: Tensor, x: Tensor | None, weight: Tensor | None, kept: Kept, needs: Needs, _: Dtypes
) -> Gradients:
    """Return dx in float32, and dweight and dbias in float64."""
    if x is None:
        return None, None, sum_rows_in_blocks(dy)
    B, H = x.shape
    mean, rstd = kept
    chunks = min(max(1, B // ROWS_IN_CHUNK), MOST_CHUNKS)
    dx = torch.empty_like(x, memory_format=torch.contiguous_format) if needs[0] else None
    sums = x.new_zeros((chunks, 2, H), dtype=DOUBLE)
    _run(
        *("backward", B, H, chunks),
        (dense(dy), FLOAT, (B, H)),
        (dense(x), FLOAT, (B, H)),
        (dense(mean), DOUBLE, (B, 1)),
        (dense(rstd), DOUBLE, (B, 1)),
        (_doubles(weight, x, 1.0), DOUBLE, (H,)),
        (dx, FLOAT, (B, H)),
        (sums, DOUBLE, (chunks, 2, H)),
    )
    dweight, dbias = sums.sum(0)
    return dx, dweight if needs[1] else None, dbias if needs[2] else None


PASSES = Passes(forward, backward)


def _run(name: str, B: int, H: int, number: float, *operands: Operand) -> None:
    """Call a function of kernel.cpp, unless there is nothing to normalize."""
    if B == 0 or H == 0:
        return
    addresses = [None if t is None else address(t, dtype, shape) for t, dtype, shape in operands]
    getattr(_library(), name)(B, H, threads(), number, *addresses)


@functools.cache
def _library() -> ctypes.CDLL:
    found = library(SOURCE)
    assert found is not None  # or `forward` would have said why
    sizes, pointer = [ctypes.c_int64] * 3, ctypes.c_void_p
    found.forward.argtypes = [*sizes, ctypes.c_double, *[pointer] * 6]
    found.backward.argtypes = [*sizes, ctypes.c_int64, *[pointer] * 7]
    return found


def _doubles(parameter: Tensor | None, x: Tensor, default: float) -> Tensor:
    if parameter is None:
        return x.new_full((x.shape[1],), default, dtype=DOUBLE)
    return dense(parameter.double())
