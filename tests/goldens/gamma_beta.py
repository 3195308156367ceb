"""The three lanes, and the mean and the standard deviation of each."""

from __future__ import annotations

from typing import Any

import torch

from lnlib import formula

ROWS = {
    "book": [2, 4, 4, 4, 5, 5, 7, 9],
    "wide": [2.875, 6.25, -1.875, -5.625, 0.25, -5.75, -4.5, 0.375],
    "narrow": [2.5, 1.875, 2, 1.75, 2.125, 2, 1.625, 2.125],
    "two groups": [-1.875, 3.75, 3.5, 4.375, -2.625, 4.25, -2.125, -1.25],
    "constant": [1.5] * 8,
}


def case(row: str, weight: Any, bias: Any, eps: float, feature: int) -> dict[str, Any]:
    x, gamma, beta = (torch.tensor(v, dtype=torch.float64) for v in (ROWS[row], weight, bias))
    terms = formula.terms(x, gamma, beta, eps=eps)
    lanes = {"x": x, "xHat": terms.x_hat, "y": terms.y}
    statistics = {
        f"in{name[0].upper()}{name[1:]}": {"mean": v.mean(), "std": v.std(correction=0)}
        for name, v in lanes.items()
    }
    return {"lanes": lanes, "statistics": statistics}
