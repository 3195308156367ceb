"""A time step of the layer-normalized LSTM in Triton: on a GPU compiled, on a CPU interpreted.

A step is two launches, forward and backward alike: PyTorch's product with W_h, and one kernel of
`lnlib.lstm.triton_kernels` for everything else. Neither allocates anything or waits for the GPU, so
both passes can be captured in a CUDA graph. The number of steps and of sequences does not enter the
kernels: each is compiled once for H, the dtype, which cell is carried and how memory is aligned.

A row is computed by one program, in an order that no other row changes: for the same W_h h it has
the same bits at every run, and in any batch. Of more than `MOST` features, `lnlib.lstm.plain` takes
the steps.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from lnlib.lstm import plain
from lnlib.lstm.steps import Backward, Block, Forward, Step
from lnlib.triton_kernel import launch, runtime, tiles

KERNELS = "lnlib.lstm.triton_kernels"
# The most features that a program holds of float32, or half as many of float64. Twice as many
# spill from the registers to memory, as the compiler reports.
MOST = 4096
EACH = 128  # float32 features to a warp: four to each thread


def forward(buffers: Forward) -> Step:
    """Return a step forward over these buffers; see `lnlib.lstm.steps.Steps`."""
    fixed = _fixed(buffers)
    if fixed is None:
        return plain.forward(buffers)
    operands = *(tensor.contiguous() for tensor in buffers[:3]), *buffers[5:]
    eps = launch.split(buffers.eps)
    kernel = _kernels(buffers.outputs.device).lstm_fwd_kernel

    def step(block: Block) -> None:
        start, stop, before, after = block
        _run(kernel, stop - start, operands, start, before, after, *eps, fixed=fixed)

    return step


def backward(buffers: Forward, grads: Backward) -> Step:
    """Return a step back over these buffers; see `lnlib.lstm.steps.Steps`."""
    fixed = _fixed(buffers)
    if fixed is None:
        return plain.backward(buffers, grads)
    operands = *(tensor.contiguous() for tensor in buffers[:2]), *buffers[6:], *grads
    kernel = _kernels(buffers.outputs.device).lstm_bwd_kernel

    def step(block: Block) -> None:
        start, stop, before, _ = block
        _run(kernel, stop - start, operands, start, before, fixed=fixed)

    return step


def _fixed(buffers: Forward) -> dict[str, Any] | None:
    """Return what a kernel is compiled for, or None if no program can hold a row."""
    H = buffers.outputs.shape[-1]
    block = 1 << (H - 1).bit_length()
    size = block * buffers.rstd_a.itemsize // 4
    if size > MOST:
        return None
    return {
        "H": H,
        "CARRIES_NORMALIZED": buffers.carries_normalized,
        "BLOCK_H": block,
        "num_warps": min(16, max(1, size // EACH)),
        "enable_fp_fusion": block > tiles.LONE,
    }


def _run(
    kernel: Any, rows: int, buffers: Sequence[Tensor], *numbers: float, fixed: dict[str, Any]
) -> None:
    with launch.on(buffers[0].device):
        kernel[(rows,)](*buffers, *numbers, **fixed)


def _kernels(device: torch.device) -> ModuleType:
    """Return the kernels, compiled or interpreted as suits ``device``.

    Raises:
        NotImplementedError: if ``device`` is neither a GPU nor a CPU.
        ImportError: if Triton is missing, or what its interpreter needs.
    """
    runtime.check(device)
    return runtime.load(KERNELS, device)
