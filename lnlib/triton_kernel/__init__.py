"""Layer norm in Triton: any number of features, forward and backward, on any GPU, or interpreted.

To be read in this order: `kernels` is what runs on the GPU, `tiles` how the rows are cut, `launch`
who calls which kernel, and `runtime` where Triton comes from.
"""

from lnlib.autograd import Passes
from lnlib.triton_kernel.launch import (
    backward,
    backward_of_simple,
    forward,
    forward_of_simple,
    statistics_dtype,
)
from lnlib.triton_kernel.runtime import check_installed, runs_on_gpu, why_not_on_gpu

__all__ = [
    "PASSES",
    "backward",
    "check_installed",
    "forward",
    "forward_of_simple",
    "runs_on_gpu",
    "statistics_dtype",
    "why_not_on_gpu",
]

PASSES = Passes(forward, backward, lambda dtype, _: statistics_dtype(dtype), backward_of_simple)
