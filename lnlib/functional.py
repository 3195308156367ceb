"""The door of lnlib: one function, checked as PyTorch checks, that dispatches to a backend."""

import operator
import reprlib
from collections.abc import Callable, Sequence
from numbers import Real
from typing import SupportsIndex

import torch
import torch.nn.functional as F
from torch import Tensor

from lnlib import cpu_kernel, function, pytorch, reference, triton_kernel
from lnlib.dispatch import Mode, mode_of

Backend = Callable[[Tensor, Sequence[int], Tensor | None, Tensor | None, float], Tensor]

# What runs, by mode and backend. A Function has the gradient in closed form, but is for eager mode
# alone: PyTorch's machinery for Functions is silently wrong in nested forward mode, and one with a
# jvp stops torch.compile(fullgraph=True). The composed formula is plain PyTorch, right everywhere.
DISPATCH: dict[Mode, dict[str, Backend]] = {
    # Ordinary tensors: the Functions are right in reverse mode, of any order. PyTorch's own is up
    # to the second; the third would be silently wrong, and raises.
    "eager": {
        "reference": function.layer_norm,
        "cpp": cpu_kernel.layer_norm,
        "torch": pytorch.layer_norm,
        "triton": triton_kernel.layer_norm,
    },
    # The same Function, but in operations that can be seen: a kernel would show none.
    "watched": {
        "reference": function.layer_norm,
        "cpp": function.layer_norm,
        "torch": pytorch.layer_norm,
        "triton": function.layer_norm,
    },
    # A tangent of forward_ad, perhaps with reverse mode around it. PyTorch's own is right for a
    # tangent alone; where the input requires a gradient too, it raises.
    "dual": {
        "reference": reference.layer_norm,
        "cpp": reference.layer_norm,
        "torch": pytorch.layer_norm,
        "triton": reference.layer_norm,
    },
    # jvp, vjp and vmap of torch.func, nested in any way. PyTorch's own raises for the nestings that
    # `lnlib.pytorch` lists. An operator with a kernel behind it would drop the tangents.
    "transform": {
        "reference": reference.layer_norm,
        "cpp": reference.layer_norm,
        "torch": pytorch.layer_norm,
        "triton": reference.layer_norm,
    },
    # Being compiled, exported or traced: the compiler is to see the formula, and fuse it, or to see
    # one operator with its gradient. Of PyTorch's own, nothing here can see which derivatives will
    # be asked for.
    "graph": {
        "reference": reference.layer_norm,
        "cpp": reference.layer_norm,
        "torch": F.layer_norm,
        "triton": triton_kernel.in_graph,
    },
    "graph of a transform": {
        "reference": reference.layer_norm,
        "cpp": reference.layer_norm,
        "torch": F.layer_norm,
        "triton": reference.layer_norm,
    },
    # Jagged, fake and meta tensors, and whatever else overrides what an operation means.
    "other": {
        "reference": reference.layer_norm,
        "cpp": reference.layer_norm,
        "torch": pytorch.layer_norm,
        "triton": reference.layer_norm,
    },
}
BACKENDS = tuple(DISPATCH["eager"])

FLOAT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    backend: str = "auto",
) -> Tensor:
    """Normalize the trailing dimensions of ``input``, then scale and shift.

    A drop-in for `torch.nn.functional.layer_norm`: it accepts the same arguments, refuses the same
    ones with the same type of exception, and returns the same shape and dtype.

    Args:
        input: ``(..., *normalized_shape)``; float16, bfloat16, float32 or float64, any strides.
            There may be no rows at all. Jagged and nested tensors are normalized part by part.
        normalized_shape: a tuple or list of ints, the sizes of the trailing dimensions that share
            one mean and one variance.
        weight: ``normalized_shape``, the dtype of ``input``, or float32 when ``input`` is narrower;
            None means 1. With "triton", beyond what PyTorch allows, any of the four dtypes.
        bias: like ``weight``; when both are given they have one dtype. With "triton", each has its
            own. None means 0.
        eps: added to the variance, so in units of ``input`` squared. Not checked: a negative one
            gives NaN where it outweighs the variance, as in PyTorch.
        backend: "auto" is "triton" on a GPU for which there is Triton, "cpp" for ordinary float32
            tensors on a CPU where there is g++, and "reference" elsewhere; `lnlib.backends` tells
            what it is here. "reference" is plain PyTorch on any device, with the gradient in closed
            form (see `lnlib.function`) or, where that cannot be, composed (see `lnlib.reference`);
            "cpp" is `lnlib.cpu_kernel`, compiled at the first call; "triton" is the kernels of
            `lnlib.triton_kernel`, interpreted on a CPU, which is slow; "torch" is
            `torch.nn.functional.layer_norm` itself, to compare with.

    Returns:
        ``(..., *normalized_shape)``, contiguous, the dtype of ``input``; float32 under autocast,
        except on the CPU, where autocast leaves layer norm alone.

    Raises:
        TypeError: if an argument is not of its type; an int is not a ``normalized_shape``.
        RuntimeError: if shapes, devices or dtypes do not fit together, or a tensor is sparse, or
            its memory has been freed; with "cpp", if ``input`` is not float32 on a CPU, or the C++
            cannot be compiled; with "torch", also where PyTorch's higher derivatives are wrong,
            unless compiled or traced (see `lnlib.pytorch`).
        NotImplementedError: if ``input`` is of no float dtype that PyTorch normalizes; with
            "triton", also if it is neither on a GPU nor on a CPU.
        ValueError: if there is no such ``backend``.
        ImportError: with "triton", if Triton is missing, or older than 3.6.

    Source: Ba, Kiros, Hinton 2016, eq. 3 to 5, with PyTorch's eps; see `lnlib.formula`.

    >>> x = torch.tensor([[1.0, 2.0, 3.0], [7.0, 7.0, 7.0]])
    >>> layer_norm(x, (3,), bias=torch.full((3,), 0.5))
    tensor([[-0.7247,  0.5000,  1.7247],
            [ 0.5000,  0.5000,  0.5000]])
    """
    check_backend(backend)
    _check_types(input, weight, bias)
    shape = _as_sizes(normalized_shape)
    eps = _as_float(eps)
    if input.is_nested and input.layout == torch.strided:
        return _of_each_part(input, shape, weight, bias, eps, backend)
    _check_shapes(input, shape, weight, bias)
    _check_placement(input, weight, bias)
    input, weight, bias = _autocast(input, weight, bias)
    _check_dtypes(input, weight, bias, free_parameters=backend == "triton")
    mode = mode_of(input, weight, bias)
    if backend == "auto":
        backend = best_backend(input.dtype, input.device.type, mode)
    return DISPATCH[mode][backend](input, shape, weight, bias, eps)


def _of_each_part(
    nested: Tensor,
    shape: tuple[int, ...],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    backend: str,
) -> Tensor:
    """Normalize the parts of a nested tensor, which has no sizes that one could ask for."""
    parts = nested.unbind()
    if not parts:
        raise RuntimeError(f"input must end in normalized_shape {shape}, got no parts in it")
    found = [layer_norm(part, shape, weight, bias, eps, backend=backend) for part in parts]
    return torch.nested.as_nested_tensor(found)


def best_backend(dtype: torch.dtype, device: str, mode: Mode) -> str:
    """Return what "auto" means for a ``dtype`` on a type of device: "triton", "cpp", "reference".

    On a CPU the Triton kernels would be interpreted: good for reading and testing, too slow for
    use.
    """
    row = DISPATCH[mode]
    # Where all are the same, as under a transform, nobody needs to look for a GPU or a compiler.
    differs = {name for name in ("triton", "cpp") if row[name] is not row["reference"]}
    if "triton" in differs and device == "cuda" and triton_kernel.runs_on_gpu():
        return "triton"
    has_cpp = "cpp" in differs and cpu_kernel.why_not(dtype, device) is None
    return "cpp" if has_cpp else "reference"


def check_backend(backend: str) -> None:
    """Raise ValueError, naming the backends there are, unless ``backend`` is one of them."""
    if backend != "auto" and backend not in BACKENDS:
        names = ", ".join(f'"{name}"' for name in ("auto", *BACKENDS))
        raise ValueError(f"this lnlib has no backend {backend!r}; choose one of {names}")


def _check_types(input: Tensor, weight: Tensor | None, bias: Tensor | None) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(f"input must be a Tensor, got {_typed(input)}; see torch.as_tensor")
    for name, parameter in (("weight", weight), ("bias", bias)):
        if not (parameter is None or isinstance(parameter, Tensor)):
            raise TypeError(
                f"{name} must be a Tensor or None, got {_typed(parameter)}; see torch.as_tensor"
            )


def _as_sizes(normalized_shape: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(normalized_shape, (tuple, list)):
        raise TypeError(
            f"normalized_shape must be a tuple or list of ints, got {_typed(normalized_shape)}; "
            "for one dimension of size H write (H,)"
        )
    return tuple(_as_size(size) for size in normalized_shape)


def _as_size(size: int) -> int:
    if isinstance(size, bool) or not isinstance(size, (int, SupportsIndex)):  # True is not 1 here
        raise TypeError(
            f"normalized_shape must hold ints only, got {_typed(size)} in it; "
            "convert its sizes with int()"
        )
    return size if isinstance(size, int) else operator.index(size)


def _as_float(eps: float) -> float:
    if isinstance(eps, Tensor):
        is_number = eps.ndim == 0 and not eps.requires_grad
    else:
        is_number = isinstance(eps, Real)
    if not is_number:
        raise TypeError(
            f"eps must be a float, got {_typed(eps)}; pass one number, to which no gradient flows"
        )
    return float(eps)


def _check_shapes(
    input: Tensor, shape: tuple[int, ...], weight: Tensor | None, bias: Tensor | None
) -> None:
    if not shape:
        raise RuntimeError(
            "normalized_shape must name at least one dimension, got () for an input of shape "
            f"{tuple(input.shape)}; for the last one pass (input.shape[-1],)"
        )
    last = tuple(input.shape[-len(shape) :])
    if last != shape:
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


def _check_placement(input: Tensor, weight: Tensor | None, bias: Tensor | None) -> None:
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


def _autocast(
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


def _check_dtypes(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *, free_parameters: bool
) -> None:
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
