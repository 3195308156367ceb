"""The LSTM in C++: right for every size, and of the same bits for every number of threads.

Without it, only speed is lost.
"""

import random
import re
import warnings
from functools import partial
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from compiled import NEEDS_CPP
from lstm_cases import (
    CARRIES,
    EPS,
    Case,
    by_backend,
    by_formula,
    case,
    errors,
    memory_of_nan,
    rand,
    threads,
    upstream,
)
from lstm_cases import values_and_gradients as run
from tiers import few

import lnlib
from lnlib.cpp_kernel import library
from lnlib.lstm import cpp, formula
from lnlib.lstm.formula import Weights
from lnlib.lstm.function import Settings
from lnlib.lstm.run import kernel_for

EPS32 = torch.finfo(torch.float32).eps
# Largest error of each result, as a part of its largest number, in units of eps: roundings of one
# step are carried on to the next. Up to 39 were seen, and of five hundred sizes up to 32.
ROUNDINGS = 128
# Relative errors, in units of eps. Below 1 was seen for the sigmoid, with and without fused
# multiply-adds; up to 1.9 for tanh just above 0.625, where it is 1 minus something near a half.
SIGMOID, TANH = 1.2, 3
# Below exp(-87) the exponential stays where it is, so that it is never 0 and never inf.
LEAST = 1e-37

pytestmark = NEEDS_CPP
every_carry = pytest.mark.parametrize("carry", CARRIES)


def constant(name):
    """Return a number that is written in the C++."""
    text = Path(cpp.__file__).with_name("sequence.cpp").read_text(encoding="utf8")
    [value] = re.findall(rf"constexpr int64_t {name} = ([\d< ]+);", text)
    return eval(value)


def against_float64(given, carry, eps=EPS):
    truth = run(by_formula(carry, eps), given.to(torch.float64))
    found = run(by_backend(carry, "cpp", eps), given)
    assert all(tensor.dtype == torch.float32 for tensor in found.values())
    worst = errors(found, truth)
    assert max(worst.values()) < ROUNDINGS * EPS32, worst


def forward(given, carry="raw", keeps=False):
    """Return what C++ makes of a case, and what it keeps of it."""
    settings = Settings(tuple(given.batch_sizes), EPS, carry)
    with torch.no_grad():
        return cpp.forward(settings, given.x, given.h, given.c, given.weights, keeps)


def same_bits(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


# Sizes


@every_carry
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 31, 129])
def test_every_size_is_as_near_to_float64_as_float32_can_be(carry, bias, size):
    """The variance of one number is 0 and of two often next to it, so eps is what rstd depends on.

    With a small one the gradient of two is a difference of numbers hundreds of times as large.
    """
    given = case((5, 4, 4, 2, 1), size=size, bias=bias, dtype=torch.float32)
    against_float64(given, carry, eps=0.1)


MOST = 1024  # features
ENDS = [1, 2, 3, 15, 16, 17, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1023, 1024]
BETWEEN = [size for size in range(1, MOST + 1) if size not in ENDS]
DRAWN = [*ENDS, *random.Random(0).sample(BETWEEN, 500 - len(ENDS))]


@pytest.fixture(scope="module")
def bank():
    """Numbers for a case of any size and gammas near 1, drawn once, in both types."""
    numbers, gammas = rand(4 * MOST * MOST + 100 * MOST).float(), 1 + rand(9 * MOST, seed=1) / 2
    return (numbers, gammas.float()), (numbers.double(), gammas.float().double())


@few("block", range(10), 2)
def test_five_hundred_sizes_up_to_1024_are_right(bank, block):
    worst = {size: max(errors_of_size(size, bank).values()) for size in DRAWN[block::10]}
    assert not {size: error for size, error in worst.items() if not error < ROUNDINGS * EPS32}


def errors_of_size(size, bank):
    """Return the largest error of each result of two steps, as `errors` does.

    What takes time is memory for matrices. PyTorch finds the gradients for W_x x and W_h h instead,
    and those of the matrices are their products with x and h, compared part by part.
    """
    carry, eps = CARRIES[size % 2], EPS if size > 16 else 0.1
    narrow, wide = (of_size(size, *drawn) for drawn in bank)
    found = run(by_backend(carry, "cpp", eps), narrow)
    da = []

    def normalize(a, weight, bias):
        if len(weight) == 4 * size:  # W_x x of all steps, then W_h h of each
            a.register_hook(partial(da.__setitem__, len(da)))
            da.append(None)
        return formula.normalizing(eps)(a, weight, bias)

    for matrix in wide.weights[:2]:
        matrix.requires_grad_(False)
    truth = run(lambda wide: formula.lstm(*wide, normalize, carry), wide)
    states = torch.cat([wide.h, truth["outputs"][: wide.batch_sizes[1]]])
    of_matrices = {
        "dih": error_of_product(found.pop("dih"), da[0], wide.x),
        "dhh": error_of_product(found.pop("dhh"), torch.cat(da[1:]), states),
    }
    return errors(found, truth) | of_matrices


def of_size(size, numbers, gammas):
    """Return a case of views of what was drawn, one behind the other."""
    batch_sizes, input_size = (
        ((3, 2), (2, 1), (3, 1), (1, 1))[(size + 1) // 2 % 4],
        2 + 7 * size % 23,
    )
    batch, wide, narrow = batch_sizes[0], (4 * size,), (size,)

    def taken(source, *shapes):
        counts = [torch.Size(shape).numel() for shape in shapes]
        parts = source[: sum(counts)].split(counts)
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    of_case = (sum(batch_sizes), input_size), (batch, size), (batch, size)
    matrices = (4 * size, input_size), (4 * size, size)
    x, h, c, ih, hh, *biases = taken(numbers, *of_case, *matrices, wide, narrow)
    bias, bias_c = biases if size % 5 else (None, None)
    made = Weights(ih, hh, bias, *taken(gammas, wide, wide, narrow), bias_c)
    given = Case(x, h, c, made, batch_sizes)
    for tensor in given.tensors():
        if tensor is not None:
            tensor.requires_grad_()
    return given


def error_of_product(found, left, right):
    """Return the largest error of leftᵀ right, as a part of its largest number."""
    worst = largest = 0.0
    for part, columns in zip(found.split(256), left.split(256, dim=1), strict=True):
        true = columns.mT @ right
        worst = max(worst, (part.double() - true).abs().max().nan_to_num(torch.inf).item())
        largest = max(largest, true.abs().max().item())
    return worst / (largest or 1.0)


@every_carry
@pytest.mark.parametrize("input_size", [0, 1, 2, 3, 15, 16, 17, 31, 33, 255, 256, 257, 600])
def test_every_size_of_the_input_is_right(carry, input_size):
    """The products with one number are normalized to much the same, unless eps is large."""
    for sizes in ((5, 3, 2), (1, 1), (2,)):
        given = case(sizes, max(input_size, 1), size=21, dtype=torch.float32)
        x, ih = (t.detach()[:, :input_size] for t in (given.x, given.weights.ih))
        weights = given.weights._replace(ih=ih.requires_grad_())
        against_float64(given._replace(x=x.requires_grad_(), weights=weights), carry, 0.1)


@every_carry
def test_every_number_of_rows_is_right(carry):
    """Tiles of 8, 4, 2 and 1 rows make up a step."""
    for rows in range(1, 18):
        given = case((rows, rows), input_size=9, size=21, dtype=torch.float32)
        against_float64(given, carry, eps=0.1)


@every_carry
@pytest.mark.parametrize("sizes", [(1,), (1,) * 9, (67,), (67, 66, 33, 1)])
@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_one_row_and_many_rows_are_right(carry, sizes, mean):
    given = case(sizes, input_size=13, size=33, mean=mean, dtype=torch.float32)
    against_float64(given, carry)


CHUNK = constant("CHUNK")
LONG = {
    "one row, up to a chunk": (1,) * CHUNK,
    "one row, past it": (1,) * (CHUNK + 1),
    "equal lengths, up to it": (CHUNK // 16,) * 16,
    "equal lengths, past it": (CHUNK // 16,) * 35,
    "unequal lengths": tuple(range(CHUNK // 8, 0, -1)),
    "a step more than it": (CHUNK + 90, CHUNK + 1, 3, 3),
    "a step as much": (CHUNK, CHUNK, 1),
}


@every_carry
@pytest.mark.parametrize("sizes", list(LONG.values()), ids=list(LONG))
def test_long_sequences_are_right_across_chunks(carry, sizes):
    given = case(sizes, input_size=13, size=21, dtype=torch.float32)
    against_float64(given, carry, eps=0.1)  # so that no row is worse than the others


# Numbers far from others


@every_carry
def test_saturated_gates_are_right(carry):
    given = case((5, 4, 4), size=33, dtype=torch.float32)
    with torch.no_grad():
        given.weights.bias[::3] *= 1e4
    assert given.weights.bias.abs().max() > 1e4
    against_float64(given, carry)


def without_norms(size, *gates, c=0.0, shift=50.0):
    """Return a step in which i, f, the candidate and o have biases alone, and so has the cell."""
    none = torch.zeros(4 * size)
    weights = Weights(
        ih=torch.zeros(4 * size, 1),
        hh=torch.zeros(4 * size, size),
        bias=torch.cat([torch.as_tensor(gate).expand(size) for gate in gates]),
        norm_ih=none,
        norm_hh=none,
        norm_c=none[:size],
        norm_c_bias=torch.as_tensor(shift).expand(size),
    )
    states = torch.zeros(1, size), torch.as_tensor(c).expand(1, size)
    return Case(torch.zeros(1, 1), *states, weights, (1,))


@pytest.mark.parametrize("size", [1, 3, 7, 16, 31, 253])
def test_the_functions_of_the_gates_are_right_to_a_few_roundings(size):
    """What is next to a gate is 0 or 1, so that sigmoid and tanh of a known number are left."""
    rows = 3000 // size + 1
    v = torch.linspace(-100, 100, rows * size).view(rows, size)
    v[1:] *= torch.logspace(-7, 0, rows - 1)[:, None]  # as close to 0
    v[-1] = torch.linspace(0.5, 0.8, size)
    found = []
    for known in v:
        (o, _, i), _ = forward(without_norms(size, known, 0.0, 100.0, known))
        (tanh_n, _, f), _ = forward(
            without_norms(size, -100.0, known, 0.0, 100.0, c=1.0, shift=known)
        )
        (_, _, candidate), _ = forward(without_norms(size, 100.0, 0.0, known, 0.0))
        found.append((i, f, o, candidate, tanh_n))
    i, f, o, candidate, tanh_n = (torch.cat(each).double() for each in zip(*found, strict=True))
    for sigmoid in (i, f, o):
        true = v.double().sigmoid()
        torch.testing.assert_close(sigmoid, true, rtol=SIGMOID * EPS32, atol=LEAST)
    for tanh in (candidate, tanh_n):
        torch.testing.assert_close(tanh, v.double().tanh(), rtol=TANH * EPS32, atol=0)


@every_carry
def test_a_cell_far_from_zero_keeps_its_digits(carry):
    """Its variance is taken in two passes; sum of squares minus mean squared would leave none."""
    before = 1e4 + rand(1, 33).float()  # it has been rounded here, and not in the norm
    given = without_norms(33, 0.0, 100.0, 0.0, 100.0, c=before, shift=0.0)
    given = given._replace(weights=given.weights._replace(norm_c=torch.ones(33)))
    (outputs, _, c), _ = forward(given, carry)
    truth = torch.nn.functional.layer_norm(before.double(), (33,))
    assert (outputs - truth.tanh()).abs().max() < 8 * EPS32
    assert (c - (before if carry == "raw" else truth)).abs().max() < 8 * EPS32 * truth.abs().max()


def one_norm(a, of):
    """Return a part of W_x x or W_h h, normalized, where it is ``a``; and what is kept of W_h h."""
    size, tiny = a.shape[1] // 4, 2.0**-20
    unit, gains, matrix = torch.zeros(1, size), torch.zeros(4 * size), torch.zeros(4 * size, size)
    unit[0, 0], gains[2 * size : 3 * size], matrix[:, 0] = 1, tiny, a[0]
    given = without_norms(size, 100.0, 0.0, 0.0, 0.0)
    if of == "x":
        weights = given.weights._replace(ih=matrix, norm_ih=gains)
        given = given._replace(x=unit, weights=weights)
    else:
        weights = given.weights._replace(hh=matrix, norm_hh=gains)
        given = given._replace(h=unit, weights=weights)
    (_, _, c), kept = forward(given, keeps=True)
    return c / tiny, kept[1]  # the tanh of so small a candidate is the candidate


@pytest.mark.parametrize("of", ["x", "h"])
@pytest.mark.parametrize("width", [512, 4000])
@pytest.mark.parametrize("value", [0.1, 123.456, 1e12])
def test_a_row_without_spread_is_normalized_to_zero(width, value, of):
    """Its rounded mean may miss its numbers; what is left is of the mean, and not of the row."""
    found, a_hat = one_norm(torch.full((1, width), value), of)
    assert torch.equal(found, torch.zeros(1, width // 4))
    assert of == "x" or torch.equal(a_hat, torch.zeros(1, width))


@pytest.mark.parametrize("of", ["x", "h"])
def test_a_row_far_from_zero_keeps_its_digits(of):
    a = 1e5 + rand(1, 512).float()  # it has been rounded here, and not in the norm
    truth = torch.nn.functional.layer_norm(a.double(), (512,))
    found, a_hat = one_norm(a, of)
    room = 8 * EPS32 * truth.abs().max()
    assert (found - truth[:, 256:384]).abs().max() < room
    assert of == "x" or (a_hat - truth).abs().max() < room


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 1e15])
@pytest.mark.parametrize("name", ["x", "h", "c"])
@pytest.mark.parametrize("steps", [1, 3])
@every_carry
def test_numbers_that_are_not_finite_go_on_as_in_the_plain_steps(number, name, steps, carry):
    given = case((5,) * steps, size=7, dtype=torch.float32)
    clean = run(by_backend(carry, "cpp"), given)
    with torch.no_grad():
        getattr(given, name)[2, ::3] = number
    found, expected = (run(by_backend(carry, each), given) for each in ("cpp", "reference"))
    for key in ("outputs", "h_n", "c_n", "dx", "dh", "dc"):
        ours, theirs, before = (
            each[key].view(-1, 5, *each[key].shape[1:]) for each in (found, expected, clean)
        )
        others = [0, 1, 3, 4]
        assert torch.equal(ours[:, others], before[:, others]), key
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, equal_nan=True, msg=key)


# Rows, threads and memory

# 125 rows are 16 strands of 8, one not whole, and 4 of 32.
EQUAL = (125,) * 10
UNEQUAL = (125, 124, 124, 120, 113, 101, 101, 99, 80, 64, 64, 33, 9, 1, 1, 1)
every_length = pytest.mark.parametrize("sizes", [EQUAL, UNEQUAL], ids=["equal", "unequal"])


@every_carry
@every_length
def test_the_number_of_threads_changes_no_bit(carry, sizes, monkeypatch):
    """Nor does it whether a gradient is wanted. Several threads have more memory than one."""
    taken = []
    scratch = cpp._Run.scratch

    def noting(self, is_backward):
        found = scratch(self, is_backward)
        taken.append(found.numel())
        return found

    monkeypatch.setattr(cpp._Run, "scratch", noting)
    given = case(sizes, input_size=13, size=37, dtype=torch.float32)
    assert sum(sizes) * 4 * 37 * (37 + 13) >= 16 * constant("WORTH_A_THREAD")
    assert sum(sizes) > 2 * CHUNK
    expected = None
    for number in (1, 2, 3, 5, 16):
        with threads(number):
            found = run(by_backend(carry, "cpp"), given)
            results, kept = forward(given, carry)
        expected = expected or found
        same_bits(found, expected)
        assert kept == []
        silent = dict(zip(("outputs", "h_n", "c_n"), results, strict=True))
        same_bits(silent, {name: expected[name] for name in silent})
    for of_one, *of_many in (taken[0::3], taken[1::3]):  # forward and back, then the silent one
        assert min(of_many) > of_one


def rows_of(sizes, rows):
    """Return where some sequences have their rows, and how many of them take part in each step."""
    starts = accumulate(sizes, initial=0)
    steps = [[row for row in rows if row < size] for size in sizes]
    packed = [start + row for start, step in zip(starts, steps, strict=False) for row in step]
    return packed, [len(step) for step in steps if step]


@every_carry
@pytest.mark.parametrize("rows", [[0], [7], [66], [3, 4, 5], [*range(40)]], ids=str)
def test_what_a_row_becomes_does_not_depend_on_the_rows_beside_it(carry, rows):
    """Of more than FEW rows: the one with the fewest takes part in three steps."""
    sizes = (67, 67, 67, 33, 33, 9, 4, 1)
    packed, own_sizes = rows_of(sizes, rows)
    given = case(sizes, input_size=300, size=21, dtype=torch.float32)

    def taken(*tensors):
        pairs = zip(tensors, [packed, rows, rows] * (len(tensors) // 3), strict=True)
        return [tensor.detach()[index].requires_grad_() for tensor, index in pairs]

    def found(case, dys):
        results = by_backend(carry, "cpp")(case)
        return [*results, *torch.autograd.grad(results, case[:3], dys)]

    dys = upstream(by_backend(carry, "cpp")(given))
    alone = found(Case(*taken(*given[:3]), given.weights, own_sizes), taken(*dys))
    for ours, expected in zip(alone, taken(*found(given, dys)), strict=True):
        assert torch.equal(ours, expected)


@every_carry
@pytest.mark.parametrize("sizes", [(1,), (1, 1), (3, 2, 2), UNEQUAL])
@pytest.mark.parametrize("bias", [True, False])
def test_nothing_is_read_that_nobody_wrote(carry, sizes, bias):
    given = case(sizes, input_size=9, size=21, bias=bias, dtype=torch.float32)
    for number in (1, 3):
        with threads(number):
            expected = run(by_backend(carry, "cpp"), given)
            results, _ = forward(given, carry)
            with memory_of_nan():
                same_bits(run(by_backend(carry, "cpp"), given), expected)
                again, _ = forward(given, carry)
        assert all(torch.equal(a, b) for a, b in zip(again, results, strict=True))


@every_carry
@pytest.mark.parametrize(("input_size", "size"), [(1, 1), (5, 7), (16, 16), (17, 33)])
@pytest.mark.parametrize("sizes", [(1,), (2,), (5, 3, 3, 1)])
def test_nothing_is_read_that_lies_beside_what_is_given(carry, input_size, size, sizes):
    """Nor is an address taken for a multiple of more than four bytes."""

    def beside_nan(tensor):
        memory = torch.full((tensor.numel() + 2 * 67,), torch.nan)
        memory[67:-67] = tensor.flatten()
        return memory[67:-67].view(tensor.shape)

    given = case(sizes, input_size, size, dtype=torch.float32)
    results = by_backend(carry, "cpp")(given)
    grads = torch.autograd.grad(results, given.leaves(), upstream(results))
    x, h, c, *weights = (beside_nan(t.detach()).requires_grad_() for t in given.tensors())
    apart = Case(x, h, c, Weights(*weights), given.batch_sizes)
    again = by_backend(carry, "cpp")(apart)
    dys = [beside_nan(dy) for dy in upstream(again)]
    grads_again = torch.autograd.grad(again, apart.leaves(), dys)
    pairs = zip((*again, *grads_again), (*results, *grads), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@every_carry
def test_going_back_twice_gives_the_same_bits_and_leaves_what_was_given(carry):
    given = case((5, 3, 3, 1), dtype=torch.float32)
    kept = given.to(torch.float32)
    results = by_backend(carry, "cpp")(given)
    values = [y.detach().clone() for y in results]
    dys = upstream(results)
    first = torch.autograd.grad(results, given.leaves(), dys, retain_graph=True)
    again = torch.autograd.grad(results, given.leaves(), dys)
    pairs = (
        *zip(first, again, strict=True),
        *zip(given.tensors(), kept.tensors(), strict=True),
        *zip(results, values, strict=True),
        *zip(dys, upstream(results), strict=True),
    )
    assert all(torch.equal(a, b) for a, b in pairs)


@every_carry
@pytest.mark.parametrize("needs", [(True, False), (False, True), (False, False)])
def test_what_needs_no_gradient_gets_none_and_the_others_keep_their_bits(carry, needs):
    given = case((5, 3, 3, 1), dtype=torch.float32)
    settings = Settings(tuple(given.batch_sizes), EPS, carry)
    tensors = given.x, given.h, given.c, given.weights
    with torch.no_grad():
        results, kept = cpp.forward(settings, *tensors, keeps=True)
        rest = settings, tensors, results[0], kept, tuple(upstream(results))
        expected = cpp.backward(*rest, (True, True))
        found = cpp.backward(*rest, needs)
    of_x, of_weights = needs
    wanted = [of_x, True, True, *[of_weights] * len(given.weights)]
    assert [tensor is not None for tensor in found] == wanted
    pairs = zip(found, expected, strict=True)
    assert all(tensor is None or torch.equal(tensor, other) for tensor, other in pairs)


@pytest.mark.parametrize("frozen", ["x", "h", "c", "ih", "hh", "bias", "norm_c_bias", "weights"])
def test_what_is_frozen_gets_no_gradient_and_the_others_keep_their_bits(frozen):
    given = case((5, 3, 3, 1), dtype=torch.float32)
    expected = run(by_backend("raw", "cpp"), given)
    names = Weights._fields if frozen == "weights" else [frozen]
    for name in names:
        tensor = getattr(given, name) if name in "xhc" else getattr(given.weights, name)
        tensor.requires_grad_(False)
        del expected[f"d{name}"]
    same_bits(run(by_backend("raw", "cpp"), given), expected)


@every_carry
def test_no_rows_are_no_work(carry):
    network = lnlib.LayerNormLSTM(5, 7, carry=carry, backend="cpp")
    output, (h, c) = network(torch.zeros(4, 0, 5))
    assert (output.shape, h.shape, c.shape) == ((4, 0, 7), (1, 0, 7), (1, 0, 7))
    output.sum().backward()
    assert all((parameter.grad == 0).all() for parameter in network.parameters())
    h, c = lnlib.LayerNormLSTMCell(5, 7, carry=carry, backend="cpp")(torch.zeros(0, 5))
    assert h.shape == c.shape == (0, 7)


@pytest.mark.parametrize("batch_sizes", [(3, 3), (3, 0), (4,), (4, 0)])
def test_batch_sizes_that_do_not_fit_are_refused_before_anything_runs(batch_sizes, monkeypatch):
    monkeypatch.setattr(cpp, "_library", None)
    given = case((3, 1), dtype=torch.float32)
    with pytest.raises(
        RuntimeError, match=r"steps of \(.*\) rows do not make 4 rows of 3 sequences"
    ):
        forward(given._replace(batch_sizes=batch_sizes))


# Which passes are taken


def test_auto_takes_these_for_float32_on_a_cpu_and_no_others():
    x = torch.zeros(2, 5)
    assert kernel_for("auto", x, 7) is cpp
    assert kernel_for("cpp", x, 7) is cpp
    assert kernel_for("reference", x, 7) is None
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        assert kernel_for("auto", x.to(dtype), 7) is None
        with pytest.raises(RuntimeError, match=r"does not take .*; use \"auto\""):
            kernel_for("cpp", x.to(dtype), 7)


def test_a_module_runs_on_them_with_a_call_a_direction(monkeypatch):
    counted = {"forward": 0, "backward": 0}

    def counting(name, made):
        def counts(*given, **named):
            counted[name] += 1
            return made(*given, **named)

        return counts

    for name in counted:
        monkeypatch.setattr(cpp, name, counting(name, getattr(cpp, name)))
    network = lnlib.LayerNormLSTM(5, 7, num_layers=2, bidirectional=True)
    network(torch.zeros(4, 3, 5))[0].sum().backward()
    assert counted == {"forward": 4, "backward": 4}
    lnlib.LayerNormLSTMCell(5, 7)(torch.zeros(3, 5))[0].sum().backward()
    assert counted == {"forward": 5, "backward": 5}
    lnlib.LayerNormLSTM(5, 7, backend="reference")(torch.zeros(4, 3, 5))[0].sum().backward()
    assert counted == {"forward": 5, "backward": 5}


def test_where_nothing_compiles_the_plain_steps_run_without_a_word(monkeypatch):
    monkeypatch.setattr(library, "why_not", lambda: "there is no compiler")
    assert kernel_for("auto", torch.zeros(2, 5), 7) is None
    network, x = lnlib.LayerNormLSTM(5, 7), rand(4, 3, 5).float()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        output = network(x)[0]
    network.backend = "reference"
    assert torch.equal(output, network(x)[0])
    network.backend = "cpp"
    with pytest.raises(RuntimeError, match=r"there is no compiler; use \"auto\""):
        network(x)
