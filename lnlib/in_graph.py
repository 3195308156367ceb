"""The kernels as operators of PyTorch, for `torch.compile`, `torch.export`, `torch.jit.trace`.

To a compiler the two operators are opaque: it knows their shapes, and their derivatives.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from lnlib import cpp_kernel, triton_kernel
from lnlib.closed_form import gradients_to_any_order
from lnlib.modes import Mode, asked_while_compiling, in_forward_mode, is_traced, untraced

# From this many values on, the C++ in an operator, which Python calls, beats the formula, which the
# compiler fuses with what is around it.
WORTH_AN_OPERATOR = 2**17
PASSES = {"cpp": cpp_kernel.PASSES, "triton": triton_kernel.PASSES}


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    backend: str,
) -> Tensor:
    """Put the operator ``lnlib::layer_norm`` into the graph, for what `lnlib.layer_norm` computes.

    Args:
        input: ``(..., *normalized_shape)``, of a dtype and on a device that the backend takes.
        normalized_shape: the sizes of the trailing dimensions that share one mean.
        weight: ``normalized_shape``, or None.
        bias: ``normalized_shape``, or None.
        eps: added to the variance.
        backend: "cpp" or "triton".
    """
    H = prod(normalized_shape)
    if is_traced() and not _is_empty(input):  # a quotient of sizes would be a constant
        rows = input.reshape(-1, H)
    else:
        rows = input.reshape(input.numel() // H if H else 0, H)
    parameters = (None if p is None else p.reshape(H) for p in (weight, bias))
    y: Tensor = _OPERATOR(rows, *parameters, eps, backend)[0]
    return y.view_as(input)  # whose shape a trace does not write down


def _is_empty(input: Tensor) -> bool:
    with untraced():
        return input.numel() == 0


def takes(mode: Mode, backend: str, dtype: torch.dtype, device: str) -> bool:
    """Tell whether what is recorded in this mode may hold the operator, with this backend.

    A program is loaded where there may be no C++. Nor may there be here: see `lnlib.cpp_kernel`.
    """
    if backend == "cpp":
        return mode == "graph" and _has_cpp(dtype, device)
    return backend == "triton" and mode in ("graph", "program")


def is_worth(input: Tensor) -> bool:
    """Tell whether an input is large enough for the C++, or its size not known before it is run."""
    from torch.fx.experimental.symbolic_shapes import guard_or_false  # loaded by the compiler

    return not guard_or_false(input.numel() < WORTH_AN_OPERATOR)


def _ask(dtype: torch.dtype, device: str) -> bool:
    return cpp_kernel.why_not(dtype, device) is None


_has_cpp = asked_while_compiling(_ask)  # for a library may have to be loaded


def _forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, backend: str
) -> tuple[Tensor, Tensor]:
    """Return y ``(B, H)`` and the statistics ``(3, B)`` of the kernel."""
    _refuse_tangents()
    return PASSES[backend].forward(x, weight, bias, eps)


def _forward_shapes(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, backend: str
) -> tuple[Tensor, Tensor]:
    dtype = PASSES[backend].kept_dtype(x.dtype, x.device.type)
    statistics = x.new_empty((3, x.shape[0]), dtype=dtype)
    return torch.empty_like(x, memory_format=torch.contiguous_format), statistics


def _backward(
    dy: Tensor,
    x: Tensor,
    statistics: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    needs: Sequence[bool],
    backend: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return dx ``(B, H)``, dweight ``(H,)`` and dbias ``(H,)``, those not needed empty."""
    _refuse_tangents()
    H = x.shape[1]
    dtypes = x.dtype, None if weight is None else weight.dtype, None if bias is None else bias.dtype
    fits = dy.shape == x.shape and statistics.shape == (3, len(x))
    expected = PASSES[backend].kept_dtype(x.dtype, x.device.type)
    fits = fits and statistics.dtype == expected
    if not fits or any(p is not None and p.shape != (H,) for p in (weight, bias)):
        raise RuntimeError(
            f"lnlib::layer_norm_backward takes rows (B, H), statistics (3, B) and parameters (H,), "
            f"got {tuple(x.shape)}, {tuple(dy.shape)} and {statistics.dtype} "
            f"{tuple(statistics.shape)}: a hook of saved_tensors_hooks may have changed them"
        )
    asked: Any = [dtype if need else None for dtype, need in zip(dtypes, needs, strict=True)]
    grads = PASSES[backend].backward(dy, x, weight, statistics, asked)
    dx, dweight, dbias = (
        x.new_empty(0) if grad is None else grad.to(dtype)
        for grad, dtype in zip(grads, dtypes, strict=True)
    )
    return dx, dweight, dbias


def _backward_shapes(
    dy: Tensor,
    x: Tensor,
    statistics: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    needs: Sequence[bool],
    backend: str,
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
    x, weight, bias, ctx.eps, ctx.backend = inputs
    needs_dx, needs_dweight = ctx.needs_input_grad[:2]
    ctx.save_for_backward(x if needs_dx or needs_dweight else None, output[1], weight)
    ctx.bias = None if bias is None else bias.detach()  # read is its shape, and its dtype
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx: Any, dy: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    needs = list(ctx.needs_input_grad[:3])
    x, statistics, weight = ctx.saved_tensors
    x = dy.detach() if x is None else x  # of which the shape alone is read
    grads = _OF_BACKWARD(dy, x, statistics, weight, ctx.bias, ctx.eps, needs, ctx.backend)
    return *(grad if need else None for grad, need in zip(grads, needs, strict=True)), None, None


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    dy, x, _, weight, _, ctx.eps, ctx.needs, _ = inputs
    ctx.save_for_backward(dy, x, weight)


def _differentiate_again(ctx: Any, *douts: Tensor) -> tuple[Tensor | None, ...]:
    """Differentiate the gradients in plain PyTorch: of the statistics too, which are made of x."""
    with torch.enable_grad():
        # Views, so that what dy and x were themselves computed from is not counted here.
        views: list[Any] = [None if t is None else t.view_as(t) for t in ctx.saved_tensors]
        dy, x, weight = views
        needs: Any = [dy.dtype if need else None for need in ctx.needs]
        outs = gradients_to_any_order(dy, x, weight, ctx.eps, needs)
    wanted = [ctx.needs_input_grad[i] for i in (0, 1, 3)]
    asked = [t for t, want in zip((dy, x, weight), wanted, strict=True) if want]
    pairs = [(o, d) for o, d in zip(outs, douts, strict=True) if o is not None and o.requires_grad]
    if not asked or not pairs:
        return (None,) * 8
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
    return ddy, dx, None, dweight, None, None, None, None


def _define(
    name: str,
    run: Callable[..., object],
    shapes: Callable[..., object],
    save: Callable[..., None],
    differentiate: Callable[..., object],
) -> Any:
    """Make an operator; torch.library.custom_op would, too, and take 25 µs more at each call."""
    schema = torch.library.infer_schema(run, mutates_args=())
    tags = (torch.Tag.pt2_compliant_tag,)
    _LIBRARY.define(name + schema, tags=tags)  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    full = f"lnlib::{name}"
    torch.library.register_fake(full, shapes, lib=_LIBRARY)
    torch.library.register_autograd(full, differentiate, setup_context=save, lib=_LIBRARY)
    return getattr(torch.ops.lnlib, name).default


_LIBRARY = torch.library.Library("lnlib", "FRAGMENT")  # type: ignore[no-untyped-call]
_OPERATOR = _define("layer_norm", _forward, _forward_shapes, _save, _differentiate)
_OF_BACKWARD = _define(
    "layer_norm_backward", _backward, _backward_shapes, _save_backward, _differentiate_again
)
