"""The kernels as operators: what PyTorch's compiler may rely on, checked by its own `opcheck`."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from compiled import NEEDS_CPP
from norms import (
    CPP,
    PRESENT,
    TRITON,
    WANTED,
    Norm,
    assert_right,
    both_passes,
    by,
    case,
    chosen,
    rand,
    scripting,
    truth,
)
from random_calls import agree, true
from tiers import few
from torch import Tensor
from torch._dynamo.utils import counters
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.autograd.graph import saved_tensors_hooks
from torch.library import opcheck

import lnlib
from lnlib import in_graph

forward, backward = torch.ops.lnlib.layer_norm_rows, torch.ops.lnlib.layer_norm_rows_backward
B, H, EPS = 3, 7, 1e-5
pytestmark = scripting


class Kernel(NamedTuple):
    """What runs in the operator, for numbers of one dtype, and how far it may be from the truth."""

    backend: str
    dtype: torch.dtype
    room: float

    def rand(self, *shape: int, seed: int = 0) -> Tensor:
        return rand(*shape, seed=seed, dtype=self.dtype)

    def leaves(self, B: int = B, H: int = H) -> list[Tensor]:
        values = 3 + self.rand(B, H), self.rand(H, seed=1), self.rand(H, seed=2)
        return [value.requires_grad_() for value in values]

    def rows(self, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        return forward(x, weight, bias, EPS, self.backend)[0]

    def door(self, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        return lnlib.layer_norm(x, x.shape[-1:], weight, bias, EPS, backend=self.backend)

    def compiled(self, compiler: str = "aot_eager", dynamic: bool | None = None) -> Norm:
        torch._dynamo.reset()
        return torch.compile(by(self.backend), backend=compiler, fullgraph=True, dynamic=dynamic)

    def assert_close(self, found: Tensor, expected: Tensor) -> None:
        assert agree([found.double()], [expected.double()], self.room)


KERNELS = {
    "cpp": Kernel("cpp", torch.float32, 4e-6),
    "triton": Kernel("triton", torch.float64, 1e-11),
}


@pytest.fixture(params=[CPP, TRITON])
def kernel(request):
    return KERNELS[request.param]


# The operators


LAYOUTS: dict[str, Callable[[Kernel], Tensor]] = {
    "dense": lambda kernel: kernel.rand(B, H),
    "strided": lambda kernel: kernel.rand(5, 14)[:, ::2],
    "transposed": lambda kernel: kernel.rand(H, 5).T,
    "no rows": lambda kernel: kernel.rand(0, H),
    "one row": lambda kernel: kernel.rand(1, H),
}
CASES = [*itertools.product(LAYOUTS, PRESENT[1:2], WANTED[:1])]
CASES += [each for each in itertools.product(["dense"], PRESENT, WANTED[:-1]) if each not in CASES]


@few("layout, present, wanted", CASES, [*CASES[:5], *CASES[8::6]])
def test_the_operators_keep_the_rules_of_operators(kernel, layout, present, wanted):
    values = LAYOUTS[layout](kernel), kernel.rand(H, seed=1), kernel.rand(H, seed=2)
    x, weight, bias = chosen(values, present, wanted)
    opcheck(forward.default, (x, weight, bias, EPS, kernel.backend))
    given = [t if t is None else t.detach() for t in (kernel.rand(*x.shape, seed=3), x, weight)]
    statistics = forward(*given[1:], None, EPS, kernel.backend)[1]
    opcheck(backward.default, (*given, statistics, wanted, kernel.backend))


@pytest.mark.parametrize("run", ["rows", "door"])
def test_both_orders_of_the_gradient_are_right(kernel, run):
    kernel = kernel._replace(dtype=torch.float64)  # which differences need
    inputs = kernel.leaves(2, 5)  # each number of which is moved, there and back
    assert gradcheck(getattr(kernel, run), inputs)
    assert gradgradcheck(getattr(kernel, run), inputs)


def test_the_statistics_are_no_way_around_the_gradient(kernel):
    y, statistics = forward(*kernel.leaves(), EPS, kernel.backend)
    assert y.requires_grad
    assert not statistics.requires_grad


def test_the_gradient_of_bias_alone_keeps_no_x(kernel):
    x, weight, bias = kernel.leaves()
    kept: list[Tensor] = []
    with saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = kernel.rows(x.detach(), weight.detach(), bias)
    assert not any(t.shape == (B, H) for t in kept)
    with torch.no_grad():
        bias.add_(1)  # is not read again
    dy = kernel.rand(B, H, seed=3).requires_grad_()
    (dbias,) = torch.autograd.grad(y, bias, dy, create_graph=True)
    kernel.assert_close(dbias, dy.sum(0))
    (ddy,) = torch.autograd.grad(dbias.square().sum(), dy)
    kernel.assert_close(ddy, 2 * dy.sum(0).expand_as(dy))


def test_the_backward_operator_is_not_differentiated_in_silence(kernel):
    x, weight, _ = kernel.leaves()
    statistics = forward(x, weight, None, EPS, kernel.backend)[1]
    dx, *_ = backward(x, x, weight, statistics, [True] * 3, kernel.backend)
    with pytest.raises(NotImplementedError, match="create_graph=True"):
        dx.sum().backward()


def test_the_backward_operator_refuses_what_it_would_read_beyond(kernel):
    x, weight, _ = (t.detach() for t in kernel.leaves())
    dy, statistics = kernel.rand(B, H, seed=3), forward(x, weight, None, EPS, kernel.backend)[1]
    options = [True, True, False], kernel.backend
    strided = torch.stack([statistics, statistics], -1)[..., 0]
    expected = backward(dy, x, weight, statistics, *options)
    assert all(map(torch.equal, backward(dy, x, weight, strided, *options), expected))
    for given in (
        (dy, x, weight, statistics.half()),
        (dy, x, weight, statistics[:, :1]),
        (dy, x[:1], weight, statistics),
        (dy, x, weight[:1], statistics),
    ):
        with pytest.raises(RuntimeError, match="takes rows"):
            backward(*given, *options)


# Graphs


@pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
def test_one_graph_serves_every_number_of_rows_from_2_on(kernel, compiler):
    counters.clear()
    run = kernel.compiled(compiler, dynamic=True)
    for rows in (2, 3, 5, 16, 33):
        given = case(rows, H, mean=3.0, dtype=kernel.dtype)
        assert_right(both_passes(run, *given), truth(*given), kernel.room)
    assert counters["stats"]["unique_graphs"] == 1


def test_leading_dimensions_and_parameters_of_several_dimensions_in_any_layout_compile(kernel):
    run = kernel.compiled()
    x, dy = (kernel.rand(2, 4, 3, 5, seed=seed) for seed in (0, 3))
    weight, bias = (kernel.rand(3, 10, seed=seed)[:, ::2] for seed in (1, 2))
    assert_right(both_passes(run, x, weight, bias, dy), truth(x, weight, bias, dy), kernel.room)
    assert run(x[:0], (3, 5), weight).shape == (0, 4, 3, 5)


def test_no_features_have_gradients_without_numbers(kernel):
    given = [t.detach() for t in kernel.leaves(5, 0)]
    found = both_passes(kernel.compiled(), *given, given[0])
    assert [t.shape for t in found.values()] == [(5, 0), (5, 0), (0,), (0,)]


@pytest.mark.parametrize(
    ("present", "wanted"),
    [
        ((1, 1), (1, 0, 0)),
        ((1, 1), (0, 1, 0)),
        ((1, 1), (0, 0, 1)),
        ((0, 1), (1, 0, 1)),
        ((0, 0), (1, 0, 0)),
    ],
)
def test_a_graph_has_the_gradients_that_are_asked_for(kernel, present, wanted):
    x, weight, bias = kernel.leaves()
    values = x.repeat_interleave(2, -1)[:, ::2], weight, bias
    inputs = chosen(values, present, wanted)
    asked = [t for t in inputs if t is not None and t.requires_grad]
    found, dy = [], kernel.rand(H, B, seed=3).T
    for norm in (kernel.compiled(), true):
        y = norm(inputs[0], (H,), *inputs[1:], EPS)
        found.append([y.detach(), *torch.autograd.grad(y, asked, dy)])
    assert agree(*found, kernel.room)


def operators_of_graphs(run: Callable[..., Tensor], *calls: Tensor, **how: Any) -> list[bool]:
    """Return of each graph that is compiled for the calls whether it holds the operator."""
    graphs = []

    def keep(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        graphs.append("lnlib.layer_norm" in graph.code)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(run, backend=keep, fullgraph=True, **how)
    for x in calls:
        torch.testing.assert_close(compiled(x), run(x), rtol=0, atol=2e-6)
    return graphs


@NEEDS_CPP
@pytest.mark.parametrize("dynamic", [None, True, False])
def test_from_131072_values_on_auto_is_the_operator_of_cpp(dynamic):
    assert in_graph.WORTH_AN_OPERATOR == 131_072
    few, *enough = (KERNELS["cpp"].rand(rows, 128) for rows in (1023, 1024, 2048))
    by_auto = KERNELS["cpp"]._replace(backend="auto").door
    found = operators_of_graphs(by_auto, few, *enough, dynamic=dynamic)
    assert found == ([False, True, True] if dynamic is False else [False, True])
    assert operators_of_graphs(KERNELS["cpp"].door, few, dynamic=dynamic) == [True]


@NEEDS_CPP
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_of_a_size_that_nobody_knows_auto_is_the_operator():
    by_auto = KERNELS["cpp"]._replace(backend="auto").door
    x = KERNELS["cpp"].rand(9, 7)
    positive = lambda x: by_auto(x[x[:, 0] > 0])  # noqa: E731
    assert operators_of_graphs(positive, x, dynamic=True) == [True]
    assert operators_of_graphs(positive, x) == [False]  # at most the nine rows of x


# Forward mode


@pytest.mark.parametrize("first", ["plain", "dual"])
def test_a_compiled_call_keeps_the_tangent_of_a_dual_tensor_or_pytorch_refuses_it(kernel, first):
    x, direction = 3 + kernel.rand(B, H), kernel.rand(B, H, seed=1)
    run = kernel.compiled()
    if first == "plain":  # what was compiled without a tangent must not be taken for one with it
        kernel.assert_close(run(x, (H,)), true(x, (H,)))
    with forward_ad.dual_level():
        try:
            y = run(forward_ad.make_dual(x, direction), (H,))
        except torch._dynamo.exc.Unsupported as refusal:
            if "dual tensor" not in str(refusal):  # PyTorch 2.15 compiles none
                raise
            return
        tangent = forward_ad.unpack_dual(y).tangent
    kernel.assert_close(tangent, torch.func.jvp(lambda x: true(x, (H,)), (x,), (direction,))[1])


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(
    ("kernel", "how"),
    [("cpp", "operator"), ("triton", "operator"), ("triton", "trace"), ("triton", "export")],
    indirect=["kernel"],
)  # no program holds C++
def test_what_holds_the_operator_refuses_a_tangent_rather_than_lose_it(kernel, how):
    layer = lnlib.LayerNorm(H, dtype=kernel.dtype, backend=kernel.backend)
    layer.requires_grad_(False)
    x = 3 + kernel.rand(B, H)
    recorded = {
        "operator": lambda: kernel.rows,
        "trace": lambda: torch.jit.trace(layer, x),
        "export": lambda: torch.export.export(layer, (x,)).module(),
    }[how]()
    kernel.assert_close(recorded(x), true(x, (H,)))
    with pytest.raises(RuntimeError, match=r'no forward mode.*backend="reference"'):
        torch.func.jvp(recorded, (x,), (x,))
