"""The Function with each backend's passes: right to any order, and it saves and changes little.

What a kernel has to keep by itself is in `test_cpp_kernel` and `test_triton_kernel`.
"""

import contextlib
import functools
import itertools
import math
import weakref
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from bench_memory import peak_bytes
from test_modes import Watch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import lnlib
from lnlib import closed_form, composed, cpp_kernel, dispatch, formula, reference
from lnlib.triton_kernel import runtime

# Largest error against the float64 formula, for gradients up to 60, near 10 for most.
TOLERANCE = {
    torch.float16: 2e-2,  # half a unit in the last place, at 32
    torch.bfloat16: 1.5e-1,  # the same
    torch.float32: 2e-6,  # the same: the arithmetic is in float64
    torch.float64: 1e-12,  # a few hundred roundings, near 1e-16 each, and rstd up to 40
}
FLOATS = list(TOLERANCE)
NAMES = ("input", "weight", "bias")
MEMORY = 1.10  # times PyTorch's peak

HERE = {  # each backend, and what keeps it from being tried
    "reference": None,
    "cpp": cpp_kernel.why_not(torch.float32, "cpu"),
    "triton": runtime.why_not(),
}
every_backend = pytest.mark.parametrize(
    "backend",
    [
        pytest.param(name, marks=pytest.mark.skipif(why is not None, reason=f"{why}"))
        for name, why in HERE.items()
    ],
)

layer_norm = functools.partial(lnlib.layer_norm, backend="reference")


def in_backend(backend: str) -> Callable[..., Tensor]:
    return functools.partial(lnlib.layer_norm, backend=backend)


scripting = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


def rand(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def leaves(*shape: int, dtype: torch.dtype = torch.float64, mean: float = 3.0) -> list[Tensor]:
    """Return x, weight and bias over the last dimension, each requiring its gradient."""
    values = mean + rand(*shape), rand(shape[-1], seed=1), rand(shape[-1], seed=2)
    return [value.to(dtype).requires_grad_() for value in values]


def truth_of(inputs: list[Tensor | None], dy: Tensor, eps: float = 1e-5) -> dict[str, Tensor]:
    """Return the gradient of every input that is there, by autograd through the float64 formula."""
    exact = {
        name: tensor.detach().double().requires_grad_()
        for name, tensor in zip(NAMES, inputs, strict=True)
        if tensor is not None
    }
    x, weight, bias = (exact.get(name) for name in NAMES)
    y = formula.layer_norm(x, weight, bias, normalized_shape=inputs[0].shape[-1:], eps=eps)
    grads = torch.autograd.grad(y, list(exact.values()), dy.double())
    return dict(zip(exact, grads, strict=True))


def assert_close(actual: Tensor, expected: Tensor, dtype: torch.dtype = torch.float64) -> None:
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=TOLERANCE[dtype])


# Values


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "normalized_shape"), [((5, 7), (7,)), ((2, 3, 5, 7), (5, 7))])
@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_y_has_the_bits_of_the_composed_formula(dtype, shape, normalized_shape, mean):
    x = (mean + rand(*shape)).to(dtype)
    weight, bias = (rand(*normalized_shape, seed=seed).to(dtype) for seed in (1, 2))
    for parameters in itertools.product((weight, None), (bias, None)):
        ours = layer_norm(x, normalized_shape, *parameters, 0.1)
        assert torch.equal(ours, composed.layer_norm(x, normalized_shape, *parameters, 0.1))
        assert ours.is_contiguous()
        assert ours.dtype == dtype


@every_backend
@pytest.mark.usefixtures("memory_that_nobody_wrote_is_nan")
@pytest.mark.parametrize("wanted", list(itertools.product((True, False), repeat=3)))
@pytest.mark.parametrize("given", list(itertools.product((True, False), repeat=2)))
def test_exactly_the_gradients_asked_for_are_there_and_right(backend, wanted, given):
    for dtype in FLOATS:
        inputs = [
            value.detach().requires_grad_(want) if present else None
            for value, want, present in zip(
                leaves(5, 7, dtype=dtype), wanted, (True, *given), strict=True
            )
        ]
        dy = rand(5, 7, seed=3).to(dtype)
        y = lnlib.layer_norm(inputs[0], (7,), *inputs[1:], 0.1, backend=backend)
        asked = {
            name: tensor
            for name, tensor in zip(NAMES, inputs, strict=True)
            if tensor is not None and tensor.requires_grad
        }
        assert y.requires_grad == bool(asked)
        if not asked:
            continue
        assert y.grad_fn.passes is dispatch.PASSES[backend]
        seen: list[tuple[Tensor | None, ...]] = []
        y.grad_fn.register_hook(lambda grads, _, seen=seen: seen.append(grads))
        y.backward(dy)
        present = [name for name, tensor in zip(NAMES, inputs, strict=True) if tensor is not None]
        returned = dict(zip(present, seen[0], strict=True))
        assert {name for name, grad in returned.items() if grad is not None} == set(asked)
        expected = truth_of(inputs, dy, eps=0.1)
        for name, tensor in asked.items():
            assert (returned[name].dtype, returned[name].shape) == (dtype, tensor.shape)
            assert_close(returned[name], expected[name], dtype)


@every_backend
@pytest.mark.parametrize("needs", list(itertools.product((True, False), repeat=3))[:-1])
def test_no_gradient_is_computed_that_nobody_needs(backend, needs):
    dtype = torch.float64
    x, weight, bias = (leaf.detach() for leaf in leaves(5, 7, dtype=dtype))
    dy, passes = rand(5, 7, seed=3).to(dtype), dispatch.PASSES[backend]
    _, statistics = passes.forward(x, weight, bias, 1e-5)
    dtypes = [dtype if need else None for need in needs]
    grads = passes.backward(dy, x, weight, statistics, dtypes)
    assert tuple(grad is not None for grad in grads) == needs


@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16])
def test_float32_parameters_of_a_narrow_input_have_float32_gradients(narrow):
    x, weight, bias = leaves(33, 13, dtype=torch.float32)
    x = x.detach().to(narrow).requires_grad_()
    dy = rand(33, 13, seed=3).to(narrow)
    grads = torch.autograd.grad(layer_norm(x, (13,), weight, bias), (x, weight, bias), dy)
    assert [grad.dtype for grad in grads] == [narrow, torch.float32, torch.float32]
    expected = truth_of([x, weight, bias], dy)
    for name, grad in zip(NAMES, grads, strict=True):
        # Summed in float32 over 33 rows, far closer than a narrow sum would be.
        tolerance = TOLERANCE[narrow] if name == "input" else 2e-5
        torch.testing.assert_close(grad.double(), expected[name], rtol=0, atol=tolerance)


@every_backend
@pytest.mark.parametrize("normalized_shape", [(7,), (5, 7), (3, 5, 7), (2, 3, 5, 7)])
def test_any_trailing_dimensions_can_be_normalized(backend, normalized_shape):
    run, dtype = in_backend(backend), torch.float64
    x = rand(2, 3, 5, 7).to(dtype).requires_grad_()
    weight, bias = (rand(*normalized_shape, seed=s).to(dtype).requires_grad_() for s in (1, 2))
    dy = rand(2, 3, 5, 7, seed=3).to(dtype)
    results = []
    for y in (
        run(x, normalized_shape, weight, bias),
        formula.layer_norm(x, weight, bias, normalized_shape=normalized_shape),
    ):
        results.append([y, *torch.autograd.grad(y, (x, weight, bias), dy.to(y.dtype))])
    for found, expected in zip(*results, strict=True):
        assert found.shape == expected.shape
        assert_close(found, expected.double(), dtype)


@pytest.mark.parametrize("H", [1, 7, 64])
def test_the_gradient_of_a_constant_row_is_dy_less_its_mean_over_the_root_of_eps(H):
    x, weight, bias = leaves(4, H)
    with torch.no_grad():
        x[1] = 1 / 3
    dy = rand(4, H, seed=3)
    dx, dweight, _ = torch.autograd.grad(layer_norm(x, (H,), weight, bias), (x, weight, bias), dy)
    g = (weight * dy)[1].detach()
    expected = (g - g.mean()) / math.sqrt(1e-5)
    torch.testing.assert_close(dx[1], expected, rtol=1e-12, atol=1e-12)
    others = [0, 2, 3]
    without = truth_of([x[others], weight, bias], dy[others])
    assert_close(dweight, without["weight"])  # nothing comes from the constant row


def test_far_from_zero_float64_keeps_the_digits_of_dx_and_dweight():
    x, weight, _ = leaves(5, 769, mean=0.0)
    on_a_grid = (x.detach() * 2**20).round() / 2**20  # so that adding 2³⁰ rounds nothing
    near, far = (
        torch.autograd.grad(
            layer_norm(moved, (769,), weight), (moved, weight), rand(5, 769, seed=3)
        )
        for moved in (on_a_grid.clone().requires_grad_(), (on_a_grid + 2**30).requires_grad_())
    )
    for a, b in zip(near, far, strict=True):
        assert_close(a, b)


# Blocks of rows


@pytest.fixture
def memory_that_nobody_wrote_is_nan():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def blocks_of_three(monkeypatch, memory_that_nobody_wrote_is_nan):
    """Cut 7-feature inputs every third row."""
    monkeypatch.setattr(reference, "BLOCK_ON_CPU", 3 * 7 + 6)


@pytest.mark.usefixtures("blocks_of_three")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 6, 7, 20])
def test_rows_in_several_blocks_give_the_same(dtype, rows):
    inputs = leaves(rows, 7, dtype=dtype)
    dy = rand(rows, 7, seed=3).to(dtype)
    y = layer_norm(inputs[0], (7,), *inputs[1:])
    assert torch.equal(y, composed.layer_norm(inputs[0], (7,), *inputs[1:]))
    expected = truth_of(inputs, dy)
    for name, grad in zip(NAMES, torch.autograd.grad(y, inputs, dy), strict=True):
        assert_close(grad, expected[name], dtype)


def test_a_row_longer_than_a_block_is_one_block(monkeypatch):
    monkeypatch.setattr(reference, "BLOCK_ON_CPU", 5)
    inputs, dy = leaves(3, 7), rand(3, 7, seed=3)
    expected = truth_of(inputs, dy)
    grads = torch.autograd.grad(layer_norm(inputs[0], (7,), *inputs[1:]), inputs, dy)
    for name, grad in zip(NAMES, grads, strict=True):
        assert_close(grad, expected[name])


NARROW = [dtype for dtype in FLOATS if dtype != torch.float64]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("shape", [(301, 769), (9000, 13), (70_001, 1), (3, 70_001)])
def test_the_bits_of_the_reference_do_not_depend_on_the_number_of_threads(dtype, shape):
    inputs, before = leaves(*shape, dtype=dtype), torch.get_num_threads()
    dy, found = rand(*shape, seed=3).to(dtype), []
    try:
        for threads in (1, 2, 3, 5, 16):
            torch.set_num_threads(threads)
            y = layer_norm(inputs[0], shape[1:], *inputs[1:])
            found.append([y, *torch.autograd.grad(y, inputs, dy)])
    finally:
        torch.set_num_threads(before)
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("shape", [(5, 769), (301, 257)])
@pytest.mark.parametrize("mean", [0.0, 1e3, 1e5])
@pytest.mark.parametrize("first", ["a value like others", "an outlier"])
def test_the_reference_is_off_by_little_more_than_the_last_rounding(dtype, shape, mean, first):
    """As much as the truth, rounded: to 2 % where that is all, on average over the values."""
    if mean * torch.finfo(dtype).eps > 1 or mean > torch.finfo(dtype).max:
        return  # a step of the type is larger than the spread
    inputs, dy = leaves(*shape, dtype=dtype, mean=mean), rand(*shape, seed=3).to(dtype)
    if first == "an outlier":
        with torch.no_grad():  # as far from its row's mean as it can be: 1e4 times as the others
            inputs[0][:, 0] = min(mean + 1e4, torch.finfo(dtype).max / 2)
    exact = [leaf.detach().double().requires_grad_() for leaf in inputs]
    y = layer_norm(inputs[0], shape[1:], *inputs[1:])
    true_y = formula.layer_norm(*exact)
    found = [y, *torch.autograd.grad(y, inputs, dy)]
    true = [true_y, *torch.autograd.grad(true_y, exact, dy.double())]
    for ours, truth in zip(found, true, strict=True):
        error, rounding = (
            (value.double() - truth).square().mean().sqrt() for value in (ours, truth.to(dtype))
        )
        assert error <= 1.02 * rounding


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_an_upstream_infinity_reaches_the_sums_as_itself_and_spares_other_columns(bad):
    x, weight, bias = leaves(5, 7)
    dy = rand(5, 7, seed=3)
    dy[2, 4] = bad
    dbias = torch.autograd.grad(layer_norm(x, (7,), weight, bias), bias, dy)[0]
    torch.testing.assert_close(dbias, dy.sum(0), rtol=0, atol=1e-14, equal_nan=True)


@pytest.mark.parametrize("spread", [lambda dy: dy * 10 ** rand(999, 1, seed=4), torch.abs])
def test_float64_sums_over_rows_are_rounded_once(spread):
    dy = spread(rand(999, 7, seed=3))
    x, weight, bias = leaves(999, 7)
    dbias = torch.autograd.grad(layer_norm(x, (7,), weight, bias), bias, dy)[0]
    exact = torch.tensor([math.fsum(column) for column in dy.t().tolist()], dtype=torch.float64)
    # Once for the sum of the leading bits and the rest: within one unit in the last place.
    assert ((dbias - exact).abs() <= exact.abs() * 2**-52).all()


# What is read, kept and left alone


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "strided": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "transposed": lambda t: t.mT.contiguous().mT,
    "leading dimensions swapped": lambda t: t.transpose(0, 1).contiguous().transpose(0, 1),
    "a row, expanded": lambda t: t[:1, :1].expand(t.shape),
    "one value a row": lambda t: t[..., :1].expand(t.shape),
    "one value": lambda t: t[:1, :1, :1].expand(t.shape),
    "of the other sign": lambda t: torch._neg_view(-t),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("of", ["x", "dy", "both"])
@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_strides_change_no_bit_of_any_result(layout, of, backend, dtype):
    x, dy = (rand(3, 2, 7, seed=seed).to(dtype) for seed in (5, 3))
    weight, bias = LAYOUTS["of the other sign"](rand(14, seed=1).to(dtype))[::2], rand(1).to(dtype)
    x = LAYOUTS[layout](x) if of != "dy" else x
    dy = LAYOUTS[layout](dy) if of != "x" else dy
    results = []
    for shape in (lambda t: t, lambda t: t.clone(memory_format=torch.contiguous_format)):
        inputs = [shape(t).detach().requires_grad_() for t in (x, weight, bias.expand(7))]
        y = lnlib.layer_norm(inputs[0], (7,), *inputs[1:], backend=backend)
        results.append([y, *torch.autograd.grad(y, inputs, shape(dy))])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
        assert one.is_contiguous()


@every_backend
def test_x_dy_and_the_parameters_are_left_as_they_are(backend):
    for dtype in FLOATS:
        inputs, dy = leaves(5, 7, dtype=dtype), rand(5, 7, seed=3).to(dtype)
        before = [tensor.detach().clone() for tensor in (*inputs, dy)]
        y = lnlib.layer_norm(inputs[0], (7,), *inputs[1:], backend=backend)
        torch.autograd.grad(y, inputs, dy)
        for tensor, kept in zip((*inputs, dy), before, strict=True):
            assert torch.equal(tensor, kept)


KEPT = {  # of input and weight, and whether the statistics are
    (True, True, True): (["x", "weight"], True),
    (True, False, False): (["x", "weight"], True),
    (False, True, True): (["x"], True),
    (False, True, False): (["x"], True),
    (False, False, True): ([], False),
    (False, False, False): ([], False),
}


def saved_by(run: Callable[[], object]) -> list[Tensor]:
    kept: list[Tensor] = []
    with saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        run()
    return kept


@every_backend
@pytest.mark.parametrize("wanted", KEPT)
def test_it_keeps_x_weight_and_the_statistics_as_far_as_they_are_needed(backend, wanted):
    for dtype in FLOATS:
        inputs = [
            t.detach().requires_grad_(w)
            for t, w in zip(leaves(5, 7, dtype=dtype), wanted, strict=True)
        ]
        run = functools.partial(lnlib.layer_norm, inputs[0], (7,), *inputs[1:], backend=backend)
        kept = saved_by(run)
        names, has_statistics = KEPT[wanted]
        own = dict(zip(("x", "weight"), inputs, strict=False))
        for tensor, name in zip(kept, names, strict=False):
            assert tensor.data_ptr() == own[name].data_ptr()  # itself, not a copy
        rest = kept[len(names) :]
        assert [t.shape for t in rest] == ([(3, 5)] if has_statistics else [])
        for mean, missing, rstd in (t.double() for t in rest):  # one format, whoever computes
            terms = formula.terms(inputs[0].detach())
            wide = composed.statistics_dtype(dtype, inputs[0].device)
            unit = torch.finfo(torch.float32 if backend == "triton" else wide).eps
            unit = torch.finfo(torch.float64).eps if dtype == torch.float64 else unit
            for found, expected in ((mean + missing, terms.mean), (rstd, terms.rstd)):
                torch.testing.assert_close(found, expected[:, 0], rtol=4 * unit, atol=4 * unit)


def test_without_weight_it_keeps_only_x_and_the_statistics():
    x = rand(5, 7).requires_grad_()
    kept = saved_by(lambda: layer_norm(x, (7,)))
    assert [tuple(tensor.shape) for tensor in kept] == [(5, 7), (3, 5)]


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_nothing_is_kept_where_no_gradient_can_be_asked_for(context):
    inputs, found = leaves(5, 7), []
    with context():
        assert saved_by(lambda: found.append(layer_norm(inputs[0], (7,), *inputs[1:]))) == []
    assert not found[0].requires_grad


def test_y_dies_when_the_caller_lets_it_go():
    x, weight, bias = leaves(5, 7)
    y = layer_norm(x, (7,), weight, bias)
    loss, gone = (2 * y).sum(), weakref.ref(y)
    del y
    assert gone() is None
    loss.backward()


@every_backend
@pytest.mark.parametrize("changed", ["x", "weight"])
def test_a_change_in_place_before_the_backward_pass_raises(backend, changed):
    x, weight, bias = leaves(5, 7, dtype=torch.float32)
    y = lnlib.layer_norm(x, (7,), weight, bias, backend=backend)
    with torch.no_grad():
        {"x": x, "weight": weight}[changed].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(y, x, rand(5, 7, seed=3).float())


@every_backend
@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 8), (0, 8)])
def test_what_comes_out_may_be_changed_in_place(backend, shape):
    ours, dtype = in_backend(backend), torch.float64
    x = rand(*shape, dtype=dtype).requires_grad_()
    dy = rand(*shape, seed=3, dtype=dtype)
    gradients = []
    for run in (ours, F.layer_norm):
        y = run(x, (8,))
        y += 1
        torch.relu_(y)
        gradients += torch.autograd.grad(y, x, dy)
    torch.testing.assert_close(*gradients, rtol=0, atol=TOLERANCE[dtype])


def test_a_second_backward_pass_gives_the_same_and_needs_retain_graph():
    inputs, dy = leaves(5, 7), rand(5, 7, seed=3)
    y = layer_norm(inputs[0], (7,), *inputs[1:])
    first, second = (
        torch.autograd.grad(y, inputs, dy, retain_graph=keep) for keep in (True, False)
    )
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(y, inputs, dy)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointing_changes_no_bit(use_reentrant):
    inputs, dy = leaves(5, 7), rand(5, 7, seed=3)

    def twice(x, weight, bias):
        return layer_norm(layer_norm(x, (7,), weight, bias).tanh(), (7,), weight, bias)

    results = []
    for run in (lambda *a: checkpoint(twice, *a, use_reentrant=use_reentrant), twice):
        for leaf in inputs:
            leaf.grad = None
        run(*inputs).backward(dy)
        results.append([leaf.grad for leaf in inputs])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def selecting(policy):
    return lambda: create_selective_checkpoint_contexts(lambda *_, **__: policy)


@every_backend
@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 7)])
@pytest.mark.parametrize("policy", [CheckpointPolicy.MUST_SAVE, CheckpointPolicy.MUST_RECOMPUTE])
def test_a_checkpoint_may_select_what_it_saves(backend, shape, policy):
    inputs, found = [rand(*shape).requires_grad_(), *leaves(5, 7)[1:]], []
    run = functools.partial(lnlib.layer_norm, backend=backend)
    for context in (selecting(policy), None):
        options = {} if context is None else {"context_fn": context}
        y = checkpoint(run, inputs[0], (7,), *inputs[1:], use_reentrant=False, **options)
        found.append(torch.autograd.grad(y.pow(3).sum(), inputs))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-3)  # of 400, by other roundings


@every_backend
@pytest.mark.parametrize("seen", [(True, False), (False, True)])
def test_a_mode_may_see_one_pass_of_a_checkpoint_alone(backend, seen):
    for dtype in FLOATS:
        inputs, dy = leaves(5, 7, dtype=dtype), rand(5, 7, seed=3).to(dtype)
        passes = iter(seen)

        def run(x, weight, bias, passes=passes):
            with Watch() if next(passes) else contextlib.nullcontext():
                return lnlib.layer_norm(x, (7,), weight, bias, backend=backend)

        y = checkpoint(run, *inputs, use_reentrant=False)
        grads = torch.autograd.grad(y, inputs, dy)
        expected = truth_of(inputs, dy)
        for name, grad in zip(NAMES, grads, strict=True):
            assert_close(grad, expected[name], dtype)


@every_backend
def test_gradients_may_be_on_within_inference_mode(backend):
    x, weight, bias = leaves(5, 7)
    with torch.inference_mode(), torch.enable_grad():
        y = lnlib.layer_norm(x.exp(), (7,), weight, bias, backend=backend)
    assert y.is_inference()
    assert not y.requires_grad
    with torch.no_grad():
        assert torch.equal(y, lnlib.layer_norm(x.exp(), (7,), weight, bias, backend=backend))


@every_backend
@pytest.mark.usefixtures("memory_that_nobody_wrote_is_nan")
@pytest.mark.parametrize(
    ("shape", "normalized_shape"),
    [((0, 7), (7,)), ((3, 0, 7), (7,)), ((0, 5, 7), (5, 7)), ((3, 0), (0,)), ((3, 0, 7), (0, 7))],
)
@pytest.mark.parametrize("create_graph", [True, False])
def test_nothing_in_gives_nothing_out_and_zero_to_the_parameters(
    backend, shape, normalized_shape, create_graph
):
    run, dtype = in_backend(backend), torch.float64
    shapes = shape, normalized_shape, normalized_shape
    inputs = [rand(*each).to(dtype).requires_grad_() for each in shapes]
    y = run(inputs[0], normalized_shape, *inputs[1:])
    assert y.shape == shape
    grads = torch.autograd.grad(y, inputs, rand(*shape).to(dtype), create_graph=create_graph)
    for leaf, grad in zip(inputs, grads, strict=True):
        assert torch.equal(grad, torch.zeros_like(leaf))


@pytest.mark.parametrize("shape", [(4096, 1024), (16384, 256)])
def test_peak_memory_is_within_a_tenth_of_pytorchs(shape):
    inputs = leaves(*shape, dtype=torch.float32)
    dy = rand(*shape, seed=3, dtype=torch.float32)

    def both_passes(run):
        y = run(inputs[0], shape[-1:], *inputs[1:])
        torch.autograd.grad(y, inputs, dy)

    ours, theirs = (
        peak_bytes(lambda run=run: both_passes(run)) for run in (layer_norm, F.layer_norm)
    )
    size = inputs[0].nbytes
    assert theirs > 2 * size  # y and dx: the events are all there
    assert ours > 2 * size
    assert ours <= MEMORY * theirs
    # mean and rstd, and then scratch memory for six blocks in float64, however large x is
    assert ours - 2 * size <= 16 * shape[0] + 6 * 8 * reference.BLOCK_ON_CPU


def test_the_gradient_of_bias_alone_takes_scratch_memory_for_a_block():
    x, bias, dy = (rand(*s, dtype=torch.float32) for s in ((4096, 1024), (1024,), (4096, 1024)))
    bias.requires_grad_()
    y = layer_norm(x, (1024,), None, bias)
    (dbias,) = torch.autograd.grad(y, bias, dy, retain_graph=True)
    torch.testing.assert_close(dbias.double(), dy.double().sum(0), rtol=0, atol=1e-5)
    taken = peak_bytes(lambda: torch.autograd.grad(y, bias, dy))
    assert taken <= 2 * 8 * reference.BLOCK_ON_CPU < dy.nbytes / 8


# Higher orders


@pytest.mark.parametrize("normalized_shape", [(5,), (2, 5)])
@pytest.mark.parametrize("mean", [0.0, 100.0])
@pytest.mark.parametrize("given", list(itertools.product((True, False), repeat=2)))
def test_first_and_second_order_agree_with_differences(normalized_shape, mean, given):
    parameters = [rand(*normalized_shape, seed=s).requires_grad_() for s in (1, 2)]
    inputs = [(mean + rand(3, 2, 5)).requires_grad_()]
    inputs += [p if present else None for p, present in zip(parameters, given, strict=True)]

    def y(x, weight, bias):
        return layer_norm(x, normalized_shape, weight, bias, 0.1)

    assert torch.autograd.gradcheck(y, inputs, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(y, inputs, check_batched_grad=True)


def repeated(run, inputs: list[Tensor], orders: int) -> list[Tensor]:
    """Differentiate ``orders`` times, each time the sum of all gradients in random directions."""
    total = (run(*inputs) * rand(4, 7, seed=50)).sum()
    for order in range(orders):
        grads = torch.autograd.grad(total, inputs, create_graph=True, allow_unused=True)
        grads = [
            torch.zeros_like(i) if g is None else g for i, g in zip(inputs, grads, strict=True)
        ]
        total = sum(
            (grad * rand(*grad.shape, seed=60 + 3 * order + k)).sum()
            for k, grad in enumerate(grads)
        )
    return grads


@every_backend
@pytest.mark.parametrize("orders", [1, 2, 3, 4])
def test_reverse_mode_is_that_of_the_formula_at_every_order(backend, orders):
    run, dtype = in_backend(backend), torch.float64
    inputs = leaves(4, 7, dtype=dtype)
    ours = repeated(lambda x, w, b: run(x, (7,), w, b, 0.1), inputs, orders)
    exact = [leaf.detach().double().requires_grad_() for leaf in inputs]
    true = repeated(lambda x, w, b: formula.layer_norm(x, w, b, eps=0.1), exact, orders)
    # Values up to 1e3, and in float32 as many roundings on the way as there are orders.
    tolerance = 1e-11 if dtype == torch.float64 else 1e-5
    for a, b in zip(ours, true, strict=True):
        scale = max(1.0, b.abs().max().item())
        torch.testing.assert_close(a.double(), b, rtol=0, atol=tolerance * scale)


def test_second_order_of_a_frozen_weight_or_input_is_right():
    for frozen in range(3):
        inputs = leaves(4, 7)
        inputs[frozen].requires_grad_(False)
        asked = [tensor for tensor in inputs if tensor.requires_grad]
        results = []
        for run in (
            lambda x, w, b: layer_norm(x, (7,), w, b, 0.1),
            lambda x, w, b: formula.layer_norm(x, w, b, eps=0.1),
        ):
            dy = rand(4, 7, seed=3).requires_grad_()
            grads = torch.autograd.grad(run(*inputs), asked, dy, create_graph=True)
            total = sum((g * rand(*g.shape, seed=6)).sum() for g in grads)
            results.append(torch.autograd.grad(total, [*asked, dy], allow_unused=True))
        for a, b in zip(*results, strict=True):
            zero = torch.zeros((), dtype=torch.float64)
            assert_close(zero if a is None else a, zero if b is None else b)


def test_a_batch_of_upstream_gradients_gives_a_batch_of_gradients():
    inputs = leaves(4, 7)
    dys = rand(3, 4, 7, seed=3)
    y = layer_norm(inputs[0], (7,), *inputs[1:])
    batched = torch.autograd.grad(y, inputs, dys, is_grads_batched=True, retain_graph=True)
    for k, dy in enumerate(dys):
        single = torch.autograd.grad(y, inputs, dy, retain_graph=True)
        for many, one in zip(batched, single, strict=True):
            assert_close(many[k], one)


@scripting
def test_a_tangent_of_the_upstream_gradient_goes_through_the_backward_pass():
    inputs = leaves(4, 7)
    dy, tangent = rand(4, 7, seed=3), rand(4, 7, seed=4)
    y = layer_norm(inputs[0], (7,), *inputs[1:])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(dy, tangent)
        grads = torch.autograd.grad(y, inputs, dual, retain_graph=True)
        tangents = [forward_ad.unpack_dual(grad).tangent for grad in grads]
    expected = torch.autograd.grad(y, inputs, tangent)  # the backward pass is linear in dy
    for a, b in zip(tangents, expected, strict=True):
        assert_close(a, b)


@scripting
def test_torch_func_may_transform_a_backward_pass_of_a_graph_made_outside():
    inputs = leaves(4, 7)
    y = layer_norm(inputs[0], (7,), *inputs[1:])
    dy, tangent = rand(4, 7, seed=3), rand(4, 7, seed=4)

    def dx(v):
        return torch.autograd.grad(y, inputs[0], v, retain_graph=True)[0]

    expected = torch.autograd.grad(y, inputs[0], tangent, retain_graph=True)[0]
    assert_close(torch.func.jvp(dx, (dy,), (tangent,))[1], expected)
    assert_close(torch.func.vmap(dx)(torch.stack([dy, tangent]))[1], expected)


@pytest.mark.parametrize("exponent", [-40, 0, 40])
def test_a_float64_sum_over_rows_is_rounded_once_whatever_the_unit(exponent):
    rows = 2.0**exponent * rand(1001, 5)
    truth = [math.fsum(column) for column in rows.T.tolist()]
    assert closed_form.sum_rows(rows, torch.float64).tolist() == truth
