"""Chapter 04: the gradient of one row."""

from __future__ import annotations

import torch
from torch import Tensor

from lnlib import formula
from lnlib.book.exercises.base import Exercise, Search

_ROW = torch.tensor([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], dtype=torch.float64)
_GAMMA = torch.tensor([1.0, 2.0, 1.0, 3.0, 1.0, 2.0, 1.0, 1.0], dtype=torch.float64)
_CENTERED = _ROW - 5  # the row has mean 5 and standard deviation 2

dsigma = Exercise(
    "the derivative of σ with respect to each feature",
    truth=_CENTERED / 16,
    slips={
        "divide by σ as well: that is half of the derivative of σ²": _CENTERED / 8,
        "that is the derivative of σ²; the root has one too": _CENTERED / 4,
        "that is x̂; divide by H": _CENTERED / 2,
        "the root brings the factor ½, the square the factor 2: they cancel": _CENTERED / 32,
        "the sign is wrong: a feature above the mean widens the row": -_CENTERED / 16,
        "that is x̂/H²; divide by H once": _CENTERED / 128,
        "H is 8; you divided by H − 1": _CENTERED / 14,
        "subtract the mean: the derivative is (xᵢ − μ)/(Hσ)": _ROW / 16,
    },
    within=6e-3,  # two digits are enough by hand
    ask="answer with a list of eight numbers",
    why=(
        "The derivative is (xᵢ − μ)/(Hσ), and Hσ is 16: [a feature at the "
        "mean](#explorer-jacobian?x=1,3,3,5&output=2&input=2) does not move σ."
    ),
)


def _dydx(
    t: formula.Terms, weight: Tensor, factor: Tensor | float = 1.0, by: Tensor | None = None
) -> Tensor:
    """Return diag(γ) (I − 11ᵀ/H − factor · x̂x̂ᵀ/H) / by, (H, H); ``by`` is s unless given."""
    H = len(weight)
    kept = torch.eye(H, dtype=torch.float64) - (1 + factor * torch.outer(t.x_hat, t.x_hat)) / H
    return weight[:, None] * kept / (t.denominator if by is None else by)


def _beside(x: Tensor, weight: Tensor, eps: float, correction: int = 0) -> Tensor:
    t = formula.terms(x, eps=eps, eps_at="std", correction=correction)
    return _dydx(t, weight, t.denominator / t.std)


def _wider(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    t = formula.terms(x, eps=eps, eps_at="std", correction=1)
    H = len(x)
    return _dydx(t, weight, t.denominator / t.std * H / (H - 1))


def _without_factor(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return _dydx(formula.terms(x, eps=eps, eps_at="std"), weight)


def _upside_down(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    t = formula.terms(x, eps=eps, eps_at="std")
    return _dydx(t, weight, t.std / t.denominator)


def _times_s(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    t = formula.terms(x, eps=eps, eps_at="std")
    return _dydx(t, weight, t.denominator / t.std, by=torch.ones(1, dtype=torch.float64))


def _by_std(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    t = formula.terms(x, eps=eps, eps_at="std")
    return _dydx(t, weight, t.denominator / t.std, by=t.std)


def _no_mean(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    t = formula.terms(x, eps=eps, eps_at="std")
    return _beside(x, weight, eps) + weight[:, None] / len(x) / t.denominator


jacobian_beside = Exercise(
    "∂y/∂x for ε beside σ",
    truth=_beside,
    inputs=[(_ROW, _GAMMA, 0.5), (_ROW[[3, 0, 7]], _GAMMA[[0, 1, 3]], 0.1)],
    slips={
        "that is ε under the root": lambda x, w, eps: _dydx(formula.terms(x, eps=eps), w),
        "ε is missing": lambda x, w, eps: _beside(x, w, 0.0),
        "beside σ, the x̂ term has the factor s/σ": _without_factor,
        "the factor is s/σ, not σ/s": _upside_down,
        "divide by s": _times_s,
        "divide by s = σ + ε, not by σ": _by_std,
        "the derivative of μ is missing: 1/H in every entry": _no_mean,
        "σ divides by H; x.std() divides by H − 1": lambda x, w, eps: _beside(x, w, eps, 1),
        "that is correct for a σ that divides by H − 1; this one divides by H": _wider,
        "γ is missing": lambda x, w, eps: _beside(x, torch.ones_like(w), eps),
        "that is denominator layout: row k belongs to y_k here": lambda x, w, eps: (
            _beside(x, w, eps).T
        ),
    },
    within=1e-5,
)

rank = Exercise(
    "the rank when two γ are 0",
    truth=6,
    slips={
        "that is the rank of J; γ silences two features of y": 7,
        "close: the two features with γ = 0 can balance the other six": 5,
        "J loses the direction (1, …, 1), and γ silences two features": 8,
        "ε is not 0, so the direction x̂ is not lost": 4,
    },
    within=0,
    why=(
        "Of the eight x̂, six are seen, and the two that are not can make up for any move of "
        "the six, so the one direction that J loses costs nothing."
    ),
)


def _why_not_fooled(dy: Tensor) -> str | None:
    if not dy.isfinite().all():
        return "finite numbers, please"
    if not dy.any():
        return "a dy of zeros passes every test; give another one"
    g = _GAMMA * (dy / dy.abs().max())  # γ ⊙ dy itself may overflow
    x_hat = formula.terms(_ROW).x_hat
    if max(abs(g - g.mean())) < 1e-6:
        return "γ ⊙ dy is constant, so the gradient is zero; find one that is not"
    along = float((g * x_hat).mean())
    if abs(along) > 1e-6:
        return f"the mean of g x̂ is {along:.2g} for your dy, scaled to a largest entry of 1"
    return None


break_test = Search(
    "a dy that does not see the missing x̂ term",
    wrong=_why_not_fooled,
    ask="answer with a list of eight numbers",
    shape=(8,),
    why=(
        "Your γ ⊙ dy has no part along x̂, so the forgotten term is zero, and the wrong "
        "gradient is correct."
    ),
)

zero_sums = Exercise(
    "whether rows of dV and columns of dW sum to zero",
    truth=[True, False, True, True],
    slips={
        "with a γ for each feature, an output row does not sum to zero": [
            *(True, True, True, True),
        ],
        "the gradient before a norm sums to zero whatever γ is": [
            *(True, False, True, False),
        ],
        "it is the other way round: dV sees the outputs of the norm, dW its gradients": [
            *(True, True, True, False),
        ],
        "in a fresh layer y is x̂, which sums to zero": [
            *(False, False, True, True),
        ],
    },
    ask="answer with four times True or False: dV fresh, dV trained, dW fresh, dW trained",
    why=(
        "dV is made of the norm's outputs, which sum to zero only while γ is 1 and β is 0; "
        "dW is made of the gradients of its inputs, which always do."
    ),
)
