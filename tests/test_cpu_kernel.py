"""The C++ kernel: rounded once, on any input, with any number of threads; else the reference."""

import itertools

import pytest
import torch
from torch import Tensor

import lnlib
from lnlib import compiled, cpu_kernel, formula, functional
from lnlib.cpu_kernel import layer_norm

NAMES = ("y", "input", "weight", "bias")
# All arithmetic is in float64 and rounded once to float32: half a unit in the last place, 2⁻²⁴ of
# the number, and roundings in float64, which count where the parts of a number cancel.
HALF_UNIT, ROUNDINGS64 = 2**-24, 1e-12
SHAPES = [(1, 1), (1, 7), (3, 1), (33, 13), (5, 769), (300, 257), (2, 4099)]


@pytest.fixture(autouse=True)
def kernel():
    if compiled.library(cpu_kernel.SOURCE) is None:
        pytest.skip("no g++ that compiles the kernel")


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def case(rows: int, features: int, mean: float = 0.0) -> list[Tensor]:
    """Return x, weight, bias and dy; the middle row, if there are three, has no spread."""
    x = mean + rand(rows, features)
    if rows > 2:
        x[rows // 2] = mean + 0.1
    return [x, *(rand(features, seed=seed) for seed in (1, 2)), rand(rows, features, seed=3)]


def evaluate(run, x, weight, bias, dy, **options) -> dict[str, Tensor]:
    """Return y and the gradients of what is not None."""
    given = [None if t is None else t.detach().requires_grad_() for t in (x, weight, bias)]
    y = run(*given, **options)
    present = [(name, t) for name, t in zip(NAMES[1:], given, strict=True) if t is not None]
    grads = torch.autograd.grad(y, [t for _, t in present], dy)
    return {"y": y.detach(), **{name: g for (name, _), g in zip(present, grads, strict=True)}}


def kernels(x, weight, bias, eps=1e-5):
    return layer_norm(x, x.shape[-1:], weight, bias, eps)


def formulas(x, weight, bias, eps=1e-5):
    return formula.layer_norm(x, weight, bias, normalized_shape=x.shape[-1:], eps=eps)


def truth(x, weight, bias, dy, **options) -> dict[str, Tensor]:
    exact = (None if t is None else t.double() for t in (x, weight, bias, dy))
    return evaluate(formulas, *exact, **options)


def assert_rounded_once(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert value.dtype == torch.float32
        error = (value.double() - expected[name]).abs()
        scale = expected[name].abs().max()
        assert (error <= HALF_UNIT * expected[name].abs() + ROUNDINGS64 * scale).all(), name


# Values


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_y_and_every_gradient_are_rounded_once(shape, mean):
    arguments = case(*shape, mean)
    assert_rounded_once(evaluate(kernels, *arguments), truth(*arguments))


@pytest.mark.parametrize("mean", [1e4, 1e6])
def test_rows_far_from_zero_lose_nothing(mean):
    x, *others = case(33, 769, mean)
    found, expected = evaluate(kernels, x, *others), truth(x, *others)
    for name in NAMES:
        # The mean itself is rounded in float64; a row of spread 1 feels it by mean · 2⁻⁵³.
        room = HALF_UNIT * expected[name].abs() + mean * 1e-14 * expected[name].abs().max()
        assert ((found[name].double() - expected[name]).abs() <= room).all(), name


@pytest.mark.parametrize("present", list(itertools.product((True, False), repeat=2)))
def test_a_weight_or_bias_may_be_missing(present):
    x, weight, bias, dy = case(33, 13)
    arguments = (x, weight if present[0] else None, bias if present[1] else None, dy)
    assert_rounded_once(evaluate(kernels, *arguments), truth(*arguments))


@pytest.mark.parametrize("eps", [0.0, 1e-12, 0.5])
def test_eps_is_added_to_the_variance(eps):
    x, *others = case(2, 13)
    assert_rounded_once(evaluate(kernels, x, *others, eps=eps), truth(x, *others, eps=eps))


@pytest.mark.parametrize("value", [0.1, -123.456, 1e12, 3e38])
def test_a_row_without_spread_gives_exactly_the_bias(value):
    bias = rand(769)
    assert torch.equal(kernels(torch.full((3, 769), value), rand(769, seed=1), bias)[1], bias)


def test_rows_near_the_largest_number_do_not_overflow():
    x = torch.tensor([[3e38, -3e38, 1e38, 0.0, 2e38]])
    arguments = (x, torch.ones(5), torch.zeros(5), rand(1, 5))
    found, expected = evaluate(kernels, *arguments), truth(*arguments)
    torch.testing.assert_close(found["y"].double(), expected["y"], rtol=2 * HALF_UNIT, atol=0)


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_a_value_that_is_no_number_spoils_its_own_row_alone(poison):
    x, weight, bias, _ = case(5, 13)
    clean = kernels(x, weight, bias)
    x[1, 3] = poison
    y = kernels(x, weight, bias)
    assert y[1].isnan().all()
    assert torch.equal(y[[0, 2, 3, 4]], clean[[0, 2, 3, 4]])


@pytest.mark.parametrize("shape", [(300, 257), (16, 4099)])
def test_the_bits_do_not_depend_on_the_number_of_threads(shape):
    arguments, before = case(*shape), torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3, 5):
            torch.set_num_threads(threads)
            results.append(evaluate(kernels, *arguments))
    finally:
        torch.set_num_threads(before)
    for name, first in results[0].items():
        assert all(torch.equal(first, other[name]) for other in results[1:]), name


# Arguments


def test_any_strides_will_do():
    dense = case(6, 13)
    columns = dense[0].T.contiguous().T
    spread = torch.zeros(6, 40)[:, 1:40:3].copy_(dense[0])
    negated = torch._neg_view(-dense[0])
    weights = torch.zeros(13, 2)[:, 1].copy_(dense[1])
    expected = evaluate(kernels, *dense)
    for x in (columns, spread, negated):
        for name, value in evaluate(kernels, x, weights, *dense[2:]).items():
            assert torch.equal(value, expected[name])
            assert name != "y" or value.is_contiguous()


def test_an_expanded_upstream_gradient_is_read_as_it_is():
    x, weight, bias, _ = case(6, 13)
    row = rand(13, seed=4)
    expanded = evaluate(kernels, x, weight, bias, row.expand(6, 13))
    for name, value in evaluate(kernels, x, weight, bias, row.repeat(6, 1)).items():
        assert torch.equal(value, expanded[name])


@pytest.mark.parametrize("shape", [(0, 7), (3, 0), (0, 0)])
def test_there_may_be_nothing_to_normalize(shape):
    found = evaluate(kernels, *case(*shape))
    assert found["y"].shape == shape
    assert torch.equal(found["weight"], torch.zeros(shape[1]))
    assert torch.equal(found["bias"], torch.zeros(shape[1]))


@pytest.mark.parametrize("wanted", list(itertools.product((True, False), repeat=3)))
def test_exactly_the_gradients_asked_for_are_there(wanted):
    *values, dy = case(33, 13)
    inputs = [value.requires_grad_(want) for value, want in zip(values, wanted, strict=True)]
    y = kernels(*inputs)
    assert y.requires_grad == any(wanted)
    if any(wanted):
        y.backward(dy)
        assert tuple(leaf.grad is not None for leaf in inputs) == wanted
        expected = truth(*values, dy)
        found = {n: t.grad for n, t in zip(NAMES[1:], inputs, strict=True) if t.grad is not None}
        assert_rounded_once(found, {name: expected[name] for name in found})


def test_nothing_that_is_given_is_changed():
    arguments = case(33, 13)
    copies = [tensor.clone() for tensor in arguments]
    evaluate(kernels, *arguments)
    assert all(map(torch.equal, arguments, copies))


def test_a_change_in_place_before_the_backward_pass_is_reported():
    x, weight, bias, dy = case(5, 13)
    y = kernels(x.requires_grad_(), weight, bias)
    with torch.no_grad():
        x[0] = 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward(dy)


def test_a_gradient_can_be_differentiated_again():
    x, weight, bias, dy = (t.double() for t in case(2, 13))
    along = rand(2, 13, seed=5)

    def second(run, dtype):
        leaf = x.to(dtype).requires_grad_()
        first = torch.autograd.grad(
            run(leaf, weight.to(dtype), bias.to(dtype)), leaf, dy.to(dtype), create_graph=True
        )
        return torch.autograd.grad(first, leaf, along.to(dtype))[0]

    found, expected = second(kernels, torch.float32), second(formulas, torch.float64)
    # Rounded to float32 where the first gradient ends and at the end, beside sums in float64.
    torch.testing.assert_close(
        found.double(), expected, rtol=0, atol=8 * HALF_UNIT * float(expected.abs().max())
    )


# Who takes it


def test_auto_takes_it_for_ordinary_float32_on_a_cpu():
    for dtype in functional.FLOAT_DTYPES:
        expected = "cpp" if dtype == torch.float32 else "reference"
        assert functional.best_backend(dtype, "cpu", "eager") == expected
    assert functional.best_backend(torch.float32, "meta", "eager") == "reference"
    for mode in functional.DISPATCH.keys() - {"eager"}:
        assert functional.best_backend(torch.float32, "cpu", mode) == "reference"


def test_a_module_and_a_graph_agree():
    layer = lnlib.LayerNorm(13)
    x = rand(33, 13)
    compiled_layer = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled_layer(x), layer(x), rtol=4 * HALF_UNIT, atol=1e-7)


def test_asked_for_by_name_it_refuses_what_it_is_not_for():
    with pytest.raises(RuntimeError, match=r"not take torch\.float64 on cpu: C.. is for float32"):
        lnlib.layer_norm(rand(3, 7).double(), (7,), backend="cpp")


def test_without_a_compiler_auto_is_the_reference_and_the_name_is_refused(monkeypatch):
    monkeypatch.setattr(compiled, "why_not", lambda source: "there is no compiler")
    x = rand(3, 7)
    expected = lnlib.layer_norm(x, (7,), backend="reference")
    assert torch.equal(lnlib.layer_norm(x, (7,)), expected)
    with pytest.raises(
        RuntimeError, match=r'take torch.float32 on cpu: there is no compiler; use "auto"'
    ):
        lnlib.layer_norm(x, (7,), backend="cpp")
