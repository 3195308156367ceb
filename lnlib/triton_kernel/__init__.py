"""Layer norm in Triton: any number of features, forward and backward, on any GPU, or interpreted.

To be read in this order: `kernels` is what runs on the GPU, `tiles` how the rows are cut, `launch`
who calls which kernel, `runtime` where Triton comes from, `passes` and `op` how the autograd and
the compiler of PyTorch get to know them.
"""

from lnlib.triton_kernel.op import layer_norm as in_graph
from lnlib.triton_kernel.passes import PASSES
from lnlib.triton_kernel.runtime import check_installed, runs_on_gpu, why_not_on_gpu

__all__ = ["PASSES", "check_installed", "in_graph", "runs_on_gpu", "why_not_on_gpu"]
