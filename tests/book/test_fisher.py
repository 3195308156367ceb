"""The Fisher matrix of a normalized model: the definition against two other roads, and eq. 13.

Entries are near 1 and computed by a few hundred float64 operations: 1e-12 is room for rounding.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from lnlib.book.experiments.fisher import (
    SOFTMAX,
    Output,
    by_equation_13,
    covariance,
    fisher,
    log_probabilities,
    slopes,
)
from lnlib.book.experiments.table_1 import Norm, batch_norm, layer_norm, rms_norm, weight_norm

D = 4
EXACT = {"rtol": 0.0, "atol": 1e-12}
# Independent outputs of 0 or 1, to tell the definition from what softmax alone has.
BERNOULLI = Output(
    lambda H: torch.tensor([*product((0.0, 1.0), repeat=H)]).double(),
    lambda z: torch.nn.functional.softplus(z).sum(1),
)
each_norm = pytest.mark.parametrize("norm", [batch_norm, weight_norm, layer_norm, rms_norm])
each_output = pytest.mark.parametrize("output", [SOFTMAX, BERNOULLI], ids=["softmax", "bernoulli"])


def model(H: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    theta = torch.randn(H, D + 2, generator=generator, dtype=torch.float64)
    return theta, 0.5 + torch.randn(7, D, generator=generator, dtype=torch.float64)


def divergence(theta: Tensor, step: Tensor, x: Tensor, norm: Norm, output: Output) -> Tensor:
    before = log_probabilities(theta, x, norm, output)
    after = log_probabilities(theta + step, x, norm, output)
    return (before.exp() * (before - after)).sum(1).mean()


@each_norm
@each_output
def test_it_is_the_curvature_of_the_divergence_and_slopes_times_covariance(
    norm: Norm, output: Output
) -> None:
    theta, x = model(5)
    total = log_probabilities(theta, x, norm, output).exp().sum(1)
    torch.testing.assert_close(total, torch.ones(7).double(), **EXACT)
    F = fisher(theta, x, norm, output)
    step = torch.randn(5, D + 2, generator=torch.Generator().manual_seed(1)).double()
    curvature = torch.einsum("ip,ipjq,jq", step, F, step)
    there, back = (divergence(theta, s * 1e-4 * step, x, norm, output) for s in (1, -1))
    # What is odd in the step cancels. The next term is 1e-8 of this, and σ may be small in a case.
    torch.testing.assert_close((there + back) / 1e-8, curvature, rtol=1e-4, atol=1e-6)
    V, cov = slopes(theta, x, norm), covariance(theta, x, norm, output)
    product = torch.einsum("nkl,nkip,nljq->ipjq", cov, V, V) / len(x)
    torch.testing.assert_close(F, product, **EXACT)


@each_norm
@each_output
def test_equation_13_holds_where_a_row_moves_its_own_statistics_alone(
    norm: Norm, output: Output
) -> None:
    theta, x = model(3)
    F, theirs = fisher(theta, x, norm, output), by_equation_13(theta, x, norm, output)
    if norm in (batch_norm, weight_norm):
        torch.testing.assert_close(theirs, F, **EXACT)
    else:  # γ and β do not move statistics, so their part is right there too
        assert (theirs - F)[:, :D, :, :D].norm() > 0.1 * F[:, :D, :, :D].norm()
        torch.testing.assert_close(theirs[:, D:, :, D:], F[:, D:, :, D:], **EXACT)


def test_the_logits_are_those_of_batch_norm_with_any_sign_of_gamma() -> None:
    theta, x = model(3)
    theta[:, -1] = torch.tensor([-0.7, 0.4, 1.3])
    a = x @ theta[:, :D].T
    z = theta[:, -1] * (a - a.mean(0)) / a.std(0, correction=0) + theta[:, -2]
    found = log_probabilities(theta, x, batch_norm, SOFTMAX)
    torch.testing.assert_close(found, z.log_softmax(1), **EXACT)
