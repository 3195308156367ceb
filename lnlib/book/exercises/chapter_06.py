"""Chapter 06: from equations to an autograd Function."""

from __future__ import annotations

import torch
from torch import Tensor

from lnlib import formula
from lnlib.book.exercises.base import Exercise, Search
from lnlib.book.exercises.inputs import normal

_SAID, _MEANT = 1e-5, 1e-12  # what is written into the Function, and what was asked for


def _layers() -> list[tuple[Tensor, Tensor, Tensor, float]]:
    shapes = [(4, 5), (2, 3, 5)]
    return [
        (normal(*shape, seed=1), normal(*shape, seed=2), normal(5, seed=3), eps)
        for shape, eps in zip(shapes, (0.3, 1e-5), strict=True)
    ]


def _weight_only(
    dy: Tensor,
    x: Tensor,
    weight: Tensor,
    eps: float,
    *,
    without: str = "",
    gamma: str = "first",
    correction: int = 0,
    rows: str = "sum",
) -> tuple[Tensor, Tensor]:
    """Return dx and dγ, right unless a keyword puts a mistake in."""
    t = formula.terms(x, eps=0.0 if without == "eps" else eps, correction=correction)
    g = weight * dy if gamma == "first" else dy
    lost = torch.zeros_like(g)
    if without != "mean":
        lost = lost + g.mean(-1, keepdim=True)
    if without != "x_hat":
        along = (g * t.x_hat).mean(-1, keepdim=True)
        lost = lost + (along if without == "x_hat in front" else t.x_hat * along)
    dx = t.rstd * (g - lost)
    products = dy * t.x_hat
    dweight = {
        "sum": lambda: products.flatten(0, -2).sum(0),
        "mean": lambda: products.flatten(0, -2).mean(0),
        "first": lambda: products.sum(0),
        "g": lambda: (g * t.x_hat).flatten(0, -2).sum(0),
    }[rows]()
    return (weight * dx if gamma == "last" else dx), dweight


weight_only = Exercise(
    "the backward of a layer norm with γ and without β",
    truth=lambda dy, x, weight, eps: _weight_only(dy, x, weight, eps),
    inputs=_layers(),
    slips={
        "γ comes first in the backward pass: it multiplies dy before the means are taken": (
            lambda *a: _weight_only(*a, gamma="last")
        ),
        "dx forgets γ: g is γ times dy": lambda *a: _weight_only(*a, gamma="nowhere"),
        "the mean term of dx is missing": lambda *a: _weight_only(*a, without="mean"),
        "the x̂ term of dx is missing": lambda *a: _weight_only(*a, without="x_hat"),
        "the x̂ term of dx has an x̂ in its mean and one in front": (
            lambda *a: _weight_only(*a, without="x_hat in front")
        ),
        "dx forgets ε, in rstd or in x̂": lambda *a: _weight_only(*a, without="eps"),
        "ε is an argument: use it": (lambda dy, x, weight, eps: _weight_only(dy, x, weight, _SAID)),
        "PyTorch's var divides by H − 1; say correction=0": (
            lambda *a: _weight_only(*a, correction=1)
        ),
        "dγ is a sum over the rows, not a mean": lambda *a: _weight_only(*a, rows="mean"),
        "dγ sums over all leading dimensions, not over the first alone": (
            lambda *a: _weight_only(*a, rows="first")
        ),
        "there is no γ in dγ: take dy there, not g": lambda *a: _weight_only(*a, rows="g"),
        "dγ comes after dx": lambda *a: _weight_only(*a)[::-1],
    },
    within=1e-6,  # float32 is right too; the slips are further off
    ask="return dx and dγ",
)

blind_check = Exercise(
    "the deletion that a check with summed outputs does not see",
    truth="x_hat",
    slips={
        "without the mean term dx is rstd, which is not 0: the check sees that": "mean",
        "it does see one of them: put dy = 1 and γ = 1 into the formula for dx": "both",
        "put dy = 1 and γ = 1 into the formula for dx, and look at each term": "neither",
    },
    ask='answer "mean", "x_hat", "both" or "neither"',
    why=(
        "With dy and γ all 1, the mean of g x̂ is that of x̂, which is 0, so the x̂ term is 0 "
        "whether it is there or not."
    ),
)


def _why_eps_does_not_matter(row: Tensor) -> str | None:
    said, meant = (formula.terms(row, eps=eps) for eps in (_SAID, _MEANT))
    if not said.denominator.isfinite():
        return "finite numbers, please, with a finite variance"
    if row.min() == row.max():
        return "all four are equal, so x̂ is 0 for any ε; one must differ"
    share = float(meant.denominator / said.denominator)
    if share >= 0.01:
        return f"x̂ still has {share:.1%} of its length; bring the numbers closer to each other"
    return None


break_eps = Search(
    "a row of which an ε of 1e-5 leaves less than a hundredth",
    wrong=_why_eps_does_not_matter,
    ask="answer with a list of four numbers",
    shape=(4,),
    why=(
        "The standard deviation of your row is less than a hundredth of √10⁻⁵, so the ε that is "
        "written into the Function decides how long x̂ is."
    ),
)

saved_for = Exercise(
    "how many tensors must be saved for dx, for dγ and for dβ",
    truth=[4, 3, 0],
    slips={
        "γ does not occur in dγ, the sum of dy times x̂": [4, 4, 0],
        "dβ is the sum of dy, which backward is given": [4, 3, 1],
        "γ multiplies dy before dx is taken: it must be saved for dx": [3, 3, 0],
        "x̂ is not among the four: it takes x, the mean and rstd": [4, 1, 0],
    },
    ask="answer with three numbers: for dx, for dγ, for dβ",
    why="dx needs γ and what x̂ is made of, dγ only what x̂ is made of, and dβ is the sum of dy.",
)


LARGEST = 300.0  # of a number of the row


def _why_float16_holds_it(row: Tensor) -> str | None:
    if not bool((row.abs() < LARGEST).all()):
        return f"all four must lie between −{LARGEST:.0f} and {LARGEST:.0f}"
    half = row.half()
    if half.min() == half.max():
        return "all four are equal in float16; one must differ"
    largest = (half - half.mean()).square().max()
    if largest.isfinite():
        return f"the largest squared deviation, {largest:.0f}, still fits into float16"
    return None


break_half = Search(
    "a row of float16 whose variance float16 cannot hold",
    wrong=_why_float16_holds_it,
    ask="answer with a list of four numbers",
    shape=(4,),
    why=(
        "A deviation of 256 or so has a square above 65504, which is ∞ in float16, so the "
        "variance is ∞ and x̂ is 0."
    ),
)
