"""The kernels as the two passes of `lnlib.closed_form`: the shortest way from call to launch.

Rows are read where they are if their features are next to each other or expanded, any distance
apart; otherwise they are copied first. Parameters may each be of any float dtype. Results have the
same bits at every run, and for a row whatever batch it is in, as long as rows start at the same
alignment.
"""

import torch
from torch import Tensor

from lnlib.closed_form import Dtypes, Gradients, Needs, Passes
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
    dy: Tensor,
    x: Tensor | None,
    weight: Tensor | None,
    statistics: Tensor | None,
    needs: Needs,
    dtypes: Dtypes,
) -> Gradients:
    """Return each gradient in its dtype, to which it is rounded once."""
    dy = launch.readable(dy)
    if x is None:  # for the gradient of bias alone its shape is looked at
        x = dy
    if statistics is None:  # and the dtype of these
        statistics = dy.new_empty((3, 0), dtype=launch.statistics_dtype(dtypes[0]))
    weight = None if weight is None else dense(weight)
    return launch.backward(dy, launch.readable(x), dense(statistics), weight, needs, dtypes)


PASSES = Passes(forward, backward, lambda dtype, _: launch.statistics_dtype(dtype))
