"""`lnlib.layer_norm` at its door: what it accepts, what it refuses, and in what words."""

import functools
import itertools
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

import lnlib
from lnlib import dispatch, formula, modes, refusals, triton_kernel

# Largest error in y against the float64 formula, for |y| up to 16: one rounding, so half a unit in
# the last place. float64 has no wider type to compute in, so there it is several roundings.
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 4e-2, torch.float32: 5e-7, torch.float64: 1e-14}
FLOATS = list(TOLERANCE)
OTHERS = [torch.int64, torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn]


def rand(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def assert_is_layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5, **options):
    """Compare values with the formula, and shape, dtype and strides with PyTorch."""
    y = lnlib.layer_norm(x, normalized_shape, weight, bias, eps, **options)
    expected = formula.layer_norm(x, weight, bias, normalized_shape=normalized_shape, eps=eps)
    torch.testing.assert_close(y.double(), expected, rtol=0, atol=TOLERANCE[x.dtype])
    theirs = F.layer_norm(x, normalized_shape, weight, bias, eps)
    assert (y.shape, y.dtype, y.stride()) == (theirs.shape, theirs.dtype, theirs.stride())


# What is accepted


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("H", [2, 7, 64, 769])
@pytest.mark.parametrize(("with_weight", "with_bias"), [(1, 1), (1, 0), (0, 1), (0, 0)])
def test_y_is_the_formula_and_looks_as_pytorchs(dtype, H, with_weight, with_bias):
    weight = rand(H, seed=1, dtype=dtype) if with_weight else None
    bias = rand(H, seed=2, dtype=dtype) if with_bias else None
    assert_is_layer_norm(rand(3, 5, H, dtype=dtype), (H,), weight, bias)


@pytest.mark.parametrize("size", [np.int64(7), torch.tensor(7)])
def test_sizes_may_be_ints_of_another_library_and_in_a_list(size):
    expected = lnlib.layer_norm(rand(3, 7), (7,))
    for shape in ((size,), [size], torch.Size([7])):
        assert torch.equal(lnlib.layer_norm(rand(3, 7), shape), expected)


def test_one_row_needs_no_batch_dimension():
    assert_is_layer_norm(rand(7), (7,), rand(7, seed=1), rand(7, seed=2))


def test_eps_may_be_any_real_number():
    x = rand(3, 7)
    expected = lnlib.layer_norm(x, (7,), eps=1.0)
    for eps in (1, True, np.float32(1), np.int32(1), torch.tensor(1.0), torch.tensor(1)):
        assert torch.equal(lnlib.layer_norm(x, (7,), eps=eps), expected), eps


def kind(run: Callable[[], Tensor]) -> type:
    try:
        return type(run())
    except Exception as error:
        return type(error)


@pytest.mark.filterwarnings("ignore:Casting complex")
@pytest.mark.parametrize(
    "eps",
    [np.bool_(True), np.complex64(1), Fraction(1, 3), Decimal(1), 10**400, np.array(1.0), "1"],
)
def test_what_else_is_a_number_pytorch_decides(eps):
    runs = (partial(norm, rand(3, 7), (7,), eps=eps) for norm in (lnlib.layer_norm, F.layer_norm))
    assert len({kind(run) for run in runs}) == 1


@pytest.mark.parametrize("size", [2**70, -(2**70), 2**63, 2**63 - 1, -1])
def test_an_impossible_size_is_refused_as_pytorch_refuses_it(size):
    runs = (partial(norm, rand(3, 7), (size,)) for norm in (lnlib.layer_norm, F.layer_norm))
    assert len({kind(run) for run in runs}) == 1


@pytest.mark.parametrize("eps", [0, -1e-5, -10.0, float("nan"), float("inf"), 1e300])
def test_odd_eps_does_what_it_does_in_pytorch(eps):
    x = torch.cat([rand(3, 7), torch.ones(1, 7)])
    theirs = F.layer_norm(x, (7,), eps=eps)
    torch.testing.assert_close(
        lnlib.layer_norm(x, (7,), eps=eps), theirs, rtol=0, atol=2e-6, equal_nan=True
    )


def test_meta_tensors_tell_the_shape():
    weight = torch.ones(7, device="meta")
    y = lnlib.layer_norm(torch.ones(3, 7, device="meta", dtype=torch.float16), (7,), weight)
    assert (y.device.type, y.shape, y.dtype) == ("meta", (3, 7), torch.float16)


# Dtypes


def outcome(function, *arguments):
    try:
        return function(*arguments).dtype
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("dtype", FLOATS + OTHERS)
def test_dtypes_mix_exactly_as_in_pytorch(dtype):
    x = torch.ones(3, 7).to(dtype)
    parameters = [None, *(torch.ones(7).to(other) for other in FLOATS + OTHERS)]
    for weight, bias in itertools.product(parameters, parameters):
        arguments = (x, (7,), weight, bias)
        expected = outcome(F.layer_norm, *arguments)
        described = [t if t is None else t.dtype for t in (weight, bias)]
        assert outcome(lnlib.layer_norm, *arguments) == expected, described


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_float32_parameters_go_with_half_precision_input(dtype):
    assert_is_layer_norm(rand(3, 769, dtype=dtype), (769,), rand(769, seed=1), rand(769, seed=2))


@pytest.mark.parametrize("autocast_dtype", [torch.float16, torch.bfloat16])
def test_autocast_on_the_cpu_changes_nothing(autocast_dtype):
    with torch.autocast("cpu", dtype=autocast_dtype):
        for dtype in FLOATS:
            assert_is_layer_norm(rand(3, 7, dtype=dtype), (7,), rand(7, dtype=dtype))


@pytest.fixture
def cuda_autocast():
    torch.set_autocast_enabled("cuda", True)
    yield
    torch.set_autocast_enabled("cuda", False)


@pytest.mark.usefixtures("cuda_autocast")
def test_autocast_on_an_accelerator_widens_to_float32_as_pytorch_does(monkeypatch):
    seen = []
    monkeypatch.setattr(dispatch, "_dispatch", lambda *args: seen.append(args[2:]) or X)
    with FakeTensorMode():  # CUDA tensors without a GPU: they have dtypes, and no values
        for x_dtype, dtype in itertools.product(FLOATS[:3], FLOATS[:3]):
            x = torch.empty(3, 7, device="cuda", dtype=x_dtype)
            weight = torch.empty(7, device="cuda", dtype=dtype)
            lnlib.layer_norm(x, (7,), weight, torch.empty_like(weight))
            handed_x, _, handed_weight, handed_bias, _ = seen.pop()
            assert handed_x.dtype == F.layer_norm(x, (7,), weight).dtype == torch.float32
            assert handed_weight.dtype == torch.float32
            assert handed_bias.dtype == torch.float32
        lnlib.layer_norm(x.double(), (7,), weight.double())
        assert seen.pop()[0].dtype == F.layer_norm(x.double(), (7,)).dtype == torch.float64


# What is refused

X, ONES = torch.ones(3, 4), torch.ones(4)
REFUSED = {
    "input is a list": ([[1.0]], (1,)),
    "input is an array": (np.ones((3, 4)), (4,)),
    "input is None": (None, (4,)),
    "input is int64": (X.long(), (4,)),
    "input is bool": (X.bool(), (4,)),
    "input is complex": (X + 0j, (4,)),
    "input has no rows, int64": (X[:0].long(), (4,)),
    "input has no dimension": (X[0, 0], (1,)),
    "input is sparse": (X.to_sparse(), (4,)),
    "input is elsewhere": (X.to("meta"), (4,), ONES),
    "shape is an int": (X, 4),
    "shape is a float": (X, 4.0),
    "shape is a bool": (X, True),
    "shape is None": (X, None),
    "shape is a string": (X, "4"),
    "shape is a range": (X, range(4, 5)),
    "shape is a set": (X, {4}),
    "shape is a tensor": (X, torch.tensor([4])),
    "shape holds a float": (X, (4.0,)),
    "shape holds a bool": (torch.ones(3, 1), (True,)),
    "shape holds None": (X, (3, None)),
    "shape is empty": (X, ()),
    "shape is empty, so is input's": (X[0, 0], ()),
    "shape is wrong": (X, (5,)),
    "shape is a leading one": (X, (3,)),
    "shape is negative": (X, (-1,)),
    "shape is transposed": (X, (4, 3)),
    "shape is longer than input's": (X, (2, 3, 4)),
    "shape holds 0 where input does not": (X, (0,)),
    "shape is too large for 64 bits": (X, (2**70,)),
    "weight is too short": (X, (4,), ONES[:3]),
    "weight would broadcast": (X, (4,), ONES[None]),
    "weight is one number": (X, (4,), ONES[0]),
    "weight is a float": (X, (4,), 1.0),
    "weight is a list": (X, (4,), [1.0] * 4),
    "weight is elsewhere": (X, (4,), ONES.to("meta")),
    "weight is sparse": (X, (4,), ONES.to_sparse()),
    "weight is float64": (X, (4,), ONES.double()),
    "bias is too long": (X, (4,), None, torch.ones(5)),
    "bias alone is wrong": (X, (4,), ONES, torch.ones(5)),
    "bias is an array": (X, (4,), None, np.ones(4)),
    "bias is elsewhere": (X, (4,), ONES, ONES.to("meta")),
    "bias is of another dtype": (X.bfloat16(), (4,), ONES, ONES.bfloat16()),
    "eps is a string": (X, (4,), None, None, "1e-5"),
    "eps is None": (X, (4,), None, None, None),
    "eps is complex": (X, (4,), None, None, 1j),
    "eps is a list": (X, (4,), None, None, [1e-5]),
    "eps is a vector": (X, (4,), None, None, ONES),
    "eps wants a gradient": (X, (4,), None, None, torch.tensor(1e-5, requires_grad=True)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_pytorch_refuses_is_refused_before_any_work_with_a_hint(case, monkeypatch):
    arguments = REFUSED[case]
    monkeypatch.setattr(dispatch, "_dispatch", lambda *_: pytest.fail("began to work"))
    with pytest.raises(Exception) as theirs:  # noqa: PT011  PyTorch decides which
        F.layer_norm(*arguments)
    with pytest.raises(theirs.type) as ours:
        lnlib.layer_norm(*arguments)
    assert ours.type is theirs.type
    assert ours.value.__notes__ == [refusals.HINT]


# Backends


def test_auto_is_lnlibs_own_and_torch_is_pytorchs():
    x = 1e4 + rand(3, 769)  # far enough from zero to tell them apart
    auto, reference, theirs = (
        lnlib.layer_norm(x, (769,), backend=name) for name in ("auto", "reference", "torch")
    )
    # Both round once from float64, which may fall on either side: one unit in the last place.
    torch.testing.assert_close(auto, reference, rtol=2**-23, atol=1e-9)
    assert torch.equal(theirs, F.layer_norm(x, (769,)))
    assert not torch.equal(auto, theirs)


def test_an_unknown_backend_is_refused_with_the_names_of_those_there_are():
    expected = 'no backend \'fast\'; choose one of "auto", "reference", "cpp", "torch", "triton"'
    with pytest.raises(ValueError, match=expected):
        lnlib.layer_norm(rand(3, 7), (7,), backend="fast")


@pytest.mark.parametrize("installed", [True, False])
def test_auto_is_triton_on_a_gpu_if_there_is_triton(monkeypatch, installed):
    monkeypatch.setattr(triton_kernel, "runs_on_gpu", lambda: installed)
    for dtype, mode in itertools.product(FLOATS, modes.Mode.__args__):
        elsewhere = "torch" if mode == "program" else "reference"
        on_gpu = "triton" if installed and mode in ("eager", "graph") else elsewhere
        assert dispatch.best_backend(dtype, "cuda", mode) == on_gpu
        assert dispatch.best_backend(dtype, "mps", mode) == elsewhere


# __torch_function__


class Seen(TorchFunctionMode):
    """Takes down which functions are called, and with what besides tensors."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, kwargs or {}))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("backend", ["auto", "reference", "torch"])
def test_a_mode_sees_the_call_once_and_the_result_is_the_same(backend):
    x, weight, bias = rand(3, 7), rand(7), rand(7)
    expected = lnlib.layer_norm(x, (7,), weight, bias, backend=backend)
    with Seen() as seen:
        y = lnlib.layer_norm(x, (7,), weight, bias, backend=backend)
    assert seen.calls == [(lnlib.layer_norm, {"backend": backend})]
    assert torch.equal(y, expected)


class Logged(torch.Tensor):
    seen: ClassVar = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("of", [0, 1, 2], ids=["input", "weight", "bias"])
def test_a_subclass_is_asked_and_comes_back(of):
    tensors = [rand(3, 7), rand(7), rand(7)]
    expected = lnlib.layer_norm(tensors[0], (7,), *tensors[1:])
    tensors[of] = tensors[of].as_subclass(Logged)
    Logged.seen.clear()
    y = lnlib.layer_norm(tensors[0], (7,), *tensors[1:])
    asked = [func for func in Logged.seen if func.__name__ != "__get__"]  # a property, as dtype is
    assert asked == [lnlib.layer_norm]
    assert type(y) is Logged
    torch.testing.assert_close(y.as_subclass(torch.Tensor), expected)


class Stub:
    """No tensor at all, as Proxy is none."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func, args, kwargs


def test_what_overrides_it_gets_every_argument_as_it_was_given():
    stub, weight = Stub(), rand(7)
    found = lnlib.layer_norm(stub, [7], weight, eps=0.5, backend="reference")
    given = (stub, [7], weight, None, 0.5)
    assert found == (lnlib.layer_norm, given, {"backend": "reference"})


def test_with_triton_a_parameter_must_still_be_of_a_float_dtype():
    with pytest.raises(RuntimeError):
        lnlib.layer_norm(rand(3, 7), (7,), torch.ones(7, dtype=torch.int64), backend="triton")


def test_backend_is_keyword_only():
    with pytest.raises(TypeError):
        lnlib.layer_norm(rand(3, 7), (7,), None, None, 1e-5, "reference")


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("of", [0, 1, 2], ids=["input", "weight", "bias"])
def test_a_sparse_gradient_of_y_is_refused_as_pytorch_refuses_it(backend, of):
    inputs = [torch.randn(size).requires_grad_() for size in ((3, 4), (4,), (4,))]
    ways = (
        torch.nn.functional.layer_norm,
        functools.partial(lnlib.layer_norm, backend=backend),
    )
    for way in ways:
        y = way(inputs[0], (4,), *inputs[1:])
        with pytest.raises(NotImplementedError):
            torch.autograd.grad(y, inputs[of], torch.randn(3, 4).to_sparse())


@pytest.mark.parametrize("sizes", [torch.tensor([4, 4]), np.array([4, 5])], ids=["tensor", "array"])
def test_sizes_in_an_array_are_no_sizes(sizes):
    x = torch.randn(3, 4)
    for layer_norm in (lnlib.layer_norm, F.layer_norm):
        with pytest.raises(TypeError):
            layer_norm(x, (sizes,))
