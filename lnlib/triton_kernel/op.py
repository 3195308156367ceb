"""The kernels as operators of PyTorch, for `torch.compile`, `torch.export`, `torch.jit.trace`.

To a compiler the two operators are opaque: it knows their shapes, and their derivatives.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from lnlib.closed_form import gradients_to_any_order
from lnlib.modes import in_forward_mode
from lnlib.triton_kernel import launch
from lnlib.triton_kernel.passes import PASSES


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Put the operator ``lnlib::layer_norm`` into the graph, for what `layer_norm` computes."""
    H = prod(normalized_shape)
    parameters = (None if p is None else p.reshape(H) for p in (weight, bias))
    y: Tensor = layer_norm_rows(input.reshape(input.numel() // H if H else 0, H), *parameters, eps)[
        0
    ]
    return y.view(input.shape)


@torch.library.custom_op("lnlib::layer_norm", mutates_args=())
def layer_norm_rows(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """Return y ``(B, H)`` and the statistics ``(3, B)`` of `lnlib.triton_kernel.launch`."""
    _refuse_tangents()
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    (statistics,) = PASSES.forward(x, weight, bias, eps, y)
    return y, statistics


@layer_norm_rows.register_fake
def _(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    statistics = x.new_empty((3, x.shape[0]), dtype=launch.statistics_dtype(x.dtype))
    return torch.empty_like(x, memory_format=torch.contiguous_format), statistics


@torch.library.custom_op("lnlib::layer_norm_backward", mutates_args=())
def layer_norm_rows_backward(
    dy: Tensor,
    x: Tensor,
    statistics: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    needs: Sequence[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return dx ``(B, H)``, dweight ``(H,)`` and dbias ``(H,)``, those not needed empty."""
    _refuse_tangents()
    H = x.shape[1]
    dtypes = x.dtype, None if weight is None else weight.dtype, None if bias is None else bias.dtype
    fits = dy.shape == x.shape and statistics.shape == (3, len(x))
    fits = fits and statistics.dtype == launch.statistics_dtype(x.dtype)
    if not fits or any(p is not None and p.shape != (H,) for p in (weight, bias)):
        raise RuntimeError(
            f"lnlib::layer_norm_backward takes rows (B, H), statistics (3, B) and parameters (H,), "
            f"got {tuple(x.shape)}, {tuple(dy.shape)} and {statistics.dtype} "
            f"{tuple(statistics.shape)}: a hook of saved_tensors_hooks may have changed them"
        )
    asked = needs[0], needs[1] and weight is not None, needs[2] and bias is not None
    dx, dweight, dbias = PASSES.backward(dy, x, weight, [statistics], asked, dtypes)
    none = x.new_empty(0)
    return (
        none if dx is None else dx,
        none.clone() if dweight is None else dweight,
        none.clone() if dbias is None else dbias,
    )


@layer_norm_rows_backward.register_fake
def _(
    dy: Tensor,
    x: Tensor,
    statistics: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    needs: Sequence[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    dx, dweight, dbias = (
        x.new_empty(0)
        if like is None or not needed
        else torch.empty_like(like, memory_format=torch.contiguous_format)
        for like, needed in zip((x, weight, bias), needs, strict=True)
    )
    return dx, dweight, dbias


def _refuse_tangents() -> None:
    if in_forward_mode():
        raise NotImplementedError(
            "a graph that holds the operator lnlib::layer_norm has no forward mode, got a call "
            'within one; record the graph with backend="reference"'
        )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, weight, bias, ctx.eps = inputs
    needs_dx, needs_dweight = ctx.needs_input_grad[:2]
    ctx.save_for_backward(x if needs_dx or needs_dweight else None, output[1], weight)
    ctx.bias = None if bias is None else bias.detach()  # read is its shape, and its dtype
    ctx.mark_non_differentiable(output[1])


def _backward(ctx: Any, dy: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    needs = list(ctx.needs_input_grad[:3])
    x, statistics, weight = ctx.saved_tensors
    x = dy.detach() if x is None else x  # of which the shape alone is read
    grads = layer_norm_rows_backward(dy, x, statistics, weight, ctx.bias, ctx.eps, needs)
    return *(grad if need else None for grad, need in zip(grads, needs, strict=True)), None


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    dy, x, _, weight, _, ctx.eps, ctx.needs = inputs
    ctx.save_for_backward(dy, x, weight)


def _backward_of_backward(ctx: Any, *douts: Tensor) -> tuple[Tensor | None, ...]:
    """Differentiate the gradients in plain PyTorch: of the statistics too, which are made of x."""
    dy, x, weight = ctx.saved_tensors
    with torch.enable_grad():
        outs = gradients_to_any_order(dy, x, weight, ctx.eps, tuple(ctx.needs))
    wanted = [ctx.needs_input_grad[i] for i in (0, 1, 3)]
    asked = [t for t, want in zip((dy, x, weight), wanted, strict=True) if want]
    pairs = [(o, d) for o, d in zip(outs, douts, strict=True) if o is not None and o.requires_grad]
    if not asked or not pairs:
        return (None,) * 7
    grads = iter(
        torch.autograd.grad(
            [o for o, _ in pairs],
            asked,
            [d.to(o.dtype) for o, d in pairs],
            create_graph=torch.is_grad_enabled(),
            allow_unused=True,
        )
    )
    ddy, dx, dweight = (next(grads) if want else None for want in wanted)
    return ddy, dx, None, dweight, None, None, None


layer_norm_rows.register_autograd(_backward, setup_context=_save)
layer_norm_rows_backward.register_autograd(_backward_of_backward, setup_context=_save_backward)
