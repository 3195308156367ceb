"""The gradients of layer norm's small steps by autograd, where a forgotten arrow is detached."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# The roads that each term of dx does not come by.
ELSEWHERE = {"g": {"y-sigma", "mu-m"}, "mean": {"y-sigma", "mu-x"}, "hat": {"y-mu"}}


def gradients(given: list[Any], eps: float, forgotten: set[str]) -> dict[str, Any]:
    """Return each value, what each arrow carries, and what is gathered at each node."""
    x, gamma, dy = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in given)
    beta, arrows = torch.zeros_like(x, requires_grad=True), {}

    def used(arrow: str, value: Tensor) -> Tensor:
        held = value.detach().requires_grad_() if arrow in forgotten else value
        arrows[arrow] = held.expand(4 if arrow in ("y-sigma", "mu-m") else len(held)).clone()
        return arrows[arrow]

    m = used("m-x", x).mean(0, keepdim=True)
    mu = used("mu-x", x) - used("mu-m", m)
    v = used("v-mu", mu).square().mean(0, keepdim=True)
    sigma = (used("sigma-v", v) + eps).sqrt()
    x_hat = used("y-mu", mu) / used("y-sigma", sigma)
    y = x_hat * used("y-gamma", gamma) + used("y-beta", beta)
    nodes = {"x": x, "m": m, "mu": mu, "v": v, "sigma": sigma, "gamma": gamma, "beta": beta}
    found = torch.autograd.grad(y, [*arrows.values(), *nodes.values()], dy, materialize_grads=True)
    carried = {a: 0 * g if a in forgotten else g for a, g in zip(arrows, found, strict=False)}
    gathered = dict(zip(nodes, found[len(arrows) :], strict=True))
    values = {"m": m[0], "mu": mu, "v": v[0], "sigma": sigma[0], "xHat": x_hat, "y": y}
    return {"values": values, "carried": carried, "gathered": gathered}


def case(x: Any, weight: Any, dy: Any, eps: float, forget: str, **_: Any) -> dict[str, Any]:
    given = [x, weight, dy]
    terms = [gradients(given, eps, road)["gathered"]["x"] for road in ELSEWHERE.values()]
    return gradients(given, eps, {forget} - {""}) | {"terms": terms}
