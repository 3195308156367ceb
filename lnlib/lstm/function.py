"""The layer-normalized LSTM as one node of autograd, with its gradient derived by hand.

Both passes are a kernel's: `lnlib.lstm.cpp` goes through all steps in one call, and
`lnlib.lstm.triton_steps` launches one kernel a step. Each is a module with two functions:

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
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lnlib import saved
from lnlib.lstm import formula
from lnlib.lstm.formula import Weights
from lnlib.modes import is_recording_gradients, mode_of, shown_as

Results = tuple[Tensor, Tensor, Tensor]  # outputs (N, H), last h and last c (B, H); or gradients
Gradients = tuple[Tensor | None, ...]  # of x, h, c and the weights


class Settings(NamedTuple):
    """What a run depends on besides tensors; see `lnlib.lstm.formula.lstm`."""

    batch_sizes: tuple[int, ...]
    eps: float
    carry: str


def lstm(kernel: Any, settings: Settings, *given: Tensor | None) -> Results:
    """Do what `lnlib.lstm.formula.lstm` does, for ordinary tensors x, h, c and weights.

    The gradient is right to any order: one that is to be differentiated itself is computed by
    going through the loop.
    """
    wanted = any(tensor is not None and tensor.requires_grad for tensor in given)
    result: Results
    if wanted and is_recording_gradients():
        result = LayerNormLSTMFunction.apply(kernel, settings, *given)  # type: ignore[no-untyped-call]
    else:
        result = _forward(kernel, settings, given, keeps=False)[0]
    return result


def _forward(
    kernel: Any, settings: Settings, given: Sequence[Any], *, keeps: bool
) -> tuple[Results, list[Tensor]]:
    x, h, c, *weights = given
    found: tuple[Results, list[Tensor]]
    with shown_as("lnlib::lstm"):
        found = kernel.forward(settings, x, h, c, Weights(*weights), keeps)
    return found


class LayerNormLSTMFunction(torch.autograd.Function):
    """The passes of a kernel, for ordinary tensors in eager mode."""

    @staticmethod
    def forward(ctx: Any, kernel: Any, settings: Settings, *given: Any) -> Any:
        """Go through the sequences, and keep what the way back needs."""
        result, kept = _forward(kernel, settings, given, keeps=True)
        made = result[0], *kept
        ctx.kernel, ctx.settings = kernel, settings
        ctx.save_for_backward(*given, *made)
        ctx.kinds = saved.kinds_of(*given, *made)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """Return the gradients of what was given, None for the kernel and the settings."""
        found = ctx.saved_tensors  # once: checkpoint computes them when they are read
        given, made = found[:10], found[10:]
        kinds = saved.kinds_of(*found)
        if kinds != ctx.kinds:
            saved.check(("input", "h", "c", *formula.NAMES), found, ctx.kinds)
        is_plain = not torch.is_grad_enabled() and mode_of(*grads, *found) == "eager"
        if not is_plain or kinds != ctx.kinds:
            # This pass is differentiated, mapped or recorded, or a hook took digits away.
            return None, None, *_gradients_of_loop(given, ctx.settings, grads)
        x, h, c, *weights = given
        outputs, *kept = made
        needs = ctx.needs_input_grad[2], any(ctx.needs_input_grad[5:])
        with shown_as("lnlib::lstm_backward"):
            given = x, h, c, Weights(*weights)
            return (
                None,
                None,
                *ctx.kernel.backward(ctx.settings, given, outputs, kept, grads, needs),
            )


def _gradients_of_loop(
    given: tuple[Any, ...], settings: Settings, grads: tuple[Tensor, ...]
) -> list[Tensor | None]:
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views, so that what an argument was itself computed from is not counted here.
        views: list[Any] = [None if t is None else t.view_as(t) for t in given]
        x, h, c, *weights = views
        normalize = formula.normalizing(settings.eps)
        of_weights = Weights(*weights), settings.batch_sizes
        result = formula.lstm(x, h, c, *of_weights, normalize, settings.carry)
    wanted = [view for view in views if view is not None and view.requires_grad]
    # One step's raw cell depends on less than its output does, and maybe on nothing wanted.
    reached = [(y, dy) for y, dy in zip(result, grads, strict=True) if y.requires_grad]
    ys, dys = zip(*reached, strict=True)
    found = iter(torch.autograd.grad(ys, wanted, dys, create_graph=create_graph))
    return [next(found) if view is not None and view.requires_grad else None for view in views]
