"""The row normalized three ways, its variance, and the norm of the Jacobian."""

from typing import Any

import numpy as np
import torch

from lnlib.formula import terms

PATTERN = torch.tensor([-1.5, -0.5, -0.5, -0.5, 0, 0, 1, 2], dtype=torch.float64)


def case(eps: float, spread: float) -> dict[str, Any]:
    x, made = spread * PATTERN, {}
    # NumPy rounds float64 to float16 once, as the page does; PyTorch goes through float32.
    half, half_eps = torch.from_numpy(x.numpy().astype(np.float16)), float(np.float16(eps))
    ways = {way: terms(x, eps=eps, eps_at=way) for way in ("variance", "std")}
    ways["half"] = terms(half, eps=half_eps, dtype=torch.float16)
    for way, found in ways.items():
        x_hat, norm = found.x_hat.double(), found.rstd[0]
        if way != "half" and spread > 0:  # at 0 the norm is this limit
            jacobian = torch.func.jacrev(lambda v, at=way: terms(v, eps=eps, eps_at=at).x_hat)(x)
            norm = torch.linalg.matrix_norm(jacobian, ord=2)
        sizes = {"outputVariance": x_hat.var(correction=0), "gradientSize": norm}
        made[way] = {"xHat": x_hat, **sizes}
    return made
