"""The kernels as the two passes of `lnlib.autograd`: the shortest way from call to launch.

Rows are read where they are if their features are next to each other or expanded, any distance
apart; otherwise they are copied first. Parameters may each be of any float dtype. Results have the
same bits at every run, and for a row whatever batch it is in, as long as rows start at the same
alignment.
"""

import torch
from torch import Tensor

from lnlib.autograd import Passes
from lnlib.closed_form import Gradients, Needs
from lnlib.cpp_kernel import dense
from lnlib.triton_kernel import launch, runtime


def forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """Return y ``(B, H)`` and the statistics ``(3, B)`` of `launch.forward`.

    Raises:
        ImportError: if Triton is missing, or older than 3.6.
        NotImplementedError: if ``x`` is neither on a GPU nor on a CPU.
    """
    runtime.check(x.device)
    weight, bias = (None if p is None else dense(p) for p in (weight, bias))
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    return y, launch.forward(launch.readable(x), weight, bias, eps, y)


def backward(
    dy: Tensor, x: Tensor, weight: Tensor | None, statistics: Tensor, needs: Needs
) -> Gradients:
    """Return each gradient in its dtype, to which it is rounded once."""
    weight = None if weight is None else dense(weight)
    rows = launch.readable(dy), launch.readable(x)
    return launch.backward(*rows, weight, dense(statistics), needs)


PASSES = Passes(forward, backward, lambda dtype, _: launch.statistics_dtype(dtype))
