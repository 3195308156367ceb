"""The steps of the digit's rows by lnlib.lstm.formula, and their gradients by autograd."""

import torch

from goldens import data
from lnlib.lstm.formula import gate_inputs, normalizing, not_normalizing, step
from lnlib.lstm.weights import Weights


def case(scale: float, norm: str, row: int, eps: float, blank: int, bias: str) -> dict[str, object]:
    fixed = data("cell", "{ ...it.weights, digits: [0, 1, 2, 3, 4, 5].map(it.digit) }")
    ih, hh, one = scale * fixed["ih"], scale * fixed["hh"], torch.ones(64).double()
    weights = Weights(ih, hh, fixed["bias"] * (bias == "random"), one, one, one[:16], None)
    normalize, x = not_normalizing if norm == "none" else normalizing(eps), fixed["digits"][blank]
    inputs = gate_inputs(x, weights, normalize).requires_grad_()
    h, carried, steps = one.new_zeros(16), one.new_zeros(16), []
    for from_x, sums in zip(x @ ih.mT, inputs, strict=True):
        from_h = h @ hh.mT
        i, f, new, o = (sums + normalize(from_h, one, None)).chunk(4)
        h, c = step(sums, h, carried, weights, normalize, "raw")
        carried = normalize(c, one[:16], None) if norm == "normalized" else c
        divisors = [(wire.var(correction=0) + eps).sqrt() for wire in (from_h, from_x, c)]
        steps.append({"fromH": from_h, "fromX": from_x, "c": c, "h": h, "carried": carried})
        steps[-1]["divisors"] = 3 * [1] if norm == "none" else divisors
        steps[-1]["gates"] = [i.sigmoid(), f.sigmoid(), new.tanh(), o.sigmoid()]
    gradients = torch.autograd.grad(h, inputs, fixed["back"])[0].norm(dim=1)
    sizes = torch.stack([wires["carried"] for wires in steps]).square().mean(1).sqrt()
    return {"steps": steps, "gradients": gradients / gradients[-1], "sizes": sizes}
