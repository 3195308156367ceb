"""`lnlib.layer_norm`, the function: what it accepts, what it refuses, and who may override it."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from norms import FLOATS, by, rand
from odd_tensors import Plain
from random_calls import Call, difference, outcome
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

import lnlib
from lnlib import dispatch, modes, refusals, triton_kernel

OTHERS = [torch.int64, torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn]
X, ONES = torch.ones(3, 4), torch.ones(4)
VARIED = rand(3, 7).float()


# What is taken, and what of it PyTorch decides


@pytest.mark.filterwarnings("ignore:Casting complex")
def test_what_is_a_size_or_a_number_pytorch_decides():
    sizes = np.int64(7), torch.tensor(7), 2**70, -(2**70), 2**63, 2**63 - 1, -1, np.array([7, 5])
    numbers = 1, True, np.float32(1), np.int32(1), torch.tensor(1.0), np.bool_(True), Decimal(1)
    numbers += 0, -1e-5, -10.0, math.nan, math.inf, 1e300, np.complex64(1), 10**400, np.array(1.0)
    x = torch.cat([VARIED, torch.ones(1, 7)])
    for eps in (*numbers, Fraction(1, 3)):
        assert not difference(Call(x, (7,), eps=eps)), eps
    for shape in (kind([size]) for size in sizes for kind in (tuple, list)):
        assert not difference(Call(x, shape)), shape


@pytest.mark.parametrize("dtype", FLOATS + OTHERS)
def test_dtypes_mix_exactly_as_in_pytorch(dtype):
    x = torch.ones(3, 7).to(dtype)
    parameters = [None, *(torch.ones(7).to(other) for other in FLOATS + OTHERS)]
    for weight, bias in itertools.product(parameters, parameters):
        assert not difference(Call(x, (7,), weight, bias))
    with pytest.raises(RuntimeError):  # with "triton" too
        by("triton")(VARIED, (7,), torch.ones(7, dtype=torch.int64))


def test_autocast_on_an_accelerator_widens_to_float32_as_pytorch_does():
    pairs = [*itertools.product(FLOATS[:3], FLOATS[:3]), (FLOATS[3], FLOATS[3])]
    torch.set_autocast_enabled("cuda", True)  # torch.autocast wants a GPU
    try:
        with FakeTensorMode():  # as of CUDA tensors: they have dtypes, and no values
            for dtype, other in pairs:
                x = torch.empty(3, 7, device="cuda", dtype=dtype)
                given = x, (7,), torch.empty(7, device="cuda", dtype=other)
                expected = torch.promote_types(dtype, torch.float32)
                assert lnlib.layer_norm(*given).dtype == F.layer_norm(*given).dtype == expected
    finally:
        torch.set_autocast_enabled("cuda", False)


def test_meta_tensors_tell_the_shape():
    weight = torch.ones(7, device="meta")
    x = torch.ones(3, 7, device="meta", dtype=torch.float16, requires_grad=True)
    y = lnlib.layer_norm(x, (7,), weight)
    for each in (y, *torch.autograd.grad(y, x, y)):
        assert (each.device.type, each.shape, each.dtype) == ("meta", (3, 7), torch.float16)


# What is refused


FITS = {"input": X, "normalized_shape": (4,), "weight": ONES, "bias": ONES, "eps": 1e-5}
ELSEWHERE, SPARSE = ONES.to("meta"), ONES.to_sparse()
REFUSED = [
    ("input", ([[1.0]], np.ones((3, 4)), None, X.to_sparse(), X.to("meta"))),
    ("input", (X.long(), X.bool(), X + 0j, X[:0].long(), X[0, 0])),
    ("normalized_shape", (4, 4.0, True, None, "4", range(4, 5), {4}, torch.tensor([4]))),
    ("normalized_shape", ((4.0,), (3, None), (), (5,), (3,), (-1,), (0,), (2**70,))),
    ("normalized_shape", ((4, 3), (2, 3, 4))),
    ("weight", (ONES[:3], ONES[None], ONES[0], ELSEWHERE, SPARSE, ONES.double(), 1.0, [1.0] * 4)),
    ("bias", (torch.ones(5), ONES[None], np.ones(4), ELSEWHERE, SPARSE, ONES.bfloat16())),
    ("eps", ("1e-5", None, 1j, [1e-5], ONES, torch.tensor(1e-5, requires_grad=True))),
]
CALLS = [{**FITS, name: value} for name, values in REFUSED for value in values]
CALLS += [{"input": torch.ones(3, 1), "normalized_shape": (True,)}]
CALLS += [{"input": X[0, 0], "normalized_shape": ()}]
CALLS += [{"input": X.bfloat16(), "normalized_shape": (4,), "weight": ONES, "bias": X[0].half()}]


@pytest.mark.parametrize("call", CALLS)
def test_what_pytorch_refuses_is_refused_before_any_work_with_a_hint(call, monkeypatch):
    monkeypatch.setattr(dispatch, "_dispatch", lambda *_: pytest.fail("began to work"))
    with pytest.raises(Exception) as theirs:  # noqa: PT011  PyTorch decides which
        F.layer_norm(**call)
    with pytest.raises(theirs.type) as ours:
        lnlib.layer_norm(**call)
    assert ours.type is theirs.type
    assert ours.value.__notes__ == [refusals.HINT]


@pytest.mark.parametrize("of", [0, 1, 2], ids=["input", "weight", "bias"])
def test_a_sparse_gradient_of_y_is_refused_as_pytorch_refuses_it(of):
    for norm in (F.layer_norm, by("auto"), by("reference")):
        given = [t.detach().requires_grad_(n == of) for n, t in enumerate((VARIED, *VARIED[:2]))]
        with pytest.raises(NotImplementedError):
            norm(given[0], (7,), *given[1:]).backward(VARIED.to_sparse())


# Backends


def test_auto_is_lnlibs_own_and_torch_is_pytorchs():
    x = 1e4 + rand(3, 769).float()  # far enough from zero to tell them apart
    auto, reference, theirs = (by(name)(x, (769,)) for name in ("auto", "reference", "torch"))
    # Both round once from float64, which may fall on either side: one unit in the last place.
    torch.testing.assert_close(auto, reference, rtol=2**-23, atol=1e-9)
    assert torch.equal(theirs, F.layer_norm(x, (769,)))
    assert not torch.equal(auto, theirs)
    for wrong in ((770,), 769):
        assert outcome(by("torch"), x, wrong) is outcome(F.layer_norm, x, wrong)


def test_an_unknown_backend_is_refused_with_the_names_of_those_there_are():
    expected = 'no backend \'fast\'; choose one of "auto", "reference", "cpp", "torch", "triton"'
    with pytest.raises(ValueError, match=expected):
        lnlib.layer_norm(VARIED, (7,), backend="fast")
    with pytest.raises(TypeError):  # by keyword alone
        lnlib.layer_norm(VARIED, (7,), None, None, 1e-5, "reference")


@pytest.mark.parametrize("installed", [True, False])
def test_auto_is_triton_on_a_gpu_if_there_is_triton(monkeypatch, installed):
    monkeypatch.setattr(triton_kernel, "runs_on_gpu", lambda: installed)
    for dtype, mode in itertools.product(FLOATS, modes.Mode.__args__):
        elsewhere = "torch" if mode == "program" else "reference"
        on_gpu = "triton" if installed and mode in ("eager", "graph") else elsewhere
        assert dispatch.best_backend(dtype, "cuda", mode) == on_gpu
        assert dispatch.best_backend(dtype, "mps", mode) == elsewhere


# __torch_function__: of a mode, of a subclass of Tensor, and of what is no tensor, as Proxy is none


class Seen(TorchFunctionMode):
    """Takes down which functions are called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("backend", ["auto", "reference", "torch"])
def test_a_mode_sees_the_call_once_and_the_result_is_the_same(backend):
    given = VARIED, (7,), torch.ones(7), torch.ones(7)
    with Seen() as seen:
        y = by(backend)(*given)
    calls = [F.layer_norm] if backend == "torch" else [lnlib.layer_norm]
    assert seen.calls == calls
    assert torch.equal(y, by(backend)(*given))


class Logged(Tensor):
    calls: ClassVar[list[Any]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("of", [0, 1, 2], ids=["input", "weight", "bias"])
def test_a_subclass_is_asked_and_comes_back(of):
    tensors = [VARIED, VARIED[0], VARIED[1]]
    expected = lnlib.layer_norm(tensors[0], (7,), *tensors[1:])
    tensors[of] = tensors[of].as_subclass(Logged)
    Logged.calls.clear()
    y = lnlib.layer_norm(tensors[0], (7,), *tensors[1:])
    asked = [func for func in Logged.calls if func.__name__ != "__get__"]  # a property, as dtype is
    assert asked == [lnlib.layer_norm]
    assert type(y) is Logged
    torch.testing.assert_close(y.as_subclass(Tensor), expected)


class Stub:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func, args, kwargs


def test_what_overrides_it_gets_every_argument_as_it_was_given():
    given = Stub(), [7], VARIED[0], None, 0.5
    found = lnlib.layer_norm(*given, backend="reference")
    assert found == (lnlib.layer_norm, given, {"backend": "reference"})


@pytest.mark.parametrize("freed", ["input", "weight"])
def test_freed_memory_is_refused_beside_a_tensor_of_another_kind(freed):
    given = {"input": rand(2, 4), "weight": rand(4)}
    given[freed].untyped_storage().resize_(0)
    other = ({*given} - {freed}).pop()
    given[other] = given[other].as_subclass(Plain)
    with pytest.raises(RuntimeError, match="its memory has been freed"):
        lnlib.layer_norm(given["input"], (4,), given["weight"])
