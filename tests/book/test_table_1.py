"""Table 1 of the paper, cell by cell, and what it leaves out: each caveat by the case that breaks.

An invariance is exact on paper. In float64 a summed input of size 10 carries errors of 1e-15, and
a spread that happens to be small divides by it: 1e-10 leaves room for that, and none for a change
that anyone could call one.
"""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F

from lnlib import formula
from lnlib.book.experiments import table_1
from lnlib.book.experiments.table_1 import (
    CHANGES,
    NORMS,
    TABLE_1,
    Layer,
    batch_norm,
    center_data,
    center_matrix,
    deviation,
    layer_norm,
    normalized,
    random_layer,
    rms_norm,
    running,
    scale_data,
    scale_matrix,
    scale_row,
    scale_sample,
    weight_norm,
)

EXACT, NOTICED = 1e-10, 0.1
CELLS = [
    (norm, change, invariant)
    for norm, row in TABLE_1.items()
    for change, invariant in zip(CHANGES, row, strict=True)
]
SHAPES = [(2, 3, 1), (3, 2, 7), (11, 7, 5), (37, 13, 29), (5, 41, 3)]
DECADES = [1e-6, 1e-3, 0.1, 0.9, 3.0, 1e2, 1e6]


def test_the_table_has_eighteen_cells() -> None:
    assert len(CELLS) == 18
    assert list(TABLE_1) == list(NORMS)


@pytest.mark.parametrize(("norm", "change", "invariant"), CELLS)
@pytest.mark.parametrize("delta", [0.2, 3.0, 50.0])
def test_a_cell_of_table_1_is_what_the_paper_says(
    norm: str, change: str, invariant: bool, delta: float
) -> None:
    for seed in range(5):
        moved = deviation(random_layer(seed), NORMS[norm], CHANGES[change], delta)
        assert moved < EXACT if invariant else moved > NOTICED


@pytest.mark.parametrize(("B", "H", "D"), SHAPES)
def test_the_norms_are_those_of_pytorch(B: int, H: int, D: int) -> None:
    layer = random_layer(H, B, H, D)
    a = layer.sums
    by_batch = F.batch_norm(a, None, None, training=True, eps=1e-30)  # PyTorch takes no 0
    torch.testing.assert_close(normalized(layer, batch_norm), by_batch, rtol=1e-9, atol=1e-9)
    by_layer = formula.layer_norm(a, eps=0.1)
    torch.testing.assert_close(
        normalized(layer, layer_norm, eps=0.1), by_layer, rtol=1e-12, atol=1e-12
    )
    by_rms = formula.layer_norm(a, eps=0.1, center=False)
    torch.testing.assert_close(normalized(layer, rms_norm, eps=0.1), by_rms, rtol=1e-12, atol=1e-12)
    linear = torch.nn.Linear(D, H, bias=False, dtype=torch.float64)
    with torch.no_grad():
        linear.weight.copy_(layer.weight)
    fresh = torch.nn.utils.parametrizations.weight_norm(linear)
    with torch.no_grad():
        fresh.parametrizations.weight.original0.fill_(1)  # its g starts at the rows' lengths
    torch.testing.assert_close(
        normalized(layer, weight_norm), fresh(layer.x).detach(), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize(("shape", "delta"), list(product(SHAPES, DECADES)))
def test_equation_6_weights_scaled_and_centered_at_once(
    shape: tuple[int, int, int], delta: float
) -> None:
    for seed in range(3):
        layer = random_layer(seed, *shape)
        shift = delta * torch.randn(shape[2], dtype=torch.float64)  # as large as what is left of W
        moved = layer._replace(weight=delta * layer.weight + shift)
        before, after = normalized(layer, layer_norm), normalized(moved, layer_norm)
        torch.testing.assert_close(after, before, rtol=0, atol=EXACT)


@pytest.mark.parametrize(("shape", "delta"), list(product(SHAPES, DECADES)))
def test_equation_7_each_case_scaled_by_its_own_factor(
    shape: tuple[int, int, int], delta: float
) -> None:
    for seed in range(3):
        layer = random_layer(seed, *shape)
        factors = delta * (0.1 + torch.rand(shape[0], 1, dtype=torch.float64))
        moved = layer._replace(x=factors * layer.x)
        before, after = normalized(layer, layer_norm), normalized(moved, layer_norm)
        torch.testing.assert_close(after, before, rtol=0, atol=EXACT)


SCALINGS = {
    "Batch norm": (scale_matrix, scale_row, scale_data),
    "Weight norm": (scale_matrix, scale_row),
    "Layer norm": (scale_matrix, scale_data, scale_sample),
}


@pytest.mark.parametrize(
    ("norm", "change"), [(norm, change) for norm in SCALINGS for change in SCALINGS[norm]]
)
def test_a_negative_factor_turns_the_sign(norm: str, change: table_1.Change) -> None:
    layer = random_layer(3)
    before, after = (normalized(each, NORMS[norm]) for each in (layer, change(layer, -3.0)))
    turned = before.sign() * after.sign() < 0
    if change is scale_row:
        turned, before, after = turned[:, :1], before[:, :1], after[:, :1]
    if change is scale_sample:
        turned, before, after = turned[:1], before[:1], after[:1]
    assert turned.all()
    torch.testing.assert_close(after, -before, rtol=0, atol=EXACT)


def test_a_factor_of_zero_is_no_case_of_it() -> None:
    for norm in NORMS.values():
        assert math.isnan(deviation(random_layer(0), norm, scale_matrix, 0.0))


@pytest.mark.parametrize("norm", NORMS)
def test_with_eps_the_invariance_is_lost_where_the_spread_is_small(norm: str) -> None:
    layer = random_layer(1)
    before = normalized(layer, NORMS[norm])
    for factor in (1e-4, 1e-2, 1.0):
        spread = factor * NORMS[norm](layer)[1]
        after = normalized(scale_matrix(layer, factor), NORMS[norm], eps=1e-5)
        expected = before / (1 + 1e-5 / spread**2).sqrt()
        torch.testing.assert_close(after, expected, rtol=1e-10, atol=1e-12)
    assert deviation(layer, NORMS[norm], scale_matrix, 1e-4, eps=1e-5) > NOTICED


@pytest.mark.parametrize("change", [scale_matrix, scale_data, scale_sample])
def test_a_bias_inside_layer_norm_breaks_what_is_scaled(change: table_1.Change) -> None:
    inside = torch.randn(7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    layer = random_layer(2)._replace(inside=inside)
    assert deviation(layer, layer_norm, change) > NOTICED


def test_a_bias_inside_is_harmless_where_it_is_taken_off() -> None:
    inside = torch.randn(7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    layer = random_layer(2)._replace(inside=inside)
    assert deviation(layer, layer_norm, center_matrix) < EXACT
    for change, invariant in zip(CHANGES.values(), TABLE_1["Batch norm"], strict=True):
        moved = deviation(layer, batch_norm, change)
        assert moved < EXACT if invariant else moved > NOTICED


def test_another_vector_for_each_row_is_no_re_centering() -> None:
    layer = random_layer(4)
    each_its_own = torch.randn(7, 5, generator=torch.Generator().manual_seed(1)).double()
    moved = layer._replace(weight=layer.weight + each_its_own)
    apart = normalized(moved, layer_norm) - normalized(layer, layer_norm)
    assert apart.abs().max() > NOTICED


@pytest.mark.parametrize("change", CHANGES)
def test_batch_norm_in_use_notices_every_change(change: str) -> None:
    layer = random_layer(5)
    assert deviation(layer, running(layer), CHANGES[change]) > NOTICED


def test_the_fourth_row_that_of_rms_norm() -> None:
    row = [deviation(random_layer(6), rms_norm, change) < EXACT for change in CHANGES.values()]
    assert row == [True, False, False, True, False, True]


def test_a_change_leaves_the_layer_that_it_was_given_alone() -> None:
    layer = random_layer(7)
    weight, x = layer.weight.clone(), layer.x.clone()
    for change in CHANGES.values():
        change(layer, 3.0)
    assert torch.equal(layer.weight, weight)
    assert torch.equal(layer.x, x)
    shifts = center_matrix(layer, 3.0).weight - weight, center_data(layer, 3.0).x - x
    for shift in shifts:  # one vector for all, whose entries differ
        torch.testing.assert_close(shift, shift[:1].expand_as(shift), rtol=0, atol=EXACT)
        assert shift[0].std() > 1
    assert not torch.equal(scale_row(layer, 3.0).weight[0], weight[0])
    assert torch.equal(scale_row(layer, 3.0).weight[1:], weight[1:])
    assert torch.equal(scale_sample(layer, 3.0).x[1:], x[1:])


def test_a_bias_inside_is_added_to_the_sums() -> None:
    layer = Layer(torch.eye(2).double(), torch.ones(3, 2).double(), torch.tensor([1.0, 2.0]))
    assert torch.equal(layer.sums, torch.tensor([[2.0, 3.0]] * 3).double())
