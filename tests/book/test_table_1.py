"""Table 1 of the paper, cell by cell, and what it leaves out: each caveat by the case that breaks.

An invariance is exact on paper. In float64 a summed input of size 10 carries errors of 1e-15, and
a spread that happens to be small divides by it: 1e-10 leaves room for that, and none for a change
that anyone could call one.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from lnlib import formula
from lnlib.book.experiments.table_1 import (
    CHANGES,
    NORMS,
    TABLE_1,
    batch_norm,
    center_data,
    center_matrix,
    deviation,
    layer_norm,
    normalized,
    random_layer,
    rms_norm,
    scale_data,
    scale_matrix,
    scale_sample,
    weight_norm,
)

EXACT, NOTICED = 1e-10, 0.1
SHAPES = [(2, 3, 1), (3, 2, 7), (11, 7, 5), (5, 41, 3)]
RMS = (True, False, False, True, False, True)  # a fourth row, which the paper lacks
each_norm = pytest.mark.parametrize("norm", NORMS)


@pytest.mark.parametrize(("norm", "row"), [*TABLE_1.items(), ("RMS norm", RMS)])
def test_a_row_of_table_1_is_what_the_paper_says(norm: str, row: tuple[bool, ...]) -> None:
    function = {**NORMS, "RMS norm": rms_norm}[norm]
    for change, invariant in zip(CHANGES, row, strict=True):
        for seed, delta in enumerate((0.2, 3.0, 50.0)):
            moved = deviation(random_layer(seed), function, CHANGES[change], delta)
            assert moved < EXACT if invariant else moved > NOTICED, (change, delta)


@pytest.mark.parametrize(("B", "H", "D"), SHAPES)
def test_the_norms_are_those_of_pytorch(B: int, H: int, D: int) -> None:
    layer = random_layer(H, B, H, D)
    a, close = layer.sums, {"rtol": 1e-9, "atol": 1e-9}
    by_batch = F.batch_norm(a, None, None, training=True, eps=1e-30)  # PyTorch takes no 0
    torch.testing.assert_close(normalized(layer, batch_norm), by_batch, **close)
    for norm, center in ((layer_norm, True), (rms_norm, False)):
        expected = formula.layer_norm(a, eps=0.1, center=center)
        torch.testing.assert_close(normalized(layer, norm, eps=0.1), expected, **close)
    unit = layer.weight / layer.weight.norm(dim=1, keepdim=True)
    torch.testing.assert_close(normalized(layer, weight_norm), layer.x @ unit.mT, **close)


@pytest.mark.parametrize("delta", [1e-6, 0.9, 1e6])
def test_equations_6_and_7_hold_at_every_scale(delta: float) -> None:
    layer = random_layer(3, *SHAPES[-1])
    before = normalized(layer, layer_norm)
    shift = delta * torch.randn(3).double()  # as large as what is left of W
    factors = delta * (0.1 + torch.rand(5, 1).double())  # each case by its own
    for moved in (
        layer._replace(weight=delta * layer.weight + shift),
        layer._replace(x=factors * layer.x),
    ):
        after = normalized(moved, layer_norm)
        torch.testing.assert_close(after, before, rtol=0, atol=EXACT)


def test_what_is_added_is_one_vector_for_all_whose_entries_differ() -> None:
    layer = random_layer(7)
    weight, x = center_matrix(layer, 3.0).weight, center_data(layer, 3.0).x
    for shift in (weight - layer.weight, x - layer.x):
        torch.testing.assert_close(shift, shift[:1].expand_as(shift), rtol=0, atol=EXACT)
        assert shift[0].std() > 1


def test_a_bias_inside_is_harmless_only_where_it_is_taken_off() -> None:
    inside = torch.randn(7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    layer = random_layer(2)._replace(inside=inside)
    assert torch.equal(layer.sums, random_layer(2).sums + inside)
    for change in (scale_matrix, scale_data, scale_sample):
        assert deviation(layer, layer_norm, change) > NOTICED
    assert deviation(layer, layer_norm, center_matrix) < EXACT
    for change, invariant in zip(CHANGES.values(), TABLE_1["Batch norm"], strict=True):
        assert (deviation(layer, batch_norm, change) < EXACT) == invariant
