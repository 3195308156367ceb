"""PyTorch's own layer norm, which raises where PyTorch would be silently wrong.

PyTorch differentiates layer norm by formulas of its own, and in two of them mean and rstd have
become constants: in that of the tangent, and in that of the second derivative in reverse mode.
In torch 2.13, against the float64 formula, these are right, and what is derived from them is not:

* a derivative of a tangent: jvp of jvp, vjp of jvp, reverse mode over a dual tensor;
* a third derivative whose two inner ones are in reverse mode;
* a derivative of vmap of a derivative, if vmap maps over weight or bias.

All else to third order is right: hessians too, and vmap around or inside.

Two ways to a wrong third derivative are not seen: from inside a compiled or traced graph, and
through jvp or vjp of `torch.func` around a `torch.autograd.grad` of a graph that was made outside.
"""

from collections.abc import Sequence
from typing import NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor

from lnlib.dispatch import Level, is_dual, is_mapped, levels_of, without_wrappers

Grads = tuple[Tensor | None, ...]


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Call `torch.nn.functional.layer_norm`, and see that nothing wrong is derived from it.

    Raises:
        RuntimeError: if transforms are nested as in this list, whichever arguments they act on; an
            ``input`` that requires a gradient counts as reverse mode around them. In the backward
            pass, if a third derivative is asked for.
    """
    levels = levels_of(input, weight, bias)
    if _gets_wrong(levels):
        _refuse(f"{' over '.join(levels)} mode")
    y = F.layer_norm(input, normalized_shape, weight, bias, eps)
    if y.grad_fn is not None:
        y.grad_fn.register_hook(_watch_first_derivative)
    return y


def _gets_wrong(levels: Sequence[Level]) -> bool:
    orders = [at for at, level in enumerate(levels) if level != "map"]
    if len(orders) < 2:
        return False
    inmost, next_one = levels[orders[-1]], levels[orders[-2]]
    return (
        inmost == "forward"
        or (inmost == next_one == "reverse" and len(orders) > 2)
        or "map" in levels[orders[0] : orders[-1]]
    )


def _watch_first_derivative(grads: Grads, _: Grads) -> None:
    for node in {grad.grad_fn for grad in _results(grads) if grad.grad_fn is not None}:
        node.register_hook(_watch_second_derivative)


def _watch_second_derivative(grads: Grads, _: Grads) -> None:
    for grad in _results(grads):
        if grad.requires_grad:
            grad.register_hook(_refuse_third_derivative)  # type: ignore[no-untyped-call]


def _results(grads: Grads) -> list[Tensor]:
    """Return the gradients without wrappers, if hooks on them can see what is made of them."""
    given = [without_wrappers(grad) for grad in grads if grad is not None]
    if torch.is_grad_enabled() and any(is_mapped(grad) or is_dual(grad) for grad in given):
        _refuse("a derivative of a batch of gradients, or of a gradient's tangent")
    return given


def _refuse_third_derivative(_: Tensor) -> NoReturn:
    _refuse("a third derivative in reverse mode")


def _refuse(asked: str) -> NoReturn:
    raise RuntimeError(
        f"PyTorch's own layer norm gives wrong numbers for {asked}; "
        'backend="reference" gives the right ones'
    )
