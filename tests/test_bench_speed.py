"""The speed of layer norms: who is wrong is not timed, and ratios are those of one round."""

from __future__ import annotations

import math

import bench_speed as bench
import pytest
import torch
import torch.nn.functional as F
from bench_speed import BOTH, COMPOSED, EAGER, FORWARD, OURS, PYTORCH, REFERENCE, Case

from lnlib.book.records import tables

CASES = [Case(5, 7), Case(33, 257), Case(33, 257, torch.bfloat16)]


def found_by(layer_norm, case):
    given = bench.arguments_of(case)
    return bench.errors(layer_norm, given, bench.truth_of(given))


def by_hand(x, weight, bias, *, projected=True, eps=1e-5):
    """Return a layer norm whose dx lacks the terms of the statistics, unless ``projected``."""
    mean, var = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
    if not projected:
        mean, var = mean.detach(), var.detach()
    return (x - mean) / (var + eps).sqrt() * weight + bias


# The gate.


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("name", EAGER)
def test_everybody_who_is_timed_is_right(name, case):
    assert bench.complaint(found_by(EAGER[name], case), case.dtype) is None


WRONG = {
    "y": lambda x, shape, weight, bias: by_hand(x, weight, bias) * 1.02,
    "dx": lambda x, shape, weight, bias: by_hand(x, weight, bias, projected=False),
    "dweight": lambda x, shape, weight, bias: (
        by_hand(x, weight, bias) + weight - weight.detach()),
    "dbias": lambda x, shape, weight, bias: by_hand(x, weight, bias) + 0.3 * (bias - bias.detach()),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kind", WRONG)
def test_the_gate_refuses_what_is_wrong_and_names_it(kind, case):
    complaint = bench.complaint(found_by(WRONG[kind], case), case.dtype)
    assert f"wrong: {kind} off by" in complaint


def test_nothing_but_nan_is_wrong():
    found = found_by(lambda x, shape, *affine: by_hand(x, *affine) * math.nan, CASES[0])
    assert found["y"] == math.inf


def test_numbers_are_those_that_would_show_a_lost_term():
    given = bench.arguments_of(Case(257, 33))
    assert all(leaf.requires_grad for leaf in given[:3])
    for tensor in given:  # a gamma of 1, a bias or a mean of 0 would hide something
        assert tensor.std() > 0.1
        assert tensor.detach().mean().abs() > 0.05
    again = bench.arguments_of(Case(257, 33))
    assert all(torch.equal(a, b) for a, b in zip(given, again, strict=True))


def test_one_pass_keeps_nothing_and_the_other_gives_every_gradient():
    given = bench.arguments_of(Case(5, 7))
    assert not bench.forward(F.layer_norm, given).requires_grad
    shapes = [tensor.shape for tensor in bench.both_ways(F.layer_norm, given)]
    assert shapes == [given.x.shape, given.x.shape, given.weight.shape, given.bias.shape]


# What is told.


def measured(monkeypatch, entrants, milliseconds):
    """Measure with a clock that says of the n-th provider that a call takes so many ms."""
    times = dict(zip(entrants, milliseconds, strict=True))

    def in_turn(runs, seconds, at_least, at_most):
        slower = {FORWARD: 1, BOTH: 3}
        return {(n, p): [1e-3 * times[n] * slower[p] * r for r in (1, 2, 5)] for n, p in runs}

    monkeypatch.setattr(bench.timing, "in_turn", in_turn)
    return bench.measure(Case(5, 7), entrants, 0.0, 3)


def test_who_is_wrong_or_cannot_run_is_named_and_not_timed(monkeypatch, capsys):
    def broken(*arguments):
        raise RuntimeError("no compiler\nand so on")

    entrants = {PYTORCH: F.layer_norm, "spoiled": WRONG["dx"], "broken": broken}
    rows = measured(monkeypatch, entrants, (1, 1, 1))
    assert {row["provider"] for row in rows} == {PYTORCH}
    said = capsys.readouterr().out
    assert "spoiled: wrong: dx off by" in said
    assert "broken: does not run here: no compiler\n" in said


def test_nothing_is_told_without_pytorchs_own():
    with pytest.raises(RuntimeError, match="must be right"):
        bench.measure(Case(5, 7), {OURS: EAGER[OURS]}, 0.0, 3)


def test_ratios_are_to_pytorchs_time_of_the_same_pass_and_round(monkeypatch):
    rows = measured(monkeypatch, {PYTORCH: F.layer_norm, OURS: EAGER[OURS]}, (2, 5))
    told = {(row["provider"], row["pass"]): row for row in rows}
    assert told[OURS, FORWARD]["ms"] == "10"  # the median round takes twice as long as the first
    assert told[OURS, BOTH]["ms"] == "30"
    for which in (FORWARD, BOTH):
        assert told[OURS, which]["over_torch"] == "2.5"
        assert told[OURS, which]["quartiles"] == "2.5 to 2.5"
        assert told[PYTORCH, which]["over_torch"] == "1"


def test_ratio_is_the_median_of_rounds_with_quartiles():
    # Ratios 1, 2, 4, 8, 16: of five, the quartiles are one and a half places from the ends.
    slower, faster = [3.0, 2.0, 4.0, 16.0, 32.0], [3.0, 1.0, 1.0, 2.0, 2.0]
    assert bench.ratio(slower, faster) == ("4", "1.5 to 12")


def test_a_quick_run_tells_of_everybody_and_writes_nothing(monkeypatch, capsys):
    monkeypatch.setattr(bench, "write", None)  # to call it fails
    assert bench.main(["--quick"]) == 0
    told = [line.split("\t")[:3] for line in capsys.readouterr().out.splitlines()]
    wanted = [[n, p, d] for d in ("float32", "bfloat16") for p in (FORWARD, BOTH) for n in EAGER]
    assert told == wanted


@pytest.fixture(scope="module")
def table():
    return tables.rows_of(tables.RESULTS / "speed.csv")


def test_the_recorded_table_has_everybody_on_every_shape(table):
    keys = ("provider", "pass", "rows", "features", "dtype")
    told = {tuple(row[key] for key in keys) for row in table}
    for case in bench.CASES:
        shape = (f"{case.rows}", f"{case.features}", str(case.dtype).removeprefix("torch."))
        for name in (OURS, REFERENCE, COMPOSED, PYTORCH):  # the others need a compiler for C++
            assert {(name, which, *shape) for which in (FORWARD, BOTH)} <= told
    for column in ("date", "machine", "threads", "torch", "lnlib"):
        assert len({row[column] for row in table}) == 1
