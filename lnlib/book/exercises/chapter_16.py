"""Chapter 16: choosing a norm."""

from __future__ import annotations

from typing import Any

from lnlib.book.exercises.base import Exercise
from lnlib.book.exercises.inputs import normal

reductions = Exercise(
    "which splits leave the gradient of γ to be added up",
    truth=[True, False, True, False],
    slips={
        "each process has some rows only, whether the batch was split or the sequence": [
            *(True, False, False, False),
        ],
        "each process has all rows, so its gradient is whole already; adding would double it": [
            *(True, True, True, False),
        ],
        "sums for μ and σ must cross where a row is split; each γ stays with its feature": [
            *(True, False, True, True),
        ],
        "it is the other way round: where rows are split, each process has a part of the sum": [
            *(False, True, False, True),
        ],
    },
    ask="answer with four times True or False: samples, columns of W, positions, features",
    why=(
        "The gradient of γ is a sum over rows, so it must be added up where the rows are split:"
        " by samples or by positions."
    ),
)

shared = Exercise(
    "how many values share one mean: batch, layer, per pixel, group, instance norm",
    truth=[280, 210, 6, 70, 35],
    slips={
        "that is how many means there are; how many values does each run over?": [
            *(6, 8, 280, 24, 48),
        ],
        "the third mean is that of one pixel: it runs over channels alone": [280, 210, 210, 70, 35],
        "a group has 6/3 channels": [280, 210, 6, 105, 35],
        "batch norm's mean runs over samples and pixels": [8, 210, 6, 70, 35],
        "batch norm's mean runs over one channel": [1680, 210, 6, 70, 35],
    },
    ask="answer with five numbers: batch, layer, per pixel, group, instance norm",
    why=(
        "A mean runs over 8 · 35 values, over 6 · 35, over 6, over 2 · 35 and over 35: multiply"
        " the lengths of its axes."
    ),
)


def _folded(*given: Any, root: bool = True, shift: bool = True) -> tuple[Any, Any]:
    """Return W and b of the linear layer and the batch norm behind it, in one."""
    W, b, mean, var, weight, bias, eps = given
    c = weight / ((var + eps).sqrt() if root else var + eps)
    return W * c[:, None], (b - mean) * c + (bias if shift else 0)


def _columns(*given: Any) -> tuple[Any, Any]:
    W, _, _, var, weight, _, eps = given
    return W * (weight / (var + eps).sqrt()), _folded(*given)[1]


fold_batch_norm = Exercise(
    "one linear layer for a linear layer and its batch norm",
    truth=_folded,
    inputs=[
        (
            *(normal(4, 4, seed=1), normal(4, seed=2), normal(4, seed=3)),
            *(normal(4, seed=4).exp(), normal(4, seed=5), normal(4, seed=6), 0.1),
        ),
    ],
    slips={
        "a row of W belongs to an output, and so does c: multiply rows": _columns,
        "divide by the root of the variance": lambda *given: _folded(*given, root=False),
        "the bias of the norm is missing": lambda *given: _folded(*given, shift=False),
        "the stored mean is subtracted from b before the factor": lambda *given: (
            _folded(*given)[0],
            given[1] * (given[4] / (given[3] + given[6]).sqrt()) + given[5] - given[2],
        ),
        "the b of the linear layer is multiplied, too": lambda *given: (
            _folded(*given)[0],
            _folded(*given)[1] + given[1] * (1 - given[4] / (given[3] + given[6]).sqrt()),
        ),
        "ε is missing": lambda *given: _folded(*given[:6], 0.0),
    },
)
