"""Whatever takes the steps, values and gradients are those of the equations, to any order."""

import copy
from contextlib import suppress

import pytest
import torch
from compiled import NEEDS_CPP
from lstm_cases import (
    BF16,
    CPP,
    EPS,
    F16,
    F32,
    F64,
    LOOP,
    assert_right,
    assert_same_bits,
    by_backend,
    by_formula,
    case,
    errors,
    every_carry,
    every_kernel,
    every_way,
    every_way_in_float64,
    rand,
    upstream,
    values_and_gradients,
)
from torch.autograd import forward_ad
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

import lnlib

ALL = [*case().named()]
PACKED = (5, 4, 4, 2, 1, 1)
# PyTorch's own, of the decompositions that forward mode compiles on first use.
scripting = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


def network(carry="raw", **options):
    """Return a layer that runs by the loop; no gamma is 1, and no bias 0."""
    torch.manual_seed(0)
    options = {"dtype": F64, "backend": "reference", "carry": carry, **options}
    made = lnlib.LayerNormLSTM(3, 4, **options)
    for parameter in made.parameters():
        parameter.data += rand(*parameter.shape, seed=parameter.numel()).to(parameter) / 2
    return made


# Values and first derivatives


def saturated(dtype):
    given = case((5, 4, 4), size=33, dtype=dtype)
    with torch.no_grad():
        given.weights.bias[::3] *= 1e4
    return given


CASES = {
    "one row, one step": lambda dtype: case((1,), dtype=dtype),
    "packed, no bias": lambda dtype: case(PACKED, bias=False, dtype=dtype),
    "many steps": lambda dtype: case((5, 4, *(3,) * 10), 13, 33, dtype=dtype),
    "saturated gates": saturated,
}
DTYPES = [LOOP, ("reference", F32), ("reference", BF16), ("reference", F16), CPP]


@pytest.mark.parametrize(("way", "dtype"), DTYPES)
@every_carry
@pytest.mark.parametrize("name", CASES)
def test_values_and_all_gradients_are_those_of_the_equations(name, carry, way, dtype):
    assert_right(CASES[name](dtype), carry, way, eps=0.5 if "no bias" in name else EPS)


@every_carry
def test_gradients_of_rows_without_spread_are_those_of_the_equations(carry):
    """Each norm has rows that are all of one number, and an rstd of 1 / sqrt(eps), or 316."""
    given = case((3, 3))
    with torch.no_grad():
        for tensor in (given.weights.ih, given.weights.hh, given.x[0], given.h):
            tensor.zero_()
        given.c.fill_(0.25)
    assert_right(given, carry, "reference")


@every_way
@every_carry
def test_strides_are_free(carry, way, dtype):
    """Every other column of a matrix for x, every other γ; one row, expanded, for states."""
    given = case((3, 3, 2))
    leaves = rand(8, 10), rand(1, 7), rand(1, 7), rand(7, 28), rand(56), rand(14), rand(14)

    def gradients(run, dtype):
        own = [leaf.to(dtype).requires_grad_() for leaf in leaves]
        wide, h, c, transposed, *gammas = own
        norms = zip(("norm_hh", "norm_c", "norm_c_bias"), gammas, strict=True)
        at = given.to(dtype)
        weights = at.weights._replace(hh=transposed.mT, **{n: gamma[::2] for n, gamma in norms})
        states = {"h": h.expand(3, 7), "c": c.expand(3, 7)}
        results = run(at._replace(x=wide[:, ::2], weights=weights, **states))
        # Gradients in strides of their own, too: columns first, and one number everywhere.
        dys = rand(*results[0].shape[::-1], seed=74).mT, *(rand(1).expand(3, 7) for _ in "hc")
        return dict(enumerate(torch.autograd.grad(results, own, [dy.to(dtype) for dy in dys])))

    found, truth = gradients(by_backend(carry, way), dtype), gradients(by_formula(carry), F64)
    assert max(errors(found, truth).values()) < 64 * torch.finfo(dtype).eps


# Derivatives of derivatives


def higher(run, given, order):
    """Return an ``order``-th derivative, along random directions.

    The input is itself computed from a weight, whose gradient is not to count that twice.
    """
    results = run(given._replace(x=given.x * given.weights.ih.sum()))
    found = sum((y * dy).sum() for y, dy in zip(results, upstream(results), strict=True))
    for seed in range(60, 60 + order):
        grads = torch.autograd.grad(found, given.leaves(), create_graph=True)
        found = sum((g * rand(*g.shape, seed=seed)).sum() for g in grads)
    return grads


@every_way_in_float64
@every_carry
@pytest.mark.parametrize(
    ("names", "order"), [(ALL, 2), (["x"], 3), (["norm_c"], 2), (["norm_c_bias"], 2)], ids=str
)
@pytest.mark.parametrize("sizes", [(3,), (5, 4, 2, 1)], ids=str)
def test_higher_derivatives_are_those_of_the_equations(sizes, names, order, carry, way, dtype):
    """PyTorch's own third derivative of layer norm is wrong, with nothing to say so.

    After one step the raw cell depends on no gamma of its norm, and has no gradient at all.
    """
    given = case(sizes, input_size=2, size=3, dtype=dtype)
    for name, tensor in given.named().items():
        tensor.requires_grad_(name in names)
    ways = by_backend(carry, way, eps=0.01), by_formula(carry, eps=0.01)
    found, expected = (higher(run, given, order) for run in ways)
    # condition: rstd to the order
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


@every_way_in_float64
def test_many_gradients_at_once_are_each_the_single_one(way, dtype):
    given = case((3, 2, 2), dtype=dtype)
    results, wanted = by_backend("normalized", way)(given), given.leaves()
    dys = [rand(4, *y.shape, seed=63 + n) for n, y in enumerate(results)]
    batched = torch.autograd.grad(results, wanted, dys, is_grads_batched=True, retain_graph=True)
    assert not any(grad.requires_grad for grad in batched)
    for number in range(4):
        one = [dy[number] for dy in dys]
        single = torch.autograd.grad(results, wanted, one, retain_graph=True)
        for found, expected in zip(batched, single, strict=True):
            torch.testing.assert_close(found[number], expected, rtol=1e-10, atol=1e-12)


# What autograd asks of a Function


@every_kernel
@every_carry
def test_going_back_twice_gives_the_same_bits_and_leaves_what_was_given(carry, way, dtype):
    given = case((5, 3, 3, 1), dtype=dtype)
    results = by_backend(carry, way)(given)
    dys = upstream(results)
    before = copy.deepcopy([*given.named().values(), *(y.detach() for y in results), *dys])
    grads = [torch.autograd.grad(results, given.leaves(), dys, retain_graph=True) for _ in "12"]
    assert_same_bits(*grads)
    assert_same_bits([*given.named().values(), *results, *dys], before)


@every_kernel
@pytest.mark.parametrize("name", ["outputs", "x", "weight"])
def test_what_the_gradient_needs_must_not_be_changed_in_place(name, way, dtype):
    given = case((3, 3), dtype=dtype)
    outputs, _, _ = by_backend("raw", way)(given)
    with torch.no_grad():
        {"outputs": outputs, "x": given.x, "weight": given.weights.hh}[name].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()


@every_way
def test_the_last_states_may_be_changed_in_place(way, dtype):
    """A loop over pieces of a sequence does that when it resets some rows, or cuts them off."""
    given = case((3,), dtype=dtype)
    outputs, h, c = results = by_backend("raw", way)(given)
    dy, dh, dc = upstream(results)
    expected = torch.autograd.grad(results, given.x, (dy, dh, dc), retain_graph=True)
    results = outputs, h.mul_(2), c.mul_(2)
    assert_same_bits(torch.autograd.grad(results, given.x, (dy, dh / 2, dc / 2)), expected)
    module = lnlib.LayerNormLSTM(3, 4, dtype=dtype, backend=way)
    for state in module(rand(3, 2, 3).to(dtype))[1]:
        state.detach_().add_(1)


FROZEN = [["x"], ["h"], ["c"], ["ih"], ["hh"], ["bias"], ["norm_c_bias"], ALL[3:]]
FROZEN += [[name for name in ALL if name != last] for last in ("ih", "norm_c_bias")]


@every_kernel
@pytest.mark.parametrize("names", FROZEN, ids=lambda names: "+".join(names[:2]))
def test_what_is_frozen_gets_no_gradient_and_the_others_keep_their_bits(names, way, dtype):
    given, run = case((3, 1), dtype=dtype), by_backend("raw", way)
    expected = values_and_gradients(run, given)
    for name in names:
        given.named()[name].requires_grad_(False)
        del expected[f"d{name}"]
    found = values_and_gradients(run, given)
    assert found.keys() == expected.keys()
    assert_same_bits(list(found.values()), list(expected.values()))


@every_way
def test_without_a_gradient_wanted_the_numbers_are_the_same_and_nothing_is_kept(way, dtype):
    given, run = case((3, 2), dtype=dtype), by_backend("raw", way)
    expected, found = run(given), []
    with torch.no_grad():
        found += run(given)
    with torch.inference_mode():
        found += run(given)
        with torch.enable_grad():
            found += run(given.mapped(lambda tensor: tensor * 1))
    for tensor in given.leaves():
        tensor.requires_grad_(False)
    found += run(given)
    assert_same_bits(found, expected * 4)
    assert all(y.grad_fn is None for y in found)


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize(("way", "dtype"), [LOOP, CPP])
def test_a_checkpointed_module_has_the_same_gradient(use_reentrant, way, dtype):
    module = network(num_layers=2, dtype=dtype, backend=way)
    x, dy = rand(3, 2, 3, seed=1).to(dtype).requires_grad_(), rand(3, 2, 4, seed=2).to(dtype)
    wanted = [x, *module.parameters()]
    expected = torch.autograd.grad(module(x)[0], wanted, dy)
    checkpoint(lambda x: module(x)[0], x, use_reentrant=use_reentrant).backward(dy)
    assert_same_bits([tensor.grad for tensor in wanted], expected)


HOOKS = {
    "other strides": (lambda t: torch.stack((t, -t), -1), lambda pair: pair[..., 0]),
    "cut": (lambda t: t, lambda t: t[:1].clone() if t.ndim == 2 and t.shape[1] == 1 else t),
}


@pytest.mark.parametrize("name", HOOKS)
@every_way
def test_gradients_are_right_whatever_hooks_make_of_statistics(name, way, dtype):
    module = network(dtype=dtype, backend=way)
    x = rand(3, 4, 3).to(dtype).requires_grad_()
    (expected,) = torch.autograd.grad(module(x)[0].sum(), x)
    with torch.autograd.graph.saved_tensors_hooks(*HOOKS[name]):
        outputs = module(x)[0]
    (found,) = torch.autograd.grad(outputs.sum(), x)
    close = 64 * torch.finfo(dtype).eps
    torch.testing.assert_close(found, expected, rtol=close, atol=close)


@NEEDS_CPP
def test_a_profiler_shows_both_passes():
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        lnlib.LayerNormLSTM(3, 4)(torch.ones(3, 2, 3))[0].sum().backward()
    names = {event.name for event in recorded.events()}
    assert {"lnlib::lstm", "lnlib::lstm_backward"} <= names


# PyTorch's other ways to differentiate, through the module


def loss(module, x):
    output, (h, c) = module(x)
    return (output * rand(*output.shape, seed=80)).sum() + (h * c).sum()


@scripting
@every_carry
def test_torch_func_and_tangents_agree_with_autograd(carry):
    module, x, tangent = network(carry), rand(3, 2, 3, seed=1), rand(3, 2, 3, seed=2)
    parameters = dict(module.named_parameters())

    def of(x, parameters):
        return loss(lambda x: torch.func.functional_call(module, parameters, (x,)), x)

    def check(found, expected):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)

    leaf = x.clone().requires_grad_()
    dx, *expected = torch.autograd.grad(loss(module, leaf), [leaf, *parameters.values()])
    found = torch.func.grad(of, argnums=(0, 1))(x, parameters)
    check([found[0], *found[1].values()], [dx, *expected])
    mapped = torch.func.vmap(lambda x: module(x)[0])(torch.stack([x, 2 * x, -x]))
    check(mapped[1], module(2 * x)[0])
    _, found = torch.func.jvp(lambda x: loss(module, x), (x,), (tangent,))
    check(found, (dx * tangent).sum())
    with forward_ad.dual_level():
        dual = loss(module, forward_ad.make_dual(x, tangent))
        check(forward_ad.unpack_dual(dual).tangent, (dx * tangent).sum())


@scripting
@every_way_in_float64
def test_a_tangent_of_what_arrives_is_passed_back(way, dtype):
    """The gradient is linear in what arrives, so its tangent is the gradient of the tangent."""
    given = case((2, 2), dtype=dtype)
    outputs, _, _ = by_backend("raw", way)(given)
    dy, tangent = (rand(*outputs.shape, seed=s) for s in (81, 82))
    [expected] = torch.autograd.grad(outputs, given.x, tangent, retain_graph=True)
    with forward_ad.dual_level():
        [dx] = torch.autograd.grad(outputs, given.x, forward_ad.make_dual(dy, tangent))
        found = forward_ad.unpack_dual(dx).tangent
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore")  # Dynamo's and AOTAutograd's own
@every_carry
def test_a_compiled_module_agrees_with_the_eager_one(carry):
    module = network(carry)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    x, h, c = (rand(n, 2, f, seed=n).requires_grad_() for n, f in ((2, 3), (1, 4), (1, 4)))

    def run(call):
        output, last = call(x, (h, c))
        results = output, *last
        return *results, *torch.autograd.grad(
            results, [x, h, c, *module.parameters()], upstream(results)
        )

    torch.testing.assert_close(run(compiled), run(module), rtol=0, atol=1e-12)


# Autocast


def test_under_autocast_it_runs_in_its_dtype_as_pytorchs_lstm_does():
    ours = network(dtype=F32)
    x, dy = rand(3, 2, 3, seed=1).float().requires_grad_(), rand(3, 2, 4, seed=2)
    with torch.autocast("cpu", BF16):
        output, states = ours(x)
        # PyTorch's LSTMCell gives float32 here; ours has one rule for both modules.
        states_of_cell = lnlib.LayerNormLSTMCell(3, 4)(x[0])
        with suppress(RuntimeError):  # oneDNN has no LSTM of bfloat16 for some processors
            assert torch.nn.LSTM(3, 4)(x)[0].dtype == BF16
    assert {each.dtype for each in (output, *states, *states_of_cell)} == {BF16}
    grads = torch.autograd.grad(output, [x, *ours.parameters()], dy.bfloat16())
    assert {grad.dtype for grad in grads} == {F32}
    exact, doubled = x.detach().double().requires_grad_(), copy.deepcopy(ours).double()
    truth = torch.autograd.grad(doubled(exact)[0], [exact, *doubled.parameters()], dy)
    worst = errors(dict(enumerate(grads)), dict(enumerate(truth)))
    assert max(worst.values()) < 64 * torch.finfo(BF16).eps


def test_autocast_leaves_float64_alone_and_takes_no_other_dtype():
    with torch.autocast("cpu", BF16):
        assert network()(rand(4, 3, 3))[0].dtype == F64
        for module, x in ((network(dtype=F32), rand(4, 3, 3)), (network(), rand(4, 3, 3).float())):
            with pytest.raises(RuntimeError, match="input must be torch"):
                module(x)
