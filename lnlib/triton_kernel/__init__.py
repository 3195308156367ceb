"""Layer norm in Triton: any number of features, forward and backward, on any GPU, or interpreted.

To be read in this order: `kernels` is what runs on the GPU, `tiles` how the rows are cut, `launch`
who calls which kernel, and `runtime` where Triton comes from.
"""

from torch import Tensor

from lnlib.autograd import Passes
from lnlib.closed_form import Gradients, Needs
from lnlib.triton_kernel.launch import backward, forward, statistics_dtype
from lnlib.triton_kernel.runtime import check_installed, runs_on_gpu, why_not_on_gpu

__all__ = [
    "PASSES",
    "backward",
    "check_installed",
    "forward",
    "runs_on_gpu",
    "statistics_dtype",
    "why_not_on_gpu",
]


def _of_simple(
    dy: Tensor, x: Tensor, weight: Tensor | None, statistics: Tensor, needs: Needs
) -> Gradients:
    """Do as `backward` for dense tensors, whatever dimensions they have."""
    B = statistics.shape[1]
    if x.ndim != 2 or len(x) != B:
        dy, x = dy.view(B, -1), x.view(B, -1)
        weight = None if weight is None else weight.view(-1)
    return backward(dy, x, weight, statistics, needs)


PASSES = Passes(forward, backward, lambda dtype, _: statistics_dtype(dtype), _of_simple)
