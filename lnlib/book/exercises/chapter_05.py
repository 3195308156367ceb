"""Chapter 05: the gradient of a batch, in index notation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from lnlib import formula
from lnlib.book.exercises.base import Exercise, Search
from lnlib.book.exercises.game import Derivation, Gradient
from lnlib.book.exercises.inputs import normal

count = Exercise(
    "three expressions without a letter on the left",
    truth=[5.0, 5.0, 10.0],
    slips={
        "δ is 1 only where its indices are equal: 5 of the 25 places": [5, 25, 10],
        "in the second, q is not on the left either: it is summed too": [5, 1, 10],
        "in the third, the rows are summed too, by 1_b": [5, 5, 5],
        "in the third, δ leaves only one of the two sums over features": [5, 5, 50],
        "a 1 in every place, summed over 5 places, is 5": [1, 5, 10],
    },
    ask="answer with a list of three numbers",
    why=(
        "An index that is not on the left is summed, and δ leaves only the places where its two"
        " are equal: five, five, and five for each of the two rows."
    ),
)


read = Exercise(
    "c_q = a_bq a_bh w_h s_b",
    truth=lambda a, w, s: torch.einsum("bq,bh,h,b->q", a, a, w, s),
    inputs=[  # a square one tells rows from features as well
        (normal(B, H, seed=0), normal(H, seed=1), normal(B, seed=2)) for B, H in ((3, 5), (4, 4))
    ],
    slips={
        "q and h are two letters: each a has its own": lambda a, w, s: torch.einsum(
            "bh,bh,h,b->h", a, a, w, s
        ),
        "b is summed as well: it is not on the left": lambda a, w, s: torch.einsum(
            "bq,bh,h,b->bq", a, a, w, s
        ),
        "q stays: it is on the left": lambda a, w, s: torch.einsum("bq,bh,h,b->", a, a, w, s),
        "b is the same row in all three: sum the product, not each factor": lambda a, w, s: (
            a.sum(0) * torch.einsum("bh,h,b->", a, w, s)
        ),
        "s_b belongs in the sum over b": lambda a, w, s: torch.einsum("bq,bh,h->q", a, a, w),
        "w_h belongs in the sum over h": lambda a, w, s: torch.einsum("bq,bh,b->q", a, a, s),
    },
)


def _known(B: int, H: int, eps: float) -> dict[str, Any]:
    """Return what a reader may use, on random numbers."""
    x, gamma, beta = 3 + normal(B, H, seed=B), 1 + normal(H, seed=H), normal(H, seed=H + 1)
    return _known_of(x, gamma, beta, eps, dy=normal(B, H, seed=B + H))


def _known_of(x: Tensor, gamma: Tensor, beta: Tensor, eps: float, dy: Tensor) -> dict[str, Any]:
    """Return what a reader may use: the forward pass, and the gradients in the order of the way."""
    B, H = x.shape
    t = formula.terms(x, eps=eps)
    mu, v, sigma = x - t.mean, t.var.squeeze(1), t.denominator.squeeze(1)
    dl_dsigma = -(dy * gamma * mu).sum(1) / sigma**2
    dl_dv = dl_dsigma / (2 * sigma)
    dl_dmu = dl_dv[:, None] * 2 * mu / H + dy * gamma / sigma[:, None]
    forward = {"dy": dy, "x": x, "gamma": gamma, "beta": beta, "eps": eps, "B": B, "H": H}
    forward |= {"m": t.mean.squeeze(1), "mu": mu, "v": v, "sigma": sigma}
    return forward | {
        "dl_dsigma": dl_dsigma,
        "dl_dv": dl_dv,
        "dl_dmu": dl_dmu,
        "dl_dm": -dl_dmu.sum(1),
    }


_ON_THE_WAY = ("dl_dsigma", "dl_dv", "dl_dmu", "dl_dm")
_KNOWN = [_known(2, 3, 1e-5), _known(4, 4, 2e-5), _known(3, 7, 5e-6)]


def _gradient(
    of: str,
    found: int,
    truth: Callable[..., Any],
    slips: Mapping[str, Callable[..., Any]],
) -> Gradient:
    """Ask for ∂l/∂``of`` once the first ``found`` of the gradients on the way are known."""
    later = set(_ON_THE_WAY[found:])
    known = [{k: value for k, value in case.items() if k not in later} for case in _KNOWN]
    return Gradient(f"∂l/∂{of}", known, truth, slips)


def _column(t: Tensor) -> Tensor:
    """Stand one number a row up, so that it meets the features."""
    return t[:, None]


_gamma = _gradient(
    "γ",
    0,
    truth=lambda dy, mu, sigma: (dy * mu / _column(sigma)).sum(0),
    slips={
        "the sign is wrong": lambda dy, mu, sigma: -(dy * mu / _column(sigma)).sum(0),
        "σ is missing: γ multiplies μ/σ": lambda dy, mu: (dy * mu).sum(0),
        "one power of σ too many": lambda dy, mu, sigma: (dy * mu / _column(sigma) ** 2).sum(0),
        "ε is forgotten: σ is √(v + ε)": lambda dy, mu, v: (dy * mu / _column(v.sqrt())).sum(0),
        "∂l/∂γ has no γ in it: y is linear in γ": lambda dy, mu, sigma, gamma: (
            dy * mu / _column(sigma) * gamma
        ).sum(0),
        "that averages over the rows; they are summed": lambda dy, mu, sigma: (
            dy * mu / _column(sigma)
        ).mean(0),
        "summed over the wrong index: q stays, b is summed": lambda dy, mu, sigma: (
            dy * mu / _column(sigma)
        ).sum(1),
        "b is not on the left, so it is summed": lambda dy, mu, sigma: dy * mu / _column(sigma),
        "that is the unbiased variance; layer norm divides by H": lambda dy, mu, x, eps: (
            dy * mu / _column((x.var(1) + eps).sqrt())
        ).sum(0),
    },
)
_beta = _gradient(
    "β",
    0,
    truth=lambda dy: dy.sum(0),
    slips={
        "the sign is wrong": lambda dy: -dy.sum(0),
        "that averages over the rows; they are summed": lambda dy: dy.mean(0),
        "summed over the wrong index: q stays, b is summed": lambda dy: dy.sum(1),
        "b is not on the left, so it is summed": lambda dy: dy,
        "q stays: one number for each feature": lambda dy: dy.sum(),
        "∂l/∂β has no γ in it: β is added after γ": lambda dy, gamma: gamma * dy.sum(0),
    },
)
_sigma = _gradient(
    "σ",
    0,
    truth=lambda dy, mu, sigma, gamma: -(dy * mu * gamma).sum(1) / sigma**2,
    slips={
        "the sign is wrong: 1/σ falls as σ grows": lambda dy, mu, sigma, gamma: (
            (dy * mu * gamma).sum(1) / sigma**2
        ),
        "one power of σ is missing: the derivative of 1/σ is −1/σ²": lambda dy, mu, sigma, gamma: (
            -(dy * mu * gamma).sum(1) / sigma
        ),
        "ε is forgotten: σ² is v + ε": lambda dy, mu, v, gamma: -(dy * mu * gamma).sum(1) / v,
        "γ is forgotten": lambda dy, mu, sigma: -(dy * mu).sum(1) / sigma**2,
        "γ_h belongs inside the sum over h": lambda dy, mu, sigma, gamma: (
            -(dy * mu).sum(1) * gamma.sum() / sigma**2
        ),
        "that averages over the features; they are summed": lambda dy, mu, sigma, gamma: (
            -(dy * mu * gamma).mean(1) / sigma**2
        ),
        "summed over the wrong index: p stays, h is summed": lambda dy, mu, sigma, gamma: (
            -(dy * mu * gamma / _column(sigma) ** 2).sum(0)
        ),
        "h is not on the left, so it is summed": lambda dy, mu, sigma, gamma: (
            -dy * mu * gamma / _column(sigma) ** 2
        ),
        "that is the unbiased variance; layer norm divides by H": lambda dy, mu, gamma, x, eps: (
            -(dy * mu * gamma).sum(1) / (x.var(1) + eps)
        ),
    },
)
_v = _gradient(
    "v",
    1,
    truth=lambda dl_dsigma, sigma: dl_dsigma / (2 * sigma),
    slips={
        "the sign is wrong: σ grows with v": lambda dl_dsigma, sigma: -dl_dsigma / (2 * sigma),
        "the factor ½ of the root is missing": lambda dl_dsigma, sigma: dl_dsigma / sigma,
        "the 2 of the root belongs below": lambda dl_dsigma, sigma: 2 * dl_dsigma / sigma,
        "one power of σ too many: the root leaves 1/σ": lambda dl_dsigma, sigma: (
            dl_dsigma / (2 * sigma**2)
        ),
        "ε is forgotten: σ is √(v + ε)": lambda dl_dsigma, v: dl_dsigma / (2 * v.sqrt()),
        "that is ∂σ/∂v alone; multiply it by ∂l/∂σ": lambda sigma: 1 / (2 * sigma),
        "the minus of ∂l/∂σ is lost": lambda dy, mu, gamma, sigma: (
            (dy * mu * gamma).sum(1) / (2 * sigma**2)
        ),
    },
)
_mu = _gradient(
    "μ",
    2,
    truth=lambda dl_dv, mu, H, dy, gamma, sigma: (
        _column(dl_dv) * 2 * mu / H + dy * gamma / _column(sigma)
    ),
    slips={
        "one consumer is forgotten: v is made of μ too": lambda dy, gamma, sigma: (
            dy * gamma / _column(sigma)
        ),
        "one consumer is forgotten: y is made of μ too": lambda dl_dv, mu, H: (
            _column(dl_dv) * 2 * mu / H
        ),
        "the factor 2 of the square is missing": lambda dl_dv, mu, H, dy, gamma, sigma: (
            _column(dl_dv) * mu / H + dy * gamma / _column(sigma)
        ),
        "the 1/H of the mean of squares is missing": lambda dl_dv, mu, dy, gamma, sigma: (
            _column(dl_dv) * 2 * mu + dy * gamma / _column(sigma)
        ),
        "one sign is wrong: add both consumers": lambda dl_dv, mu, H, dy, gamma, sigma: (
            dy * gamma / _column(sigma) - _column(dl_dv) * 2 * mu / H
        ),
        "γ is forgotten": lambda dl_dv, mu, H, dy, sigma: (
            _column(dl_dv) * 2 * mu / H + dy / _column(sigma)
        ),
        "σ is missing under dy γ": lambda dl_dv, mu, H, dy, gamma: (
            _column(dl_dv) * 2 * mu / H + dy * gamma
        ),
        "ε is forgotten: σ is √(v + ε)": lambda dl_dv, mu, H, dy, gamma, v: (
            _column(dl_dv) * 2 * mu / H + dy * gamma / _column(v.sqrt())
        ),
    },
)
_m = _gradient(
    "m",
    3,
    truth=lambda dl_dmu: -dl_dmu.sum(1),
    slips={
        "the sign is wrong: μ falls as m grows": lambda dl_dmu: dl_dmu.sum(1),
        "the 1/H belongs to ∂m/∂x; here the features are summed": lambda dl_dmu: -dl_dmu.mean(1),
        "summed over the wrong index: p stays, h is summed": lambda dl_dmu: -dl_dmu.sum(0),
        "h is not on the left, so it is summed": lambda dl_dmu: -dl_dmu,
        "γ is forgotten": lambda dy, sigma: -dy.sum(1) / sigma,
        "σ is missing": lambda dy, gamma: -(dy * gamma).sum(1),
        "ε is forgotten: σ is √(v + ε)": lambda dy, gamma, v: -(dy * gamma).sum(1) / v.sqrt(),
    },
)


def _final(dy: Tensor, gamma: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    g, x_hat = dy * gamma, mu / _column(sigma)
    lost = g.mean(1, True) + x_hat * (g * x_hat).mean(1, True)
    return (g - lost) / _column(sigma)


_x = _gradient(
    "x",
    4,
    truth=lambda dl_dm, dl_dmu, H: dl_dmu + _column(dl_dm) / H,
    slips={
        "one consumer is forgotten: m is made of x too": lambda dl_dmu: dl_dmu,
        "one consumer is forgotten: μ is made of x too": lambda dl_dm, dl_dmu, H: (
            _column(dl_dm) / H
        ).expand_as(dl_dmu),
        "the 1/H of the mean is missing": lambda dl_dm, dl_dmu: dl_dmu + _column(dl_dm),
        "the sign is wrong: ∂l/∂m already has its minus": lambda dl_dm, dl_dmu, H: (
            dl_dmu - _column(dl_dm) / H
        ),
        "the 1/H belongs to the term of m alone": lambda dl_dm, dl_dmu, H: (
            (dl_dmu + _column(dl_dm)) / H
        ),
        "the x̂ term is missing: σ is made of x too": lambda dy, gamma, sigma: (
            (dy * gamma - (dy * gamma).mean(1, True)) / _column(sigma)
        ),
        "γ belongs inside the means: it multiplies dy first": lambda dy, gamma, mu, sigma: (
            gamma * _final(dy, torch.ones_like(gamma), mu, sigma)
        ),
        "γ is forgotten": lambda dy, gamma, mu, sigma: _final(
            dy, torch.ones_like(gamma), mu, sigma
        ),
        "ε is forgotten: σ is √(v + ε)": lambda dy, gamma, mu, v: _final(dy, gamma, mu, v.sqrt()),
    },
)

_BY_HAND = _known_of(  # each σ is a whole number, and no slip gives the number of another
    x=torch.tensor([[7.0, 1, 1], [1, 7, 13]], dtype=torch.float64),
    gamma=torch.tensor([4.0, 2, 3], dtype=torch.float64),
    beta=torch.tensor([1.0, 0, 2], dtype=torch.float64),
    eps=1.0,
    dy=torch.tensor([[3.0, -3, 1], [4, 2, -3]], dtype=torch.float64),
)

game = Derivation(
    {"gamma": _gamma, "beta": _beta, "sigma": _sigma, "v": _v, "mu": _mu, "m": _m, "x": _x},
    numbers=_BY_HAND,
)


def _why_it_shows(x: Tensor) -> str | None:
    """Say why ``mu / sigma``, with one σ a row and no new axis, is caught on the batch ``x``."""
    if x.ndim != 2 or min(x.shape) < 2:
        return "a list of at least two rows with at least two features each, please"
    if not x.isfinite().all():
        return "finite numbers, please"
    t = formula.terms(x)
    if not t.var.isfinite().all():
        return "smaller numbers, please: the variance does not fit into float64"
    if (x == x[0]).all():
        return "all rows are the same; let two differ"
    if (t.var < 1e-6).any():
        return "a row is constant, or nearly so; let its features differ more"
    B, H = x.shape
    if B != H:
        return f"PyTorch stops: μ has {H} features in a row, σ has {B} rows, and {H} is not {B}"
    off = (t.x_hat - (x - t.mean) / t.denominator.squeeze(1)).abs().max()
    if not off <= 1e-6:
        return f"it runs, and is off by {off:.1g}: feature h is divided by the σ of row h"
    return None


break_axis = Search(
    "a batch on which a lost axis does not show",
    wrong=_why_it_shows,
    ask="answer with a list of rows, each a list of numbers",
    why=(
        "There are as many rows as features, so PyTorch divides feature h by the σ of row h "
        "without complaint, and on your batch that makes no difference."
    ),
)
