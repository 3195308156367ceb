"""What `lnlib.layer_norm` refuses: what PyTorch's refuses, with the same type of exception.

Arguments of other types or shapes PyTorch itself refuses, in its words. Devices, layouts and dtypes
are looked at here, since each of its devices takes others.
"""

import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lnlib.modes import is_traced, untraced

FLOAT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
HINT = (
    "normalized_shape is a tuple or list of the sizes of input's last dimensions, such as (H,), "
    "and the shape of weight and bias"
)


def as_pytorch_reads(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[tuple[int, ...], float]:
    """Return the sizes as a tuple and eps as a float; raise what PyTorch raises for wrong ones."""
    if not _is_plain(input, normalized_shape, weight, bias, eps):
        x, w, b = (_without_numbers(given) for given in (input, weight, bias))
        with untraced():
            try:
                F.layer_norm(x, normalized_shape, w, b, eps)
            except (TypeError, RuntimeError) as error:
                error.add_note(HINT)
                raise
    sizes = (s if isinstance(s, _SIZES) else operator.index(s) for s in normalized_shape)
    return tuple(sizes), float(eps)


def _is_plain(
    input: object, normalized_shape: object, weight: object, bias: object, eps: object
) -> bool:
    """Tell whether types are those that nearly every call has, and shapes fit together."""
    if not (isinstance(input, Tensor) and isinstance(normalized_shape, (tuple, list))):
        return False
    if not normalized_shape or not isinstance(eps, (float, int)):
        return False
    for size in normalized_shape:
        if type(size) not in _SIZES or (isinstance(size, Tensor) and not is_traced()):
            return False
    shape = tuple(normalized_shape)
    with untraced():
        if tuple(input.shape[-len(shape) :]) != shape:
            return False
        for parameter in (weight, bias):
            if parameter is None:
                continue
            if not isinstance(parameter, Tensor) or tuple(parameter.shape) != shape:
                return False
    return True


_SIZES = int, torch.SymInt, Tensor  # in a trace a size is a tensor, another in each call


def _without_numbers(given: Any) -> Any:
    return torch.empty(given.shape, device="meta") if isinstance(given, Tensor) else given


def autocast(*tensors: Tensor | None) -> list[Any]:
    """Widen to float32 where autocast would widen the arguments of PyTorch's own layer norm.

    Autocast intercepts calls into PyTorch's layer norm, and a backend need not make one.
    """
    return [
        tensor.float()
        if tensor is not None
        and tensor.device.type not in ("cpu", "meta")
        and torch.is_autocast_enabled(tensor.device.type)
        and tensor.is_floating_point()
        and tensor.itemsize < 4
        else tensor
        for tensor in tensors
    ]


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
        found = " and ".join(str(dtype) for dtype in given)
        raise RuntimeError(
            f"weight and bias must be {'of float dtypes' if free_parameters else expected} to go "
            f"with an input of {input.dtype}, got {found}; convert with .to(dtype)"
        )
