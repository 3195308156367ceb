"""The door of lnlib: one function, checked as PyTorch checks, that dispatches to a backend."""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from lnlib import arguments, closed_form, composed, cpp_kernel, in_graph, triton_kernel
from lnlib.closed_form import LayerNormFunction, Passes
from lnlib.cpp_kernel import quick
from lnlib.modes import ORDINARY, Mode, mode_of, shown_as, untraced

PASSES: dict[str, Passes] = {
    "reference": closed_form.IN_BLOCKS,
    "cpp": cpp_kernel.PASSES,
    "triton": triton_kernel.PASSES,
}
BACKENDS = ("reference", "cpp", "torch", "triton")


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
    ones with the same type of exception, and returns the same shape and dtype. Whoever overrides
    PyTorch's functions by ``__torch_function__``, as subclasses of Tensor, modes and `torch.fx` do,
    is asked about this one too.

    Args:
        input: ``(..., *normalized_shape)``; float16, bfloat16, float32 or float64, any strides.
            There may be no rows at all. Jagged and nested tensors are normalized part by part.
        normalized_shape: a tuple or list of ints, the sizes of the trailing dimensions that share
            one mean and one variance.
        weight: ``normalized_shape``, the dtype of ``input``, or float32 when ``input`` is narrower,
            a mix that PyTorch takes on a CPU alone; None means 1. With "triton", any of the four
            dtypes.
        bias: like ``weight``; when both are given they have one dtype. With "triton", each has its
            own. None means 0.
        eps: added to the variance, so in units of ``input`` squared. Not checked: a negative one
            gives NaN where it outweighs the variance, as in PyTorch.
        backend: "auto" is "triton" on a GPU for which there is Triton, "cpp" for ordinary
            tensors on a CPU where there is g++, and "reference" elsewhere; `lnlib.backends` tells
            what it is here. "reference" is plain PyTorch on any device, with the gradient in closed
            form (see `lnlib.closed_form`) or, where that cannot be, composed (see
            `lnlib.composed`); "cpp" is `lnlib.cpp_kernel`, compiled at the first call for a dtype;
            "triton" is the kernels of `lnlib.triton_kernel`, interpreted on a CPU, which is slow;
            "torch" is `torch.nn.functional.layer_norm` itself, with its errors, to compare with.
            Its higher derivatives can be wrong: see "When it goes wrong" in the book. Under a
            transform of `torch.func`, under a dispatch mode and for meta tensors the formula runs
            instead of "cpp" and "triton", which then ask for nothing. In a graph of
            `torch.compile` these two are one operator; where there is no C++, and with "auto" below
            131,072 values, the formula stands instead of "cpp". In a program of `torch.export` or
            `torch.jit.trace`, which may be loaded where there is no lnlib, "auto" and "cpp" are
            "torch": one ``aten.layer_norm``, with PyTorch's accuracy, between casts if input and
            parameters are of two dtypes; "reference" writes the formula into it, "triton" its
            operator.

    Returns:
        ``(..., *normalized_shape)``, contiguous, the dtype of ``input``; float32 under autocast,
        except on the CPU, where autocast leaves layer norm alone. What a row gets depends on no
        other row, to the last bit: see "Batch invariance" in the book. A row whose squares overflow
        in the arithmetic, which float64 and bfloat16 on a CPU allow, is NaN.

    Raises:
        TypeError: if an argument is not of its type; an int is not a ``normalized_shape``.
        RuntimeError: if shapes, devices or dtypes do not fit together, or a tensor is sparse, or
            its memory has been freed; with "cpp", if ``input`` is not on a CPU, or the C++ cannot
            be compiled. In the backward pass, if ``input`` or ``weight`` has been changed in place,
            or by a hook of ``saved_tensors_hooks`` into another kind of tensor.
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
    if backend in ("auto", "cpp"):
        y = quick.layer_norm(input, normalized_shape, weight, bias, eps)
        if y is not None:
            return y
    tensors, given = (input, weight, bias), (input, normalized_shape, weight, bias, eps)
    if has_torch_function(tensors):
        overridden: Tensor = handle_torch_function(layer_norm, tensors, *given, backend=backend)
        return overridden
    check_backend(backend)
    if backend == "torch":
        return F.layer_norm(input, normalized_shape, weight, bias, eps)
    arguments.check_types(input, weight, bias)
    shape, eps = arguments.as_sizes(normalized_shape), arguments.as_float(eps)
    if input.is_nested and input.layout == torch.strided:
        return _of_each_part(input, shape, weight, bias, eps, backend)
    with untraced():
        arguments.check_shapes(input, shape, weight, bias)
    arguments.check_placement(input, weight, bias)
    input, weight, bias = arguments.autocast(input, weight, bias)
    arguments.check_dtypes(input, weight, bias, free_parameters=backend == "triton")
    mode = mode_of(input, weight, bias)
    if backend == "auto":
        backend = best_backend(input.dtype, input.device.type, mode)
        if mode == "graph" and backend == "cpp" and not in_graph.is_worth(input):
            backend = "reference"
    with shown_as("lnlib::layer_norm"):
        return _dispatch(mode, backend, input, shape, weight, bias, eps)


def _dispatch(
    mode: Mode,
    backend: str,
    input: Tensor,
    shape: tuple[int, ...],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """Compute it in a way that is right in this mode; see `lnlib.modes`."""
    if mode in ORDINARY:
        # The Function is right in reverse mode of any order.
        with torch.no_grad() if torch.is_inference_mode_enabled() else nullcontext():
            given = input, shape, weight, bias, eps, PASSES[backend]
            y: Tensor = LayerNormFunction.apply(*given)  # type: ignore[no-untyped-call]
        return y
    if mode == "program" and backend in ("cpp", "torch"):
        return _one_operator(input, shape, weight, bias, eps)
    if mode != "other" and in_graph.takes(mode, backend, input.dtype, input.device.type):
        # One operator, opaque to the compiler, that brings its gradient along.
        return in_graph.layer_norm(input, shape, weight, bias, eps, backend)
    # Plain PyTorch is right everywhere, and what a compiler sees it can fuse. In nested forward
    # mode a Function is silently wrong, and one with a jvp stops torch.compile(fullgraph=True).
    return composed.layer_norm(input, shape, weight, bias, eps)


def _one_operator(
    input: Tensor,
    shape: tuple[int, ...],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """Compute it by one operator that every runtime knows; where it runs there may be no lnlib.

    Many runtimes have no operator for two dtypes, a narrow input and float32 parameters: then it
    stands between casts, as PyTorch's own kernel computes it, up to a rounding.
    """
    dtype = next((p.dtype for p in (weight, bias) if p is not None), input.dtype)
    if dtype == input.dtype:
        return F.layer_norm(input, shape, weight, bias, eps)
    return F.layer_norm(input.to(dtype), shape, weight, bias, eps).to(input.dtype)


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
    """Return the backend that "auto" means for a ``dtype`` on a type of device.

    On a CPU the Triton kernels would be interpreted: good for reading and testing, too slow for
    use. Where no kernel would run, nobody needs to look for a GPU or a compiler.
    """
    if mode == "program":
        return "torch"
    may_run = mode in ("eager", "graph")
    if may_run and device == "cuda" and triton_kernel.runs_on_gpu():
        return "triton"
    has_cpp = mode == "eager" and cpp_kernel.why_not(dtype, device) is None
    has_cpp = has_cpp or (mode == "graph" and in_graph.takes(mode, "cpp", dtype, device))
    return "cpp" if has_cpp else "reference"


def check_backend(backend: str) -> None:
    """Raise ValueError, naming the backends there are, unless ``backend`` is one of them."""
    if backend != "auto" and backend not in BACKENDS:
        names = ", ".join(f'"{name}"' for name in ("auto", *BACKENDS))
        raise ValueError(f"this lnlib has no backend {backend!r}; choose one of {names}")
