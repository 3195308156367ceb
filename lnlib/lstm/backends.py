"""Which backend goes through the sequences of the layer-normalized LSTM."""

import torch
from torch import Tensor

from lnlib import triton_kernel
from lnlib.cpp_kernel import library
from lnlib.lstm import cpp, plain, triton_steps
from lnlib.lstm.passes import Passes
from lnlib.lstm.stepwise import Stepwise

NAMES = ("auto", "reference", "cpp", "triton")


def check(backend: str) -> None:
    """Raise ValueError, naming the backends there are, unless ``backend`` is one of them."""
    if backend not in NAMES:
        names = ", ".join(f'"{name}"' for name in NAMES)
        raise ValueError(f"this LSTM has no backend {backend!r}; choose one of {names}")
    if backend == "triton":
        triton_kernel.check_installed()


def passes_for(backend: str, input: Tensor) -> Passes:
    """Return what makes the passes for ``input``.

    Raises:
        RuntimeError: if "cpp" is asked for, and ``input`` is not float32 on a CPU, or
            lnlib was installed without its C++.
    """
    name = best(input.dtype, input.device.type) if backend == "auto" else backend
    if name == "cpp":
        library.check(input, cpp.why_not(input.dtype, input.device.type))
        return cpp
    return Stepwise(triton_steps if name == "triton" else plain)


def best(dtype: torch.dtype, device: str) -> str:
    """Return what "auto" means for a ``dtype`` on a type of device."""
    if device == "cuda" and triton_kernel.runs_on_gpu():
        return "triton"
    return "reference" if cpp.why_not(dtype, device) else "cpp"
