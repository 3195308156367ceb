"""The C++ steps: right for every size and number of threads; without them, only speed is lost."""

import warnings

import pytest
import torch
from lstm_cases import (
    CARRIES,
    EPS,
    by_formula,
    by_function,
    case,
    errors,
    rand,
)
from lstm_cases import values_and_gradients as run

import lnlib
from lnlib.cpp_kernel import compile
from lnlib.lstm import backends, cpp, function, plain
from lnlib.lstm.steps import Backward, Block, Forward

EPS32 = torch.finfo(torch.float32).eps
# Largest error of each result, as a part of its largest number, in units of eps: roundings of one
# step are carried on to the next. Up to 31 were seen, below 12 in all but two cases.
ROUNDINGS = 128
# Relative errors, in units of eps. Below 1 was seen for the sigmoid, with and without fused
# multiply-adds; up to 1.9 for tanh just above 0.625, where it is 1 minus something near a half.
SIGMOID, TANH = 1.2, 3
# Below exp(-87) the exponential stays where it is, so that it is never 0 and never inf.
LEAST = 1e-37

every_carry = pytest.mark.parametrize("carry", CARRIES)


@pytest.fixture
def steps():
    if compile.library(cpp.SOURCE) is None:
        pytest.skip("no g++ that compiles the C++ steps")
    return cpp


def against_float64(given, carry, steps, eps=EPS):
    truth = run(by_formula(carry, eps), given.to(torch.float64))
    found = run(by_function(carry, steps, eps), given)
    assert all(tensor.dtype == torch.float32 for tensor in found.values())
    worst = errors(found, truth)
    assert max(worst.values()) < ROUNDINGS * EPS32, worst


def buffers(rows, size, before, carries_normalized=False):
    """Return buffers of one step of random numbers, and those of the way back."""
    numbers = (rand(rows + before, 4 * size, seed=s).float() for s in range(20))
    forward = Forward(
        weight_h=next(numbers)[0].clone(),
        weight_c=next(numbers)[0, :size].clone(),
        bias_c=next(numbers)[0, :size].clone(),
        eps=EPS,
        carries_normalized=carries_normalized,
        outputs=torch.full((rows, size), torch.nan),
        carry=next(numbers)[:, :size].contiguous(),
        gates=next(numbers)[:rows],
        a_hat=next(numbers)[:rows],
        c_hat=torch.full((rows, size), torch.nan),
        tanh_n=torch.full((rows, size), torch.nan),
        rstd_a=torch.full((rows, 1), torch.nan),
        rstd_c=torch.full((rows, 1), torch.nan),
    )
    backward = Backward(
        dy=next(numbers)[:rows, :size].contiguous(),
        dh=next(numbers)[:rows, :size].contiguous(),
        dcarry=next(numbers)[:rows, :size].contiguous(),
        dv=torch.full((rows, 4 * size), torch.nan),
        da=torch.full((rows, 4 * size), torch.nan),
        dn=torch.full((rows, size), torch.nan),
    )
    return forward, backward


def copied(tensors):
    return type(tensors)(*(t.clone() if isinstance(t, torch.Tensor) else t for t in tensors))


def taken(steps, forward, backward, block):
    """Return copies of the buffers after one step of ``steps`` and the way back."""
    forward, backward = copied(forward), copied(backward)
    steps.forward(forward)(block)
    steps.backward(forward, backward)(block)
    return {**forward._asdict(), **backward._asdict()}


# Numbers


@every_carry
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 31, 129])
def test_every_size_is_as_near_to_float64_as_float32_can_be(steps, carry, bias, size):
    """The variance of one number is 0 and of two often next to it, so eps is what rstd depends on.

    With a small one the gradient of two is a difference of numbers hundreds of times as large.
    """
    given = case((5, 4, 4, 2, 1), size=size, bias=bias, dtype=torch.float32)
    against_float64(given, carry, steps, eps=0.1)


@every_carry
@pytest.mark.parametrize("sizes", [(1,), (1,) * 9, (67,), (67, 66, 33, 1)])
@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_one_row_and_many_rows_are_right(steps, carry, sizes, mean):
    given = case(sizes, input_size=13, size=33, mean=mean, dtype=torch.float32)
    against_float64(given, carry, steps)


@every_carry
def test_long_sequences_are_right_across_chunks(steps, carry, monkeypatch):
    monkeypatch.setattr(function, "NUMBERS_AT_ONCE", 4 * 33 * 20)  # 20 of 105 rows
    given = case((5, 4) + (4,) * 24, input_size=13, size=33, dtype=torch.float32)
    against_float64(given, carry, steps, eps=0.1)  # so that no row is worse than the others


@every_carry
def test_a_cell_far_from_zero_keeps_its_digits(steps, carry):
    """Its variance is taken in two passes; sum of squares minus mean squared would leave none."""
    forward, backward = buffers(5, 33, before=5)
    forward.carry[:5] = 1e4 + forward.carry[:5]
    forward.gates[:, 33:66] = 20  # the forget gates are open
    forward.weight_h.zero_()
    found = taken(steps, forward, backward, Block(0, 5, 0, 5))
    cells = found["carry"][5:].double()  # with the rounding of 1e4 + c, which is nobody's fault
    centered = cells - cells.mean(-1, keepdim=True)
    rstd = 1 / (centered.pow(2).mean(-1, keepdim=True) + EPS).sqrt()
    torch.testing.assert_close(found["rstd_c"].double(), rstd, rtol=1e-3, atol=0)
    torch.testing.assert_close(found["c_hat"].double(), centered * rstd, rtol=0, atol=5e-3)


@pytest.mark.parametrize("size", [1, 3, 7, 16, 31, 129])
def test_the_functions_of_the_gates_are_right_to_a_few_roundings(steps, size):
    """Gains of 0 leave the steps their inputs alone: sigmoid and tanh of a known number."""
    rows = 3000 // size + 1
    forward, _ = buffers(rows, size, before=rows)
    v = torch.linspace(-100, 100, rows * 4 * size).view(rows, -1)
    v[1:] *= torch.logspace(-7, 0, rows)[1:, None]  # as close to 0
    forward.gates.copy_(v)
    forward.weight_h.zero_()
    forward.weight_c.zero_()
    steps.forward(forward)(Block(0, rows, 0, rows))
    found = forward.gates.double().split(size, dim=-1)
    i, f, g, o = v.double().split(size, dim=-1)
    expected = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    roundings = SIGMOID, SIGMOID, TANH, SIGMOID
    for a, b, most in zip(found, expected, roundings, strict=True):
        torch.testing.assert_close(a, b, rtol=most * EPS32, atol=LEAST)
    forward.bias_c.copy_(torch.linspace(0.5, 0.8, size))
    steps.forward(forward)(Block(0, rows, 0, rows))
    tanh = forward.bias_c.double().tanh().expand(rows, size)
    torch.testing.assert_close(forward.tanh_n.double(), tanh, rtol=TANH * EPS32, atol=0)


@every_carry
def test_saturated_gates_are_right(steps, carry):
    given = case((5, 4, 4), size=33, dtype=torch.float32)
    with torch.no_grad():
        given.weights.bias[::3] *= 1e4
    assert given.weights.bias.abs().max() > 1e4
    against_float64(given, carry, steps)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 1e15])
@pytest.mark.parametrize("name", ["gates", "a_hat", "carry"])
@every_carry
def test_numbers_that_are_not_finite_go_on_as_in_the_plain_steps(steps, number, name, carry):
    forward, backward = buffers(5, 7, 5, carry == "normalized")
    block = Block(0, 5, 0, 5)
    clean = taken(steps, forward, backward, block)
    getattr(forward, name)[2, ::5] = number
    found = taken(steps, forward, backward, block)
    expected = taken(plain, forward, backward, block)
    for key in ("outputs", "carry", "gates", "c_hat", "tanh_n", "dcarry", "dv", "da", "dn"):
        # The new cells alone: the others are what was given.
        ours, theirs, before = (results[key][-5:] for results in (found, expected, clean))
        assert torch.equal(ours[[0, 1, 3, 4]], before[[0, 1, 3, 4]]), key
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, equal_nan=True, msg=key)


# Rows and threads


@every_carry
@pytest.mark.parametrize(("start", "rows", "before", "after"), [(0, 4, 0, 9), (3, 2, 5, 7)])
def test_a_step_fills_its_own_rows_and_no_others(steps, carry, start, rows, before, after):
    forward, backward = buffers(9, 7, before=9, carries_normalized=carry == "normalized")
    block = Block(start, start + rows, before, after)
    found = taken(steps, forward, backward, block)
    expected = taken(plain, forward, backward, block)
    for name, value in expected.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(
                found[name], value, rtol=1e-4, atol=1e-5, equal_nan=True, msg=name
            )
    untouched = [row for row in range(9) if not start <= row < start + rows]
    for name in ("outputs", "tanh_n", "dv", "da"):
        assert found[name][untouched].isnan().all()
        assert found[name][start : start + rows].isfinite().all()


def test_no_rows_are_no_work(steps):
    forward, backward = buffers(4, 7, before=4)
    found = taken(steps, forward, backward, Block(2, 2, 0, 4))
    for name, value in {**forward._asdict(), **backward._asdict()}.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(found[name].nan_to_num(7), value.nan_to_num(7))
    network = lnlib.LayerNormLSTM(5, 7, backend="cpp")
    output, (h, c) = network(torch.zeros(4, 0, 5))
    assert (output.shape, h.shape, c.shape) == ((4, 0, 7), (1, 0, 7), (1, 0, 7))
    output.sum().backward()
    assert (network.weight_hh_l0.grad == 0).all()


@every_carry
@pytest.mark.parametrize(("rows", "size"), [(1, 7), (129, 33), (3, 1025)])
def test_the_number_of_threads_changes_no_bit(steps, carry, rows, size):
    """Each row is one thread's; 129 x 33 and 3 x 1025 numbers are enough to be shared."""
    forward, backward = buffers(rows, size, rows, carry == "normalized")
    threads = torch.get_num_threads()
    results = []
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            results.append(taken(steps, forward, backward, Block(0, rows, 0, rows)))
    finally:
        torch.set_num_threads(threads)
    for name, value in results[0].items():
        if isinstance(value, torch.Tensor):
            assert all(torch.equal(value, other[name]) for other in results[1:]), name


# Which steps are taken


def test_auto_takes_these_for_float32_on_a_cpu_and_no_others(steps):
    x = torch.zeros(2, 5)
    assert backends.steps_for("auto", x) is cpp
    assert backends.steps_for("cpp", x) is cpp
    assert backends.steps_for("reference", x) is plain
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        assert backends.steps_for("auto", x.to(dtype)) is plain


def test_a_module_runs_on_them(steps, monkeypatch):
    counted = []
    monkeypatch.setattr(cpp, "forward", lambda b, made=cpp.forward: counted.append(b) or made(b))
    network = lnlib.LayerNormLSTM(5, 7, num_layers=2, bidirectional=True)
    network(torch.zeros(4, 3, 5))
    assert len(counted) == 4
    lnlib.LayerNormLSTMCell(5, 7)(torch.zeros(3, 5))
    assert len(counted) == 5
    lnlib.LayerNormLSTM(5, 7, backend="reference")(torch.zeros(4, 3, 5))
    assert len(counted) == 5


def test_where_nothing_compiles_the_plain_steps_run_without_a_word(monkeypatch):
    monkeypatch.setattr(compile, "why_not", lambda source: "there is no compiler")
    assert backends.steps_for("auto", torch.zeros(2, 5)) is plain
    network, x = lnlib.LayerNormLSTM(5, 7), rand(4, 3, 5).float()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        output = network(x)[0]
    network.backend = "reference"
    assert torch.equal(output, network(x)[0])
    network.backend = "cpp"
    with pytest.raises(RuntimeError, match=r"there is no compiler; use \"auto\""):
        network(x)


@pytest.mark.parametrize("width", [512, 4000])
@pytest.mark.parametrize("value", [0.1, 123.456, 1e12])
def test_a_row_without_spread_is_normalized_to_zero(width, value):
    """Its rounded mean may miss its numbers; what is left is of the mean, and not of the row."""
    a_hat = one_norm(torch.full((1, width), value))
    assert torch.equal(a_hat, torch.zeros(1, width))


def test_a_row_far_from_zero_keeps_its_digits():
    a = 1e5 + rand(1, 512).float()  # it has been rounded here, and not in the norm
    truth = torch.nn.functional.layer_norm(a.double(), (512,))
    assert (one_norm(a) - truth).abs().max() < 8 * EPS32 * truth.abs().max()


def one_norm(a):
    """Return ``a``, one row, as the C++ step normalizes it."""
    size = a.shape[1] // 4
    ones, zeros = torch.ones(4 * size), torch.zeros(4 * size)
    outputs, c_hat, tanh_n, cells = (torch.zeros(1, size) for _ in range(4))
    a_hat, rstds = a.clone(), (torch.zeros(1, 1), torch.zeros(1, 1))
    carry = torch.cat([cells, cells])
    made = (torch.zeros(1, 4 * size), a_hat, c_hat, tanh_n, *rstds)
    buffers = Forward(ones, ones[:size], zeros[:size], 1e-5, False, outputs, carry, *made)
    cpp.forward(buffers)(Block(start=0, stop=1, before=0, after=1))
    return a_hat
