"""Layer norm for float32 on a CPU, in C++: as accurate as the reference, at a fraction of its time.

The two passes are in cpu_kernel.cpp, compiled on first use; see `lnlib.compiled`. Gradients of
higher order, and what is no ordinary tensor, stay with `lnlib.function` and `lnlib.reference`.
"""

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from lnlib import compiled, function
from lnlib.addresses import address, dense
from lnlib.function import Gradients, Needs, Passes

LOADS = ("cpu_kernel.cpp",)
SOURCE = Path(__file__).with_name(*LOADS)
FLOAT, DOUBLE = torch.float32, torch.float64
Operand = tuple[Tensor | None, torch.dtype, tuple[int, ...]]
# The sums over the rows are added up by chunks, as many for any number of threads. Each chunk needs
# 16 bytes a feature, so with 16 rows and more in a chunk all of them take at most a quarter of x.
ROWS_IN_CHUNK = 16
MOST_CHUNKS = 16

why_not = functools.partial(compiled.why_not_for, SOURCE)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize as `lnlib.function.layer_norm` does, with both passes in C++.

    Args:
        input: ``(..., *normalized_shape)``, float32 on a CPU; other than dense, it is copied.
        normalized_shape: sizes of the trailing dimensions that share one mean and one variance.
        weight: ``normalized_shape``, float32; None means 1.
        bias: ``normalized_shape``, float32; None means 0.
        eps: added to the variance, so in units of ``input`` squared.

    Returns:
        ``(..., *normalized_shape)``, contiguous, float32.

    Raises:
        RuntimeError: if ``input`` is not float32 on a CPU, or the kernel cannot be compiled; in the
            backward pass, if ``input`` or ``weight`` has been changed in place, or by a hook of
            ``saved_tensors_hooks`` into another kind of tensor.

    Source: Ba, Kiros, Hinton 2016, eq. 3 to 5; chapters 04 and 05 of the book derive the gradient.
    """
    compiled.check(SOURCE, input)
    return function.layer_norm(input, normalized_shape, weight, bias, eps, passes=PASSES)


def _forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, out: Tensor
) -> tuple[Tensor, Tensor]:
    B, H = x.shape
    mean, rstd = (x.new_empty((B, 1), dtype=DOUBLE) for _ in range(2))
    _run(
        *("forward", B, H, eps),
        (dense(x), FLOAT, (B, H)),
        (_doubles(weight, x, 1.0), DOUBLE, (H,)),
        (_doubles(bias, x, 0.0), DOUBLE, (H,)),
        (out, FLOAT, (B, H)),
        (mean, DOUBLE, (B, 1)),
        (rstd, DOUBLE, (B, 1)),
    )
    return mean, rstd


def _backward(
    dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, needs: Needs
) -> Gradients:
    B, H = x.shape
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


PASSES = Passes(_forward, _backward)


def _run(name: str, B: int, H: int, number: float, *operands: Operand) -> None:
    """Call a function of cpu_kernel.cpp, unless there is nothing to normalize."""
    if B == 0 or H == 0:
        return
    addresses = [None if t is None else address(t, dtype, shape) for t, dtype, shape in operands]
    getattr(_library(), name)(B, H, compiled.threads(), number, *addresses)


@functools.cache
def _library() -> ctypes.CDLL:
    library = compiled.library(SOURCE)
    assert library is not None  # or `layer_norm` would have said why
    sizes, pointer = [ctypes.c_int64] * 3, ctypes.c_void_p
    library.forward.argtypes = [*sizes, ctypes.c_double, *[pointer] * 6]
    library.backward.argtypes = [*sizes, ctypes.c_int64, *[pointer] * 7]
    return library


def _doubles(parameter: Tensor | None, x: Tensor, default: float) -> Tensor:
    if parameter is None:
        return x.new_full((x.shape[1],), default, dtype=DOUBLE)
    return dense(parameter.reshape(-1).double())
