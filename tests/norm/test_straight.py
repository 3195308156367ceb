"""The straight way to the kernel: taken by simple calls alone, with the bits of the careful way."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_modes import Labeled, Watch
from tiers import few
from torch import Tensor, nn
from torch._dynamo.compiled_autograd import _enable
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.autograd.graph import save_on_cpu
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

import lnlib
from lnlib import autograd, cpp_kernel, formula, functional, modes, refusals

H = 7
DTYPES = refusals.FLOAT_DTYPES
HALF = torch.float16, torch.bfloat16
Outcome = list[Tensor] | type[Exception]


@pytest.fixture(autouse=True)
def loaded():
    """Load the kernels: the first call for a dtype is not simple."""
    if cpp_kernel.why_not(torch.float32, "cpu") is not None:
        pytest.skip("installed without the kernel")
    for dtype in DTYPES:
        cpp_kernel.kernel(dtype)


def rand(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


X, WEIGHT, BIAS, DY = rand(3, H), rand(H, seed=1), rand(H, seed=2), rand(3, H, seed=3)


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


def carefully(monkeypatch: pytest.MonkeyPatch, run: Callable[[], list[Tensor]]) -> Outcome:
    """Return the outcome without the shortest way."""
    with monkeypatch.context() as patch:
        patch.setattr(functional, "simple_call", lambda *_: None)
        return outcome(run)


# Simple calls


def leaf(tensor: Tensor | None, wants: bool) -> Tensor | None:
    return None if tensor is None else tensor.detach().clone().requires_grad_(wants)


@few("dtype", DTYPES, [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("shape", "normalized"), [((3, 7), (7,)), ((2, 3, 5), (3, 5)), ((5,), (5,))]
)
@few("present", [(1, 1), (1, 0), (0, 1), (0, 0)], 2)
def test_a_simple_call_has_the_bits_of_the_careful_way(
    monkeypatch, dtype, shape, normalized, present
):
    for of_parameters in {dtype, torch.float32 if dtype in HALF else dtype}:
        weight, bias = (
            rand(*normalized, seed=seed, dtype=of_parameters) if there else None
            for seed, there in zip((1, 2), present, strict=True)
        )
        for wants in range(8):
            given = [
                leaf(t, bool(wants & bit))
                for t, bit in ((rand(*shape, dtype=dtype), 1), (weight, 2), (bias, 4))
            ]
            arguments = given[0], normalized, *given[1:]
            assert functional.simple_call(*arguments, 1e-5) is not None
            run = lambda arguments=arguments: both_passes(*arguments)  # noqa: E731
            assert_same(outcome(run), carefully(monkeypatch, run))


@pytest.mark.parametrize("shape", [(H,), [H], torch.Size([H])])
@pytest.mark.parametrize("x", [X, nn.Parameter(X), X[1:], X[:1].as_strided((1, H), (1, 1))])
def test_these_are_simple(monkeypatch, shape, x):
    assert functional.simple_call(x, shape, WEIGHT, nn.Parameter(BIAS), 1e-5) is not None
    run = lambda: both_passes(x, shape, WEIGHT, nn.Parameter(BIAS))  # noqa: E731
    assert_same(outcome(run), carefully(monkeypatch, run))


# Calls that are not


def without_memory(left: int) -> Callable[[Tensor], Tensor]:
    def freed(tensor: Tensor) -> Tensor:
        tensor = tensor.detach().clone()
        tensor.untyped_storage().resize_(left)
        return tensor

    return freed


ODD: dict[str, Callable[[Tensor], Any]] = {
    "of a subclass": lambda t: t.as_subclass(Labeled),
    "functional": torch._to_functional_tensor,
    "zeros that are nowhere": lambda t: torch._efficientzerotensor(*t.shape),
    "with the other sign": lambda t: torch._neg_view(-t),
    "complex, conjugated": lambda t: torch.complex(t, t).conj(),
    "the imaginary part of a conjugated one": lambda t: torch.complex(t, -t).conj().imag,
    "every other": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "expanded": lambda t: t[..., :1].expand(t.shape),
    "overlapping": lambda t: torch.arange(20.0).as_strided(t.shape, (1,) * t.ndim),
    "backwards": lambda t: t.flip(0).T.contiguous().T,
    "freed": without_memory(0),
    "cut off": without_memory(8),
    "cut off behind an offset": lambda t: torch.cat([t, t])[len(t) :].detach(),
    "sparse": Tensor.to_sparse,
    "quantized": lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.qint8),
    "meta": lambda t: t.to("meta"),
    "of another dtype": Tensor.double,
    "of ints": Tensor.int,
    "of another shape": lambda t: t[..., 1:],
    "of one dimension more": lambda t: t[None],
    "one number": lambda t: t.flatten()[0],
    "no tensor": Tensor.tolist,
    "an array": Tensor.numpy,
    "a number": lambda t: 1.0,
    "nested": lambda t: torch.nested.nested_tensor([t, t]),
    "empty": lambda t: t[:0],
    "of an inference mode": lambda t: torch.inference_mode()(Tensor.clone)(t),
}
NO_ARGUMENT = "nested", "no tensor", "an array", "a number", "of an inference mode", "overlapping"
SOMETIMES_SIMPLE = "overlapping", "backwards", "of one dimension more", "of an inference mode"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("place", range(3))
def test_an_odd_tensor_has_the_outcome_of_the_careful_way(monkeypatch, kind, place):
    given: list[Any] = [X.clone(), WEIGHT.clone(), BIAS.clone()]
    given[place] = ODD[kind](given[place])
    if kind == "cut off behind an offset":
        given[place].untyped_storage().resize_(given[place].nbytes)
    given[place - 1].requires_grad_(place != 1)
    arguments = given[0], (H,), *given[1:]
    run = lambda: both_passes(*arguments)  # noqa: E731
    found, expected = outcome(run), carefully(monkeypatch, run)
    if isinstance(found, list) and kind in ("functional", "of a subclass", "meta"):
        assert not isinstance(expected, type)
        assert [type(t) for t in found] == [type(t) for t in expected]
    else:
        assert_same(found, expected)
    if kind not in SOMETIMES_SIMPLE:
        assert functional.simple_call(*arguments, 1e-5) is None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [kind for kind in ODD if kind not in NO_ARGUMENT])
def test_no_address_of_an_odd_tensor_reaches_the_kernel(kind):
    odd = ODD[kind](X.clone())
    if kind == "cut off behind an offset":
        odd.untyped_storage().resize_(odd.nbytes)
    with pytest.raises(RuntimeError, match=r"expected torch\.float32 of shape"):
        cpp_kernel.address(odd, torch.float32, (3, H))


@pytest.mark.parametrize(
    ("shape", "eps"),
    [
        ((True,), 1e-5),
        ((1.0,), 1e-5),
        (((1,),), 1e-5),
        ((), 1e-5),
        ((-1,), 1e-5),
        ((0,), 1e-5),
        ((2,), 1e-5),
        (1, 1e-5),
        ("1", 1e-5),
        ({1}, 1e-5),
        (None, 1e-5),
        ((torch.tensor(1),), 1e-5),
        ((1,), 1),
        ((1,), "1e-5"),
        ((1,), None),
        ((1,), torch.tensor(1e-5)),
    ],
)
@pytest.mark.parametrize("x", [rand(1, 1), rand(1)[0], rand(3, 1)], ids=["(1, 1)", "()", "(3, 1)"])
def test_odd_sizes_and_an_odd_eps_too(monkeypatch, shape, eps, x):
    assert functional.simple_call(x, shape, None, None, eps) is None
    run = lambda: both_passes(x, shape, None, None, eps)  # noqa: E731
    assert_same(outcome(run), carefully(monkeypatch, run))


class Counts(TorchFunctionMode):
    """Sees every function."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


WATCHERS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "a dispatch mode": Watch,
    "a fake mode": lambda: FakeTensorMode(allow_non_fake_inputs=True),
    "a function mode": Counts,
    "a default device": lambda: torch.device("meta"),
    "forward mode": forward_ad.dual_level,
}


@pytest.mark.parametrize("watcher", WATCHERS)
def test_where_something_looks_on_no_call_is_simple(monkeypatch, watcher):
    given = X.clone().requires_grad_(), (H,), WEIGHT, BIAS
    with WATCHERS[watcher]():
        assert functional.simple_call(*given, 1e-5) is None
        y = lnlib.layer_norm(*given)
    if watcher != "a fake mode":
        assert_same(
            [y.detach()], carefully(monkeypatch, lambda: [lnlib.layer_norm(*given).detach()])
        )
    y = lnlib.layer_norm(*given)
    expected = torch.autograd.grad(y, given[0], DY, retain_graph=True)
    if watcher != "a fake mode":
        with WATCHERS[watcher]():
            found = torch.autograd.grad(y, given[0], DY)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


NEIGHBORS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "nothing": nullcontext,
    "a profiler": lambda: profile(activities=[ProfilerActivity.CPU]),
    "an offload": save_on_cpu,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "anomaly mode": torch.autograd.detect_anomaly,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("neighbor", NEIGHBORS)
def test_what_does_not_take_calls_over_changes_no_bit(monkeypatch, neighbor):
    run = lambda: both_passes(X.clone().requires_grad_(), (H,), WEIGHT, BIAS)  # noqa: E731
    expected = carefully(monkeypatch, run)
    with NEIGHBORS[neighbor]():
        assert functional.simple_call(X, (H,), WEIGHT, BIAS, 1e-5) is not None
        assert_same(outcome(run), expected)


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


def simple(*, of: int = 3) -> tuple[Tensor, list[Tensor]]:
    leaves = [t.clone().requires_grad_() for t in (X, WEIGHT, BIAS)]
    return lnlib.layer_norm(leaves[0], (H,), *leaves[1:]), leaves[:of]


def test_without_gradients_there_is_no_function():
    leaves = [t.clone().requires_grad_() for t in (X, WEIGHT, BIAS)]
    with torch.no_grad():
        y = lnlib.layer_norm(leaves[0], (H,), *leaves[1:])
    assert (y.grad_fn, y.requires_grad, y._is_view()) == (None, False, False)
    with torch.inference_mode():
        assert lnlib.layer_norm(leaves[0], (H,), *leaves[1:]).is_inference()


def test_memory_that_goes_between_the_passes_is_missed():
    for place in (0, 1):
        y, leaves = simple()
        leaves[place].untyped_storage().resize_(0)
        with pytest.raises(RuntimeError, match="freed"):
            torch.autograd.grad(y, leaves, DY)


@pytest.mark.parametrize("odd", ["expanded", "of a subclass", "with the other sign", "every other"])
def test_an_odd_gradient_of_y_is_read_as_it_is(odd):
    y, leaves = simple()
    dy = ODD[odd](DY)
    found = torch.autograd.grad(y, leaves, dy, retain_graph=True)
    expected = torch.autograd.grad(
        y, leaves, dy.as_subclass(Tensor).clone(memory_format=functional.DENSE)
    )
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.as_subclass(Tensor), other)


@pytest.mark.parametrize("loss", [Tensor.sum, Tensor.mean, lambda y: y.mean(0).sum()])
def test_the_gradient_of_a_sum_goes_no_long_way(loss, monkeypatch):
    y, leaves = simple()
    expected = torch.autograd.grad(loss(y), leaves, retain_graph=True)
    monkeypatch.setattr(autograd.LayerNormFunction, "from_saved", None)
    for one, other in zip(torch.autograd.grad(loss(y), leaves), expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("backend", ["auto", "reference", "carefully"])
def test_a_profiler_shows_both_passes_under_one_name(backend, monkeypatch):
    if backend == "carefully":
        monkeypatch.setattr(functional, "simple_call", lambda *_: None)
        backend = "cpp"
    x = X.detach().requires_grad_()
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        with torch.no_grad():
            lnlib.layer_norm(x, (H,), WEIGHT, BIAS, backend=backend)
        y = lnlib.layer_norm(x, (H,), WEIGHT, BIAS, backend=backend)
        y.sum().backward()
    names = [event.name for event in recorded.events()]
    assert names.count("lnlib::layer_norm") == 2
    assert names.count("lnlib::layer_norm_backward") == 1
    assert "LayerNormFunctionBackward" in names
    assert y.grad_fn.name() == "LayerNormFunctionBackward"


def test_it_can_be_differentiated_again():
    y, leaves = simple()
    grads = torch.autograd.grad(y, leaves, DY, create_graph=True)
    (found,) = torch.autograd.grad(grads[0].square().sum(), leaves[0])
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    y = lnlib.layer_norm(exact[0], (H,), *exact[1:], backend="reference")
    grads = torch.autograd.grad(y, exact, DY.double(), create_graph=True)
    (expected,) = torch.autograd.grad(grads[0].square().sum(), exact[0])
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_its_backward_pass_can_be_mapped():
    y, leaves = simple()
    many = torch.stack([DY, 2 * DY, DY.flip(0)])
    found = torch.autograd.grad(y, leaves, many, is_grads_batched=True, retain_graph=True)
    for number, dy in enumerate(many):
        expected = torch.autograd.grad(y, leaves, dy, retain_graph=True)
        for each, other in zip(found, expected, strict=True):
            torch.testing.assert_close(each[number], other, rtol=1e-5, atol=1e-6)


def test_threads_at_once_have_the_bits_of_one():
    def run() -> list[Tensor]:
        y, leaves = simple()
        return [y.detach(), *torch.autograd.grad(y, leaves, DY)]

    expected = run()
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(lambda _: run(), range(200)):
            assert all(map(torch.equal, found, expected))


def test_compiled_autograd_records_it():
    y, leaves = simple()
    expected = torch.autograd.grad(y, leaves, DY, retain_graph=True)
    with _enable(torch.compile(backend="eager")):
        y.backward(DY)
    assert all(map(torch.equal, (leaf.grad for leaf in leaves), expected))


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_checkpoint_recomputes_it_once(use_reentrant):
    x, calls = X.clone().requires_grad_(), []

    def run(x: Tensor) -> Tensor:
        calls.append(1)
        return lnlib.layer_norm(x, (H,), WEIGHT, BIAS)

    for dy in (DY, DY[:1].expand(3, H)):  # simple, and not
        calls.clear()
        checkpoint(run, x, use_reentrant=use_reentrant).backward(dy)
        assert len(calls) == 2


def test_a_parameter_that_has_moved_is_not_simple():
    weight = nn.Parameter(WEIGHT.clone())
    assert functional.simple_call(X, (H,), weight, None, 1e-5) is not None
    weight.data = weight.data.double()
    assert functional.simple_call(X, (H,), weight, None, 1e-5) is None
    weight.data = weight.data.float().repeat_interleave(2)[::2]
    assert functional.simple_call(X, (H,), weight, None, 1e-5) is None


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("place", range(3))
def test_a_tensor_of_inference_is_refused_though_no_gradient_needs_it(backend, place):
    given = [X.clone(), WEIGHT.clone(), BIAS.clone()]
    given[place - 1].requires_grad_()
    given[place] = torch.inference_mode()(Tensor.clone)(given[place])
    for norm in (F.layer_norm, functools.partial(lnlib.layer_norm, backend=backend)):
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
def test_no_gradient_in_is_no_gradient_out(backend: str) -> None:
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
    monkeypatch.setattr(functional, "CPU", torch.device("meta"))
    monkeypatch.setattr(functional, "is_simple", lambda *_: False)
    monkeypatch.setattr(functional, "is_simple_on_gpu", modes.is_simple)
    monkeypatch.setattr(functional.triton_kernel, "runs_on_gpu", lambda: True)
    for name in ("_simple_call_on_gpu", "_gradients_on_gpu"):
        run = getattr(functional, name)
        monkeypatch.setattr(
            functional,
            name,
            lambda *given, run=run, name=name: (taken.append(name), run(*given))[1],
        )
    return taken


@few("dtype", DTYPES, 2)
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
    assert on_gpu == ["_simple_call_on_gpu", "_gradients_on_gpu"]
    monkeypatch.setattr(functional, "is_simple_on_gpu", lambda *_: False)
    for mine, careful in zip(found, passes("triton"), strict=True):
        assert mine.dtype == dtype
        assert torch.equal(mine, careful)


@pytest.mark.parametrize(
    "needs", [(True, False, False), (False, True, False), (False, False, True)]
)
def test_on_a_gpu_the_gradients_that_are_asked_for_are_right(on_gpu, needs):
    leaves = [
        t.double().requires_grad_(need) for t, need in zip((X, WEIGHT, BIAS), needs, strict=True)
    ]
    y = lnlib.layer_norm(leaves[0], (H,), *leaves[1:])
    twin = formula.layer_norm(*leaves, eps=1e-5)
    asked = [t for t in leaves if t.requires_grad]
    found, truths = (torch.autograd.grad(out, asked, DY.double()) for out in (y, twin))
    for mine, truth in zip(found, truths, strict=True):
        torch.testing.assert_close(mine, truth, rtol=0, atol=1e-13)


def test_a_second_derivative_on_a_gpu_goes_the_careful_way(on_gpu):
    leaves = [t.double().requires_grad_() for t in (X, WEIGHT, BIAS)]
    assert torch.autograd.gradgradcheck(lambda *t: lnlib.layer_norm(t[0], (H,), *t[1:]), leaves)
    assert "_gradients_on_gpu" not in on_gpu


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
