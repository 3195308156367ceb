"""One direction of one layer over packed sequences, by a kernel or by the loop of the formula."""

from typing import Any

import torch
from torch import Tensor

from lnlib import triton_kernel
from lnlib.cpp_kernel import library
from lnlib.lstm import checks, cpp, formula, function, norm, triton_steps
from lnlib.lstm.formula import Weights
from lnlib.lstm.function import Results, Settings
from lnlib.modes import mode_of
from lnlib.triton_kernel import runtime

BACKENDS = ("auto", "reference", "cpp", "triton")


def check(backend: str) -> None:
    """Raise ValueError, naming the backends there are, unless ``backend`` is one of them."""
    if backend not in BACKENDS:
        names = ", ".join(f'"{name}"' for name in BACKENDS)
        raise ValueError(f"this LSTM has no backend {backend!r}; choose one of {names}")
    if backend == "triton":
        triton_kernel.check_installed()


def best(dtype: torch.dtype, device: str) -> str:
    """Return what "auto" means for a ``dtype`` on a type of device."""
    if device == "cuda" and triton_kernel.runs_on_gpu():
        return "triton"
    return "reference" if cpp.why_not(dtype, device) else "cpp"


def kernel_for(backend: str, input: Tensor, hidden_size: int) -> Any:
    """Return the passes for `lnlib.lstm.function`, or None where the loop is to run.

    Raises:
        RuntimeError: if "cpp" is asked for, and ``input`` is not float32 on a CPU, or
            lnlib was installed without its C++.
        NotImplementedError, ImportError: if "triton" is, and cannot be had.
    """
    name = best(input.dtype, input.device.type) if backend == "auto" else backend
    if name == "cpp":
        library.check(input, cpp.why_not(input.dtype, input.device.type))
        return cpp
    if name == "triton":
        runtime.check(input.device)
        return triton_steps if triton_steps.takes(input.dtype, hidden_size) else None
    return None


def run(
    x: Tensor, h: Tensor, c: Tensor, weights: Weights, settings: Settings, backend: str
) -> Results:
    """Do what `lnlib.lstm.formula.lstm` does.

    Autocast narrows all to its dtype first, as it does for PyTorch's LSTM on a GPU; float64 stays.
    """
    device = x.device.type
    if checks.is_autocast(device):
        dtype = torch.get_autocast_dtype(device)
        x, h, c = (_narrowed(tensor, dtype) for tensor in (x, h, c))
        narrowed: list[Any] = [None if w is None else _narrowed(w, dtype) for w in weights]
        with torch.autocast(device, enabled=False):
            return run(x, h, c, Weights(*narrowed), settings, backend)
    batch_sizes, eps, carry = settings
    normalize = formula.normalizing(eps)
    if mode_of(x, h, c, *weights) == "eager":
        kernel = kernel_for(backend, x, h.shape[-1])
        if kernel is not None:
            return function.lstm(kernel, settings, x, h, c, *weights)
        normalize = norm.normalizing(eps)
    return formula.lstm(x, h, c, weights, batch_sizes, normalize, carry)


def _narrowed(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if checks.is_narrowed(tensor) else tensor
