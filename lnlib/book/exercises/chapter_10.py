"""Chapter 10: where a layer norm stands."""

from __future__ import annotations

import torch
from torch import Tensor

from lnlib import formula
from lnlib.book.exercises.base import Exercise, Search
from lnlib.book.exercises.inputs import normal

fixed = Exercise(
    "which blocks stay if the last matrix of the sublayer is multiplied",
    truth=[False, False, True, True],
    slips={
        "a norm of the sum sees x as well, and the factor changes its share": [
            *(True, False, True, True),
        ],
        "a norm before the sublayer does not see what the sublayer gives": [
            *(False, True, False, True),
        ],
        "the sandwich has a norm after the sublayer, too": [False, False, True, False],
        "it is the other way round: the factor must meet a norm that sees it alone": [
            *(True, True, False, False),
        ],
    },
    ask="answer with four times True or False: post, pre, res-post, sandwich",
    why="A norm removes the factor only if it sees f(x) alone, and in the last two blocks it does.",
)

ratio = Exercise(
    "the first gradient of 48 over the last",
    truth=(49 / 2) ** 0.5,
    slips={
        "that is the ratio of the mean squares; gradients are divided by their roots": 49 / 2,
        "the stream starts with the mean square 1: after n blocks it is 1 + n": 48**0.5,
        "the first gradient is divided too, by the size of x after the first block": 7.0,
        "it is the other way round: the last gradient is the small one": (2 / 49) ** 0.5,
    },
    within=0.01,
    ask="answer with a number",
    why=(
        "After n blocks the mean square is 1 + n, so the first gradient is divided by √2, and "
        "the last one by 7."
    ),
)

BRANCH = normal(8, 8, seed=10) / 8**0.5  # W of the exercise: f(x) = W x


def _degrees(a: Tensor, b: Tensor) -> float:
    return float(torch.cosine_similarity(a, b, dim=0).clamp(-1, 1).acos().rad2deg())


def _why_the_block_is_heard(x: Tensor) -> str | None:
    if not x.isfinite().all() or x.abs().max() > 1e100:
        return "finite numbers below 1e100, please"
    if not x.any():
        return "a row of zeros has no direction"
    turned = _degrees(x, x + BRANCH @ formula.layer_norm(x))
    if turned > 1:
        return f"the block turns your row by {turned:.3g} degrees; how long can W LN(x) become?"
    return None


break_pre_norm = Search(
    "a row that a pre-norm block hardly turns",
    wrong=_why_the_block_is_heard,
    ask="answer with a list of eight numbers",
    shape=(8,),
    why="However large x is, W LN(x) does not get longer, so beside your row it is small.",
)
