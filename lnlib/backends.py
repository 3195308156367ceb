"""What "auto" means on this machine, and why it is not something faster."""

from typing import NamedTuple

import torch

from lnlib import cpp_kernel
from lnlib.dispatch import best_backend
from lnlib.lstm import cpp
from lnlib.lstm import function as of_lstm
from lnlib.refusals import FLOAT_DTYPES
from lnlib.triton_kernel import why_not_on_gpu


class Choice(NamedTuple):
    """What runs for ordinary tensors of a ``dtype`` on a type of ``device``.

    Attributes:
        device: "cpu", "cuda" or "mps".
        dtype: of the input.
        layer_norm: what "auto" is for `lnlib.layer_norm` and `lnlib.LayerNorm`.
        lstm: what it is for `lnlib.LayerNormLSTM` and its cell.
        why: why it is nothing faster, and what to do; empty if it is the fastest there is.
    """

    device: str
    dtype: torch.dtype
    layer_norm: str
    lstm: str
    why: str


class Choices(tuple[Choice, ...]):
    """Every `Choice` of this machine; printed, a table."""

    def __repr__(self) -> str:
        """Return the table, a line for each choice."""
        head = ("device", "dtype", "layer_norm", "LSTM", "why nothing faster")
        lines = [head, *([str(field).removeprefix("torch.") for field in each] for each in self)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def backends() -> Choices:
    """Return what ``backend="auto"`` takes here, for each device and dtype, and why.

    With lnlib's C++ and without a GPU, ``print(backends())`` says::

        device  dtype     layer_norm  LSTM       why nothing faster
        cpu     float16   cpp         reference  the C++ of the LSTM is for float32 on a CPU
        cpu     bfloat16  cpp         reference  the C++ of the LSTM is for float32 on a CPU
        cpu     float32   cpp         cpp
        cpu     float64   cpp         reference  the C++ of the LSTM is for float32 on a CPU
    """
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    devices = ["cpu", *(device for device, is_here in found.items() if is_here)]
    return Choices(
        Choice(
            device,
            dtype,
            best_backend(dtype, device, "eager"),
            of_lstm.best_backend(dtype, device),
            _why(dtype, device),
        )
        for device in devices
        for dtype in FLOAT_DTYPES
    )


def _why(dtype: torch.dtype, device: str) -> str:
    if device == "cuda":
        return why_not_on_gpu() or ""
    reasons = {cpp_kernel.why_not(dtype, device), cpp.why_not(dtype, device)} - {None}
    return "; ".join(sorted(map(str, reasons)))
