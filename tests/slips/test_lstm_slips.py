"""A slip in the C++ of the LSTM is noticed: each is made in a copy, compiled, and must be seen."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

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


class Slip(NamedTuple):
    """What is written instead of what, and where it shows."""

    right: str
    wrong: str
    case: str = "packed"
    carry: str = "raw"


OF_ONE_STEP = {
    "the slope of the forget gate": Slip(
        "c_before[k] * f[k] * (1.0f - f[k])", "c_before[k] * f[k]"
    ),
    "the slope of the tanh of the cell": Slip("- tanh_n[k] * tanh_n[k]", "- tanh_n[k]"),
    "the normalized cell goes on": Slip("layer.carries_normalized ? n : c[k]", "n"),
    "dcarry does not reach the norm": Slip(
        "dn[k] += layer.carries_normalized ? dcarry[k] : 0.0f;", "", carry="normalized"
    ),
    "dcarry comes after the norm, too": Slip(
        "(layer.carries_normalized ? 0.0f : dcarry[k])", "dcarry[k]", carry="normalized"
    ),
    "the rest of the mean is left": Slip("x[r], rest[r]", "x[r], 0.0f", "far"),
    "a sign in the gradient of the norm": Slip("- x_hat[i] * mean", "+ x_hat[i] * mean"),
    "the end of a row is left out of a sum": Slip(
        "for (; i < n; ++i)\n", "for (; i + 1 < n; ++i)\n"
    ),
}
OF_PRODUCTS = {
    "the last columns of a product": Slip("bytes = (n - v * LANES) *", "bytes = 0 *"),
    "of two panels the first": Slip("of_b[At % V]", "of_b[0]"),
    "the last row of a tile": Slip("if (i < M) tile<1, V>", "if (false) tile<1, V>"),
    "DEPTH of K instead of what is before": Slip(
        "of_panel * LANES, c + j, stride, N - j, adds || k > 0);\n            else",
        "of_panel * LANES, c + j, stride, N - j, adds);\n            else",
        "wide",
    ),
    "a vector too many of a packed row": Slip("if (j == N) return;", "", "whole"),
    "few rows are one": Slip("a[r * K + k + row]", "a[k + row]", "few"),
    "the last row of a slice": Slip(
        "(Transposed{slice}, end - first", "(Transposed{slice}, end - first - 1"
    ),
    "lanes change places": Slip("a = v[i], b = v[i + HALF];", "b = v[i], a = v[i + HALF];"),
    "a slice is multiplied by the first rows": Slip(
        "packed + k * LANES, chunk.rows", "packed, chunk.rows", "tall"
    ),
}
OF_SEQUENCES = {
    "the last strand is left out": Slip(
        "parts(s.batch, std::max<int64_t>(strand, 1))", "s.batch / std::max<int64_t>(strand, 1)"
    ),
    "threads share what is their own": Slip(
        "of_threads = scratch.take(of_thread * division.threads);",
        "of_threads = scratch.take(of_thread * division.threads), of_thread = 0;",
    ),
    "nobody waits for the other strands": Slip(
        "#pragma omp for schedule(dynamic)\n", "#pragma omp for schedule(dynamic) nowait\n"
    ),
    "a block of sums is of a strand": Slip("sums + (first + r) / ROWS *", "sums + first / ROWS *"),
    "chunks are of the number of threads": Slip(
        "<= CHUNK) --begin", "<= CHUNK / s.threads) --begin"
    ),
    "sums of the chunk after are lost": Slip("d->sums[k] += plan", "d->sums[k] = plan"),
    "c is of the step itself": Slip(
        "const float* c_before = before(s, s.c, s.cells, step,",
        "const float* c_before = before(s, s.c, s.cells, step ? step + 1 : 0,",
    ),
    "a weight's gradient is of the other": Slip(
        "add_product(chunk, chunk.da_x", "add_product(chunk, chunk.da_h"
    ),
    "the last states are those of the last step": Slip(
        "if (first + r < rows_of(s, step + 1)) continue;", "if (step + 1 < s.steps) continue;"
    ),
    "a row has the statistic of the first": Slip(
        "rstd_h = s.rstd_a[start + r]", "rstd_h = s.rstd_a[start]"
    ),
}
SLIPS = OF_ONE_STEP | OF_PRODUCTS | OF_SEQUENCES
RACES = "threads share what is their own", "nobody waits for the other strands"


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
    if name == "packed":
        return case((67,) * 6 + (66, 60, 60, 50, 33, 33, 20, 9, 9, 1), size=21, dtype=torch.float32)
    if name == "whole":
        return case((67, 66, 3), input_size=16, size=16, dtype=torch.float32)
    if name == "wide":
        return case((9, 5, 2), input_size=300, size=21, dtype=torch.float32)
    if name == "few":
        return case((2,), size=21, dtype=torch.float32)
    if name == "tall":
        return case((300, 2), size=21, dtype=torch.float32)
    given = case((3, 3), input_size=1, size=21, dtype=torch.float32)
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


@pytest.mark.parametrize("carry", CARRIES)
def test_without_a_slip_all_is_right(carry, tmp_path, monkeypatch):
    run_anew(tmp_path, monkeypatch)
    for name in ("packed", "few", "whole", "wide", "tall", "far"):
        assert is_right(name, carry), name


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_noticed(name, tmp_path, monkeypatch):
    right, wrong, case, carry = SLIPS[name]
    run_anew(tmp_path, monkeypatch, right, wrong)
    assert not all(is_right(case, carry) for _ in range(TRIES if name in RACES else 1))
