"""A slip in the C++ of the LSTM is noticed: each is made in a copy, compiled, and must be seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled import NEEDS_CPP, NEEDS_GPP, compiled_anew
from lstm_cases import CARRIES
from test_lstm_cpp import (
    test_a_random_case_is_right_and_its_bits_depend_on_nothing_beside_it as check,
)
from test_lstm_cpp import test_rows_far_from_zero_keep_their_digits as check_far

from lnlib.cpp_kernel import library
from lnlib.lstm import cpp

pytestmark = [pytest.mark.tier("weekly"), NEEDS_CPP, NEEDS_GPP]

CASES = range(24)  # what test_lstm_cpp.py draws
TRIES = 50  # of threads to get in each other's way


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


def run_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch, right: str = "", wrong: str = ""
) -> None:
    """Have the LSTM run a copy of its C++ in which ``wrong`` stands for ``right``."""
    made = compiled_anew(folder, "lnlib/lstm/sequence.cpp", right, wrong)
    with monkeypatch.context() as patch:
        patch.setattr(library, "library", lambda: made)
        found = cpp._library.__wrapped__()
    monkeypatch.setattr(cpp, "_library", lambda: found)


def is_noticed(cases: range | list[int]) -> bool:
    try:
        for number in cases:
            check(number)
        for carry in CARRIES:
            check_far(carry)
    except AssertionError:
        return True
    return False


def test_without_a_slip_all_is_right(tmp_path, monkeypatch):
    run_anew(tmp_path, monkeypatch)
    assert not is_noticed(CASES)


@pytest.mark.parametrize("slip", [*SLIPS.strip().splitlines(), *RACES.strip().splitlines()])
def test_a_slip_is_noticed(slip, tmp_path, monkeypatch):
    right, wrong = (each.strip(" ").replace(r"\n", "\n") for each in slip.split("→"))
    run_anew(tmp_path, monkeypatch, right, wrong)
    assert is_noticed([7] * TRIES if slip in RACES else CASES)
