"""The layer norm that Triton's tutorial made known, written anew from its description, to compare.

One row a program. Forward: the mean, then the variance around it, then y, each in a sweep of its
own over the row. Backward: a program computes dx of its row, and adds its share of dweight and
dbias to one of 64 to 256 buffers, which it guards with a spin lock; a second kernel adds up the
buffers. As published, the buffers have the dtype of x, the order in which programs get the lock
decides the last bits, offsets are 32 bits, and a row must fit into 64 KB.

The barrier before the lock is given back is the one later versions of the tutorial have. Without
it other threads of the program may still be writing when the next program reads.

Source: https://triton-lang.org/main/getting-started/tutorials/05-layer-norm.html
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST_BYTES = 65536  # of a row


@triton.jit
def _forward(x_ptr, y_ptr, weight_ptr, bias_ptr, mean_ptr, rstd_ptr, H, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * H
    y_ptr += row * H
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, H, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + cols, mask=cols < H, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / H
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, H, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < H, other=0.0).to(tl.float32)
        x = tl.where(cols < H, x - mean, 0.0)
        total += x * x
    rstd = 1 / tl.sqrt(tl.sum(total, axis=0) / H + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, H, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < H
        weight = tl.load(weight_ptr + cols, mask=mask)
        bias = tl.load(bias_ptr + cols, mask=mask)
        x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + cols, (x - mean) * rstd * weight + bias, mask=mask)


@triton.jit
def _backward(
    dx_ptr,
    dy_ptr,
    dweight_ptr,  # (GROUPS, H), the shared buffers
    dbias_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    lock_ptr,  # (2 * GROUPS,): the locks, then whether a buffer holds something yet
    H,
    GROUPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < H
    x = tl.load(x_ptr + row * H + cols, mask=mask, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * H + cols, mask=mask, other=0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask).to(tl.float32)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)

    x_hat = tl.where(mask, (x - mean) * rstd, 0.0)
    g = tl.where(mask, weight * dy, 0.0)
    along_x_hat = tl.sum(x_hat * g, axis=0) / H
    g_mean = tl.sum(g, axis=0) / H
    tl.store(dx_ptr + row * H + cols, (g - (x_hat * along_x_hat + g_mean)) * rstd, mask=mask)

    dweight = (dy * x_hat).to(weight_ptr.dtype.element_ty)
    dbias = dy.to(weight_ptr.dtype.element_ty)
    group = row % GROUPS
    lock_ptr += group
    used_ptr = lock_ptr + GROUPS
    dweight_ptr += group * H + cols
    dbias_ptr += group * H + cols
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    if tl.load(used_ptr) == 0:
        tl.atomic_xchg(used_ptr, 1)
    else:
        # A sum in the dtype of x. Taken in float32 and rounded it is the same, and the interpreter
        # cannot add bfloat16 in any other way.
        more = tl.load(dweight_ptr, mask=mask).to(tl.float32)
        dweight = (dweight.to(tl.float32) + more).to(dweight.dtype)
        more = tl.load(dbias_ptr, mask=mask).to(tl.float32)
        dbias = (dbias.to(tl.float32) + more).to(dbias.dtype)
    tl.store(dweight_ptr, dweight, mask=mask)
    tl.store(dbias_ptr, dbias, mask=mask)
    tl.debug_barrier()  # every thread has written before one of them opens the lock
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def _sum_buffers(
    dweight_buffer_ptr, dbias_buffer_ptr, dweight_ptr, dbias_ptr, G, H,
    BLOCK_G: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dweight = tl.zeros((BLOCK_G, BLOCK), dtype=tl.float32)
    dbias = tl.zeros((BLOCK_G, BLOCK), dtype=tl.float32)
    for start in range(0, G, BLOCK_G):
        groups = start + tl.arange(0, BLOCK_G)
        mask = (groups[:, None] < G) & (cols[None, :] < H)
        at = groups[:, None] * H + cols[None, :]
        dweight += tl.load(dweight_buffer_ptr + at, mask=mask, other=0.0).to(tl.float32)
        dbias += tl.load(dbias_buffer_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(dweight_ptr + cols, tl.sum(dweight, axis=0), mask=cols < H)
    tl.store(dbias_ptr + cols, tl.sum(dbias, axis=0), mask=cols < H)


def groups_of(H: int) -> int:
    """Return how many buffers share the rows: fewer for long rows, as published."""
    published = ((1024, 256), (4096, 128), (8192, 96))
    return next((groups for longest, groups in published if longest >= H), 64)


class Tutorial(torch.autograd.Function):
    """Layer norm of the rows of a contiguous ``x`` (B, H), with weight and bias (H,)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        """Return y (B, H); raise RuntimeError if a row does not fit."""
        B, H = x.shape
        block = min(MOST_BYTES // x.element_size(), triton.next_power_of_2(H))
        if block < H:
            raise RuntimeError(f"rows of {H} features take more than 64 KB")
        y = torch.empty_like(x)
        mean, rstd = (torch.empty(B, dtype=torch.float32, device=x.device) for _ in range(2))
        ctx.block, ctx.warps = block, min(max(block // 256, 1), 8)
        operands = x, y, weight, bias, mean, rstd, H, eps
        _forward[(B,)](*operands, BLOCK=block, num_warps=ctx.warps)
        ctx.save_for_backward(x, weight, mean, rstd)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Return dx (B, H), dweight and dbias (H,)."""
        x, weight, mean, rstd = ctx.saved_tensors
        B, H = x.shape
        groups = groups_of(H)
        dx = torch.empty_like(x)
        locks = torch.zeros(2 * groups, dtype=torch.int32, device=x.device)
        buffers = [torch.zeros((groups, H), dtype=x.dtype, device=x.device) for _ in range(2)]
        operands = dx, dy.contiguous(), *buffers, x, weight, mean, rstd, locks, H
        _backward[(B,)](*operands, GROUPS=groups, BLOCK=ctx.block, num_warps=ctx.warps)
        dweight, dbias = torch.empty_like(weight), torch.empty_like(weight)
        operands = *buffers, dweight, dbias, min(groups, B), H
        _sum_buffers[(triton.cdiv(H, 128),)](*operands, BLOCK_G=32, BLOCK=128)
        return dx, dweight, dbias, None
