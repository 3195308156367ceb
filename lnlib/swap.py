"""lnlib's layer norm in a model that you already have."""

import reprlib
import warnings
from collections.abc import Iterator
from typing import TypeVar, cast

import torch
from torch import nn

from lnlib import triton_kernel
from lnlib.functional import check_backend
from lnlib.modules import LayerNorm

Model = TypeVar("Model", bound=nn.Module)


def swap(model: Model, *, backend: str = "auto") -> Model:
    """Turn every `torch.nn.LayerNorm` in ``model`` into a `lnlib.LayerNorm`, in place.

    Outputs and gradients stay the same, up to rounding. Each norm stays the object that it was and
    changes its class, so nothing that holds on to it needs to know. Its parameters are the same
    tensors to an optimizer, and tied or frozen as before; a norm used in two places stays shared;
    hooks, names, the state dict, device, dtype and training mode do not change. A model that has
    been compiled is compiled again when it is next called.

    Only the class `torch.nn.LayerNorm` itself is meant. A subclass may compute something else, so
    it is left as it is; so is a norm whose ``forward`` has been replaced on the object. PyTorch
    makes subclasses too, in `torch.nn.utils.parametrize` and where ``fully_shard`` is given the
    norm itself: swap before. Swap before ``torch.jit.trace`` and `torch.export` as well, whose
    results hold no norm that could be found; nor does a scripted model, and lnlib's norm cannot be
    scripted. On a CPU, exported, a norm is some twenty operations, but with ``backend="torch"`` it
    stays the one ``aten.layer_norm``, which runtimes know. A call of
    `torch.nn.functional.layer_norm` in a model's own ``forward`` cannot be found either, and is not
    changed. A `lnlib.LayerNorm` keeps its backend, so to swap twice is to swap once.

    Swap after ``torch.fx.symbolic_trace``, or trace with a ``torch.fx.Tracer`` for which
    `lnlib.LayerNorm` is a leaf. To FX, `torch.nn.LayerNorm` is one because it is in ``torch.nn``.
    Ours is not, so FX traces into it, and `lnlib.layer_norm` refuses a ``Proxy`` with a TypeError.

    Args:
        model: any module, which may itself be a norm, wrapped (DistributedDataParallel) or compiled
            (``torch.compile``). All of its submodules are looked at.
        backend: what computes the norms from now on; see `lnlib.layer_norm`.

    Returns:
        ``model``, the same object.

    Raises:
        TypeError: if ``model`` is not a module. Then, as in the next two, nothing has changed.
        ValueError: if there is no such ``backend``.
        ImportError: if it is "triton", and Triton is missing here, or older than 3.6.

    Warns:
        UserWarning: if PyTorch will go on computing some of the norms: those that are left, as
            above, and those of a `torch.nn.TransformerEncoderLayer` with ``batch_first``, which in
            evaluation and without gradients hands its weights to one fused operator and calls no
            norm at all; ``torch.backends.mha.set_fastpath_enabled(False)`` makes it call them. And
            if there is neither a `torch.nn.LayerNorm` nor a `lnlib.LayerNorm` in ``model``.

    >>> model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    >>> type(swap(model)[1])
    <class 'lnlib.modules.LayerNorm'>
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"model must be a Module, got {reprlib.repr(model)} of type {type(model).__name__}; "
            "for a class, build the model first"
        )
    check_backend(backend)
    if backend == "triton":
        triton_kernel.check_installed()
    for module in model.modules():
        if type(module) is nn.LayerNorm and "forward" not in vars(module):
            # A new object would have to be handed to all who hold the old one, and not all can be
            # found. PyTorch changes classes for that reason too, in parametrize and in FSDP2.
            module.__class__ = LayerNorm
            cast(LayerNorm, module).backend = backend
    for reason in _still_pytorchs(model):
        warnings.warn(reason, stacklevel=2)
    return model


def _still_pytorchs(model: nn.Module) -> Iterator[str]:
    """Say of which norms of ``model`` lnlib will not do the arithmetic, and why."""
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    if not norms:
        yield (
            "found no torch.nn.LayerNorm in this model; a norm of another class, or a call of "
            "torch.nn.functional.layer_norm, is not changed"
        )
    left = [type(norm).__name__ for norm in norms if not isinstance(norm, LayerNorm)]
    if left:
        yield (
            f"left {len(left)} of {len(norms)} norms as they are, of class "
            f"{', '.join(sorted(set(left)))}: a subclass of torch.nn.LayerNorm, or a norm whose "
            "forward has been replaced, may compute something else"
        )
    if torch.backends.mha.get_fastpath_enabled() and any(map(_has_fast_path, model.modules())):
        yield (
            "in evaluation, without gradients, torch.nn.TransformerEncoderLayer does not call its "
            "norms; torch.backends.mha.set_fastpath_enabled(False) makes it call them"
        )


def _has_fast_path(module: nn.Module) -> bool:
    return (
        isinstance(module, nn.TransformerEncoderLayer)
        and type(module).forward is nn.TransformerEncoderLayer.forward
        and module.self_attn.batch_first
        and any(isinstance(norm, LayerNorm) for norm in (module.norm1, module.norm2))
    )
