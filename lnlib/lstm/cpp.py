"""The layer-normalized LSTM in C++, for float32 on a CPU, a call a pass; see `lnlib.lstm.function`.

Where lnlib was installed without its C++, the loop of `lnlib.lstm.formula` does the same with
more, smaller operations.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from lnlib.cpp_kernel import address, dense, library
from lnlib.lstm.formula import Gradients, Results, Settings, Weights, shapes
from lnlib.modes import is_simple

SUMS = 14  # of gates.h
FLOAT, CPU = torch.float32, torch.device("cpu")


def why_not(dtype: torch.dtype, device: str) -> str | None:
    """Return why there are no passes for a ``dtype`` on a type of device; None if there are."""
    if dtype != FLOAT or device != "cpu":
        return "the C++ of the LSTM is for float32 on a CPU"
    return library.why_not()


def forward(
    settings: Settings, x: Tensor, h: Tensor, c: Tensor, weights: Weights, keeps: bool
) -> tuple[Results, list[Tensor]]:
    """Return the results, and the cells, W_h h normalized, and its rstd if ``keeps``."""
    n, (B, H) = len(x), c.shape
    new = functools.partial(torch.empty, dtype=FLOAT, device=CPU)
    outputs, last_h, last_c = new(n, H), new(B, H), new(B, H)
    kept = [new(n, width) for width in (H, 4 * H, 1)] if keeps else []
    _run("lstm_forward", settings, (x, h, c, weights), (outputs, *kept), (last_h, last_c))
    return (outputs, last_h, last_c), kept


def backward(
    settings: Settings,
    given: tuple[Tensor, Tensor, Tensor, Weights],
    outputs: Tensor,
    kept: Sequence[Tensor],
    grads: Results,
    needs: tuple[bool, bool],
) -> Gradients:
    """Return the gradients; those of x and of the weights where they are needed."""
    x, _, c, weights = given
    n, (B, H) = len(x), c.shape
    dh, dc = (grad.clone(memory_format=torch.contiguous_format) for grad in grads[1:])
    sizes = (n, H), (B, H), (B, H), (n, H), (n, H), (n, 4 * H), (n, 1)
    dy, _, _, *made = _read((grads[0], dh, dc, outputs, *kept), sizes)
    dx = x.new_empty(x.shape) if needs[0] else None
    asked: list[Any] = [None] * 3
    if needs[1]:
        asked = [x.new_zeros(weight.shape) for weight in (weights.ih, weights.hh)]
        asked.append(x.new_zeros(SUMS * H, dtype=torch.float64))
    _run("lstm_backward", settings, given, made, (dh, dc), dy, dx, *asked)
    if not needs[1]:
        return dx, dh, dc, *[None] * len(weights)
    dih, dhh, sums = asked
    norm_ih, norm_hh, bias, *of_cell = torch.split(sums.float(), [4 * H] * 3 + [H] * 2)
    totals = dih, dhh, bias, norm_ih, norm_hh, *of_cell
    pairs = zip(totals, weights, strict=True)
    return dx, dh, dc, *(None if weight is None else total for total, weight in pairs)


def _run(
    name: str,
    settings: Settings,
    given: tuple[Tensor, Tensor, Tensor, Weights],
    made: Sequence[Tensor | None],
    last: Sequence[Tensor],
    *grads: Tensor | None,
) -> None:
    """Call a function of C++, which has only the addresses of all tensors."""
    batch_sizes, eps, carry = settings
    x, h, c, weights = given
    (n, input_size), (B, H) = x.shape, c.shape
    starts = _starts(batch_sizes)
    if starts[-1] != n or batch_sizes[:1] != (B,) or max(batch_sizes) > B:
        raise RuntimeError(f"steps of {batch_sizes} rows do not make {n} rows of {B} sequences")
    sizes = (n, input_size), (B, H), (B, H), *shapes(input_size, H)
    tensors = _read((x, h, c, *weights), sizes)
    sequences = _Sequences(
        (len(batch_sizes), B, input_size, library.threads()),
        (ctypes.addressof(starts), *_places(tensors)),
        (H, carry == "normalized"),
        eps,
        (*_places(made), *[None] * (4 - len(made)), *_places((*last, *grads))),
    )
    memory = _scratch(sequences, bool(grads))
    getattr(_library(), name)(ctypes.byref(sequences), memory.data_ptr())


def _read(
    tensors: Sequence[Tensor | None], sizes: Sequence[tuple[int, ...]]
) -> Sequence[Tensor | None]:
    """Return tensors as C++ reads them, if need be as dense copies; refuse other shapes."""
    pairs = list(zip(tensors, sizes, strict=True))
    fits = (t is None or (t.dtype is FLOAT and t.shape == s) for t, s in pairs)
    if is_simple(*tensors) and all(fits):
        return tensors
    pairs = [(None if tensor is None else dense(tensor), size) for tensor, size in pairs]
    for tensor, size in pairs:
        address(tensor, FLOAT, size)  # which raises, unless C++ may read it
    return [tensor for tensor, _ in pairs]


def _places(tensors: Iterable[Tensor | None]) -> list[int | None]:
    return [None if tensor is None else tensor.data_ptr() for tensor in tensors]


def _scratch(sequences: _Sequences, is_backward: bool) -> Tensor:
    """Return as much memory as a pass takes."""
    numbers = _library().lstm_scratch(ctypes.byref(sequences), is_backward)
    return torch.empty(numbers, dtype=FLOAT, device=CPU)


@functools.lru_cache(maxsize=64)
def _starts(batch_sizes: tuple[int, ...]) -> Any:
    """Return the first row of each step, and how many rows there are."""
    return (ctypes.c_int64 * (len(batch_sizes) + 1))(*accumulate(batch_sizes, initial=0))


@functools.cache
def _library() -> ctypes.CDLL:
    found = library.library()
    found.lstm_scratch.restype = ctypes.c_int64
    found.lstm_scratch.argtypes = [ctypes.c_void_p, ctypes.c_bool]
    found.lstm_forward.argtypes = found.lstm_backward.argtypes = [ctypes.c_void_p] * 2
    return found


class _Sequences(ctypes.Structure):
    """`Sequences` of sequence.cpp, which names what is here by its place alone."""

    _fields_ = (
        ("counts", ctypes.c_int64 * 4),
        ("given", ctypes.c_void_p * 11),
        ("of_layer", ctypes.c_int64 * 2),
        ("eps", ctypes.c_float),
        ("made", ctypes.c_void_p * 11),
    )
