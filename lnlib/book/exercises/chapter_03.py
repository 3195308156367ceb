"""Chapter 03: γ and β."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from lnlib import formula
from lnlib.book.exercises.answer import Outcome
from lnlib.book.exercises.base import Exercise, Search
from lnlib.book.exercises.inputs import normal

_ROW = torch.tensor([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], dtype=torch.float64)


def _rows() -> list[tuple[Tensor, Tensor, Tensor]]:
    return [
        (formula.layer_norm(normal(H, seed=H)), 1 + normal(H, seed=1), 2 + normal(H, seed=2))
        for H in (3, 8)
    ]


row_mean = Exercise(
    "the mean of a row of y",
    truth=lambda x_hat, weight, bias: (weight * x_hat + bias).mean(),
    inputs=_rows(),
    slips={
        "right for one γ only; add what γ favors, its covariance with x̂": lambda x_hat, w, b: (
            b.mean()
        ),
        "β is missing": lambda x_hat, w, b: (w * x_hat).mean(),
        "that is the sum; divide by H": lambda x_hat, w, b: (w * x_hat + b).sum(),
        "γ scales x̂ before β is added, not after": lambda x_hat, w, b: (w * (x_hat + b)).mean(),
        "γ multiplies x̂; it is not added": lambda x_hat, w, b: (w + x_hat + b).mean(),
        "that is y itself; average it": lambda x_hat, w, b: w * x_hat + b,
    },
    within=1e-5,
)


def _layers() -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    shapes = [(5, 3), (4, 4)]  # a square one tells rows from columns as well
    return [
        (normal(*s, seed=0), normal(s[0], seed=1), normal(s[1], seed=2), normal(s[1], seed=3))
        for s in shapes
    ]


fold = Exercise(
    "γ and β folded into the next layer",
    truth=lambda W, b, weight, bias: (W * weight, W @ bias + b),
    inputs=_layers(),
    slips={
        "β goes through W before it meets b": lambda W, b, weight, bias: (
            W * weight,
            b + bias.mean(),
        ),
        "β is missing from the new b": lambda W, b, weight, bias: (W * weight, b),
        "the old b is missing": lambda W, b, weight, bias: (W * weight, W @ bias),
        "β is added after γ, so γ does not scale it": lambda W, b, weight, bias: (
            W * weight,
            (W * weight) @ bias + b,
        ),
        "W is still without γ": lambda W, b, weight, bias: (W, W @ bias + b),
        "do not divide: γ multiplies the columns of W": lambda W, b, weight, bias: (
            W / weight,
            W @ bias + b,
        ),
    },
    within=1e-5,
)


def _undo_inputs() -> list[tuple[Tensor, float]]:
    return [(_ROW, 0.1), (3 + 1e-3 * normal(8, seed=5), 1e-5), (-_ROW, 1e-5)]


undo = Exercise(
    "γ and β that undo the norm for one row",
    truth=lambda x, eps: ((x.var(correction=0) + eps).sqrt(), x.mean()),
    inputs=_undo_inputs(),
    slips={
        "ε is missing: the norm divides by √(σ² + ε), not by σ": lambda x, eps: (
            x.std(correction=0),
            x.mean(),
        ),
        "you return γ and β in the other order": lambda x, eps: (
            x.mean(),
            (x.var(correction=0) + eps).sqrt(),
        ),
        "take the root: γ is a standard deviation": lambda x, eps: (
            x.var(correction=0) + eps,
            x.mean(),
        ),
        "PyTorch's var divides by H − 1; say correction=0": lambda x, eps: (
            (x.var() + eps).sqrt(),
            x.mean(),
        ),
        "that normalizes again; undoing multiplies": lambda x, eps: (
            1 / (x.var(correction=0) + eps).sqrt(),
            x.mean(),
        ),
        "the sign of β is wrong: the norm took μ away, so add it": lambda x, eps: (
            (x.var(correction=0) + eps).sqrt(),
            -x.mean(),
        ),
        "ε goes under the root": lambda x, eps: (x.std(correction=0) + eps, x.mean()),
    },
    within=1e-7,
    ask="return γ and β, one number each",
)


def _why_not_lifted(weight: Tensor) -> str | None:
    if not weight.mean().isfinite():
        return "finite numbers of an ordinary size, please"
    if abs(float(weight.mean()) - 1) > 1e-6:
        return f"your values of γ average {float(weight.mean()):.3g}, not 1"
    lifted = float(formula.layer_norm(_ROW, weight, eps=0.0).mean())
    if lifted < 0.5 - 1e-9:
        where = "where x̂ is large" if lifted > 1e-9 else "where x̂ is positive"
        return f"the mean of y is {lifted:.2f}; make γ larger {where}"
    return None


break_mean = Search(
    "γ that average 1 and lift the mean of y to ½ or more",
    wrong=_why_not_lifted,
    ask="answer with a list of eight numbers",
    shape=(8,),
    why=(
        "The mean of y is the covariance of γ and x̂, which is large if γ is large where x̂ is,"
        " as with [γ = 1 + x̂](#explorer-gamma-beta?weight=-0.5,0.5,0.5,0.5,1,1,2,3)."
    ),
)


_RATE, _STEPS = 0.1, 25


def _drawn(seed: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Return what ``torch.randn`` gives in float32 after ``manual_seed``, as float64."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).double() for shape in shapes]


def _losses(
    gamma: float, beta: float, *, learned: str = "Wγβv", after: bool = False, pile_up: bool = False
) -> list[float]:
    """Train the network of ex-first-values, rightly unless a keyword puts a mistake in."""
    [samples] = _drawn(0, (32, 4))
    W, v = _drawn(6, (8, 4), (8,))
    now = [W, torch.full_like(v, gamma), torch.full_like(v, beta), v / math.sqrt(8)]
    gradients = [torch.zeros_like(t) for t in now]
    curve = []
    for _ in range(_STEPS + after):
        W, weight, bias, v = leaves = [t.detach().requires_grad_() for t in now]
        h = torch.relu(F.layer_norm(samples @ W.T, (8,), weight, bias))
        loss = (h @ v - samples[:, 0].abs()).square().mean()
        curve.append(loss.item())
        new = torch.autograd.grad(loss, leaves)
        gradients = [g + pile_up * old for g, old in zip(new, gradients, strict=True)]
        rates = (_RATE * (name in learned) for name in "Wγβv")
        now = [t - rate * g for t, rate, g in zip(leaves, rates, gradients, strict=True)]
    return curve[after:]


class _Training(Exercise):
    """The losses of training runs, the first and the last of which start from the same values."""

    def _slip(self, given: list[Outcome]) -> str | None:
        # What one run leaves to the next depends on the reader's program: no slip has its numbers.
        if not self._agree(given[:1], given[-1:]):
            return "two runs from the same γ and β differ: give each run fresh weights"
        return super()._slip(given)


first_values = _Training(
    "the loss before each step, from given initial values of γ and β",
    truth=_losses,
    inputs=[(1.0, 0.0), (0.1, 0.5), (1.5, 0.5), (1.0, 0.0)],
    slips={
        "γ and β are swapped": lambda gamma, beta: _losses(beta, gamma),
        "train all four: γ and β are learned too": partial(_losses, learned="Wv"),
        "γ is learned too": partial(_losses, learned="Wβv"),
        "β is learned too": partial(_losses, learned="Wγv"),
        "W and v are learned too": partial(_losses, learned="γβ"),
        "W is learned too": partial(_losses, learned="γβv"),
        "v is learned too": partial(_losses, learned="Wγβ"),
        "take the loss before the step, not after it": partial(_losses, after=True),
        "the gradients pile up: set them to zero before each step": partial(_losses, pile_up=True),
        "your γ starts at 1 whatever gamma is": lambda gamma, beta: _losses(1.0, beta),
        "your β starts at 0 whatever beta is": lambda gamma, beta: _losses(gamma, 0.0),
    },
    within=1e-3,  # float32 is right too; the slips are further off
    ask="return a list of 25 losses",
)
