"""What `lnlib.layer_norm` takes; everything else PyTorch itself refuses, in its own words."""

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
    "and the shape of weight and bias; all are dense, on one device, and of one dtype of "
    f"{', '.join(map(str, FLOAT_DTYPES))}, or weight and bias of float32 beside a narrower input"
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
        tensors: Sequence[Any] = (input, weight, bias)
        is_nested = isinstance(input, Tensor) and input.is_nested  # of a shape that is its own
        x, w, b = tensors if is_nested else map(_without_numbers, tensors)
        with untraced():
            by_pytorch(x, normalized_shape, w, b, eps)
    sizes = (s if isinstance(s, _SIZES) else operator.index(s) for s in normalized_shape)
    return tuple(sizes), float(eps)


def by_pytorch(*given: Any) -> Tensor:
    """Let PyTorch's layer norm raise what it raises, and add what is taken."""
    try:
        return F.layer_norm(*given)
    except (TypeError, RuntimeError) as error:
        error.add_note(HINT)
        raise


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


def are_taken(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, free_parameters: bool
) -> bool:
    """Tell whether all are dense and on one device, and their dtypes go together.

    With ``free_parameters`` each parameter may be of any float dtype.
    """
    parameters = [parameter for parameter in (weight, bias) if parameter is not None]
    dtypes = {parameter.dtype for parameter in parameters}
    if input.dtype not in FLOAT_DTYPES or not dtypes <= {*FLOAT_DTYPES}:
        return False
    is_mixed = input.itemsize < 4 and dtypes == {torch.float32}
    return (free_parameters or dtypes <= {input.dtype} or is_mixed) and all(
        tensor.device == input.device and tensor.layout in (torch.strided, torch.jagged)
        for tensor in (input, *parameters)
    )
