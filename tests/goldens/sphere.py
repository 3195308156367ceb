"""The terms of x and of a row a thousand times smaller; Jacobians; what the camera sees of x."""

from __future__ import annotations

import cmath
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from lnlib import formula

BASIS = normalize(torch.tensor([[0.0, 1, -1], [2, -1, -1], [1, 1, 1]]).double())


def case(x: Any, weight: Any, bias: Any, eps: float, turn: float) -> dict[str, Any]:
    row, gamma, beta = (torch.tensor(v, dtype=torch.float64) for v in (x, weight, bias))
    rows = [terms(row / size, gamma, beta, eps) for size in (1, 1000)]
    return {"rows": rows, "seen": camera(turn) @ row}


def camera(turn: float) -> Tensor:
    """Return the directions that it sees as to the right, up and near."""
    plane = torch.complex(*BASIS[:2]) * cmath.rect(1, math.radians(turn))
    height = torch.complex(BASIS[2], plane.imag) * cmath.rect(1, math.pi / 7)  # it looks down
    return torch.stack([plane.real, height.real, height.imag])


def terms(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> dict[str, Any]:
    mean, _, std, s, _, x_hat, y = formula.terms(x, gamma, beta, eps=eps)
    of_x = {"mean": mean[0], "std": std[0], "s": s[0], "centered": x - mean}
    jacobian = torch.func.jacrev(lambda v: formula.terms(v, eps=eps).x_hat)(x)
    affine = torch.func.jacrev(lambda v: formula.terms(v, gamma, eps=eps).y)(x)
    return {"x": x, "ofX": of_x, "xHat": x_hat, "y": y, "jacobian": jacobian, "affine": affine}
