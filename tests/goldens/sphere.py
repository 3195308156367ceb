"""The terms of x and of a row a thousand times smaller, their Jacobians, and what is seen."""

import cmath
from typing import Any

import torch

from lnlib import formula

BASIS = torch.nn.functional.normalize(torch.tensor([[0.0, 1, -1], [2, -1, -1], [1, 1, 1]]).double())


def case(x: Any, weight: Any, bias: Any, eps: float, turn: float) -> dict[str, Any]:
    (row, gamma, beta), rows = torch.tensor([x, weight, bias], dtype=torch.float64), []
    for x in (row, row / 1000):
        mean, _, std, s, _, x_hat, y = formula.terms(x, gamma, beta, eps=eps)
        of_x = {"mean": mean[0], "std": std[0], "s": s[0], "centered": x - mean}
        jacobian, affine = torch.func.jacrev(lambda v: formula.terms(v, gamma, eps=eps)[-2:])(x)
        more = {"jacobian": jacobian, "affine": affine, "seen": camera(turn) @ x}
        rows.append({"x": x, "ofX": of_x, "xHat": x_hat, "y": y, **more})
    return {"rows": rows}


def camera(turn: float) -> torch.Tensor:
    """Return the directions that it sees as to the right, up and near."""
    plane = torch.complex(*BASIS[:2]) * cmath.rect(1, turn * cmath.pi / 180)
    height = torch.complex(BASIS[2], plane.imag) * cmath.rect(1, cmath.pi / 7)  # it looks down
    return torch.stack([plane.real, height.real, height.imag])
