"""The row's statistics, and its Jacobian as autograd finds it: as a whole, and way by way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lnlib import formula


def case(x: Any, weight: Any, eps: float, step: int, **_: Any) -> dict[str, Any]:
    row, gamma = (torch.tensor(v, dtype=torch.float64) for v in (x, weight))
    mean, _var, std, denominator, _rstd, x_hat, _y = formula.terms(row, eps=eps)

    def y(direct: Tensor, of_mean: Tensor, of_std: Tensor) -> Tensor:
        """Return y as three rows make it: the one that is normalized, that of μ and that of σ."""
        centered = direct - formula.terms(of_mean).mean
        return gamma * centered / formula.terms(of_std, eps=eps).denominator

    held = (row,) * (2 - step)  # what does not count yet stays as it is
    return {
        "row": {"mean": mean[0], "std": std[0], "denominator": denominator[0], "xHat": x_hat},
        "ways": torch.func.jacrev(y, argnums=(0, 1, 2))(row, row, row),
        "matrix": torch.func.jacrev(lambda x: y(*(x,) * (step + 1), *held))(row),
    }
