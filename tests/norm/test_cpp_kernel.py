"""The C++ kernel: rounded once, on any input, with any number of threads; else the reference.

What it shares with the other backends is in `test_closed_form`.
"""

import functools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import lnlib
from lnlib import cpp_kernel, dispatch, formula, modes, refusals
from lnlib.cpp_kernel import library

NAMES = ("y", "input", "weight", "bias")
# Results are rounded once, by at most half a unit in the last place, besides the roundings of the
# arithmetic, which count where the parts of a number cancel: it is in float64 for float32, and in
# float32 for the half types, whose sums over rows and within long rows are in float64.
HALF_UNIT = {torch.float16: 2**-11, torch.bfloat16: 2**-8, torch.float32: 2**-24}
ROUNDINGS = {torch.float16: 4e-6, torch.bfloat16: 4e-6, torch.float32: 1e-12}
LEAST = {torch.float16: 2**-24, torch.bfloat16: 2**-133, torch.float32: 2**-149}
SHAPES = [(1, 1), (1, 7), (3, 1), (33, 13), (5, 769), (300, 257), (2, 4099)]
NARROW = list(HALF_UNIT)  # than the truth in float64
DTYPES = [*NARROW, torch.float64]
each_narrow = pytest.mark.parametrize("dtype", NARROW)
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


@pytest.fixture(autouse=True)
def kernel():
    if cpp_kernel.why_not(torch.float32, "cpu") is not None:
        pytest.skip("installed without the kernel")


def rand(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def case(
    rows: int, features: int, mean: float = 0.0, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """Return x, weight, bias and dy; the middle row, if there are three, has no spread."""
    x = mean + rand(rows, features, dtype=torch.float64)
    if rows > 2:
        x[rows // 2] = mean + 0.1
    weight, bias = (rand(features, seed=seed, dtype=dtype) for seed in (1, 2))
    return [x.to(dtype), weight, bias, rand(rows, features, seed=3, dtype=dtype)]


def evaluate(run, x, weight, bias, dy, **options) -> dict[str, Tensor]:
    """Return y and the gradients of what is not None."""
    given = [None if t is None else t.detach().requires_grad_() for t in (x, weight, bias)]
    y = run(*given, **options)
    present = [(name, t) for name, t in zip(NAMES[1:], given, strict=True) if t is not None]
    grads = torch.autograd.grad(y, [t for _, t in present], dy)
    return {"y": y.detach(), **{name: g for (name, _), g in zip(present, grads, strict=True)}}


def kernels(x, weight, bias, eps=1e-5):
    return lnlib.layer_norm(x, x.shape[-1:], weight, bias, eps, backend="cpp")


def formulas(x, weight, bias, eps=1e-5):
    return formula.layer_norm(x, weight, bias, normalized_shape=x.shape[-1:], eps=eps)


def truth(x, weight, bias, dy, **options) -> dict[str, Tensor]:
    exact = (None if t is None else t.double() for t in (x, weight, bias, dy))
    return evaluate(formulas, *exact, **options)


def assert_rounded_once(
    found: dict[str, Tensor], expected: dict[str, Tensor], roundings: float | None = None
) -> None:
    assert found.keys() == expected.keys()
    for name, value in found.items():
        dtype, true = value.dtype, expected[name]
        room = HALF_UNIT[dtype] * true.abs() + LEAST[dtype]
        # The half types round float32 to theirs, which is a second rounding.
        room *= 1 if dtype == torch.float32 else 1 + 2**-10
        room += (roundings or ROUNDINGS[dtype]) * true.abs().max()
        assert ((value.double() - true).abs() <= room).all(), name


def exactly(x, weight, bias, dy, eps=1e-5) -> dict[str, np.ndarray]:
    """Return y and the gradients of the closed form, in numbers longer than float64."""
    x, weight, bias, dy = (t.numpy().astype(np.longdouble) for t in (x, weight, bias, dy))
    centered = x - x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt((centered**2).mean(-1, keepdims=True) + np.longdouble(eps))
    x_hat, g = centered * rstd, weight * dy
    dx = g - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True)
    found = x_hat * weight + bias, dx * rstd, (dy * x_hat).sum(0), dy.sum(0)
    return dict(zip(NAMES, found, strict=True))


def error(found: Tensor, true: np.ndarray) -> float:
    """Return the largest error, as a part of the largest true number."""
    return float(np.abs(found.numpy() - true).max() / np.abs(true).max())


# Values


@each_narrow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_y_and_every_gradient_are_rounded_once(dtype, shape, mean):
    arguments = case(*shape, mean, dtype)
    assert_rounded_once(evaluate(kernels, *arguments), truth(*arguments))


@each_narrow
def test_whatever_is_left_of_rows_and_of_registers(dtype):
    shapes = [(rows, features) for rows in range(1, 10) for features in (1, 7, 64)]
    shapes += [(rows, features) for rows in (5, 70) for features in range(1, 71)]
    for shape in shapes:
        arguments = case(*shape, 0.0, dtype)
        assert_rounded_once(evaluate(kernels, *arguments), truth(*arguments))


# Four rows at once and one; rows that are cut into chunks; one that is cut itself; y in streams.
REGIMES = [(9, 70), (70, 769), (300, 257), (1, 300_001), (3, 262_144), (2048, 1024), (4096, 768)]


@each_narrow
@pytest.mark.parametrize("shape", REGIMES)
def test_rows_of_every_number_and_length_are_rounded_once(dtype, shape):
    arguments = case(*shape, 0.5, dtype)
    assert_rounded_once(evaluate(kernels, *arguments), truth(*arguments))


@pytest.mark.parametrize("shape", [*SHAPES[3:], *REGIMES[:-2]])
@pytest.mark.parametrize("mean", [0.0, 1e5])
def test_float64_is_no_further_from_the_truth_than_the_reference(shape, mean):
    arguments = case(*shape, mean, torch.float64)
    reference = functools.partial(lnlib.layer_norm, backend="reference")
    by_reference = evaluate(lambda x, w, b: reference(x, x.shape[-1:], w, b), *arguments)
    expected = exactly(*arguments)
    for name, found in evaluate(kernels, *arguments).items():
        limit = max(2 * error(by_reference[name], expected[name]), 4e-16)
        assert error(found, expected[name]) <= limit, name


def test_float64_of_one_feature_has_a_gradient_of_0():
    x, weight, bias, dy = case(40, 1, 0.0, torch.float64)
    assert not evaluate(kernels, x, weight, bias, dy)["input"].any()


@pytest.mark.parametrize("mean", [1e4, 1e6])
def test_rows_far_from_zero_lose_nothing(mean):
    x, *others = case(33, 769, mean)
    # The mean itself is rounded in float64; a row of spread 1 feels it by mean · 2⁻⁵³.
    assert_rounded_once(evaluate(kernels, x, *others), truth(x, *others), mean * 1e-14)


@each_narrow
def test_a_unit_in_the_last_place_is_all_the_spread_that_a_row_needs(dtype):
    x, *others = case(9, 769, 0.0, dtype)
    x = torch.full_like(x, 256)
    x[:, 5::7] += 256 * 2 * HALF_UNIT[dtype]
    assert_rounded_once(evaluate(kernels, x, *others), truth(x, *others), 3e-6)


@each_dtype
@pytest.mark.parametrize("rows", [1, 9, 70])
def test_an_outlier_as_first_value_costs_no_digits(dtype, rows):
    x, *others = case(rows, 769, 0.0, dtype)
    x[:, 0] = 1e4
    found = evaluate(kernels, x, *others)
    if dtype == torch.float64:
        for name, true in exactly(x, *others).items():
            assert error(found[name], true) <= 2e-15, name
    else:
        assert_rounded_once(found, truth(x, *others))


@each_dtype
@pytest.mark.parametrize("value", [0.1, -1 / 3, 1e-7, 6e4, 1e5, 1e30])
@pytest.mark.parametrize("rows", [1, 9, 70])
def test_a_constant_row_is_exactly_the_bias(dtype, value, rows):
    _, weight, bias, _ = case(rows, 769, 0.0, dtype)
    x = torch.full((rows, 769), value, dtype=torch.float64).to(dtype)
    if x.isfinite().all():
        assert torch.equal(kernels(x, weight, bias), bias.expand(rows, 769))


@each_dtype
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("rows", [9, 70])
def test_a_row_that_is_not_finite_is_pytorchs_and_spares_the_others(dtype, bad, rows):
    x, weight, bias, dy = case(rows, 77, 0.0, dtype)
    good = evaluate(kernels, x, weight, bias, dy)
    x[2, 5] = bad
    found = evaluate(kernels, x, weight, bias, dy)
    theirs = evaluate(lambda x, w, b: F.layer_norm(x, (77,), w, b), x, weight, bias, dy)
    others = [row for row in range(rows) if row != 2]
    for name in NAMES:
        assert torch.equal(found[name].isnan(), theirs[name].isnan()), name
    for name in ("y", "input"):
        assert torch.equal(found[name][others], good[name][others]), name


@each_narrow
def test_subnormals_are_numbers(dtype):
    x, *others = case(9, 77, 0.0, dtype)
    x = (x.double() * LEAST[dtype] * 20).to(dtype)
    others[1] = torch.zeros_like(others[1])
    assert_rounded_once(evaluate(kernels, x, *others), truth(x, *others))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])  # of others squares overflow
def test_the_largest_numbers_are_numbers(dtype):
    x, *others = case(9, 77, 0.0, dtype)
    x = (x.sign() * torch.finfo(dtype).max).to(dtype)
    assert_rounded_once(evaluate(kernels, x, *others), truth(x, *others))


@pytest.mark.parametrize("eps", [0.0, 1e-12, 0.5])
def test_eps_is_added_to_the_variance(eps):
    x, *others = case(2, 13)
    assert_rounded_once(evaluate(kernels, x, *others, eps=eps), truth(x, *others, eps=eps))


@each_dtype
@pytest.mark.parametrize("shape", [(63, 8209), *REGIMES])
def test_the_bits_do_not_depend_on_the_number_of_threads(dtype, shape):
    arguments, before = case(*shape, 0.0, dtype), torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3, 5, 16):
            torch.set_num_threads(threads)
            results.append(evaluate(kernels, *arguments))
    finally:
        torch.set_num_threads(before)
    for name, first in results[0].items():
        assert all(torch.equal(first, other[name]) for other in results[1:]), name


# Who takes it


def test_auto_takes_it_for_ordinary_tensors_on_a_cpu():
    for dtype in refusals.FLOAT_DTYPES:
        assert dispatch.best_backend(dtype, "cpu", "eager") == "cpp"
    assert dispatch.best_backend(torch.float32, "meta", "eager") == "reference"
    assert dispatch.best_backend(torch.float32, "cpu", "program") == "torch"
    for mode in {*modes.Mode.__args__} - {"eager", "graph", "program"}:
        assert dispatch.best_backend(torch.float32, "cpu", mode) == "reference"


def test_asked_for_by_name_it_refuses_what_it_is_not_for():
    with pytest.raises(RuntimeError, match=r"not take torch\.float32 on meta: C.. is for a CPU"):
        library.check(rand(3, 7).to("meta"), cpp_kernel.why_not(torch.float32, "meta"))


def test_without_a_compiler_auto_is_the_reference_and_the_name_is_refused(monkeypatch):
    monkeypatch.setattr(library, "why_not", lambda: "there is no compiler")
    monkeypatch.setattr(cpp_kernel, "KERNELS", {})
    x = rand(3, 7)
    expected = lnlib.layer_norm(x, (7,), backend="reference")
    assert torch.equal(lnlib.layer_norm(x, (7,)), expected)
    with pytest.raises(
        RuntimeError, match=r'take torch.float32 on cpu: there is no compiler; use "auto"'
    ):
        lnlib.layer_norm(x, (7,), backend="cpp")


@pytest.mark.parametrize("rows", [2, 200])
@pytest.mark.parametrize("features", [16, 17, 33])
@pytest.mark.parametrize(("dtype", "size"), [(torch.bfloat16, 2e37), (torch.float64, 1e307)])
def test_what_lies_beyond_the_end_of_a_row_of_large_numbers_is_not_seen(
    rows, features, dtype, size
):
    x = torch.full((rows, features), size, dtype=dtype)
    dy, weight = rand(rows, features).to(dtype), rand(features, seed=1).to(dtype)
    found = evaluate(kernels, x, weight, None, dy)["input"]
    assert found.isfinite().all()
    constant = evaluate(kernels, torch.ones_like(x), weight, None, dy)["input"]
    assert torch.equal(found, constant)


def test_squares_that_overflow_are_no_silent_zeros():
    x = torch.tensor([[1e20, -1e20, 2e20, 0], [1, 2, 3, 4]]).bfloat16()
    y = kernels(x, None, None)
    assert y[0].isnan().all()
    assert y[1].isfinite().all()
