"""Which backend takes the time steps of the layer-normalized LSTM."""

import torch
from torch import Tensor

from lnlib import triton_kernel
from lnlib.lstm import cpp, plain, triton_steps
from lnlib.lstm.steps import Steps

NAMES = ("auto", "torch", "cpp", "triton")


def check(backend: str) -> None:
    """Raise ValueError, naming the backends there are, unless ``backend`` is one of them."""
    if backend not in NAMES:
        names = ", ".join(f'"{name}"' for name in NAMES)
        raise ValueError(f"this LSTM has no backend {backend!r}; choose one of {names}")
    if backend == "triton":
        triton_kernel.check_installed()


def steps_for(backend: str, input: Tensor) -> Steps:
    """Return what takes the steps for ``input``.

    Raises:
        RuntimeError: if "cpp" is asked for, and ``input`` is not float32 on a CPU, or there is no
            g++ that compiles it.
    """
    is_for_cpp = input.device.type == "cpu" and input.dtype == torch.float32
    if backend == "cpp" and not (is_for_cpp and cpp.is_available()):
        raise RuntimeError(
            'backend "cpp" is for float32 on a CPU, on Linux with g++, '
            f"got {input.dtype} on {input.device}"
            f'{"" if cpp.is_available() else ", and no g++ that compiles it"}; use "auto"'
        )
    if backend == "cpp" or (backend == "auto" and is_for_cpp and cpp.is_available()):
        return cpp
    if backend == "triton" or (
        backend == "auto" and input.device.type == "cuda" and triton_kernel.runs_on_gpu()
    ):
        return triton_steps
    return plain
