"""The steps of the digit's rows by lnlib.lstm.formula, and their gradients by autograd."""

from __future__ import annotations

from typing import Any

import torch

from goldens.axes import data
from lnlib import formula
from lnlib.lstm.formula import gate_inputs, normalizing, not_normalizing, step
from lnlib.lstm.weights import Weights


def case(scale: float, norm: str, row: int, eps: float, blank: int, bias: str) -> dict[str, Any]:
    fixed = data("cell", "{ ...it.weights, digits: [0, 1, 2, 3, 4, 5].map(it.digit) }")
    ih, hh, one = scale * fixed["ih"], scale * fixed["hh"], torch.ones(64).double()
    weights = Weights(ih, hh, fixed["bias"] * (bias == "random"), one, one, one[:16], None)
    normalize, x = not_normalizing if norm == "none" else normalizing(eps), fixed["digits"][blank]
    inputs = [row.requires_grad_() for row in gate_inputs(x, weights, normalize)]
    h, carried, steps = one.new_zeros(16), one.new_zeros(16), []
    for from_x, sums in zip(x @ ih.mT, inputs, strict=True):
        from_h = h @ hh.mT
        i, f, candidate, o = (sums + normalize(from_h, one, None)).chunk(4)
        h, c = step(sums, h, carried, weights, normalize, "raw")
        n = normalize(c, one[:16], None)
        carried = n if norm == "normalized" else c
        divisors = [formula.terms(wire, eps=eps).denominator[0] for wire in (from_h, from_x, c)]
        gates = [i.sigmoid(), f.sigmoid(), candidate.tanh(), o.sigmoid()]
        steps.append({"fromH": from_h, "fromX": from_x, "gates": gates, "c": c, "n": n, "h": h})
        steps[-1] |= {"carried": carried, "divisors": 3 * [1] if norm == "none" else divisors}
    back = torch.autograd.grad(h, inputs, fixed["back"])
    gradients = torch.stack([row.norm() for row in back])
    sizes = torch.stack([wires["carried"].square().mean().sqrt() for wires in steps])
    return {"steps": steps, "gradients": gradients / gradients[-1], "sizes": sizes}
