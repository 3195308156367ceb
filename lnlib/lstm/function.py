"""One direction of one layer over packed sequences: by a kernel, or by the loop of the formula.

A kernel is one node of autograd, with its gradient derived by hand: `lnlib.lstm.cpp` goes through
all steps in one call, and `lnlib.lstm.triton_steps` launches one kernel a step. Each is a module
with two functions:

* ``forward(settings, x, h, c, weights, keeps)`` returns what `lnlib.lstm.formula.lstm` does, and a
  list of what ``backward`` needs besides if ``keeps``, else an empty one;
* ``backward(settings, (x, h, c, weights), outputs, kept, grads, needs)`` returns the gradients of
  x, h, c and each weight. ``needs`` tells whether those of x and of the weights are wanted; where
  they are not, they are None.

With ``g = γ ⊙ dy``, layer norm's gradient is ``J(g) = rstd (g - mean(g) - x̂ mean(g ⊙ x̂))``. As g
is taken, what PyTorch calls the gate g is called the candidate in all of `lnlib.lstm`. One step
back through time, from dh and dc, is::

    dn = dh ⊙ sigmoid(o) ⊙ (1 - tanh² n)
    dc = dc + J(γ_c ⊙ dn)                   the layer norm of the cell
    dv = dc, or dh for the output gate, times the slopes of the gates
    da = J(γ_h ⊙ dv)                        the layer norm of W_h h
    dh = W_hᵀ da,  dc = dc ⊙ sigmoid(f)     for the step before
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lnlib import saved, triton_kernel
from lnlib.cpp_kernel import library
from lnlib.lstm import checks, cpp, formula, norm, triton_steps
from lnlib.lstm.formula import NAMES, Results, Settings, Weights
from lnlib.modes import is_recording_gradients, mode_of, shown_as
from lnlib.triton_kernel import runtime

BACKENDS = ("auto", "reference", "cpp", "triton")


def check_backend(backend: str) -> None:
    """Raise ValueError, naming the backends there are, unless ``backend`` is one of them."""
    if backend not in BACKENDS:
        names = ", ".join(f'"{name}"' for name in BACKENDS)
        raise ValueError(f"this LSTM has no backend {backend!r}; choose one of {names}")
    if backend == "triton":
        triton_kernel.check_installed()


def best_backend(dtype: torch.dtype, device: str) -> str:
    """Return what "auto" means for a ``dtype`` on a type of device."""
    if device == "cuda" and triton_kernel.runs_on_gpu():
        return "triton"
    return "reference" if cpp.why_not(dtype, device) else "cpp"


def kernel_for(backend: str, input: Tensor, hidden_size: int) -> Any:
    """Return the module of a kernel, or None where the loop is to run.

    Raises:
        RuntimeError: if "cpp" is asked for, and ``input`` is not float32 on a CPU, or
            lnlib was installed without its C++.
        NotImplementedError, ImportError: if "triton" is, and cannot be had.
    """
    name = best_backend(input.dtype, input.device.type) if backend == "auto" else backend
    if name == "cpp":
        library.check(input, cpp.why_not(input.dtype, input.device.type))
        return cpp
    if name == "triton":
        runtime.check(input.device)
        return triton_steps if triton_steps.takes(input.dtype, hidden_size) else None
    return None


def lstm(
    x: Tensor, h: Tensor, c: Tensor, weights: Weights, settings: Settings, backend: str
) -> Results:
    """Do what `lnlib.lstm.formula.lstm` does.

    Autocast narrows all to its dtype first, as it does for PyTorch's LSTM on a GPU; float64 stays.
    """
    given: list[Any] = [x, h, c, *weights]
    device = x.device.type
    if checks.is_autocast(device):
        dtype = torch.get_autocast_dtype(device)
        x, h, c, *of_layer = (
            t.to(dtype) if t is not None and checks.is_narrowed(t) else t for t in given
        )
        with torch.autocast(device, enabled=False):
            return lstm(x, h, c, Weights(*of_layer), settings, backend)
    normalize = formula.normalizing(settings.eps)
    if mode_of(*given) == "eager":
        kernel = kernel_for(backend, x, h.shape[-1])
        if kernel is not None:
            return _by_kernel(kernel, settings, given)
        normalize = norm.normalizing(settings.eps)
    return formula.lstm(x, h, c, weights, settings.batch_sizes, normalize, settings.carry)


def _by_kernel(kernel: Any, settings: Settings, given: Sequence[Any]) -> Results:
    result: Results
    with shown_as("lnlib::lstm"):
        if is_recording_gradients() and any(t is not None and t.requires_grad for t in given):
            result = LayerNormLSTMFunction.apply(kernel, settings, *given)  # type: ignore[no-untyped-call]
        else:
            x, h, c, *weights = given
            result, _ = kernel.forward(settings, x, h, c, Weights(*weights), False)
    return result


class LayerNormLSTMFunction(torch.autograd.Function):
    """The passes of a kernel, for ordinary tensors in eager mode; right to any order.

    A gradient that is to be differentiated itself is computed by going through the loop.
    """

    @staticmethod
    def forward(ctx: Any, kernel: Any, settings: Settings, *given: Any) -> Any:
        """Go through the sequences, and keep what the way back needs."""
        x, h, c, *weights = given
        result, kept = kernel.forward(settings, x, h, c, Weights(*weights), True)
        ctx.kernel, ctx.settings = kernel, settings
        ctx.save_for_backward(*given, result[0], *kept)
        ctx.kinds = saved.kinds_of(*given, result[0], *kept)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """Return the gradients of what was given, None for the kernel and the settings."""
        found = ctx.saved_tensors  # once: checkpoint computes them when they are read
        kinds = saved.kinds_of(*found)
        if kinds != ctx.kinds:
            saved.check(("input", "h", "c", *NAMES), found, ctx.kinds)
        is_plain = not torch.is_grad_enabled() and mode_of(*grads, *found) == "eager"
        if not is_plain or kinds != ctx.kinds:
            # This pass is differentiated, mapped or recorded, or a hook took digits away.
            return None, None, *_gradients_of_loop(found[:10], ctx.settings, grads)
        x, h, c, *weights = found[:10]
        outputs, *kept = found[10:]
        needs = ctx.needs_input_grad[2], any(ctx.needs_input_grad[5:])
        given = x, h, c, Weights(*weights)
        with shown_as("lnlib::lstm_backward"):
            found = ctx.kernel.backward(ctx.settings, given, outputs, kept, grads, needs)
        return None, None, *found


def _gradients_of_loop(
    given: tuple[Any, ...], settings: Settings, grads: tuple[Tensor, ...]
) -> list[Tensor | None]:
    batch_sizes, eps, carry = settings
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views, so that what an argument was itself computed from is not counted here.
        views: list[Any] = [None if t is None else t.view_as(t) for t in given]
        x, h, c, *weights = views
        normalize = formula.normalizing(eps)
        result = formula.lstm(x, h, c, Weights(*weights), batch_sizes, normalize, carry)
    wanted = [view for view in views if view is not None and view.requires_grad]
    # One step's raw cell depends on less than its output does, and maybe on nothing wanted.
    reached = [(y, dy) for y, dy in zip(result, grads, strict=True) if y.requires_grad]
    ys, dys = zip(*reached, strict=True)
    found = iter(torch.autograd.grad(ys, wanted, dys, create_graph=create_graph))
    return [next(found) if view is not None and view.requires_grad else None for view in views]
