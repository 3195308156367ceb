"""Chapter 15: norms without the mean."""

from __future__ import annotations

import torch
from torch import Tensor

from lnlib import formula
from lnlib.book.exercises.base import Exercise
from lnlib.book.exercises.inputs import normal


def _rms(x: Tensor, eps: float) -> Tensor:
    return (x.square().mean() + eps).sqrt()


def _rms_jacobian(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    r = _rms(x, eps)
    x_hat = x / r
    return weight[:, None] / r * (torch.eye(len(x)) - torch.outer(x_hat, x_hat) / len(x))


def _raw_product(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    r = _rms(x, eps)
    return weight[:, None] / r * (torch.eye(len(x)) - torch.outer(x, x) / len(x))


def _without_H(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    r = _rms(x, eps)
    return weight[:, None] / r * (torch.eye(len(x)) - torch.outer(x, x) / r**2)


def _of_layer_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    t, H = formula.terms(x, eps=eps), len(x)
    kept = torch.eye(H) - (1 + torch.outer(t.x_hat, t.x_hat)) / H
    return weight[:, None] * t.rstd * kept


def _fixed_r(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return torch.diag(weight) / _rms(x, eps)


rms_jacobian = Exercise(
    "the Jacobian of RMS norm with γ",
    truth=_rms_jacobian,
    inputs=[(normal(H, seed=H), normal(H, seed=H + 1), eps) for H, eps in ((7, 0.3), (4, 0.02))],
    slips={
        "ε is missing": lambda x, weight, eps: _rms_jacobian(x, weight, 0.0),
        "γ is missing": lambda x, weight, eps: _rms_jacobian(x, torch.ones_like(weight), eps),
        "γ belongs to the output: row k is multiplied by γ_k": lambda x, weight, eps: (
            _rms_jacobian(x, weight, eps).T
        ),
        "r depends on x too: differentiate 1/r": _fixed_r,
        "the second term has x̂ twice, not x": _raw_product,
        "r holds a mean: its derivative has a 1/H": _without_H,
        "that is the Jacobian of layer norm; RMS norm subtracts no mean": _of_layer_norm,
        "divide by r": lambda x, weight, eps: _rms_jacobian(x, weight, eps) * _rms(x, eps),
    },
)


def _p_norm_jacobian(x: Tensor, p: float, last: float | None = None) -> Tensor:
    """Return (I − x̂ sign(x̂) |x̂|^last / H) / m; ``last`` is p − 1 unless given."""
    m = x.abs().pow(p).mean().pow(1 / p)
    x_hat = x / m
    power = x_hat.sign() * x_hat.abs().pow(p - 1 if last is None else last)
    return (torch.eye(len(x)) - torch.outer(x_hat, power) / len(x)) / m


def _without_sign(x: Tensor, p: float) -> Tensor:
    m = x.abs().pow(p).mean().pow(1 / p)
    x_hat = x / m
    return (torch.eye(len(x)) - torch.outer(x_hat, x_hat.abs().pow(p - 1)) / len(x)) / m


def _times_p(x: Tensor, p: float) -> Tensor:
    m = x.abs().pow(p).mean().pow(1 / p)
    one = torch.eye(len(x)) / m
    return one - p * (one - _p_norm_jacobian(x, p))


p_norm_jacobian = Exercise(
    "the Jacobian of a p-norm layer",
    truth=_p_norm_jacobian,
    inputs=[(normal(H, seed=H), p) for H, p in ((7, 1), (6, 3), (5, 4))],
    slips={
        "that is RMS norm's, p = 2": lambda x, p: _p_norm_jacobian(x, 2),
        "the power belongs to the input: column i has |x̂_i|^(p−1)": lambda x, p: (
            _p_norm_jacobian(x, p).T
        ),
        "|x| has a derivative too: the sign is missing": _without_sign,
        "the p of the power and the 1/p of the root cancel": _times_p,
        "the derivative of |x|^p has the power p − 1": lambda x, p: _p_norm_jacobian(x, p, last=p),
        "m depends on x too: differentiate 1/m": lambda x, p: (
            torch.eye(len(x)) / x.abs().pow(p).mean().pow(1 / p)
        ),
    },
)
