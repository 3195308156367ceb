"""The oracle itself is checked by hand, by exact fractions, and by what every layer norm obeys."""

import inspect
import re
from fractions import Fraction

import pytest
import torch
import torch.nn.functional as F
from norms import FLOATS
from norms import rand as rows

import lnlib
from lnlib import formula

TOLERANCE = {
    "by hand": 1e-15,  # a handful of float64 roundings of numbers near 1
    "float64": 1e-13,  # 769 of them added up, and another order of summation in PyTorch
    "far from zero": 1e-9,  # float64 holds x to 1e-11 when mean/std is 1e5; 769 values share it
}


def assert_close(actual: torch.Tensor, expected: torch.Tensor, key: str) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=TOLERANCE[key])


def test_terms_are_what_a_pencil_gives():
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    weight, bias = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([0.0, 0.0, 0.0, 10.0])
    t = formula.terms(x, weight, bias, eps=0.31)  # var + eps = 1.56
    root = 1.56**0.5
    x_hat = torch.tensor([[-1.5, -0.5, 0.5, 1.5]], dtype=torch.float64) / root
    for found, number in zip(t, (2.5, 1.25, 1.25**0.5, root, 1 / root), strict=False):
        assert_close(found, torch.tensor([[number]], dtype=torch.float64), "by hand")
    assert_close(t.x_hat, x_hat, "by hand")
    assert_close(t.y, x_hat * weight + bias, "by hand")


def test_eps_can_be_added_to_the_std_or_be_its_floor():
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.5, 1.5], [2.0, 2.0, 2.0, 2.0]])
    added, floor = (formula.terms(x, eps=0.5, eps_at=place) for place in ("std", "floor"))
    std = torch.tensor([[1.25**0.5], [0.25], [0.0]], dtype=torch.float64)
    assert_close(added.denominator, std + 0.5, "by hand")
    assert_close(floor.denominator, std.clamp(min=0.5), "by hand")
    assert_close(added.rstd, 1 / (std + 0.5), "by hand")
    assert torch.equal(floor.x_hat[2], torch.zeros(4).double())


def test_without_centering_it_is_rms_norm():
    x = 3 + rows(4, 769)
    weight = rows(769, seed=1)
    t = formula.terms(x, weight, eps=0.1, center=False)
    assert torch.equal(t.mean, torch.zeros(4, 1).double())
    assert_close(t.var, x.square().mean(-1, keepdim=True), "float64")
    assert_close(t.y, F.rms_norm(x, (769,), weight, 0.1), "float64")


def test_correction_counts_one_value_less():
    x = rows(3, 7)
    biased, unbiased = formula.terms(x).var, formula.terms(x, correction=1).var
    assert_close(unbiased, biased * 7 / 6, "by hand")
    assert_close(unbiased, x.var(-1, correction=1, keepdim=True), "by hand")


def test_terms_match_exact_fractions_on_rows_far_from_zero():
    x = 1e5 + rows(769)
    exact = [Fraction(value) for value in x.tolist()]
    mean = sum(exact) / 769
    var = sum((value - mean) ** 2 for value in exact) / 769
    t = formula.terms(x, eps=0)
    assert t.mean.item() == pytest.approx(float(mean), rel=1e-15)
    assert t.var.item() == pytest.approx(float(var), abs=TOLERANCE["far from zero"])
    x_hat = [float(value - mean) / float(var) ** 0.5 for value in exact]
    assert_close(t.x_hat, torch.tensor(x_hat, dtype=torch.float64), "far from zero")


@pytest.mark.parametrize("normalized_shape", [(7,), (5, 7), (3, 5, 7)])
def test_y_agrees_with_pytorch_in_float64(normalized_shape):
    x, weight, bias = rows(2, 3, 5, 7), *(rows(*normalized_shape, seed=s) for s in (1, 2))
    for given in ((weight, bias), (weight, None), (None, bias), (None, None)):
        y = formula.layer_norm(x, *given, normalized_shape=normalized_shape)
        assert_close(y, F.layer_norm(x, normalized_shape, *given), "float64")


def test_layer_norm_hands_every_argument_to_terms():
    x, weight, bias = rows(4, 5, 7), rows(5, 7, seed=1), rows(5, 7, seed=2)
    options = {"normalized_shape": (5, 7), "eps": 0.1, "eps_at": "std", "correction": 1}
    options |= {"center": False, "dtype": torch.float32}
    y = formula.layer_norm(x, weight, bias, **options)
    assert y.dtype == torch.float32
    assert torch.equal(y, formula.terms(x, weight, bias, **options).y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_terms_have_the_dtype_of_the_arithmetic_and_statistics_broadcast_against_x(dtype):
    for shape, kept in ((None, (3, 5, 1)), ((5, 7), (3, 1, 1))):
        t = formula.terms(rows(3, 5, 7), rows(7), rows(7), normalized_shape=shape, dtype=dtype)
        assert {term.dtype for term in t} == {dtype}
        assert [term.shape for term in t] == [kept] * 5 + [(3, 5, 7)] * 2


def test_half_precision_all_the_way_loses_a_small_eps_and_overflows():
    constant = torch.full((8,), 3.0)
    assert torch.equal(formula.terms(constant, eps=1e-12).x_hat, torch.zeros(8).double())
    assert formula.terms(constant, eps=1e-12, dtype=torch.float16).x_hat.isnan().all()
    spread = torch.tensor([-300.0, 300.0])  # 300² is above float16's largest number, 65504
    assert formula.terms(spread).var.item() == 9e4
    assert formula.terms(spread, dtype=torch.float16).var.isinf()


def test_a_constant_row_without_eps_is_zero_over_zero():
    t = formula.terms(torch.full((3,), 2.0), eps=0)
    assert t.var.item() == 0
    assert t.rstd.isinf()
    assert t.x_hat.isnan().all()


@pytest.mark.parametrize("eps_at", ["variance", "std", "floor"])
@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize("center", [True, False])
def test_autograd_differentiates_it_twice(eps_at, correction, center):
    inputs = [value.requires_grad_() for value in (rows(2, 5), rows(5, seed=1), rows(5, seed=2))]

    def y(x, weight, bias):
        options = {"eps_at": eps_at, "correction": correction, "center": center}
        return formula.layer_norm(x, weight, bias, eps=0.1, **options)

    assert torch.autograd.gradcheck(y, inputs)
    assert torch.autograd.gradgradcheck(y, inputs)


def test_an_unknown_place_for_eps_is_refused():
    with pytest.raises(ValueError, match='must be "variance", "std" or "floor", got \'outside\''):
        formula.terms(torch.ones(3), eps_at="outside")


@pytest.mark.parametrize(
    ("shape", "normalized_shape"),
    [((4, 3), (4,)), ((4, 3), (2, 4, 3)), ((4, 3), ()), ((), None), ((), ())],
)
def test_a_normalized_shape_that_x_does_not_end_in_is_refused(shape, normalized_shape):
    with pytest.raises(RuntimeError, match=rf"got an x of shape {re.escape(str(shape))}"):
        formula.terms(torch.ones(shape), normalized_shape=normalized_shape)


def test_the_default_eps_is_pytorchs_everywhere() -> None:
    for function in (formula.terms, formula.layer_norm, lnlib.layer_norm):
        assert inspect.signature(function).parameters["eps"].default == torch.nn.LayerNorm(1).eps
