"""The gradient derived by hand is that of the equations, for every argument and to any order."""

import copy

import pytest
import torch
from compiled import NEEDS_CPP
from lstm_cases import (
    CARRIES,
    by_backend,
    by_formula,
    by_torchs_loop,
    case,
    errors,
    mean_error,
    rand,
    upstream,
    values_and_gradients,
)
from torch.autograd import forward_ad
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

import lnlib
from lnlib.lstm import formula
from lnlib.triton_kernel import runtime

# Largest error of each result, as a part of its largest number, in units of the dtype's eps. Some
# rounding of each step is carried on to the next ones: up to 15 were seen. In float64 the truth is
# itself rounded.
ROUNDINGS = 64
SIZES = {
    "one row, one step": (1,),
    "one step": (3,),
    "equal lengths": (3, 3, 3, 3),
    "packed": (5, 4, 4, 2, 1, 1),
    "one row": (1, 1, 1),
}
every_size = pytest.mark.parametrize("sizes", list(SIZES.values()), ids=list(SIZES))
every_carry = pytest.mark.parametrize("carry", CARRIES)
NEEDS_TRITON = pytest.mark.skipif(runtime.why_not() is not None, reason="no Triton")
TRITON = pytest.param("triton", marks=NEEDS_TRITON)
# In float64: the loop, and one of the two kernels; the other, in C++, is of float32.
every_way = pytest.mark.parametrize("way", ["reference", TRITON])
WAYS = ["reference", pytest.param("cpp", marks=NEEDS_CPP), TRITON]
# PyTorch's own, of the decompositions that forward mode compiles on first use.
scripting = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


def check(found, expected, dtype=torch.float64):
    worst = errors(found, expected)
    assert max(worst.values()) < ROUNDINGS * torch.finfo(dtype).eps, worst


def against_formula(given, carry, way, dtype=torch.float64):
    """Compare a way to run ``given`` in ``dtype`` to the equations in float64."""
    given = given.to(dtype)
    truth = values_and_gradients(by_formula(carry), given.to(torch.float64))
    check(values_and_gradients(by_backend(carry, way), given), truth, dtype)


def network(carry="raw", **options):
    torch.manual_seed(0)
    made = lnlib.LayerNormLSTM(
        3, 4, dtype=torch.float64, carry=carry, backend="reference", **options
    )
    for parameter in made.parameters():
        parameter.data += rand(*parameter.shape, seed=parameter.numel()) / 2
    return made


def states(layers=1, rows=2, size=4):
    return tuple(rand(layers, rows, size, seed=s).requires_grad_() for s in (40, 41))


# Values and first derivatives


@every_size
@every_carry
@pytest.mark.parametrize("bias", [True, False])
def test_outputs_states_and_all_gradients_are_those_of_the_equations(sizes, carry, bias):
    against_formula(case(sizes, bias=bias), carry, "reference")


@every_carry
@pytest.mark.parametrize("only", [0, 1, 2])
@NEEDS_TRITON
def test_a_gradient_that_arrives_at_one_result_alone_is_passed_on(carry, only):
    given = case((4, 3, 3, 1))
    results = by_backend(carry, "triton")(given)
    truth = by_formula(carry)(given)
    dy = rand(*results[only].shape, seed=50)
    found = torch.autograd.grad(results[only], given.leaves(), dy)
    expected = torch.autograd.grad(truth[only], given.leaves(), dy, allow_unused=True)
    for a, b in zip(found, expected, strict=True):
        b = torch.zeros_like(a) if b is None else b
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


@every_carry
@pytest.mark.parametrize("shape", [(1, 2, 3), (3, 2, 3)], ids=["T=1", "T=3"])
def test_gradcheck_passes_for_x_the_states_and_every_parameter(carry, shape):
    module = network(carry, num_layers=2)
    names = list(dict(module.named_parameters()))

    def run(x, h, c, *parameters):
        given = dict(zip(names, parameters, strict=True))
        output, last = torch.func.functional_call(module, given, (x, (h, c)))
        return output, *last

    inputs = rand(*shape, seed=1).requires_grad_(), *states(2), *module.parameters()
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)


@every_carry
def test_gradcheck_passes_for_the_cell(carry):
    torch.manual_seed(0)
    module = lnlib.LayerNormLSTMCell(3, 4, dtype=torch.float64, carry=carry, backend="reference")
    names = list(dict(module.named_parameters()))

    def run(x, h, c, *parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(module, given, (x, (h, c)))

    for rows in ((), (2,)):
        tensors = (rand(*rows, n, seed=n).requires_grad_() for n in (3, 4, 4))
        assert torch.autograd.gradcheck(run, (*tensors, *module.parameters()), fast_mode=True)


@every_way
@every_carry
def test_gradgradcheck_passes_through_inputs_and_weights(carry, way):
    given = case((2, 1), input_size=3, size=2)
    run = by_backend(carry, way)
    tensors = given.leaves()

    def outputs(*leaves):
        x, h, c, *weights = leaves
        return run(given._replace(x=x, h=h, c=c, weights=formula.Weights(*weights)))

    assert torch.autograd.gradgradcheck(outputs, tensors, fast_mode=True)


# Derivatives of derivatives


def second(run, given, wanted):
    """Return what the gradient of x, projected on a random direction, depends on."""
    results = run(given)
    [dx] = torch.autograd.grad(results, given.x, upstream(results), create_graph=True)
    return torch.autograd.grad((dx * rand(*dx.shape, seed=60)).sum(), wanted)


@every_way
@every_carry
@every_size
def test_a_second_derivative_reaches_the_weights(carry, sizes, way):
    given = case(sizes)
    wanted = [given.x, given.weights.hh, given.weights.norm_c, given.weights.ih]
    found = second(by_backend(carry, way), given, wanted)
    for a, b in zip(found, second(by_formula(carry), given, wanted), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)  # condition: rstd twice


@every_way
def test_a_third_derivative_is_that_of_the_equations(way):
    """PyTorch's own of layer norm is wrong, with nothing to say so."""
    given = case((2, 2), input_size=2, size=3)

    def third(run):
        results = run(given)
        found = sum((y * dy).sum() for y, dy in zip(results, upstream(results), strict=True))
        for seed in range(3):
            [dx] = torch.autograd.grad(found, given.x, create_graph=True)
            found = (dx * rand(*dx.shape, seed=64 + seed)).sum()
        return dx

    expected = third(by_formula("raw"))
    torch.testing.assert_close(third(by_backend("raw", way)), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("way", WAYS)
def test_eps_reaches_all_norms(way):
    dtype = torch.float32 if way == "cpp" else torch.float64
    given = case((3, 2), dtype=dtype)
    truth = values_and_gradients(by_formula("raw", 0.5), given.to(torch.float64))
    check(values_and_gradients(by_backend("raw", way, 0.5), given), truth, dtype)


@every_carry
@NEEDS_TRITON
def test_an_input_that_is_computed_from_a_weight_is_counted_once(carry):
    """Its part is autograd's to add; the Function's gradient of the weight is without it."""
    given = case((2, 2))
    W = given.weights.ih

    def run(kind):
        x = given.x * W.sum()
        results = kind(given._replace(x=x))
        [dW] = torch.autograd.grad(results, W, upstream(results), create_graph=True)
        return dW, *torch.autograd.grad((dW * rand(*dW.shape, seed=61)).sum(), [given.x, W])

    pairs = zip(run(by_backend(carry, "triton")), run(by_formula(carry)), strict=True)
    for found, expected in pairs:
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


@every_way
@pytest.mark.parametrize("name", ["norm_c", "norm_c_bias", "norm_hh"])
@pytest.mark.parametrize("sizes", [(2,), (2, 2)])
def test_the_gradient_of_one_weight_alone_can_be_differentiated(name, sizes, way):
    """After one step the raw cell depends on no gamma of its norm, and has no gradient at all."""
    given = case(sizes)
    for tensor in given.leaves():
        tensor.requires_grad_(False)
    weight = getattr(given.weights, name).requires_grad_()

    def run(kind):
        results = kind(given)
        total = sum((y * dy).sum() for y, dy in zip(results, upstream(results), strict=True))
        [dw] = torch.autograd.grad(total, weight, create_graph=True)
        return dw, *torch.autograd.grad((dw * rand(*dw.shape, seed=62)).sum(), weight)

    pairs = zip(run(by_backend("raw", way)), run(by_formula("raw")), strict=True)
    for found, expected in pairs:
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-11)


@every_way
@every_carry
def test_many_gradients_at_once_are_each_the_single_one(carry, way):
    given = case((3, 2, 2))
    results = by_backend(carry, way)(given)
    dys = [rand(4, *y.shape, seed=63 + n) for n, y in enumerate(results)]
    wanted = given.leaves()
    batched = torch.autograd.grad(results, wanted, dys, is_grads_batched=True, retain_graph=True)
    assert not any(grad.requires_grad for grad in batched)
    for number in range(4):
        one = [dy[number] for dy in dys]
        for found, expected in zip(
            batched, torch.autograd.grad(results, wanted, one, retain_graph=True), strict=True
        ):
            torch.testing.assert_close(found[number], expected, rtol=1e-10, atol=1e-12)


# What autograd asks of a Function


@every_carry
@NEEDS_TRITON
def test_going_back_twice_gives_the_same_bits(carry):
    given = case((3, 3, 2))
    results = by_backend(carry, "triton")(given)
    dys = upstream(results)
    first = torch.autograd.grad(results, given.leaves(), dys, retain_graph=True)
    again = torch.autograd.grad(results, given.leaves(), dys)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@NEEDS_TRITON
def test_neither_inputs_nor_gradients_that_arrive_are_written_to():
    given = case((3, 3, 2))
    results = by_backend("raw", "triton")(given)
    dys = upstream(results)
    kept = given.to(torch.float64), copy.deepcopy(dys)
    torch.autograd.grad(results, given.leaves(), dys)
    for found, expected in ((given.tensors(), kept[0].tensors()), (dys, kept[1])):
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@NEEDS_TRITON
@pytest.mark.parametrize("name", ["outputs", "x", "weight"])
def test_what_the_gradient_needs_must_not_be_changed_in_place(name):
    given = case((3, 3))
    outputs, _, _ = by_backend("raw", "triton")(given)
    changed = {"outputs": outputs, "x": given.x, "weight": given.weights.hh}[name]
    with torch.no_grad():
        changed.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()


@NEEDS_TRITON
def test_the_last_states_may_be_changed_in_place():
    """A loop over pieces of a sequence does that when it resets some rows."""
    given = case((3,))
    truth = values_and_gradients(by_formula("raw"), given)
    outputs, h, c = by_backend("raw", "triton")(given)
    dys = upstream((outputs, h, c))
    h2, c2 = h.mul_(2), c.mul_(2)
    found = torch.autograd.grad((outputs, h2, c2), given.x, [dys[0], dys[1] / 2, dys[2] / 2])
    torch.testing.assert_close(found[0], truth["dx"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("frozen", ["x", "h", "c", "ih", "hh", "bias", "norm_c_bias"])
@NEEDS_TRITON
def test_what_needs_no_gradient_gets_none_and_the_others_are_unchanged(frozen):
    given = case((3, 2))
    truth = values_and_gradients(by_formula("raw"), given)
    tensor = getattr(given, frozen, None)
    tensor = getattr(given.weights, frozen) if tensor is None else tensor
    tensor.requires_grad_(False)
    found = values_and_gradients(by_backend("raw", "triton"), given)
    del truth[f"d{frozen}"]
    check(found, truth)


@NEEDS_TRITON
def test_without_a_gradient_wanted_nothing_is_kept():
    given = case((3, 2))
    with torch.no_grad():
        silent = by_backend("raw", "triton")(given)
    for tensor in given.leaves():
        tensor.requires_grad_(False)
    frozen = by_backend("raw", "triton")(given)
    for results in (silent, frozen):
        assert all(y.grad_fn is None and not y.requires_grad for y in results)
    loud = by_backend("raw", "triton")(case((3, 2)))
    assert all(torch.equal(a, b) for a, b in zip(silent, loud, strict=True))


@every_carry
@pytest.mark.parametrize("way", WAYS)
def test_strides_are_free(carry, way):
    """Every other column of a matrix for x, every other γ; one row, expanded, for states."""
    dtype = torch.float32 if way == "cpp" else torch.float64
    given = case((3, 3, 2), input_size=5)
    wide = rand(8, 10, seed=70)
    row_h, row_c, transposed = rand(1, 7, seed=71), rand(1, 7, seed=72), rand(7, 28, seed=73)
    gammas = [rand(2 * 28, seed=75), rand(2 * 7, seed=76), rand(2 * 7, seed=77)]
    leaves = [wide, row_h, row_c, transposed, *gammas]

    def run(kind, dtype):
        wide, row_h, row_c, transposed, *gammas = own = [
            leaf.to(dtype).requires_grad_() for leaf in leaves
        ]
        states = row_h.expand(3, 7), row_c.expand(3, 7)
        strided = dict(
            zip(("norm_hh", "norm_c", "norm_c_bias"), (g[::2] for g in gammas), strict=True)
        )
        at = given.to(dtype)
        weights = at.weights._replace(hh=transposed.mT, **strided)
        results = kind(at._replace(x=wide[:, ::2], h=states[0], c=states[1], weights=weights))
        # Gradients in strides of their own, too: columns first, and one number everywhere.
        dys = rand(*results[0].shape[::-1], seed=74).mT, *(rand(1).expand(3, 7) for _ in "hc")
        return torch.autograd.grad(results, own, [dy.to(dtype) for dy in dys])

    found, expected = run(by_backend(carry, way), dtype), run(by_formula(carry), torch.float64)
    check(dict(enumerate(found)), dict(enumerate(expected)), dtype)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_checkpointed_module_has_the_same_gradient(use_reentrant):
    module = network(num_layers=2)
    x = rand(3, 2, 3, seed=1).requires_grad_()
    dy = rand(3, 2, 4, seed=2)
    wanted = [x, *module.parameters()]
    expected = torch.autograd.grad(module(x)[0], wanted, dy)
    checkpoint(lambda x: module(x)[0], x, use_reentrant=use_reentrant).backward(dy)
    for tensor, grad in zip(wanted, expected, strict=True):
        assert torch.equal(tensor.grad, grad)


def test_inference_mode_gives_the_same_numbers_and_leaves_no_trace():
    module = network()
    x = rand(3, 2, 3, seed=1)
    with torch.inference_mode():
        silent, _ = module(x)
    output, _ = module(x)
    assert torch.equal(silent, output)
    output.sum().backward()
    assert module.weight_hh_l0.grad.isfinite().all()


def test_gradients_may_be_on_within_inference_mode():
    module, x = network(), rand(3, 2, 3, seed=1)
    expected, _ = module(x)
    with torch.inference_mode(), torch.enable_grad():
        output, _ = module(x * 1)
    assert torch.equal(output, expected)
    assert not output.requires_grad


@NEEDS_CPP
def test_a_profiler_shows_both_passes():
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        lnlib.LayerNormLSTM(3, 4)(torch.ones(3, 2, 3))[0].sum().backward()
    names = {event.name for event in recorded.events()}
    assert {"lnlib::lstm", "lnlib::lstm_backward"} <= names


# PyTorch's other ways to differentiate, through the module


def module_call(module, x):
    output, (h, c) = module(x)
    return (output * rand(*output.shape, seed=80)).sum() + (h * c).sum()


@every_carry
def test_torch_func_agrees_with_autograd(carry):
    module = network(carry)
    x = rand(3, 2, 3, seed=1)
    leaf = x.clone().requires_grad_()
    [expected] = torch.autograd.grad(module_call(module, leaf), leaf)
    found = torch.func.grad(lambda x: module_call(module, x))(x)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    parameters = dict(module.named_parameters())
    grads = torch.func.grad(lambda p: torch.func.functional_call(module, p, x)[0].pow(3).sum())
    expected = torch.autograd.grad(module(x)[0].pow(3).sum(), list(parameters.values()))
    for a, b in zip(grads(parameters).values(), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)
    many = torch.stack([x, 2 * x, -x])
    mapped = torch.func.vmap(lambda x: module(x)[0])(many)
    torch.testing.assert_close(mapped[1], module(2 * x)[0], rtol=0, atol=1e-12)


@scripting
@every_carry
def test_a_tangent_is_the_gradient_from_the_other_side(carry):
    module = network(carry)
    x, tangent = rand(3, 2, 3, seed=1), rand(3, 2, 3, seed=2)
    leaf = x.clone().requires_grad_()
    [gradient] = torch.autograd.grad(module_call(module, leaf), leaf)
    expected = (gradient * tangent).sum()
    _, found = torch.func.jvp(lambda x: module_call(module, x), (x,), (tangent,))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    with forward_ad.dual_level():
        dual = module_call(module, forward_ad.make_dual(x, tangent))
        found = forward_ad.unpack_dual(dual).tangent
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


@every_way
@scripting
def test_a_tangent_of_what_arrives_is_passed_back(way):
    """The gradient is linear in what arrives, so its tangent is the gradient of the tangent."""
    given = case((2, 2))
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
    inputs = [rand(2, 2, 3, seed=1).requires_grad_(), *states()]
    x, h, c = inputs

    def run(call):
        output, (h_n, c_n) = call(x, (h, c))
        results = output, h_n, c_n
        return *results, *torch.autograd.grad(
            results, [*inputs, *module.parameters()], upstream(results)
        )

    for a, b in zip(run(compiled), run(module), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


# Rounding


@every_carry
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_every_dtype_is_as_near_to_float64_as_its_roundings_allow(carry, dtype, mean):
    against_formula(
        case((5, 4) + (3,) * 10, input_size=13, size=33, mean=mean), carry, "reference", dtype
    )


@every_carry
@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_float32_errors_are_not_larger_than_those_of_the_plain_loop(carry, mean, way):
    """Means over all 13 results were 0.9 to 1.1 times the loop's, of C++ up to 1.3.

    Single results differ by up to 4 in either direction, by chance.
    """
    given = case((9,) * 12, input_size=13, size=67, mean=mean, dtype=torch.float32)
    truth = values_and_gradients(by_formula(carry), given.to(torch.float64))
    loop = mean_error(values_and_gradients(by_torchs_loop(carry), given), truth)
    found = values_and_gradients(by_backend(carry, way), given)
    assert mean_error(found, truth) < (2 if way == "cpp" else 1.5) * loop


def test_under_autocast_it_runs_in_its_dtype_as_pytorchs_lstm_does():
    ours, theirs = network().float(), torch.nn.LSTM(3, 4)
    x = rand(3, 2, 3, seed=1).float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        output, (h, c) = ours(x)
        try:
            expected, states = theirs(x)
            dtypes = [each.dtype for each in (expected, *states)]
        except RuntimeError:  # oneDNN has no LSTM of bfloat16 for this processor
            dtypes = [torch.bfloat16] * 3
        states_of_cell = lnlib.LayerNormLSTMCell(3, 4)(x[0])
    assert [each.dtype for each in (output, h, c)] == dtypes == [torch.bfloat16] * 3
    # PyTorch's LSTMCell gives float32 here; ours has one rule for both modules.
    assert [state.dtype for state in states_of_cell] == [torch.bfloat16] * 2
    dy = rand(*output.shape, seed=2)
    grads = torch.autograd.grad(output, [x, *ours.parameters()], dy.bfloat16())
    assert {grad.dtype for grad in grads} == {torch.float32}
    exact = x.detach().double().requires_grad_()
    doubled = copy.deepcopy(ours).double()
    truth = torch.autograd.grad(doubled(exact)[0], [exact, *doubled.parameters()], dy)
    for found, expected in zip(grads, truth, strict=True):
        error = (found.double() - expected).abs().max() / expected.abs().max()
        assert error < ROUNDINGS * torch.finfo(torch.bfloat16).eps


# Rows without variance


@every_carry
def test_equal_numbers_have_a_bounded_gradient_with_eps_at_the_denominator(carry):
    """Weights of 0: each norm sees a row without variance, and rstd is 1 / sqrt(eps)."""
    given = case((3, 3))
    with torch.no_grad():
        given.weights.ih.zero_()
        given.weights.hh.zero_()
        given.x[0] = 0
        given.h.zero_()
        given.c.fill_(0.25)
    truth = values_and_gradients(by_formula(carry), given)
    assert truth["dih"].abs().max() > 100  # the case is the hard one: 1 / sqrt(eps) is 316
    check(values_and_gradients(by_backend(carry, "reference"), given), truth)


def test_autocast_leaves_float64_alone_and_takes_no_other_dtype():
    network = lnlib.LayerNormLSTM(5, 7, dtype=torch.float64)
    x = rand(4, 3, 5)
    with torch.autocast("cpu", torch.bfloat16):
        assert network(x)[0].dtype == torch.float64
        with pytest.raises(ValueError, match="does not match weight dtype"):
            lnlib.LayerNormLSTM(5, 7)(x)
        with pytest.raises(ValueError, match="does not match weight dtype"):
            network(x.float())


@pytest.mark.parametrize(
    ("pack", "unpack"),
    [
        (lambda t: torch.stack((t, -t), -1), lambda pair: pair[..., 0]),  # other strides
        (lambda t: t, lambda t: t[:1].clone() if t.ndim == 2 and t.shape[1] == 1 else t),  # cut
    ],
)
def test_the_loops_gradients_are_right_whatever_hooks_make_of_statistics(pack, unpack):
    network = lnlib.LayerNormLSTM(3, 8, dtype=torch.float64, backend="reference")
    x = torch.randn(3, 4, 3, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(network(x)[0].sum(), x)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        outputs = network(x)[0]
    (found,) = torch.autograd.grad(outputs.sum(), x)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)


def test_last_states_can_be_cut_off_and_changed_in_place():
    _, states = lnlib.LayerNormLSTM(3, 4)(torch.randn(3, 2, 3))
    for state in states:
        state.detach_().add_(1)  # between pieces of a long sequence, as with nn.LSTM
