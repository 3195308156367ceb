"""The norm of a loop that nothing compiles: PyTorch's kernels for one derivative, exact for more.

PyTorch's own third derivative of layer norm is wrong, and so are its nested tangents.
"""

from typing import Any

import torch
from torch import Tensor

from lnlib import reference, saved
from lnlib.closed_form import gradients_to_any_order
from lnlib.lstm.formula import Normalize
from lnlib.modes import is_left_alone, is_recording_gradients


def normalizing(eps: float) -> Normalize:
    """Return what `lnlib.lstm.formula.normalizing` does, for ordinary rows in eager mode."""

    def normalize(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if not is_recording_gradients():
            return reference.normalize(x, weight, bias, eps)[0]
        y: Tensor = NormFunction.apply(x, weight, bias, eps)  # type: ignore[no-untyped-call]
        return y

    return normalize


class NormFunction(torch.autograd.Function):
    """Layer norm of rows ``(B, H)`` by the kernels that `torch.nn.functional.layer_norm` has."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
        """Return y, and keep what both ways to its gradient need."""
        y, mean, rstd = reference.normalize(x, weight, bias, eps)
        ctx.save_for_backward(x, weight, bias, mean, rstd)
        ctx.eps, ctx.kinds = eps, saved.kinds_of(x, weight, bias, mean, rstd)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        """Return the gradients, by formulas if they are to be differentiated or mapped."""
        x, weight, bias, mean, rstd = found = ctx.saved_tensors
        saved.check(("x", "weight", "bias"), found, ctx.kinds)
        needs = list(ctx.needs_input_grad[:3])
        is_whole = saved.kinds_of(*found) == ctx.kinds  # or a hook took digits away
        if torch.is_grad_enabled() or not is_left_alone() or not is_whole:
            dtypes: Any = [x.dtype if need else None for need in needs]
            grads = gradients_to_any_order(dy, x, weight, ctx.eps, dtypes)
            return *(None if grad is None else grad.to(x.dtype) for grad in grads), None
        # PyTorch's kernel reads the statistics as dense, whatever strides a hook gave them.
        of_rows = mean.contiguous(), rstd.contiguous()
        operands = dy, x, x.shape[-1:], *of_rows, weight, bias, needs
        return *torch.ops.aten.native_layer_norm_backward(*operands), None
