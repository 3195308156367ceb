"""The Fisher matrix of a normalized generalized linear model, by its definition and by equation 13.

The model has summed inputs a = W x, logits z = γ ⊙ (a − μ)/σ + β, and a distribution of the form
log P(y | x) = yᵀz − η(z), so that the paper's φ is 1. Its parameters are a table θ of the shape
(H, D + 2): row i holds w_i, β_i and γ_i, in the paper's order.

Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450, section 5.2, equations 8 to 14.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from lnlib.book.experiments.table_1 import Layer, Norm, normalized

__all__ = ["SOFTMAX", "Output", "by_equation_13", "covariance", "fisher", "slopes"]


class Output(NamedTuple):
    """A distribution of the outputs y: what can come out, and η, with one value for each case.

    ``outcomes`` takes H and returns (outcomes, H); ``eta`` takes logits (B, H) and returns (B,).
    """

    outcomes: Callable[[int], Tensor]
    eta: Callable[[Tensor], Tensor]


SOFTMAX = Output(
    lambda H: torch.eye(H, dtype=torch.float64), lambda z: z.logsumexp(1)
)  # one of H classes


def logits(theta: Tensor, x: Tensor, norm: Norm) -> Tensor:
    """Return z, (B, H), for the parameters ``theta``, (H, D + 2), and the cases ``x``, (B, D)."""
    weight, beta, gamma = theta[:, :-2], theta[:, -2], theta[:, -1]
    return gamma * normalized(Layer(weight, x), norm) + beta


def log_probabilities(theta: Tensor, x: Tensor, norm: Norm, output: Output) -> Tensor:
    """Return log P(y | x) of every outcome, (B, outcomes)."""
    z = logits(theta, x, norm)
    outcomes = output.outcomes(len(theta))
    return z @ outcomes.mT - output.eta(z)[:, None]


def fisher(theta: Tensor, x: Tensor, norm: Norm, output: Output) -> Tensor:
    """Return the Fisher matrix by its definition, (H, D + 2, H, D + 2).

    It is the mean, over the cases and over all outcomes y by their probability, of the product of
    the gradient of log P(y | x) with itself. The cases are all there are: nothing is sampled.
    """

    def log_p(parameters: Tensor) -> Tensor:
        return log_probabilities(parameters, x, norm, output)

    gradients = jacobian(log_p, theta)  # type: ignore[no-untyped-call]
    return torch.einsum("nk,nkip,nkjq->ipjq", log_p(theta).exp(), gradients, gradients) / len(x)


def covariance(theta: Tensor, x: Tensor, norm: Norm, output: Output) -> Tensor:
    """Return Cov[y | x] of each case, (B, H, H)."""
    y = output.outcomes(len(theta))
    p = log_probabilities(theta, x, norm, output).exp()
    mean = p @ y
    return torch.einsum("nk,ki,kj->nij", p, y, y) - mean[:, :, None] * mean[:, None, :]


def slopes(theta: Tensor, x: Tensor, norm: Norm) -> Tensor:
    """Return how each logit moves with each row of θ, (B, H, H, D + 2): ∂z_k/∂θ_i at [:, k, i]."""
    table = jacobian(lambda each: logits(each, x, norm), theta)  # type: ignore[no-untyped-call]
    return torch.as_tensor(table)


def by_equation_13(theta: Tensor, x: Tensor, norm: Norm, output: Output) -> Tensor:
    """Return the Fisher matrix as equation 13 has it, (H, D + 2, H, D + 2).

    Its table of nine entries is the product of a vector for i with one for j, of the entries
    (γ_i/σ_i) χ_i, 1 and (a_i − μ_i)/σ_i. That is ∂z_i/∂θ_i: how a logit moves with its own row.
    """
    own = slopes(theta, x, norm).diagonal(dim1=1, dim2=2).movedim(-1, 1)
    cov = covariance(theta, x, norm, output)
    return torch.einsum("nij,nip,njq->ipjq", cov, own, own) / len(x)
