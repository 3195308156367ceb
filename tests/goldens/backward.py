"""The gradients of layer norm's small steps by autograd; a forgotten arrow carries nothing."""

from __future__ import annotations

from typing import Any

import torch


def case(x: Any, weight: Any, dy: Any, eps: float, forget: str, **_: Any) -> dict[str, Any]:
    given = torch.tensor([x, weight, [0] * 4, dy], dtype=torch.float64)
    x, gamma, beta = (row.clone().requires_grad_() for row in given[:3])
    carried: dict[str, torch.Tensor] = {}

    def used(arrow: str, value: torch.Tensor) -> torch.Tensor:
        sent = value.expand(1 if arrow == "sigma-v" else 4)
        sent.register_hook(lambda g: carried.setdefault(arrow, g * (arrow != forget)))
        return sent

    m = used("m-x", x).mean(0, keepdim=True)
    mu = used("mu-x", x) - used("mu-m", m)
    v = used("v-mu", mu).square().mean(0, keepdim=True)
    sigma = (used("sigma-v", v) + eps).sqrt()
    x_hat = used("y-mu", mu) / used("y-sigma", sigma)
    y = x_hat * used("y-gamma", gamma) + used("y-beta", beta)
    y.backward(given[3])
    values = {"m": m[0], "mu": mu, "v": v[0], "sigma": sigma[0], "xHat": x_hat, "y": y}
    return {"values": values, "carried": carried, "dx": x.grad}
