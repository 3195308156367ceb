"""The kernels as operators: what PyTorch's compiler may rely on, checked by its own `opcheck`."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from compiled import NEEDS_CPP
from norms import CPP, TRITON, assert_right, both_passes, rand, scripting, truth
from tiers import few
from torch import Tensor
from torch._dynamo.utils import counters
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.autograd.graph import saved_tensors_hooks
from torch.library import opcheck

import lnlib
from lnlib import formula, in_graph

forward, backward = torch.ops.lnlib.layer_norm_rows, torch.ops.lnlib.layer_norm_rows_backward
B, H, EPS = 3, 7, 0.1

pytestmark = scripting


class Kernel(NamedTuple):
    """What runs in the operator, for numbers of one dtype, and how far it may be from the truth."""

    backend: str
    dtype: torch.dtype
    atol: float

    def rand(self, *shape: int, seed: int = 0) -> Tensor:
        return rand(*shape, seed=seed, dtype=self.dtype)

    def leaves(self, B: int = B, H: int = H) -> list[Tensor]:
        values = 3 + self.rand(B, H), self.rand(H, seed=1), self.rand(H, seed=2)
        return [value.requires_grad_() for value in values]

    def rows(self, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        return forward(x, weight, bias, EPS, self.backend)[0]

    def door(self, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        return lnlib.layer_norm(x, (x.shape[-1],), weight, bias, EPS, backend=self.backend)

    def assert_close(self, actual: Tensor, expected: Tensor) -> None:
        torch.testing.assert_close(actual.double(), expected.double(), rtol=0, atol=self.atol)


KERNELS = {
    "cpp": Kernel("cpp", torch.float32, 2e-6),
    "triton": Kernel("triton", torch.float64, 1e-12),
}


@pytest.fixture(params=[CPP, TRITON])
def kernel(request):
    return KERNELS[request.param]


def true(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    x, weight, bias = (None if t is None else t.double() for t in (x, weight, bias))
    return formula.layer_norm(x, weight, bias, normalized_shape=x.shape[-1:], eps=EPS)


@few("given", list(itertools.product((True, False), repeat=2)), 2)
@few("wanted", list(itertools.product((True, False), repeat=3)), 3)
def test_the_forward_operator_keeps_the_rules_of_operators(kernel, given, wanted):
    x, weight, bias = (
        t.detach().requires_grad_(w) for t, w in zip(kernel.leaves(), wanted, strict=True)
    )
    parameters = weight if given[0] else None, bias if given[1] else None
    opcheck(forward.default, (x, *parameters, EPS, kernel.backend))


@pytest.mark.parametrize("kind", ["strided", "transposed", "no rows", "one row"])
def test_it_keeps_them_for_strides_and_for_no_rows(kernel, kind):
    x = {
        "strided": kernel.rand(5, 14)[:, ::2],
        "transposed": kernel.rand(7, 5).T,
        "no rows": kernel.rand(0, 7),
        "one row": kernel.rand(1, 7),
    }[kind].requires_grad_()
    weight = kernel.rand(x.shape[1], seed=1)
    opcheck(forward.default, (x, weight, None, EPS, kernel.backend))


@few("needs", list(itertools.product((True, False), repeat=3))[:-1], 3)
def test_the_backward_operator_keeps_them_too(kernel, needs):
    x, weight, bias = (t.detach() for t in kernel.leaves())
    dy = kernel.rand(B, H, seed=3)
    statistics = forward(x, weight, bias, EPS, kernel.backend)[1]
    opcheck(backward.default, (dy, x, weight, statistics, needs, kernel.backend))


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


@pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
def test_one_graph_serves_every_number_of_rows_from_2_on(kernel, compiler):
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(kernel.door, backend=compiler, fullgraph=True, dynamic=True)
    for rows in (2, 3, 5, 16, 33):
        x, weight, bias = kernel.leaves(rows)
        dy = kernel.rand(rows, H, seed=3)
        y = compiled(x, weight, bias)
        actual = y, *torch.autograd.grad(y, (x, weight, bias), dy)
        y = true(x, weight, bias)
        expected = y, *torch.autograd.grad(y, (x, weight, bias), dy)
        for a, e in zip(actual, expected, strict=True):
            torch.testing.assert_close(a.double(), e.double(), rtol=0, atol=rows * kernel.atol)
    assert counters["stats"]["unique_graphs"] == 1


def test_leading_dimensions_and_parameters_of_several_dimensions_in_any_layout_compile(kernel):
    torch._dynamo.reset()
    run = partial(lnlib.layer_norm, backend=kernel.backend)
    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    x, dy = (kernel.rand(2, 4, 3, 5, seed=seed) for seed in (0, 3))
    weight, bias = (kernel.rand(3, 10, seed=seed)[:, ::2] for seed in (1, 2))
    assert_right(both_passes(compiled, x, weight, bias, dy), truth(x, weight, bias, dy), 1e-6)
    assert compiled(x[:0], (3, 5), weight).shape == (0, 4, 3, 5)


def test_no_features_have_gradients_without_numbers(kernel):
    torch._dynamo.reset()
    compiled = torch.compile(kernel.door, backend="aot_eager", fullgraph=True)
    inputs = kernel.leaves(5, 0)
    y = compiled(*inputs)
    grads = torch.autograd.grad(y, inputs, torch.empty_like(y))
    assert [t.shape for t in (y, *grads)] == [(5, 0), (5, 0), (0,), (0,)]


def test_a_graph_has_the_gradients_that_are_asked_for(kernel):
    x, weight, bias = kernel.leaves()
    x = torch.stack([x, x], -1)[..., 0]  # not contiguous
    dy = kernel.rand(H, B, seed=3).T
    for given, wanted in (
        ((x, weight, bias), (True, False, False)),
        ((x, weight, bias), (False, True, False)),
        ((x, weight, bias), (False, False, True)),
        ((x, None, bias), (True, False, True)),
        ((x, None, None), (True, False, False)),
    ):
        torch._dynamo.reset()
        results = []
        for run in (torch.compile(kernel.door, backend="aot_eager", fullgraph=True), true):
            inputs = [
                t if t is None else t.detach().requires_grad_(w)
                for t, w in zip(given, wanted, strict=True)
            ]
            asked = [t for t in inputs if t is not None and t.requires_grad]
            y = run(*inputs)
            results.append([y, *torch.autograd.grad(y, asked, dy.to(y.dtype))])
        for actual, expected in zip(*results, strict=True):
            kernel.assert_close(actual, expected)


def operators_of_graphs(run: Callable[..., Tensor], *calls: list[Tensor], **how: Any) -> list[bool]:
    """Return of each graph that is compiled for the calls whether it holds the operator."""
    graphs = []

    def keep(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        graphs.append("lnlib.layer_norm" in graph.code)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(run, backend=keep, fullgraph=True, **how)
    for call in calls:
        torch.testing.assert_close(compiled(*call), run(*call), rtol=0, atol=2e-6)
    return graphs


@NEEDS_CPP
@pytest.mark.parametrize("dynamic", [None, True, False])
def test_from_131072_values_on_auto_is_the_operator_of_cpp(dynamic):
    assert in_graph.WORTH_AN_OPERATOR == 131_072
    few, enough, more = (KERNELS["cpp"].rand(rows, 128) for rows in (1023, 1024, 2048))
    by_auto = KERNELS["cpp"]._replace(backend="auto").door
    found = operators_of_graphs(by_auto, [few], [enough], [more], dynamic=dynamic)
    assert found == ([False, True, True] if dynamic is False else [False, True])
    assert operators_of_graphs(KERNELS["cpp"].door, [few], dynamic=dynamic) == [True]


@NEEDS_CPP
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_of_a_size_that_nobody_knows_auto_is_the_operator():
    by_auto = KERNELS["cpp"]._replace(backend="auto").door
    x = KERNELS["cpp"].rand(9, 7)
    positive = lambda x: by_auto(x[x[:, 0] > 0])  # noqa: E731
    assert operators_of_graphs(positive, [x], dynamic=True) == [True]
    assert operators_of_graphs(positive, [x]) == [False]  # at most the nine rows of x


@pytest.mark.parametrize("first", ["plain", "dual"])
def test_a_compiled_call_keeps_the_tangent_of_a_dual_tensor_or_pytorch_refuses_it(kernel, first):
    torch._dynamo.reset()
    x, direction = 3 + kernel.rand(B, H), kernel.rand(B, H, seed=1)
    compiled = torch.compile(kernel.door, backend="aot_eager", fullgraph=True)
    if first == "plain":  # what was compiled without a tangent must not be taken for one with it
        kernel.assert_close(compiled(x), true(x))
    with forward_ad.dual_level():
        try:
            y = compiled(forward_ad.make_dual(x, direction))
        except torch._dynamo.exc.Unsupported as refusal:
            if "dual tensor" not in str(refusal):  # PyTorch 2.15 compiles none
                raise
            return
        tangent = forward_ad.unpack_dual(y).tangent
    _, expected = torch.func.jvp(true, (x,), (direction,))
    kernel.assert_close(tangent, expected)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(
    ("kernel", "how"),
    [("cpp", "operator"), ("triton", "operator"), ("triton", "trace"), ("triton", "export")],
    indirect=["kernel"],
)  # no program holds C++
def test_what_holds_the_operator_refuses_a_tangent_rather_than_lose_it(kernel, how):
    layer = lnlib.LayerNorm(H, eps=EPS, dtype=kernel.dtype, backend=kernel.backend)
    layer.requires_grad_(False)
    x = 3 + kernel.rand(B, H)
    recorded = {
        "operator": lambda: kernel.rows,
        "trace": lambda: torch.jit.trace(layer, x),
        "export": lambda: torch.export.export(layer, (x,)).module(),
    }[how]()
    kernel.assert_close(recorded(x), true(x))
    with pytest.raises(RuntimeError, match=r'no forward mode.*backend="reference"'):
        torch.func.jvp(recorded, (x,), (x,))


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


def test_it_is_not_differentiated_in_silence(kernel):
    x, weight, _ = kernel.leaves()
    statistics = forward(x, weight, None, EPS, kernel.backend)[1]
    dx, *_ = backward(x, x, weight, statistics, [True] * 3, kernel.backend)
    with pytest.raises(NotImplementedError, match="create_graph=True"):
        dx.sum().backward()


@pytest.mark.parametrize(
    "change",
    [
        lambda dy, x, weight, statistics: (dy, x, weight, statistics.half()),
        lambda dy, x, weight, statistics: (dy, x, weight, statistics[:, :1]),
        lambda dy, x, weight, statistics: (dy, x[:1], weight, statistics),
        lambda dy, x, weight, statistics: (dy, x, weight[:1], statistics),
    ],
)
def test_the_backward_operator_refuses_what_it_would_read_beyond(kernel, change):
    x, weight, _ = (t.detach() for t in kernel.leaves())
    dy, statistics = kernel.rand(B, H, seed=3), forward(x, weight, None, EPS, kernel.backend)[1]
    options = [True, True, False], kernel.backend
    strided = torch.stack([statistics, statistics], -1)[..., 0]
    expected = backward(dy, x, weight, statistics, *options)
    assert all(map(torch.equal, backward(dy, x, weight, strided, *options), expected))
    with pytest.raises(RuntimeError, match="takes rows"):
        backward(*change(dy, x, weight, statistics), *options)
