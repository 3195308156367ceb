"""The kernels as operators: what PyTorch's compiler may rely on, checked by its own `opcheck`."""

import itertools

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.autograd.graph import saved_tensors_hooks
from torch.library import opcheck

import lnlib
from lnlib import formula
from lnlib.triton_kernel import in_graph

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

forward, backward = torch.ops.lnlib.layer_norm, torch.ops.lnlib.layer_norm_backward
B, H, EPS = 3, 7, 0.1

# opcheck makes PyTorch script decompositions of its own.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


def rand(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def leaves(B: int = B, H: int = H) -> list[Tensor]:
    values = 3 + rand(B, H), rand(H, seed=1), rand(H, seed=2)
    return [value.requires_grad_() for value in values]


def rows(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    return forward(x, weight, bias, EPS)[0]


def door(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    return lnlib.layer_norm(x, (x.shape[-1],), weight, bias, EPS, backend="triton")


def true(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    return formula.layer_norm(x, weight, bias, normalized_shape=x.shape[-1:], eps=EPS)


@pytest.mark.parametrize("given", list(itertools.product((True, False), repeat=2)))
@pytest.mark.parametrize("wanted", list(itertools.product((True, False), repeat=3)))
def test_the_forward_operator_keeps_the_rules_of_operators(given, wanted):
    x, weight, bias = (t.detach().requires_grad_(w) for t, w in zip(leaves(), wanted, strict=True))
    opcheck(forward.default, (x, weight if given[0] else None, bias if given[1] else None, EPS))


@pytest.mark.parametrize("x", [rand(5, 14)[:, ::2], rand(7, 5).T, rand(0, 7), rand(1, 7)])
def test_it_keeps_them_for_strides_and_for_no_rows(x):
    opcheck(forward.default, (x.requires_grad_(), rand(7, seed=1), None, EPS))


@pytest.mark.parametrize("needs", list(itertools.product((True, False), repeat=3))[:-1])
def test_the_backward_operator_keeps_them_too(needs):
    x, weight, bias = leaves()
    dy = rand(B, H, seed=3).requires_grad_()
    statistics = forward(x, weight, bias, EPS)[1].detach()
    opcheck(backward.default, (dy, x, statistics, weight, bias, EPS, needs))


@pytest.mark.parametrize("run", [rows, door], ids=["operator", "door"])
def test_both_orders_of_the_gradient_are_right(run):
    inputs = leaves(2, 5)  # each number of which is moved, there and back
    assert gradcheck(run, inputs)
    assert gradgradcheck(run, inputs)


def test_the_third_order_of_the_operator_is_right():
    results = []
    for run in (rows, true):
        inputs = leaves()
        value = (run(*inputs) * rand(B, H, seed=3)).sum()
        for order in range(3):
            grads = torch.autograd.grad(value, inputs, create_graph=True, allow_unused=True)
            grads = [g for g in grads if g is not None]
            value = sum((g * rand(*g.shape, seed=4 + order)).sum() for g in grads)
        results.append(value.detach())
    torch.testing.assert_close(*results, rtol=1e-9, atol=0)


def test_the_statistics_are_no_way_around_the_gradient():
    y, statistics = forward(*leaves(), EPS)
    assert y.requires_grad
    assert not statistics.requires_grad


@pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
def test_one_graph_serves_every_number_of_rows_from_2_on(compiler):
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(door, backend=compiler, fullgraph=True, dynamic=True)
    for rows_ in (2, 3, 5, 16, 33):
        _, weight, bias = leaves()
        x = (3 + rand(rows_, H)).requires_grad_()
        dy = rand(rows_, H, seed=3)
        y = compiled(x, weight, bias)
        actual = y, *torch.autograd.grad(y, (x, weight, bias), dy)
        y = true(x, weight, bias)
        expected = y, *torch.autograd.grad(y, (x, weight, bias), dy)
        for a, e in zip(actual, expected, strict=True):
            torch.testing.assert_close(a, e, rtol=0, atol=1e-12)
    assert counters["stats"]["unique_graphs"] == 1


def test_leading_dimensions_and_parameters_of_several_dimensions_compile():
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x, w: lnlib.layer_norm(x, (3, 5), w, backend="triton"),
        backend="aot_eager",
        fullgraph=True,
    )
    x, weight = 3 + rand(2, 4, 3, 5), rand(3, 5, seed=1)
    expected = formula.layer_norm(x, weight, normalized_shape=(3, 5))
    torch.testing.assert_close(compiled(x, weight), expected, rtol=0, atol=1e-12)
    assert compiled(rand(0, 4, 3, 5), weight).shape == (0, 4, 3, 5)


@pytest.mark.parametrize("first", ["plain", "dual"])
def test_a_compiled_call_keeps_the_tangent_of_a_dual_tensor_or_pytorch_refuses_it(first):
    torch._dynamo.reset()
    x, direction = 3 + rand(B, H), rand(B, H, seed=1)
    compiled = torch.compile(door, backend="aot_eager", fullgraph=True)
    if first == "plain":  # what was compiled without a tangent must not be taken for one with it
        torch.testing.assert_close(compiled(x), true(x), rtol=0, atol=1e-12)
    with forward_ad.dual_level():
        try:
            y = compiled(forward_ad.make_dual(x, direction))
        except torch._dynamo.exc.Unsupported as refusal:
            if "dual tensor" not in str(refusal):  # PyTorch 2.15 compiles none
                raise
            return
        tangent = forward_ad.unpack_dual(y).tangent
    _, expected = torch.func.jvp(true, (x,), (direction,))
    torch.testing.assert_close(tangent, expected, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("how", ["operator", "trace", "export"])
def test_what_holds_the_operator_refuses_a_tangent_rather_than_lose_it(how):
    layer = lnlib.LayerNorm(H, eps=EPS, dtype=torch.float64, backend="triton").requires_grad_(False)
    x = 3 + rand(B, H)
    recorded = {
        "operator": lambda: rows,
        "trace": lambda: torch.jit.trace(layer, x),
        "export": lambda: torch.export.export(layer, (x,)).module(),
    }[how]()
    torch.testing.assert_close(recorded(x), true(x), rtol=0, atol=1e-12)
    with pytest.raises(RuntimeError, match=r'no forward mode.*backend="reference"'):
        torch.func.jvp(recorded, (x,), (x,))


@pytest.mark.parametrize("weight", [rand(14)[::2], rand(3, 5)], ids=["strided", "of two sizes"])
def test_gradients_are_right_for_a_weight_in_any_layout(weight):
    x, weight = rand(2, *weight.shape, seed=1).requires_grad_(), weight.requires_grad_()
    y = in_graph(x, weight.shape, weight, None, EPS)
    expected = formula.layer_norm(x, weight, normalized_shape=weight.shape, eps=EPS)
    dy = rand(*x.shape, seed=2)
    pairs = (torch.autograd.grad(result, (x, weight), dy) for result in (y, expected))
    for grad, truth in zip(*pairs, strict=True):
        torch.testing.assert_close(grad, truth, rtol=0, atol=1e-12)


def test_the_gradient_of_bias_alone_keeps_no_x():
    x, weight, bias = leaves()
    kept: list[Tensor] = []
    with saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = rows(x.detach(), weight.detach(), bias)
    assert not any(t.shape == (B, H) for t in kept)
    with torch.no_grad():
        bias.add_(1)  # is not read again
    dy = rand(B, H, seed=3).requires_grad_()
    (dbias,) = torch.autograd.grad(y, bias, dy, create_graph=True)
    torch.testing.assert_close(dbias, dy.sum(0), rtol=0, atol=1e-12)
    (ddy,) = torch.autograd.grad(dbias.square().sum(), dy)
    torch.testing.assert_close(ddy, 2 * dy.sum(0).expand_as(dy), rtol=0, atol=1e-12)


def test_gradients_of_parameters_that_are_not_there_are_empty_in_both_worlds():
    x, dy = 3 + rand(B, H), rand(B, H, seed=3)
    statistics = forward(x, None, None, EPS)[1]
    arguments = dy, x, statistics, None, None, EPS, [True] * 3
    real = [grad.shape for grad in backward(*arguments)]
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = [grad.shape for grad in backward(*arguments)]
    assert real == fake == [(B, H), (0,), (0,)]


@pytest.mark.parametrize(
    "change",
    [
        lambda dy, x, statistics, weight: (dy, x, statistics.float(), weight),
        lambda dy, x, statistics, weight: (dy, x, statistics[:, :1], weight),
        lambda dy, x, statistics, weight: (dy, x[:1], statistics, weight),
        lambda dy, x, statistics, weight: (dy, x, statistics, weight[:1]),
    ],
)
def test_the_backward_operator_refuses_what_it_would_read_beyond(change):
    x, weight, _ = (t.detach() for t in leaves())
    dy, statistics = rand(B, H, seed=3), forward(x, weight, None, EPS)[1]
    options = None, EPS, [True, True, False]
    strided = torch.stack([statistics, statistics], -1)[..., 0]
    expected = backward(dy, x, statistics, weight, *options)
    assert all(map(torch.equal, backward(dy, x, strided, weight, *options), expected))
    with pytest.raises(RuntimeError, match="takes rows"):
        backward(*change(dy, x, statistics, weight), *options)
