"""The row normalized three ways, its variance, and the norm of the Jacobian."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lnlib import formula

PATTERN = torch.tensor([-1.5, -0.5, -0.5, -0.5, 0, 0, 1, 2], dtype=torch.float64)


def jacobian_norm(x: Tensor, eps: float, convention: str) -> float:
    def x_hat(values: Tensor) -> Tensor:
        return formula.terms(values, eps=eps, eps_at=convention).x_hat

    if not x.any():
        return 1 / (math.sqrt(eps) if convention == "variance" else eps) if eps else math.inf
    return torch.linalg.matrix_norm(torch.func.jacrev(x_hat)(x), ord=2).item()


def case(eps: float, spread: float) -> dict[str, Any]:
    x, made = spread * PATTERN, {}
    for convention in ("variance", "std"):
        x_hat = formula.terms(x, eps=eps, eps_at=convention).x_hat
        norm = jacobian_norm(x, eps, convention)
        made[convention] = {
            "xHat": x_hat,
            "outputVariance": x_hat.var(correction=0),
            "gradientSize": norm,
        }
    # NumPy rounds float64 to float16 once, as the page does; PyTorch goes through float32.
    half, half_eps = torch.from_numpy(x.numpy().astype(np.float16)), float(np.float16(eps))
    terms = formula.terms(half, eps=half_eps, dtype=torch.float16)
    x_hat = terms.x_hat.double()
    variance = x_hat.var(correction=0)
    return made | {
        "half": {"xHat": x_hat, "outputVariance": variance, "gradientSize": terms.rstd[0]}
    }
