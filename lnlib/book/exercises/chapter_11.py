"""Chapter 11: γ and β in training."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from lnlib.book.exercises.answer import Outcome
from lnlib.book.exercises.base import Exercise

all_cut = Exercise(
    "the largest β that surely lets nothing pass the ReLU",
    truth=-2 * math.sqrt(7),
    slips={
        "for γ = 1 that is right; here γ = 2 takes x̂ twice as far": -math.sqrt(7),
        "√8 bounds the length of x̂; one value of eight gets no further than √7": -2 * math.sqrt(8),
        "γ = 2 doubles x̂, and one value of eight gets no further than √7": -math.sqrt(8),
        "the sign: β must pull down what x̂ lifts": 2 * math.sqrt(7),
        "take the root: a value is at most √(H − 1)": -14,
    },
    within=0.01,
    ask="answer with a number",
    why=(
        "No x̂ of eight features is above √7, so 2x̂ + β is never above 0, and the ReLU passes "
        "neither a value nor a gradient."
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
    "the loss before each step, from given first values of γ and β",
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
