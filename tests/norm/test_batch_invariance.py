"""The bits of a row depend on the row, the parameters, eps and its gradient: on nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from compiled import NEEDS_CPP
from norms import CPP, FLOATS, Norm, assert_same_bits, both_passes, by, rand, threads
from tiers import few
from torch import Tensor

import lnlib
from lnlib import composed, in_graph

LENGTHS = [1, 2, 3, 7, 16, 77, 137, 204, 256, 768, 1000, 1024, 2049, 4096, 5000]
ROWS = 137  # more than C++ takes for few, in its backward pass too
SPLITS = [(0, 1), (5, 6), (3, 5), (4, 7), (130, 135), (1, 38), (6, 137)]
each_backend = pytest.mark.parametrize("backend", ["reference", CPP])


def rows_of(B: int, H: int, dtype: torch.dtype) -> list[Tensor]:
    """Return rows of different means and sizes, weight, bias and the gradient of y."""
    x = rand(B, H) * rand(B, 1, seed=1).exp() + 5 * rand(B, 1, seed=2)
    return [t.to(dtype) for t in (x, rand(H, seed=3), rand(H, seed=4), rand(B, H, seed=5))]


def by_row(norm: Norm, given: list[Tensor], rows: Any = slice(None)) -> dict[str, Tensor]:
    """Return y and dx of some rows."""
    x, weight, bias, dy = given
    found = both_passes(norm, x[rows], weight, bias, dy[rows])
    return {"y": found["y"], "dx": found["x"]}


def part(found: dict[str, Tensor], rows: Any) -> dict[str, Tensor]:
    return {name: value[rows] for name, value in found.items()}


@each_backend
@few("dtype", FLOATS, FLOATS[1:3])
def test_a_row_has_the_same_bits_in_any_batch_and_at_any_place(backend, dtype):
    back = list(range(ROWS))[::-1]
    for H in LENGTHS:
        given = rows_of(ROWS, H, dtype)
        whole = by_row(by(backend), given)
        for rows in (*(slice(*split) for split in SPLITS), back):
            assert_same_bits(by_row(by(backend), given, rows), part(whole, rows))


SHARED = [(4, 1024), (301, 769), (70, 257), (9000, 13), (70_001, 1), (63, 8209), (2048, 1024)]
SHARED += [(3, 262_144), (1, 32_768), (2, 70_001), (1, 300_001)]  # of a long row threads share sums


@each_backend
@few("dtype", FLOATS, FLOATS[1:])
@few("shape", SHARED, [(301, 769), (3, 262_144), (1, 32_768), (2, 70_001), (70_001, 1)])
def test_no_bit_depends_on_the_number_of_threads(backend, dtype, shape):
    given, found = rows_of(*shape, dtype), []
    for number in (1, 2, 3, 16):
        with threads(number):
            found.append(both_passes(by(backend), *given))
        assert_same_bits(found[-1], found[0])


def test_nor_on_how_many_dimensions_the_features_have_where_pytorch_composes_it():
    x, found = rand(1, 512, 128), []
    for number in (1, 2, 3, 16):
        with threads(number):
            found.append(composed.layer_norm(x, (512, 128)))
        assert torch.equal(found[-1], found[0])


def carefully(x: Tensor, *given: Any) -> Tensor:
    """Go round the shortest way, which takes no strides."""
    return lnlib.layer_norm(x.repeat_interleave(2, -1)[..., ::2], *given, backend="cpp")


def at_an_odd_address(x: Tensor, *given: Any) -> Tensor:
    """Have x at an address that is no multiple of 16 bytes."""
    moved = torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)
    return lnlib.layer_norm(moved, *given, backend="cpp")


def by_an_operator(*given: Any) -> Tensor:
    return in_graph.layer_norm(*given, backend="cpp")


@NEEDS_CPP
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_way_in_leads_to_the_same_bits(dtype):
    given = rows_of(ROWS, 137, dtype)
    whole = by_row(by("auto"), given)
    for way in (carefully, at_an_odd_address, by_an_operator):
        for split in SPLITS:
            assert_same_bits(by_row(way, given, slice(*split)), part(whole, slice(*split)))
