"""Chapter 09: which norm?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lnlib import formula
from lnlib.book.exercises.base import Exercise
from lnlib.book.exercises.inputs import normal

rms_column = Exercise(
    "the column of RMS norm in table 1",
    truth=[True, False, False, True, False, True],
    slips={
        "that is layer norm's column; RMS norm does not subtract the mean": [
            *(True, True, False, True, False, True),
        ],
        "that is batch norm's column; whose statistics does RMS norm take?": [
            *(True, False, True, True, True, False),
        ],
        "that is weight norm's column; whose statistics does RMS norm take?": [
            *(True, False, True, False, False, False),
        ],
        "a factor of one sample is in its root mean square too": [
            *(True, False, False, True, False, False),
        ],
        "one neuron that grows is in the root mean square of all": [
            *(True, False, True, True, False, True),
        ],
        "a vector added to all samples changes each sum by another amount": [
            *(True, False, False, True, True, True),
        ],
    },
    ask="answer with six times True or False",
    why=(
        "RMS norm divides by one number for each sample, so it ignores a factor of the whole "
        "matrix, of the data or of one sample, and since it subtracts nothing, it notices every"
        " shift."
    ),
)


def _rms(x: Tensor, eps: float) -> Tensor:
    return (x.square().mean() + eps).sqrt()


def _rms_jacobian(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    r = _rms(x, eps)
    x_hat = x / r
    return weight[:, None] / r * (torch.eye(len(x)) - torch.outer(x_hat, x_hat) / len(x))


def _raw_product(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    r = _rms(x, eps)
    return weight[:, None] / r * (torch.eye(len(x)) - torch.outer(x, x) / len(x))


def _without_H(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    r = _rms(x, eps)
    return weight[:, None] / r * (torch.eye(len(x)) - torch.outer(x, x) / r**2)


def _of_layer_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    t, H = formula.terms(x, eps=eps), len(x)
    kept = torch.eye(H) - (1 + torch.outer(t.x_hat, t.x_hat)) / H
    return weight[:, None] * t.rstd * kept


def _fixed_r(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return torch.diag(weight) / _rms(x, eps)


rms_jacobian = Exercise(
    "the Jacobian of RMS norm with γ",
    truth=_rms_jacobian,
    inputs=[(normal(H, seed=H), normal(H, seed=H + 1), eps) for H, eps in ((7, 0.3), (4, 0.02))],
    slips={
        "ε is missing": lambda x, weight, eps: _rms_jacobian(x, weight, 0.0),
        "γ is missing": lambda x, weight, eps: _rms_jacobian(x, torch.ones_like(weight), eps),
        "γ belongs to the output: row k is multiplied by γ_k": lambda x, weight, eps: (
            _rms_jacobian(x, weight, eps).T
        ),
        "r depends on x too: differentiate 1/r": _fixed_r,
        "the second term has x̂ twice, not x": _raw_product,
        "r holds a mean: its derivative has a 1/H": _without_H,
        "that is the Jacobian of layer norm; RMS norm subtracts no mean": _of_layer_norm,
        "divide by r": lambda x, weight, eps: _rms_jacobian(x, weight, eps) * _rms(x, eps),
    },
)


def _folded(*given: Any, root: bool = True, shift: bool = True) -> tuple[Any, Any]:
    """Return W and b of the linear layer and the batch norm after it, in one."""
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
