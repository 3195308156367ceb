"""Calls that are not simple are checked as PyTorch checks them, and dispatched by their mode."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from lnlib import autograd, composed, cpp_kernel, in_graph, reference, refusals, triton_kernel
from lnlib.autograd import Passes
from lnlib.modes import ORDINARY, Mode, mode_of, shown_as

PASSES: dict[str, Passes] = {
    "reference": Passes(reference.forward, reference.backward, reference.kept_dtype),
    "cpp": cpp_kernel.PASSES,
    "triton": triton_kernel.PASSES,
}
BACKENDS = ("reference", "cpp", "torch", "triton")


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    backend: str,
) -> Tensor:
    """Do what `lnlib.layer_norm` says."""
    check_backend(backend)
    if isinstance(input, Tensor) and input.is_nested and input.layout == torch.strided:
        return _of_each_part(input, normalized_shape, weight, bias, eps, backend)
    shape, eps = refusals.as_pytorch_reads(input, normalized_shape, weight, bias, eps)
    input, weight, bias = refusals.autocast(input, weight, bias)
    if not refusals.are_taken(input, weight, bias, free_parameters=backend == "triton"):
        return refusals.by_pytorch(input, shape, weight, bias, eps)
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
    """Compute it by what is right in this mode; see `lnlib.modes`."""
    if mode in ORDINARY:
        # One node of autograd, right in reverse mode of any order.
        return autograd.layer_norm(input, shape, weight, bias, eps, PASSES[backend])
    if mode == "program" and backend in ("cpp", "torch"):
        return _one_operator(input, shape, weight, bias, eps)
    if mode != "other" and in_graph.takes(mode, backend, input.dtype, input.device.type):
        # One operator, which the compiler cannot look into, with its gradient.
        return in_graph.layer_norm(input, shape, weight, bias, eps, backend)
    # Plain PyTorch is right everywhere, and a compiler can fuse it. In nested forward mode a
    # Function is silently wrong, and one with a jvp stops torch.compile(fullgraph=True).
    return composed.layer_norm(input, shape, weight, bias, eps)


def _one_operator(
    input: Tensor,
    shape: tuple[int, ...],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """Compute it by PyTorch's operator, which every runtime knows; there may be no lnlib there.

    Many runtimes have no operator for a narrow input with float32 parameters. For these it stands
    between casts, which is what PyTorch's own kernel computes, up to a rounding.
    """
    dtype = next((p.dtype for p in (weight, bias) if p is not None), input.dtype)
    if dtype == input.dtype:
        return F.layer_norm(input, shape, weight, bias, eps)
    return F.layer_norm(input.to(dtype), shape, weight, bias, eps).to(input.dtype)


def _of_each_part(
    nested: Tensor,
    shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    backend: str,
) -> Tensor:
    """Normalize the parts of a nested tensor, which has no shape of its own."""
    parts = nested.unbind()
    if not parts:
        return refusals.by_pytorch(nested, shape, weight, bias, eps)
    found = [layer_norm(part, shape, weight, bias, eps, backend) for part in parts]
    return torch.nested.as_nested_tensor(found)


def best_backend(dtype: torch.dtype, device: str, mode: Mode) -> str:
    """Return the backend that "auto" means for a ``dtype`` on a type of device.

    On a CPU the Triton kernels would be interpreted: good for reading and testing, too slow for
    use. Where no kernel would run, no GPU and no library is looked for.
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
