"""A time step of the layer-normalized LSTM in C++, for float32 on a CPU; compiled on first use.

Where there is no compiler, `lnlib.lstm.plain` does the same with more, smaller operations.
"""

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from lnlib.cpp_kernel import compile
from lnlib.cpp_kernel.addresses import address, dense
from lnlib.lstm.steps import Backward, Block, Forward, Step

LOADS = ("steps.cpp",)
SOURCE = Path(__file__).with_name(*LOADS)


def why_not(dtype: torch.dtype, device: str) -> str | None:
    """Return why there is no step for a ``dtype`` on a type of device; None if there is."""
    if dtype != torch.float32 or device != "cpu":
        return "the C++ of the LSTM is for float32 on a CPU"
    return compile.why_not(SOURCE)


class _Forward(ctypes.Structure):
    """`Forward` of steps.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("size", "carries_normalized", "threads")),
        ("eps", ctypes.c_float),
        *((name, ctypes.c_void_p) for name in ("weight_h", "weight_c", "bias_c")),
        *((name, ctypes.c_void_p) for name in Forward._fields[5:]),
    )


class _Backward(ctypes.Structure):
    """`Backward` of steps.cpp."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in Backward._fields)


class _Pass:
    """A step over buffers that stay alive as long as it does: C++ has only their addresses."""

    def __init__(self, buffers: Forward, grads: Backward | None = None) -> None:
        weight_h, weight_c, bias_c = (dense(tensor) for tensor in buffers[:3])
        buffers = buffers._replace(weight_h=weight_h, weight_c=weight_c, bias_c=bias_c)
        self.alive = (buffers, grads)
        self.n, self.cells = len(buffers.outputs), len(buffers.carry)
        self.rows = self.n if grads is None else len(grads.dh)
        self.structs = [ctypes.byref(_forward_struct(buffers))]
        self.run = _library().forward_step
        if grads is not None:
            self.structs.append(ctypes.byref(_backward_struct(buffers, grads)))
            self.run = _library().backward_step

    def __call__(self, block: Block) -> None:
        start, stop, before, after = block
        rows = stop - start
        if not (
            0 <= start <= stop <= self.n
            and rows <= self.rows
            and min(before, after) >= 0
            and max(before, after) + rows <= self.cells
        ):
            raise RuntimeError(f"a step of {block} leaves its buffers of {self.n} rows")
        self.run(*self.structs, start, rows, before, after)


def forward(buffers: Forward) -> Step:
    """Return a step forward over these buffers; see `lnlib.lstm.steps.Steps`."""
    return _Pass(buffers)


def backward(buffers: Forward, grads: Backward) -> Step:
    """Return a step back over these buffers; see `lnlib.lstm.steps.Steps`."""
    return _Pass(buffers, grads)


@functools.cache
def _library() -> ctypes.CDLL:
    found = compile.library(SOURCE)
    assert found is not None  # or `lnlib.lstm.backends` would not be here
    blocks = [ctypes.c_int64] * len(Block._fields)
    found.forward_step.argtypes = [ctypes.c_void_p, *blocks]
    found.backward_step.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *blocks]
    return found


def _forward_struct(buffers: Forward) -> _Forward:
    n, H = buffers.outputs.shape
    cells = len(buffers.carry)
    weights = (4 * H,), (H,), (H,)
    made = (n, H), (cells, H), (n, 4 * H), (n, 4 * H), (n, H), (n, H), (n, 1), (n, 1)
    addresses = _addresses((*buffers[:3], *buffers[5:]), (*weights, *made))
    return _Forward(H, buffers.carries_normalized, compile.threads(), buffers.eps, *addresses)


def _backward_struct(buffers: Forward, grads: Backward) -> _Backward:
    n, H = buffers.outputs.shape
    B = len(grads.dh)
    shapes = (n, H), (B, H), (B, H), (n, 4 * H), (n, 4 * H), (n, H)
    return _Backward(*_addresses(grads, shapes))


def _addresses(tensors: Sequence[Tensor], shapes: Sequence[tuple[int, ...]]) -> list[int]:
    pairs = zip(tensors, shapes, strict=True)
    return [address(tensor, torch.float32, shape) for tensor, shape in pairs]
