"""The row's statistics, and its Jacobian as autograd finds it: as a whole, and way by way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lnlib import formula

WAYS = ("direct", "mean", "std")


def derivative(row: Tensor, weight: Tensor, eps: float, *ways: str) -> Tensor:
    """Return ∂y_k/∂x_i through these ways, while the others are held."""

    def y(x: Tensor) -> Tensor:
        terms = formula.terms(x, eps=eps)
        used = zip(WAYS, (x, terms.mean, terms.denominator), strict=True)
        direct, mean, denominator = (v if way in ways else v.detach() for way, v in used)
        return weight * (direct - mean) / denominator

    found: Tensor = torch.func.jacrev(y)(row)
    return found


def case(x: Any, weight: Any, eps: float, step: int, **_: Any) -> dict[str, Any]:
    row, gamma = (torch.tensor(v, dtype=torch.float64) for v in (x, weight))
    mean, _var, std, denominator, _rstd, x_hat, _y = formula.terms(row, eps=eps)
    return {
        "row": {"mean": mean[0], "std": std[0], "denominator": denominator[0], "xHat": x_hat},
        "ways": [derivative(row, gamma, eps, way) for way in WAYS],
        "matrix": derivative(row, gamma, eps, *WAYS[: step + 1]),
    }
