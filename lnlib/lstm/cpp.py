"""The layer-normalized LSTM in C++, for float32 on a CPU, a call a pass; see `lnlib.lstm.function`.

Where lnlib was installed without its C++, the loop of `lnlib.lstm.formula` does the same with
more, smaller operations.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from lnlib.cpp_kernel import address, dense, library
from lnlib.lstm.formula import Weights, shapes
from lnlib.lstm.function import Gradients, Results, Settings
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
    run = _Run(settings, x, h, c, weights)
    run.add(outputs, *kept)
    run.call(_library().lstm_forward, False, last_h.data_ptr(), last_c.data_ptr())
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
    run = _Run(settings, *given)
    run.add(*run.read((outputs, *kept), ((n, H), (n, H), (n, 4 * H), (n, 1))))
    [dy] = run.read(grads[:1], ((n, H),))
    dh, dc = (grad.clone(memory_format=torch.contiguous_format) for grad in grads[1:])
    dx = x.new_empty(x.shape) if needs[0] else None
    asked: list[Tensor] = []
    if needs[1]:
        asked = [x.new_zeros(weight.shape) for weight in (weights.ih, weights.hh)]
        asked.append(x.new_zeros(SUMS * H, dtype=torch.float64))
    run.read((dh, dc), ((B, H),) * 2)
    places = (None if each is None else each.data_ptr() for each in (dy, dh, dc, dx, *asked))
    run.call(_library().lstm_backward, True, ctypes.byref(_Gradients(*places)))
    if not asked:
        return dx, dh, dc, *[None] * len(weights)
    dih, dhh, sums = asked
    norm_ih, norm_hh, bias, *of_cell = torch.split(sums.float(), [4 * H] * 3 + [H] * 2)
    totals = dih, dhh, bias, norm_ih, norm_hh, *of_cell
    pairs = zip(totals, weights, strict=True)
    return dx, dh, dc, *(None if weight is None else total for total, weight in pairs)


class _Run:
    """Sequences whose tensors stay alive as long as it does: C++ has only their addresses."""

    def __init__(
        self, settings: Settings, x: Tensor, h: Tensor, c: Tensor, weights: Weights
    ) -> None:
        batch_sizes, eps, carry = settings
        (n, input_size), (B, H) = x.shape, c.shape
        starts = _starts(batch_sizes)
        if starts[-1] != n or batch_sizes[:1] != (B,) or max(batch_sizes) > B:
            raise RuntimeError(f"steps of {batch_sizes} rows do not make {n} rows of {B} sequences")
        self._alive: list[Any] = [starts]
        sizes = ((n, input_size), (B, H), (B, H), *shapes(input_size, H))
        of_given = [_place(each) for each in self.read((x, h, c, *weights), sizes)]
        self._sequences = _Sequences(
            *(len(batch_sizes), B, input_size, library.threads(), starts, *of_given[:5]),
            layer=_Layer(H, carry == "normalized", eps, *of_given[5:]),
        )

    def read(
        self, tensors: Sequence[Tensor | None], sizes: Sequence[tuple[int, ...]]
    ) -> Sequence[Tensor | None]:
        """Return tensors as C++ reads them, if need be as dense copies; refuse other shapes."""
        if not (is_simple(*tensors) and all(map(_fits, tensors, sizes))):
            tensors = [None if tensor is None else dense(tensor) for tensor in tensors]
            for tensor, size in zip(tensors, sizes, strict=True):
                address(tensor, FLOAT, size)  # which raises, unless C++ may read it
        self._alive += tensors
        return tensors

    def add(self, *made: Tensor | None) -> None:
        """Say where the outputs are, and what is kept for the way back."""
        self._alive += made
        for name, tensor in zip(("outputs", "cells", "a_hat", "rstd_a"), made, strict=False):
            setattr(self._sequences, name, _place(tensor))

    def call(self, function: Any, is_backward: bool, *operands: Any) -> None:
        """Call a function of C++, with scratch memory."""
        memory = self.scratch(is_backward)
        function(ctypes.byref(self._sequences), *operands, memory.data_ptr())

    def scratch(self, is_backward: bool) -> Tensor:
        """Return as much memory as a pass takes."""
        numbers = _library().lstm_scratch(ctypes.byref(self._sequences), is_backward)
        return torch.empty(numbers, dtype=FLOAT, device=CPU)


def _fits(tensor: Tensor | None, size: tuple[int, ...]) -> bool:
    return tensor is None or (tensor.dtype is FLOAT and tensor.shape == size)


def _place(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


@functools.lru_cache(maxsize=64)
def _starts(batch_sizes: tuple[int, ...]) -> Any:
    """Return the first row of each step, and how many rows there are."""
    return (ctypes.c_int64 * (len(batch_sizes) + 1))(*accumulate(batch_sizes, initial=0))


@functools.cache
def _library() -> ctypes.CDLL:
    found, pointer = library.library(), ctypes.c_void_p
    found.lstm_scratch.argtypes = [pointer, ctypes.c_int64]
    found.lstm_scratch.restype = ctypes.c_int64
    found.lstm_forward.argtypes, found.lstm_backward.argtypes = [pointer] * 4, [pointer] * 3
    return found


class _Layer(ctypes.Structure):
    """`Layer` of gates.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("size", "carries_normalized")),
        ("eps", ctypes.c_float),
        *((name, ctypes.c_void_p) for name in Weights._fields[2:]),
    )


class _Sequences(ctypes.Structure):
    """`Sequences` of sequence.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("steps", "batch", "input_size", "threads")),
        ("starts", ctypes.POINTER(ctypes.c_int64)),
        *((name, ctypes.c_void_p) for name in ("x", "h", "c", "weight_ih", "weight_hh")),
        *((name, ctypes.c_void_p) for name in ("outputs", "cells", "a_hat", "rstd_a")),
        ("layer", _Layer),
    )


class _Gradients(ctypes.Structure):
    """`Gradients` of sequence.cpp."""

    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in ("dy", "dh", "dc", "dx", "dweight_ih", "dweight_hh", "sums")
    )
