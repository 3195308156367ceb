"""The C++ kernel: rounded once, on any input, with any number of threads; else the reference.

What it shares with the other backends is in `test_closed_form`.
"""

import pytest
import torch
from torch import Tensor

import lnlib
from lnlib import arguments, cpp_kernel, formula, functional, modes
from lnlib.cpp_kernel import compile

NAMES = ("y", "input", "weight", "bias")
# All arithmetic is in float64 and rounded once to float32: half a unit in the last place, 2⁻²⁴ of
# the number, and roundings in float64, which count where the parts of a number cancel.
HALF_UNIT, ROUNDINGS64 = 2**-24, 1e-12
SHAPES = [(1, 1), (1, 7), (3, 1), (33, 13), (5, 769), (300, 257), (2, 4099)]


@pytest.fixture(autouse=True)
def kernel():
    if cpp_kernel.why_not(torch.float32, "cpu") is not None:
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
    return lnlib.layer_norm(x, x.shape[-1:], weight, bias, eps, backend="cpp")


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


@pytest.mark.parametrize("eps", [0.0, 1e-12, 0.5])
def test_eps_is_added_to_the_variance(eps):
    x, *others = case(2, 13)
    assert_rounded_once(evaluate(kernels, x, *others, eps=eps), truth(x, *others, eps=eps))


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


# Who takes it


def test_auto_takes_it_for_ordinary_tensors_on_a_cpu():
    for dtype in arguments.FLOAT_DTYPES:
        assert functional.best_backend(dtype, "cpu", "eager") == "cpp"
    assert functional.best_backend(torch.float32, "meta", "eager") == "reference"
    for mode in {*modes.Mode.__args__} - {"eager"}:
        assert functional.best_backend(torch.float32, "cpu", mode) == "reference"


def test_asked_for_by_name_it_refuses_what_it_is_not_for():
    with pytest.raises(RuntimeError, match=r"not take torch\.float32 on meta: C.. is for a CPU"):
        compile.check(rand(3, 7).to("meta"), cpp_kernel.why_not(torch.float32, "meta"))


def test_without_a_compiler_auto_is_the_reference_and_the_name_is_refused(monkeypatch):
    monkeypatch.setattr(compile, "why_not", lambda *_: "there is no compiler")
    monkeypatch.setattr(cpp_kernel, "KERNELS", {})
    x = rand(3, 7)
    expected = lnlib.layer_norm(x, (7,), backend="reference")
    assert torch.equal(lnlib.layer_norm(x, (7,)), expected)
    with pytest.raises(
        RuntimeError, match=r'take torch.float32 on cpu: there is no compiler; use "auto"'
    ):
        lnlib.layer_norm(x, (7,), backend="cpp")
