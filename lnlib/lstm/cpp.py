"""A time step of the layer-normalized LSTM in C++, for float32 on a CPU; compiled on first use.

Where there is no compiler, `lnlib.lstm.plain` does the same with more, smaller operations.
"""

import ctypes
import functools
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch

from lnlib.lstm.steps import Backward, Block, Forward, Step

SOURCE = Path(__file__).with_name("steps.cpp")
# Vector code for this machine. The last two let sqrt and rounding become instructions; they change
# no result.
FLAGS = ["-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math"]


@functools.cache
def is_available() -> bool:
    """Tell whether the steps run here: on Linux, with a g++ that compiles them."""
    if sys.platform != "linux" or shutil.which("g++") is None:
        return False
    try:
        _library()
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        warnings.warn(
            "lnlib.lstm runs without its C++ steps, so slower; mend g++, or ask for "
            f'backend="torch". It said: {reason}',
            stacklevel=2,
        )
        return False
    return True


@functools.cache
def _library() -> ctypes.CDLL:
    # Compiled anew in each process: it takes a third of a second, and no file can be stale.
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "steps.so"
        command = ["g++", *FLAGS, "-fopenmp", "-fPIC", "-shared", str(SOURCE), "-o", str(library)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        loaded = ctypes.CDLL(str(library))
    loaded.forward_step.restype = loaded.backward_step.restype = None
    return loaded


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
        self.run = _library().forward_step
        if grads is not None:
            self.structs.append(ctypes.byref(_Backward(*(grad.data_ptr() for grad in grads))))
            self.run = _library().backward_step

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
