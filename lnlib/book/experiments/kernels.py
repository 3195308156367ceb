"""What the chapter on kernels runs: Triton on a CPU, and on a GPU a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType

import torch

from lnlib.book.records.kernels import Speed
from lnlib.triton_kernel import runtime

__all__ = ["interpreted", "timed"]


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


def timed(
    name: str,
    layer_norm: Callable[..., torch.Tensor],
    rows: Iterable[int] = (1024, 8192, 65536),
    features: int = 4096,
) -> list[Speed]:
    """Time both passes of ``layer_norm`` in bfloat16, with γ and β, on this machine's GPU.

    The median of `triton.testing.do_bench`, which empties the cache between two runs. The way back
    is timed through autograd. `benchmarks/bench_layer_norm.py` is more careful.
    """
    from triton.testing import do_bench

    speeds = []
    for B in rows:
        shapes = (B, features), (features,), (features,)
        inputs = [torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in shapes]
        x, weight, bias = (t.requires_grad_() for t in inputs)
        forward = partial(layer_norm, x, (features,), weight, bias)
        y, dy = forward(), torch.randn_like(x)
        backward = partial(torch.autograd.grad, y, inputs, dy, retain_graph=True)
        for direction, run in (("forward", forward), ("backward", backward)):
            milliseconds = do_bench(run, return_mode="median")
            speeds.append(Speed(name, direction, x.numel(), 1000 * milliseconds))
    return speeds
