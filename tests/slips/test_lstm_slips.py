"""A slip in the C++ of the LSTM is noticed: each is made in a copy, compiled, and must be seen."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import pytest
import torch
from compiled import NEEDS_CPP, NEEDS_GPP, compiled_anew
from lstm_cases import (
    CARRIES,
    Case,
    by_backend,
    by_formula,
    case,
    errors,
    memory_of_nan,
    threads,
    values_and_gradients,
)

from lnlib.cpp_kernel import library
from lnlib.lstm import cpp

pytestmark = [pytest.mark.tier("weekly"), NEEDS_CPP, NEEDS_GPP]

ROUNDINGS = 128 * torch.finfo(torch.float32).eps  # as in test_lstm_cpp.py
EPS = 0.1  # so large that its place can be seen
TRIES = 50  # of two threads to get in each other's way


# What is written in the C++ → a slip in its place; an empty end leaves it out.
SLIPS = r"""
c_before[k] * f[k] * (1.0f - f[k]) → c_before[k] * f[k]
- tanh_n[k] * tanh_n[k] → - tanh_n[k]
layer.carries_normalized ? n : c[k] → n
dn[k] += layer.carries_normalized ? dcarry[k] : 0.0f; →
(layer.carries_normalized ? 0.0f : dcarry[k]) → dcarry[k]
x[r], rest[r] → x[r], 0.0f
- x_hat[i] * mean → + x_hat[i] * mean
for (; i < n; ++i)\n → for (; i + 1 < n; ++i)\n
bytes = (n - v * LANES) * → bytes = 0 *
of_b[At % V] → of_b[0]
if (i < M) tile<1, V> → if (false) tile<1, V>
N - j, adds || k > 0);\n            else → N - j, adds);\n            else
if (j == N) return; →
a[r * K + k + row] → a[k + row]
(Transposed{slice}, columns → (Transposed{slice}, columns - 1
a = v[i], b = v[i + HALF]; → b = v[i], a = v[i + HALF];
packed + k * LANES, plan.rows → packed, plan.rows
parts(s.batch, std::max<int64_t>(strand, 1)) → s.batch / std::max<int64_t>(strand, 1)
sums + (first + r) / ROWS * → sums + first / ROWS *
<= CHUNK;) --begin → <= CHUNK / s.threads;) --begin
s->sums[k] += plan → s->sums[k] = plan
before(s, s.c, s.cells, step, first + r); → before(s, s.c, s.cells, step ? step + 1 : 0, first + r);
add_product(plan, plan.da_x → add_product(plan, plan.da_h
if (first + r < rows_of(s, step + 1)) continue; → if (step + 1 < s.steps) continue;
rstd_h = s.rstd_a[start + r] → rstd_h = s.rstd_a[start]
"""
RACES = r"""
take(of_thread * threads); → take(of_thread * threads), of_thread = 0;
#pragma omp for schedule(dynamic)\n → #pragma omp for schedule(dynamic) nowait\n
"""
CASES = ("packed", "few", "whole", "wide", "tall", "far")


def run_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch, right: str = "", wrong: str = ""
) -> None:
    """Have the LSTM run a copy of its C++ in which ``wrong`` stands for ``right``."""
    made = compiled_anew(folder, "lnlib/lstm/sequence.cpp", right, wrong)
    with monkeypatch.context() as patch:
        patch.setattr(library, "library", lambda: made)
        found = cpp._library.__wrapped__()
    monkeypatch.setattr(cpp, "_library", lambda: found)


@functools.cache
def case_of(name: str) -> Case:
    """Return sequences of which every part of the C++ has something to do.

    * packed: several strands and chunks, and three threads. A row ends with some lanes of a vector,
      a step with one and with two rows of a tile, a strand in the midst of a block of sums.
    * whole: rows that end with a vector.
    * wide: an input that is multiplied in two goes.
    * few: rows for which weights are not packed.
    * tall: rows of a chunk that are multiplied in two goes.
    * far: W_x x is, without a rounding, far from zero.
    """
    sizes, input_size, size = {
        "packed": ((67,) * 6 + (66, 60, 60, 50, 33, 33, 20, 9, 9, 1), 5, 21),
        "whole": ((67, 66, 3), 16, 16),
        "wide": ((9, 5, 2), 300, 21),
        "few": ((2,), 5, 21),
        "tall": ((300, 2), 5, 21),
        "far": ((3, 3), 1, 21),
    }[name]
    given = case(sizes, input_size, size, dtype=torch.float32)
    if name != "far":
        return given
    with torch.no_grad():
        given.x.fill_(1)
        given.weights.ih.add_(1e5)
    given.x.requires_grad_(False)  # for its gradient, numbers around 1e5 all but cancel out
    return given


@functools.cache
def truth(name: str, carry: str) -> dict[str, torch.Tensor]:
    return values_and_gradients(by_formula(carry, EPS), case_of(name).to(torch.float64))


def is_right(name: str, carry: str) -> bool:
    """Tell whether all is near to the equations, and has the same bits in every way."""
    given, run = case_of(name), by_backend(carry, "cpp", EPS)
    with memory_of_nan():
        with threads(1):
            found = values_and_gradients(run, given)
        with threads(3):
            again = values_and_gradients(run, given)
            with torch.no_grad():
                silent = dict(zip(again, run(given), strict=False))
    near = max(errors(found, truth(name, carry)).values()) < ROUNDINGS
    pairs = [(tensor, found[key]) for each in (again, silent) for key, tensor in each.items()]
    return near and all(torch.equal(a, b) for a, b in pairs)


def is_noticed(tries: int) -> bool:
    return not all(
        is_right(*each) for each in itertools.product(CASES, CARRIES) for _ in range(tries)
    )


def test_without_a_slip_all_is_right(tmp_path, monkeypatch):
    run_anew(tmp_path, monkeypatch)
    assert not is_noticed(tries=1)


@pytest.mark.parametrize("slip", [*SLIPS.strip().splitlines(), *RACES.strip().splitlines()])
def test_a_slip_is_noticed(slip, tmp_path, monkeypatch):
    right, wrong = (each.strip(" ").replace(r"\n", "\n") for each in slip.split("→"))
    run_anew(tmp_path, monkeypatch, right, wrong)
    assert is_noticed(TRIES if slip in RACES else 1)
