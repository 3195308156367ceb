"""The LSTM in C++: right for every size, and of the same bits for every number of threads."""

import random
import re
import warnings
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from compiled import NEEDS_CPP
from lstm_cases import (
    CARRIES,
    F32,
    Case,
    assert_right,
    assert_same_bits,
    by_backend,
    case,
    every_carry,
    memory_of_nan,
    threads,
    upstream,
    values_and_gradients,
)
from tiers import few

import lnlib
from lnlib.cpp_kernel import library
from lnlib.lstm import cpp
from lnlib.lstm.formula import Weights
from lnlib.lstm.function import kernel_for

pytestmark = NEEDS_CPP
EPS32 = torch.finfo(F32).eps
# Relative errors, in units of eps. Below 1 was seen for the sigmoid, with and without fused
# multiply-adds; up to 1.9 for tanh just above 0.625, where it is 1 minus something near a half.
SIGMOID, TANH = 1.2, 3
# Below exp(-87) the exponential stays where it is, so that it is never 0 and never inf.
LEAST = 1e-37
SOURCE = Path(cpp.__file__).with_name("sequence.cpp").read_text(encoding="utf8")
CHUNK = int(re.search(r"int64_t CHUNK = (\d+);", SOURCE)[1])


def forward(given, carry="raw"):
    """Return what C++ makes of a case."""
    with torch.no_grad():
        return by_backend(carry, "cpp")(given)


def both_passes(given, carry, dys=None):
    results = by_backend(carry, "cpp")(given)
    return *results, *torch.autograd.grad(results, given.leaves(), dys or upstream(results))


# Sizes

ENDS = [*range(5), 7, 15, 16, 17, 31, 32, 33, 63, 65, 127, 128, 129, 255, 256, 257, 512, 1000]


def drawn(number):
    """Return a case of sizes at which vectors, tiles, panels, slices and chunks end, or others."""
    chance = random.Random(number)
    if number % 4 == 3:  # several chunks, with enough to do for several threads
        size, input_size, bias = 21, 13, True  # so small that rounding is not carried far
        sizes = (
            (1,) * (CHUNK + chance.choice([0, 1])),
            (CHUNK // 16,) * 35,
            tuple(range(CHUNK // 8, 0, -1)),
            (CHUNK + 90, CHUNK + chance.choice([0, 1]), 3, 3),
            (125, 124, 124, 120, 113, 101, 101, 99, 80, 64, 64, 33, 9, 1, 1, 1),
        )[number // 4 % 5]
    else:
        size, input_size = (chance.choice([*ENDS, chance.randint(1, 300)]) for _ in range(2))
        # Through the norm of one number nothing comes back: of such a gradient, all is rounding.
        size, bias = max(size, 2), chance.random() < 0.8
        batch = chance.choice([1, 2, 3, 4, 5, 8, 9, 17, 33, 40] if size < 300 else [1, 3, 5])
        steps = range(chance.choice([0, 1, 1, 2, 4]))
        rest = [chance.choice([batch, chance.randint(1, batch)]) for _ in steps]
        sizes = (batch, *sorted(rest, reverse=True))
    given = case(sizes, input_size, size, bias, F32)
    return given, chance.choice(CARRIES), chance


def rows_of(sizes, rows):
    """Return where some sequences have their rows, and how many of them take part in each step."""
    starts = accumulate(sizes, initial=0)
    steps = [[row for row in rows if row < size] for size in sizes]
    packed = [start + row for start, step in zip(starts, steps, strict=False) for row in step]
    return packed, [len(step) for step in steps if step]


def beside_nan(tensor):
    """Return a copy amid NaN, at an address that is no multiple of more than four bytes."""
    memory = torch.full((tensor.numel() + 2 * 67,), torch.nan)
    memory[67:-67] = tensor.flatten()
    return memory[67:-67].view(tensor.shape)


@few("number", range(120), 8)
def test_a_random_case_is_right_and_its_bits_depend_on_nothing_beside_it(number):
    """Neither on threads, nor on memory, on whether a gradient is wanted, or on other sequences."""
    given, carry, chance = drawn(number)
    assert_right(given, carry, "cpp", eps=0.1)  # so that no row is worse than the others
    everything = both_passes(given, carry)
    dys = upstream(everything[:3])
    for several in (1, chance.choice([2, 3, 5, 16])):
        with threads(several), memory_of_nan():
            again = both_passes(given.mapped(beside_nan), carry, [*map(beside_nan, dys)])
            assert_same_bits(again, everything)
            assert_same_bits(forward(given, carry), everything[:3])
    for weight in given.leaves()[3:]:
        weight.requires_grad_(False)  # sums over rows are not of a part of them
    for rows in ([0], sorted(chance.sample(range(given.batch_sizes[0]), len(given.h) // 2 or 1))):
        packed, own_sizes = rows_of(given.batch_sizes, rows)
        at = [packed, rows, rows]

        def taken(tensors, at=at):
            return [tensor.detach()[index] for tensor, index in zip(tensors, at * 2, strict=False)]

        own = [tensor.requires_grad_() for tensor in taken(given[:3])]
        with threads(chance.choice([1, 2, 3])):
            alone = both_passes(Case(*own, given.weights, own_sizes), carry, taken(dys))
        assert_same_bits(alone, taken(everything[:6]))


def test_threads_are_there_and_have_memory_of_their_own(monkeypatch):
    taken, scratch = [], cpp._scratch
    monkeypatch.setattr(cpp, "_scratch", lambda *of: taken.append(scratch(*of)) or taken[-1])
    for number in (1, 2):
        with threads(number):
            both_passes(case((125,) * 10, 13, 37, dtype=F32), "raw")
    assert [len(taken[n + 2]) > len(taken[n]) for n in (0, 1)] == [True, True]


# Numbers far from others


def without_norms(size, *gates, c=0.0, shift=50.0):
    """Return a step in which i, f, the candidate and o have biases alone, and so has the cell."""
    none = torch.zeros(4 * size)
    bias = torch.cat([torch.as_tensor(gate).expand(size) for gate in gates])
    shift, c = torch.as_tensor(shift).expand(size), torch.as_tensor(c).expand(1, size)
    matrices = torch.zeros(4 * size, 1), torch.zeros(4 * size, size)
    weights = Weights(*matrices, bias, none, none, none[:size], shift)
    return Case(torch.zeros(1, 1), torch.zeros(1, size), c, weights, (1,))


@pytest.mark.parametrize("size", [1, 7, 16, 253])
def test_the_functions_of_the_gates_are_right_to_a_few_roundings(size):
    """What is next to a gate is 0 or 1, so that sigmoid and tanh of a known number are left."""
    rows = 3000 // size + 1
    v = torch.linspace(-100, 100, rows * size).view(rows, size)
    v[1:] *= torch.logspace(-7, 0, rows - 1)[:, None]  # as close to 0
    v[-1] = torch.linspace(0.5, 0.8, size)
    found = []
    for known in v:
        o, _, i = forward(without_norms(size, known, 0.0, 100.0, known))
        tanh_n, _, f = forward(without_norms(size, -100.0, known, 0.0, 100.0, c=1.0, shift=known))
        _, _, candidate = forward(without_norms(size, 100.0, 0.0, known, 0.0))
        found.append((i, f, o, candidate, tanh_n))
    *sigmoids, candidate, tanh_n = (torch.cat(each).double() for each in zip(*found, strict=True))
    for found in sigmoids:
        true = v.double().sigmoid()
        torch.testing.assert_close(found, true, rtol=SIGMOID * EPS32, atol=LEAST)
    for found in (candidate, tanh_n):
        torch.testing.assert_close(found, v.double().tanh(), rtol=TANH * EPS32, atol=0)


@pytest.mark.parametrize("value", [0.1, 123.456, 1e12])
@pytest.mark.parametrize("name", ["ih", "hh", "c"])
@pytest.mark.parametrize("size", [128, 1000])
def test_a_row_without_spread_is_zero(size, name, value):
    """A rounded mean may miss its numbers, so that a multiple of 316 of a rounding is left."""
    given = case((1,), 1, size, dtype=F32)
    with torch.no_grad():
        given.x.fill_(1)
        given.h.zero_()[0, 0] = 1
        given.weights.hh[:, 1:].zero_()
        if name == "c":  # the gates of a cell are all a half, and the candidate is 0
            given.weights.bias.zero_()
            given.c.fill_(value)
        for each in ("ih", "hh") if name == "c" else (name,):
            getattr(given.weights, each).fill_(value)
        found = forward(given)
        {"ih": given.weights.norm_ih, "hh": given.weights.norm_hh, "c": given.weights.norm_c}[
            name
        ].zero_()
    assert_same_bits(found, forward(given))


@every_carry
def test_rows_far_from_zero_keep_their_digits(carry):
    """W_x x is, without a rounding, near 1e5. For dx, numbers around it all but cancel out."""
    given = case((3, 3), 1, 21, dtype=F32)
    with torch.no_grad():
        given.x.fill_(1)
        given.weights.ih.add_(1e5)
    given.x.requires_grad_(False)
    assert_right(given, carry, "cpp", eps=0.1)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e15, 1e25])
@pytest.mark.parametrize("name", ["x", "h", "c"])
@every_carry
def test_numbers_that_are_not_finite_go_on_as_in_the_loop(number, name, carry):
    given = case((5, 5, 5), size=7, dtype=F32)
    clean = values_and_gradients(by_backend(carry, "cpp"), given)
    with torch.no_grad():
        getattr(given, name)[2, ::3] = number
    found, expected = (
        values_and_gradients(by_backend(carry, way), given) for way in ("cpp", "reference")
    )
    for key in ("outputs", "h_n", "c_n", "dx", "dh", "dc"):
        ours, before = (each[key].unflatten(0, (-1, 5))[:, [0, 1, 3, 4]] for each in (found, clean))
        assert torch.equal(ours, before), key
        close = {"rtol": 1e-4, "atol": 1e-5, "equal_nan": True}
        torch.testing.assert_close(found[key], expected[key], **close, msg=key)


# Which passes are taken


def test_auto_takes_these_for_float32_on_a_cpu_and_no_others(monkeypatch):
    x = torch.zeros(2, 5)
    assert kernel_for("auto", x, 7) is kernel_for("cpp", x, 7) is cpp
    assert kernel_for("reference", x, 7) is None
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        assert kernel_for("auto", x.to(dtype), 7) is None
    monkeypatch.setattr(library, "why_not", lambda: "there is no compiler")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kernel_for("auto", x, 7) is None


def test_a_module_runs_on_them_with_a_call_a_direction(monkeypatch):
    calls = []
    for name in ("forward", "backward"):
        made = getattr(cpp, name)
        monkeypatch.setattr(cpp, name, lambda *given, made=made: calls.append(made) or made(*given))
    x = torch.zeros(4, 3, 5)
    for module, input, expected in (
        (lnlib.LayerNormLSTM(5, 7, num_layers=2, bidirectional=True), x, 8),
        (lnlib.LayerNormLSTMCell(5, 7), x[0], 2),
        (lnlib.LayerNormLSTM(5, 7, backend="reference"), x, 0),
    ):
        calls.clear()
        module(input)[0].sum().backward()
        assert len(calls) == expected
