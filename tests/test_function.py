"""The closed-form backward: right, to any order; saves little; asks for little; changes nothing."""

import itertools
import math
import weakref

import pytest
import torch
import torch.nn.functional as F
from bench_memory import peak_bytes
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from lnlib import formula, function, reference
from lnlib.function import layer_norm

# Largest error against the float64 formula, for gradients up to 60, near 10 for most.
TOLERANCE = {
    torch.float16: 2e-2,  # half a unit in the last place, at 32
    torch.bfloat16: 1.5e-1,  # the same
    torch.float32: 2e-6,  # the same: the arithmetic is in float64
    torch.float64: 1e-12,  # a few hundred roundings, near 1e-16 each, and rstd up to 40
}
FLOATS = list(TOLERANCE)
NAMES = ("input", "weight", "bias")
MEMORY = 1.10  # times PyTorch's peak: what the issue allows

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
        composed = reference.layer_norm(x, normalized_shape, *parameters, 0.1)
        assert torch.equal(ours, composed)
        assert ours.is_contiguous()
        assert ours.dtype == dtype


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("wanted", list(itertools.product((True, False), repeat=3)))
@pytest.mark.parametrize("given", list(itertools.product((True, False), repeat=2)))
def test_exactly_the_gradients_asked_for_are_there_and_right(dtype, wanted, given):
    H, rows = 7, 5
    values = [3 + rand(rows, H), *(rand(H, seed=seed) for seed in (1, 2))]
    inputs = [
        value.to(dtype).requires_grad_(want) if present else None
        for value, want, present in zip(values, wanted, (True, *given), strict=True)
    ]
    dy = rand(rows, H, seed=3).to(dtype)
    y = layer_norm(inputs[0], (H,), *inputs[1:], 0.1)
    asked = {
        name: tensor
        for name, tensor in zip(NAMES, inputs, strict=True)
        if tensor is not None and tensor.requires_grad
    }
    assert y.requires_grad == bool(asked)
    if not asked:
        return
    seen: list[tuple[Tensor | None, ...]] = []
    y.grad_fn.register_hook(lambda grads, _: seen.append(grads))
    y.backward(dy)
    present = [name for name, tensor in zip(NAMES, inputs, strict=True) if tensor is not None]
    returned = dict(zip(present, seen[0], strict=True))
    assert {name for name, grad in returned.items() if grad is not None} == set(asked)
    expected = truth_of(inputs, dy, eps=0.1)
    for name, tensor in asked.items():
        assert (returned[name].dtype, returned[name].shape) == (dtype, tensor.shape)
        assert_close(returned[name], expected[name], dtype)


@pytest.mark.parametrize("compute", [function.gradients, function.gradients_in_blocks])
@pytest.mark.parametrize("needs", list(itertools.product((True, False), repeat=3)))
def test_no_gradient_is_computed_that_nobody_needs(compute, needs):
    x, weight, _ = (leaf.detach() for leaf in leaves(5, 7))
    statistics = formula.terms(x)
    grads = compute(rand(5, 7, seed=3), x, statistics.mean, statistics.rstd, weight, needs)
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


@pytest.mark.parametrize("normalized_shape", [(7,), (5, 7), (3, 5, 7), (2, 3, 5, 7)])
def test_any_trailing_dimensions_can_be_normalized(normalized_shape):
    x = rand(2, 3, 5, 7).requires_grad_()
    weight, bias = (rand(*normalized_shape, seed=s).requires_grad_() for s in (1, 2))
    dy = rand(2, 3, 5, 7, seed=3)
    results = [
        torch.autograd.grad(run(), (x, weight, bias), dy)
        for run in (
            lambda: layer_norm(x, normalized_shape, weight, bias),
            lambda: formula.layer_norm(x, weight, bias, normalized_shape=normalized_shape),
        )
    ]
    for grad, expected in zip(*results, strict=True):
        assert grad.shape == expected.shape
        assert_close(grad, expected)


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


def test_two_layers_each_keep_their_own_weight_and_eps():
    x, gamma, beta = leaves(5, 7)
    other = (rand(7, seed=4) + 2).requires_grad_()
    dy = rand(5, 7, seed=3)
    inputs = (x, gamma, beta, other)
    ours = layer_norm(layer_norm(x, (7,), gamma, beta, 0.5), (7,), other, None, 1e-3)
    true = formula.layer_norm(formula.layer_norm(x, gamma, beta, eps=0.5), other, eps=1e-3)
    grads = (torch.autograd.grad(y, inputs, dy) for y in (ours, true))
    for grad, expected in zip(*grads, strict=True):
        assert_close(grad, expected)


# Blocks of rows


@pytest.fixture
def blocks_of_three(monkeypatch):
    """Cut 7-feature inputs every third row, and poison memory that nobody has written yet."""
    monkeypatch.setattr(function, "BLOCK_ON_CPU", 3 * 7 + 6)
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("blocks_of_three")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 6, 7, 20])
def test_rows_in_several_blocks_give_the_same(dtype, rows):
    inputs = leaves(rows, 7, dtype=dtype)
    dy = rand(rows, 7, seed=3).to(dtype)
    y = layer_norm(inputs[0], (7,), *inputs[1:])
    assert torch.equal(y, reference.layer_norm(inputs[0], (7,), *inputs[1:]))
    expected = truth_of(inputs, dy)
    for name, grad in zip(NAMES, torch.autograd.grad(y, inputs, dy), strict=True):
        assert_close(grad, expected[name], dtype)


def test_a_row_longer_than_a_block_is_one_block(monkeypatch):
    monkeypatch.setattr(function, "BLOCK_ON_CPU", 5)
    inputs, dy = leaves(3, 7), rand(3, 7, seed=3)
    expected = truth_of(inputs, dy)
    grads = torch.autograd.grad(layer_norm(inputs[0], (7,), *inputs[1:]), inputs, dy)
    for name, grad in zip(NAMES, grads, strict=True):
        assert_close(grad, expected[name])


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


@pytest.mark.parametrize("layout", ["strided", "transposed", "expanded", "one value"])
@pytest.mark.parametrize("of", ["x", "dy", "both"])
def test_strides_change_no_bit_of_any_gradient(layout, of):
    view = {
        "strided": rand(6, 14, seed=5)[:, ::2],
        "transposed": rand(7, 6, seed=5).t(),
        "expanded": rand(6, 1, seed=5).expand(6, 7),
        "one value": rand(1, 1, seed=5).expand(6, 7),
    }[layout]
    _, weight, bias = leaves(6, 7)
    results = []
    for shape in (lambda t: t, lambda t: t.contiguous()):
        x = shape(view if of in ("x", "both") else rand(6, 7)).detach().requires_grad_()
        dy = shape(view if of in ("dy", "both") else rand(6, 7, seed=3))
        y = layer_norm(x, (7,), weight, bias)
        results.append([y, *torch.autograd.grad(y, (x, weight, bias), dy)])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
        assert one.is_contiguous()


@pytest.mark.parametrize("dtype", FLOATS)
def test_x_dy_and_the_parameters_are_left_as_they_are(dtype):
    inputs, dy = leaves(5, 7, dtype=dtype), rand(5, 7, seed=3).to(dtype)
    before = [tensor.detach().clone() for tensor in (*inputs, dy)]
    torch.autograd.grad(layer_norm(inputs[0], (7,), *inputs[1:]), inputs, dy)
    for tensor, kept in zip((*inputs, dy), before, strict=True):
        assert torch.equal(tensor, kept)


KEPT = {
    (True, True, True): ["x", "mean", "rstd", "weight"],
    (True, False, False): ["x", "mean", "rstd", "weight"],
    (False, True, True): ["x", "mean", "rstd"],
    (False, True, False): ["x", "mean", "rstd"],
    (False, False, True): [],
    (False, False, False): [],
}


@pytest.mark.parametrize("wanted", KEPT)
@pytest.mark.parametrize("dtype", FLOATS)
def test_it_keeps_x_mean_rstd_and_weight_as_far_as_they_are_needed(dtype, wanted):
    inputs = [
        t.detach().requires_grad_(w) for t, w in zip(leaves(5, 7, dtype=dtype), wanted, strict=True)
    ]
    x, weight, _ = inputs
    kept = []
    with saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        layer_norm(x, (7,), *inputs[1:])
    wide = reference.statistics_dtype(dtype, x.device)
    terms = formula.terms(x.detach())
    expected = {"x": x, "weight": weight, "mean": terms.mean, "rstd": terms.rstd}
    assert len(kept) == len(KEPT[wanted])
    for tensor, name in zip(kept, KEPT[wanted], strict=True):
        if name in ("x", "weight"):
            assert tensor.data_ptr() == expected[name].data_ptr()  # itself, not a copy
        else:
            assert (tensor.shape, tensor.dtype) == ((5, 1), wide)
            rtol = 4 * torch.finfo(wide).eps
            torch.testing.assert_close(tensor.double(), expected[name], rtol=rtol, atol=0)


def test_without_weight_it_keeps_only_x_and_the_statistics():
    kept = []
    with saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        layer_norm(rand(5, 7).requires_grad_(), (7,))
    assert [tuple(tensor.shape) for tensor in kept] == [(5, 7), (5, 1), (5, 1)]


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_nothing_is_kept_where_no_gradient_can_be_asked_for(context):
    inputs = leaves(5, 7)
    kept = []
    with (
        context(),
        saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor),
    ):
        y = layer_norm(inputs[0], (7,), *inputs[1:])
    assert kept == []
    assert not y.requires_grad


def test_y_dies_when_the_caller_lets_it_go():
    x, weight, bias = leaves(5, 7)
    y = layer_norm(x, (7,), weight, bias)
    loss, gone = (2 * y).sum(), weakref.ref(y)
    del y
    assert gone() is None
    loss.backward()


@pytest.mark.parametrize("changed", ["x", "weight"])
def test_a_change_in_place_before_the_backward_pass_raises(changed):
    x, weight, bias = leaves(5, 7)
    y = layer_norm(x, (7,), weight, bias)
    with torch.no_grad():
        {"x": x, "weight": weight}[changed].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(y, x, rand(5, 7, seed=3))


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 8), (0, 8)])
def test_what_comes_out_may_be_changed_in_place(shape):
    x = rand(*shape, dtype=torch.float64).requires_grad_()
    dy = rand(*shape, seed=3, dtype=torch.float64)
    gradients = []
    for run in (layer_norm, F.layer_norm):
        y = run(x, (8,))
        y += 1
        torch.relu_(y)
        gradients += torch.autograd.grad(y, x, dy)
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


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


@pytest.mark.parametrize("shape", [(0, 7), (3, 0, 7), (3, 0)])
@pytest.mark.parametrize("create_graph", [True, False])
def test_nothing_in_gives_nothing_out_and_zero_to_the_parameters(shape, create_graph):
    inputs = leaves(*shape)
    y = layer_norm(inputs[0], shape[-1:], *inputs[1:])
    grads = torch.autograd.grad(y, inputs, rand(*shape), create_graph=create_graph)
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
    assert ours - 2 * size <= 16 * shape[0] + 6 * 8 * function.BLOCK_ON_CPU


def test_the_gradient_of_bias_alone_takes_scratch_memory_for_a_block():
    x, bias, dy = (rand(*s, dtype=torch.float32) for s in ((4096, 1024), (1024,), (4096, 1024)))
    bias.requires_grad_()
    y = layer_norm(x, (1024,), None, bias)
    (dbias,) = torch.autograd.grad(y, bias, dy, retain_graph=True)
    torch.testing.assert_close(dbias.double(), dy.double().sum(0), rtol=0, atol=1e-5)
    taken = peak_bytes(lambda: torch.autograd.grad(y, bias, dy))
    assert taken <= 2 * 8 * function.BLOCK_ON_CPU < dy.nbytes / 8


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


@pytest.mark.parametrize("orders", [1, 2, 3, 4])
def test_reverse_mode_is_that_of_the_formula_at_every_order(orders):
    inputs = leaves(4, 7)
    ours = repeated(lambda x, w, b: layer_norm(x, (7,), w, b, 0.1), inputs, orders)
    true = repeated(lambda x, w, b: formula.layer_norm(x, w, b, eps=0.1), inputs, orders)
    for a, b in zip(ours, true, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)  # values up to 1e3


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


@pytest.mark.parametrize("vectorize", [True, False])
def test_jacobian_and_hessian_of_autograd_functional_are_right(vectorize):
    x, weight, bias = (leaf.detach() for leaf in leaves(2, 5))

    def ours(v):
        return layer_norm(v, (5,), weight, bias)

    def true(v):
        return formula.layer_norm(v, weight, bias)

    jacobian = torch.autograd.functional.jacobian
    assert_close(jacobian(ours, x, vectorize=vectorize), jacobian(true, x))
    hessians = [
        torch.autograd.functional.hessian(lambda v, run=run: run(v).pow(3).sum(), x, vectorize=many)
        for run, many in ((ours, vectorize), (true, False))
    ]
    torch.testing.assert_close(*hessians, rtol=1e-11, atol=1e-11)


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
    assert function.sum_rows(rows, torch.float64).tolist() == truth
