"""Layer norm in Triton: any number of features, forward and backward, on any GPU, or interpreted.

To be read in this order: `kernels` is what runs on the GPU, `tiles` how the rows are cut, `launch`
who calls which kernel, `runtime` where Triton comes from, `passes` how the autograd of PyTorch gets
to know them, and `lnlib.in_graph` how its compiler does.
"""

from lnlib.triton_kernel.passes import PASSES
from lnlib.triton_kernel.runtime import check_installed, runs_on_gpu, why_not_on_gpu

__all__ = ["PASSES", "check_installed", "runs_on_gpu", "why_not_on_gpu"]
