"""The reference algorithm: more accurate than PyTorch's, and exact where it can be."""

import functools
import math
from collections.abc import Callable
from itertools import chain

import pytest
import torch
import torch.nn.functional as F
from tiers import few
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

import lnlib
from lnlib import composed, formula, reference

layer_norm = functools.partial(lnlib.layer_norm, backend="reference")

# The accuracy contract, in pooled root mean square error against the true values.
NEVER_ABOVE = 1.05  # times PyTorch's error: the roundings are random, so two equal methods differ
FAR_FROM_ZERO = 0.01  # times PyTorch's error in float32 at mean/std 1e4: 100 times more accurate

ONE_ROUNDING = 5e-7  # of a float64 value to float32, for results up to 16

# Beyond these means, with std 1, a row holds fewer than 16 distinct values and says little.
LARGEST_MEAN = {
    torch.float16: 1e2,
    torch.bfloat16: 1e0,
    torch.float32: 1e5,
    torch.float64: 1e5,
}
MEANS = (0.0, 1.0, 1e2, 1e3, 1e4, 1e5)
CELLS = [
    pytest.param(dtype, mean, id=f"{str(dtype).removeprefix('torch.')}-mean{mean:g}")
    for dtype, largest in LARGEST_MEAN.items()
    for mean in MEANS
    if mean <= largest
]


def rand(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


class Draw:
    """Rows of one mean and std 1, parameters and upstream gradient, all random."""

    def __init__(self, rows: int, H: int, mean: float, dtype: torch.dtype, seed: int):
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64)

        self.x = (normal(rows, H) + mean).to(dtype)
        self.weight, self.bias = normal(H).to(dtype), normal(H).to(dtype)
        self.dy = normal(rows, H).to(dtype)


def with_gradients(
    function: Callable[..., Tensor], draw: Draw, affine: bool, dtype: torch.dtype
) -> list[Tensor]:
    """Return y, dx and, if affine, dweight and dbias of ``function``, evaluated in ``dtype``."""
    inputs = [draw.x, draw.weight, draw.bias] if affine else [draw.x]
    leaves = [tensor.to(dtype).requires_grad_() for tensor in inputs]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, draw.dy.to(dtype))]


# The truth about float64 is out of float64's reach: integers that count steps of 2⁻²⁰⁰.
STEPS = 200


def fixed(tensor: Tensor) -> list[int]:
    ratios = [value.as_integer_ratio() for value in tensor.tolist()]
    return [(numerator << STEPS) // denominator for numerator, denominator in ratios]


def times(a: list[int], b: list[int]) -> list[int]:
    return [p * q >> STEPS for p, q in zip(a, b, strict=True)]


@functools.lru_cache(maxsize=64)
def exact(
    rows: int, H: int, mean: float, seed: int, affine: bool, eps: float = 1e-5
) -> list[list[int]]:
    """Return y, dx and, if affine, dweight and dbias of a draw, flat and counted in steps."""
    draw = Draw(rows, H, mean, torch.float64, seed)
    pairs = zip(draw.x, draw.dy, strict=True)
    each = [exact_row(x, dy, draw, affine, eps) for x, dy in pairs]
    y, dx, dweight, dbias = zip(*each, strict=True)
    flat = [list(chain(*y)), list(chain(*dx))]
    totals = [[sum(column) for column in zip(*rows, strict=True)] for rows in (dweight, dbias)]
    return flat + totals if affine else flat


def exact_row(
    x: Tensor, dy: Tensor, draw: Draw, affine: bool, eps: float
) -> tuple[list[int], list[int], list[int], list[int]]:
    x, dy, weight, bias = fixed(x), fixed(dy), fixed(draw.weight), fixed(draw.bias)
    H = len(x)
    mean = sum(x) // H
    x_centered = [value - mean for value in x]
    var = sum(times(x_centered, x_centered)) // H
    std = math.isqrt((var + fixed(torch.tensor([eps], dtype=torch.float64))[0]) << STEPS)
    x_hat = [(value << STEPS) // std for value in x_centered]
    y = [a + b for a, b in zip(times(x_hat, weight), bias, strict=True)] if affine else x_hat
    g = times(dy, weight) if affine else dy
    mean_g, mean_gx_hat = sum(g) // H, sum(times(g, x_hat)) // H
    dx = [
        ((a - mean_g - (b * mean_gx_hat >> STEPS)) << STEPS) // std
        for a, b in zip(g, x_hat, strict=True)
    ]
    return y, dx, times(dy, x_hat), dy


def squared_error(results: list[Tensor], truth: list[Tensor] | list[list[int]]) -> list[float]:
    if isinstance(truth[0], Tensor):
        return [
            (result.double() - true).square().sum().item()
            for result, true in zip(results, truth, strict=True)
        ]
    return [
        sum(((a - b) / 2**STEPS) ** 2 for a, b in zip(fixed(result.flatten()), true, strict=True))
        for result, true in zip(results, truth, strict=True)
    ]


def error_ratios(
    dtype: torch.dtype,
    mean: float,
    H: int,
    affine: bool,
    draws: int | None = None,
    rows: int | None = None,
    measured: Callable[..., Tensor] = layer_norm,
) -> dict[str, float]:
    """Return the pooled RMS error of ``measured`` over PyTorch's, for y and each gradient.

    Up to float32 the float64 formula is the truth: its own error is under a thousandth of one
    rounding of the result. For float64 it is `exact`.
    """
    ours, theirs = [], []
    # Enough values that chance moves the ratio by a few percent at most: 20 of what a row has
    # one of, 140 of what a feature has one of.
    if rows is None:
        rows = max(1, 4096 // H) if dtype == torch.float64 else max(8, 512 // H)
    for seed in range(draws or math.ceil(max(20 / rows, 140 / H))):
        draw = Draw(rows, H, mean, dtype, seed)
        if H >= 64:
            assert min(row.unique().numel() for row in draw.x) >= 16
        if dtype == torch.float64:
            truth = exact(rows, H, mean, seed, affine)
        else:
            truth = with_gradients(formula.layer_norm, draw, affine, torch.float64)
        for function, errors in ((measured, ours), (F.layer_norm, theirs)):
            results = with_gradients(
                lambda x, *p, run=function: run(x, (H,), *p), draw, affine, dtype
            )
            errors.append(squared_error(results, truth))
    pooled = zip(
        ("y", "dx", "dweight", "dbias"),
        torch.tensor(ours, dtype=torch.float64).sum(0).tolist(),
        torch.tensor(theirs, dtype=torch.float64).sum(0).tolist(),
        strict=False,
    )
    # PyTorch makes no error only in the dbias of a single row, which is a copy of dy.
    return {name: (a / b) ** 0.5 if b else a for name, a, b in pooled}


@few("H", [7, 64, 769, 4096], 2)
@few("dtype, mean", CELLS, 6)
def test_no_error_of_y_or_a_gradient_is_above_pytorchs(dtype, mean, H):
    for name, ratio in error_ratios(dtype, mean, H, affine=True).items():
        assert ratio <= NEVER_ABOVE, name


@pytest.fixture
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@few("rows", [2, 3, 5, 8, 32, 64], 2)
@pytest.mark.parametrize("mean", [0.0, 1e2])
def test_no_sum_over_few_rows_of_float64_is_less_accurate_than_pytorchs(rows, mean):
    # PyTorch adds the rows in one run per thread: the fewer rows, the harder to beat.
    ratios = error_ratios(torch.float64, mean, 769, affine=True, rows=rows, draws=1 + 60 // rows)
    for name, ratio in ratios.items():
        assert ratio <= NEVER_ABOVE, name


@pytest.mark.parametrize("dtype", LARGEST_MEAN)
@few("rows", [1024, 16384], 1)
def test_no_sum_over_many_rows_is_less_accurate_than_pytorchs(dtype, rows):
    for name, ratio in error_ratios(dtype, 1.0, 7, affine=True, rows=rows, draws=3).items():
        assert ratio <= NEVER_ABOVE, name


@few("H", [7, 769], 1)
@pytest.mark.parametrize(("dtype", "mean"), CELLS)
def test_no_error_of_the_composed_formula_is_above_pytorchs(dtype, mean, H):
    """It is what runs in forward mode, under transforms and in graphs."""
    ratios = error_ratios(dtype, mean, H, affine=True, measured=composed.layer_norm)
    if dtype == torch.float64 and H > 64:
        # Autograd adds 5 rows one by one, where the Function loses no digit (the test above).
        del ratios["dweight"], ratios["dbias"]
    for name, ratio in ratios.items():
        assert ratio <= NEVER_ABOVE, name


@few("H", [7, 769], 1)
@pytest.mark.parametrize(("dtype", "mean"), CELLS)
def test_no_error_is_above_pytorchs_without_weight_and_bias(dtype, mean, H):
    for name, ratio in error_ratios(dtype, mean, H, affine=False).items():
        assert ratio <= NEVER_ABOVE, name


@pytest.mark.parametrize("H", [64, 769, 4096])
@pytest.mark.parametrize("affine", [True, False])
def test_float32_far_from_zero_is_a_hundred_times_more_accurate_than_pytorchs(H, affine):
    assert error_ratios(torch.float32, 1e4, H, affine)["y"] <= FAR_FROM_ZERO


def test_the_statistics_are_in_the_next_wider_type_the_device_has():
    cpu, mps = torch.device("cpu"), torch.device("mps")
    wider = composed.statistics_dtype
    assert wider(torch.float16, cpu) == wider(torch.bfloat16, cpu) == torch.float32
    assert wider(torch.float32, cpu) == wider(torch.float64, cpu) == torch.float64
    assert wider(torch.float32, mps) == wider(torch.float16, mps) == torch.float32


def test_float32_statistics_alone_already_beat_pytorchs_far_from_zero(monkeypatch):
    """As on Apple's GPUs, where the corrected two-pass has no wider type to help it."""
    monkeypatch.setattr(composed, "statistics_dtype", lambda *_: torch.float32)
    monkeypatch.setattr(reference, "_has_kernels", lambda _: False)  # which is for CPUs alone
    ratios = error_ratios(torch.float32, 1e4, 769, affine=True)
    assert ratios["y"] <= FAR_FROM_ZERO
    assert ratios["dx"] <= FAR_FROM_ZERO


# Exactness, of C++ too where there is g++: "auto" takes it for float32

EACH = [*((dtype, "reference") for dtype in LARGEST_MEAN), (torch.float32, "auto")]


@pytest.mark.parametrize(("dtype", "backend"), EACH)
@few("H", [1, 2, 3, 7, 64, 769, 4096, 65537], 4)
@few("value", [0.0, -0.0, 1 / 3, -1234.5, 6e4, 1e-7, 1.7e308], 3)
def test_a_constant_row_gives_exactly_the_bias(dtype, backend, H, value):
    # The last value stands for the largest of the dtype, whose sum over a row would overflow.
    x = torch.full((2, H), min(value, torch.finfo(dtype).max), dtype=dtype)
    weight, bias = rand(H, seed=1, dtype=dtype), rand(H, seed=2, dtype=dtype)
    for eps in (1e-5, 1e-12):
        y = lnlib.layer_norm(x, (H,), weight, bias, eps, backend=backend)
        assert torch.equal(y, bias.expand(2, H))


@pytest.mark.parametrize("bad", [float("inf"), -float("inf"), float("nan")])
@pytest.mark.parametrize("position", [0, 400, 768])
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_an_infinite_or_nan_value_stays_in_its_row(bad, position, backend):
    x, weight, bias = rand(5, 769), rand(769, seed=1), rand(769, seed=2)
    clean = lnlib.layer_norm(x, (769,), weight, bias, backend=backend)
    x[2, position] = bad
    y = lnlib.layer_norm(x, (769,), weight, bias, backend=backend)
    assert y[2].isnan().all()
    others = [0, 1, 3, 4]
    assert torch.equal(y[others], clean[others])


def test_a_row_gives_the_same_bits_in_any_batch():
    x, weight, bias = rand(33, 769), rand(769, seed=1), rand(769, seed=2)
    together = layer_norm(x, (769,), weight, bias)
    alone = torch.cat([layer_norm(row[None], (769,), weight, bias) for row in x])
    assert torch.equal(together, alone)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(torch.float16, 6e4), (torch.bfloat16, 1e18), (torch.float32, 3e38), (torch.float32, 1e-30)],
)
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_values_near_the_ends_of_the_range_neither_overflow_nor_vanish(dtype, scale, backend):
    signs = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    y = lnlib.layer_norm((scale * signs).to(dtype), (7,), eps=0, backend=backend)
    expected = formula.layer_norm(signs, eps=0).to(dtype)
    torch.testing.assert_close(y, expected, rtol=0, atol=0)


# What every layer norm obeys


def test_changing_the_sign_of_a_row_changes_only_the_sign():
    x = 1e3 + rand(3, 769)
    assert torch.equal(layer_norm(-x, (769,)), -layer_norm(x, (769,)))


def test_scaling_a_row_by_a_power_of_two_changes_no_bit_without_eps():
    x = 1e3 + rand(3, 769)
    assert torch.equal(layer_norm(x * 2**20, (769,), eps=0), layer_norm(x, (769,), eps=0))


# Graphs


def test_a_dynamic_graph_serves_every_batch_and_row_length():
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        lambda x, weight: layer_norm(x, (x.shape[-1],), weight),
        backend=counter,
        fullgraph=True,
        dynamic=True,
    )
    for rows, H in ((3, 7), (5, 9), (4, 64), (33, 769)):
        x, weight = rand(rows, H), rand(H, seed=1)
        expected = layer_norm(x, (H,), weight)
        torch.testing.assert_close(compiled(x, weight), expected, rtol=0, atol=ONE_ROUNDING)
    assert counter.frame_count == 1
