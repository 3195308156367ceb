"""Layer norm for float32 on a CPU, in C++: as accurate as the reference, at a fraction of its time.

The two passes are in cpu_kernel.cpp, compiled on first use; see `lnlib.compiled`. Gradients of
higher order, and what is no ordinary tensor, stay with `lnlib.function` and `lnlib.reference`.
"""

import ctypes
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from lnlib import compiled, function
from lnlib.function import Gradients, Needs, Passes

LOADS = ("cpu_kernel.cpp",)
SOURCE = Path(__file__).with_name(*LOADS)
# The sums over the rows are added up by chunks, as many for any number of threads. Each chunk needs
# 16 bytes a feature, so with 16 rows and more in a chunk all of them take at most a quarter of x.
ROWS_IN_CHUNK = 16
MOST_CHUNKS = 16

Number = ctypes.c_double | ctypes.c_int64


def is_available() -> bool:
    """Tell whether the kernel runs here: on Linux, with a g++ that compiles it."""
    return compiled.library(SOURCE) is not None


def takes(input: Tensor) -> bool:
    """Tell whether ``input`` is what the kernel is for: float32 on a CPU where it runs."""
    return input.dtype == torch.float32 and input.device.type == "cpu" and is_available()


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
        RuntimeError: if ``input`` is not float32 on a CPU, or there is no g++ that compiles the
            kernel; in the backward pass, if ``input`` or ``weight`` has been changed in place.

    Source: Ba, Kiros, Hinton 2016, eq. 3 to 5; chapters 04 and 05 of the book derive the gradient.
    """
    if not takes(input):
        missing = "" if is_available() else ", and no g++ that compiles it"
        raise RuntimeError(
            'backend "cpp" is for float32 on a CPU, on Linux with g++, '
            f'got {input.dtype} on {input.device}{missing}; use "auto"'
        )
    return function.layer_norm(input, normalized_shape, weight, bias, eps, passes=PASSES)


def _forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, out: Tensor
) -> tuple[Tensor, Tensor]:
    B, H = x.shape
    mean, rstd = (torch.empty((B, 1), dtype=torch.float64) for _ in range(2))
    scale, shift = _doubles(weight, H, 1.0), _doubles(bias, H, 0.0)
    _run("forward", (B, H), ctypes.c_double(eps), _dense(x), scale, shift, out, mean, rstd)
    return mean, rstd


def _backward(
    dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, needs: Needs
) -> Gradients:
    B, H = x.shape
    chunks = min(max(1, B // ROWS_IN_CHUNK), MOST_CHUNKS)
    dx = torch.empty_like(x, memory_format=torch.contiguous_format) if needs[0] else None
    sums = mean.new_zeros(chunks, 2, H)
    scale = _doubles(weight, H, 1.0)
    tensors = (_dense(dy), _dense(x), mean, rstd, scale, dx, sums)
    _run("backward", (B, H), ctypes.c_int64(chunks), *tensors)
    dweight, dbias = sums.sum(0)
    return dx, dweight if needs[1] else None, dbias if needs[2] else None


PASSES = Passes(_forward, _backward)


def _run(name: str, shape: tuple[int, int], number: Number, *tensors: Tensor | None) -> None:
    """Call a function of cpu_kernel.cpp, unless there is nothing to normalize."""
    if 0 in shape:
        return
    library = compiled.library(SOURCE)
    assert library is not None  # or `takes` would have said no
    sizes = (ctypes.c_int64(size) for size in (*shape, torch.get_num_threads()))
    addresses = (ctypes.c_void_p(None if t is None else t.data_ptr()) for t in tensors)
    getattr(library, name)(*sizes, number, *addresses)


def _dense(tensor: Tensor) -> Tensor:
    return tensor.resolve_neg().contiguous()


def _doubles(parameter: Tensor | None, size: int, default: float) -> Tensor:
    if parameter is None:
        return torch.full((size,), default, dtype=torch.float64)
    return _dense(parameter.reshape(-1).double())
