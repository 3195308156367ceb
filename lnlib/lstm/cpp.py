"""A time step of the layer-normalized LSTM in C++, for float32 on a CPU; compiled on first use.

Where there is no compiler, `lnlib.lstm.plain` does the same with more, smaller operations.
"""

import ctypes
from pathlib import Path

import torch

from lnlib import compiled
from lnlib.lstm.steps import Backward, Block, Forward, Step

LOADS = ("steps.cpp",)
SOURCE = Path(__file__).with_name(*LOADS)


def is_available() -> bool:
    """Tell whether the steps run here: on Linux, with a g++ that compiles them."""
    return compiled.library(SOURCE) is not None


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
        weight_h, weight_c, bias_c = (tensor.resolve_neg().contiguous() for tensor in buffers[:3])
        dense = buffers._replace(weight_h=weight_h, weight_c=weight_c, bias_c=bias_c)
        self.alive = (dense, grads)
        self.structs = [ctypes.byref(_as_struct(dense))]
        library = compiled.library(SOURCE)
        assert library is not None  # or `lnlib.lstm.backends` would not be here
        self.run = library.forward_step
        if grads is not None:
            self.structs.append(ctypes.byref(_Backward(*(grad.data_ptr() for grad in grads))))
            self.run = library.backward_step

    def __call__(self, block: Block) -> None:
        start, stop, before, after = block
        numbers = (start, stop - start, before, after)
        self.run(*self.structs, *(ctypes.c_int64(number) for number in numbers))


def forward(buffers: Forward) -> Step:
    """Return a step forward over these buffers; see `lnlib.lstm.steps.Steps`."""
    return _Pass(buffers)


def backward(buffers: Forward, grads: Backward) -> Step:
    """Return a step back over these buffers; see `lnlib.lstm.steps.Steps`."""
    return _Pass(buffers, grads)


def _as_struct(buffers: Forward) -> _Forward:
    return _Forward(
        buffers.outputs.shape[-1],
        buffers.carries_normalized,
        torch.get_num_threads(),
        buffers.eps,
        *(tensor.data_ptr() for tensor in (*buffers[:3], *buffers[5:])),
    )
