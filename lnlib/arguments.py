"""The arguments of `lnlib.layer_norm`: refused where PyTorch refuses them, and in clear words."""

import operator
import reprlib
from collections.abc import Sequence
from typing import SupportsIndex

import torch
import torch.nn.functional as F
from torch import Tensor

from lnlib.modes import is_traced

FLOAT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_types(input: Tensor, weight: Tensor | None, bias: Tensor | None) -> None:
    """Raise TypeError for what is no tensor, or for a parameter no None."""
    if not isinstance(input, Tensor):
        raise TypeError(f"input must be a Tensor, got {_typed(input)}; see torch.as_tensor")
    for name, parameter in (("weight", weight), ("bias", bias)):
        if not (parameter is None or isinstance(parameter, Tensor)):
            raise TypeError(
                f"{name} must be a Tensor or None, got {_typed(parameter)}; see torch.as_tensor"
            )


def as_sizes(normalized_shape: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes as a tuple of ints; raise TypeError if they are none."""
    if not isinstance(normalized_shape, (tuple, list)):
        raise TypeError(
            f"normalized_shape must be a tuple or list of ints, got {_typed(normalized_shape)}; "
            "for one dimension of size H write (H,)"
        )
    return tuple(_as_size(size) for size in normalized_shape)


def _as_size(size: int) -> int:
    if isinstance(size, torch.SymInt) or (isinstance(size, Tensor) and is_traced()):
        return size  # an int to whoever records it, and another one in the next call
    if isinstance(size, bool) or not isinstance(size, (int, SupportsIndex)):  # True is not 1 here
        raise TypeError(
            f"normalized_shape must hold ints only, got {_typed(size)} in it; "
            "convert its sizes with int()"
        )
    return size if isinstance(size, int) else operator.index(size)


def as_float(eps: float) -> float:
    """Return ``eps`` as a float; raise TypeError if it is no number, or wants a gradient."""
    if isinstance(eps, Tensor):
        is_number = eps.ndim == 0 and not eps.requires_grad
    else:
        is_number = isinstance(eps, (float, int)) or _is_number_to_pytorch(eps)
    if not is_number:
        raise TypeError(
            f"eps must be a float, got {_typed(eps)}; pass one number, to which no gradient flows"
        )
    return float(eps)


def _is_number_to_pytorch(eps: object) -> bool:
    try:
        F.layer_norm(torch.empty(1, device="meta"), (1,), eps=eps)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def check_shapes(
    input: Tensor, shape: tuple[int, ...], weight: Tensor | None, bias: Tensor | None
) -> None:
    """Raise RuntimeError for shapes that do not fit, TypeError for a size of more than 64 bits."""
    if not shape:
        raise RuntimeError(
            "normalized_shape must name at least one dimension, got () for an input of shape "
            f"{tuple(input.shape)}; for the last one pass (input.shape[-1],)"
        )
    last = tuple(input.shape[-len(shape) :])
    if last != shape:
        if not all(-(2**63) <= size < 2**63 for size in shape):
            raise TypeError(f"normalized_shape must hold ints of 64 bits, got {shape}")
        raise RuntimeError(
            f"input must end in normalized_shape {shape}, got an input of shape "
            f"{tuple(input.shape)}; normalized_shape is the sizes of its last dimensions"
        )
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and tuple(parameter.shape) != shape:
            raise RuntimeError(
                f"{name} must have the shape {shape} that normalized_shape says, "
                f"got {tuple(parameter.shape)}; reshape or expand it first"
            )


def check_placement(input: Tensor, weight: Tensor | None, bias: Tensor | None) -> None:
    """Raise RuntimeError unless all are dense, on one device."""
    for name, tensor in (("input", input), ("weight", weight), ("bias", bias)):
        if tensor is None:
            continue
        if tensor.device != input.device:
            raise RuntimeError(
                f"{name} must be on {input.device} as input is, got it on {tensor.device}; "
                "move one of them with .to(device)"
            )
        if tensor.layout not in (torch.strided, torch.jagged):
            raise RuntimeError(
                f"{name} must be dense, expected layout torch.strided, got {tensor.layout}; "
                "convert it with .to_dense()"
            )


def autocast(
    input: Tensor, weight: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Widen to float32 where autocast would widen the arguments of PyTorch's own layer norm.

    Autocast intercepts calls into PyTorch's layer norm, and a backend need not make one.
    """
    device_type = input.device.type
    if device_type in ("cpu", "meta") or not torch.is_autocast_enabled(device_type):
        return input, weight, bias
    return (
        _widen(input),
        None if weight is None else _widen(weight),
        None if bias is None else _widen(bias),
    )


def _widen(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() and tensor.itemsize < 4 else tensor


def check_dtypes(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, free_parameters: bool
) -> None:
    """Raise NotImplementedError for an input of no float dtype, RuntimeError for a wrong mix.

    With ``free_parameters`` each parameter may be of any float dtype.
    """
    given = [parameter.dtype for parameter in (weight, bias) if parameter is not None]
    is_narrow = input.is_floating_point() and input.itemsize < 4
    fits = set(given) <= {input.dtype} or (is_narrow and set(given) == {torch.float32})
    fits = fits or (free_parameters and set(given) <= set(FLOAT_DTYPES))
    # Of two complaints, PyTorch makes this one first if the first parameter has the input's dtype.
    if input.dtype not in FLOAT_DTYPES and (fits or given[0] == input.dtype):
        expected = ", ".join(str(dtype) for dtype in FLOAT_DTYPES)
        raise NotImplementedError(
            f"input must be one of {expected}, got {input.dtype}; convert it with .to(dtype)"
        )
    if not fits:
        expected = f"{input.dtype}, or both torch.float32" if is_narrow else f"{input.dtype}"
        if free_parameters:
            expected = "each of a float dtype"
        raise RuntimeError(
            f"weight and bias must be {expected} to go with an input of {input.dtype}, "
            f"got {_dtype(weight)} and {_dtype(bias)}; convert with .to(dtype)"
        )


def _typed(value: object) -> str:
    return f"{reprlib.repr(value)} of type {type(value).__name__}"


def _dtype(parameter: Tensor | None) -> str:
    return "None" if parameter is None else str(parameter.dtype)
