"""The kernels as operators of PyTorch, for `torch.compile`, `torch.export`, `torch.jit.trace`.

A compiler does not look into the two operators: it knows the shapes of their results, and the
derivative of the first. Both take rows ``(B, H)`` and parameters ``(H,)``.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from lnlib import cpp_kernel, triton_kernel
from lnlib.autograd import Passes
from lnlib.closed_form import gradients_to_any_order
from lnlib.modes import Mode, asked_while_compiling, in_forward_mode, is_traced, untraced

# From this many values on, the operator, which Python calls, is faster than the formula, which the
# compiler fuses with its neighbors.
WORTH_AN_OPERATOR = 2**17
PASSES: dict[str, Passes] = {"cpp": cpp_kernel.PASSES, "triton": triton_kernel.PASSES}


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    backend: str,
) -> Tensor:
    """Put the operator of "cpp" or "triton" into the graph, for an input that the backend takes."""
    H = prod(normalized_shape)
    if is_traced() and not _is_empty(input):  # a trace takes a quotient of sizes for a constant
        rows = input.reshape(-1, H)
    else:
        rows = input.reshape(input.numel() // H if H else 0, H)
    parameters = (None if p is None else p.reshape(H) for p in (weight, bias))
    y: Tensor = _OPERATOR(rows, *parameters, eps, backend)[0]
    return y.view_as(input)  # a trace would write down its shape


def _is_empty(input: Tensor) -> bool:
    with untraced():
        return input.numel() == 0


def takes(mode: Mode, backend: str, dtype: torch.dtype, device: str) -> bool:
    """Tell whether a recording in this mode may hold the operator, with this backend.

    A program may be loaded where there is no C++, so it does not hold that of "cpp".
    """
    if backend == "cpp":
        return mode == "graph" and _has_cpp(dtype, device)
    return backend == "triton" and mode in ("graph", "program")


def is_worth(input: Tensor) -> bool:
    """Tell whether an input is large enough for the C++, or of a size that is not yet known."""
    from torch.fx.experimental.symbolic_shapes import guard_or_false  # loaded by the compiler

    return not guard_or_false(input.numel() < WORTH_AN_OPERATOR)


def _ask(dtype: torch.dtype, device: str) -> bool:
    return cpp_kernel.why_not(dtype, device) is None


_has_cpp = asked_while_compiling(_ask)  # because a library may have to be loaded


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
    return _like(x), x.new_empty((3, x.shape[0]), dtype=dtype)


def _backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    statistics: Tensor,
    needs: Sequence[bool],
    backend: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return dx ``(B, H)`` like x, and dweight and dbias ``(H,)`` in `_sums_dtype`.

    Those not needed are empty.
    """
    _refuse_tangents()
    passes, (B, H) = PASSES[backend], x.shape
    if (
        dy.shape != x.shape
        or statistics.shape != (3, B)
        or statistics.dtype != passes.kept_dtype(x.dtype, x.device.type)
        or (weight is not None and weight.shape != (H,))
    ):
        raise RuntimeError(
            "lnlib::layer_norm_rows_backward takes rows (B, H), weight (H,), statistics (3, B), "
            f"got {tuple(dy.shape)}, {tuple(x.shape)} and {statistics.dtype} "
            f"{tuple(statistics.shape)}: a hook of saved_tensors_hooks may have changed them"
        )
    wide = _sums_dtype(x)
    asked: Any = [t if need else None for t, need in zip((x.dtype, wide, wide), needs, strict=True)]
    grads = passes.backward(dy, x, weight, statistics, asked)
    dx, dweight, dbias = (x.new_empty(0) if grad is None else grad for grad in grads)
    return dx, dweight, dbias


def _backward_shapes(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    statistics: Tensor,
    needs: Sequence[bool],
    backend: str,
) -> tuple[Tensor, Tensor, Tensor]:
    wide, H = _sums_dtype(x), x.shape[1]
    dx = _like(x) if needs[0] else x.new_empty(0)
    dweight, dbias = (
        x.new_empty(H, dtype=wide) if needed else x.new_empty(0) for needed in needs[1:]
    )
    return dx, dweight, dbias


def _like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _sums_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of a kernel's sums over rows, which autograd narrows."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _refuse_tangents() -> None:
    if in_forward_mode():
        raise NotImplementedError(
            "a graph that holds an operator of lnlib has no forward mode, got a call within one; "
            'record the graph with backend="reference"'
        )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, weight, bias, ctx.eps, ctx.backend = inputs
    needs_dx, needs_dweight = ctx.needs_input_grad[:2]
    ctx.save_for_backward(x if needs_dx or needs_dweight else None, weight, output[1])
    ctx.dtypes = [x.dtype, *(None if p is None else p.dtype for p in (weight, bias))]
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx: Any, dy: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    needs = list(ctx.needs_input_grad[:3])
    x, weight, statistics = ctx.saved_tensors
    x = dy.detach() if x is None else x  # dbias alone needs only the shape of x
    if torch.is_grad_enabled():  # these gradients will be differentiated
        asked: Any = [d if need else None for d, need in zip(ctx.dtypes, needs, strict=True)]
        grads = gradients_to_any_order(dy, x, weight, ctx.eps, asked)
    else:
        grads = _OF_BACKWARD(dy, x, weight, statistics, needs, ctx.backend)
    given: Any = zip(grads, needs, ctx.dtypes, strict=True)
    return *(grad.to(dtype) if need else None for grad, need, dtype in given), None, None


def _save_nothing(*_: Any, **__: Any) -> None:
    pass


def _once(*_: Any) -> Any:
    raise NotImplementedError(
        "lnlib::layer_norm_rows_backward has no derivative; let autograd call it, create_graph=True"
    )


def _define(
    name: str,
    run: Callable[..., object],
    shapes: Callable[..., object],
    save: Callable[..., None],
    differentiate: Callable[..., object],
) -> Any:
    """Make an operator, as torch.library.custom_op does, which takes 25 µs more at each call."""
    schema = torch.library.infer_schema(run, mutates_args=())
    tags = (torch.Tag.pt2_compliant_tag,)
    _LIBRARY.define(name + schema, tags=tags)  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    full = f"lnlib::{name}"
    torch.library.register_fake(full, shapes, lib=_LIBRARY)
    torch.library.register_autograd(full, differentiate, setup_context=save, lib=_LIBRARY)
    return getattr(torch.ops.lnlib, name).default


_LIBRARY = torch.library.Library("lnlib", "FRAGMENT")  # type: ignore[no-untyped-call]
_OPERATOR = _define("layer_norm_rows", _forward, _forward_shapes, _save, _differentiate)
_OF_BACKWARD = _define(
    "layer_norm_rows_backward", _backward, _backward_shapes, _save_nothing, _once
)
