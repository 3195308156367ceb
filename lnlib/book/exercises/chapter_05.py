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
        "in the second, i is not on the left either: it is summed too": [5, 1, 10],
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
    "c_i = u_bi u_bk w_k v_b",
    truth=lambda u, w, v: torch.einsum("bi,bk,k,b->i", u, u, w, v),
    inputs=[  # a square one tells rows from features as well
        (normal(B, H, seed=0), normal(H, seed=1), normal(B, seed=2)) for B, H in ((3, 5), (4, 4))
    ],
    slips={
        "i and k are two letters: each u has its own": lambda u, w, v: torch.einsum(
            "bk,bk,k,b->k", u, u, w, v
        ),
        "b is summed as well: it is not on the left": lambda u, w, v: torch.einsum(
            "bi,bk,k,b->bi", u, u, w, v
        ),
        "i stays: it is on the left": lambda u, w, v: torch.einsum("bi,bk,k,b->", u, u, w, v),
        "b is the same row in all three: sum the product, not each factor": lambda u, w, v: (
            u.sum(0) * torch.einsum("bk,k,b->", u, w, v)
        ),
        "v_b belongs in the sum over b": lambda u, w, v: torch.einsum("bi,bk,k->i", u, u, w),
        "w_k belongs in the sum over k": lambda u, w, v: torch.einsum("bi,bk,b->i", u, u, v),
    },
)


def _known(B: int, H: int, eps: float) -> dict[str, Any]:
    """Return what a reader may use, on random numbers."""
    x, weight, bias = 3 + normal(B, H, seed=B), 1 + normal(H, seed=H), normal(H, seed=H + 1)
    return _known_of(x, weight, bias, eps, dy=normal(B, H, seed=B + H))


def _known_of(x: Tensor, weight: Tensor, bias: Tensor, eps: float, dy: Tensor) -> dict[str, Any]:
    """Return what a reader may use: the forward pass, and the gradients in the order of the way."""
    B, H = x.shape
    t = formula.terms(x, eps=eps)
    centered, var, s = x - t.mean, t.var.squeeze(1), t.denominator.squeeze(1)
    ds = -(dy * weight * centered).sum(1) / s**2
    dvar = ds / (2 * s)
    dcentered = dvar[:, None] * 2 * centered / H + dy * weight / s[:, None]
    forward = {"dy": dy, "x": x, "weight": weight, "bias": bias, "eps": eps, "B": B, "H": H}
    forward |= {"mean": t.mean.squeeze(1), "centered": centered, "var": var, "s": s}
    return forward | {
        "ds": ds,
        "dvar": dvar,
        "dcentered": dcentered,
        "dmean": -dcentered.sum(1),
    }


_ON_THE_WAY = ("ds", "dvar", "dcentered", "dmean")
_KNOWN = [_known(2, 3, 1e-5), _known(4, 4, 2e-5), _known(3, 7, 5e-6)]


def _gradient(
    of: str,
    found: int,
    truth: Callable[..., Any],
    slips: Mapping[str, Callable[..., Any]],
) -> Gradient:
    """Ask for ∂L/∂``of`` once the first ``found`` of the gradients on the way are known."""
    later = set(_ON_THE_WAY[found:])
    known = [{k: value for k, value in case.items() if k not in later} for case in _KNOWN]
    return Gradient(f"∂L/∂{of}", known, truth, slips)


def _column(t: Tensor) -> Tensor:
    """Stand one number a row up, so that it meets the features."""
    return t[:, None]


_weight = _gradient(
    "γ",
    0,
    truth=lambda dy, centered, s: (dy * centered / _column(s)).sum(0),
    slips={
        "the sign is wrong": lambda dy, centered, s: -(dy * centered / _column(s)).sum(0),
        "s is missing: γ multiplies x̃/s": lambda dy, centered: (dy * centered).sum(0),
        "one power of s too many": lambda dy, centered, s: (dy * centered / _column(s) ** 2).sum(0),
        "ε is forgotten: s is √(σ² + ε)": lambda dy, centered, var: (
            dy * centered / _column(var.sqrt())
        ).sum(0),
        "∂L/∂γ has no γ in it: y is linear in γ": lambda dy, centered, s, weight: (
            dy * centered / _column(s) * weight
        ).sum(0),
        "that averages over the rows; they are summed": lambda dy, centered, s: (
            dy * centered / _column(s)
        ).mean(0),
        "summed over the wrong index: i stays, b is summed": lambda dy, centered, s: (
            dy * centered / _column(s)
        ).sum(1),
        "b is not on the left, so it is summed": lambda dy, centered, s: dy * centered / _column(s),
        "that is the unbiased variance; divide by H": lambda dy, centered, x, eps: (
            dy * centered / _column((x.var(1) + eps).sqrt())
        ).sum(0),
    },
)
_bias = _gradient(
    "β",
    0,
    truth=lambda dy: dy.sum(0),
    slips={
        "the sign is wrong": lambda dy: -dy.sum(0),
        "that averages over the rows; they are summed": lambda dy: dy.mean(0),
        "summed over the wrong index: i stays, b is summed": lambda dy: dy.sum(1),
        "b is not on the left, so it is summed": lambda dy: dy,
        "i stays: one number for each feature": lambda dy: dy.sum(),
        "∂L/∂β has no γ in it: β is added after γ": lambda dy, weight: weight * dy.sum(0),
    },
)
_s = _gradient(
    "s",
    0,
    truth=lambda dy, centered, s, weight: -(dy * centered * weight).sum(1) / s**2,
    slips={
        "the sign is wrong: 1/s falls as s grows": lambda dy, centered, s, weight: (
            (dy * centered * weight).sum(1) / s**2
        ),
        "one power of s is missing: ∂(1/s)/∂s is −1/s²": lambda dy, centered, s, weight: (
            -(dy * centered * weight).sum(1) / s
        ),
        "ε is forgotten: s² is σ² + ε": lambda dy, centered, var, weight: (
            -(dy * centered * weight).sum(1) / var
        ),
        "γ is forgotten": lambda dy, centered, s: -(dy * centered).sum(1) / s**2,
        "γ_k belongs inside the sum over k": lambda dy, centered, s, weight: (
            -(dy * centered).sum(1) * weight.sum() / s**2
        ),
        "that averages over the features; they are summed": lambda dy, centered, s, weight: (
            -(dy * centered * weight).mean(1) / s**2
        ),
        "summed over the wrong index: a stays, k is summed": lambda dy, centered, s, weight: (
            -(dy * centered * weight / _column(s) ** 2).sum(0)
        ),
        "k is not on the left, so it is summed": lambda dy, centered, s, weight: (
            -dy * centered * weight / _column(s) ** 2
        ),
        "that is the unbiased variance; divide by H": lambda dy, centered, weight, x, eps: (
            -(dy * centered * weight).sum(1) / (x.var(1) + eps)
        ),
    },
)
_var = _gradient(
    "σ²",
    1,
    truth=lambda ds, s: ds / (2 * s),
    slips={
        "the sign is wrong: s grows with σ²": lambda ds, s: -ds / (2 * s),
        "the factor ½ of the root is missing": lambda ds, s: ds / s,
        "the 2 of the root belongs below": lambda ds, s: 2 * ds / s,
        "one power of s too many: the root leaves 1/s": lambda ds, s: ds / (2 * s**2),
        "ε is forgotten: s is √(σ² + ε)": lambda ds, var: ds / (2 * var.sqrt()),
        "that is ∂s/∂σ² alone; multiply it by ∂L/∂s": lambda s: 1 / (2 * s),
        "the minus of ∂L/∂s is lost": lambda dy, centered, weight, s: (
            (dy * centered * weight).sum(1) / (2 * s**2)
        ),
    },
)
_centered = _gradient(
    "x̃",
    2,
    truth=lambda dvar, centered, H, dy, weight, s: (
        _column(dvar) * 2 * centered / H + dy * weight / _column(s)
    ),
    slips={
        "one consumer is forgotten: σ² is made of x̃ too": lambda dy, weight, s: (
            dy * weight / _column(s)
        ),
        "one consumer is forgotten: y is made of x̃ too": lambda dvar, centered, H: (
            _column(dvar) * 2 * centered / H
        ),
        "the factor 2 of the square is missing": lambda dvar, centered, H, dy, weight, s: (
            _column(dvar) * centered / H + dy * weight / _column(s)
        ),
        "the 1/H of the mean of squares is missing": lambda dvar, centered, dy, weight, s: (
            _column(dvar) * 2 * centered + dy * weight / _column(s)
        ),
        "one sign is wrong: add both consumers": lambda dvar, centered, H, dy, weight, s: (
            dy * weight / _column(s) - _column(dvar) * 2 * centered / H
        ),
        "γ is forgotten": lambda dvar, centered, H, dy, s: (
            _column(dvar) * 2 * centered / H + dy / _column(s)
        ),
        "s is missing under dy γ": lambda dvar, centered, H, dy, weight: (
            _column(dvar) * 2 * centered / H + dy * weight
        ),
        "ε is forgotten: s is √(σ² + ε)": lambda dvar, centered, H, dy, weight, var: (
            _column(dvar) * 2 * centered / H + dy * weight / _column(var.sqrt())
        ),
    },
)
_mean = _gradient(
    "μ",
    3,
    truth=lambda dcentered: -dcentered.sum(1),
    slips={
        "the sign is wrong: x̃ falls as μ grows": lambda dcentered: dcentered.sum(1),
        "the 1/H belongs to ∂μ/∂x; here the features are summed": lambda dcentered: (
            -dcentered.mean(1)
        ),
        "summed over the wrong index: a stays, k is summed": lambda dcentered: -dcentered.sum(0),
        "k is not on the left, so it is summed": lambda dcentered: -dcentered,
        "γ is forgotten": lambda dy, s: -dy.sum(1) / s,
        "s is missing": lambda dy, weight: -(dy * weight).sum(1),
        "ε is forgotten: s is √(σ² + ε)": lambda dy, weight, var: (
            -(dy * weight).sum(1) / var.sqrt()
        ),
    },
)


def _final(dy: Tensor, weight: Tensor, centered: Tensor, s: Tensor) -> Tensor:
    g, x_hat = dy * weight, centered / _column(s)
    lost = g.mean(1, True) + x_hat * (g * x_hat).mean(1, True)
    return (g - lost) / _column(s)


_x = _gradient(
    "x",
    4,
    truth=lambda dmean, dcentered, H: dcentered + _column(dmean) / H,
    slips={
        "one consumer is forgotten: μ is made of x too": lambda dcentered: dcentered,
        "one consumer is forgotten: x̃ is made of x too": lambda dmean, dcentered, H: (
            _column(dmean) / H
        ).expand_as(dcentered),
        "the 1/H of the mean is missing": lambda dmean, dcentered: dcentered + _column(dmean),
        "the sign is wrong: ∂L/∂μ already has its minus": lambda dmean, dcentered, H: (
            dcentered - _column(dmean) / H
        ),
        "the 1/H belongs to the term of μ alone": lambda dmean, dcentered, H: (
            (dcentered + _column(dmean)) / H
        ),
        "the x̂ term is missing: s is made of x too": lambda dy, weight, s: (
            (dy * weight - (dy * weight).mean(1, True)) / _column(s)
        ),
        "γ belongs inside the means: it multiplies dy first": lambda dy, weight, centered, s: (
            weight * _final(dy, torch.ones_like(weight), centered, s)
        ),
        "γ is forgotten": lambda dy, weight, centered, s: _final(
            dy, torch.ones_like(weight), centered, s
        ),
        "ε is forgotten: s is √(σ² + ε)": lambda dy, weight, centered, var: _final(
            dy, weight, centered, var.sqrt()
        ),
    },
)

_BY_HAND = _known_of(  # each s is a whole number, and no slip gives the number of another
    x=torch.tensor([[7.0, 1, 1], [1, 7, 13]], dtype=torch.float64),
    weight=torch.tensor([4.0, 2, 3], dtype=torch.float64),
    bias=torch.tensor([1.0, 0, 2], dtype=torch.float64),
    eps=1.0,
    dy=torch.tensor([[3.0, -3, 1], [4, 2, -3]], dtype=torch.float64),
)

game = Derivation(
    {
        "weight": _weight,
        "bias": _bias,
        "s": _s,
        "var": _var,
        "centered": _centered,
        "mean": _mean,
        "x": _x,
    },
    numbers=_BY_HAND,
)


def _why_it_shows(x: Tensor) -> str | None:
    """Say why ``centered / s``, with one s a row and no new axis, is caught on the batch ``x``."""
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
        return f"PyTorch stops: x̃ has {H} features in a row, s has {B} rows, and {H} is not {B}"
    off = (t.x_hat - (x - t.mean) / t.denominator.squeeze(1)).abs().max()
    if not off <= 1e-6:
        return f"it runs, and is off by {off:.1g}: feature k is divided by the s of row k"
    return None


break_axis = Search(
    "a batch on which a lost axis does not show",
    wrong=_why_it_shows,
    ask="answer with a list of rows, each a list of numbers",
    why=(
        "There are as many rows as features, so PyTorch divides feature k by the s of row k "
        "without complaint, and on your batch that makes no difference."
    ),
)
