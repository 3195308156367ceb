"""The layer-normalized LSTM with its gradient derived by hand: one Function for a whole sequence.

Both passes are a backend's, as `lnlib.lstm.passes` describes: `lnlib.lstm.cpp` goes through all
steps in one call, `lnlib.lstm.stepwise` makes passes of single steps.

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

from lnlib import saved
from lnlib.lstm import formula
from lnlib.lstm.passes import Passes, Results, Settings
from lnlib.lstm.weights import NAMES, Weights
from lnlib.modes import is_recording_gradients, mode_of, shown_as

NAMES_OF_GIVEN = "input", "h", "c", *NAMES


def lstm(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weights: Weights,
    batch_sizes: Sequence[int],
    eps: float,
    carry: str,
    passes: Passes,
) -> Results:
    """Do what `lnlib.lstm.formula.lstm` does, for ordinary tensors of one dtype, with ``passes``.

    The gradient is right to any order: one that is to be differentiated itself is computed by
    going through the loop.
    """
    settings = Settings(tuple(batch_sizes), eps, carry, passes)
    given = (x, h, c, *weights)
    result: Results
    wanted = any(tensor is not None and tensor.requires_grad for tensor in given)
    if not (wanted and is_recording_gradients()):
        result = _forward(settings, given, keeps=False)[0]
        return result
    result = LayerNormLSTMFunction.apply(settings, *given)  # type: ignore[no-untyped-call]
    return result


def _forward(settings: Settings, given: Sequence[Any], *, keeps: bool) -> Any:
    x, h, c, *weights = given
    with shown_as("lnlib::lstm"):
        return settings.passes.forward(settings, x, h, c, Weights(*weights), keeps=keeps)


class LayerNormLSTMFunction(torch.autograd.Function):
    """The passes of a backend, for ordinary tensors in eager mode."""

    @staticmethod
    def forward(ctx: Any, settings: Settings, *given: Any) -> Any:
        """Go through the sequences, and keep what the way back needs."""
        result, kept = _forward(settings, given, keeps=True)
        made = result[0], *kept
        ctx.settings = settings
        ctx.save_for_backward(*given, *made)
        ctx.kinds = saved.kinds_of(*given, *made)
        return result

    @staticmethod
    def backward(ctx: Any, dy: Tensor, dh: Tensor, dc: Tensor) -> Any:
        """Return the gradients of what was given, None for the settings."""
        found = ctx.saved_tensors  # once: checkpoint computes them when they are read
        settings: Settings = ctx.settings
        given, made = found[:10], found[10:]
        saved.check(NAMES_OF_GIVEN, found, ctx.kinds)
        is_plain = mode_of(dy, dh, dc, *found) == "eager" and not torch.is_grad_enabled()
        if not is_plain or saved.kinds_of(*made) != ctx.kinds[10:]:
            # This pass is differentiated, mapped or recorded, or a hook took digits away.
            return None, *_gradients_of_loop(given, settings, (dy, dh, dc))
        x, h, c, *rest = given
        outputs, *kept = made
        needs = ctx.needs_input_grad[1], any(ctx.needs_input_grad[4:])
        with shown_as("lnlib::lstm_backward"):
            return None, *settings.passes.backward(
                settings, (x, h, c, Weights(*rest)), outputs, kept, (dy, dh, dc), needs
            )


def _gradients_of_loop(
    given: tuple[Any, ...], settings: Settings, grads: tuple[Tensor, ...]
) -> list[Tensor | None]:
    batch_sizes, eps, carry, _ = settings
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
