"""Values and gradients: rounded once, and exact where they can be."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from compiled import NEEDS_CPP
from norms import (
    CPP,
    FLOATS,
    HALF_UNIT,
    LEAST,
    assert_right,
    both_passes,
    by,
    case,
    each_dtype,
    mapped,
    rand,
    true,
    truth,
)
from tiers import few
from torch import Tensor

import lnlib
from lnlib import composed, reference
from lnlib.cpp_kernel import library

WAYS = {"reference": by("reference"), "cpp": by("cpp"), "composed": mapped}
each_way = pytest.mark.parametrize("way", ["reference", CPP, "composed"])
NARROW = FLOATS[:3]  # than the truth in float64

# Few rows and many, short and long, alone and four at once, cut into chunks or cut themselves.
SHAPES = [(1, 7), (33, 13), (5, 769), (300, 257), (2, 4099)]
LARGE = [(70, 769), (1, 300_001), (3, 262_144), (2048, 1024), (4096, 768)]


@each_way
@each_dtype
@few("shape", [*SHAPES, *LARGE], [*SHAPES[:4], *LARGE[:2]])
@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_y_and_every_gradient_are_rounded_once(way, dtype, shape, mean):
    given = case(*shape, mean=mean, dtype=dtype)
    found = both_passes(WAYS[way], *given)
    assert_right(found, truth(*given), of_arithmetic(dtype, way, shape))


def of_arithmetic(dtype: torch.dtype, way: str, shape: tuple[int, int]) -> float | None:
    """Return the roundings where there are more: autograd sums rows in the type of the arithmetic.

    And of a row without spread far from zero the truth itself has no more than these digits.
    """
    if dtype == torch.float64:
        return 1e-11
    return None if way != "composed" or dtype == torch.float32 else 2e-6 * shape[0] ** 0.5


@NEEDS_CPP
@pytest.mark.parametrize("dtype", NARROW)
def test_whatever_is_left_of_rows_and_of_registers_is_visited(dtype):
    shapes = [(rows, H) for rows in range(1, 10) for H in (1, 7, 64)]
    shapes += [(rows, H) for rows in (5, 70) for H in range(1, 71)]
    # One number more than can be kept beside the rows: forward, and backward.
    shapes += [(5, 513), (5, 1025), (130, 385), (130, 769)]
    for shape in shapes:
        given = case(*shape, dtype=dtype)
        assert_right(both_passes(WAYS["cpp"], *given), truth(*given))


# The truth about float64 is out of float64's reach: integers that count steps of 2⁻²⁰⁰.
STEPS = 200


def in_steps(numbers: Tensor) -> np.ndarray:
    ratios = (value.as_integer_ratio() for value in numbers.flatten().tolist())
    counts = np.array([(top << STEPS) // bottom for top, bottom in ratios], dtype=object)
    return counts.reshape(numbers.shape)


def exactly(x: Tensor, weight: Tensor, bias: Tensor, dy: Tensor) -> dict[str, np.ndarray]:
    """Return y and the gradients of the closed form, counted in steps."""
    x, weight, bias, dy = (in_steps(t) for t in (x, weight, bias, dy))
    (H,) = weight.shape
    root = np.vectorize(math.isqrt, otypes=[object])
    centered = x - x.sum(1, keepdims=True) // H
    var = (centered * centered >> STEPS).sum(1, keepdims=True) // H
    std = root(var + in_steps(torch.tensor([1e-5]).double()) << STEPS)
    x_hat, g = (centered << STEPS) // std, weight * dy >> STEPS
    mean_g, mean_gx_hat = (t.sum(1, keepdims=True) // H for t in (g, g * x_hat >> STEPS))
    dx = (g - mean_g - (x_hat * mean_gx_hat >> STEPS) << STEPS) // std
    y, dweight, dbias = (x_hat * weight >> STEPS) + bias, (dy * x_hat >> STEPS).sum(0), dy.sum(0)
    return {"y": y, "x": dx, "weight": dweight, "bias": dbias}


def squared_errors(found: dict[str, Tensor], right: dict[str, np.ndarray]) -> np.ndarray:
    errors = (in_steps(found[name]) - right[name] for name in right)
    return np.array([((each / 2**STEPS).astype(float) ** 2).sum() for each in errors])


@each_way
@few("shape", [(7, 7), (64, 64), (5, 769), (2, 4096), (64, 769), (1024, 7)], [(7, 7), (5, 769)])
@pytest.mark.parametrize("mean", [0.0, 1e2, 1e5])
def test_float64_is_no_further_from_the_truth_than_pytorch(way, shape, mean):
    ours, theirs = [], []
    for seed in range(max(2, 1000 // math.prod(shape))):
        x, *others = (
            rand(*s, seed=4 * seed + n) for n, s in enumerate((shape, *[shape[1:]] * 2, shape))
        )
        given = [mean + x, *others]
        right = exactly(*given)
        ours.append(squared_errors(both_passes(WAYS[way], *given), right))
        theirs.append(squared_errors(both_passes(F.layer_norm, *given), right))
    ratios = np.sqrt(np.sum(ours, 0) / np.maximum(np.sum(theirs, 0), 1e-99))
    if way == "composed":
        ratios = ratios[:2]  # autograd adds the rows one by one, where the kernels lose no digit
    # The roundings are random, so of two equal methods either may be ahead.
    assert (ratios <= 1.05).all(), ratios


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("cancels", [False, True])
def test_a_sum_over_rows_of_float64_is_rounded_once_whatever_the_unit(backend, cancels):
    weight = torch.ones(5, dtype=torch.float64)
    for rows, exponent in itertools.product((10, 65, 1001), (-40, 0, 40)):
        dy = 2.0**exponent * rand(rows, 5)
        if cancels:
            dy = torch.cat((dy, 1e-9 * dy, -dy.flip(0)))
        x = rand(len(dy), 5, seed=1)
        found = both_passes(by(backend), x, weight, weight, dy)["bias"]
        bias = weight.clone().requires_grad_()
        (alone,) = torch.autograd.grad(by(backend)(x, (5,), weight, bias, 1e-5), bias, dy)
        for sums in (found, alone):
            assert sums.tolist() == [math.fsum(column) for column in dy.T.tolist()]


def test_what_products_of_float64_lose_is_added_to_the_gradient_of_weight():
    row = torch.tensor([-11.0, -10, -5, 3, 6, 6, 11]).double()  # mean 0 and σ 8: x_hat is exact
    x = torch.stack([row.roll(n) for n in range(66)])
    x_hat, dy = x / 8, rand(66, 7)
    dy[33:] = -(dy[:33] * x_hat[:33]) / x_hat[33:]  # the sums cancel, so that the losses are left
    found = both_passes(by("reference"), x, torch.ones(7).double(), None, dy, eps=0)["weight"]
    errors = abs(in_steps(found) - (in_steps(dy) * in_steps(x_hat) >> STEPS).sum(0))
    # A loss is at most a rounding of its product. Their sum is rounded once a row, and twice with
    # the sum of the products. A processor that does not fuse does not see them.
    fuses = torch.addcmul(-dy * dy, dy, dy).any()
    room = 2.0**-53 * (dy * x_hat).abs().sum(0) * ((len(x) + 2) * 2.0**-53 if fuses else 1)
    assert (errors <= in_steps(room)).all()


# Rows that are hard


@each_way
@each_dtype
def test_a_row_of_one_feature_has_no_gradient(way, dtype):
    given = case(70, 1, dtype=dtype)
    assert not both_passes(WAYS[way], *given, eps=1e-12)["x"].any()


@each_way
@each_dtype
@pytest.mark.parametrize("rows", [1, 9, 70])
def test_an_outlier_as_first_value_costs_no_digits(way, dtype, rows):
    x, *others = case(rows, 769, dtype=dtype)
    x[:, 0] = 1e4
    given = x, *others
    assert_right(both_passes(WAYS[way], *given), truth(*given), of_arithmetic(dtype, way, x.shape))


@each_way
@pytest.mark.parametrize("dtype", NARROW[:2])
def test_nor_the_other_values_of_a_half_type(way, dtype):
    x, *_, dy = case(9, 4096, dtype=dtype)
    x[:, 0] = 1e4
    ones = torch.ones(4096, dtype=dtype)
    found, right = both_passes(WAYS[way], x, ones, None, dy)["y"], true(x.double(), (4096,))
    room = 1.001 * HALF_UNIT[dtype] * right.abs() + LEAST[dtype]
    # They are near 0.01. H / lanes sums in float32 round 1e4 by 2⁻¹¹ or less; H σ = 4096 · 156.
    lanes = {"_avx512": 16, "_avx2": 8}.get(library.name(), 4)
    of_sums = 2.0**-11 / (lanes * 156) if way == "cpp" else 1e-7
    assert ((found.double() - right).abs() <= room + of_sums).all()


@each_way
@pytest.mark.parametrize(
    ("dtype", "mean"), [(NARROW[0], 2e3), (NARROW[1], 2e3), (NARROW[2], 1e4), (NARROW[2], 1e6)]
)
def test_rows_far_from_zero_lose_nothing(way, dtype, mean):
    given = case(33, 769, mean=mean, dtype=dtype)
    # The mean itself is rounded in float64; a row of spread 1 feels it by mean · 2⁻⁵³.
    room = mean * 1e-14 if dtype == torch.float32 else None
    assert_right(both_passes(WAYS[way], *given), truth(*given), room)


def test_float32_statistics_alone_are_a_hundred_times_nearer_than_pytorchs_there(monkeypatch):
    """As on Apple's GPUs, where the corrected two-pass has no wider type to help it."""
    given = case(33, 769, mean=1e4, dtype=torch.float32)
    expected = truth(*given)
    theirs = both_passes(F.layer_norm, *given)
    monkeypatch.setattr(composed, "statistics_dtype", lambda *_: torch.float32)
    monkeypatch.setattr(reference, "_has_kernels", lambda _: False)  # which is for CPUs alone
    ours = both_passes(by("reference"), *given)
    for name in ("y", "x"):
        near, far = ((each[name] - expected[name]).square().mean() for each in (ours, theirs))
        assert near <= 1e-4 * far


def test_the_statistics_are_in_the_next_wider_type_the_device_has():
    cpu, mps = torch.device("cpu"), torch.device("mps")
    wide = {d: composed.statistics_dtype(d, cpu) for d in FLOATS}
    assert list(wide.values()) == [torch.float32] * 2 + [torch.float64] * 2
    assert {composed.statistics_dtype(d, mps) for d in NARROW} == {torch.float32}


@each_way
@pytest.mark.parametrize("dtype", NARROW)
def test_a_unit_in_the_last_place_is_all_the_spread_that_a_row_needs(way, dtype):
    x, *others = case(9, 769, dtype=dtype)
    x = torch.full_like(x, 256)
    x[:, 5::7] += 256 * 2 * HALF_UNIT[dtype]
    room = 3e-6 if way == "cpp" else 2e-5  # in float32 from end to end
    assert_right(both_passes(WAYS[way], x, *others), truth(x, *others), room)


@each_way
@pytest.mark.parametrize("dtype", NARROW)
def test_subnormal_and_the_largest_numbers_are_numbers(way, dtype):
    x, weight, bias, dy = case(9, 77, dtype=dtype)
    given = weight, torch.zeros_like(bias), dy
    tiny = (x.double() * LEAST[dtype] * 20).to(dtype)
    huge = (x.sign() * torch.finfo(dtype).max).to(dtype)
    for each in (tiny, *([huge] if dtype != torch.bfloat16 else [])):  # whose squares overflow
        assert_right(both_passes(WAYS[way], each, *given), truth(each, *given))


@each_way
@pytest.mark.parametrize("eps", [0.0, 1e-12, 0.5])
def test_eps_is_added_to_the_variance(way, eps):
    given = case(2, 13, dtype=torch.float32)
    assert_right(both_passes(WAYS[way], *given, eps), truth(*given, eps))


# Rows without spread, and rows that are not finite


EVERY = pytest.mark.parametrize("backend", ["reference", "auto"])


@EVERY
@each_dtype
@few("H", [1, 2, 3, 7, 64, 769, 4096, 65537], [1, 7, 769])
def test_a_constant_row_is_exactly_the_bias(backend, dtype, H):
    weight, bias = (rand(H, seed=seed, dtype=dtype) for seed in (1, 2))
    # The last value stands for the largest of the dtype, whose sum over a row would overflow.
    for value in (-0.0, 1 / 3, -1234.5, 1e-7, 1.7e308):
        for rows, eps in ((1, 1e-5), (9, 1e-12), (70, 1e-5))[: 3 if H < 5000 else 2]:
            x = torch.full((rows, H), min(value, torch.finfo(dtype).max), dtype=dtype)
            y = lnlib.layer_norm(x, (H,), weight, bias, eps, backend=backend)
            assert torch.equal(y, bias.expand(rows, H)), (value, rows)


@EVERY
@each_dtype
def test_a_row_that_is_not_finite_is_pytorchs_and_spares_the_others(backend, dtype):
    for rows, bad in itertools.product((9, 70), (math.nan, math.inf, -math.inf)):
        x, *others = case(rows, 77, dtype=dtype)
        good = both_passes(by(backend), x, *others)
        x[2, 5] = bad
        found, theirs = (both_passes(norm, x, *others) for norm in (by(backend), F.layer_norm))
        spared = [row for row in range(rows) if row != 2]
        for name, value in found.items():
            assert torch.equal(value.isnan(), theirs[name].isnan()), name
            if name in ("y", "x"):
                assert torch.equal(value[spared], good[name][spared]), name


def test_an_upstream_infinity_reaches_the_sums_as_itself_and_spares_other_columns():
    x, weight, bias, dy = case(5, 7)
    x_hat = true(x, (7,))
    for bad in (math.inf, -math.inf, math.nan):
        dy[1, 4] = bad
        found = both_passes(by("reference"), x, weight, bias, dy)
        for name, sums in (("bias", dy.sum(0)), ("weight", (dy * x_hat).sum(0))):
            torch.testing.assert_close(found[name], sums, rtol=0, atol=1e-14, equal_nan=True)


@NEEDS_CPP
@pytest.mark.parametrize(("dtype", "size"), [(torch.bfloat16, 2e37), (torch.float64, 1e307)])
def test_what_lies_beyond_the_end_of_a_row_of_large_numbers_is_not_seen(dtype, size):
    for rows, H in itertools.product((2, 200), (16, 17, 33)):
        _, weight, _, dy = case(rows, H, dtype=dtype)
        found, ones = (
            both_passes(WAYS["cpp"], torch.full_like(dy, value), weight, None, dy)["x"]
            for value in (size, 1.0)
        )
        assert found.isfinite().all()
        assert torch.equal(found, ones)


# What every layer norm obeys


@EVERY
def test_the_sign_of_a_row_and_a_power_of_two_change_no_digit(backend):
    x = rand(3, 769, dtype=torch.float32) + 1e3
    y = lnlib.layer_norm(x, (769,), eps=0, backend=backend)
    assert torch.equal(lnlib.layer_norm(-x, (769,), eps=0, backend=backend), -y)
    assert torch.equal(lnlib.layer_norm(x * 2**20, (769,), eps=0, backend=backend), y)
