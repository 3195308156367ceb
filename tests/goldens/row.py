"""Every term of the row as it is, and of one ten million times smaller, where ε counts."""

from typing import Any

import torch

from lnlib import formula


def case(x: tuple[float, ...], eps: float, weight: float, bias: float) -> dict[str, Any]:
    return {"rows": [terms([v / size for v in x], eps, weight, bias) for size in (1, 1e7)]}


def terms(values: list[float], eps: float, weight: float, bias: float) -> dict[str, Any]:
    x = torch.tensor(values, dtype=torch.float64)
    # A row has the x̂ of one moved by its first number, and that of a constant row is exactly 0.
    found = formula.terms(x - x[0], x.new_full((8,), weight), x.new_full((8,), bias), eps=eps)
    return {
        "x": x,
        "ofX": {
            "mean": found.mean[0] + x[0],
            "centered": x - x[0] - found.mean,
            "std": found.std[0],
            "denominator": found.denominator[0],
        },
        "free": {"xHat": found.x_hat, "y": found.y, "spread": (found.std / found.denominator)[0]},
    }
