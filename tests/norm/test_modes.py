"""What runs in which mode of PyTorch, and that it is right there, whatever the mode."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from norms import assert_right, both_passes, case, every_backend, rand, scripting, truth
from odd_tensors import Plain
from random_calls import outcome
from random_programs import AROUND, Case, Watch, grads, program_difference
from tiers import few
from torch import Tensor, nn
from torch._dynamo import compiled_autograd
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import jvp, vmap

import lnlib
from lnlib import autograd, dispatch, formula, modes

H, ROWS, EPS = 5, 3, 0.1
ROUNDING = 1e-10  # of the largest value: up to three orders in float64, each some hundred roundings
INPUTS = {"x": 3 + rand(ROWS, H), "weight": rand(H, seed=1), "bias": rand(H, seed=2)}
DY = rand(ROWS, H, seed=3)
pytestmark = scripting


def through_the_door(backend: str) -> Callable[..., Tensor]:
    return lambda x, weight, bias: lnlib.layer_norm(x, (H,), weight, bias, EPS, backend=backend)


def true(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return formula.layer_norm(x, weight, bias, eps=EPS)


def assert_close(actual: Tensor, expected: Tensor) -> None:
    atol = ROUNDING * max(1.0, expected.abs().max().item())
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


# Nestings: a word names transforms from the outermost to the innermost

TRANSFORMS = "jvp", "vjp", "vmap"
WORDS = [word for depth in (1, 2, 3) for word in itertools.product(TRANSFORMS, repeat=depth)]


def nested(run: Callable[..., Tensor], word: tuple[str, ...]) -> Callable[..., Tensor]:
    for name in reversed(word):
        run = AROUND[name](run)
    return run


def evaluate(run: Callable[..., Tensor], word: tuple[str, ...]) -> Tensor:
    return nested(run, word)(*INPUTS.values())


@few("word", WORDS, [word for word in WORDS if len(word) < 3 or len({*word}) == 3], ids="-".join)
def test_every_nesting_to_depth_three_is_right(word):
    for backend in ("auto", *dispatch.PASSES):  # which leaves them to plain PyTorch
        assert_close(evaluate(through_the_door(backend), word), evaluate(true, word))


# Deeper nestings in forward mode torch.compile does not take, whatever it is that they contain.
@pytest.mark.parametrize("word", WORDS[:3], ids="-".join)
@pytest.mark.parametrize("backend", ["auto", "triton"])
def test_a_graph_of_a_transform_is_right(backend, word):
    torch._dynamo.reset()
    # An operator in the graph would drop the tangents: zeros, with nothing to say so.
    run = nested(through_the_door(backend), word)
    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    assert_close(compiled(*INPUTS.values()), evaluate(true, word))


def test_pytorchs_own_is_still_wrong_where_the_book_says_so():
    """If this fails, PyTorch has been mended: chapter 06 and the trouble page say it is wrong."""
    theirs = through_the_door("torch")
    for word in (("jvp", "jvp"), ("vjp", "jvp"), ("vjp", "vjp", "vjp"), ("vjp", "vmap", "vjp")):
        error = evaluate(theirs, word) - evaluate(true, word)
        assert error.abs().max() > 1e-2, word


# Dual tensors of torch.autograd.forward_ad


def of_duals(run: Callable[..., Tensor], carrier: str) -> list[Tensor]:
    """Return the tangent of y, its gradients, and the tangents of the gradients of y."""
    inputs = {name: value.clone().requires_grad_() for name, value in INPUTS.items()}
    with forward_ad.dual_level():
        direction = rand(*inputs[carrier].shape, seed=4)
        duals = {**inputs, carrier: forward_ad.make_dual(inputs[carrier], direction)}
        y = run(**duals)
        tangent = forward_ad.unpack_dual(y).tangent
        along = (tangent * DY).sum() + 0 * y.sum()  # the tangent of bias is a constant
        over_forward = grads(along, [*inputs.values()], retain_graph=True)
        of_y = torch.autograd.grad(y, [*duals.values()], DY)
        over_reverse = [forward_ad.unpack_dual(grad).tangent for grad in of_y]
    zero = torch.zeros((), dtype=torch.float64)  # is 0 everywhere
    return [tangent, *over_forward, *(zero if t is None else t for t in over_reverse)]


@pytest.mark.parametrize("carrier", INPUTS)
@pytest.mark.parametrize("backend", ["auto", "triton"])
def test_reverse_over_forward_mode_and_forward_over_reverse_are_right_for_duals(backend, carrier):
    ours, expected = (of_duals(run, carrier) for run in (through_the_door(backend), true))
    for a, b in zip(ours, expected, strict=True):
        assert_close(*torch.broadcast_tensors(a, b))  # None, which became one 0, is 0 everywhere


# What runs


@pytest.mark.parametrize("backend", ["auto", "cpp"])
def test_in_a_program_a_norm_is_the_one_operator_that_every_runtime_knows(backend):
    layer, x = lnlib.LayerNorm(H, backend=backend), INPUTS["x"].float()
    for strict in (True, False):
        nodes = torch.export.export(layer, (x,), strict=strict).graph.nodes
        called = [node.target for node in nodes if node.op == "call_function"]
        assert called == [torch.ops.aten.layer_norm.default]
    traced = str(torch.jit.trace(layer, x, check_trace=False).inlined_graph)
    assert traced.count("aten::layer_norm") == 1
    assert "lnlib::" not in traced


def test_with_reference_a_program_holds_the_formula():
    layer, x = lnlib.LayerNorm(H, eps=EPS, backend="reference"), 1e4 + INPUTS["x"].float()
    program = torch.export.export(layer, (x,))
    assert "layer_norm" not in str(program.graph)
    truth = true(x.double(), *(p.double() for p in (layer.weight, layer.bias)))
    assert abs(program.module()(x) - truth).max() < 1e-6  # PyTorch's is off by 1e-3


def test_the_mode_is_told_from_any_of_the_arguments():
    x, weight = INPUTS["x"], INPUTS["weight"]
    mode_of = modes.mode_of
    assert mode_of(x, None, None) == "eager"
    assert mode_of(nn.Parameter(x), nn.Parameter(weight), weight.expand(H)) == "eager"
    assert mode_of(x, weight.as_subclass(Plain)) == "other"
    assert mode_of(x.to("meta")) == "other"
    assert mode_of(torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, 1, 3]))) == "other"
    with FakeTensorMode() as fakes:
        assert mode_of(fakes.from_tensor(x)) == "other"
    with forward_ad.dual_level():
        assert mode_of(x, weight) == "eager"
        assert mode_of(x, None, forward_ad.make_dual(weight, weight)) == "other"
    with Watch():
        assert mode_of(x, weight) == "watched"
        assert mode_of(x, None, weight.as_subclass(Plain)) == "other"
    seen = []
    for transform in (vmap, torch.func.grad, lambda run: lambda x: jvp(run, (x,), (x,))):
        transform(lambda v: seen.append(mode_of(x, weight)) or v.sum())(x)
    assert seen == ["other"] * 3
    torch.jit.trace(lambda v: seen.append(mode_of(v)) or 2 * v, x, check_trace=False)
    assert seen.pop() == "program"
    with torch.no_grad(), torch.inference_mode():
        assert mode_of(x) == "eager"


def test_a_trace_goes_on_after_a_refusal_that_is_caught():
    def forgiving(x: Tensor) -> Tensor:
        with contextlib.suppress(RuntimeError):
            lnlib.layer_norm(x, (H + 1,))
        return 2 * x

    x = INPUTS["x"]
    assert_close(torch.jit.trace(forgiving, x, check_trace=False)(3 * x), 6 * x)


def test_what_a_narrower_mean_loses_under_a_mode_is_kept_beside_it_for_a_kernels_backward_pass():
    statistics = torch.tensor([[1e4 + 1 / 3], [1e-5], [1.0]], dtype=torch.float64)
    mean, rest, _ = autograd._narrowed(statistics, torch.float32)
    assert (mean.double() + rest.double()).item() == pytest.approx(1e4 + 1 / 3 + 1e-5, abs=1e-9)


@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16])
def test_of_two_dtypes_a_program_has_one_operator_between_casts(narrow):
    layer, x = lnlib.LayerNorm(H, eps=EPS), INPUTS["x"].to(narrow)
    program = torch.export.export(layer, (x,))
    called = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert [name for name in called if "assert" not in name] == [
        "aten.to.dtype",
        "aten.layer_norm.default",
        "aten.to.dtype",
    ]
    y, given = program.module()(x), ((H,), *layer.parameters(), EPS)
    assert torch.equal(y, F.layer_norm(x.float(), *given).to(narrow))
    # PyTorch's kernel for two dtypes rounds once more: half a unit in the last place.
    half_a_unit = torch.finfo(narrow).eps / 2
    torch.testing.assert_close(y, F.layer_norm(x, *given), rtol=2 * half_a_unit, atol=half_a_unit)


class OfAnySize(nn.Module):
    """Normalizes over as many features as there are."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.backend = backend

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return lnlib.layer_norm(x, x.shape[-1:], weight, bias, EPS, backend=self.backend)


@pytest.mark.parametrize("how", ["exported", "exported strictly", "traced", "compiled"])
@pytest.mark.parametrize("backend", ["auto", "reference", "triton"])
def test_a_record_is_right_for_other_sizes_and_has_gradients(backend, how):
    layer, given = OfAnySize(backend), tuple(INPUTS.values())
    if how.startswith("exported"):
        rows, features = torch.export.Dim("rows"), torch.export.Dim("features")
        sizes = {0: rows, 1: features}, {0: features}, {0: features}
        strict = how.endswith("strictly")
        program = torch.export.export(layer, given, dynamic_shapes=sizes, strict=strict)
        assert "LayerNormFunction" not in str(program.graph)
        run = program.module()
    elif how == "traced":
        run = torch.jit.trace(layer, given)
    else:
        torch._dynamo.reset()
        run = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
        run(*given)
    wider = case(ROWS + 1, H + 2)
    found = both_passes(lambda x, _, weight, bias, eps: run(x, weight, bias), *wider)
    assert_right(found, truth(*wider, EPS), ROUNDING)


@pytest.mark.parametrize("backend", ["auto", "reference", "triton"])
@pytest.mark.parametrize("shape", [(ROWS + 1, H), (2, 3, H), (H,)])
def test_a_trace_computes_the_same_for_any_rank(backend, shape):
    layer = lnlib.LayerNorm(H, eps=EPS, dtype=torch.float64, backend=backend)
    traced = torch.jit.trace(layer, INPUTS["x"])
    assert_close(traced(rand(*shape)), layer(rand(*shape)))


# Of the batch, which is no leaf, PyTorch's compiler itself asks for the gradient.
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning", "ignore:.*nested:UserWarning")
@pytest.mark.parametrize(
    ("layout", "compiled"), [("strided", False), ("jagged", False), ("jagged", True)]
)
@pytest.mark.parametrize("backend", ["auto", "triton"])
def test_a_nested_batch_has_the_gradients_of_its_rows(backend, layout, compiled):
    torch._dynamo.reset()
    run, layout = through_the_door(backend), getattr(torch, layout)
    run = torch.compile(run, backend="aot_eager", fullgraph=True) if compiled else run

    def in_two_parts(x: Tensor, _: object, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        y = run(torch.nested.as_nested_tensor([x[:1], x[1:]], layout=layout), weight, bias)
        assert y.layout is layout
        return torch.cat(y.unbind())

    given = *INPUTS.values(), DY
    assert_right(both_passes(in_two_parts, *given), truth(*given, EPS), ROUNDING)


@pytest.mark.filterwarnings("ignore:.*nested:UserWarning")
def test_nested_batches_are_taken_and_refused_as_in_pytorch():
    jagged = torch.nested.nested_tensor([rand(3, H), rand(2, H)], layout=torch.jagged)
    for shape, eps in (((np.int64(H),), EPS), ((H,), torch.tensor(EPS))):
        y = lnlib.layer_norm(jagged, shape, eps=eps)
        assert_close(y.values(), F.layer_norm(jagged, shape, eps=eps).values())
    for given in (((H + 1,),), (H,), (None,), ((H,), torch.ones(H + 1)), ((H,), [1.0] * H)):
        ours, theirs = (outcome(norm, jagged, *given) for norm in (lnlib.layer_norm, F.layer_norm))
        assert ours is theirs
    ones = torch.ones(H)
    short, ints = (torch.nested.nested_tensor([part]) for part in (ones[None, 1:], ones.int()))
    assert outcome(lnlib.layer_norm, short, (H,), ones, ones) is RuntimeError
    assert outcome(lnlib.layer_norm, torch.nested.nested_tensor([]), H, ones, ones) is TypeError
    assert outcome(lnlib.layer_norm, ints, (H,), ones.int(), ones.int()) is NotImplementedError


def test_inference_mode_carries_no_tangent_whoever_watches():
    """PyTorch itself fails to look for one there, under a mode."""
    x = torch.randn(3, 5)
    with torch.inference_mode(), Watch(), forward_ad.dual_level():
        found = lnlib.layer_norm(x, (5,))
    assert torch.equal(found, lnlib.layer_norm(x, (5,), backend="reference"))


@pytest.mark.parametrize("around", [("jvp",), ("make_fx", "vjp")], ids=" of ".join)
def test_inference_mode_runs_the_formula_under_a_transform(around):
    """Views of some tensors are refused there."""
    case = Case(
        ("inference", *around),
        "forward alone",
        "reference",
        "every other",
        (1, 7),
        DY.dtype,
        seed=1,
    )
    assert program_difference(case) == ""


@every_backend
def test_compiled_autograd_records_the_backward_pass_in_one_graph(backend):
    leaves = [t.float().requires_grad_() for t in INPUTS.values()]
    y = through_the_door(backend)(*leaves)
    with compiled_autograd._enable(torch.compile(backend="eager", fullgraph=True)):
        y.backward(DY.float())
    expected = torch.autograd.grad(true(*leaves), leaves, DY.float())
    for leaf, dx in zip(leaves, expected, strict=True):
        torch.testing.assert_close(leaf.grad, dx, rtol=0, atol=1e-5)
