"""What PyTorch is doing with a call: the mode that decides which way of computing is right.

The few private names of PyTorch that lnlib uses are all in this file.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

Mode = Literal["eager", "dual", "transform", "graph", "graph of a transform", "other tensor"]
Level = Literal["reverse", "forward", "map"]


def mode_of(*tensors: Tensor | None) -> Mode:
    """Return the mode of a call with ``tensors`` as its arguments.

    * "graph": `torch.compile`, `torch.export` or `torch.jit.trace` records the call.
    * "graph of a transform": likewise, and what is recorded is itself differentiated or mapped,
      by `torch.func` or `torch.autograd.forward_ad`.
    * "transform": a transform of `torch.func` is at work, such as jvp, vjp or vmap, or the vmap of
      `torch.autograd.grad` with ``is_grads_batched``.
    * "dual": a tensor carries a tangent of `torch.autograd.forward_ad`.
    * "other tensor": a tensor is of a subclass (a jagged one is), or has no data.
    * "eager": none of these. Ordinary tensors, with or without reverse mode.
    """
    given = [tensor for tensor in tensors if tensor is not None]
    may_be_dual = in_forward_mode()
    if torch.compiler.is_compiling() or torch._C._is_tracing():
        return "graph of a transform" if may_be_dual or _is_transformed() else "graph"
    if _is_transformed() or any(is_mapped(tensor) for tensor in given):
        return "transform"
    if may_be_dual and any(is_dual(tensor) for tensor in given):
        return "dual"
    return "eager" if all(_is_ordinary(tensor) for tensor in given) else "other tensor"


def levels_of(input: Tensor, *parameters: Tensor | None) -> list[Level]:
    """Return what may differentiate or map a result of these arguments, the outermost first.

    Reverse mode outside of `torch.func` counts if ``input`` requires a gradient, wanted or not.
    """
    levels: list[Level] = []
    if torch.is_grad_enabled() and without_wrappers(input).requires_grad:
        levels.append("reverse")
    given = [tensor for tensor in (input, *parameters) if tensor is not None]
    if any(is_dual(without_wrappers(tensor)) for tensor in given):
        levels.append("forward")
    if _is_transformed():
        names: dict[str, Level] = {"Grad": "reverse", "Jvp": "forward", "Vmap": "map"}
        stack = torch._C._functorch.get_interpreter_stack() or []
        levels += [names[level.key().name] for level in stack if level.key().name in names]
    return levels


def without_wrappers(tensor: Tensor) -> Tensor:
    """Return the tensor that `torch.func` has wrapped, once for each transform it takes part in."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def in_forward_mode() -> bool:
    """Tell whether `torch.autograd.forward_ad` or a jvp of `torch.func` is under way."""
    return forward_ad._current_level >= 0


def _is_transformed() -> bool:
    # What torch.autograd.Function.apply itself asks.
    return torch._C._are_functorch_transforms_active()


def is_mapped(tensor: Tensor) -> bool:
    """Tell whether the older vmap, that of `torch.autograd.grad` with batched grads, maps it."""
    return torch._C._functorch.is_legacy_batchedtensor(tensor)


def is_dual(tensor: Tensor) -> bool:
    """Tell whether a tensor carries a tangent of `torch.autograd.forward_ad`."""
    return forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]


def _is_ordinary(tensor: Tensor) -> bool:
    return type(tensor) in (Tensor, Parameter) and not tensor.is_meta
