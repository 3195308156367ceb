"""A time step of the layer-normalized LSTM in PyTorch's operations: any device, any float dtype."""

import torch
from torch import Tensor

from lnlib import reference
from lnlib.lstm.steps import Backward, Block, Forward, Step


def forward(buffers: Forward) -> Step:
    """Return a step forward over these buffers; see `lnlib.lstm.steps.Steps`."""
    size = buffers.outputs.shape[-1]

    def step(block: Block) -> None:
        rows = slice(block.start, block.stop)
        c_before = buffers.carry[block.before :][: block.stop - block.start]
        c = buffers.carry[block.after :][: block.stop - block.start]
        gates, a_hat, c_hat = buffers.gates[rows], buffers.a_hat[rows], buffers.c_hat[rows]
        _normalize(a_hat, a_hat, buffers.rstd_a[rows], buffers.eps)
        gates.addcmul_(a_hat, buffers.weight_h)
        i, f, candidate, o = gates.chunk(4, dim=-1)
        gates[:, : 2 * size].sigmoid_()
        candidate.tanh_()
        o.sigmoid_()
        torch.mul(i, candidate, out=c).addcmul_(f, c_before)
        _normalize(c, c_hat, buffers.rstd_c[rows], buffers.eps)
        n = torch.addcmul(buffers.bias_c, buffers.weight_c, c_hat)
        tanh_n = torch.tanh(n, out=buffers.tanh_n[rows])
        torch.mul(o, tanh_n, out=buffers.outputs[rows])
        if buffers.carries_normalized:
            c.copy_(n)

    return step


def backward(buffers: Forward, grads: Backward) -> Step:
    """Return a step back over these buffers; see `lnlib.lstm.steps.Steps`."""
    sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
    tanh_backward = torch.ops.aten.tanh_backward.grad_input

    def step(block: Block) -> None:
        rows = slice(block.start, block.stop)
        i, f, candidate, o = buffers.gates[rows].chunk(4, dim=-1)
        di, df, dcandidate, do = grads.dv[rows].chunk(4, dim=-1)
        tanh_n, dn = buffers.tanh_n[rows], grads.dn[rows]
        c_before = buffers.carry[block.before :][: block.stop - block.start]
        dcarry = grads.dcarry[: block.stop - block.start]
        dh = grads.dh[: block.stop - block.start] + grads.dy[rows]
        sigmoid_backward(dh * tanh_n, o, grad_input=do)
        tanh_backward(dh * o, tanh_n, grad_input=dn)
        if buffers.carries_normalized:
            dn += dcarry
        dc = _normalize_backward(dn, buffers.c_hat[rows], buffers.weight_c, buffers.rstd_c[rows])
        if not buffers.carries_normalized:
            dc += dcarry
        sigmoid_backward(dc * candidate, i, grad_input=di)
        sigmoid_backward(dc * c_before, f, grad_input=df)
        tanh_backward(dc * i, candidate, grad_input=dcandidate)
        torch.mul(dc, f, out=dcarry)
        grads.da[rows] = _normalize_backward(
            grads.dv[rows], buffers.a_hat[rows], buffers.weight_h, buffers.rstd_a[rows]
        )

    return step


def _normalize(x: Tensor, x_hat: Tensor, rstd: Tensor, eps: float) -> None:
    """Fill ``x_hat``, which may be ``x``, and ``rstd``, whose dtype the statistics have."""
    normalized, _, found = reference.normalize(x.to(rstd.dtype), None, None, eps)
    x_hat.copy_(normalized)
    rstd.copy_(found)


def _normalize_backward(dy: Tensor, x_hat: Tensor, weight: Tensor, rstd: Tensor) -> Tensor:
    dy_wide, x_hat, weight = (tensor.to(rstd.dtype) for tensor in (dy, x_hat, weight))
    zeros = torch.zeros_like(rstd)  # x_hat is normalized: its mean is 0, and its rstd taken as 1
    dx, _, _ = torch.ops.aten.native_layer_norm_backward(
        dy_wide, x_hat, x_hat.shape[-1:], zeros, zeros + 1, weight, None, [True, False, False]
    )
    found: Tensor = (dx * rstd).to(dy.dtype)
    return found
