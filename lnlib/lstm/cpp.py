"""The layer-normalized LSTM in C++, for float32 on a CPU, a call a pass.

Where lnlib was installed without its C++, `lnlib.lstm.stepwise` does the same
with more, smaller operations.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from lnlib.cpp_kernel import address, dense, library
from lnlib.lstm.passes import Gradients, Results, Settings
from lnlib.lstm.weights import Weights, shapes
from lnlib.modes import is_simple

SUMS = 14  # of gates.h


def why_not(dtype: torch.dtype, device: str) -> str | None:
    """Return why there are no passes for a ``dtype`` on a type of device; None if there are."""
    if dtype != torch.float32 or device != "cpu":
        return "the C++ of the LSTM is for float32 on a CPU"
    return library.why_not()


def forward(
    settings: Settings, x: Tensor, h: Tensor, c: Tensor, weights: Weights, keeps: bool
) -> tuple[Results, list[Tensor]]:
    """Return the results, and the cells, W_h h normalized, and its rstd if ``keeps``."""
    n, (B, H) = len(x), c.shape
    outputs, last_h, last_c = x.new_empty(n, H), x.new_empty(B, H), x.new_empty(B, H)
    kept = [x.new_empty(n, width) for width in (H, 4 * H, 1)] if keeps else []
    run = _Run(settings, (x, h, c, weights), (outputs, *kept))
    lasts = last_h.data_ptr(), last_c.data_ptr()
    _library().lstm_forward(run.sequences, *lasts, run.scratch(is_backward=False))
    return (outputs, last_h, last_c), kept


def backward(
    settings: Settings,
    given: tuple[Tensor, Tensor, Tensor, Weights],
    outputs: Tensor,
    kept: Sequence[Tensor],
    grads: Results,
    needs: tuple[bool, bool],
) -> Gradients:
    """Return the gradients; see `lnlib.lstm.passes.Passes`."""
    run = _Run(settings, given, (outputs, *kept))
    x, _, c, weights = given
    n, (B, H) = len(x), c.shape
    dy = run.address(grads[0], n, H)
    dh, dc = (grad.clone(memory_format=torch.contiguous_format) for grad in grads[1:])
    dx = x.new_empty(x.shape) if needs[0] else None
    asked: list[Tensor] = []
    if needs[1]:
        asked = [x.new_zeros(weight.shape) for weight in (weights.ih, weights.hh)]
        asked.append(x.new_zeros(SUMS * H, dtype=torch.float64))
    states = run.address(dh, B, H), run.address(dc, B, H)
    places = (
        dy,
        *states,
        None if dx is None else dx.data_ptr(),
        *(tensor.data_ptr() for tensor in asked),
    )
    gradients = ctypes.byref(_Gradients(*places))
    _library().lstm_backward(run.sequences, gradients, run.scratch(is_backward=True))
    if not asked:
        return dx, dh, dc, *[None] * len(weights)
    *of_matrices, sums = asked
    wide, narrow = [4 * H] * 3, [H] * 2
    norm_ih, norm_hh, bias, *of_cell = torch.split(sums.float(), wide + narrow)
    totals = *of_matrices, bias, norm_ih, norm_hh, *of_cell
    pairs = zip(totals, weights, strict=True)
    return dx, dh, dc, *(None if weight is None else total for total, weight in pairs)


class _Run:
    """Sequences whose tensors stay alive as long as it does: C++ has only their addresses."""

    def __init__(
        self,
        settings: Settings,
        given: tuple[Tensor, Tensor, Tensor, Weights],
        made: Sequence[Tensor],
    ) -> None:
        batch_sizes, eps, carry, _ = settings
        x, h, c, weights = given
        (n, input_size), (B, H) = x.shape, c.shape
        starts = list(accumulate(batch_sizes, initial=0))
        if starts[-1] != n or batch_sizes[:1] != (B,) or max(batch_sizes) > B:
            raise RuntimeError(f"steps of {batch_sizes} rows do not make {n} rows of {B} sequences")
        self._alive: list[Tensor] = []
        of_weights = [
            None if weight is None else self.address(weight, *shape)
            for weight, shape in zip(weights, shapes(input_size, H), strict=True)
        ]
        of_given = self.address(x, n, input_size), self.address(h, B, H), self.address(c, B, H)
        of_made: list[int | None] = [None] * 4
        for number, (tensor, width) in enumerate(zip(made, (H, H, 4 * H, 1), strict=False)):
            of_made[number] = self.address(tensor, n, width)
        sizes = len(batch_sizes), B, input_size, library.threads()
        layer = _Layer(H, carry == "normalized", eps, *of_weights[2:])
        rows = (ctypes.c_int64 * len(starts))(*starts)
        struct = _Sequences(*sizes, rows, *of_given, *of_weights[:2], *of_made, layer)
        self.sequences = ctypes.byref(struct)

    def address(self, tensor: Tensor, *shape: int) -> int | None:
        """Return where the numbers of an ordinary tensor are, or those of a dense copy."""
        self._alive.append(tensor if is_simple(tensor) else dense(tensor))
        return address(self._alive[-1], torch.float32, shape)

    def scratch(self, *, is_backward: bool) -> int:
        """Return where a pass finds memory of its own."""
        numbers = _library().lstm_scratch(self.sequences, is_backward)
        memory = torch.empty(numbers, dtype=torch.float32, device="cpu")
        self._alive.append(memory)
        return memory.data_ptr()


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
