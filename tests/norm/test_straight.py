"""The straight way to the kernel: taken by simple calls alone, with the bits of the careful way."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compiled import NEEDS_CPP
from norms import FLOATS, assert_right, by, each_dtype, rand, truth
from odd_tensors import ODD
from tiers import few
from torch import Tensor, nn
from torch._dynamo.compiled_autograd import _enable
from torch.profiler import ProfilerActivity, profile

import lnlib
from lnlib import autograd, cpp_kernel, functional

H = 7
Outcome = list[Tensor] | type[Exception]
pytestmark = NEEDS_CPP
X, WEIGHT, BIAS, DY = (
    rand(*shape, seed=seed).float() for seed, shape in enumerate(((3, H), (H,), (H,), (3, H)))
)


@pytest.fixture(autouse=True)
def loaded():
    """Load the kernels: the first call for a dtype is not simple."""
    for dtype in FLOATS:
        cpp_kernel.kernel(dtype)


def is_simple(*given: Any) -> bool:
    return functional.simple_call(*given, 1e-5) is not None


def outcome(run: Callable[[], list[Tensor]]) -> Outcome:
    """Return what a call returns, or the type of exception that it raises."""
    try:
        return run()
    except Exception as error:
        return type(error)


def both_passes(x: Any, shape: Any, weight: Any, bias: Any, eps: Any = 1e-5) -> list[Tensor]:
    """Return y, and the gradients of those that want one."""
    y = lnlib.layer_norm(x, shape, weight, bias, eps)
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
            return outcome(lambda: both_passes(*given))

    return outcome_of


# Simple calls


@each_dtype
def test_a_simple_call_has_the_bits_of_the_careful_way(carefully, dtype):
    shapes = ((3, 7), (7,)), ((2, 3, 5), (3, 5)), ((5,), (5,))
    of_parameters = {dtype, torch.float32 if dtype.itemsize == 2 else dtype}
    for (shape, normalized), wide, *present in itertools.product(
        shapes, of_parameters, (True, False), (True, False)
    ):
        x = rand(*shape, dtype=dtype)
        weight, bias = (
            rand(*normalized, seed=seed, dtype=wide) if there else None
            for seed, there in zip((1, 2), present, strict=True)
        )
        for wants in itertools.product((True, False), repeat=3):
            x, weight, bias = (
                None if t is None else t.detach().clone().requires_grad_(want)
                for t, want in zip((x, weight, bias), wants, strict=True)
            )
            given = x, normalized, weight, bias
            assert is_simple(*given)
            assert_same(both_passes(*given), carefully(*given))


@pytest.mark.parametrize("shape", [(H,), [H], torch.Size([H])])
@pytest.mark.parametrize("x", [X, nn.Parameter(X), X[1:], X[:1].as_strided((1, H), (1, 1))])
def test_these_are_simple(carefully, shape, x):
    given = x, shape, WEIGHT, nn.Parameter(BIAS)
    assert is_simple(*given)
    assert_same(both_passes(*given), carefully(*given))


# Calls that are not


NO_ARGUMENT = (
    "lazily cloned",
    "nested",
    "no tensor",
    "an array",
    "a number",
    "of an inference mode",
    "overlapping",
)
KEEP_THEIR_TYPE = "functional", "of a subclass", "of a wrapper", "meta"
SOMETIMES_SIMPLE = (
    "lazily cloned",
    "overlapping",
    "backwards",
    "of one dimension more",
    "of an inference mode",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ODD)
def test_an_odd_tensor_has_the_outcome_of_the_careful_way(carefully, kind):
    for place in range(3):
        given: list[Any] = [X.clone(), WEIGHT.clone(), BIAS.clone()]
        given[place] = ODD[kind](given[place])
        given[place - 1].requires_grad_(place != 1)
        call = given[0], (H,), *given[1:]
        found, expected = outcome(lambda call=call: both_passes(*call)), carefully(*call)
        if isinstance(found, list) and kind in KEEP_THEIR_TYPE:
            assert [type(t) for t in found] == [type(t) for t in expected]
        else:
            assert_same(found, expected)
        assert kind in SOMETIMES_SIMPLE or not is_simple(*call)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [kind for kind in ODD if kind not in NO_ARGUMENT])
def test_no_address_of_an_odd_tensor_reaches_the_kernel(kind):
    with pytest.raises(RuntimeError, match=r"expected torch\.float32 of shape"):
        cpp_kernel.address(ODD[kind](X.clone()), torch.float32, (3, H))


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
    leaves = [t.clone().requires_grad_() for t in (X, WEIGHT, BIAS)]
    one_way = walk(lambda: lnlib.layer_norm(X, (H,), WEIGHT, BIAS))
    assert len(one_way) <= 6
    assert len({*one_way}) <= 2
    for dy in (DY, DY[:1, :1].expand(3, H)):
        both = walk(
            lambda dy=dy: torch.autograd.grad(
                lnlib.layer_norm(leaves[0], (H,), *leaves[1:]), leaves, dy
            )
        )
        assert 8 <= len(both) <= 16  # autograd runs it all in this thread


# What autograd does with a simple call


def simple() -> tuple[Tensor, list[Tensor]]:
    leaves = [t.clone().requires_grad_() for t in (X, WEIGHT, BIAS)]
    return lnlib.layer_norm(leaves[0], (H,), *leaves[1:]), leaves


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
    y, leaves = simple()
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


class SendsNothingBack(torch.autograd.Function):
    """Passes its input on, and no gradient."""

    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        return y.clone()

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> None:
        return None


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_no_gradient_in_is_no_gradient_out(backend):
    weight = nn.Parameter(torch.ones(H))
    y = lnlib.layer_norm(X, (H,), weight, backend=backend)
    SendsNothingBack.apply(y).sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is None  # of zeros, weight decay would make a step


@pytest.mark.tier("all")
def test_where_memory_ends_the_backward_pass_raises() -> None:
    code = """if True:
        import resource, torch, lnlib
        x, w = torch.randn(4096, 16384, requires_grad=True), torch.ones(16384, requires_grad=True)
        g = torch.ones_like(x)
        lnlib.layer_norm(x, (16384,), w).backward(g)
        x.grad = w.grad = None
        y = lnlib.layer_norm(x, (16384,), w)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + x.nbytes + 2**22,) * 2)  # dx, but no sums
        try:
            y.backward(g)
        except RuntimeError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, "not enough memory" in done.stdout) == (0, True), done.stderr


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
@pytest.mark.parametrize("loss", ["random", "sum"])
@pytest.mark.parametrize(("shape", "x"), [((H,), X), ((H,), X.view(3, 1, H)), ((3, H), X)])
def test_a_simple_call_on_a_gpu_has_the_bits_of_the_careful_way(
    on_gpu, monkeypatch, dtype, shape, x, loss
):
    def passes(backend: str) -> list[Tensor]:
        weight, bias = (rand(*shape, seed=seed, dtype=dtype).requires_grad_() for seed in (1, 2))
        leaf = x.to(dtype, copy=True).requires_grad_()
        y = lnlib.layer_norm(leaf, shape, weight, bias, backend=backend)
        (y.sum() if loss == "sum" else (y * y.detach().sin()).sum()).backward()
        y.add_(1)  # as one may: it is no view
        return [y.detach(), leaf.grad, weight.grad, bias.grad]

    found = passes("auto")
    assert on_gpu == ["_simple_call_on_gpu", "_of_simple"]
    for module in (functional, autograd):
        monkeypatch.setattr(module, "place_of_simple", lambda *_: None)
    for mine, careful in zip(found, passes("triton"), strict=True):
        assert mine.dtype == dtype
        assert torch.equal(mine, careful)


@pytest.mark.parametrize("needed", ["x", "weight", "bias"])
def test_on_a_gpu_the_gradients_that_are_asked_for_are_right(on_gpu, needed):
    given = dict(zip(("x", "weight", "bias", "dy"), (X, WEIGHT, BIAS, DY), strict=True))
    given = {name: t.double().requires_grad_(name == needed) for name, t in given.items()}
    y = lnlib.layer_norm(given["x"], (H,), given["weight"], given["bias"])
    found = {needed: torch.autograd.grad(y, given[needed], given["dy"])[0]}
    assert_right(found, {needed: truth(**given)[needed]}, 1e-13)


@pytest.mark.parametrize(
    "what",
    {
        "a mix of dtypes": lambda x, w, b: (x.half(), w, b),
        "another size": lambda x, w, b: (x, w[:3], b),
        "rows apart": lambda x, w, b: (x.t().contiguous().t(), w, b),
        "no float": lambda x, w, b: (x.int(), None, None),
    }.items(),
    ids=lambda item: item[0],
)
def test_on_a_gpu_too_no_other_call_is_simple(on_gpu, what):
    x, weight, bias = what[1](X, WEIGHT, BIAS)
    assert functional.simple_call(x, (H,), weight, bias, 1e-5, "auto") is None


def test_the_backend_is_the_one_that_is_asked_for(on_gpu, monkeypatch):
    assert functional.simple_call(X, (H,), WEIGHT, BIAS, 1e-5, "cpp") is None
    monkeypatch.undo()
    assert functional.simple_call(X, (H,), WEIGHT, BIAS, 1e-5, "triton") is None
