"""lnlib's layer norm in a model that you already have."""

import reprlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, cast

import torch
from torch import nn

from lnlib import triton_kernel
from lnlib.dispatch import check_backend
from lnlib.modules import LayerNorm

Model = TypeVar("Model", bound=nn.Module)
SHOWN = 4  # names of norms in a warning

# Subclasses of torch.nn.LayerNorm that compute what it does; some only where an attribute has one
# value. Read in timm 0.9.0 to 1.0.31 and transformers 5.23.0; tests/models tries them. The
# others of these packages move an axis, cast, scale by weight + 1, do more after the norm, write
# the formula out, or are used where channels come first, as in SAM.
PLAIN: dict[str, tuple[str, object] | None] = {
    "timm.layers.norm.LayerNorm": ("_fast_norm", False),
    "timm.models.metaformer.LayerNormNoBias": None,
    **{
        f"transformers.models.{model}.modeling_{model}.{name}": ("data_format", "channels_last")
        for model, name in [
            ("convnext", "ConvNextLayerNorm"),
            ("convnextv2", "ConvNextV2LayerNorm"),
            ("dinov3_convnext", "DINOv3ConvNextLayerNorm"),
            ("rf_detr", "RfDetrLayerNorm"),
        ]
    },
}


def swap(
    model: Model, *, backend: str = "auto", classes: Iterable[type[nn.LayerNorm]] = ()
) -> Model:
    """Turn every `torch.nn.LayerNorm` in ``model`` into a `lnlib.LayerNorm`, in place.

    Outputs and gradients stay the same, up to rounding. Each norm stays the object that it was and
    changes its class, so nothing that holds on to it needs to know. Its parameters are the same
    tensors to an optimizer, and tied or frozen as before; a norm used in two places stays shared;
    hooks, names, the state dict, device, dtype and training mode do not change. A model that has
    been compiled is compiled again when it is next called.

    A subclass of `torch.nn.LayerNorm` may compute something else. Taken are those that you name in
    ``classes``, and some of timm and of Hugging Face's transformers whose sources were read, as
    timm's ``LayerNorm`` and, for channels last, the norm of ConvNeXt. Others are left as they are;
    so is a norm whose ``forward`` has been replaced on the object, even if ``classes`` name it.
    PyTorch makes subclasses too, in `torch.nn.utils.parametrize` and where ``fully_shard`` is given
    the norm itself: swap before. A call of `torch.nn.functional.layer_norm` in a model's own
    ``forward`` is not found. A `lnlib.LayerNorm` keeps its backend, so to swap twice is to swap
    once.

    A program of `torch.export`, ``torch.onnx.export`` or ``torch.jit.trace`` holds PyTorch's one
    ``aten.layer_norm`` for each norm, which runtimes know; ``torch.jit.script`` refuses lnlib's
    norm, and ``torch.ao.quantization`` knows PyTorch's alone. To go back, set
    ``norm.__class__ = torch.nn.LayerNorm`` for each.

    Args:
        model: any module, which may itself be a norm, wrapped (DistributedDataParallel) or compiled
            (``torch.compile``). All of its submodules are looked at.
        backend: what computes the norms from now on; see `lnlib.layer_norm`.
        classes: subclasses of `torch.nn.LayerNorm` that compute what it does, in each of their
            states. Those alone are taken, not what is derived from them; what they override is
            lost. A norm of channels that come first is none: lnlib would take another axis.

    Returns:
        ``model``, the same object.

    Raises:
        TypeError: if ``model`` is not a module, or ``classes`` are no subclasses of
            `torch.nn.LayerNorm`, or have slots. Then, as in the next two, nothing has changed.
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
    named = _check_classes(classes)
    check_backend(backend)
    if backend == "triton":
        triton_kernel.check_installed()
    norms = [module for module in model.modules() if _computes_as_pytorchs(module, named)]
    before = [(type(norm), dict(vars(norm))) for norm in norms]
    try:
        for norm in norms:
            # A new object would have to be handed to all who hold the old one, and not all can be
            # found. PyTorch changes classes for that reason too, in parametrize and in FSDP2.
            norm.__class__ = LayerNorm
            cast(LayerNorm, norm).backend = backend
    except TypeError:  # a class with slots, or with a parameter of that name
        for norm, (kind, attributes) in zip(norms, before, strict=True):
            vars(norm).pop("backend", None)
            vars(norm).update(attributes)
            norm.__class__ = kind
        raise
    for reason in _still_pytorchs(model):
        warnings.warn(f"lnlib.swap: {reason}", stacklevel=2)
    return model


def _check_classes(classes: Iterable[type[nn.LayerNorm]]) -> tuple[type[nn.LayerNorm], ...]:
    what = "classes must be a list of subclasses of torch.nn.LayerNorm"
    if not isinstance(classes, Iterable):
        raise TypeError(f"{what}, got {reprlib.repr(classes)}; put it into brackets")
    named = tuple(classes)
    for each in named:
        if not (isinstance(each, type) and issubclass(each, nn.LayerNorm)):
            raise TypeError(
                f"{what}, got {reprlib.repr(each)} among them; swap takes no other norm"
            )
    return named


def _computes_as_pytorchs(module: nn.Module, named: Sequence[type[nn.LayerNorm]]) -> bool:
    kind = type(module)
    is_known = kind is nn.LayerNorm or kind in named or _is_plain(module)
    return is_known and not issubclass(kind, LayerNorm) and "forward" not in vars(module)


def _is_plain(module: nn.Module) -> bool:
    name = _name_of(type(module))
    if (condition := PLAIN.get(name)) is None:
        return name in PLAIN
    attribute, value = condition
    return bool(getattr(module, attribute, None) == value)


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _still_pytorchs(model: nn.Module) -> Iterator[str]:
    """Say of which norms of ``model`` lnlib will not do the arithmetic, and why."""
    norms = {name: m for name, m in model.named_modules() if isinstance(m, nn.LayerNorm)}
    if not norms:
        yield (
            "found no torch.nn.LayerNorm in this model; a norm of another class, or a call of "
            "torch.nn.functional.layer_norm, is not changed"
        )
    left: dict[str, list[str]] = {}
    for name, norm in norms.items():
        if not isinstance(norm, LayerNorm):
            left.setdefault(_name_of(type(norm)), []).append(name or "the model itself")
    if left:
        kinds = (f"{kind} ({_first_of(names)})" for kind, names in sorted(left.items()))
        yield (
            f"left {sum(map(len, left.values()))} of {len(norms)} norms as they are, of class "
            f"{'; '.join(kinds)}: a subclass of torch.nn.LayerNorm, or a norm whose forward has "
            "been replaced, may compute something else; a class that does not, name in classes="
        )
    if torch.backends.mha.get_fastpath_enabled() and any(map(_has_fast_path, model.modules())):
        yield (
            "in evaluation, without gradients, torch.nn.TransformerEncoderLayer does not call its "
            "norms; torch.backends.mha.set_fastpath_enabled(False) makes it call them"
        )


def _first_of(names: Sequence[str]) -> str:
    """Return the first names; one that is cut short could be that of another norm."""
    more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join([*map(repr, names[:SHOWN]), *more])


def _has_fast_path(module: nn.Module) -> bool:
    """Tell whether a layer may call no norm, and has one of ours; the conditions are PyTorch's."""
    if not isinstance(module, nn.TransformerEncoderLayer):
        return False
    attention, norms = module.self_attn, (module.norm1, module.norm2)
    hooks = ((m._forward_hooks, m._forward_pre_hooks) for m in module.modules())
    return (
        any(isinstance(norm, LayerNorm) for norm in norms)
        and type(module).forward is nn.TransformerEncoderLayer.forward
        and attention.batch_first
        and attention.in_proj_bias is not None
        and attention.num_heads % 2 == 0
        and bool(module.activation_relu_or_gelu)
        and norms[0].eps == getattr(norms[1], "eps", None)
        and not any(map(any, hooks))
    )
