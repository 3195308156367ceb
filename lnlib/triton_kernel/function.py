"""The kernels for eager mode: a `torch.autograd.Function`, the shortest way from call to launch."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from lnlib import function, saved
from lnlib.addresses import dense
from lnlib.dispatch import mode_of
from lnlib.triton_kernel import launch, runtime


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize with the Triton kernels: on a GPU compiled, on a CPU interpreted, which is slow.

    For ordinary tensors in eager mode, reverse mode of any order included: the first derivative is
    a kernel's, higher ones are those of `lnlib.function.gradients`. The arguments are taken as they
    are; `lnlib.layer_norm` is the door that checks them and knows about the other modes.

    Args:
        input: ``(..., *normalized_shape)``; float16, bfloat16, float32 or float64. It is read where
            it is if its leading dimensions collapse into rows, any distance apart, whose features
            are next to each other or expanded; otherwise it is copied first.
        normalized_shape: sizes of the trailing dimensions that share one mean and one variance.
        weight: ``normalized_shape``, of any float dtype; None means 1.
        bias: ``normalized_shape``, of any float dtype; None means 0.
        eps: added to the variance, so in units of ``input`` squared.

    Returns:
        ``(..., *normalized_shape)``, contiguous, the dtype of ``input``. The same bits at every
        run, and for a row whatever batch it is in, as long as rows start at the same alignment.

    Raises:
        ImportError: if Triton is missing, or older than 3.6.
        NotImplementedError: if ``input`` is neither on a GPU nor on a CPU.
        RuntimeError: in the backward pass, if ``input`` or ``weight`` has been changed in place, or
            into another kind of tensor by a hook of ``saved_tensors_hooks``.

    Source: Ba, Kiros, Hinton 2016, eq. 3 to 5, with PyTorch's eps; see `lnlib.formula`.
    """
    runtime.check(input.device)
    arguments = input, tuple(normalized_shape), weight, bias, eps
    y: Tensor = TritonFunction.apply(*arguments)  # type: ignore[no-untyped-call]
    return y


class TritonFunction(torch.autograd.Function):
    """The two passes of `layer_norm`, for PyTorch's autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        normalized_shape: tuple[int, ...],
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
    ) -> Tensor:
        """Normalize, and keep what the gradients that may be asked for will need."""
        H = prod(normalized_shape)
        y = torch.empty_like(input, memory_format=torch.contiguous_format)
        x = launch.rows_of(input, H)
        statistics = launch.forward(x, _flat(weight), _flat(bias), eps, y.view(x.shape))
        needs_dx, _, needs_dweight, _, _ = ctx.needs_input_grad
        is_read = needs_dx or needs_dweight
        kept = input if is_read else None, statistics, weight if needs_dx else None
        ctx.save_for_backward(*kept)
        ctx.kinds = saved.kinds_of(*kept)
        ctx.H, ctx.eps = H, eps
        ctx.likes = [None if t is None else (t.shape, t.dtype) for t in (input, weight, bias)]
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients that are asked for, and None in place of the others."""
        needs_dx, _, needs_dweight, needs_dbias, _ = ctx.needs_input_grad
        needs = needs_dx, needs_dweight, needs_dbias
        saved.check_gradient(dy)
        input, statistics, weight = found = ctx.saved_tensors
        input_kind, kind_of_statistics, weight_kind = ctx.kinds
        saved.check("input", input, input_kind)
        saved.check("weight", weight, weight_kind)
        is_plain = mode_of(dy, *found) == "eager" and not torch.is_grad_enabled()
        rows = launch.rows_of(dy, ctx.H)
        x = rows if input is None else launch.rows_of(input, ctx.H)  # unread if it was not kept
        if is_plain and saved.kinds_of(statistics) == [kind_of_statistics]:
            _, dweight_dtype, dbias_dtype = (None if p is None else p[1] for p in ctx.likes)
            dtypes = ctx.likes[0][1], dweight_dtype, dbias_dtype
            grads = launch.backward(rows, x, dense(statistics), _flat(weight), needs, dtypes)
        else:
            grads = function.gradients_to_any_order(rows, x, weight, ctx.eps, needs)
        dx, dweight, dbias = (
            None if grad is None else grad.reshape(like[0]).to(like[1])
            for grad, like in zip(grads, ctx.likes, strict=True)
        )
        return dx, None, dweight, dbias, None


def _flat(parameter: Tensor | None) -> Tensor | None:
    if parameter is None:
        return None
    if parameter.is_neg():
        parameter = parameter.resolve_neg()
    is_flat = parameter.ndim == 1 and parameter.is_contiguous()
    return parameter if is_flat else parameter.reshape(-1).contiguous()
