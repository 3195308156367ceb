"""The straight way to the kernel: taken by simple calls alone, with the bits of the careful way."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compiled import NEEDS_CPP
from norms import FLOATS, PRESENT, WANTED, by, chosen, each_dtype, rand
from odd_tensors import ODD
from random_calls import Outcome, outcome
from tiers import few
from torch import Tensor, nn
from torch._dynamo.compiled_autograd import _enable
from torch.profiler import ProfilerActivity, profile

import lnlib
from lnlib import autograd, cpp_kernel, functional

H = 7
pytestmark = NEEDS_CPP
X, WEIGHT, BIAS, DY = (
    rand(*shape, seed=seed).float() for seed, shape in enumerate(((3, H), (H,), (H,), (3, H)))
)


def is_simple(*given: Any) -> bool:
    return functional.simple_call(*given, 1e-5) is not None


def both_passes(x: Any, shape: Any, weight: Any, bias: Any, backend: str = "auto") -> list[Tensor]:
    """Return y, and the gradients of those that want one."""
    y = lnlib.layer_norm(x, shape, weight, bias, backend=backend)
    wanting = [t for t in (x, weight, bias) if isinstance(t, Tensor) and t.requires_grad]
    dy = torch.ones_like(y) * torch.arange(y.shape[-1]).to(y.dtype)
    return [y.detach(), *(torch.autograd.grad(y, wanting, dy) if wanting else [])]


def assert_same(ours: Outcome, expected: Outcome) -> None:
    if isinstance(ours, type) or isinstance(expected, type):
        assert ours is expected
        return
    for one, other in zip(ours, expected, strict=True):
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


@pytest.fixture
def carefully(monkeypatch) -> Callable[..., Outcome]:
    """Return the outcome of both passes without the shortest way."""

    def outcome_of(*given: Any) -> Outcome:
        with monkeypatch.context() as patch:
            patch.setattr(functional, "simple_call", lambda *_: None)
            return outcome(both_passes, *given)

    return outcome_of


# Simple calls


@each_dtype
def test_a_simple_call_has_the_bits_of_the_careful_way(carefully, dtype):
    shapes = ((3, 7), (7,)), ((2, 3, 5), (3, 5)), ((5,), (5,))
    of_parameters = {dtype, torch.float32 if dtype.itemsize == 2 else dtype}
    for (shape, normalized), wide, present, wanted in itertools.product(
        shapes, of_parameters, PRESENT, WANTED
    ):
        weight, bias = (rand(*normalized, seed=seed, dtype=wide) for seed in (1, 2))
        x, *parameters = chosen((rand(*shape, dtype=dtype), weight, bias), present, wanted)
        given = x, normalized, *parameters
        assert is_simple(*given)
        assert_same(both_passes(*given), carefully(*given))


@pytest.mark.parametrize("shape", [(H,), [H], torch.Size([H])])
@pytest.mark.parametrize("x", [X, nn.Parameter(X), X[1:], X[:1].as_strided((1, H), (1, 1))])
def test_these_are_simple(carefully, shape, x):
    given = x, shape, WEIGHT, nn.Parameter(BIAS)
    assert is_simple(*given)
    assert_same(both_passes(*given), carefully(*given))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [kind for kind in ODD if kind != "lazily cloned"])
def test_an_odd_tensor_is_not_simple_and_its_address_does_not_reach_the_kernel(kind):
    odd = ODD[kind](X.clone())
    assert not is_simple(odd, (H,), WEIGHT, BIAS)
    with pytest.raises(RuntimeError, match=r"expected torch\.float32 of shape"):
        cpp_kernel.address(odd, torch.float32, (3, H))


def walk(run: Callable[[], object]) -> list[str]:
    """Return the file of each Python function of lnlib that a call runs through."""
    home, seen = str(Path(lnlib.__file__).parent), list[str]()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(home):
            seen.append(frame.f_code.co_filename)

    run()
    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return seen


def test_a_call_runs_through_few_functions():
    one_way = walk(lambda: lnlib.layer_norm(X, (H,), WEIGHT, BIAS))
    assert len(one_way) <= 6
    assert len({*one_way}) <= 2
    leaves = [t.clone().requires_grad_() for t in (X, WEIGHT, BIAS)]
    for dy in (DY, DY[:1, :1].expand(3, H)):

        def both(dy: Tensor = dy) -> object:
            y = lnlib.layer_norm(leaves[0], (H,), *leaves[1:])
            return torch.autograd.grad(y, leaves, dy)

        assert 8 <= len(walk(both)) <= 16  # autograd runs it all in this thread


# What autograd does with a simple call


@pytest.mark.parametrize("backend", ["auto", "reference", "cpp, carefully"])
def test_a_profiler_shows_both_passes_under_one_name(backend, monkeypatch):
    if backend == "cpp, carefully":
        monkeypatch.setattr(functional, "simple_call", lambda *_: None)
        backend = "cpp"
    x = X.detach().requires_grad_()
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        with torch.no_grad():
            by(backend)(x, (H,), WEIGHT, BIAS)
        y = by(backend)(x, (H,), WEIGHT, BIAS)
        y.sum().backward()
    names = [event.name for event in recorded.events()]
    assert names.count("lnlib::layer_norm") == 2
    assert names.count("lnlib::layer_norm_backward") == 1
    assert "LayerNormFunctionBackward" in names
    assert y.grad_fn.name() == "LayerNormFunctionBackward"


def test_compiled_autograd_records_it():
    leaves = [t.clone().requires_grad_() for t in (X, WEIGHT, BIAS)]
    y = lnlib.layer_norm(leaves[0], (H,), *leaves[1:])
    expected = torch.autograd.grad(y, leaves, DY, retain_graph=True)
    with _enable(torch.compile(backend="eager")):
        y.backward(DY)
    assert all(map(torch.equal, (leaf.grad for leaf in leaves), expected))


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("place", range(3))
def test_a_tensor_of_inference_is_refused_though_no_gradient_needs_it(backend, place):
    given = [X.clone(), WEIGHT.clone(), BIAS.clone()]
    given[place - 1].requires_grad_()
    given[place] = torch.inference_mode()(Tensor.clone)(given[place])
    for norm in (F.layer_norm, by(backend)):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            norm(given[0], (H,), *given[1:])


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_no_gradient_in_is_no_gradient_out(backend):
    weight = nn.Parameter(WEIGHT)
    y = lnlib.layer_norm(X, (H,), weight, backend=backend)
    torch._C._functions.UndefinedGrad()(y).sum().backward()
    assert weight.grad is None  # of zeros, weight decay would make a step


# On a GPU. Here a CPU's tensors stand for its, and the kernels are interpreted.


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Take a CPU for a GPU; return the passes that simple calls take, as they take them."""
    taken = []
    monkeypatch.setattr(functional, "CPU", "elsewhere")
    monkeypatch.setattr(functional.triton_kernel, "runs_on_gpu", lambda: True)
    for module, name in ((functional, "_simple_call_on_gpu"), (autograd, "_of_simple")):
        run = getattr(module, name)

        def watched(*given: Any, run: Any = run, name: str = name) -> Any:
            found = run(*given)
            taken.extend([] if found is None else [name])
            return found

        monkeypatch.setattr(module, name, watched)
    return taken


@few("dtype", FLOATS, 2)
@pytest.mark.parametrize(("shape", "x"), [((H,), X), ((H,), X.view(3, 1, H)), ((3, H), X)])
@pytest.mark.parametrize("wants", [(1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_a_simple_call_on_a_gpu_has_the_bits_of_the_careful_way(
    on_gpu, monkeypatch, dtype, shape, x, wants
):
    def passes(backend: str) -> list[Tensor]:
        values = [t.to(dtype) for t in (x, rand(*shape, seed=1), rand(*shape, seed=2))]
        leaves = chosen(values, (True, True), wants)
        found = []
        for loss in (Tensor.sum, lambda y: (y * y.detach().sin()).sum()):
            y = lnlib.layer_norm(leaves[0], shape, *leaves[1:], backend=backend)
            found += [
                y.detach(),
                *torch.autograd.grad(loss(y), [t for t in leaves if t.requires_grad]),
            ]
            y.add_(1)  # as one may: it is no view
        return found

    found = passes("auto")
    is_simple_back = wants[0] or wants[1]  # the gradient of bias alone needs no kernel
    assert on_gpu == ["_simple_call_on_gpu", *["_of_simple"] * is_simple_back] * 2
    for module in (functional, autograd):
        monkeypatch.setattr(module, "place_of_simple", lambda *_: None)
    assert_same(found, passes("triton"))


def test_on_a_gpu_too_no_other_call_is_simple(on_gpu):
    for given in (
        (X.half(), (H,), WEIGHT, BIAS),
        (X, (H,), WEIGHT[:3], BIAS),
        (X.t().contiguous().t(), (H,), WEIGHT, BIAS),
        (X.int(), (H,), None, None),
    ):
        assert not is_simple(*given)


def test_the_backend_is_the_one_that_is_asked_for(on_gpu, monkeypatch):
    assert functional.simple_call(X, (H,), WEIGHT, BIAS, 1e-5, "cpp") is None
    monkeypatch.undo()
    assert functional.simple_call(X, (H,), WEIGHT, BIAS, 1e-5, "triton") is None
