"""What the chapter on kernels runs: Triton on a CPU."""

from __future__ import annotations

from types import ModuleType

import torch

from lnlib.triton_kernel import runtime

__all__ = ["interpreted"]


def interpreted() -> tuple[ModuleType, ModuleType]:
    """Return ``triton`` and ``triton.language`` for kernels that run on a CPU, without a compiler.

    What ``triton.jit`` of this one decorates, Triton's interpreter runs in NumPy: one program after
    another, on the CPU tensors themselves. Nothing else in this process is changed.

    Raises: ImportError if Triton is missing or too old; the message says what to do.
    """
    cpu = torch.device("cpu")
    runtime.check(cpu)
    triton = runtime.triton_for(cpu)
    return triton, triton.language
